/* SPDX-License-Identifier: Apache-2.0
 *
 * Smaller programs that show the same failure.
 */
#ifndef STEM_TESTS_SHRINK_H
#define STEM_TESTS_SHRINK_H

#include "flow.h"

/* Does the program fail? It may be changed; it is thrown away afterwards. */
typedef bool shrink_fails(void *user, struct flow *f);

/* A program before the passes, of extern ops, without the ops that `keep` leaves out (NULL: all are kept) and those
 * that need what such ops compute. Buffers that nobody uses any more are gone; costs, pins, resources and order stay.
 */
struct flow shrink_copy(const struct flow *f, const bool *keep);
/* The smallest program found that still fails, by leaving out fewer and fewer ops at a time, then reads, pins,
 * resources and `after`s. f must fail. */
struct flow shrink_program(const struct flow *f, shrink_fails *fails, void *user);
/* Prints it on stderr as a text that `--from=ir` reads. */
void shrink_show(const struct flow *f, const char *what);

#endif
