/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rest of the verifier relies on: indices in range, every op issued once and in order, segments that cut
 * the steps, operands inside their buffers, buffers inside the slab.
 */
#include "verify/check.h"

#include <string.h>

#define MALFORMED(c, op, ...) stem_check_fault((c), STEM_E_VERIFY_PLAN, (op), STEM_NONE, __VA_ARGS__)
#define BOUNDS(c, op, ...) stem_check_fault((c), STEM_E_VERIFY_BOUNDS, (op), STEM_NONE, __VA_ARGS__)

static bool power_of_two(uint32_t n)
{
    return n && !(n & (n - 1));
}

static void check_buffers(struct stem_check *c)
{
    const struct stem_plan_variant *v = c->v;
    if (v->slab_bytes > c->plan->slab_bytes)
        BOUNDS(c, STEM_NONE, "the variant needs a slab of %llu bytes, the plan has %llu",
               (unsigned long long)v->slab_bytes, (unsigned long long)c->plan->slab_bytes);
    if (c->plan->n_external > v->n_buffers)
        MALFORMED(c, STEM_NONE, "the plan has %u external buffers, the variant %u in all", c->plan->n_external,
                  v->n_buffers);
    for (uint32_t i = 0; i < v->n_buffers && c->faults < STEM_VERIFY_MAX_FAULTS; i++) {
        const struct stem_plan_buffer *b = &v->buffers[i];
        bool temp = b->kind == STEM_BUFFER_TEMP;
        if (temp != (i >= c->plan->n_external))
            MALFORMED(c, STEM_NONE, "buffer %u ('%s') stands among the %s ones", i, b->name,
                      temp ? "external" : "temporary");
        if (!power_of_two(b->align))
            MALFORMED(c, STEM_NONE, "buffer '%s' has the alignment %u, which is no power of two", b->name, b->align);
        else if (temp && b->offset % b->align)
            BOUNDS(c, STEM_NONE, "buffer '%s' is at %llu, which is not a multiple of its alignment %u", b->name,
                   (unsigned long long)b->offset, b->align);
        if (temp && (b->offset > v->slab_bytes || b->bytes > v->slab_bytes - b->offset))
            BOUNDS(c, STEM_NONE, "buffer '%s' (%llu bytes at %llu) reaches beyond the slab of %llu bytes", b->name,
                   (unsigned long long)b->bytes, (unsigned long long)b->offset, (unsigned long long)v->slab_bytes);
        if (i < c->plan->n_external && c->variant) {
            const struct stem_plan_buffer *a = &c->plan->variants[0].buffers[i];
            if (a->kind != b->kind || a->inout != b->inout || strcmp(a->name, b->name))
                MALFORMED(c, STEM_NONE, "external buffer %u is '%s' here and '%s' in variant 0", i, b->name, a->name);
        }
    }
}

/* Bits from the buffer's start to the end of the tensor; false on overflow or a shape that means nothing. */
static bool end_bits(const struct stem_tensor *t, uint64_t *bits)
{
    uint64_t last = 0; /* element with the highest address */
    bool empty = false;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0 || t->stride[i] < 0)
            return false;
        empty |= t->dim[i] == 0;
        uint64_t step;
        if (t->dim[i] && (__builtin_mul_overflow((uint64_t)(t->dim[i] - 1), (uint64_t)t->stride[i], &step) ||
                          __builtin_add_overflow(last, step, &last)))
            return false;
    }
    uint64_t size = stem_dtype_bits(t->dtype), start, length;
    if (__builtin_mul_overflow(t->offset, UINT64_C(8), &start) ||
        __builtin_mul_overflow(last + 1, size, &length) || last == UINT64_MAX)
        return false;
    return !__builtin_add_overflow(start, empty ? 0 : length, bits);
}

static void check_operand(struct stem_check *c, uint32_t op, uint32_t k)
{
    const struct stem_plan_operand *x = &c->v->ops[op].operands[k];
    const struct stem_tensor *t = &x->tensor;
    if (t->buffer == STEM_NONE && t->rank == STEM_NONE && x->access == STEM_READ)
        return; /* absent */
    if (t->buffer >= c->v->n_buffers || t->rank > STEM_MAX_RANK || (unsigned)t->dtype >= STEM_N_DTYPES ||
        x->access < STEM_READ || x->access > STEM_READ_WRITE) {
        MALFORMED(c, op, "operand %u of %s has a buffer, rank, dtype or access that does not exist", k,
                  stem_check_op_text(c, op));
        return;
    }
    const struct stem_plan_buffer *b = &c->v->buffers[t->buffer];
    uint64_t bits, size = stem_dtype_bits(t->dtype) / 8;
    if (!end_bits(t, &bits))
        MALFORMED(c, op, "operand %u of %s has a shape that cannot be addressed", k, stem_check_op_text(c, op));
    else if (bits / 8 + (bits % 8 != 0) > b->bytes)
        BOUNDS(c, op, "operand %u of %s ends at byte %llu of buffer '%s', which has %llu", k,
               stem_check_op_text(c, op), (unsigned long long)(bits / 8), b->name, (unsigned long long)b->bytes);
    else if (size && (t->offset % size || b->align < size))
        BOUNDS(c, op, "operand %u of %s is not aligned to its elements of %llu bytes", k, stem_check_op_text(c, op),
               (unsigned long long)size);
    bool input = b->kind == STEM_BUFFER_INPUT && !b->inout;
    if ((x->access & STEM_WRITE) && (input || b->kind == STEM_BUFFER_WEIGHT))
        stem_check_fault(c, STEM_E_VERIFY_LENT, op, STEM_NONE, "%s writes to the %s '%s', which its caller only lends",
                         stem_check_op_text(c, op), input ? "input" : "weight", b->name);
}

static void check_launch(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    if (o->kernel >= c->plan->n_kernels) {
        MALFORMED(c, op, "%s launches kernel %u of %u", stem_check_op_text(c, op), o->kernel, c->plan->n_kernels);
        return;
    }
    uint64_t threads = (uint64_t)o->block[0] * o->block[1] * o->block[2];
    bool grid = o->grid[0] && o->grid[0] <= INT32_MAX && o->grid[1] && o->grid[1] <= 65535 && o->grid[2] &&
                o->grid[2] <= 65535;
    if (!grid || !threads || threads > 1024 || o->block[2] > 64)
        MALFORMED(c, op, "%s has a launch shape that no device accepts: grid %ux%ux%u, block %ux%ux%u",
                  stem_check_op_text(c, op), o->grid[0], o->grid[1], o->grid[2], o->block[0], o->block[1],
                  o->block[2]);
    if (o->smem > c->plan->kernels[o->kernel].max_smem)
        MALFORMED(c, op, "%s asks for %u bytes of shared memory, its kernel is set up for %u",
                  stem_check_op_text(c, op), o->smem, c->plan->kernels[o->kernel].max_smem);
}

static void check_memset(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    const struct stem_tensor *t = o->n_operands ? &o->operands[0].tensor : NULL;
    int64_t dense = 1;
    bool contiguous = t && t->rank <= STEM_MAX_RANK;
    for (uint32_t i = contiguous ? t->rank : 0; i-- > 0; dense *= t->dim[i])
        contiguous &= t->dim[i] == 1 || t->stride[i] == dense;
    if (!contiguous || o->n_operands != 1 || o->operands[0].access != STEM_WRITE)
        MALFORMED(c, op, "%s is a memset but has not exactly one contiguous operand that it writes",
                  stem_check_op_text(c, op));
}

static bool dense(const struct stem_tensor *t)
{
    int64_t step = 1;
    bool is = t->rank >= 1 && t->rank <= STEM_MAX_RANK;
    for (uint32_t i = is ? t->rank : 0; i-- > 0; step *= t->dim[i])
        is &= t->dim[i] >= 1 && (t->dim[i] == 1 || t->stride[i] == step);
    return is;
}

/* x, w, y and workspace, of shapes that fit: what a library is told is what it believes. */
static void check_matmul(struct stem_check *c, uint32_t op)
{
    const struct stem_plan_op *o = &c->v->ops[op];
    const struct stem_plan_operand *x = o->operands, *w = x + 1, *y = x + 2, *space = x + 3;
    bool fine = o->n_operands == 4 && x->access == STEM_READ && w->access == STEM_READ && y->access == STEM_WRITE &&
                space->access == STEM_WRITE && dense(&x->tensor) && dense(&w->tensor) && dense(&y->tensor) && dense(&space->tensor);
    fine = fine && w->tensor.rank == 2 && x->tensor.rank == y->tensor.rank &&
           x->tensor.dim[x->tensor.rank - 1] == w->tensor.dim[1] && y->tensor.dim[y->tensor.rank - 1] == w->tensor.dim[0];
    for (uint32_t i = 0; fine && i + 1 < x->tensor.rank; i++)
        fine = x->tensor.dim[i] == y->tensor.dim[i];
    enum stem_dtype type = fine ? x->tensor.dtype : STEM_U8;
    if (!fine || w->tensor.dtype != type || (type != STEM_BF16 && type != STEM_F16) ||
        (y->tensor.dtype != type && y->tensor.dtype != STEM_F32))
        MALFORMED(c, op, "%s is a product but its operands are not x[.., K], w[N, K], y[.., N] and a workspace",
                  stem_check_op_text(c, op));
    else if (space->tensor.buffer < c->v->n_buffers && c->v->buffers[space->tensor.buffer].kind != STEM_BUFFER_TEMP)
        MALFORMED(c, op, "%s works in '%s', which is the caller's", stem_check_op_text(c, op),
                  c->v->buffers[space->tensor.buffer].name);
}

/* What a library leaves in its workspace has no value. */
static void check_workspaces(struct stem_check *c)
{
    const struct stem_plan_variant *v = c->v;
    bool *space = STEM_NEW_ARRAY(c->arena, bool, v->n_buffers + 1);
    for (uint32_t i = 0; i < v->n_ops; i++)
        if (v->ops[i].work == STEM_WORK_MATMUL)
            space[v->ops[i].operands[3].tensor.buffer] = true;
    for (uint32_t i = 0; i < v->n_ops && c->faults < STEM_VERIFY_MAX_FAULTS; i++)
        for (uint32_t k = 0; k < v->ops[i].n_operands; k++) {
            const struct stem_plan_operand *x = &v->ops[i].operands[k];
            if (x->access & STEM_READ && x->tensor.buffer != STEM_NONE && space[x->tensor.buffer])
                MALFORMED(c, i, "%s reads '%s', the workspace of a product, which holds no value",
                          stem_check_op_text(c, i), v->buffers[x->tensor.buffer].name);
        }
}

static void check_ops(struct stem_check *c)
{
    const struct stem_plan *p = c->plan;
    for (uint32_t i = 0; i < c->v->n_ops && c->faults < STEM_VERIFY_MAX_FAULTS; i++) {
        const struct stem_plan_op *o = &c->v->ops[i];
        if (o->stream >= p->n_streams || o->segment >= c->v->n_segments ||
            (o->resource != STEM_NONE && o->resource >= p->n_resources)) {
            MALFORMED(c, STEM_NONE, "op %u ('%s') has a stream, segment or resource that does not exist", i, o->name);
            continue;
        }
        for (uint32_t k = 0; k < o->n_operands; k++)
            check_operand(c, i, k);
        switch (o->work) {
        case STEM_WORK_LAUNCH: check_launch(c, i); break;
        case STEM_WORK_MEMSET: check_memset(c, i); break;
        case STEM_WORK_EXTERN:
            if (o->function >= p->n_externs)
                MALFORMED(c, i, "%s calls extern %u of %u", stem_check_op_text(c, i), o->function, p->n_externs);
            break;
        case STEM_WORK_MATMUL: check_matmul(c, i); break;
        default: MALFORMED(c, i, "%s does work of an unknown kind", stem_check_op_text(c, i));
        }
    }
    if (!c->faults)
        check_workspaces(c);
}

static bool step_in_range(const struct stem_check *c, const struct stem_step *s)
{
    const struct stem_plan_variant *v = c->v;
    if (s->stream >= c->plan->n_streams)
        return false;
    switch (s->kind) {
    case STEM_STEP_OP: return s->index < v->n_ops;
    case STEM_STEP_RECORD:
    case STEM_STEP_WAIT: return s->index < v->n_events;
    case STEM_STEP_ALLOC:
    case STEM_STEP_FREE: return s->index < v->n_buffers && v->buffers[s->index].kind == STEM_BUFFER_TEMP;
    case STEM_STEP_SEGMENT: return s->index < v->n_segments;
    }
    return false;
}

/* Each op has one step, in order, on its stream and in its segment; segments end where they say. */
static void check_steps(struct stem_check *c)
{
    const struct stem_plan_variant *v = c->v;
    uint32_t op = 0, segment = 0, first_op = 0, first_step = 0;
    for (uint32_t i = 0; i < v->n_steps && c->faults < STEM_VERIFY_MAX_FAULTS; i++) {
        const struct stem_step *s = &v->steps[i];
        if (!step_in_range(c, s)) {
            MALFORMED(c, STEM_NONE, "step %u refers to something that does not exist", i);
        } else if (s->kind == STEM_STEP_OP) {
            if (s->index != op)
                stem_check_fault(c, STEM_E_VERIFY_ORDER, s->index, STEM_NONE,
                                 "step %u issues %s, op %u in issue order, where op %u is due", i,
                                 stem_check_op_text(c, s->index), s->index, op);
            else if (v->ops[op].stream != s->stream || v->ops[op].segment != segment)
                stem_check_fault(c, STEM_E_VERIFY_ORDER, op, STEM_NONE,
                                 "step %u issues %s on stream %u in segment %u, but it belongs to stream %u, "
                                 "segment %u", i, stem_check_op_text(c, op), s->stream, segment, v->ops[op].stream,
                                 v->ops[op].segment);
            op = s->index + 1;
        } else if (s->kind == STEM_STEP_SEGMENT) {
            const struct stem_plan_segment *g = &v->segments[segment < v->n_segments ? segment : 0];
            if (s->index != segment || s->stream != 0 || g->first_op != first_op || g->n_ops != op - first_op ||
                g->first_step != first_step || g->n_steps != i - first_step)
                stem_check_fault(c, STEM_E_VERIFY_ORDER, STEM_NONE, STEM_NONE,
                                 "segment %u does not end at step %u with op %u", segment, i, op);
            segment++;
            first_op = op;
            first_step = i + 1;
        }
    }
    if (c->faults < STEM_VERIFY_MAX_FAULTS &&
        (op != v->n_ops || segment != v->n_segments || first_step != v->n_steps || !v->n_segments))
        stem_check_fault(c, STEM_E_VERIFY_ORDER, STEM_NONE, STEM_NONE,
                         "the steps issue %u of %u ops and end %u of %u segments", op, v->n_ops, segment,
                         v->n_segments);
}

static void check_edges(struct stem_check *c)
{
    const struct stem_plan_variant *v = c->v;
    for (uint32_t i = 0; i < v->n_edges && c->faults < STEM_VERIFY_MAX_FAULTS; i++) {
        const struct stem_plan_edge *e = &v->edges[i];
        const struct stem_plan_edge *last = i ? e - 1 : NULL;
        if (e->to >= v->n_ops || e->from >= e->to ||
            (e->kind != STEM_EDGE_FULL && e->kind != STEM_EDGE_PROGRAMMATIC))
            MALFORMED(c, STEM_NONE, "edge %u goes from op %u to op %u of %u", i, e->from, e->to, v->n_ops);
        else if (last && (last->to > e->to || (last->to == e->to && last->from >= e->from)))
            MALFORMED(c, STEM_NONE, "edge %u (op %u to op %u) is out of order or there twice", i, e->from, e->to);
    }
}

bool stem_check_structure(struct stem_check *c)
{
    const struct stem_plan *p = c->plan;
    uint32_t before = c->faults;
    if (p->version != STEM_PLAN_VERSION)
        MALFORMED(c, STEM_NONE, "the plan has version %u; this verifier knows version %u", p->version,
                  STEM_PLAN_VERSION);
    if (!p->n_streams)
        MALFORMED(c, STEM_NONE, "the plan has no stream");
    if (c->faults != before)
        return false;
    check_buffers(c);
    if (c->faults != before)
        return false; /* operands are judged against buffers */
    check_ops(c);
    check_steps(c);
    check_edges(c);
    return c->faults == before;
}
