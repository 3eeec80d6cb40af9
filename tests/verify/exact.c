/* SPDX-License-Identifier: Apache-2.0
 *
 * The truth about a small plan, by brute force. Every order of the ops that the steps allow (eager) or the edges
 * allow (graph) is executed on memory whose bytes hold hashes: what an op writes is a hash of the op and of all bytes
 * that it reads. The plan is unsafe if any order leaves other outputs or state than issue order does with every
 * temporary in memory of its own; if stream-ordered allocation could touch memory before its allocation or after its
 * free; if two ops of a resource could overlap; or if a capture of the steps would be refused.
 */
#include <string.h>

#include "tests/verify/model.h"

#define MAX_NODES 128
#define MAX_BYTES 1024
#define MAX_ORDERS 20000

typedef unsigned __int128 set;
#define BIT(i) ((set)1 << (i))

struct exact {
    const struct stem_plan *p;
    const struct stem_plan_variant *v;
    set step_before[MAX_NODES]; /* steps that come before each step */
    uint32_t step_of[MAX_NODES]; /* of each op */
    uint32_t op_before[2][MAX_NODES]; /* ops before each op: eager, graph */
    uint32_t base[64]; /* of each buffer in the memory of `reference` or of the slab */
    uint32_t n_bytes;
    uint64_t expected[MAX_BYTES];
    uint32_t orders;
    bool differs;
};

/* ---- what comes before what ---- */

/* Launched programmatically although its code does not wait: may overtake the op before it. */
static bool overtakes(const struct exact *x, uint32_t op)
{
    const struct stem_plan_op *o = &x->v->ops[op];
    return o->programmatic && o->work == STEM_WORK_LAUNCH && !x->p->kernels[o->kernel].waits;
}

static void close_steps(struct exact *x)
{
    uint32_t recorded[MAX_NODES];
    memset(recorded, 0xff, sizeof recorded);
    for (uint32_t i = 0; i < x->v->n_steps; i++) {
        const struct stem_step *s = &x->v->steps[i];
        set before = 0;
        uint32_t skip = STEM_NONE;
        for (uint32_t j = i; skip == STEM_NONE && s->kind == STEM_STEP_OP && overtakes(x, s->index) && j-- > 0;)
            if (x->v->steps[j].kind == STEM_STEP_OP && x->v->steps[j].stream == s->stream)
                skip = j;
        for (uint32_t j = 0; j < i; j++)
            if (x->v->steps[j].stream == s->stream)
                before |= x->step_before[j] | (j == skip ? 0 : BIT(j));
        if (skip != STEM_NONE) /* other steps of the stream stand behind it, but this one does not */
            before &= ~BIT(skip);
        if (s->kind == STEM_STEP_WAIT && recorded[s->index] != STEM_NONE)
            before |= BIT(recorded[s->index]) | x->step_before[recorded[s->index]];
        if (s->kind == STEM_STEP_RECORD)
            recorded[s->index] = i;
        if (s->kind == STEM_STEP_OP)
            x->step_of[s->index] = i;
        x->step_before[i] = before;
    }
}

static void close_ops(struct exact *x)
{
    for (uint32_t i = 0; i < x->v->n_ops; i++)
        for (uint32_t j = 0; j < x->v->n_ops; j++)
            if (x->step_before[x->step_of[i]] >> x->step_of[j] & 1)
                x->op_before[0][i] |= UINT32_C(1) << j;
    for (uint32_t i = 0; i < x->v->n_ops; i++)
        for (uint32_t j = 0; j < i; j++)
            if (x->v->ops[j].segment < x->v->ops[i].segment)
                x->op_before[1][i] |= UINT32_C(1) << j;
    for (uint32_t e = 0; e < x->v->n_edges; e++) { /* sorted by `to` */
        const struct stem_plan_edge *g = &x->v->edges[e];
        const struct stem_plan_op *to = &x->v->ops[g->to];
        bool loose = g->kind == STEM_EDGE_PROGRAMMATIC && to->work == STEM_WORK_LAUNCH &&
                     !x->p->kernels[to->kernel].waits;
        x->op_before[1][g->to] |= x->op_before[1][g->from] | (loose ? 0 : UINT32_C(1) << g->from);
    }
}

/* ---- rules of capture and allocation ---- */

static const char *capture_refused(const struct exact *x)
{
    bool inside[MAX_NODES] = {true}, event_inside[MAX_NODES] = {false};
    uint32_t first = 0;
    for (uint32_t i = 0; i < x->v->n_steps; i++) {
        const struct stem_step *s = &x->v->steps[i];
        if (s->kind == STEM_STEP_OP && !inside[s->stream])
            return "an op outside of the capture";
        if (s->kind == STEM_STEP_RECORD)
            event_inside[s->index] = inside[s->stream];
        if (s->kind == STEM_STEP_WAIT && inside[s->stream] && !event_inside[s->index])
            return "a wait for an event outside of the capture";
        if (s->kind == STEM_STEP_WAIT)
            inside[s->stream] |= event_inside[s->index];
        if (s->kind != STEM_STEP_SEGMENT)
            continue;
        for (uint32_t j = first; j < i; j++)
            if (x->v->steps[j].kind == STEM_STEP_OP && !(x->step_before[i] >> j & 1))
                return "work that is not joined";
        first = i + 1;
        memset(event_inside, 0, sizeof event_inside);
        memset(inside, 0, sizeof inside);
        inside[0] = true;
    }
    for (uint32_t e = 0; e < x->v->n_edges; e++)
        if (x->v->edges[e].kind == STEM_EDGE_PROGRAMMATIC &&
            (x->v->ops[x->v->edges[e].from].work != STEM_WORK_LAUNCH ||
             x->v->ops[x->v->edges[e].to].work != STEM_WORK_LAUNCH))
            return "a programmatic edge without a kernel at each end";
    return NULL;
}

static const char *allocation_fault(const struct exact *x)
{
    for (uint32_t b = 0; b < x->v->n_buffers; b++) {
        uint32_t alloc = STEM_NONE, release = STEM_NONE;
        for (uint32_t i = 0; i < x->v->n_steps; i++) {
            const struct stem_step *s = &x->v->steps[i];
            if (s->kind == STEM_STEP_ALLOC && s->index == b && alloc != STEM_NONE)
                return "allocated twice";
            if (s->kind == STEM_STEP_FREE && s->index == b && release != STEM_NONE)
                return "freed twice";
            alloc = s->kind == STEM_STEP_ALLOC && s->index == b ? i : alloc;
            release = s->kind == STEM_STEP_FREE && s->index == b ? i : release;
        }
        if (release != STEM_NONE && (alloc == STEM_NONE || !(x->step_before[release] >> alloc & 1)))
            return "freed before the allocation";
        for (uint32_t i = 0; i < x->v->n_ops; i++)
            for (uint32_t k = 0; k < x->v->ops[i].n_operands; k++) {
                uint32_t at = x->step_of[i];
                if (x->v->ops[i].operands[k].tensor.buffer != b || x->v->buffers[b].kind != STEM_BUFFER_TEMP)
                    continue;
                if (alloc == STEM_NONE || !(x->step_before[at] >> alloc & 1))
                    return "used before the allocation";
                if (release != STEM_NONE && !(x->step_before[release] >> at & 1))
                    return "used after the free";
            }
    }
    return NULL;
}

static const char *resource_fault(const struct exact *x)
{
    for (uint32_t i = 0; i < x->v->n_ops; i++)
        for (uint32_t j = 0; j < i; j++)
            if (x->v->ops[i].resource != STEM_NONE && x->v->ops[i].resource == x->v->ops[j].resource)
                for (uint32_t m = 0; m < 2; m++)
                    if (!(x->op_before[m][i] >> j & 1) && !(x->op_before[m][j] >> i & 1))
                        return "a resource used twice at once";
    return NULL;
}

/* ---- execution ---- */

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 32;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ (h >> 29);
}

/* Calls for each byte of a tensor: reads into *h, or writes from it. */
static void touch(const struct exact *x, const struct stem_tensor *t, uint64_t *memory, uint64_t *h, bool write)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < t->dim[0]; i++)
        for (int64_t k = 0; k < (t->rank > 1 ? t->dim[1] : 1); k++) {
            uint64_t at = x->base[t->buffer] + t->offset +
                          (uint64_t)(i * t->stride[0] + (t->rank > 1 ? k * t->stride[1] : 0));
            if (write)
                memory[at] = mix(*h, n++);
            else
                *h = mix(*h, memory[at]);
        }
}

static void execute(const struct exact *x, uint32_t op, uint64_t *memory)
{
    const struct stem_plan_op *o = &x->v->ops[op];
    uint64_t h = mix(1, op);
    for (uint32_t k = 0; k < o->n_operands; k++)
        if (o->operands[k].access & STEM_READ)
            touch(x, &o->operands[k].tensor, memory, &h, false);
    for (uint32_t k = 0; k < o->n_operands; k++)
        if (o->operands[k].access & STEM_WRITE) {
            uint64_t each = mix(h, k);
            touch(x, &o->operands[k].tensor, memory, &each, true);
        }
}

/* Externals side by side at the start; then the slab, or each temporary by itself. */
static bool lay_out(struct exact *x, bool apart)
{
    uint32_t at = 0;
    for (uint32_t b = 0; b < x->p->n_external; b++) {
        x->base[b] = at;
        at += (uint32_t)x->v->buffers[b].bytes;
    }
    for (uint32_t b = x->p->n_external; b < x->v->n_buffers; b++) {
        x->base[b] = apart ? at : at + (uint32_t)x->v->buffers[b].offset;
        at += apart ? (uint32_t)x->v->buffers[b].bytes : 0;
    }
    x->n_bytes = at + (apart ? 0 : (uint32_t)x->v->slab_bytes);
    return x->n_bytes <= MAX_BYTES;
}

static void fill(const struct exact *x, uint64_t *memory, uint64_t seed)
{
    uint32_t external = 0;
    for (uint32_t b = 0; b < x->p->n_external; b++)
        external += (uint32_t)x->v->buffers[b].bytes;
    for (uint32_t i = 0; i < x->n_bytes; i++)
        memory[i] = mix(i < external ? 7 : seed, i);
}

/* Do outputs and state hold what they should? */
static bool as_expected(const struct exact *x, const uint64_t *memory)
{
    for (uint32_t b = 0; b < x->p->n_external; b++)
        if (memcmp(memory + x->base[b], x->expected + x->base[b], sizeof *memory * x->v->buffers[b].bytes) != 0)
            return false;
    return true;
}

static void search(struct exact *x, uint32_t mode, uint32_t done, const uint64_t *memory)
{
    if (x->differs || x->orders > MAX_ORDERS)
        return;
    if (done == (UINT32_C(1) << x->v->n_ops) - 1) {
        x->orders++;
        x->differs = !as_expected(x, memory);
        return;
    }
    for (uint32_t i = 0; i < x->v->n_ops; i++) {
        if (done >> i & 1 || x->op_before[mode][i] & ~done)
            continue;
        uint64_t next[MAX_BYTES];
        memcpy(next, memory, sizeof *next * x->n_bytes);
        execute(x, i, next);
        search(x, mode, done | UINT32_C(1) << i, next);
    }
}

/* What is only lent is found as it was. */
static bool lent_stays(const struct exact *x, const uint64_t *before, const uint64_t *after)
{
    for (uint32_t b = 0; b < x->p->n_external; b++) {
        const struct stem_plan_buffer *e = &x->v->buffers[b];
        bool lent = e->kind == STEM_BUFFER_WEIGHT || (e->kind == STEM_BUFFER_INPUT && !e->inout);
        if (lent && memcmp(before + x->base[b], after + x->base[b], sizeof *before * e->bytes) != 0)
            return false;
    }
    return true;
}

enum truth plan_truth(const struct stem_plan *p, const char **why)
{
    struct exact x = {.p = p, .v = &p->variants[0]};
    *why = "too large";
    if (x.v->n_steps > MAX_NODES || x.v->n_ops > 16 || x.v->n_buffers > 64 || !lay_out(&x, true))
        return TRUTH_UNKNOWN;
    close_steps(&x);
    close_ops(&x);
    if ((*why = capture_refused(&x)) || (*why = allocation_fault(&x)) || (*why = resource_fault(&x)))
        return TRUTH_UNSAFE;
    uint64_t memory[MAX_BYTES], before[MAX_BYTES];
    fill(&x, memory, 11);
    memcpy(before, memory, sizeof before);
    for (uint32_t i = 0; i < x.v->n_ops; i++)
        execute(&x, i, memory);
    *why = "memory that is only lent is written";
    if (!lent_stays(&x, before, memory))
        return TRUTH_UNSAFE;
    memcpy(x.expected, memory, sizeof memory);
    *why = "too large";
    if (!lay_out(&x, false))
        return TRUTH_UNKNOWN;
    fill(&x, memory, 13);
    for (uint32_t mode = 0; mode < 2; mode++) {
        x.orders = 0;
        search(&x, mode, 0, memory);
        if (x.differs) {
            *why = mode ? "the edges allow an order that changes a result"
                        : "the steps allow an order that changes a result";
            return TRUTH_UNSAFE;
        }
        if (x.orders > MAX_ORDERS) {
            *why = "too many orders";
            return TRUTH_UNKNOWN;
        }
    }
    *why = "safe";
    return TRUTH_SAFE;
}
