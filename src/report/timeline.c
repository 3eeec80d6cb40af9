/* SPDX-License-Identifier: Apache-2.0
 *
 * When each op runs: by the estimates, from the plan's edges, or as a trace says.
 */
#include "report/report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

double stem_us_per_byte(const struct stem_plan_variant *v)
{
    double bytes = 0;
    for (uint32_t i = 0; i < v->n_ops; i++)
        bytes += (double)(v->ops[i].bytes_read + v->ops[i].bytes_written);
    return bytes > 0 ? v->floor_us / bytes : 0;
}

struct chain {
    uint32_t *cause;   /* the op whose end let this one start; STEM_NONE: nothing did */
    uint32_t last_end; /* of the segments before: the op that ended last */
};

static void mark_critical(const struct chain *c, struct stem_timeline *t)
{
    uint32_t last = STEM_NONE;
    for (uint32_t i = 0; i < t->n; i++)
        if (last == STEM_NONE || t->end[i] > t->end[last])
            last = i;
    for (; last != STEM_NONE; last = c->cause[last])
        t->critical[last] = true;
    for (uint32_t i = 0; i < t->n; i++)
        t->length = t->end[i] > t->length ? t->end[i] : t->length;
}

static void follow(struct chain *c, struct stem_timeline *t, uint32_t op, uint32_t before)
{
    if (before != STEM_NONE && t->end[before] > t->start[op]) {
        t->start[op] = t->end[before];
        c->cause[op] = before;
    }
}

void stem_timeline_new(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_timeline *t)
{
    *t = (struct stem_timeline){.n = v->n_ops,
                                .start = STEM_NEW_ARRAY(a, double, v->n_ops + 1),
                                .end = STEM_NEW_ARRAY(a, double, v->n_ops + 1),
                                .critical = STEM_NEW_ARRAY(a, bool, v->n_ops + 1)};
}

void stem_timeline_estimate(const struct stem_plan_variant *v, uint32_t n_streams, struct stem_arena *a,
                            struct stem_timeline *t)
{
    struct chain c = {STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1), STEM_NONE};
    uint32_t *last = STEM_NEW_ARRAY(a, uint32_t, n_streams + 1), e = 0, longest = STEM_NONE;
    stem_timeline_new(v, a, t);
    for (uint32_t s = 0; s < n_streams; s++)
        last[s] = STEM_NONE;
    for (uint32_t i = 0; i < v->n_ops; i++) {
        const struct stem_plan_op *op = &v->ops[i];
        if (i && op->segment != v->ops[i - 1].segment)
            c.last_end = longest;
        c.cause[i] = STEM_NONE;
        follow(&c, t, i, c.last_end);
        follow(&c, t, i, last[op->stream]);
        for (; e < v->n_edges && v->edges[e].to <= i; e++)
            if (v->edges[e].to == i)
                follow(&c, t, i, v->edges[e].from);
        t->end[i] = t->start[i] + op->est_us;
        last[op->stream] = i;
        if (longest == STEM_NONE || t->end[i] > t->end[longest])
            longest = i;
    }
    mark_critical(&c, t);
}

/* ---- measured ---- */

struct reader {
    const struct stem_plan *p;
    const struct stem_plan_variant *v;
    struct stem_timeline *t;
    struct stem_arena *a;
    bool *seen;
    uint32_t lanes; /* events that say theirs */
    const char *why;
};

static bool names(const struct reader *r, uint32_t op, const char *name, bool kernel)
{
    const struct stem_plan_op *o = &r->v->ops[op];
    if (!kernel)
        return !strcmp(o->name, name);
    return o->work == STEM_WORK_LAUNCH && !strcmp(r->p->kernels[o->kernel].name, name);
}

/* The op that an event is about: the one it numbers, else the first of its name without an event. */
static uint32_t op_of(const struct reader *r, const json_t *event)
{
    json_t *number = json_object_get(json_object_get(event, "args"), "op");
    const char *name = json_string_value(json_object_get(event, "name"));
    if (json_is_integer(number))
        return json_integer_value(number) >= 0 && json_integer_value(number) < r->v->n_ops
                   ? (uint32_t)json_integer_value(number)
                   : STEM_NONE;
    for (int kernel = 0; name && kernel < 2; kernel++)
        for (uint32_t i = 0; i < r->v->n_ops; i++)
            if (!r->seen[i] && names(r, i, name, kernel))
                return i;
    return STEM_NONE;
}

/* A trace of ours names its ops too: other names mean another plan. */
static void check_name(struct reader *r, const json_t *event, uint32_t op)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    if (json_object_get(json_object_get(event, "args"), "op") && name && !names(r, op, name, false) &&
        !names(r, op, name, true) && !r->why)
        r->why = stem_arena_printf(r->a, "op %u is '%s' there and '%s' here: the trace is of another plan", op, name,
                                   r->v->ops[op].name);
}

static void read_event(struct reader *r, const json_t *event)
{
    const char *phase = json_string_value(json_object_get(event, "ph"));
    json_t *ts = json_object_get(event, "ts"), *dur = json_object_get(event, "dur"),
           *pid = json_object_get(event, "pid"), *lane = json_object_get(json_object_get(event, "args"), "lane");
    if (!phase || strcmp(phase, "X") || !json_is_number(ts) || !json_is_number(dur) || json_number_value(dur) < 0)
        return;
    /* Traces of ours have a process for each variant. */
    bool other =
        json_object_get(json_object_get(event, "args"), "op") && json_integer_value(pid) != r->v - r->p->variants;
    uint32_t op = other ? STEM_NONE : op_of(r, event);
    if (op == STEM_NONE || r->seen[op])
        return;
    check_name(r, event, op);
    if (json_is_integer(lane) && json_integer_value(lane) >= 0 && json_integer_value(lane) < r->v->n_ops) {
        r->t->lane[op] = (uint32_t)json_integer_value(lane);
        r->lanes++;
    }
    r->seen[op] = true;
    r->t->start[op] = json_number_value(ts);
    r->t->end[op] = json_number_value(ts) + json_number_value(dur);
}

/* Ops in order of their ends, to ask which one ended about when another started. */
struct ended {
    double end;
    uint32_t op;
};

static int by_end(const void *x, const void *y)
{
    const struct ended *a = x, *b = y;
    if (a->end < b->end || a->end > b->end)
        return a->end < b->end ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

#define NEAR_US 3.0 /* from one op's end to the start of what it let start */

/* The op of those that ended near `start` and started before it that ended last; STEM_NONE: there is none. */
static uint32_t ended_near(const struct stem_timeline *t, const struct ended *e, double start)
{
    uint32_t low = 0, high = t->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (e[middle].end <= start + NEAR_US)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low > 0 && e[low - 1].end >= start - NEAR_US; low--)
        if (t->start[e[low - 1].op] < start)
            return e[low - 1].op;
    return STEM_NONE;
}

/* Backwards from the last end: of what an op waits for by an edge, what ended last; or, if that was long over when
 * the op started, what made room on the device by ending then. */
void stem_timeline_finish(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_timeline *t)
{
    struct chain c = {STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1), STEM_NONE};
    struct ended *ends = STEM_NEW_ARRAY(a, struct ended, v->n_ops + 1);
    for (uint32_t i = 0; i < v->n_ops; i++) {
        c.cause[i] = STEM_NONE;
        ends[i] = (struct ended){t->end[i], i};
    }
    if (v->n_ops)
        qsort(ends, v->n_ops, sizeof *ends, by_end);
    for (uint32_t e = 0; e < v->n_edges; e++) {
        uint32_t from = v->edges[e].from, to = v->edges[e].to;
        if (c.cause[to] == STEM_NONE || t->end[from] > t->end[c.cause[to]])
            c.cause[to] = from;
    }
    for (uint32_t i = 0; i < v->n_ops; i++) {
        uint32_t other = STEM_NONE;
        if (c.cause[i] == STEM_NONE || t->end[c.cause[i]] < t->start[i] - NEAR_US)
            other = ended_near(t, ends, t->start[i]);
        /* Only what started before: so that causes end somewhere. */
        c.cause[i] = other != STEM_NONE ? other : c.cause[i];
        if (c.cause[i] != STEM_NONE && t->start[c.cause[i]] >= t->start[i])
            c.cause[i] = STEM_NONE;
    }
    mark_critical(&c, t);
}

bool stem_timeline_trace(const struct stem_plan *p, const struct stem_plan_variant *v, const char *text, size_t len,
                         struct stem_arena *a, struct stem_timeline *t, const char **why)
{
    json_error_t error;
    json_t *all = json_loadb(text, len, 0, &error),
           *events = json_is_array(all) ? all : json_object_get(all, "traceEvents");
    struct reader r = {.p = p, .v = v, .t = t, .a = a, .seen = STEM_NEW_ARRAY(a, bool, v->n_ops + 1)};
    double begin = 0;
    size_t i;
    json_t *event;
    stem_timeline_new(v, a, t);
    t->measured = true;
    t->lane = STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1);
    if (!json_is_array(events)) {
        *why = all ? "no traceEvents" : stem_arena_printf(a, "line %d: %s", error.line, error.text);
        json_decref(all);
        return false;
    }
    json_array_foreach(events, i, event) read_event(&r, event);
    json_decref(all);
    if (r.why) {
        *why = r.why;
        return false;
    }
    if (r.lanes < v->n_ops)
        t->lane = NULL;
    for (uint32_t k = 0; k < v->n_ops; k++) {
        if (!r.seen[k]) {
            *why = stem_arena_printf(a, "no event is about op %u, '%s'", k, v->ops[k].name);
            return false;
        }
        begin = !k || t->start[k] < begin ? t->start[k] : begin;
    }
    for (uint32_t k = 0; k < v->n_ops; k++) {
        t->start[k] -= begin;
        t->end[k] -= begin;
    }
    stem_timeline_finish(v, a, t);
    return true;
}
