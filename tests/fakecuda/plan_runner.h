/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes a compiled plan's kernels under the stand-in driver with the ops' C references.
 */
#ifndef FAKECUDA_PLAN_RUNNER_H
#define FAKECUDA_PLAN_RUNNER_H

#include <stdint.h>

#include "runtime/plan.h"

struct plan_runner {
    const struct stem_plan *plan;
    uint32_t variant; /* that is being launched: its ops are looked at first */
    uint64_t launches;
    char error[512]; /* the first that went wrong, "" if nothing */
    struct plan_runner *more; /* of other plans, looked at next; NULL: none */
};

/* Defines the layout of every kernel of the plan and of the runtime's own, and installs the runner. `r` must stay. */
void plan_runner_install(struct plan_runner *r, const struct stem_plan *plan, uint32_t variant);
/* The kernels of another plan too. */
void plan_runner_add(struct plan_runner *r, struct plan_runner *more, const struct stem_plan *plan);
/* The runtime's own kernels alone: define them, and execute one (false: not one of them). */
void plan_runner_define_builtin(void);
bool plan_runner_builtin(const char *kernel, void *const *params);

#endif
