/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_EXPERTS_H
#define STEM_OPS_EXPERTS_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_experts, stem_op_experts_up, stem_op_experts_down;
void stem_experts_up_reference(const struct stem_concrete *c, void *const *data);
void stem_experts_down_reference(const struct stem_concrete *c, void *const *data);

/* NULL-terminated: silu, gelu (exact, by erf), relu. */
extern const char *const stem_experts_acts[];

/* Sizes of one call, from the operands of experts_up or experts_down. */
struct stem_experts_sizes {
    int64_t tokens, k, experts, hidden, inter;
    int64_t tile, tiles; /* tokens that one grouping covers (STEM_GROUP_PAIRS in groups.cuh), and how many of these */
};
struct stem_experts_sizes stem_experts_up_sizes(const struct stem_concrete *c);
struct stem_experts_sizes stem_experts_down_sizes(const struct stem_concrete *c);
/* Expected number of distinct experts of `tokens` tokens whose choices are spread evenly. */
uint64_t stem_experts_distinct(const struct stem_experts_sizes *s);
/* Groups of 8 pairs that are multiplied at once: two where an expert is likely to be chosen by more than a few of a
 * tile's tokens, else one. */
uint32_t stem_experts_nt(const struct stem_experts_sizes *s);
/* Whether a ring of this size can hold the scratch that grouping needs (stem_groups_scratch in groups.cuh). */
bool stem_experts_can_group(const struct stem_experts_sizes *s, uint32_t ring);
/* Scalars tokens, k, experts, hidden, inter. */
void stem_experts_scalars(const struct stem_experts_sizes *s, struct stem_lowered *l);

/* C++ name of the attribute act. */
const char *stem_experts_act(const struct stem_concrete *c);
/* Rest of the lowering, for weights with scales; scalars are set. */
void stem_experts_lower_up_packed(const struct stem_concrete *c, const struct stem_experts_sizes *s,
                                  const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l);
void stem_experts_lower_down_packed(const struct stem_concrete *c, const struct stem_experts_sizes *s,
                                    const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l);
/* experts_down by warpgroups, which takes h in codes, too (operand 5 has their scales). */
bool stem_experts_down_is_wide(const struct stem_experts_sizes *s, enum stem_dtype weight, const struct stem_target *t);
void stem_experts_lower_down_wide(const struct stem_concrete *c, const struct stem_experts_sizes *s, const struct stem_target *t,
                                  struct stem_arena *a, struct stem_lowered *l);
/* experts_up of a single token by warpgroups (one_wide.cuh). */
bool stem_experts_up_is_wide(const struct stem_concrete *c, const struct stem_experts_sizes *s, const struct stem_target *t);
void stem_experts_lower_up_wide(const struct stem_concrete *c, const struct stem_experts_sizes *s, const struct stem_target *t,
                                struct stem_arena *a, struct stem_lowered *l);

#endif
