/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement in another order than that of first use, most often the largest first: each item goes into a gap that the
 * items it conflicts with, and that are placed already, leave. (Greedy by size, Pisarchyk and Lee 2020.)
 */
#include "pass/place.h"

#include <stdlib.h>

struct entry {
    uint64_t weight; /* larger first */
    uint32_t item;
};

static int heavy_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

struct range {
    uint64_t begin, end;
};

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static uint64_t gap(const struct stem_item *item, const struct range *r, uint32_t n, bool tightest)
{
    uint64_t at = 0, best = UINT64_MAX, best_size = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t place = (at + item->align - 1) & ~(uint64_t)(item->align - 1);
        if (r[i].begin >= place + item->bytes && r[i].begin - at < best_size) {
            best = place;
            best_size = r[i].begin - at;
            if (!tightest)
                return best;
        }
        at = r[i].end > at ? r[i].end : at;
    }
    return best != UINT64_MAX ? best : (at + item->align - 1) & ~(uint64_t)(item->align - 1);
}

uint64_t stem_place_sorted(struct stem_arena *a, const struct stem_items *s, const struct stem_conflicts *c,
                           bool by_pairs, bool tightest, uint64_t *offset)
{
    struct entry *order = STEM_NEW_ARRAY(a, struct entry, s->n);
    bool *placed = STEM_NEW_ARRAY(a, bool, s->n);
    STEM_VEC(struct range) taken = {0};
    uint64_t size = 0;
    for (uint32_t i = 0; i < s->n; i++)
        order[i] = (struct entry){s->at[i].bytes * (by_pairs ? 1 + c->begin[i + 1] - c->begin[i] : 1), i};
    qsort(order, s->n, sizeof *order, heavy_first);
    for (uint32_t k = 0; k < s->n; k++) {
        uint32_t i = order[k].item;
        stem_vec_clear(&taken);
        for (uint32_t e = c->begin[i]; e < c->begin[i + 1]; e++)
            if (placed[c->other[e]])
                stem_vec_push(&taken,
                              (struct range){offset[c->other[e]], offset[c->other[e]] + s->at[c->other[e]].bytes});
        if (taken.len > 1)
            qsort(taken.at, taken.len, sizeof *taken.at, by_begin);
        offset[i] = gap(&s->at[i], taken.at, taken.len, tightest);
        placed[i] = true;
        size = offset[i] + s->at[i].bytes > size ? offset[i] + s->at[i].bytes : size;
    }
    stem_vec_free(&taken);
    return size;
}
