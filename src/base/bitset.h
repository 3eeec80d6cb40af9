/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixed-size set of small numbers, in an arena.
 */
#ifndef STEM_BASE_BITSET_H
#define STEM_BASE_BITSET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct stem_bitset {
    uint64_t *word;
    uint32_t bits;
};

static inline struct stem_bitset stem_bitset_new(struct stem_arena *a, uint32_t bits)
{
    return (struct stem_bitset){STEM_NEW_ARRAY(a, uint64_t, (bits + 63) / 64), bits};
}

static inline bool stem_bitset_has(const struct stem_bitset *s, uint32_t i)
{
    return s->word[i / 64] >> (i % 64) & 1;
}

static inline void stem_bitset_add(struct stem_bitset *s, uint32_t i)
{
    s->word[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void stem_bitset_remove(struct stem_bitset *s, uint32_t i)
{
    s->word[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* s |= t; both of the same size. True if s changed. */
static inline bool stem_bitset_union(struct stem_bitset *s, const struct stem_bitset *t)
{
    bool changed = false;
    for (uint32_t w = 0; w < (s->bits + 63) / 64; w++) {
        uint64_t now = s->word[w] | t->word[w];
        changed |= now != s->word[w];
        s->word[w] = now;
    }
    return changed;
}

#endif
