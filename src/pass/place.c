/* SPDX-License-Identifier: Apache-2.0
 *
 * Items, their conflicts and the lower bound; choosing the best placement.
 */
#include "pass/place.h"

#include <stdlib.h>
#include <string.h>

#include "pass/lifetime.h"

/* What may be spent on pairs of items, in all, besides some for each item: on looking for conflicts, and again on
 * sets of them. When it is spent, the bound is that of the items before. */
enum { WORK = 4000000, WORK_PER_ITEM = 256 };

static bool spent(uint64_t work, uint32_t n_items)
{
    return work > WORK + (uint64_t)WORK_PER_ITEM * n_items;
}

static const uint32_t *known_before(struct stem_arena *a, const struct stem_program *p, const struct stem_hb *hb,
                                    const uint32_t *op, uint32_t n)
{
    uint32_t *known = STEM_NEW_ARRAY(a, uint32_t, hb->n_streams);
    bool seen[STEM_MAX_STREAMS] = {false};
    memset(known, 0xff, hb->n_streams * sizeof *known);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t stream = p->ops.at[op[i]].stream.n;
        if (seen[stream])
            continue;
        seen[stream] = true;
        const uint32_t *clock = stem_hb_clock(hb, op[i]);
        for (uint32_t s = 0; s < hb->n_streams; s++) {
            uint32_t before = clock[s] - (s == stream); /* the op itself is not before itself */
            known[s] = before < known[s] ? before : known[s];
        }
    }
    return known;
}

/* For each item what all items from it on know: what is done by then is done for good. */
static void set_floors(struct stem_arena *a, struct stem_items *s)
{
    uint32_t n = s->n_streams, next[STEM_MAX_STREAMS * STEM_MAX_STREAMS];
    memset(next, 0xff, sizeof next);
    s->floor = STEM_NEW_ARRAY(a, uint32_t, (size_t)s->n * n);
    s->own = STEM_NEW_ARRAY(a, uint32_t, (size_t)s->n * n);
    for (uint32_t i = s->n; i-- > 0;) {
        uint32_t *row = next + s->at[i].stream * n, *floor = s->floor + (size_t)i * n;
        for (uint32_t k = 0; k < n; k++) {
            row[k] = s->at[i].known[k] < row[k] ? s->at[i].known[k] : row[k];
            s->own[(size_t)i * n + k] = row[k];
            floor[k] = STEM_NONE;
            for (uint32_t t = 0; t < n; t++)
                floor[k] = next[t * n + k] < floor[k] ? next[t * n + k] : floor[k];
        }
    }
}

struct by_first {
    uint32_t position, buffer;
};

static int first_first(const void *a, const void *b)
{
    const struct by_first *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

struct stem_items stem_items_new(struct stem_arena *a, const struct stem_program *p)
{
    struct stem_hb *hb = stem_hb_new(a, p, false);
    struct stem_touches t = stem_touches_new(a, p);
    struct stem_items s = {.n_streams = hb->n_streams};
    struct by_first *used = STEM_NEW_ARRAY(a, struct by_first, p->buffers.len);
    for (uint32_t b = 0; b < p->buffers.len; b++)
        if (p->buffers.at[b].kind == STEM_BUFFER_TEMP && p->sched.first_use.at[b].n != STEM_NONE &&
            p->buffers.at[b].bytes)
            used[s.n++] = (struct by_first){hb->position[p->sched.first_use.at[b].n], b};
    qsort(used, s.n, sizeof *used, first_first);
    s.at = STEM_NEW_ARRAY(a, struct stem_item, s.n);
    for (uint32_t i = 0; i < s.n; i++) {
        uint32_t b = used[i].buffer, align = p->buffers.at[b].align ? p->buffers.at[b].align : 256;
        uint32_t *done = STEM_NEW_ARRAY(a, uint32_t, hb->n_streams);
        for (uint32_t k = p->sched.last_use_begin.at[b]; k < p->sched.last_use_begin.at[b + 1]; k++)
            done[stem_op_at(p, p->sched.last_use.at[k])->stream.n] = hb->index[p->sched.last_use.at[k].n];
        s.at[i] = (struct stem_item){.bytes = (p->buffers.at[b].bytes + align - 1) & ~(uint64_t)(align - 1),
                                     .align = align,
                                     .buffer = b,
                                     .stream = stem_op_at(p, p->sched.first_use.at[b])->stream.n,
                                     .known = known_before(a, p, hb, t.op + t.begin[b], t.begin[b + 1] - t.begin[b]),
                                     .done = done};
    }
    set_floors(a, &s);
    return s;
}

/* ---- conflicts ---- */

struct live {
    uint64_t bytes;
    uint32_t item;
};

struct pair {
    uint32_t a, b;
};

struct search {
    const struct stem_items *s;
    /* Items that a later item on a stream may conflict with; a list for each stream, since what one stream has long
     * known is done another may never hear of. */
    STEM_VEC(uint32_t) active[STEM_MAX_STREAMS];
    STEM_VEC(struct pair) pairs;
    STEM_VEC(struct live) live; /* what the present item conflicts with */
    STEM_VEC(uint32_t) set;     /* of those, what conflicts with each other */
    uint64_t bound, looked, compared;
    uint32_t limit; /* pairs are kept as long as there are no more than that */
};

static int large_first(const void *a, const void *b)
{
    const struct live *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static bool conflict(const struct stem_items *s, uint32_t a, uint32_t b)
{
    return !stem_item_before(s, a < b ? a : b, s->at[a < b ? b : a].known);
}

/* Raises the bound to the bytes of item i and of those it conflicts with that conflict with each other, if that may
 * be more: greedily, the largest first. */
static void clique(struct search *c, uint32_t i)
{
    uint64_t bytes = c->s->at[i].bytes, most = bytes;
    uint32_t n = c->live.len;
    for (uint32_t k = 0; k < n; k++)
        most += c->live.at[k].bytes;
    if (most <= c->bound || spent(c->compared, c->s->n))
        return;
    if (n > 1)
        qsort(c->live.at, n, sizeof *c->live.at, large_first);
    c->compared += n;
    stem_vec_clear(&c->set);
    for (uint32_t k = 0; k < n; k++) {
        bool all = true;
        for (uint32_t j = 0; j < c->set.len && all; j++, c->compared++)
            all = conflict(c->s, c->live.at[k].item, c->set.at[j]);
        if (all) {
            stem_vec_push(&c->set, c->live.at[k].item);
            bytes += c->live.at[k].bytes;
        }
    }
    c->bound = bytes > c->bound ? bytes : c->bound;
}

/* Finds item i's conflicts and drops from its stream's list what all later items of the stream know is done. */
static void conflicts_of(struct search *c, uint32_t i)
{
    const struct stem_items *s = c->s;
    uint32_t still = 0, stream = s->at[i].stream, *list = c->active[stream].at;
    stem_vec_clear(&c->live);
    for (uint32_t k = 0; k < c->active[stream].len; k++) {
        uint32_t x = list[k];
        if (stem_item_before(s, x, s->own + (size_t)i * s->n_streams))
            continue;
        list[still++] = x;
        if (stem_item_before(s, x, s->at[i].known))
            continue;
        stem_vec_push(&c->live, (struct live){s->at[x].bytes, x});
        if (c->pairs.len <= c->limit)
            stem_vec_push(&c->pairs, (struct pair){x, i});
    }
    c->looked += c->active[stream].len;
    c->active[stream].len = still;
    for (uint32_t t = 0; t < s->n_streams; t++)
        stem_vec_push(&c->active[t], i);
}

static void list_conflicts(struct stem_arena *a, const struct search *x, struct stem_conflicts *c)
{
    uint32_t n = x->s->n;
    c->begin = STEM_NEW_ARRAY(a, uint32_t, n + 2);
    c->other = STEM_NEW_ARRAY(a, uint32_t, 2 * (size_t)x->pairs.len);
    for (uint32_t i = 0; i < x->pairs.len; i++) {
        c->begin[x->pairs.at[i].a + 2]++;
        c->begin[x->pairs.at[i].b + 2]++;
    }
    for (uint32_t i = 2; i <= n + 1; i++)
        c->begin[i] += c->begin[i - 1];
    for (uint32_t i = 0; i < x->pairs.len; i++) {
        c->other[c->begin[x->pairs.at[i].a + 1]++] = x->pairs.at[i].b;
        c->other[c->begin[x->pairs.at[i].b + 1]++] = x->pairs.at[i].a;
    }
}

struct stem_conflicts stem_conflicts_new(struct stem_arena *a, const struct stem_items *s, uint32_t limit)
{
    struct stem_conflicts c = {0};
    struct search x = {.s = s, .limit = limit};
    uint32_t i = 0;
    for (; i < s->n && !spent(x.looked, s->n); i++) {
        conflicts_of(&x, i);
        clique(&x, i);
    }
    if (i == s->n && x.pairs.len <= limit)
        list_conflicts(a, &x, &c);
    c.bound = x.bound;
    stem_vec_free(&x.pairs);
    stem_vec_free(&x.live);
    stem_vec_free(&x.set);
    for (uint32_t t = 0; t < s->n_streams; t++)
        stem_vec_free(&x.active[t]);
    return c;
}

/* ---- the best ---- */

struct best {
    uint64_t bytes, *offset;
    uint32_t n;
};

static void keep_better(struct best *b, uint64_t bytes, const uint64_t *offset)
{
    if (bytes >= b->bytes)
        return;
    b->bytes = bytes;
    if (b->n)
        memcpy(b->offset, offset, b->n * sizeof *offset);
}

void stem_place(struct stem_program *p, struct stem_arena *scratch)
{
    struct stem_items s = stem_items_new(scratch, p);
    uint64_t pairs = 64 * (uint64_t)s.n + 100000, *offset = STEM_NEW_ARRAY(scratch, uint64_t, s.n);
    struct best best = {UINT64_MAX, STEM_NEW_ARRAY(scratch, uint64_t, s.n), s.n};
    struct stem_conflicts c =
        stem_conflicts_new(scratch, &s, pairs < UINT32_MAX / 4 ? (uint32_t)pairs : UINT32_MAX / 4);
    bool all = true;
    for (uint32_t way = 0; way < 6 && best.bytes > c.bound; way++) {
        bool tightest = way & 1;
        if ((way == 1 && !all) || (way >= 2 && !c.begin))
            continue;
        uint64_t bytes = way < 2 ? stem_place_sweep(scratch, &s, tightest, offset, &all)
                                 : stem_place_sorted(scratch, &s, &c, way >= 4, tightest, offset);
        keep_better(&best, bytes, offset);
    }
    for (uint32_t i = 0; i < s.n; i++)
        p->buffers.at[s.at[i].buffer].offset = best.offset[i];
    p->sched.slab_bytes = best.bytes;
    p->sched.slab_bound = c.bound;
}
