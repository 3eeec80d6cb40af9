/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement in order of first use. The slab is a list of regions by address; a region is free or holds the item that
 * used it last. An item may take any run of regions whose items it knows to be done, so that nothing has to be
 * simulated. What is done for good becomes free and is merged; what no later item can know to be done is merged, too,
 * and never looked into. So the list is as long as there are items alive, whatever the program's length.
 */
#include "pass/place.h"

#define FREE UINT32_MAX
#define TAKEN (UINT32_MAX - 1) /* for good */

/* Regions looked at in all; above it, new items go to the end of the slab without looking. */
#define WORK_PER_ITEM 256
#define WORK_ALWAYS 8000000

struct region {
    uint64_t begin, end;
    uint32_t item; /* or FREE, TAKEN */
};

struct state {
    const struct stem_items *s;
    STEM_VEC(struct region) list, next;
    const uint32_t **last_known; /* by stream: what the last item first used there knows; NULL: none */
    uint32_t *last_item;         /* by stream: that item */
    uint64_t work;
};

static void append(struct state *x, struct region r)
{
    if (r.begin == r.end)
        return;
    struct region *last = x->next.len ? &stem_vec_last(&x->next) : NULL;
    if (last && last->item == r.item && (r.item == FREE || r.item == TAKEN))
        last->end = r.end;
    else
        stem_vec_push(&x->next, r);
}

/* Whether an item after i can know that item `of` is done. */
static bool reusable(const struct state *x, uint32_t of, uint32_t i)
{
    for (uint32_t t = 0; t < x->s->n_streams; t++)
        if (x->last_known[t] && x->last_item[t] > i && stem_item_before(x->s, of, x->last_known[t]))
            return true;
    return false;
}

static uint64_t align_up(uint64_t at, uint32_t align)
{
    return (at + align - 1) & ~(uint64_t)(align - 1);
}

/* Where item i goes: the end of the last run counts as endless, but any other run comes first. */
static uint64_t find(struct state *x, uint32_t i, bool tightest)
{
    const struct stem_item *item = &x->s->at[i];
    uint64_t begin = 0, best = UINT64_MAX, best_size = UINT64_MAX, end = 0;
    bool open = false;
    for (uint32_t k = 0; k <= x->list.len; k++) {
        const struct region *r = k < x->list.len ? &x->list.at[k] : NULL;
        bool usable = r && (r->item == FREE || (r->item != TAKEN && stem_item_before(x->s, r->item, item->known)));
        if (usable && !open)
            begin = r->begin;
        if (open && !usable && r && align_up(begin, item->align) + item->bytes <= end && end - begin < best_size) {
            best = align_up(begin, item->align);
            best_size = end - begin;
            if (!tightest)
                return best;
        }
        if (!r)
            break;
        open = usable;
        end = r->end;
    }
    if (open && align_up(begin, item->align) + item->bytes <= end && end - begin < best_size)
        return align_up(begin, item->align);
    return best != UINT64_MAX ? best : align_up(open ? begin : end, item->align);
}

/* Writes item i at [at, at + bytes) into the list, dropping what is done for good. */
static void put(struct state *x, uint32_t i, uint64_t at)
{
    const struct stem_item *item = &x->s->at[i];
    const uint32_t *floor = x->s->floor + (size_t)i * x->s->n_streams;
    struct region new = {at, at + item->bytes, reusable(x, i, i) ? i : TAKEN};
    uint64_t end = x->list.len ? stem_vec_last(&x->list).end : 0;
    bool done = false;
    stem_vec_clear(&x->next);
    for (uint32_t k = 0; k < x->list.len; k++) {
        struct region r = x->list.at[k];
        if (r.item != FREE && r.item != TAKEN && stem_item_before(x->s, r.item, floor))
            r.item = FREE;
        uint64_t cut = r.end < new.begin ? r.end : new.begin;
        if (r.begin < cut)
            append(x, (struct region){r.begin, cut, r.item});
        if (!done && r.end > new.begin) {
            append(x, new);
            done = true;
        }
        if (r.end > new.end)
            append(x, (struct region){r.begin > new.end ? r.begin : new.end, r.end, r.item});
    }
    if (!done) {
        append(x, (struct region){end, new.begin, FREE});
        append(x, new);
    }
    x->work += x->list.len;
    struct region *at_list = x->list.at;
    uint32_t cap = x->list.cap;
    x->list.at = x->next.at;
    x->list.len = x->next.len;
    x->list.cap = x->next.cap;
    x->next.at = at_list;
    x->next.cap = cap;
}

uint64_t stem_place_sweep(struct stem_arena *a, const struct stem_items *s, bool tightest, uint64_t *offset,
                          bool *all)
{
    struct state x = {.s = s,
                      .last_known = STEM_NEW_ARRAY(a, const uint32_t *, s->n_streams),
                      .last_item = STEM_NEW_ARRAY(a, uint32_t, s->n_streams)};
    uint64_t size = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        x.last_known[s->at[i].stream] = s->at[i].known;
        x.last_item[s->at[i].stream] = i;
    }
    *all = true;
    for (uint32_t i = 0; i < s->n; i++) {
        bool looking = x.work < (uint64_t)WORK_PER_ITEM * s->n + WORK_ALWAYS;
        offset[i] = looking ? find(&x, i, tightest) : align_up(size, s->at[i].align);
        if (looking)
            put(&x, i, offset[i]);
        *all &= looking;
        size = offset[i] + s->at[i].bytes > size ? offset[i] + s->at[i].bytes : size;
    }
    stem_vec_free(&x.list);
    stem_vec_free(&x.next);
    return size;
}
