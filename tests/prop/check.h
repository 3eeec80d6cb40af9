/* SPDX-License-Identifier: Apache-2.0
 *
 * A checker of schedules for small programs that shares nothing with the passes: happens-before is reachability in a
 * graph, and every rule is tested on every pair.
 */
#ifndef STEM_TESTS_CHECK_H
#define STEM_TESTS_CHECK_H

#include "pass/pass.h"

/* NULL if the schedule is right and minimal; else what is wrong, in a static buffer. Takes cubic time. */
const char *check_schedule(const struct stem_program *p, const struct stem_options *options);

#endif
