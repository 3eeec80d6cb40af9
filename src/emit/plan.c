/* SPDX-License-Identifier: Apache-2.0
 *
 * From scheduled programs to a plan. Nothing is decided here: the passes have chosen streams, order, waits, lifetimes
 * and offsets, and this file writes them down as steps, nodes and edges.
 */
#include "emit/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stem_emit_bug(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("mainstem: internal error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
}

void *stem_emit_array(struct stem_plan *plan, size_t n, size_t size)
{
    void *a = stem_plan_alloc(plan, n ? n * size : 1);
    if (!a)
        stem_out_of_memory();
    return a;
}

static const char *plan_text(struct emitter *e, const char *s)
{
    if (!s)
        return NULL;
    struct stem_sym y = stem_intern(e->texts, s);
    while (e->text.len <= y.n)
        stem_vec_push(&e->text, NULL);
    if (!e->text.at[y.n] && !(e->text.at[y.n] = stem_plan_strdup(e->plan, s)))
        stem_out_of_memory();
    return e->text.at[y.n];
}

/* By its number: names of ops and buffers are many, and each is needed a few times only. Programs of one emission mostly have one
 * table of strings; texts that are compared by address are plan_text's. */
static const char *plan_sym(struct emitter *e, const struct stem_program *p, struct stem_sym s)
{
    if (e->symbols_of != p->strings)
        stem_vec_clear(&e->symbol);
    e->symbols_of = p->strings;
    while (e->symbol.len <= s.n)
        stem_vec_push(&e->symbol, NULL);
    if (!e->symbol.at[s.n] && !(e->symbol.at[s.n] = stem_plan_strdup(e->plan, stem_sym_str(p->strings, s))))
        stem_out_of_memory();
    return e->symbol.at[s.n];
}

/* ---- buffers ---- */

static uint32_t n_external(const struct stem_program *p)
{
    uint32_t n = 0;
    while (n < p->buffers.len && p->buffers.at[n].kind != STEM_BUFFER_TEMP)
        n++;
    return n;
}

static struct stem_place place_of(const struct stem_program *p, struct stem_span s)
{
    if (!p->source || s.begin == UINT32_MAX || (s.begin == 0 && s.end == 0))
        return (struct stem_place){0, 0};
    return stem_source_place(p->source, s.begin);
}

/* External buffers keep their index; temporaries that no live op touches are left out. */
static void number_buffers(struct part *t)
{
    const struct stem_program *p = t->p;
    bool *used = STEM_NEW_ARRAY(t->e->arena, bool, p->buffers.len);
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        const struct stem_op *op = stem_op_at(p, p->sched.order.at[i]);
        for (uint32_t k = 0; k < op->n_in + op->n_out; k++)
            if (op->operands[k].value.n != STEM_NONE)
                used[stem_value_at(p, op->operands[k].value)->tensor.buffer] = true;
    }
    t->buffer = STEM_NEW_ARRAY(t->e->arena, uint32_t, p->buffers.len);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->buffers.len; i++)
        t->buffer[i] = used[i] || i < t->e->plan->n_external ? n++ : STEM_NONE;
    t->v->n_buffers = n;
}

/* What the ops that read an integer input say about its values, where they agree. */
static void emit_ranges(struct part *t, struct stem_plan_buffer *out)
{
    const struct stem_program *p = t->p;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        const struct stem_op *op = stem_op_at(p, p->sched.order.at[i]);
        if (op->class != STEM_OP_BUILTIN || !op->def->range)
            continue;
        struct stem_tensor tensors[2 * STEM_MAX_OPERANDS];
        struct stem_concrete c;
        stem_op_concrete(p, op, tensors, &c);
        for (uint32_t k = 0; k < op->n_in; k++) {
            int64_t low, high;
            struct stem_plan_buffer *b = op->operands[k].value.n == STEM_NONE ? NULL : &out[t->buffer[tensors[k].buffer]];
            if (!b || b->kind != STEM_BUFFER_INPUT || !op->def->range(&c, k, &low, &high))
                continue;
            bool first = b->low == 0 && b->high == 0;
            low = first || low > b->low ? low : b->low;
            high = first || high < b->high ? high : b->high;
            if (low <= high) {
                b->low = low;
                b->high = high;
            }
        }
    }
}

static void emit_buffers(struct part *t)
{
    number_buffers(t);
    struct stem_plan_buffer *out = STEM_PLAN_ARRAY(t->e->plan, struct stem_plan_buffer, t->v->n_buffers);
    for (uint32_t i = 0; i < t->p->buffers.len; i++) {
        if (t->buffer[i] == STEM_NONE)
            continue;
        const struct stem_buffer *b = &t->p->buffers.at[i];
        struct stem_plan_buffer *o = &out[t->buffer[i]];
        *o = (struct stem_plan_buffer){
            .name = plan_sym(t->e, t->p, b->name),
            .kind = b->kind,
            .bytes = b->bytes,
            .align = b->align,
            .offset = b->kind == STEM_BUFFER_TEMP ? b->offset : 0,
            .dtype = b->shape.dtype,
            .rank = b->shape.rank,
            .line = place_of(t->p, b->span).line,
            .inout = b->inout,
            .from = b->from ? stem_plan_strdup(t->e->plan, b->from) : NULL,
        };
        memcpy(o->dim, b->shape.dim, sizeof o->dim);
    }
    emit_ranges(t, out);
    t->v->buffers = out;
}

/* ---- ops ---- */

static uint32_t resource_index(struct emitter *e, const char *name)
{
    uint32_t i = 0;
    while (i < e->resources.len && e->resources.at[i] != name)
        i++;
    if (i == e->resources.len)
        stem_vec_push(&e->resources, name);
    return i;
}

static uint32_t extern_index(struct emitter *e, const char *name, const char *library)
{
    uint32_t i = 0;
    while (i < e->externs.len && !(e->externs.at[i].name == name && e->externs.at[i].library == library))
        i++;
    if (i == e->externs.len)
        stem_vec_push(&e->externs, (struct stem_plan_extern){.name = name, .library = library});
    return i;
}

static enum stem_access access_of(enum stem_mode mode)
{
    switch (mode) {
    case STEM_MODE_OUT: return STEM_WRITE;
    case STEM_MODE_INOUT:
    case STEM_MODE_CONSUME: return STEM_READ_WRITE; /* consume: the op may use the bytes as it likes */
    case STEM_MODE_IN:
    case STEM_MODE_RELEASE: break;
    }
    return STEM_READ;
}

static void emit_operands(struct part *t, const struct stem_op *op, struct stem_plan_op *o)
{
    uint32_t n_inout = stem_op_n_inout(op);
    uint32_t n = op->n_in + op->n_out - n_inout;
    struct stem_plan_operand *out = STEM_PLAN_ARRAY(t->e->plan, struct stem_plan_operand, n);
    for (uint32_t i = 0; i < op->n_in + op->n_out; i++) {
        if (i >= op->n_in && i < op->n_in + n_inout)
            continue; /* the next version of an in-place input */
        struct stem_plan_operand *x = &out[o->n_operands++];
        const struct stem_operand *from = &op->operands[i];
        *x = (struct stem_plan_operand){.access = STEM_READ, .tensor = {.buffer = STEM_NONE, .rank = STEM_NONE}};
        if (from->value.n == STEM_NONE)
            continue;
        x->access = access_of(from->mode);
        x->tensor = stem_value_at(t->p, from->value)->tensor;
        x->tensor.buffer = t->buffer[x->tensor.buffer];
    }
    o->operands = out;
}

static void emit_constants(struct part *t, const struct stem_op *op, struct stem_plan_op *o,
                           const struct stem_scalar *scalars, uint32_t n_scalars)
{
    struct stem_attr *attrs = STEM_PLAN_ARRAY(t->e->plan, struct stem_attr, op->n_attrs);
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        attrs[i] = op->attrs[i];
        attrs[i].name = plan_text(t->e, attrs[i].name);
        attrs[i].text = plan_text(t->e, attrs[i].text);
    }
    o->attrs = attrs;
    o->n_attrs = op->n_attrs;
    struct stem_scalar *copy = STEM_PLAN_ARRAY(t->e->plan, struct stem_scalar, n_scalars);
    if (n_scalars)
        memcpy(copy, scalars, n_scalars * sizeof *copy);
    o->scalars = copy;
    o->n_scalars = n_scalars;
}

static void emit_lowered(struct part *t, const struct stem_op *op, struct stem_plan_op *o, const struct stem_lowered *l)
{
    o->kind = plan_text(t->e, op->def->name);
    o->work = l->work;
    if (l->work == STEM_WORK_LAUNCH) {
        o->kernel = stem_cuda_builtin(t->e->cuda, l);
        memcpy(o->grid, l->grid, sizeof o->grid);
        memcpy(o->block, l->block, sizeof o->block);
        o->smem = l->smem;
    }
    o->memset_value = l->memset_value;
    emit_constants(t, op, o, l->scalars, l->n_scalars);
}

/* Ops with one lowering are the same in the plan, but for where they are and what they work on. */
static void emit_builtin(struct part *t, const struct stem_op *op, struct stem_plan_op *o)
{
    if (!op->def->lower)
        stem_emit_bug("the op '%s' cannot be lowered", op->def->name);
    const struct stem_lowering *lowering = stem_op_lower(t->p, op, &t->e->options->target);
    while (t->lowered.len <= lowering->number)
        stem_vec_push(&t->lowered, (struct stem_plan_op){0});
    struct stem_plan_op *like = &t->lowered.at[lowering->number];
    if (!like->kind)
        emit_lowered(t, op, like, &lowering->l);
    o->kind = like->kind;
    o->work = like->work;
    o->kernel = like->kernel;
    memcpy(o->grid, like->grid, sizeof o->grid);
    memcpy(o->block, like->block, sizeof o->block);
    o->smem = like->smem;
    o->memset_value = like->memset_value;
    o->attrs = like->attrs;
    o->n_attrs = like->n_attrs;
    o->scalars = like->scalars;
    o->n_scalars = like->n_scalars;
}

static void emit_call(struct part *t, const struct stem_op *op, struct stem_plan_op *o)
{
    struct emitter *e = t->e;
    const struct stem_decl *d = &t->p->decls.at[op->decl];
    const char *name = stem_sym_str(t->p->strings, d->name);
    bool kernel = op->class == STEM_OP_KERNEL;
    o->kind = plan_text(e, stem_sym_str(e->texts, stem_intern_printf(e->texts, "%s:%s", kernel ? "kernel" : "extern", name)));
    o->work = kernel ? STEM_WORK_LAUNCH : STEM_WORK_EXTERN;
    if (kernel) {
        o->kernel = stem_cuda_inline(e->cuda, t->p, d, op->block[0] * op->block[1] * op->block[2], op->smem);
        memcpy(o->grid, op->grid, sizeof o->grid);
        memcpy(o->block, op->block, sizeof o->block);
        o->smem = op->smem;
    } else {
        o->function = extern_index(e, plan_text(e, name), plan_text(e, d->library));
    }
    emit_constants(t, op, o, op->scalars, op->n_scalars);
}

static void emit_op(struct part *t, uint32_t position)
{
    const struct stem_op *op = stem_op_at(t->p, t->p->sched.order.at[position]);
    struct stem_plan_op *o = (struct stem_plan_op *)&t->v->ops[position];
    struct stem_place place = place_of(t->p, op->span);
    *o = (struct stem_plan_op){
        .name = plan_sym(t->e, t->p, op->name),
        .stream = op->stream.n,
        .segment = op->segment,
        .layer = op->layer,
        .line = place.line,
        .column = place.column,
        .resource = STEM_NONE,
        .bytes_read = op->cost.bytes_read,
        .bytes_written = op->cost.bytes_written,
        .flops = op->cost.flops,
        .est_us = op->est_us,
        .programmatic = op->programmatic,
    };
    if (op->programmatic)
        stem_cuda_early(t->e->cuda);
    if (op->resource.n)
        o->resource = resource_index(t->e, plan_text(t->e, stem_sym_str(t->p->strings, op->resource)));
    emit_operands(t, op, o);
    if (op->class == STEM_OP_BUILTIN)
        emit_builtin(t, op, o);
    else
        emit_call(t, op, o);
}

static void emit_ops(struct part *t)
{
    const struct stem_schedule *s = &t->p->sched;
    t->position = STEM_NEW_ARRAY(t->e->arena, uint32_t, t->p->ops.len);
    memset(t->position, 0xff, sizeof(uint32_t) * t->p->ops.len);
    t->v->n_ops = s->order.len;
    t->v->ops = STEM_PLAN_ARRAY(t->e->plan, struct stem_plan_op, s->order.len);
    for (uint32_t i = 0; i < s->order.len; i++) {
        t->position[s->order.at[i].n] = i;
        emit_op(t, i);
        if (i && t->v->ops[i].segment < t->v->ops[i - 1].segment)
            stem_emit_bug("issue order leaves segment %u and comes back to it", t->v->ops[i].segment);
    }
}

/* ---- the plan ---- */

static void emit_variant(struct emitter *e, const struct stem_program *p, struct stem_plan_variant *v)
{
    struct part t = {.e = e, .p = p, .v = v};
    if (p->sched.first_use.len != p->buffers.len || p->sched.free_after.len != p->buffers.len)
        stem_emit_bug("the program has no lifetimes yet");
    int64_t *dim = STEM_PLAN_ARRAY(e->plan, int64_t, e->plan->n_dims);
    for (uint32_t i = 0; i < e->plan->n_dims; i++)
        dim[i] = p->dim_values.at[i];
    v->dim = dim;
    emit_buffers(&t);
    emit_ops(&t);
    stem_emit_steps(&t);
    stem_emit_edges(&t);
    v->slab_bytes = p->sched.slab_bytes;
    v->slab_bound = p->sched.slab_bound;
    v->events_bound = p->sched.events_bound;
    v->lanes = p->sched.lanes;
    v->critical_path_us = p->sched.critical_path_us;
    v->total_us = p->sched.total_us;
    v->floor_us = p->sched.floor_us;
    v->schedule_us = p->sched.schedule_us;
    stem_vec_free(&t.lowered);
    if (v->slab_bytes > e->plan->slab_bytes)
        e->plan->slab_bytes = v->slab_bytes;
}

/* What all variants share must be the same in all programs. */
static void check_same(const struct stem_program *const *programs, uint32_t n)
{
    const struct stem_program *a = programs[0];
    for (uint32_t i = 1; i < n; i++) {
        const struct stem_program *b = programs[i];
        uint32_t n_ext = n_external(a);
        if (n_external(b) != n_ext || b->dim_names.len != a->dim_names.len)
            stem_emit_bug("variants differ in their external buffers or dims");
        for (uint32_t k = 0; k < n_ext; k++)
            if (a->buffers.at[k].kind != b->buffers.at[k].kind || a->buffers.at[k].inout != b->buffers.at[k].inout ||
                strcmp(stem_sym_str(a->strings, a->buffers.at[k].name),
                       stem_sym_str(b->strings, b->buffers.at[k].name)))
                stem_emit_bug("external buffer %u is not the same in every variant", k);
    }
}

static void emit_streams(struct emitter *e, const struct stem_program *const *programs, uint32_t n)
{
    const struct stem_program *most = programs[0];
    for (uint32_t i = 1; i < n; i++)
        most = programs[i]->streams.len > most->streams.len ? programs[i] : most;
    const char **names = STEM_PLAN_ARRAY(e->plan, const char *, most->streams.len);
    int32_t *priorities = STEM_PLAN_ARRAY(e->plan, int32_t, most->streams.len);
    for (uint32_t s = 0; s < most->streams.len; s++) {
        names[s] = plan_sym(e, most, most->streams.at[s].name);
        priorities[s] = most->streams.at[s].priority;
        for (uint32_t i = 0; i < n; i++)
            if (s < programs[i]->streams.len &&
                strcmp(names[s], stem_sym_str(programs[i]->strings, programs[i]->streams.at[s].name)))
                stem_emit_bug("stream %u is not the same in every variant", s);
    }
    e->plan->streams = names;
    e->plan->priorities = priorities;
    e->plan->n_streams = most->streams.len;
}

static void emit_shared(struct emitter *e, const struct stem_program *p)
{
    struct stem_plan *plan = e->plan;
    plan->version = STEM_PLAN_VERSION;
    plan->name = plan_sym(e, p, p->name);
    plan->source = plan_text(e, p->source ? p->source->path : "");
    plan->sm = e->options->target.sm;
    plan->n_external = n_external(p);
    const char **dims = STEM_PLAN_ARRAY(plan, const char *, p->dim_names.len);
    for (uint32_t i = 0; i < p->dim_names.len; i++)
        dims[i] = plan_sym(e, p, p->dim_names.at[i]);
    plan->dims = dims;
    plan->n_dims = p->dim_names.len;
}

/* Kernels, externs and resources, which the ops of all variants have collected. */
static void emit_tables(struct emitter *e)
{
    struct stem_plan *plan = e->plan;
    uint32_t n = stem_cuda_count(e->cuda);
    struct stem_plan_kernel *kernels = STEM_PLAN_ARRAY(plan, struct stem_plan_kernel, n);
    for (uint32_t i = 0; i < n; i++) {
        kernels[i] = stem_cuda_kernel(e->cuda, i);
        kernels[i].name = plan_text(e, kernels[i].name);
    }
    plan->kernels = kernels;
    plan->n_kernels = n;
    struct stem_plan_extern *externs = STEM_PLAN_ARRAY(plan, struct stem_plan_extern, e->externs.len);
    for (uint32_t i = 0; i < e->externs.len; i++)
        externs[i] = e->externs.at[i];
    plan->externs = externs;
    plan->n_externs = e->externs.len;
    const char **resources = STEM_PLAN_ARRAY(plan, const char *, e->resources.len);
    for (uint32_t i = 0; i < e->resources.len; i++)
        resources[i] = e->resources.at[i];
    plan->resources = resources;
    plan->n_resources = e->resources.len;
    struct stem_out o = {0};
    stem_cuda_print(e->cuda, plan->name, &o);
    plan->cuda = stem_plan_strdup(plan, stem_out_text(&o));
    stem_out_free(&o);
}

struct stem_plan *stem_emit_plan(const struct stem_program *const *programs, uint32_t n,
                                 const struct stem_options *options, struct stem_diags *diags)
{
    (void)diags;
    if (!n)
        stem_emit_bug("no program to emit");
    check_same(programs, n);
    struct emitter e = {.plan = stem_plan_new(), .options = options, .arena = stem_arena_new(),
                        .cuda = stem_cuda_new(), .texts = stem_strtab_new()};
    if (!e.plan)
        stem_out_of_memory();
    emit_shared(&e, programs[0]);
    emit_streams(&e, programs, n);
    struct stem_plan_variant *variants = STEM_PLAN_ARRAY(e.plan, struct stem_plan_variant, n);
    e.plan->variants = variants;
    e.plan->n_variants = n;
    for (uint32_t i = 0; i < n; i++)
        emit_variant(&e, programs[i], &variants[i]);
    emit_tables(&e);
    stem_cuda_free(e.cuda);
    stem_strtab_free(e.texts);
    stem_vec_free(&e.text);
    stem_vec_free(&e.symbol);
    stem_vec_free(&e.resources);
    stem_vec_free(&e.externs);
    stem_arena_free(e.arena);
    return e.plan;
}
