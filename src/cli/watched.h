/* SPDX-License-Identifier: Apache-2.0
 *
 * Running other people's code, inline kernels and extern functions on the CPU, in a process of its own: if it ends by a
 * signal, the op that it was in is named.
 */
#ifndef STEM_CLI_WATCHED_H
#define STEM_CLI_WATCHED_H

#include "cpu/cpu.h"

/* Whether the plan has such code. */
bool stem_cli_has_code(const struct stem_plan *plan);
/* The exit status of work(user, watch), in a child; STEM_EXIT_INPUT after a message if a signal ended it. What it changes in
 * memory is lost. */
int stem_cli_watched(int (*work)(void *user, struct stem_cpu_watch *watch), void *user);

#endif
