/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream that nothing makes wait for another, such as one that only clears accumulators or only stores into a
 * cache, may run far ahead of it or lag far behind, so that in a program of many layers no bytes could ever be used
 * again: the slab would grow with the layers. A wait now and then bounds that, and costs nothing as long as it is for
 * something that happened long ago. So where an op that needs new bytes knows nothing of the last two periods of
 * another stream, it waits for what that stream did a period ago. A period is the time of PERIOD average ops.
 *
 * Time is that of main when an op is issued: side ops are issued late, so that this is about when they are needed.
 * Deps follow issue order, so they never close a circle. The whole is kept only if it pays; longer periods are tried
 * if the schedule would get longer.
 */
#include "pass/throttle.h"

#include <stdlib.h>

#include "pass/events.h"
#include "pass/lifetime.h"
#include "pass/place.h"

enum { PERIOD = 32, SHORT = 4 * PERIOD };

static int by_to(const void *a, const void *b)
{
    const struct stem_dep *x = a, *y = b;
    if (x->to.n != y->to.n)
        return x->to.n < y->to.n ? -1 : 1;
    if (x->from.n != y->from.n)
        return x->from.n < y->from.n ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

void stem_memory_sort_deps(struct stem_program *p)
{
    if (p->sched.deps.len)
        qsort(p->sched.deps.at, p->sched.deps.len, sizeof *p->sched.deps.at, by_to);
}

void stem_memory_drop_deps(struct stem_program *p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->sched.deps.len; i++)
        if (p->sched.deps.at[i].kind != STEM_DEP_MEMORY)
            p->sched.deps.at[kept++] = p->sched.deps.at[i];
    p->sched.deps.len = kept;
}

void stem_memory_rebuild(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct stem_pass_ctx inner = *ctx;
    inner.scratch = stem_arena_new();
    stem_events_build(p, &inner);
    p->sched.events_bound = stem_reach_new(inner.scratch, p).producers;
    stem_lifetime_build(p, inner.scratch);
    stem_place(p, inner.scratch);
    stem_arena_free(inner.scratch);
}

struct state {
    struct stem_program *p;
    struct stem_hb *hb;
    double *time;                     /* by op: main's time when it was issued */
    bool *allocates;                  /* by op: first use of a temporary */
    uint32_t *line[STEM_MAX_STREAMS]; /* by stream: its ops in the present segment, in order */
    uint32_t len[STEM_MAX_STREAMS];
    uint32_t past[STEM_MAX_STREAMS][STEM_MAX_STREAMS];  /* by waiting and other stream: ops that ended a period ago */
    uint32_t known[STEM_MAX_STREAMS][STEM_MAX_STREAMS]; /* ops on the other stream that have been waited for */
};

/* What is known of a stream by now: what this op knows, too. */
static void learn(struct state *s, uint32_t stream, uint32_t of, uint32_t op)
{
    uint32_t *known = &s->known[stream][of];
    while (*known < s->len[of] && s->hb->index[s->line[of][*known]] <= stem_hb_clock(s->hb, op)[of])
        ++*known;
}

/* Whether the op's stream has known nothing of the other one for two periods, though there is something to know. */
static bool drifts(struct state *s, uint32_t op, uint32_t other, double period)
{
    uint32_t stream = s->p->ops.at[op].stream.n, *past = &s->past[stream][other];
    while (*past < s->len[other] && s->time[s->line[other][*past]] <= s->time[op] - period)
        ++*past;
    learn(s, stream, other, op);
    uint32_t known = s->known[stream][other];
    return *past > known && s->time[s->line[other][known]] <= s->time[op] - 2 * period;
}

static void wait_for(struct state *s, uint32_t op, uint32_t other)
{
    uint32_t stream = s->p->ops.at[op].stream.n, from = s->line[other][s->past[stream][other] - 1];
    stem_vec_push(&s->p->sched.deps, (struct stem_dep){{from}, {op}, STEM_DEP_MEMORY, STEM_NO_VALUE});
    s->known[stream][other] = s->past[stream][other];
    for (uint32_t t = 0; t < s->p->streams.len; t++)
        if (t != stream)
            learn(s, stream, t, from);
}

/* Main most often knows what the others have done, so that one wait for it replaces many: it is asked first. */
static void one_op(struct state *s, uint32_t op, double period)
{
    uint32_t stream = s->p->ops.at[op].stream.n;
    for (uint32_t t = 0; t < s->p->streams.len; t++) {
        if (t == stream || !drifts(s, op, t, period))
            continue;
        if (t && stream && s->past[stream][0] > s->known[stream][0]) {
            wait_for(s, op, 0);
            if (!drifts(s, op, t, period))
                continue;
        }
        wait_for(s, op, t);
    }
}

/* Adds the deps for one length of the period; their number. */
static uint32_t add_deps(struct stem_program *p, struct stem_arena *a, double period)
{
    struct state *s = STEM_NEW(a, struct state);
    uint32_t before = p->sched.deps.len, segment = STEM_NONE;
    double now = 0;
    s->p = p;
    s->hb = stem_hb_new(a, p, false);
    s->time = STEM_NEW_ARRAY(a, double, p->ops.len);
    s->allocates = STEM_NEW_ARRAY(a, bool, p->ops.len);
    for (uint32_t i = 0; i < p->streams.len; i++)
        s->line[i] = STEM_NEW_ARRAY(a, uint32_t, p->sched.order.len);
    for (uint32_t b = 0; b < p->buffers.len; b++)
        if (p->buffers.at[b].kind == STEM_BUFFER_TEMP && p->sched.first_use.at[b].n != STEM_NONE)
            s->allocates[p->sched.first_use.at[b].n] = true;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        uint32_t op = p->sched.order.at[i].n, stream = p->ops.at[op].stream.n;
        if (p->ops.at[op].segment != segment) {
            segment = p->ops.at[op].segment;
            for (uint32_t t = 0; t < p->streams.len; t++)
                for (uint32_t u = s->len[t] = 0; u < p->streams.len; u++)
                    s->past[t][u] = s->known[t][u] = 0;
        }
        now += stream ? 0 : p->ops.at[op].est_us;
        s->time[op] = now;
        if (s->allocates[op])
            one_op(s, op, period);
        s->line[stream][s->len[stream]++] = op;
    }
    return p->sched.deps.len - before;
}

void stem_memory_throttle(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    uint64_t bytes = p->sched.slab_bytes;
    double us = p->sched.critical_path_us;
    if (p->sched.order.len < SHORT || p->streams.len < 2)
        return;
    for (uint32_t longer = 1; longer <= 16; longer *= 4) {
        struct stem_arena *a = stem_arena_new();
        uint32_t n = add_deps(p, a, longer * PERIOD * p->sched.total_us / p->sched.order.len);
        stem_arena_free(a);
        if (!n)
            return;
        stem_memory_sort_deps(p);
        stem_memory_rebuild(p, ctx);
        if (p->sched.slab_bytes <= bytes - bytes / 10 && p->sched.critical_path_us <= 1.01 * us) {
            stem_remark(ctx->diags, "memory", STEM_NOWHERE,
                        "%u waits between streams that drift apart save %llu of %llu bytes; "
                        "the schedule takes %.1f us instead of %.1f",
                        n, (unsigned long long)(bytes - p->sched.slab_bytes), (unsigned long long)bytes,
                        p->sched.critical_path_us, us);
            return;
        }
        bool shrinks = p->sched.slab_bytes <= bytes - bytes / 10;
        stem_memory_drop_deps(p);
        stem_memory_rebuild(p, ctx);
        if (!shrinks)
            return;
    }
}
