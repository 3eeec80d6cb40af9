/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a schedule takes by the estimates: each stream runs its ops in issue order, an op starts when those that it
 * waits for have ended, and ops that run at the same time slow each other down (overlap.h). News of an end take half of a fork
 * and its join to another stream; what has ended long before costs little. Time goes from one end of an op to the next, so the whole is linear in ops for a
 * fixed number of streams.
 */
#include "pass/events.h"
#include "pass/overlap.h"

struct line {
    uint32_t *op; /* of the segment, in issue order */
    uint32_t n, next;
    bool running;
    double left, wait; /* of the op that runs, by itself; before it starts */
};

struct simulation {
    const struct stem_program *p;
    const struct stem_options *o;
    struct line *line; /* by stream */
    double *done;      /* by op: when it ended; below 0: not yet */
    uint32_t *first_wait, *n_waits; /* by op: in sched.waits */
    double now;
};

static void find_waits(struct simulation *s, struct stem_arena *a)
{
    s->first_wait = STEM_NEW_ARRAY(a, uint32_t, s->p->ops.len);
    s->n_waits = STEM_NEW_ARRAY(a, uint32_t, s->p->ops.len);
    for (uint32_t w = s->p->sched.waits.len; w-- > 0;) {
        uint32_t to = s->p->sched.waits.at[w].to.n;
        if (to == STEM_NONE)
            continue;
        s->first_wait[to] = w;
        s->n_waits[to]++;
    }
}

/* An op of which all has ended that it waits for; what the wait itself costs in *price. */
static bool ready(const struct simulation *s, uint32_t op, double *price)
{
    *price = 0;
    for (uint32_t i = 0; i < s->n_waits[op]; i++) {
        const struct stem_wait *w = &s->p->sched.waits.at[s->first_wait[op] + i];
        if (w->from.n == STEM_NONE)
            continue;
        if (s->done[w->from.n] < 0)
            return false;
        double left = w->lane ? 0 : stem_fork_price_left(s->o->target.fork_us / 2, s->now - s->done[w->from.n]);
        *price = left > *price ? left : *price;
    }
    return true;
}

static void start_ready(struct simulation *s)
{
    for (uint32_t k = 0; k < s->p->streams.len; k++) {
        struct line *l = &s->line[k];
        if (l->running || l->next == l->n || !ready(s, l->op[l->next], &l->wait))
            continue;
        l->running = true;
        l->left = s->p->ops.at[l->op[l->next]].est_us;
    }
}

/* By how much the op that runs on stream `k` is slowed down. */
static double factor_of(const struct simulation *s, uint32_t k)
{
    double factor = 1;
    const struct line *l = &s->line[k];
    for (uint32_t i = 0; i < s->p->streams.len; i++)
        if (i != k && s->line[i].running && s->line[i].wait <= 0)
            factor += stem_slowdown(s->o, &s->p->ops.at[l->op[l->next]], &s->p->ops.at[s->line[i].op[s->line[i].next]]).factor - 1;
    return factor;
}

/* To the next end of an op or of a wait; false if nothing runs. */
static bool step(struct simulation *s)
{
    double factor[STEM_MAX_STREAMS], us = -1;
    for (uint32_t k = 0; k < s->p->streams.len; k++) {
        const struct line *l = &s->line[k];
        factor[k] = l->running && l->wait <= 0 ? factor_of(s, k) : 1;
        double left = l->wait > 0 ? l->wait : l->left * factor[k];
        if (l->running && (us < 0 || left < us))
            us = left;
    }
    for (uint32_t k = 0; us >= 0 && k < s->p->streams.len; k++) {
        struct line *l = &s->line[k];
        if (!l->running)
            continue;
        if (l->wait > 0) {
            l->wait -= us;
            continue;
        }
        l->left -= us / factor[k];
        if (l->left > 1e-9)
            continue;
        s->done[l->op[l->next++]] = s->now + us;
        l->running = false;
    }
    s->now += us > 0 ? us : 0;
    return us >= 0;
}

static void run_segment(struct simulation *s)
{
    do
        start_ready(s);
    while (step(s));
    for (uint32_t k = 0; k < s->p->streams.len; k++)
        s->line[k].n = s->line[k].next = 0;
}

double stem_simulate(const struct stem_program *p, struct stem_arena *a, const struct stem_options *o)
{
    struct simulation s = {.p = p, .o = o, .line = STEM_NEW_ARRAY(a, struct line, p->streams.len), .done = STEM_NEW_ARRAY(a, double, p->ops.len)};
    uint32_t count[STEM_MAX_STREAMS] = {0}, segment = STEM_NONE;
    find_waits(&s, a);
    for (uint32_t i = 0; i < p->ops.len; i++)
        s.done[i] = -1;
    for (uint32_t i = 0; i < p->sched.order.len; i++)
        count[stem_op_at(p, p->sched.order.at[i])->stream.n]++;
    for (uint32_t k = 0; k < p->streams.len; k++)
        s.line[k].op = STEM_NEW_ARRAY(a, uint32_t, count[k] + 1);
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        const struct stem_op *op = stem_op_at(p, p->sched.order.at[i]);
        if (op->segment != segment)
            run_segment(&s);
        segment = op->segment;
        struct line *l = &s.line[op->stream.n];
        l->op[l->n++] = p->sched.order.at[i].n;
    }
    run_segment(&s);
    return s.now;
}
