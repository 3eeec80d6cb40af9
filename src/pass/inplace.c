/* SPDX-License-Identifier: Apache-2.0
 *
 * inplace: an op that overwrites a value in place while another op still wants the old version. Either it waits for
 * the reader (the ANTI dep stays), or a copy keeps both apart. A copy is made
 *   - always, if the reader needs what the writer computes: waiting would be a circle;
 *   - if the two run on different streams, nothing else orders them, and options.inplace says COPY, or says AUTO and
 * the copy costs clearly less than waiting for the reader: prices that are about equal are a tie, and waiting needs
 * no launch.
 * Of a temporary buffer the writer gets the copy and goes on in it, so that readers of the old version wait for
 * nothing. A buffer of the caller's must hold the newest version in the end: there the readers get a copy of the old
 * one. The copy is a launch on the writer's stream. Results are the same either way.
 *
 * Time: linear, for each round; there are as many rounds as one buffer has contested versions, most often one.
 */
#include "pass/graph.h"

#include "ir/build.h"

/* A search for another way from the reader to the writer gives up after this many ops, and supposes that there is
 * none: then a copy may be made that was not needed. */
enum { SEARCH = 64 };
/* Both prices are estimates: a copy has to be that much cheaper than waiting. */
#define CLEARLY 0.9

struct contest { /* one writer of the version after `version` of `buffer` */
    uint32_t writer, buffer, version;
    bool circle;         /* some reader needs what the writer computes */
    double wait_us;      /* longest reader on another stream that nothing else orders before the writer */
    uint32_t reader;     /* that one */
    uint32_t first, end; /* deps into the writer */
};

struct state {
    struct stem_program *p;
    struct stem_pass_ctx *ctx;
    struct stem_arena *round; /* emptied after each round */
    struct stem_graph succs;
    const uint32_t *component;
    uint32_t *begin, *value; /* values by buffer */
    uint32_t n_buffers;      /* that they were made for */
    bool *changed;           /* by buffer, in this round */
    uint32_t n_ops;          /* without the copies */
    bool *settled;           /* by op: nothing more to decide about what it writes */
};

/* ---- copying ---- */

static void index_values(struct state *s)
{
    const struct stem_program *p = s->p;
    s->begin = STEM_NEW_ARRAY(s->round, uint32_t, p->buffers.len + 2);
    s->value = STEM_NEW_ARRAY(s->round, uint32_t, p->values.len);
    s->n_buffers = p->buffers.len;
    s->changed = STEM_NEW_ARRAY(s->round, bool, p->buffers.len);
    for (uint32_t i = 0; i < p->values.len; i++)
        s->begin[p->values.at[i].tensor.buffer + 2]++;
    for (uint32_t b = 2; b <= p->buffers.len + 1; b++)
        s->begin[b] += s->begin[b - 1];
    for (uint32_t i = 0; i < p->values.len; i++)
        s->value[s->begin[p->values.at[i].tensor.buffer + 1]++] = i;
}

/* The whole buffer, at one version, as a value. */
static struct stem_value_id whole(struct stem_builder *b, const struct contest *c, struct stem_value_id any)
{
    const struct stem_tensor shape = b->program->buffers.at[c->buffer].shape;
    const struct stem_tensor *t = &stem_value_at(b->program, any)->tensor;
    if (!t->offset && stem_tensor_contiguous(t) && stem_tensor_extent(t) == b->program->buffers.at[c->buffer].bytes)
        return any;
    struct stem_value_id base = stem_value_origin(b->program, any);
    int64_t back = -(int64_t)stem_value_at(b->program, base)->tensor.offset;
    return stem_build_view(b, base, stem_value_at(b->program, any)->name, (uint64_t)back, shape.rank, shape.dim,
                           shape.stride);
}

static bool same_layout(const struct stem_tensor *a, const struct stem_tensor *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i] && a->stride[i] == b->stride[i];
    return same;
}

/* `copy` as seen through the tensor of `like`. */
static struct stem_value_id seen_as(struct stem_builder *b, struct stem_value_id copy, struct stem_value_id like)
{
    struct stem_value v = *stem_value_at(b->program, like), *c = stem_value_at(b->program, copy);
    v.tensor.buffer = c->tensor.buffer;
    if (same_layout(&v.tensor, &c->tensor))
        return copy;
    /* built by hand: a view of a copied view may have another dtype or layout than the copy */
    v.base = copy;
    v.def = STEM_NO_OP;
    v.version = c->version;
    stem_vec_push(&b->program->values, v);
    return (struct stem_value_id){b->program->values.len - 1};
}

static struct stem_operand *operand_of(const struct stem_program *p, const struct contest *c, uint32_t op,
                                       uint32_t *i)
{
    struct stem_operand *o = (struct stem_operand *)p->ops.at[op].operands;
    for (; *i < p->ops.at[op].n_in; ++*i)
        if (o[*i].value.n != STEM_NONE && stem_value_at(p, o[*i].value)->tensor.buffer == c->buffer &&
            stem_value_at(p, o[*i].value)->version == c->version)
            return &o[(*i)++];
    return NULL;
}

/* The writer goes on in the copy: what it makes, and all later versions, move there. */
static void move_writer(struct state *s, struct stem_builder *b, const struct contest *c, struct stem_value_id copy)
{
    struct stem_program *p = s->p;
    uint32_t to = stem_value_at(p, copy)->tensor.buffer, i = 0;
    STEM_VEC(struct stem_value_id) old = {0};
    STEM_VEC(struct stem_value_id) new = {0};
    for (struct stem_operand *o; (o = operand_of(p, c, c->writer, &i));) {
        stem_vec_push(&old, o->value);
        o->value = seen_as(b, copy, o->value);
        stem_vec_push(&new, o->value);
    }
    for (uint32_t k = s->begin[c->buffer]; k < s->begin[c->buffer + 1]; k++) {
        struct stem_value *v = &p->values.at[s->value[k]];
        if (v->version <= c->version)
            continue;
        for (uint32_t j = 0; j < old.len; j++)
            if (v->base.n == old.at[j].n && v->version == c->version + 1)
                v->base = new.at[j];
        v->tensor.buffer = to;
        v->version -= c->version;
    }
    stem_vec_free(&old);
    stem_vec_free(&new);
}

/* The readers that the writer would have to wait for get the copy. Those of earlier segments have read already when
 * it is made. */
static void move_readers(struct state *s, struct stem_builder *b, const struct contest *c, struct stem_value_id copy)
{
    struct stem_program *p = s->p;
    for (uint32_t k = c->first; k < c->end; k++) {
        const struct stem_dep *d = &p->sched.deps.at[k];
        if (d->kind != STEM_DEP_ANTI || stem_op_at(p, d->from)->segment != p->ops.at[c->writer].segment)
            continue;
        uint32_t i = 0;
        for (struct stem_operand *o; (o = operand_of(p, c, d->from.n, &i));)
            if (o->mode != STEM_MODE_INOUT && o->mode != STEM_MODE_CONSUME) /* it may write another part itself */
                o->value = seen_as(b, copy, o->value);
    }
}

static bool make_copy(struct state *s, const struct contest *c)
{
    struct stem_program *p = s->p;
    struct stem_op writer = p->ops.at[c->writer];
    uint32_t i = 0;
    const struct stem_operand *o = operand_of(p, c, c->writer, &i);
    if (!stem_op_find("copy") || !o)
        return false;
    struct stem_dims *dims = stem_dims_new();
    struct stem_builder b = stem_builder_new(p, dims, s->ctx->diags);
    b.layer = writer.layer;
    b.segment = writer.segment;
    b.pin = writer.pin;
    b.priority = writer.priority;
    b.span = writer.span;
    b.name = stem_intern_printf(p->strings, "%s.copy", stem_op_label(p, (struct stem_op_id){c->writer}));
    struct stem_value_id from = whole(&b, c, o->value), copy = stem_build_simple(&b, "copy", &from, 1, NULL, 0);
    stem_dims_free(dims);
    struct stem_op *op = stem_op_at(p, stem_value_at(p, copy)->def);
    op->stream = writer.stream;
    stem_cost_op(p, op, s->ctx->options);
    if (p->buffers.at[c->buffer].kind == STEM_BUFFER_TEMP)
        move_writer(s, &b, c, copy);
    else
        move_readers(s, &b, c, copy);
    return true;
}

/* ---- deciding ---- */

/* Whether the reader comes before the writer without this dep. */
static bool ordered(const struct state *s, uint32_t reader, uint32_t writer)
{
    uint32_t queue[SEARCH], n = 1, direct = 0;
    queue[0] = reader;
    for (uint32_t e = s->succs.begin[reader]; e < s->succs.begin[reader + 1]; e++)
        direct += s->succs.to[e] == writer;
    if (direct > 1) /* data, too */
        return true;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = s->succs.begin[queue[i]]; e < s->succs.begin[queue[i] + 1]; e++) {
            uint32_t to = s->succs.to[e];
            bool known = i == 0 && to == writer;
            if (to == writer && i)
                return true;
            for (uint32_t k = 0; k < n && !known; k++)
                known = queue[k] == to;
            if (!known && n < SEARCH)
                queue[n++] = to;
        }
    return false;
}

static double copy_us(const struct state *s, const struct contest *c)
{
    uint64_t bytes = s->p->buffers.at[c->buffer].bytes;
    struct stem_cost cost = {.bytes_read = bytes, .bytes_written = bytes, .blocks = (uint32_t)(bytes / 2048 + 1)};
    return stem_estimate_us(&cost, &s->ctx->options->target);
}

static bool decide(const struct state *s, const struct contest *c)
{
    const struct stem_program *p = s->p;
    struct stem_op_id writer = {c->writer}, reader = {c->reader};
    double copy = copy_us(s, c);
    const char *value = stem_sym_str(p->strings, p->buffers.at[c->buffer].name);
    if (c->circle) {
        stem_remark(s->ctx->diags, "inplace", stem_op_at(p, writer)->span,
                    "'%s' overwrites '%s', and '%s' needs both the old and the new one: a copy is made (%.1f us)",
                    stem_op_label(p, writer), value, stem_op_label(p, reader), copy);
        return true;
    }
    bool take = s->ctx->options->inplace == STEM_INPLACE_COPY ||
                (s->ctx->options->inplace == STEM_INPLACE_AUTO && copy < CLEARLY * c->wait_us);
    stem_remark(
        s->ctx->diags, "inplace", stem_op_at(p, writer)->span,
        "'%s' overwrites '%s', which '%s' reads on another stream: %s (waiting costs up to %.1f us, a copy %.1f us)",
        stem_op_label(p, writer), value, stem_op_label(p, reader), take ? "a copy is made" : "it waits", c->wait_us,
        copy);
    return take;
}

/* What the ANTI deps into one op, about one buffer, amount to. */
static void weigh(const struct state *s, struct contest *c, const struct stem_dep *d)
{
    const struct stem_op *from = stem_op_at(s->p, d->from), *to = stem_op_at(s->p, d->to);
    if (from->segment != to->segment || d->from.n >= s->n_ops)
        return;
    if (s->component[d->from.n] == s->component[d->to.n]) {
        c->circle = true;
        c->reader = d->from.n;
    } else if (!c->circle && from->stream.n != to->stream.n && from->est_us > c->wait_us &&
               !ordered(s, d->from.n, d->to.n)) {
        c->wait_us = from->est_us;
        c->reader = d->from.n;
    }
}

/* All contests of one writer. True if a copy was made. */
static bool one_writer(struct state *s, uint32_t first, uint32_t end)
{
    struct stem_program *p = s->p;
    uint32_t seen[STEM_MAX_OPERANDS], n_seen = 0, writer = p->sched.deps.at[first].to.n;
    for (uint32_t i = first; i < end; i++) {
        struct stem_dep d = p->sched.deps.at[i];
        if (d.kind != STEM_DEP_ANTI)
            continue;
        const struct stem_value *v = stem_value_at(p, d.value);
        struct contest c = {.writer = writer,
                            .buffer = v->tensor.buffer,
                            .version = v->version,
                            .reader = STEM_NONE,
                            .first = first,
                            .end = end};
        if (c.buffer >= s->n_buffers || s->changed[c.buffer])
            return false; /* in the next round */
        bool known = false;
        for (uint32_t k = 0; k < n_seen; k++)
            known |= seen[k] == c.buffer;
        if (known)
            continue;
        seen[n_seen++] = c.buffer;
        for (uint32_t k = first; k < end; k++) {
            const struct stem_dep *e = &p->sched.deps.at[k];
            if (e->kind == STEM_DEP_ANTI && stem_value_at(p, e->value)->tensor.buffer == c.buffer)
                weigh(s, &c, e);
        }
        if (c.reader != STEM_NONE && decide(s, &c) && make_copy(s, &c))
            return s->changed[c.buffer] = true;
    }
    s->settled[writer] = true;
    return false;
}

/* True if something changed. */
static bool one_round(struct state *s)
{
    struct stem_program *p = s->p;
    bool copied = false;
    s->succs = stem_graph_succs(s->round, p, STEM_DEPS_ALL, true);
    s->component = stem_graph_components(s->round, &s->succs);
    index_values(s);
    for (uint32_t first = 0, end; first < p->sched.deps.len; first = end) {
        bool anti = false;
        for (end = first; end < p->sched.deps.len && p->sched.deps.at[end].to.n == p->sched.deps.at[first].to.n;
             end++)
            anti |= p->sched.deps.at[end].kind == STEM_DEP_ANTI;
        if (anti && p->sched.deps.at[first].to.n < s->n_ops && !s->settled[p->sched.deps.at[first].to.n])
            copied |= one_writer(s, first, end);
    }
    return copied;
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct state s = {
        .p = p, .ctx = ctx, .n_ops = p->ops.len, .settled = STEM_NEW_ARRAY(ctx->scratch, bool, p->ops.len)};
    for (bool again = true; again;) {
        s.round = stem_arena_new();
        again = one_round(&s);
        if (again) /* what is still a circle then, the order pass reports */
            stem_deps_build(p, s.round, NULL);
        stem_arena_free(s.round);
    }
    return true;
}

const struct stem_pass stem_pass_inplace = {
    .name = "inplace",
    .blurb = "writing in place against a concurrent reader: wait, or copy",
    .needs = STEM_FACT_STREAMS | STEM_FACT_DEPS,
    .gives = STEM_FACT_DEPS,
    .kills = STEM_FACT_ORDER | STEM_FACT_WAITS | STEM_FACT_LIFETIME | STEM_FACT_MEMORY | STEM_FACT_LANES,
    .run = run,
};
