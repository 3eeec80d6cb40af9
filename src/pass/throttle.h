/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeping streams of a long program from drifting apart.
 */
#ifndef STEM_PASS_THROTTLE_H
#define STEM_PASS_THROTTLE_H

#include "pass/pass.h"

/* Adds MEMORY deps where they make the slab at least a tenth smaller and cost next to nothing; else changes nothing.
 * Waits, lifetimes and offsets are up to date before and afterwards. */
void stem_memory_throttle(struct stem_program *p, struct stem_pass_ctx *ctx);

/* Waits, lifetimes and offsets anew, from deps and order. */
void stem_memory_rebuild(struct stem_program *p, struct stem_pass_ctx *ctx);
/* Removes or sorts in the deps of kind MEMORY. */
void stem_memory_drop_deps(struct stem_program *p);
void stem_memory_sort_deps(struct stem_program *p);

#endif
