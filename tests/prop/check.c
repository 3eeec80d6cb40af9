/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 512 }; /* ops and starts of segments */

/* Node op id, or n_ops + g: the start of segment g, which is the end of segment g - 1. */
struct world {
    const struct stem_program *p;
    uint32_t n, n_ops;
    bool must[MAX][MAX];  /* has to happen before */
    bool reach[MAX][MAX]; /* happens before */
};

static char message[256];

static const char *fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *fault(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    return message;
}

/* ---- what has to be ---- */

static void must(struct world *w, uint32_t a, uint32_t b)
{
    if (a != b)
        w->must[a][b] = true;
}

static bool writes(const struct stem_op *op, uint32_t k)
{
    return k >= op->n_in;
}

static bool overlap(const struct stem_tensor *a, const struct stem_tensor *b)
{
    return a->offset < b->offset + stem_tensor_extent(b) && b->offset < a->offset + stem_tensor_extent(a);
}

/* Values have value semantics: whoever touches an older version of a buffer comes before whoever makes a newer one.
 */
static void must_of_operands(struct world *w, uint32_t a, uint32_t b)
{
    const struct stem_op *x = &w->p->ops.at[a], *y = &w->p->ops.at[b];
    for (uint32_t i = 0; i < x->n_in + x->n_out; i++)
        for (uint32_t k = 0; k < y->n_in + y->n_out; k++) {
            if (x->operands[i].value.n == STEM_NONE || y->operands[k].value.n == STEM_NONE)
                continue;
            const struct stem_value *v = stem_value_at(w->p, x->operands[i].value);
            const struct stem_value *u = stem_value_at(w->p, y->operands[k].value);
            if (v->tensor.buffer != u->tensor.buffer)
                continue;
            if (v->version < u->version && writes(y, k))
                must(w, a, b);
            if (v->version == u->version && writes(x, i) && !writes(y, k) && overlap(&v->tensor, &u->tensor))
                must(w, a, b);
            if (v->version == u->version && y->operands[k].mode == STEM_MODE_CONSUME &&
                x->operands[i].mode != STEM_MODE_CONSUME)
                must(w, a, b);
        }
}

static void collect_must(struct world *w)
{
    const struct stem_program *p = w->p;
    for (uint32_t a = 0; a < w->n_ops; a++) {
        const struct stem_op *op = &p->ops.at[a];
        if (op->dead)
            continue;
        for (uint32_t b = 0; b < w->n_ops; b++) {
            if (a == b || p->ops.at[b].dead)
                continue;
            must_of_operands(w, a, b);
            if (op->segment < p->ops.at[b].segment)
                must(w, a, b);
        }
        for (uint32_t i = 0; i < op->n_after; i++)
            if (!stem_op_at(p, op->after[i])->dead)
                must(w, op->after[i].n, a);
        must(w, w->n_ops + op->segment, a);
        must(w, a, w->n_ops + op->segment + 1);
    }
    for (uint32_t i = 0; i < p->sched.deps.len; i++)
        if (p->sched.deps.at[i].kind == STEM_DEP_MEMORY || p->sched.deps.at[i].kind == STEM_DEP_RESOURCE)
            must(w, p->sched.deps.at[i].from.n, p->sched.deps.at[i].to.n);
}

/* ---- what is ---- */

static void close_reach(struct world *w)
{
    for (uint32_t k = 0; k < w->n; k++)
        for (uint32_t i = 0; i < w->n; i++)
            if (w->reach[i][k])
                for (uint32_t j = 0; j < w->n; j++)
                    w->reach[i][j] |= w->reach[k][j];
}

enum { ALL_WAITS = UINT32_MAX, NO_LANE_WAITS = UINT32_MAX - 1 };

/* Stream order, segments on main, and all waits, or all but one and those that are there for lanes. */
static void collect_reach(struct world *w, uint32_t without)
{
    const struct stem_program *p = w->p;
    uint32_t last[STEM_MAX_STREAMS], segment = 0;
    memset(w->reach, 0, sizeof w->reach);
    memset(last, 0xff, sizeof last);
    last[0] = w->n_ops;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        uint32_t op = p->sched.order.at[i].n, stream = p->ops.at[op].stream.n;
        while (segment < p->ops.at[op].segment) {
            w->reach[last[0]][w->n_ops + ++segment] = true;
            last[0] = w->n_ops + segment;
        }
        if (last[stream] != STEM_NONE)
            w->reach[last[stream]][op] = true;
        last[stream] = op;
    }
    for (; segment < p->segments.len; segment++) {
        w->reach[last[0]][w->n_ops + segment + 1] = true;
        last[0] = w->n_ops + segment + 1;
    }
    for (uint32_t i = 0; i < p->sched.waits.len; i++) {
        const struct stem_wait *x = &p->sched.waits.at[i];
        uint32_t from = x->from.n == STEM_NONE ? w->n_ops + x->segment : x->from.n;
        uint32_t to = x->to.n == STEM_NONE ? w->n_ops + x->segment + 1 : x->to.n;
        if (without == ALL_WAITS || (i != without && !x->lane))
            w->reach[from][to] = true;
    }
    close_reach(w);
}

static bool respected(const struct world *w, uint32_t *a, uint32_t *b)
{
    for (*a = 0; *a < w->n; ++*a)
        for (*b = 0; *b < w->n; ++*b)
            if (w->must[*a][*b] && !w->reach[*a][*b])
                return false;
    return true;
}

/* ---- rules ---- */

static const char *check_order(const struct world *w)
{
    const struct stem_program *p = w->p;
    bool seen[MAX] = {false};
    uint32_t live = 0, segment = 0;
    for (uint32_t i = 0; i < p->ops.len; i++)
        live += !p->ops.at[i].dead;
    if (p->sched.order.len != live)
        return fault("%u ops are issued, %u are live", p->sched.order.len, live);
    for (uint32_t i = 0; i < live; i++) {
        uint32_t op = p->sched.order.at[i].n;
        if (seen[op] || p->ops.at[op].dead || p->ops.at[op].segment < segment)
            return fault("op %u is issued twice, dead, or after a later segment", op);
        for (uint32_t k = 0; k < i; k++)
            if (w->must[op][p->sched.order.at[k].n])
                return fault("op %u is issued after %u, which needs it", op, p->sched.order.at[k].n);
        seen[op] = true;
        segment = p->ops.at[op].segment;
    }
    return NULL;
}

static const char *check_streams(const struct stem_program *p, const struct stem_options *options)
{
    bool pins = false;
    for (uint32_t i = 0; i < p->ops.len; i++)
        pins |= p->ops.at[i].pin.n != STEM_NONE;
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        if (op->dead)
            continue;
        if (options->one_stream ? op->stream.n != 0 : op->pin.n != STEM_NONE && op->pin.n != op->stream.n)
            return fault("op %u is on stream %u, not where it is pinned", i, op->stream.n);
        if (!pins && op->stream.n >= options->max_streams)
            return fault("op %u is on stream %u of %u", i, op->stream.n, options->max_streams);
    }
    return NULL;
}

/* Waits for lanes order nothing that is not ordered without them, and go from stream to stream. */
static const char *check_lane_waits(struct world *w)
{
    const struct stem_program *p = w->p;
    bool(*with)[MAX] = malloc(sizeof w->reach);
    collect_reach(w, ALL_WAITS);
    memcpy(with, w->reach, sizeof w->reach);
    collect_reach(w, NO_LANE_WAITS);
    bool same = !memcmp(with, w->reach, sizeof w->reach);
    free(with);
    if (!same)
        return fault("waits for lanes change what happens before what");
    for (uint32_t i = 0; i < p->sched.waits.len; i++) {
        const struct stem_wait *x = &p->sched.waits.at[i];
        if (x->lane && (x->from.n == STEM_NONE || x->to.n == STEM_NONE ||
                        stem_op_at(p, x->from)->stream.n == stem_op_at(p, x->to)->stream.n))
            return fault("wait %u is for a lane and does not join two streams", i);
        if (i && x->to.n != STEM_NONE && x[-1].to.n == x->to.n && x[-1].from.n == x->from.n)
            return fault("wait %u is there twice", i);
    }
    return NULL;
}

/* Events but those that only waits for lanes need. */
static uint32_t needed_events(const struct stem_program *p)
{
    bool seen[MAX] = {false};
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->sched.waits.len; i++) {
        const struct stem_wait *x = &p->sched.waits.at[i];
        bool *s = &seen[x->from.n == STEM_NONE ? p->ops.len + x->segment : x->from.n];
        n += !x->lane && !*s;
        *s |= !x->lane;
    }
    return n;
}

static uint32_t all_events(const struct stem_program *p)
{
    bool seen[MAX] = {false};
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->sched.waits.len; i++) {
        const struct stem_wait *x = &p->sched.waits.at[i];
        bool *s = &seen[x->from.n == STEM_NONE ? p->ops.len + x->segment : x->from.n];
        n += !*s;
        *s = true;
    }
    return n;
}

static const char *check_waits(struct world *w)
{
    const struct stem_program *p = w->p;
    uint32_t a, b, joins[STEM_MAX_STREAMS] = {0}, segment = 0;
    for (uint32_t i = 0; i < p->sched.waits.len; i++) {
        const struct stem_wait *x = &p->sched.waits.at[i];
        if (x->segment != segment)
            memset(joins, 0, sizeof joins);
        segment = x->segment;
        if (x->to.n == STEM_NONE && ++joins[stem_op_at(p, x->from)->stream.n] > 1)
            return fault("segment %u joins a stream twice", segment);
        if (x->lane)
            continue;
        collect_reach(w, i);
        if (respected(w, &a, &b))
            return fault("wait %u is not needed", i);
    }
    const char *what = check_lane_waits(w);
    if (what)
        return what;
    collect_reach(w, ALL_WAITS);
    if (!respected(w, &a, &b))
        return fault("%u does not happen before %u", a, b);
    for (uint32_t i = 0; i < p->sched.deps.len; i++)
        if (!w->must[p->sched.deps.at[i].from.n][p->sched.deps.at[i].to.n])
            return fault("dep %u is invented", i);
    if (needed_events(p) != p->sched.events_bound || all_events(p) != p->sched.n_events)
        return fault("%u events of which %u are needed, bound %u", p->sched.n_events, needed_events(p),
                     p->sched.events_bound);
    return NULL;
}

static const char *check_resources(const struct world *w)
{
    for (uint32_t a = 0; a < w->n_ops; a++)
        for (uint32_t b = 0; b < a; b++)
            if (!w->p->ops.at[a].dead && !w->p->ops.at[b].dead && w->p->ops.at[a].resource.n &&
                w->p->ops.at[a].resource.n == w->p->ops.at[b].resource.n && !w->reach[a][b] && !w->reach[b][a])
                return fault("%u and %u share a resource and overlap", a, b);
    return NULL;
}

static bool touches(const struct stem_program *p, uint32_t op, uint32_t buffer)
{
    const struct stem_op *o = &p->ops.at[op];
    for (uint32_t k = 0; !o->dead && k < o->n_in + o->n_out; k++)
        if (o->operands[k].value.n != STEM_NONE && stem_value_at(p, o->operands[k].value)->tensor.buffer == buffer)
            return true;
    return false;
}

/* Every op that touches a has happened before every op that touches b. */
static bool all_before(const struct world *w, uint32_t a, uint32_t b)
{
    for (uint32_t x = 0; x < w->n_ops; x++)
        for (uint32_t y = 0; touches(w->p, x, a) && y < w->n_ops; y++)
            if (touches(w->p, y, b) && !w->reach[x][y])
                return false;
    return true;
}

static bool is_last(const struct stem_program *p, uint32_t buffer, uint32_t op)
{
    for (uint32_t k = p->sched.last_use_begin.at[buffer]; k < p->sched.last_use_begin.at[buffer + 1]; k++)
        if (p->sched.last_use.at[k].n == op)
            return true;
    return false;
}

/* The first op in issue order after which all uses of the buffer have happened. */
static uint32_t free_place(const struct world *w, uint32_t buffer)
{
    const struct stem_program *p = w->p;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        uint32_t at = p->sched.order.at[i].n;
        bool all = true;
        for (uint32_t x = 0; x < w->n_ops; x++)
            all &= !touches(p, x, buffer) || x == at || w->reach[x][at];
        if (all)
            return at;
    }
    return STEM_NONE;
}

static const char *check_lifetimes(const struct world *w)
{
    const struct stem_program *p = w->p;
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        bool used = false;
        for (uint32_t x = 0; x < w->n_ops; x++) {
            bool last = touches(p, x, b);
            used |= last;
            for (uint32_t y = 0; y < w->n_ops && last; y++)
                last = !(touches(p, y, b) && w->reach[x][y]);
            if (last != is_last(p, b, x))
                return fault("op %u is%s a last use of buffer %u", x, last ? "" : " not", b);
        }
        if (used != (p->sched.first_use.at[b].n != STEM_NONE))
            return fault("buffer %u is%s used", b, used ? "" : " not");
        if (used && p->buffers.at[b].kind == STEM_BUFFER_TEMP && free_place(w, b) != p->sched.free_after.at[b].n)
            return fault("buffer %u is freed after %u, and could be after %u", b, p->sched.free_after.at[b].n,
                         free_place(w, b));
    }
    return NULL;
}

static const char *check_memory(const struct world *w)
{
    const struct stem_program *p = w->p;
    for (uint32_t a = 0; a < p->buffers.len; a++) {
        const struct stem_buffer *x = &p->buffers.at[a];
        if (x->kind != STEM_BUFFER_TEMP || p->sched.first_use.at[a].n == STEM_NONE)
            continue;
        if (x->offset % x->align || x->offset + x->bytes > p->sched.slab_bytes)
            return fault("buffer %u is not aligned or beyond the slab", a);
        for (uint32_t b = 0; b < a; b++) {
            const struct stem_buffer *y = &p->buffers.at[b];
            bool share = y->kind == STEM_BUFFER_TEMP && p->sched.first_use.at[b].n != STEM_NONE &&
                         x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
            if (share && !all_before(w, a, b) && !all_before(w, b, a))
                return fault("buffers %u and %u share bytes and are alive together", b, a);
        }
    }
    if (p->sched.slab_bound > p->sched.slab_bytes)
        return fault("the slab is below its bound");
    return NULL;
}

const char *check_schedule(const struct stem_program *p, const struct stem_options *options)
{
    uint32_t n = p->ops.len + p->segments.len + 1;
    if (n > MAX)
        return fault("too many ops for this checker");
    struct world *w = calloc(1, sizeof *w);
    w->p = p;
    w->n = n;
    w->n_ops = p->ops.len;
    collect_must(w);
    const char *what = check_order(w);
    what = what ? what : check_streams(p, options);
    what = what ? what : check_waits(w);
    what = what ? what : check_resources(w);
    if (!what && p->state & STEM_FACT_LIFETIME)
        what = check_lifetimes(w);
    if (!what && p->state & STEM_FACT_MEMORY)
        what = check_memory(w);
    free(w);
    return what;
}
