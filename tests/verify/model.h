/* SPDX-License-Identifier: Apache-2.0
 *
 * Small plans for judging the verifier: random correct ones, mutants of them, and the truth about both. The truth
 * comes from executing every order that streams and events (or edges) allow on memory in which each byte holds a
 * hash of where its value came from; it shares no idea with the verifier.
 */
#ifndef STEM_TESTS_VERIFY_MODEL_H
#define STEM_TESTS_VERIFY_MODEL_H

#include "base/arena.h"
#include "runtime/plan.h"

struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n);
static inline bool rng_chance(struct rng *r, uint32_t percent)
{
    return rng_below(r, 100) < percent;
}

/* ---- random.c: correct by construction; one variant, at most 9 ops, memory from the arena ---- */
struct stem_plan *plan_random(struct stem_arena *a, struct rng *r);
/* A deep copy whose arrays may be written through a cast. */
struct stem_plan *plan_copy(struct stem_arena *a, const struct stem_plan *p);
/* After the steps have changed: segments' ranges, and (if `edges`) the edges that the steps imply. */
void plan_refresh(struct stem_arena *a, struct stem_plan *p, bool edges);

/* ---- exact.c ---- */
enum truth { TRUTH_SAFE, TRUTH_UNSAFE, TRUTH_UNKNOWN /* too many steps or orders */ };
/* *why: a few words. */
enum truth plan_truth(const struct stem_plan *p, const char **why);

/* ---- hazard.c: for plans of any size ---- */
/* A few words about a race, a lifetime that is too short, or bytes used again too early; NULL if there are none. */
const char *plan_hazard(const struct stem_plan *p);

/* ---- mutate.c ---- */
const char *mutation_name(uint32_t kind);
extern const uint32_t n_mutations;
/* Changes the plan by mutation `kind`; false if there is nothing to change. */
bool plan_mutate(struct stem_arena *a, struct stem_plan *p, uint32_t kind, struct rng *r);

#endif
