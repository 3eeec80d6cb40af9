/* SPDX-License-Identifier: Apache-2.0
 *
 * What the comparison of plans in words and as a page share: which ops are the same, and which were moved.
 */
#ifndef STEM_REPORT_DIFF_H
#define STEM_REPORT_DIFF_H

#include "base/str.h"
#include "report/report.h"

struct stem_diff_side {
    const struct stem_plan *p;
    const struct stem_plan_variant *v;
    uint32_t *key;   /* by op */
    uint32_t *op_of; /* by key: the op, STEM_NONE: there is none */
};

/* Two variants; ops are the same if they have the same name and are as many-th of that name. */
struct stem_diff_pair {
    struct stem_diff_side a, b;
    bool *moved; /* by op of b: it has a counterpart, and is one of the fewest whose moving explains the new order */
};
/* The sides' `p` and `v` are set; the rest is made here. */
void stem_diff_pair(struct stem_diff_pair *d, struct stem_arena *a);
/* The counterpart in the other side; STEM_NONE: none. */
uint32_t stem_diff_other(const struct stem_diff_side *from, const struct stem_diff_side *to, uint32_t op);
/* "the kernel runs elsewhere": how op `i` of a became op `k` of b, a phrase for each thing; each is said once. */
void stem_diff_op(const struct stem_diff_pair *d, uint32_t i, uint32_t k, struct stem_arena *a,
                  void (*say)(void *user, const char *phrase), void *user);
/* The variant of `b` that is the counterpart of variant `k` of `a`, STEM_NONE: none. */
uint32_t stem_diff_variant(const struct stem_plan *a, const struct stem_plan *b, uint32_t k);
/* "T=4, S=1", "" without dims. */
const char *stem_diff_dims(const struct stem_plan *p, const struct stem_plan_variant *v, struct stem_arena *a);

#endif
