/* SPDX-License-Identifier: Apache-2.0
 *
 * Who touches a buffer.
 */
#ifndef STEM_PASS_LIFETIME_H
#define STEM_PASS_LIFETIME_H

#include "pass/graph.h"
#include "pass/hb.h"

/* Ops that touch buffer b, in issue order, each once: op[begin[b]] .. op[begin[b + 1] - 1]. Views count for their
 * buffer. */
struct stem_touches {
    uint32_t *begin, *op;
};
struct stem_touches stem_touches_new(struct stem_arena *a, const struct stem_program *p);

/* Fills last_use, first_use and free_after. */
void stem_lifetime_build(struct stem_program *p, struct stem_arena *scratch);

#endif
