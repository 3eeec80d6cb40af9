/* SPDX-License-Identifier: Apache-2.0
 *
 * How linear_wide.cuh cuts a product.
 */
#ifndef STEM_OPS_WIDE_H
#define STEM_OPS_WIDE_H

#include "ops/linear/even.h"

/* A cluster of `cluster` blocks of `groups` warpgroups for each 64 rows of w and 8 * nt rows of x. */
struct stem_wide_shape {
    uint32_t nt, stages, groups, cluster, smem;
};

/* False if this product, or this architecture, is not for it. */
bool stem_wide_shape(const struct stem_even_product *p, const struct stem_target *t, struct stem_wide_shape *s);

/* The kernel for linear c. early: the weight and its scales are read before the wait. */
void stem_wide_lower(const struct stem_concrete *c, const struct stem_even_product *p, const struct stem_wide_shape *s,
                     bool early, struct stem_arena *a, struct stem_lowered *l);

#endif
