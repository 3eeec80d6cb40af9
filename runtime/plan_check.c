/* SPDX-License-Identifier: Apache-2.0
 *
 * Structural checks of one variant: what every reader of a plan may rely on. Run on plans read from JSON and on plans
 * given to the runtime, so that neither a damaged file nor a faulty compiler makes it walk out of bounds.
 */
#include "plan_check.h"
#include "sources.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const struct stem_plan *p;
    const struct stem_plan_variant *v;
    char *place, *text;
    size_t place_size, text_size;
};

/* Always false: `return fault(...)`. */
static bool fault(struct check *c, const char *list, uint32_t index, const char *member, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static bool fault(struct check *c, const char *list, uint32_t index, const char *member, const char *fmt, ...)
{
    snprintf(c->place, c->place_size, "%s[%u]%s%s", list, (unsigned)index, member ? "." : "", member ? member : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->text, c->text_size, fmt, ap);
    va_end(ap);
    return false;
}

static bool fault_here(struct check *c, const char *text)
{
    c->place[0] = '\0';
    snprintf(c->text, c->text_size, "%s", text);
    return false;
}

/* Who binds an array takes its shape from `dim` and its size from `bytes`: they have to agree. */
static bool check_size(struct check *c, uint32_t i)
{
    const struct stem_plan_buffer *b = &c->v->buffers[i];
    uint64_t bits = stem_dtype_bits(b->dtype), none = 0;
    for (uint32_t d = 0; d < b->rank; d++) {
        if (b->dim[d] < 0)
            return fault(c, "buffers", i, "dim", "negative");
        none |= b->dim[d] == 0;
    }
    for (uint32_t d = 0; !none && d < b->rank; d++)
        if (__builtin_mul_overflow(bits, (uint64_t)b->dim[d], &bits))
            return fault(c, "buffers", i, "dim", "more elements than memory can have");
    uint64_t bytes = none ? 0 : bits / 8 + (bits % 8 != 0);
    if (bytes != b->bytes)
        return fault(c, "buffers", i, "dim", "these elements have %llu bytes, the buffer has %llu", (unsigned long long)bytes,
                     (unsigned long long)b->bytes);
    return true;
}

static bool check_buffer(struct check *c, uint32_t i)
{
    const struct stem_plan_buffer *b = &c->v->buffers[i];
    bool external = i < c->p->n_external;
    if ((unsigned)b->kind > STEM_BUFFER_STATE || (unsigned)b->dtype >= STEM_N_DTYPES || b->rank > STEM_MAX_RANK)
        return fault(c, "buffers", i, NULL, "kind, element type or rank out of range");
    if (external != (b->kind != STEM_BUFFER_TEMP))
        return fault(c, "buffers", i, "kind", "the first n_external buffers are the external ones, and only they");
    if (b->align == 0 || (b->align & (b->align - 1)))
        return fault(c, "buffers", i, "align", "not a power of two");
    if (!external && b->offset % b->align)
        return fault(c, "buffers", i, "offset", "not a multiple of the alignment");
    if (!external && (b->bytes > c->v->slab_bytes || b->offset > c->v->slab_bytes - b->bytes))
        return fault(c, "buffers", i, "offset", "beyond the slab");
    const struct stem_plan_variant *first = &c->p->variants[0];
    if (external && (strcmp(b->name, first->buffers[i].name) || b->kind != first->buffers[i].kind))
        return fault(c, "buffers", i, NULL, "not the same external buffer as in the first variant");
    struct stem_sources s;
    if (b->from && (b->kind != STEM_BUFFER_WEIGHT || stem_sources_parse(b->from, b->rank, b->dim, &s)))
        return fault(c, "buffers", i, "from", "no list of the tensors of a weight");
    return check_size(c, i);
}

static bool check_operand(struct check *c, uint32_t op, uint32_t i)
{
    const struct stem_plan_operand *o = &c->v->ops[op].operands[i];
    const struct stem_tensor *t = &o->tensor;
    char member[32];
    snprintf(member, sizeof member, "operands[%u]", (unsigned)i);
    if (o->access == STEM_READ && t->buffer == STEM_NONE && t->rank == STEM_NONE)
        return true; /* absent */
    if (o->access < STEM_READ || o->access > STEM_READ_WRITE || (unsigned)t->dtype >= STEM_N_DTYPES ||
        t->rank > STEM_MAX_RANK || t->buffer >= c->v->n_buffers)
        return fault(c, "ops", op, member, "access, element type, rank or buffer out of range");
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->dim[d] < 0 || t->stride[d] < 0)
            return fault(c, "ops", op, member, "negative dimension or stride");
    uint64_t bytes = c->v->buffers[t->buffer].bytes, extent = stem_tensor_extent(t);
    if (t->offset > bytes || extent > bytes - t->offset)
        return fault(c, "ops", op, member, "beyond the end of its buffer");
    return true;
}

static bool check_launch(struct check *c, uint32_t i)
{
    const struct stem_plan_op *op = &c->v->ops[i];
    static const uint32_t grid[3] = {INT32_MAX, 65535, 65535}, block[3] = {1024, 1024, 64};
    if (op->kernel >= c->p->n_kernels)
        return fault(c, "ops", i, "kernel", "there is no kernel %u", (unsigned)op->kernel);
    for (int d = 0; d < 3; d++)
        if (op->grid[d] < 1 || op->grid[d] > grid[d] || op->block[d] < 1 || op->block[d] > block[d])
            return fault(c, "ops", i, "grid", "grid or block out of range");
    if ((uint64_t)op->block[0] * op->block[1] * op->block[2] > 1024)
        return fault(c, "ops", i, "block", "more than 1024 threads");
    if (op->smem > c->p->kernels[op->kernel].max_smem)
        return fault(c, "ops", i, "smem", "more than the kernel's max_smem");
    return true;
}

/* What the runtime takes sizes from and hands to a library, which believes them. */
static bool check_matmul(struct check *c, uint32_t i)
{
    static const enum stem_access access[4] = {STEM_READ, STEM_READ, STEM_WRITE, STEM_WRITE};
    const struct stem_plan_op *op = &c->v->ops[i];
    bool fine = op->n_operands == 4 && op->n_scalars == 0;
    for (uint32_t k = 0; fine && k < 4; k++) {
        const struct stem_tensor *t = &op->operands[k].tensor;
        fine = op->operands[k].access == access[k] && t->rank != STEM_NONE && stem_tensor_contiguous(t);
    }
    if (!fine)
        return fault(c, "ops", i, "operands", "a product has x, w, y and workspace, all contiguous, and no scalars");
    const struct stem_tensor *x = &op->operands[0].tensor, *w = &op->operands[1].tensor, *y = &op->operands[2].tensor;
    fine = w->rank == 2 && x->rank >= 1 && x->rank == y->rank && x->dim[x->rank - 1] == w->dim[1] &&
           y->dim[y->rank - 1] == w->dim[0] && op->operands[3].tensor.dtype == STEM_U8;
    for (uint32_t k = 0; fine && k < x->rank; k++)
        fine = x->dim[k] >= 1 && x->dim[k] <= INT32_MAX && y->dim[k] >= 1 && y->dim[k] <= INT32_MAX &&
               (k + 1 == x->rank || x->dim[k] == y->dim[k]);
    if (!fine)
        return fault(c, "ops", i, "operands", "not the shapes of y[.., N] = x[.., K] times w[N, K]");
    if (x->dtype != w->dtype || (x->dtype != STEM_BF16 && x->dtype != STEM_F16) || (y->dtype != x->dtype && y->dtype != STEM_F32))
        return fault(c, "ops", i, "operands", "a product is of bf16 or f16, and its result of that or f32");
    return true;
}

static bool check_op(struct check *c, uint32_t i)
{
    const struct stem_plan_op *op = &c->v->ops[i];
    if (op->stream >= c->p->n_streams)
        return fault(c, "ops", i, "stream", "there is no stream %u", (unsigned)op->stream);
    if (op->segment >= c->v->n_segments)
        return fault(c, "ops", i, "segment", "there is no segment %u", (unsigned)op->segment);
    if (op->resource != STEM_NONE && op->resource >= c->p->n_resources)
        return fault(c, "ops", i, "resource", "there is no resource %u", (unsigned)op->resource);
    for (uint32_t k = 0; k < op->n_operands; k++)
        if (!check_operand(c, i, k))
            return false;
    for (uint32_t k = 0; k < op->n_scalars; k++)
        if ((unsigned)op->scalars[k].kind > STEM_SCALAR_F32)
            return fault(c, "ops", i, "scalars", "kind out of range");
    switch (op->work) {
    case STEM_WORK_LAUNCH:
        return check_launch(c, i);
    case STEM_WORK_MEMSET:
        if (op->n_operands != 1 || op->operands[0].tensor.buffer == STEM_NONE ||
            !stem_tensor_contiguous(&op->operands[0].tensor))
            return fault(c, "ops", i, "operands", "a memset has one contiguous operand");
        return true;
    case STEM_WORK_EXTERN:
        if (op->function >= c->p->n_externs)
            return fault(c, "ops", i, "function", "there is no extern %u", (unsigned)op->function);
        return true;
    case STEM_WORK_MATMUL:
        return check_matmul(c, i);
    }
    return fault(c, "ops", i, "work", "out of range");
}

static bool check_step(struct check *c, uint32_t i, uint32_t *next_op, bool *recorded)
{
    const struct stem_step *s = &c->v->steps[i];
    if (s->stream >= c->p->n_streams)
        return fault(c, "steps", i, NULL, "there is no stream %u", (unsigned)s->stream);
    switch (s->kind) {
    case STEM_STEP_OP:
        if (s->index != *next_op || s->index >= c->v->n_ops)
            return fault(c, "steps", i, NULL, "op %u is issued where op %u is due", (unsigned)s->index,
                         (unsigned)*next_op);
        if (c->v->ops[s->index].stream != s->stream)
            return fault(c, "steps", i, NULL, "not the stream of op %u", (unsigned)s->index);
        ++*next_op;
        return true;
    case STEM_STEP_RECORD:
    case STEM_STEP_WAIT:
        if (s->index >= c->v->n_events)
            return fault(c, "steps", i, NULL, "there is no event %u", (unsigned)s->index);
        if (s->kind == STEM_STEP_WAIT && !recorded[s->index])
            return fault(c, "steps", i, NULL, "waits for event %u before it is recorded", (unsigned)s->index);
        recorded[s->index] = true;
        return true;
    case STEM_STEP_ALLOC:
    case STEM_STEP_FREE:
        if (s->index >= c->v->n_buffers || s->index < c->p->n_external)
            return fault(c, "steps", i, NULL, "buffer %u is not a temporary one", (unsigned)s->index);
        return true;
    case STEM_STEP_SEGMENT:
        if (s->index >= c->v->n_segments)
            return fault(c, "steps", i, NULL, "there is no segment %u", (unsigned)s->index);
        return true;
    }
    return fault(c, "steps", i, NULL, "unknown kind");
}

static bool check_steps(struct check *c)
{
    if (c->v->n_events > c->v->n_steps)
        return fault_here(c, "more events than steps");
    bool *recorded = calloc(c->v->n_events + (size_t)1, sizeof *recorded);
    if (!recorded)
        return fault_here(c, "out of memory");
    uint32_t next_op = 0;
    bool ok = true;
    for (uint32_t i = 0; ok && i < c->v->n_steps; i++)
        ok = check_step(c, i, &next_op, recorded);
    free(recorded);
    if (ok && next_op != c->v->n_ops)
        return fault(c, "ops", next_op, NULL, "no step issues it");
    return ok;
}

/* Segments follow each other, in ops and in steps; a SEGMENT step may stand after each and belongs to none. */
static bool check_segments(struct check *c)
{
    uint64_t op = 0, step = 0;
    if (c->v->n_segments == 0)
        return fault_here(c, "a variant has at least one segment");
    for (uint32_t i = 0; i < c->v->n_segments; i++) {
        const struct stem_plan_segment *s = &c->v->segments[i];
        if (s->first_op != op || s->first_step != step)
            return fault(c, "segments", i, NULL, "does not start where the one before it ends");
        op += s->n_ops;
        step += s->n_steps;
        if (op > c->v->n_ops || step > c->v->n_steps)
            return fault(c, "segments", i, NULL, "beyond the end");
        for (uint64_t k = s->first_op; k < op; k++)
            if (c->v->ops[k].segment != i)
                return fault(c, "ops", (uint32_t)k, "segment", "lies in segment %u", (unsigned)i);
        for (uint64_t k = s->first_step; k < step; k++) {
            const struct stem_step *at = &c->v->steps[k];
            if (at->kind == STEM_STEP_SEGMENT)
                return fault(c, "steps", (uint32_t)k, NULL, "a segment step inside segment %u", (unsigned)i);
            if (at->kind == STEM_STEP_OP && (at->index < s->first_op || at->index >= op))
                return fault(c, "steps", (uint32_t)k, NULL, "an op of another segment");
        }
        if (step < c->v->n_steps && c->v->steps[step].kind == STEM_STEP_SEGMENT) {
            if (c->v->steps[step].index != i)
                return fault(c, "steps", (uint32_t)step, NULL, "ends a segment other than %u", (unsigned)i);
            step++;
        }
    }
    if (op != c->v->n_ops || step != c->v->n_steps)
        return fault_here(c, "ops or steps that belong to no segment");
    return true;
}

static bool check_edges(struct check *c)
{
    for (uint32_t i = 0; i < c->v->n_edges; i++) {
        const struct stem_plan_edge *e = &c->v->edges[i], *last = i ? e - 1 : NULL;
        if (e->from >= e->to || e->to >= c->v->n_ops)
            return fault(c, "edges", i, NULL, "does not go from an op to a later one");
        if ((unsigned)e->kind > STEM_EDGE_PROGRAMMATIC)
            return fault(c, "edges", i, NULL, "unknown kind");
        if (last && (e->to < last->to || (e->to == last->to && e->from <= last->from)))
            return fault(c, "edges", i, NULL, "out of order");
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct stem_plan_buffer *const *)a)->name, (*(const struct stem_plan_buffer *const *)b)->name);
}

/* A caller binds external buffers by name: of two with one name it could reach only one. */
static bool check_names(struct check *c)
{
    uint32_t n = c->p->n_external, twice = STEM_NONE;
    const struct stem_plan_buffer **all = malloc((n + (size_t)1) * sizeof *all);
    if (!all)
        return fault_here(c, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        all[i] = &c->v->buffers[i];
    qsort(all, n, sizeof *all, by_name);
    for (uint32_t i = 1; i < n && twice == STEM_NONE; i++)
        if (!by_name(&all[i - 1], &all[i]))
            twice = (uint32_t)((all[i] > all[i - 1] ? all[i] : all[i - 1]) - c->v->buffers);
    free(all);
    return twice == STEM_NONE || fault(c, "buffers", twice, "name", "another external buffer is called '%s', too",
                                       c->v->buffers[twice].name);
}

bool stem_plan_check_variant(const struct stem_plan *p, uint32_t variant, char *place, size_t place_size, char *text,
                             size_t text_size)
{
    struct check c = {p, &p->variants[variant], place, text, place_size, text_size};
    if (p->n_streams == 0 || p->n_streams > STEM_MAX_STREAMS)
        return fault_here(&c, "between 1 and 256 streams are needed");
    for (uint32_t i = 0; i < variant && p->n_dims; i++)
        if (!memcmp(c.v->dim, p->variants[i].dim, p->n_dims * sizeof *c.v->dim))
            return fault_here(&c, "the same sizes as an earlier variant");
    if (c.v->n_buffers < p->n_external)
        return fault_here(&c, "fewer buffers than n_external");
    if (p->slab_bytes < c.v->slab_bytes)
        return fault_here(&c, "a larger slab than the plan's");
    for (uint32_t i = 0; i < c.v->n_buffers; i++)
        if (!check_buffer(&c, i))
            return false;
    if (variant == 0 && !check_names(&c)) /* the others have those of the first */
        return false;
    for (uint32_t i = 0; i < c.v->n_ops; i++)
        if (!check_op(&c, i))
            return false;
    return check_steps(&c) && check_segments(&c) && check_edges(&c);
}
