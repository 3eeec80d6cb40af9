/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/tune.h"

/* What is being built. Buffer i of the plan is one operand of one set of one op. */
struct maker {
    const struct tune_run *r;
    struct stem_plan *p;
    struct stem_plan_variant *v;
    struct stem_plan_buffer *buffers;
    struct stem_plan_op *ops;
    struct stem_step *steps;
    uint64_t *address;
    uint32_t set[2]; /* which comes next, of a and of b */
    bool used[2];    /* what the stream has last is a kernel of ours */
};

static void *take(struct stem_plan *p, size_t bytes)
{
    void *at = p ? stem_plan_alloc(p, bytes) : NULL;
    if (!at)
        stem_out_of_memory();
    return at;
}

static const struct stem_plan_variant *variant_of(const struct tune_op *o)
{
    return &o->program->exec.plan->variants[o->variant];
}

static const struct stem_plan_op *op_of(const struct tune_op *o)
{
    return &variant_of(o)->ops[o->op];
}

/* Buffers of all sets of an op; the number of the first. */
static uint32_t add_buffers(struct maker *m, const struct tune_op *o)
{
    const struct stem_plan_op *op = op_of(o);
    uint32_t first = m->v->n_buffers;
    for (uint32_t s = 0; s < o->n_sets; s++)
        for (uint32_t k = 0; k < op->n_operands; k++) {
            uint32_t from = op->operands[k].tensor.buffer;
            struct stem_plan_buffer *b = &m->buffers[m->v->n_buffers];
            char name[32];
            snprintf(name, sizeof name, "b%u", m->v->n_buffers);
            *b = (struct stem_plan_buffer){.bytes = 1, .dtype = STEM_U8};
            if (from != STEM_NONE)
                *b = variant_of(o)->buffers[from];
            b->name = stem_plan_strdup(m->p, name);
            b->kind = STEM_BUFFER_INPUT;
            if (op->work != STEM_WORK_MATMUL) /* which chooses its kernels by it */
                b->align = 1;
            b->offset = 0;
            b->bytes = b->bytes ? b->bytes : 1;
            m->address[m->v->n_buffers++] = o->address[s * op->n_operands + k];
        }
    return first;
}

static void add_step(struct maker *m, enum stem_step_kind kind, uint32_t stream, uint32_t index)
{
    m->steps[m->v->n_steps++] = (struct stem_step){kind, stream, index};
}

/* One launch of `o` on a stream, with the next of its sets. `which` is 0 for a, 1 for b. */
static void launch(struct maker *m, const struct tune_op *o, uint32_t which, uint32_t stream, uint32_t first_buffer)
{
    const struct stem_plan_op *op = op_of(o);
    struct stem_plan_operand *operands =
        take(m->p, (op->n_operands + (size_t)1) * sizeof *operands);
    uint32_t set = m->set[which]++ % o->n_sets, index = m->v->n_ops++;
    for (uint32_t k = 0; k < op->n_operands; k++) {
        operands[k] = op->operands[k];
        if (operands[k].tensor.buffer != STEM_NONE)
            operands[k].tensor.buffer = first_buffer + set * op->n_operands + k;
    }
    m->ops[index] = *op;
    m->ops[index].operands = operands;
    m->ops[index].stream = stream;
    m->ops[index].segment = 0;
    m->ops[index].resource = STEM_NONE;
    bool kernel = op->work == STEM_WORK_LAUNCH;
    m->ops[index].programmatic = kernel && m->r->early && m->used[stream] && m->p->kernels[op->kernel].waits;
    m->used[stream] = kernel;
    add_step(m, STEM_STEP_OP, stream, index);
}

static void wait(struct maker *m, uint32_t from, uint32_t to, uint32_t event)
{
    add_step(m, STEM_STEP_RECORD, from, event);
    add_step(m, STEM_STEP_WAIT, to, event);
}

static void build(struct maker *m)
{
    const struct tune_run *r = m->r;
    uint32_t a = add_buffers(m, r->a), b = r->b ? add_buffers(m, r->b) : 0;
    for (uint32_t i = 0; i < r->times_a; i++) {
        launch(m, r->a, 0, 0, a);
        if (r->form == TUNE_SERIAL) {
            launch(m, r->a, 0, 0, a);
            launch(m, r->b, 1, 0, b);
        } else if (r->form == TUNE_FORKED) {
            wait(m, 0, 1, 0);
            launch(m, r->a, 0, 0, a);
            launch(m, r->b, 1, 1, b);
            wait(m, 1, 0, 1);
        }
    }
    if (r->form != TUNE_TOGETHER)
        return;
    for (uint32_t i = 0; i < r->times_b; i++)
        launch(m, r->b, 1, 1, b);
    wait(m, 1, 0, 1);
}

static void set_edges(struct maker *m)
{
    struct stem_plan_edge *derived = NULL;
    uint32_t n = stem_plan_derive_edges(m->v, m->p->n_streams, &derived);
    if (n == STEM_NONE)
        return;
    struct stem_plan_edge *edges = take(m->p, (n + (size_t)1) * sizeof *edges);
    memcpy(edges, derived, n * sizeof *edges);
    m->v->edges = edges;
    m->v->n_edges = n;
    free(derived);
}

struct stem_plan *tune_plan(const struct tune_run *r, struct stem_arena *arena, const uint64_t **address)
{
    static const char *const streams[] = {"main", "side"};
    const struct stem_plan *from = r->a->program->exec.plan;
    struct maker m = {.r = r, .p = stem_plan_new()};
    size_t n_buffers = (size_t)r->a->n_sets * op_of(r->a)->n_operands + (r->b ? (size_t)r->b->n_sets * op_of(r->b)->n_operands : 0),
           n_ops = 3 * (size_t)r->times_a + r->times_b;
    m.v = take(m.p, sizeof *m.v);
    m.buffers = take(m.p, (n_buffers + 1) * sizeof *m.buffers);
    m.ops = take(m.p, (n_ops + 1) * sizeof *m.ops);
    m.steps = take(m.p, (3 * n_ops + 8) * sizeof *m.steps);
    m.address = STEM_NEW_ARRAY(arena, uint64_t, n_buffers + 1);
    *m.p = (struct stem_plan){.version = STEM_PLAN_VERSION, .name = from->name, .source = from->source, .sm = from->sm, .cuda = from->cuda,
                              .kernels = from->kernels, .n_kernels = from->n_kernels, .streams = streams,
                              .n_streams = r->b ? 2 : 1, .variants = m.v, .n_variants = 1, .memory = m.p->memory};
    m.v->buffers = m.buffers;
    m.v->ops = m.ops;
    m.v->steps = m.steps;
    m.v->n_events = r->b ? 2 : 0;
    build(&m);
    m.p->n_external = m.v->n_buffers;
    struct stem_plan_segment *segment = take(m.p, sizeof *segment);
    *segment = (struct stem_plan_segment){.n_ops = m.v->n_ops, .n_steps = m.v->n_steps};
    m.v->segments = segment;
    m.v->n_segments = 1;
    set_edges(&m);
    *address = m.address;
    return m.p;
}
