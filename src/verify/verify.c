/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over a variant's steps: clocks, forks and joins, lifetimes, resources, programmatic launches. Bytes are
 * memory.c's part, the graph's edges edges.c's; structure.c has made sure that every index can be followed.
 */
#include "verify/check.h"

#include <stdlib.h>
#include <string.h>

/* ---- reporting ---- */

static bool in_word(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_';
}

/* Where the op stands in the source that the queue knows, if that is the source the plan was made from. */
static struct stem_span op_span(const struct stem_check *c, uint32_t op)
{
    const struct stem_source *s = stem_diags_source(c->diags);
    if (op == STEM_NONE || !s || !c->plan->source || strcmp(s->path, c->plan->source))
        return STEM_NOWHERE;
    const struct stem_plan_op *o = &c->v->ops[op];
    if (!o->line || o->line > s->n_lines || !o->column)
        return STEM_NOWHERE;
    uint32_t at = s->line_begin[o->line - 1] + o->column - 1;
    uint32_t end = at;
    while (end < s->len && in_word(s->text[end]))
        end++;
    return at < s->len ? (struct stem_span){at, end > at ? end : at + 1} : STEM_NOWHERE;
}

const char *stem_check_op_text(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    const char *stream = o->stream < c->plan->n_streams ? c->plan->streams[o->stream] : "?";
    if (!o->line)
        return stem_arena_printf(c->arena, "'%s' (op %u, stream %s)", o->name, op, stream);
    return stem_arena_printf(c->arena, "'%s' (line %u, stream %s)", o->name, o->line, stream);
}

void stem_check_fault(struct stem_check *c, enum stem_diag_id id, uint32_t op, uint32_t other, const char *fmt, ...)
{
    if (op != STEM_NONE && other != STEM_NONE) {
        if (c->said_id == (int)id && c->said_first == other && c->said_second == op)
            return;
        c->said_id = (int)id;
        c->said_first = other;
        c->said_second = op;
    }
    va_list ap;
    va_start(ap, fmt);
    char *text = stem_arena_vprintf(c->arena, fmt, ap);
    va_end(ap);
    c->faults++;
    stem_error(c->diags, id, op_span(c, op), "%s%s", text,
               c->plan->n_variants > 1 ? stem_arena_printf(c->arena, " [variant %u]", c->variant) : "");
    struct stem_span at = op_span(c, other);
    if (at.begin != UINT32_MAX)
        stem_diag_label(c->diags, at, "%s", c->v->ops[other].name);
}

/* ---- clocks ---- */

static uint32_t *clock_of(const struct stem_check *c, uint32_t stream)
{
    return &c->now[stream * (size_t)c->plan->n_streams];
}

bool stem_check_before(const struct stem_check *c, uint32_t a, uint32_t s)
{
    return clock_of(c, s)[c->v->ops[a].stream] >= c->op_tick[a];
}

static uint32_t tick(struct stem_check *c, uint32_t stream)
{
    return clock_of(c, stream)[stream] = ++c->streams[stream].tick;
}

static void record(struct stem_check *c, uint32_t stream, uint32_t event)
{
    struct stem_check_event *e = &c->events[event];
    size_t size = sizeof(uint32_t) * c->plan->n_streams;
    if (!e->clock)
        e->clock = stem_arena_alloc(c->arena, size);
    memcpy(e->clock, clock_of(c, stream), size);
    e->segment = c->segment;
    e->joined = c->streams[stream].joined;
    stem_check_edges_record(c, stream, event);
}

static void wait_for(struct stem_check *c, uint32_t stream, uint32_t event)
{
    const struct stem_check_event *e = &c->events[event];
    if (!e->clock) {
        stem_check_fault(c, STEM_E_VERIFY_WAIT, STEM_NONE, STEM_NONE,
                         "stream %s waits for event %u before it is recorded", c->plan->streams[stream], event);
        return;
    }
    if (e->segment != c->segment) {
        stem_check_fault(c, STEM_E_VERIFY_WAIT, STEM_NONE, STEM_NONE,
                         "stream %s waits in segment %u for event %u, which was recorded in segment %u",
                         c->plan->streams[stream], c->segment, event, e->segment);
        return;
    }
    if (!e->joined)
        stem_check_fault(c, STEM_E_VERIFY_WAIT, STEM_NONE, STEM_NONE,
                         "stream %s waits for event %u, whose stream had not been forked in segment %u when it was "
                         "recorded", c->plan->streams[stream], event, c->segment);
    uint32_t *mine = clock_of(c, stream);
    for (uint32_t s = 0; s < c->plan->n_streams; s++)
        mine[s] = e->clock[s] > mine[s] ? e->clock[s] : mine[s];
    c->streams[stream].joined |= e->joined;
    stem_check_edges_wait(c, stream, event);
}

/* ---- lifetimes, as stream-ordered allocation would see them ---- */

static void alloc_step(struct stem_check *c, uint32_t stream, uint32_t buffer)
{
    struct stem_check_buffer *b = &c->buffers[buffer];
    if (b->allocated)
        stem_check_fault(c, STEM_E_VERIFY_LIFETIME, STEM_NONE, STEM_NONE, "buffer '%s' is allocated twice",
                         c->v->buffers[buffer].name);
    b->allocated = true;
    b->alloc_stream = stream;
    b->alloc_tick = tick(c, stream);
}

static void free_step(struct stem_check *c, uint32_t stream, uint32_t buffer)
{
    struct stem_check_buffer *b = &c->buffers[buffer];
    const char *name = c->v->buffers[buffer].name;
    if (!b->allocated || b->freed)
        stem_check_fault(c, STEM_E_VERIFY_LIFETIME, STEM_NONE, STEM_NONE, "buffer '%s' is freed %s", name,
                         b->freed ? "twice" : "before it is allocated");
    else if (clock_of(c, stream)[b->alloc_stream] < b->alloc_tick)
        stem_check_fault(c, STEM_E_VERIFY_LIFETIME, STEM_NONE, STEM_NONE,
                         "stream %s frees buffer '%s' without being ordered after its allocation on stream %s",
                         c->plan->streams[stream], name, c->plan->streams[b->alloc_stream]);
    for (uint32_t s = 0; b->last && s < c->plan->n_streams; s++) {
        uint32_t op = b->last[s] - 1;
        if (b->last[s] && !stem_check_before(c, op, stream))
            stem_check_fault(c, STEM_E_VERIFY_LIFETIME, op, STEM_NONE,
                             "stream %s frees buffer '%s' without waiting for %s, which uses it",
                             c->plan->streams[stream], name, stem_check_op_text(c, op));
    }
    b->freed = true;
    tick(c, stream);
}

static void use_buffer(struct stem_check *c, uint32_t op, uint32_t buffer)
{
    if (c->v->buffers[buffer].kind != STEM_BUFFER_TEMP)
        return;
    struct stem_check_buffer *b = &c->buffers[buffer];
    const char *name = c->v->buffers[buffer].name;
    uint32_t stream = c->v->ops[op].stream;
    if (!b->allocated || b->freed)
        stem_check_fault(c, STEM_E_VERIFY_LIFETIME, op, STEM_NONE, "%s uses buffer '%s' %s",
                         stem_check_op_text(c, op), name, b->freed ? "after its free" : "before its allocation");
    else if (clock_of(c, stream)[b->alloc_stream] < b->alloc_tick)
        stem_check_fault(c, STEM_E_VERIFY_LIFETIME, op, STEM_NONE,
                         "%s uses buffer '%s' without being ordered after its allocation on stream %s",
                         stem_check_op_text(c, op), name, c->plan->streams[b->alloc_stream]);
    if (!b->last)
        b->last = STEM_NEW_ARRAY(c->arena, uint32_t, c->plan->n_streams);
    b->last[stream] = op + 1;
}

/* ---- ops ---- */

static void hold_resource(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    if (o->resource == STEM_NONE)
        return;
    uint32_t *last = &c->resource[o->resource * (size_t)c->plan->n_streams];
    for (uint32_t s = 0; s < c->plan->n_streams; s++)
        if (last[s] && !stem_check_before(c, last[s] - 1, o->stream))
            stem_check_fault(c, STEM_E_VERIFY_RESOURCE, op, last[s] - 1,
                             "%s may overlap %s: both use the resource '%s' and nothing orders them",
                             stem_check_op_text(c, op), stem_check_op_text(c, last[s] - 1),
                             c->plan->resources[o->resource]);
    last[o->stream] = op + 1;
}

static void early_fault(struct stem_check *c, uint32_t op, uint32_t writer, uint32_t before, uint32_t operand)
{
    char *text = stem_arena_printf(c->arena, ", which may still run when %s starts", stem_check_op_text(c, before));
    stem_check_fault(c, STEM_E_VERIFY_PROGRAMMATIC, op, writer,
                     "%s is launched programmatically and reads operand %u before it waits; %s writes it%s",
                     stem_check_op_text(c, op), operand, stem_check_op_text(c, writer),
                     writer == before ? "" : text);
}

/* The kernel reads some operands before it waits. What wrote them must have completed when the op starts, which it
 * does once its predecessor has waited for all that precedes that; behind one that starts its successor ahead of that
 * wait, once that one could start. */
static void read_early(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    uint32_t early = c->plan->kernels[o->kernel].early, before = c->streams[o->stream].sure;
    for (uint32_t k = 0; before != STEM_NONE && k < o->n_operands && k < 32; k++) {
        uint32_t buffer = o->operands[k].tensor.buffer;
        if (!(early >> k & 1) || buffer == STEM_NONE)
            continue;
        if (!(o->operands[k].access & STEM_READ)) /* what it also writes, it writes after its wait */
            stem_check_fault(c, STEM_E_VERIFY_PROGRAMMATIC, op, STEM_NONE,
                             "%s is launched programmatically and writes operand %u, which its kernel '%s' touches "
                             "before it waits", stem_check_op_text(c, op), k, c->plan->kernels[o->kernel].name);
        const uint32_t *wrote = c->buffers[buffer].wrote;
        for (uint32_t s = 0; wrote && s < c->plan->n_streams; s++)
            if (wrote[s] && (wrote[s] - 1 == before || c->op_clock[before * (size_t)c->plan->n_streams + s] <
                                                           c->op_tick[wrote[s] - 1]))
                early_fault(c, op, wrote[s] - 1, before, k);
    }
}

static void note_writes(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    for (uint32_t k = 0; k < o->n_operands; k++) {
        uint32_t buffer = o->operands[k].tensor.buffer;
        if (buffer == STEM_NONE || o->operands[k].access == STEM_READ)
            continue;
        uint32_t **wrote = &c->buffers[buffer].wrote;
        if (!*wrote)
            *wrote = STEM_NEW_ARRAY(c->arena, uint32_t, c->plan->n_streams);
        (*wrote)[o->stream] = op + 1;
    }
}

static void launch_programmatic(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    if (!o->programmatic)
        return;
    if (o->work != STEM_WORK_LAUNCH)
        stem_check_fault(c, STEM_E_VERIFY_PROGRAMMATIC, op, STEM_NONE,
                         "%s is launched programmatically but is no kernel", stem_check_op_text(c, op));
    else if (!c->plan->kernels[o->kernel].waits)
        stem_check_fault(c, STEM_E_VERIFY_PROGRAMMATIC, op, STEM_NONE,
                         "%s is launched programmatically, but its kernel '%s' never waits for its predecessors",
                         stem_check_op_text(c, op), c->plan->kernels[o->kernel].name);
    else
        read_early(c, op);
}

static void issue(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    struct stem_check_stream *s = &c->streams[o->stream];
    if (!s->joined) {
        stem_check_fault(c, STEM_E_VERIFY_FORK, op, STEM_NONE,
                         "%s is the first op of its stream in segment %u and is not ordered after that segment's "
                         "start", stem_check_op_text(c, op), c->segment);
        s->joined = true; /* said once */
    }
    launch_programmatic(c, op);
    hold_resource(c, op);
    for (uint32_t i = 0; i < o->n_operands; i++)
        if (o->operands[i].tensor.buffer != STEM_NONE)
            use_buffer(c, op, o->operands[i].tensor.buffer);
    stem_check_memory_op(c, op);
    stem_check_edges_op(c, op);
    c->op_tick[op] = tick(c, o->stream);
    memcpy(&c->op_clock[op * (size_t)c->plan->n_streams], clock_of(c, o->stream),
           sizeof(uint32_t) * c->plan->n_streams);
    note_writes(c, op);
    s->last_op = op;
    if (!o->programmatic || o->work != STEM_WORK_LAUNCH || !c->plan->kernels[o->kernel].ahead)
        s->sure = op;
}

static void end_segment(struct stem_check *c)
{
    for (uint32_t s = 0; s < c->plan->n_streams; s++) {
        uint32_t op = c->streams[s].last_op;
        if (op != STEM_NONE && !stem_check_before(c, op, 0))
            stem_check_fault(c, STEM_E_VERIFY_JOIN, op, STEM_NONE,
                             "segment %u ends while %s may still run: stream %s does not wait for it", c->segment,
                             stem_check_op_text(c, op), c->plan->streams[0]);
        c->streams[s].last_op = c->streams[s].sure = STEM_NONE;
        c->streams[s].joined = s == 0;
        c->streams[s].n_pending = 0;
    }
    c->segment++;
}

/* ---- the walk ---- */

static void walk(struct stem_check *c)
{
    for (uint32_t i = 0; i < c->v->n_steps && c->faults < STEM_VERIFY_MAX_FAULTS; i++) {
        const struct stem_step *s = &c->v->steps[i];
        switch (s->kind) {
        case STEM_STEP_OP: issue(c, s->index); break;
        case STEM_STEP_RECORD: record(c, s->stream, s->index); break;
        case STEM_STEP_WAIT: wait_for(c, s->stream, s->index); break;
        case STEM_STEP_ALLOC: alloc_step(c, s->stream, s->index); break;
        case STEM_STEP_FREE: free_step(c, s->stream, s->index); break;
        case STEM_STEP_SEGMENT: end_segment(c); break;
        }
    }
    if (c->faults >= STEM_VERIFY_MAX_FAULTS)
        return;
    for (uint32_t b = 0; b < c->v->n_buffers; b++)
        if (c->buffers[b].allocated && !c->buffers[b].freed)
            stem_check_fault(c, STEM_E_VERIFY_LIFETIME, STEM_NONE, STEM_NONE, "buffer '%s' is never freed",
                             c->v->buffers[b].name);
    stem_check_edges_end(c);
    stem_check_memory_end(c);
}

static void check_variant(struct stem_check *c)
{
    const struct stem_plan *p = c->plan;
    const struct stem_plan_variant *v = c->v;
    if (!stem_check_structure(c))
        return;
    c->now = STEM_NEW_ARRAY(c->arena, uint32_t, (size_t)p->n_streams * p->n_streams);
    c->op_clock = STEM_NEW_ARRAY(c->arena, uint32_t, (size_t)v->n_ops * p->n_streams);
    c->op_tick = STEM_NEW_ARRAY(c->arena, uint32_t, v->n_ops);
    c->streams = STEM_NEW_ARRAY(c->arena, struct stem_check_stream, p->n_streams);
    c->events = STEM_NEW_ARRAY(c->arena, struct stem_check_event, v->n_events);
    c->buffers = STEM_NEW_ARRAY(c->arena, struct stem_check_buffer, v->n_buffers);
    c->resource = STEM_NEW_ARRAY(c->arena, uint32_t, (size_t)p->n_resources * p->n_streams);
    for (uint32_t s = 0; s < p->n_streams; s++) {
        c->streams[s].last_op = c->streams[s].sure = STEM_NONE;
        c->streams[s].joined = s == 0;
    }
    stem_check_memory_new(c);
    walk(c);
    stem_check_memory_free(c);
    for (uint32_t s = 0; s < p->n_streams; s++)
        free(c->streams[s].pending);
}

bool stem_verify(const struct stem_plan *plan, struct stem_diags *diags)
{
    uint32_t faults = 0;
    for (uint32_t i = 0; i < plan->n_variants && faults < STEM_VERIFY_MAX_FAULTS; i++) {
        struct stem_check c = {.plan = plan, .v = &plan->variants[i], .variant = i, .diags = diags,
                               .arena = stem_arena_new(), .said_first = STEM_NONE, .said_second = STEM_NONE,
                               .faults = faults};
        check_variant(&c);
        faults = c.faults;
        stem_arena_free(c.arena);
    }
    return faults == 0;
}
