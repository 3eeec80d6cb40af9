/* SPDX-License-Identifier: Apache-2.0
 *
 * Hazards of a plan of any size, by brute force and without the verifier's ideas: happens-before is a closed matrix
 * of bits, every pair of ops is held against every byte that both touch, and one execution in issue order on hashes
 * shows bytes that are used again too early. Unlike plan_truth it does not ask whether a race would be seen in an
 * output.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/verify/model.h"

struct hazard {
    const struct stem_plan *p;
    const struct stem_plan_variant *v;
    uint32_t words;    /* of a row of `steps` */
    uint64_t *steps;   /* steps before each step */
    uint32_t op_words; /* of a row of `ops` */
    uint64_t *ops[2];  /* ops before each op: by steps, by edges */
    uint32_t *step_of; /* of each op */
};

static bool has(const uint64_t *row, uint32_t i)
{
    return row[i / 64] >> (i % 64) & 1;
}

static void add(uint64_t *row, uint32_t i)
{
    row[i / 64] |= UINT64_C(1) << (i % 64);
}

static void merge(uint64_t *row, const uint64_t *other, uint32_t words)
{
    for (uint32_t w = 0; w < words; w++)
        row[w] |= other[w];
}

/* ---- order ---- */

/* Launched programmatically although its code does not wait: may overtake the op before it. */
static bool overtakes(const struct hazard *h, uint32_t op)
{
    const struct stem_plan_op *o = &h->v->ops[op];
    return o->programmatic && o->work == STEM_WORK_LAUNCH && !h->p->kernels[o->kernel].waits;
}

static void close_steps(struct hazard *h)
{
    const struct stem_step *s = h->v->steps;
    for (uint32_t i = 0; i < h->v->n_steps; i++) {
        uint64_t *row = h->steps + (size_t)i * h->words;
        uint32_t skip = STEM_NONE;
        for (uint32_t j = i; j-- > 0;) {
            if (s[j].stream != s[i].stream)
                continue;
            if (skip == STEM_NONE && s[j].kind == STEM_STEP_OP)
                skip = j;
            merge(row, h->steps + (size_t)j * h->words, h->words);
            add(row, j);
        }
        if (skip != STEM_NONE && s[i].kind == STEM_STEP_OP && overtakes(h, s[i].index))
            row[skip / 64] &= ~(UINT64_C(1) << (skip % 64)); /* what stands before it still counts */
        for (uint32_t j = i; s[i].kind == STEM_STEP_WAIT && j-- > 0;)
            if (s[j].kind == STEM_STEP_RECORD && s[j].index == s[i].index) {
                add(row, j);
                merge(row, h->steps + (size_t)j * h->words, h->words);
                break;
            }
        if (s[i].kind == STEM_STEP_OP)
            h->step_of[s[i].index] = i;
    }
}

static void close_ops(struct hazard *h)
{
    const struct stem_plan_variant *v = h->v;
    for (uint32_t i = 0; i < v->n_ops; i++)
        for (uint32_t j = 0; j < i; j++) {
            if (has(h->steps + (size_t)h->step_of[i] * h->words, h->step_of[j]))
                add(h->ops[0] + (size_t)i * h->op_words, j);
            if (v->ops[j].segment < v->ops[i].segment)
                add(h->ops[1] + (size_t)i * h->op_words, j);
        }
    for (uint32_t e = 0; e < v->n_edges; e++) { /* sorted by `to` */
        const struct stem_plan_edge *g = &v->edges[e];
        const struct stem_plan_op *to = &v->ops[g->to];
        uint64_t *row = h->ops[1] + (size_t)g->to * h->op_words;
        merge(row, h->ops[1] + (size_t)g->from * h->op_words, h->op_words);
        if (g->kind != STEM_EDGE_PROGRAMMATIC || to->work != STEM_WORK_LAUNCH || h->p->kernels[to->kernel].waits)
            add(row, g->from);
    }
}

/* ---- rules of capture, allocation and resources ---- */

static const char *capture_refused(const struct hazard *h)
{
    const struct stem_plan_variant *v = h->v;
    bool inside[64] = {true}, *event = calloc(v->n_events + 1U, sizeof *event);
    const char *fault = NULL;
    for (uint32_t i = 0, first = 0; i < v->n_steps && !fault; i++) {
        const struct stem_step *s = &v->steps[i];
        if (s->kind == STEM_STEP_OP && !inside[s->stream])
            fault = "an op outside of the capture";
        if (s->kind == STEM_STEP_RECORD)
            event[s->index] = inside[s->stream];
        if (s->kind == STEM_STEP_WAIT && inside[s->stream] && !event[s->index])
            fault = "a wait for an event outside of the capture";
        if (s->kind == STEM_STEP_WAIT)
            inside[s->stream] |= event[s->index];
        if (s->kind != STEM_STEP_SEGMENT)
            continue;
        for (uint32_t j = first; j < i; j++)
            if (v->steps[j].kind == STEM_STEP_OP && !has(h->steps + (size_t)i * h->words, j))
                fault = "work that is not joined";
        first = i + 1;
        memset(event, 0, v->n_events * sizeof *event);
        memset(inside, 0, sizeof inside);
        inside[0] = true;
    }
    free(event);
    for (uint32_t e = 0; e < v->n_edges && !fault; e++)
        if (v->edges[e].kind == STEM_EDGE_PROGRAMMATIC &&
            (v->ops[v->edges[e].from].work != STEM_WORK_LAUNCH || v->ops[v->edges[e].to].work != STEM_WORK_LAUNCH))
            fault = "a programmatic edge without a kernel at each end";
    return fault;
}

static const char *allocation_fault(const struct hazard *h)
{
    const struct stem_plan_variant *v = h->v;
    const char *fault = NULL;
    uint32_t *alloc = malloc(2 * (v->n_buffers + 1U) * sizeof *alloc), *freed = alloc + v->n_buffers + 1;
    memset(alloc, 0xff, 2 * (v->n_buffers + 1U) * sizeof *alloc);
    for (uint32_t i = 0; i < v->n_steps; i++) {
        const struct stem_step *s = &v->steps[i];
        uint32_t *at = s->kind == STEM_STEP_ALLOC ? alloc : s->kind == STEM_STEP_FREE ? freed : NULL;
        if (at && at[s->index] != STEM_NONE)
            fault = "allocated or freed twice";
        if (at)
            at[s->index] = i;
    }
    for (uint32_t b = 0; b < v->n_buffers; b++)
        if (freed[b] != STEM_NONE &&
            (alloc[b] == STEM_NONE || !has(h->steps + (size_t)freed[b] * h->words, alloc[b])))
            fault = "freed before the allocation";
    for (uint32_t i = 0; i < v->n_ops; i++)
        for (uint32_t k = 0; k < v->ops[i].n_operands; k++) {
            uint32_t b = v->ops[i].operands[k].tensor.buffer, at = h->step_of[i];
            if (b == STEM_NONE || v->buffers[b].kind != STEM_BUFFER_TEMP)
                continue;
            if (alloc[b] == STEM_NONE || !has(h->steps + (size_t)at * h->words, alloc[b]))
                fault = "used before the allocation";
            if (freed[b] != STEM_NONE && !has(h->steps + (size_t)freed[b] * h->words, at))
                fault = "used after the free";
        }
    free(alloc);
    return fault;
}

/* ---- bytes ---- */

struct range {
    uint64_t begin, end;
};

/* Where an operand lies, as addresses: the slab at 0, each external buffer far from everything. */
static struct range where(const struct hazard *h, const struct stem_tensor *t)
{
    const struct stem_plan_buffer *b = &h->v->buffers[t->buffer];
    uint64_t base = (b->kind == STEM_BUFFER_TEMP ? b->offset : (uint64_t)(t->buffer + 1) << 40) + t->offset;
    return (struct range){base, base + stem_tensor_extent(t)};
}

static void each_byte(const struct stem_tensor *t, void (*visit)(void *user, uint64_t at), void *user)
{
    int64_t index[STEM_MAX_RANK] = {0};
    uint64_t n = stem_tensor_elements(t), size = stem_tensor_contiguous(t) ? 1 : stem_dtype_bits(t->dtype) / 8;
    if (stem_tensor_contiguous(t)) {
        for (uint64_t i = 0; i < stem_tensor_extent(t); i++)
            visit(user, i);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < t->rank; d++)
            at += index[d] * t->stride[d];
        for (uint64_t k = 0; k < size; k++)
            visit(user, (uint64_t)at * size + k);
        for (uint32_t d = t->rank; d-- > 0 && ++index[d] == t->dim[d];)
            index[d] = 0;
    }
}

struct mark {
    unsigned char *at;
    uint64_t shift;
    bool met, set;
    uint64_t len;
};

static void mark_byte(void *user, uint64_t at)
{
    struct mark *m = user;
    if (at + m->shift >= m->len)
        return;
    m->met |= !m->set && m->at[at + m->shift];
    if (m->set)
        m->at[at + m->shift] = 1;
}

/* Do two operands have a byte in common? Strided ones may lie between each other. */
static bool meet(const struct hazard *h, const struct stem_tensor *a, const struct stem_tensor *b)
{
    struct range x = where(h, a), y = where(h, b);
    if (x.end <= y.begin || y.end <= x.begin)
        return false;
    if (stem_tensor_contiguous(a) && stem_tensor_contiguous(b))
        return true;
    uint64_t low = x.begin < y.begin ? x.begin : y.begin, high = x.end > y.end ? x.end : y.end;
    struct mark m = {calloc(high - low, 1), x.begin - low, false, true, high - low};
    each_byte(a, mark_byte, &m);
    m.shift = y.begin - low;
    m.set = false;
    each_byte(b, mark_byte, &m);
    free(m.at);
    return m.met;
}

static bool conflict(const struct hazard *h, const struct stem_plan_op *a, const struct stem_plan_op *b)
{
    if (a->resource != STEM_NONE && a->resource == b->resource)
        return true;
    for (uint32_t i = 0; i < a->n_operands; i++)
        for (uint32_t k = 0; k < b->n_operands; k++)
            if ((a->operands[i].access | b->operands[k].access) & STEM_WRITE &&
                a->operands[i].tensor.buffer != STEM_NONE && b->operands[k].tensor.buffer != STEM_NONE &&
                meet(h, &a->operands[i].tensor, &b->operands[k].tensor))
                return true;
    return false;
}

static const char *race(const struct hazard *h)
{
    for (uint32_t i = 0; i < h->v->n_ops; i++)
        for (uint32_t j = 0; j < i; j++) {
            bool ordered = has(h->ops[0] + (size_t)i * h->op_words, j) && has(h->ops[1] + (size_t)i * h->op_words, j);
            if (!ordered && conflict(h, &h->v->ops[j], &h->v->ops[i]))
                return "two ops that touch the same bytes, or one resource, may meet";
        }
    return NULL;
}

/* ---- one execution in issue order ---- */

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ (h >> 31);
}

struct flowing {
    uint64_t *memory, hash, n;
    bool write;
};

static void flow_byte(void *user, uint64_t at)
{
    struct flowing *f = user;
    if (f->write)
        f->memory[at] = mix(f->hash, f->n++);
    else
        f->hash = mix(f->hash, f->memory[at]);
}

/* What every op reads, as one hash, when ops run in issue order in this layout of memory. */
static void execute(const struct hazard *h, uint64_t *const *base, uint64_t *read)
{
    for (uint32_t i = 0; i < h->v->n_ops; i++) {
        const struct stem_plan_op *o = &h->v->ops[i];
        struct flowing f = {.hash = mix(1, i)};
        for (uint32_t pass = 0; pass < 2; pass++) {
            uint64_t seed = f.hash;
            for (uint32_t k = 0; k < o->n_operands; k++) {
                const struct stem_tensor *t = &o->operands[k].tensor;
                if (t->buffer == STEM_NONE || h->v->buffers[t->buffer].kind == STEM_BUFFER_WEIGHT ||
                    !(o->operands[k].access & (pass ? STEM_WRITE : STEM_READ)))
                    continue;
                f.memory = base[t->buffer] + t->offset;
                f.write = pass;
                if (pass)
                    f.hash = mix(seed, k);
                each_byte(t, flow_byte, &f);
            }
            read[i] = pass ? read[i] : f.hash;
        }
    }
}

/* Bytes that are used again before their last use, or read before anybody wrote them. */
static const char *stale(const struct hazard *h)
{
    const struct stem_plan_variant *v = h->v;
    uint64_t **base = calloc(2 * (v->n_buffers + 1U), sizeof *base),
             *read = calloc(2 * (v->n_ops + 1U), sizeof *read);
    uint64_t *slab = malloc((v->slab_bytes + 1) * sizeof *slab);
    for (uint32_t b = 0; b < v->n_buffers; b++)
        for (uint32_t way = 0; way < 2; way++) {
            uint64_t **at = &base[way * (v->n_buffers + 1U) + b], n = v->buffers[b].bytes;
            bool shared = way && v->buffers[b].kind == STEM_BUFFER_TEMP;
            if (v->buffers[b].kind == STEM_BUFFER_WEIGHT)
                continue;
            *at = shared ? slab + v->buffers[b].offset : malloc((n + 1) * sizeof **at);
            for (uint64_t i = 0; i < n && !shared; i++)
                (*at)[i] = mix(v->buffers[b].kind == STEM_BUFFER_TEMP ? 17 : b, i);
        }
    for (uint64_t i = 0; i < v->slab_bytes; i++)
        slab[i] = mix(29, i);
    execute(h, base, read);
    execute(h, base + v->n_buffers + 1, read + v->n_ops);
    bool same = !memcmp(read, read + v->n_ops, v->n_ops * sizeof *read);
    for (uint32_t b = 0; b < v->n_buffers; b++)
        for (uint32_t way = 0; way < 2; way++)
            if (!(way && v->buffers[b].kind == STEM_BUFFER_TEMP))
                free(base[way * (v->n_buffers + 1U) + b]);
    free(base);
    free(read);
    free(slab);
    return same ? NULL : "bytes are used again too early, or read before they are written";
}

/* Weights are too large to be looked at byte by byte: the op is told by what it may do to its operands. */
static const char *lent_written(const struct stem_plan_variant *v)
{
    for (uint32_t i = 0; i < v->n_ops; i++)
        for (uint32_t k = 0; k < v->ops[i].n_operands; k++) {
            const struct stem_plan_operand *x = &v->ops[i].operands[k];
            const struct stem_plan_buffer *b = x->tensor.buffer == STEM_NONE ? NULL : &v->buffers[x->tensor.buffer];
            if (b && x->access != STEM_READ && (b->kind == STEM_BUFFER_WEIGHT || (b->kind == STEM_BUFFER_INPUT && !b->inout)))
                return "memory that is only lent is written";
        }
    return NULL;
}

const char *plan_hazard(const struct stem_plan *p)
{
    const struct stem_plan_variant *v = &p->variants[0];
    struct hazard h = {.p = p, .v = v, .words = v->n_steps / 64 + 1, .op_words = v->n_ops / 64 + 1};
    for (uint32_t b = 0; b < v->n_buffers; b++)
        if (v->buffers[b].kind == STEM_BUFFER_TEMP && v->buffers[b].offset + v->buffers[b].bytes > v->slab_bytes)
            return "outside of the slab";
    h.steps = calloc((size_t)v->n_steps * h.words + 1, sizeof *h.steps);
    h.ops[0] = calloc((size_t)v->n_ops * h.op_words + 1, sizeof *h.steps);
    h.ops[1] = calloc((size_t)v->n_ops * h.op_words + 1, sizeof *h.steps);
    h.step_of = calloc(v->n_ops + 1U, sizeof *h.step_of);
    close_steps(&h);
    close_ops(&h);
    const char *fault = capture_refused(&h);
    fault = fault ? fault : allocation_fault(&h);
    fault = fault ? fault : race(&h);
    fault = fault ? fault : stale(&h);
    fault = fault ? fault : lent_written(v);
    free(h.steps);
    free(h.ops[0]);
    free(h.ops[1]);
    free(h.step_of);
    return fault;
}
