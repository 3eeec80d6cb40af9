/* SPDX-License-Identifier: Apache-2.0
 *
 * How linear_even.cuh cuts a product.
 */
#ifndef STEM_OPS_EVEN_H
#define STEM_OPS_EVEN_H

#include "ops/epilogue.h"
#include "ops/op.h"

/* A product: m rows of x, `columns` results of a row (half of the rows of w if `pair`), k; w's type. */
struct stem_even_product {
    enum stem_dtype weight;
    int64_t m, columns, k;
    bool pair;
    bool coded; /* x is in f8e4m3, with its scales */
};

/* Tiles are of 16 * mt rows of w and, in the second direction of the grid, of `most` rows of x, in groups of 8 * nt, or of nt if tokens are in
 * fixed point (fixed.cuh); `each` of the first kind make a round. `room` blocks of `warps` warps fit a multiprocessor, and per_sm of this kernel are there. */
struct stem_even_shape {
    uint32_t mt, nt, stages, warps, room, per_sm, cluster, most, each, clusters, smem;
    bool fixed;
};

/* False if no way fits this architecture. */
bool stem_even_shape(const struct stem_even_product *p, const struct stem_target *t, struct stem_even_shape *s);

/* The kernel for linear c. early: the weight and its scales are read before the wait. */
void stem_even_lower(const struct stem_concrete *c, const struct stem_even_product *p, const struct stem_even_shape *s,
                     bool early, struct stem_arena *a, struct stem_lowered *l);

#endif
