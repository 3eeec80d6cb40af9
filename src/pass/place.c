/* SPDX-License-Identifier: Apache-2.0
 *
 * Items, their conflicts and the lower bound; choosing the best placement.
 */
#include "pass/place.h"

#include <stdlib.h>
#include <string.h>

#include "pass/lifetime.h"

/* Sets of conflicting items are sought among this many at a time. */
enum { CLIQUE = 24 };

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

/* Bytes of item i and of items out of `live` (all conflict with i, largest first) that conflict with each other. */
static uint64_t clique(const struct stem_items *s, uint32_t i, const uint32_t *live, uint32_t n)
{
    uint32_t in[CLIQUE], n_in = 0;
    uint64_t bytes = s->at[i].bytes;
    for (uint32_t k = 0; k < n; k++) {
        bool all = true;
        for (uint32_t j = 0; j < n_in && all; j++) {
            uint32_t x = live[k] < in[j] ? live[k] : in[j], y = live[k] < in[j] ? in[j] : live[k];
            all = !stem_item_before(s, x, s->at[y].known);
        }
        if (all) {
            in[n_in++] = live[k];
            bytes += s->at[live[k]].bytes;
        }
    }
    return bytes;
}

/* Keeps the CLIQUE largest, in order. */
static uint32_t insert(const struct stem_items *s, uint32_t *top, uint32_t n, uint32_t item)
{
    uint32_t i = n < CLIQUE ? n : CLIQUE - 1;
    if (n == CLIQUE && s->at[top[i]].bytes >= s->at[item].bytes)
        return n;
    for (; i && s->at[top[i - 1]].bytes < s->at[item].bytes; i--)
        top[i] = top[i - 1];
    top[i] = item;
    return n < CLIQUE ? n + 1 : n;
}

struct pair {
    uint32_t a, b;
};
struct pairs {
    STEM_VEC(struct pair) v;
};

/* Items that a later item on a stream may conflict with; a list for each stream, since what one stream has long known is
 * done another may never hear of. */
struct active {
    STEM_VEC(uint32_t) on[STEM_MAX_STREAMS];
};

/* Adds item i's conflicts to `pairs` and drops from its stream's list what all later items of the stream know is done. */
static uint32_t conflicts_of(const struct stem_items *s, uint32_t i, struct active *active, struct pairs *pairs,
                             uint32_t *top)
{
    uint32_t n_top = 0, still = 0, stream = s->at[i].stream;
    uint32_t *list = active->on[stream].at;
    for (uint32_t k = 0; k < active->on[stream].len; k++) {
        uint32_t x = list[k];
        if (stem_item_before(s, x, s->own + (size_t)i * s->n_streams))
            continue;
        list[still++] = x;
        if (stem_item_before(s, x, s->at[i].known))
            continue;
        n_top = insert(s, top, n_top, x);
        stem_vec_push(&pairs->v, (struct pair){x, i});
    }
    active->on[stream].len = still;
    for (uint32_t t = 0; t < s->n_streams; t++)
        stem_vec_push(&active->on[t], i);
    return n_top;
}

struct stem_conflicts stem_conflicts_new(struct stem_arena *a, const struct stem_items *s, uint32_t limit)
{
    struct stem_conflicts c = {0};
    struct pairs pairs = {0};
    struct active active = {0};
    bool kept = true;
    for (uint32_t i = 0; i < s->n && kept; i++) {
        uint32_t top[CLIQUE], n_top = conflicts_of(s, i, &active, &pairs, top);
        uint64_t bytes = clique(s, i, top, n_top);
        c.bound = bytes > c.bound ? bytes : c.bound;
        kept = pairs.v.len <= limit;
    }
    if (kept) {
        c.begin = STEM_NEW_ARRAY(a, uint32_t, s->n + 2);
        c.other = STEM_NEW_ARRAY(a, uint32_t, 2 * (size_t)pairs.v.len);
        for (uint32_t i = 0; i < pairs.v.len; i++) {
            c.begin[pairs.v.at[i].a + 2]++;
            c.begin[pairs.v.at[i].b + 2]++;
        }
        for (uint32_t i = 2; i <= s->n + 1; i++)
            c.begin[i] += c.begin[i - 1];
        for (uint32_t i = 0; i < pairs.v.len; i++) {
            c.other[c.begin[pairs.v.at[i].a + 1]++] = pairs.v.at[i].b;
            c.other[c.begin[pairs.v.at[i].b + 1]++] = pairs.v.at[i].a;
        }
    }
    stem_vec_free(&pairs.v);
    for (uint32_t t = 0; t < s->n_streams; t++)
        stem_vec_free(&active.on[t]);
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
    for (uint32_t way = 0; way < 6 && best.bytes > c.bound; way++) {
        bool tightest = way & 1;
        if (way >= 2 && !c.begin)
            break;
        uint64_t bytes = way < 2 ? stem_place_sweep(scratch, &s, tightest, offset)
                                 : stem_place_sorted(scratch, &s, &c, way >= 4, tightest, offset);
        keep_better(&best, bytes, offset);
    }
    for (uint32_t i = 0; i < s.n; i++)
        p->buffers.at[s.at[i].buffer].offset = best.offset[i];
    p->sched.slab_bytes = best.bytes;
    p->sched.slab_bound = c.bound;
}
