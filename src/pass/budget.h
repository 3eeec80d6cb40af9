/* SPDX-License-Identifier: Apache-2.0
 *
 * Buying bytes with waits.
 */
#ifndef STEM_PASS_BUDGET_H
#define STEM_PASS_BUDGET_H

#include "pass/pass.h"

/* Adds MEMORY deps until the slab fits options.memory_budget, and says in a remark what that costs. False after an
 * error: it cannot be done with this issue order. Waits, lifetimes and offsets are up to date afterwards. */
bool stem_memory_buy(struct stem_program *p, struct stem_pass_ctx *ctx);

#endif
