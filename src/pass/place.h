/* SPDX-License-Identifier: Apache-2.0
 *
 * Placing temporaries in the slab: items with clocks that say who may share bytes, several heuristics, a lower bound.
 */
#ifndef STEM_PASS_PLACE_H
#define STEM_PASS_PLACE_H

#include "pass/hb.h"

/* A temporary buffer that is used. Items are in the order of their first use. */
struct stem_item {
    uint64_t bytes;                 /* rounded up to the alignment */
    uint32_t align, buffer, stream; /* stream of the first use */
    const uint32_t *known;          /* by stream: what has happened before any first use */
    const uint32_t *done;           /* by stream: place of the last use, 0 if none */
};

struct stem_items {
    struct stem_item *at;
    uint32_t n, n_streams;
    uint32_t *floor; /* by item, n_streams each: what every item from this one on knows */
    uint32_t *own;   /* the same of the items on its own stream only */
};

struct stem_items stem_items_new(struct stem_arena *a, const struct stem_program *p);

/* True if every last use of x has happened before any first use of y: y may take x's bytes. */
static inline bool stem_item_before(const struct stem_items *s, uint32_t x, const uint32_t *known)
{
    bool before = true;
    for (uint32_t i = 0; i < s->n_streams; i++)
        before &= s->at[x].done[i] <= known[i];
    return before;
}

/* Pairs that must not share bytes: conflicts of item i are other[begin[i]] .. other[begin[i + 1] - 1]. */
struct stem_conflicts {
    uint32_t *begin, *other; /* begin NULL: more than `limit` pairs */
    uint64_t bound;          /* bytes of the heaviest set of items found that all conflict with each other */
};
struct stem_conflicts stem_conflicts_new(struct stem_arena *a, const struct stem_items *s, uint32_t limit);

/* Each fills offset[] (by item) and returns the slab's size. */
/* In order of first use: into the lowest gap that is long enough, or the tightest one. *all: false if that took too
 * much work, and the last items went to the end. */
uint64_t stem_place_sweep(struct stem_arena *a, const struct stem_items *s, bool tightest, uint64_t *offset,
                          bool *all);
/* Largest first; `by_pairs`: the product of bytes and number of conflicts first. Each into the tightest or lowest gap
 * that its conflicts leave. */
uint64_t stem_place_sorted(struct stem_arena *a, const struct stem_items *s, const struct stem_conflicts *c,
                           bool by_pairs, bool tightest, uint64_t *offset);

/* Runs them all and keeps the best; sets offsets, slab_bytes and slab_bound. */
void stem_place(struct stem_program *p, struct stem_arena *scratch);

#endif
