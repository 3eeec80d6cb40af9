/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of emitted host code: tensors, kernels, and for each bucket buffers, ops, steps and edges, one record on
 * a line where a reader may look for it.
 */
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "emit/host.h"
#include "emit/host_text.h"
#include "emit/part.h"

/* What cuBLASLt chooses an algorithm by. */
struct product {
    int64_t m, n, k;
    uint32_t in, out, align[3];
    uint64_t workspace;
};

struct tables {
    const struct stem_plan *p;
    const char *name;
    struct stem_out *o;
    struct stem_strtab *runs;    /* the bits of an op's scalars: equal runs are printed once */
    STEM_VEC(uint32_t) run_at;   /* of each run: its place in scalars[] */
    STEM_VEC(uint32_t) calls;    /* calls[] so far: index of the variant and of the op */
    uint32_t next_call;          /* while ops are printed, in the same order */
    STEM_VEC(struct product) products;
};

struct stem_host_limits stem_host_limits(const struct stem_plan *p)
{
    struct stem_host_limits l = {0};
    for (uint32_t i = 0; i < p->n_variants; i++) {
        const struct stem_plan_variant *v = &p->variants[i];
        uint32_t edges = 0;
        l.events = v->n_events > l.events ? v->n_events : l.events;
        for (uint32_t k = 0; k < v->n_ops; k++) {
            uint32_t n = v->ops[k].n_operands + v->ops[k].n_scalars;
            l.params = n > l.params ? n : l.params;
        }
        for (uint32_t k = 0; k < v->n_edges; k++) {
            edges = k && v->edges[k].to == v->edges[k - 1].to ? edges + 1 : 1;
            l.edges = edges > l.edges ? edges : l.edges;
        }
    }
    return l;
}

/* "ops_3, ", or NULL for a table that would be empty. */
static void print_table(struct stem_out *o, const char *table, uint32_t bucket, bool there, const char *end)
{
    if (there)
        stem_out_printf(o, "%s_%u%s", table, bucket, end);
    else
        stem_out_printf(o, "NULL%s", end);
}

static void print_dims(struct stem_out *o, const int64_t *dim, uint32_t n)
{
    stem_out_char(o, '{');
    for (uint32_t i = 0; i < n || i == 0; i++)
        stem_out_printf(o, "%s%lld", i ? ", " : "", n ? (long long)dim[i] : 0ll);
    stem_out_char(o, '}');
}

/* ---- what all buckets share ---- */

static bool rows_vary(const struct stem_plan *p, uint32_t buffer)
{
    for (uint32_t i = 1; i < p->n_variants; i++)
        if (p->variants[i].buffers[buffer].dim[0] != p->variants[0].buffers[buffer].dim[0])
            return !stem_dtype_packed(p->variants[0].buffers[buffer].dtype);
    return false;
}

static void print_tensors(const struct tables *t)
{
    stem_out_printf(t->o, "/* name, where a checkpoint has it, dtype, rank, alignment, rows vary, state */\nstatic const struct tensor_info tensors[] = {\n");
    for (uint32_t i = 0; i < t->p->n_external; i++) {
        const struct stem_plan_buffer *b = &t->p->variants[0].buffers[i];
        stem_out_str(t->o, "    {");
        stem_host_string(t->o, b->name);
        stem_out_str(t->o, ", ");
        if (b->from)
            stem_host_string(t->o, b->from);
        else
            stem_out_str(t->o, "NULL");
        stem_out_printf(t->o, ", %d, %u, %u, %d, %d},\n", (int)b->dtype, b->rank, b->align, rows_vary(t->p, i),
                        b->kind == STEM_BUFFER_STATE);
    }
    stem_out_str(t->o, "};\n\n");
}

/* The first op that uses each kernel says where it comes from. */
static const struct stem_plan_op *first_use(const struct stem_plan *p, uint32_t kernel)
{
    for (uint32_t i = 0; i < p->n_variants; i++)
        for (uint32_t k = 0; k < p->variants[i].n_ops; k++)
            if (p->variants[i].ops[k].work == STEM_WORK_LAUNCH && p->variants[i].ops[k].kernel == kernel)
                return &p->variants[i].ops[k];
    return NULL;
}

static void print_kernels(const struct tables *t)
{
    stem_out_str(t->o, "static const struct kernel kernels[] = {\n");
    for (uint32_t i = 0; i < t->p->n_kernels; i++) {
        const struct stem_plan_op *op = first_use(t->p, i);
        stem_out_str(t->o, "    {");
        stem_host_string(t->o, t->p->kernels[i].name);
        stem_out_printf(t->o, ", %u},", t->p->kernels[i].max_smem);
        if (op) {
            stem_out_str(t->o, " /* ");
            stem_host_comment(t->o, op->kind);
            stem_out_str(t->o, ": ");
            stem_host_comment(t->o, op->name);
            stem_out_printf(t->o, ", line %u */", op->line);
        }
        stem_out_char(t->o, '\n');
    }
    stem_out_str(t->o, t->p->n_kernels ? "};\n\n" : "    {\"\", 0},\n};\n\n");
}

static void print_streams(const struct tables *t)
{
    stem_out_str(t->o, "static const char *const stream_names[N_STREAMS] = {");
    for (uint32_t i = 0; i < t->p->n_streams; i++) {
        stem_out_str(t->o, i ? ", " : "");
        stem_host_string(t->o, t->p->streams[i]);
    }
    stem_out_str(t->o, "};\n/* larger is more urgent */\nstatic const int priorities[N_STREAMS] = {");
    for (uint32_t i = 0; i < t->p->n_streams; i++)
        stem_out_printf(t->o, "%s%d", i ? ", " : "", t->p->priorities ? t->p->priorities[i] : 0);
    stem_out_str(t->o, "};\n\n");
}

static uint64_t scalar_bits(const struct stem_scalar *s)
{
    int32_t i32 = (int32_t)s->i;
    float f32 = (float)s->f;
    uint64_t bits = 0;
    if (s->kind == STEM_SCALAR_I32)
        memcpy(&bits, &i32, sizeof i32);
    else if (s->kind == STEM_SCALAR_F32)
        memcpy(&bits, &f32, sizeof f32);
    else
        memcpy(&bits, &s->i, sizeof s->i);
    return bits;
}

static struct stem_sym scalar_run(const struct tables *t, const struct stem_plan_op *op)
{
    uint64_t bits[64] = {0};
    uint32_t n = op->n_scalars < 64 ? op->n_scalars : 64;
    for (uint32_t i = 0; i < n; i++)
        bits[i] = scalar_bits(&op->scalars[i]);
    return n ? stem_intern_n(t->runs, (const char *)bits, n * sizeof bits[0]) : (struct stem_sym){0};
}

/* Symbols count from 1 by first appearance, so a new run is the one after those known. */
static void print_scalars(struct tables *t)
{
    uint32_t n = 0;
    stem_out_str(t->o, "/* Scalar parameters as the kernels' bits, little endian. */\nstatic const uint64_t scalars[] = {\n");
    stem_vec_push(&t->run_at, 0u);
    for (uint32_t i = 0; i < t->p->n_variants; i++)
        for (uint32_t k = 0; k < t->p->variants[i].n_ops; k++) {
            const struct stem_plan_op *op = &t->p->variants[i].ops[k];
            if (scalar_run(t, op).n < t->run_at.len)
                continue;
            stem_vec_push(&t->run_at, n);
            n += op->n_scalars;
            stem_out_str(t->o, "   ");
            for (uint32_t s = 0; s < op->n_scalars; s++) {
                const struct stem_scalar *x = &op->scalars[s];
                stem_out_printf(t->o, " UINT64_C(0x%llx),", (unsigned long long)scalar_bits(x));
                if (x->kind == STEM_SCALAR_F32)
                    stem_out_printf(t->o, " /* %.9g */", x->f);
                else
                    stem_out_printf(t->o, " /* %lld */", (long long)x->i);
            }
            stem_out_char(t->o, '\n');
        }
    stem_out_str(t->o, n ? "};\n\n" : "    0,\n};\n\n");
}

/* ---- functions of the caller ---- */

static void print_externs(const struct tables *t)
{
    if (!t->p->n_externs)
        return;
    stem_out_str(t->o, "static const char *const externs[] = {\n");
    for (uint32_t i = 0; i < t->p->n_externs; i++) {
        stem_out_str(t->o, "    ");
        stem_host_string(t->o, t->p->externs[i].name);
        stem_out_str(t->o, ",\n");
    }
    stem_out_printf(t->o, "};\n\nstatic %s_extern_fn *extern_function(const struct %s_options *o, uint32_t i)\n{\n    switch (i) {\n",
                    t->name, t->name);
    struct stem_arena *a = stem_arena_new();
    for (uint32_t i = 0; i < t->p->n_externs; i++)
        stem_out_printf(t->o, "    case %u: return o->%s;\n", i, stem_host_member(a, t->p->externs[i].name));
    stem_arena_free(a);
    stem_out_str(t->o, "    default: return NULL;\n    }\n}\n\n");
}

static void print_call_operands(const struct tables *t, const struct stem_plan_op *op, uint32_t call)
{
    stem_out_printf(t->o, "static const struct %s_operand call_tensors_%u[] = { /* ", t->name, call);
    stem_host_comment(t->o, op->name);
    stem_out_str(t->o, " */\n");
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct stem_tensor *x = &op->operands[i].tensor;
        bool absent = x->buffer == STEM_NONE;
        stem_out_printf(t->o, "    {%d, {%uu, %llu, (enum %s_dtype)%d, %uu, ", (int)op->operands[i].access, x->buffer,
                        (unsigned long long)x->offset, t->name, (int)x->dtype, x->rank);
        print_dims(t->o, x->dim, absent ? 0 : x->rank);
        stem_out_str(t->o, ", ");
        print_dims(t->o, x->stride, absent ? 0 : x->rank);
        stem_out_str(t->o, "}},\n");
    }
    if (!op->n_operands)
        stem_out_printf(t->o, "    {0, {0, 0, (enum %s_dtype)0, 0, {0}, {0}}},\n", t->name);
    stem_out_str(t->o, "};\n");
}

static void print_call_constants(const struct tables *t, const struct stem_plan_op *op, uint32_t call)
{
    if (op->n_scalars) {
        stem_out_printf(t->o, "static const struct %s_scalar call_scalars_%u[] = {\n", t->name, call);
        for (uint32_t i = 0; i < op->n_scalars; i++)
            stem_out_printf(t->o, "    {%d, (int64_t)UINT64_C(0x%llx)},\n", (int)op->scalars[i].kind,
                            (unsigned long long)op->scalars[i].i); /* the union's bits, whichever member */
        stem_out_str(t->o, "};\n");
    }
    if (op->n_attrs) {
        stem_out_printf(t->o, "static const struct %s_attr call_attrs_%u[] = {\n", t->name, call);
        for (uint32_t i = 0; i < op->n_attrs; i++) {
            const struct stem_attr *a = &op->attrs[i];
            stem_out_str(t->o, "    {");
            stem_host_string(t->o, a->name);
            stem_out_printf(t->o, ", %d, %lld, %.17g, ", (int)a->kind, (long long)a->i, a->f);
            if (a->text)
                stem_host_string(t->o, a->text);
            else
                stem_out_str(t->o, "NULL");
            stem_out_str(t->o, "},\n");
        }
        stem_out_str(t->o, "};\n");
    }
}

static void print_calls(struct tables *t, const uint32_t *order)
{
    if (!t->p->n_externs)
        return;
    for (uint32_t i = 0; i < t->p->n_variants; i++)
        for (uint32_t k = 0; k < t->p->variants[order[i]].n_ops; k++) {
            const struct stem_plan_op *op = &t->p->variants[order[i]].ops[k];
            if (op->work != STEM_WORK_EXTERN)
                continue;
            print_call_operands(t, op, t->calls.len);
            print_call_constants(t, op, t->calls.len);
            stem_vec_push(&t->calls, order[i]);
            stem_vec_push(&t->calls, k);
        }
    stem_out_str(t->o, "static const struct call calls[] = {\n");
    for (uint32_t c = 0; c < t->calls.len; c += 2) {
        const struct stem_plan_op *op = &t->p->variants[t->calls.at[c]].ops[t->calls.at[c + 1]];
        stem_out_printf(t->o, "    {call_tensors_%u, %u, ", c, op->n_scalars);
        print_table(t->o, "call_scalars", c, op->n_scalars != 0, ", ");
        stem_out_printf(t->o, "%u, ", op->n_attrs);
        print_table(t->o, "call_attrs", c, op->n_attrs != 0, "},\n");
    }
    stem_out_str(t->o, t->calls.len ? "};\n\n" : "    {NULL, 0, NULL, 0, NULL},\n};\n\n");
}

/* ---- products by cuBLASLt ---- */

/* What the plan promises of an operand's address. */
static uint32_t alignment(const struct stem_plan_variant *v, const struct stem_tensor *t)
{
    uint64_t a = v->buffers[t->buffer].align | t->offset | 256;
    return (uint32_t)(a & -a);
}

/* Its place among the products; a new one is added. */
static uint32_t product_of(struct tables *t, const struct stem_plan_variant *v, const struct stem_plan_op *op)
{
    const struct stem_tensor *w = &op->operands[1].tensor;
    struct product p;
    memset(&p, 0, sizeof p); /* padding too: they are compared as bytes */
    p.n = w->dim[0];
    p.k = w->dim[1];
    p.m = (int64_t)stem_tensor_elements(&op->operands[0].tensor) / p.k;
    p.in = w->dtype;
    p.out = op->operands[2].tensor.dtype;
    for (uint32_t i = 0; i < 3; i++)
        p.align[i] = alignment(v, &op->operands[i].tensor);
    p.workspace = stem_tensor_extent(&op->operands[3].tensor);
    for (uint32_t i = 0; i < t->products.len; i++)
        if (!memcmp(&t->products.at[i], &p, sizeof p))
            return i;
    stem_vec_push(&t->products, p);
    return t->products.len - 1;
}

static void find_products(struct tables *t)
{
    for (uint32_t i = 0; i < t->p->n_variants; i++)
        for (uint32_t k = 0; k < t->p->variants[i].n_ops; k++)
            if (t->p->variants[i].ops[k].work == STEM_WORK_MATMUL)
                product_of(t, &t->p->variants[i], &t->p->variants[i].ops[k]);
}

uint32_t stem_host_n_products(const struct stem_plan *p)
{
    struct tables t = {.p = p};
    find_products(&t);
    uint32_t n = t.products.len;
    stem_vec_free(&t.products);
    return n;
}

static void print_products(struct tables *t)
{
    find_products(t);
    if (!t->products.len)
        return;
    stem_out_str(t->o, "/* m, n, k, types, alignments of x, w and y, workspace */\nstatic const struct product products[] = {\n");
    for (uint32_t i = 0; i < t->products.len; i++) {
        const struct product *p = &t->products.at[i];
        stem_out_printf(t->o, "    {%lld, %lld, %lld, %u, %u, {%u, %u, %u}, %llu},\n", (long long)p->m, (long long)p->n,
                        (long long)p->k, p->in, p->out, p->align[0], p->align[1], p->align[2], (unsigned long long)p->workspace);
    }
    stem_out_str(t->o, "};\n\n");
}

/* ---- one bucket ---- */

static void print_buffers(const struct tables *t, uint32_t bucket, const struct stem_plan_variant *v)
{
    stem_out_printf(t->o, "static const int64_t dim_%u[] = ", bucket);
    print_dims(t->o, v->dim, t->p->n_dims);
    stem_out_printf(t->o, ";\n\nstatic const struct shape shapes_%u[] = {\n", bucket);
    for (uint32_t i = 0; i < t->p->n_external; i++) {
        stem_out_printf(t->o, "    {%llu, ", (unsigned long long)v->buffers[i].bytes);
        print_dims(t->o, v->buffers[i].dim, v->buffers[i].rank);
        stem_out_str(t->o, "}, /* ");
        stem_host_comment(t->o, v->buffers[i].name);
        stem_out_str(t->o, " */\n");
    }
    stem_out_str(t->o, "};\n\n");
    if (v->n_buffers == t->p->n_external)
        return;
    stem_out_printf(t->o, "static const struct temp temps_%u[] = {\n", bucket);
    for (uint32_t i = t->p->n_external; i < v->n_buffers; i++) {
        stem_out_printf(t->o, "    {%llu, %llu}, /* %u: ", (unsigned long long)v->buffers[i].bytes,
                        (unsigned long long)v->buffers[i].offset, i);
        stem_host_comment(t->o, v->buffers[i].name);
        stem_out_str(t->o, " */\n");
    }
    stem_out_str(t->o, "};\n\n");
}

static void print_operands(const struct tables *t, uint32_t bucket, const struct stem_plan_variant *v)
{
    uint32_t n = 0;
    stem_out_printf(t->o, "static const struct operand operands_%u[] = {\n", bucket);
    for (uint32_t i = 0; i < v->n_ops; i++) {
        stem_out_str(t->o, "   ");
        for (uint32_t k = 0; k < v->ops[i].n_operands; k++, n++) {
            const struct stem_tensor *x = &v->ops[i].operands[k].tensor;
            if (x->buffer == STEM_NONE)
                stem_out_str(t->o, " {NONE, 0},");
            else
                stem_out_printf(t->o, " {%u, %llu},", x->buffer, (unsigned long long)x->offset);
        }
        stem_out_printf(t->o, " /* %u */\n", i);
    }
    stem_out_str(t->o, n ? "};\n\n" : "    {NONE, 0},\n};\n\n");
}

static void print_edges(const struct tables *t, uint32_t bucket, const struct stem_plan_variant *v)
{
    if (!v->n_edges)
        return;
    stem_out_printf(t->o, "static const struct edge edges_%u[] = {", bucket);
    for (uint32_t i = 0; i < v->n_edges; i++)
        stem_out_printf(t->o, "%s{%u, %d},", i % 12 ? " " : "\n    ", v->edges[i].from,
                        v->edges[i].kind == STEM_EDGE_PROGRAMMATIC);
    stem_out_str(t->o, "\n};\n\n");
}

static uint64_t memset_bytes(const struct stem_plan_op *op)
{
    return op->work == STEM_WORK_MEMSET ? stem_tensor_extent(&op->operands[0].tensor) : 0;
}

static void print_op(struct tables *t, uint32_t variant, uint32_t index, uint32_t operand, uint32_t edge,
                     uint32_t n_edges)
{
    static const char *const work[] = {"WORK_LAUNCH", "WORK_MEMSET", "WORK_EXTERN", "WORK_MATMUL"};
    const struct stem_plan_op *op = &t->p->variants[variant].ops[index];
    uint32_t what = op->work == STEM_WORK_LAUNCH   ? op->kernel
                    : op->work == STEM_WORK_MEMSET ? op->memset_value
                    : op->work == STEM_WORK_MATMUL ? product_of(t, &t->p->variants[variant], op)
                                                   : op->function;
    uint32_t scalar = op->n_scalars ? t->run_at.at[scalar_run(t, op).n] : 0;
    bool launch = op->work == STEM_WORK_LAUNCH;
    stem_out_str(t->o, "    {");
    stem_host_string(t->o, op->name);
    stem_out_printf(t->o, ", %u, %s, %u, %u, %u, %u, %u, %u, %u, %u, ", op->line, work[op->work], op->stream, what, operand,
                    op->n_operands, scalar, op->n_scalars, edge, n_edges);
    stem_out_printf(t->o, "{%u, %u, %u}, {%u, %u, %u}, %u, %d, %llu, %u", launch ? op->grid[0] : 0,
                    launch ? op->grid[1] : 0, launch ? op->grid[2] : 0, launch ? op->block[0] : 0, launch ? op->block[1] : 0,
                    launch ? op->block[2] : 0, launch ? op->smem : 0, op->programmatic, (unsigned long long)memset_bytes(op),
                    op->work == STEM_WORK_EXTERN ? t->next_call++ : 0);
    stem_out_printf(t->o, "}, /* %u: ", index);
    stem_host_comment(t->o, op->kind);
    stem_out_str(t->o, " */\n");
}

static void print_ops(struct tables *t, uint32_t bucket, uint32_t variant)
{
    const struct stem_plan_variant *v = &t->p->variants[variant];
    uint32_t operand = 0, edge = 0;
    if (!v->n_ops)
        return;
    stem_out_printf(t->o,
                    "/* name, line, work, stream, what, operands, scalars, edges, grid, block, shared memory, programmatic,\n"
                    " * bytes, call */\nstatic const struct op ops_%u[] = {\n",
                    bucket);
    for (uint32_t i = 0; i < v->n_ops; i++) {
        uint32_t n = 0;
        while (edge + n < v->n_edges && v->edges[edge + n].to == i)
            n++;
        print_op(t, variant, i, operand, edge, n);
        operand += v->ops[i].n_operands;
        edge += n;
    }
    stem_out_str(t->o, "};\n\n");
}

/* ---- steps and segments ----
 *
 * Each segment starts from stream 0: a wait for an event of an earlier segment says nothing and is left out; a stream
 * whose first step in the segment is not a wait is forked from stream 0 there. */

struct route {
    uint32_t *segment_of_event; /* in which it was recorded last, STEM_NONE: none */
    unsigned char *use;         /* of each stream, in this segment: 1 used, 2 forked */
    uint32_t n_steps;           /* printed so far */
};

static bool skipped(const struct route *r, const struct stem_step *s, uint32_t segment)
{
    return s->kind == STEM_STEP_SEGMENT || (s->kind == STEM_STEP_WAIT && r->segment_of_event[s->index] != segment);
}

static void note_step(struct route *r, const struct stem_step *s, uint32_t segment)
{
    if (s->kind == STEM_STEP_RECORD)
        r->segment_of_event[s->index] = segment;
    if (!r->use[s->stream] && s->stream && s->kind != STEM_STEP_WAIT)
        r->use[s->stream] |= 2;
    r->use[s->stream] |= 1;
}

static void print_step(const struct tables *t, const struct stem_step *s, uint32_t n)
{
    static const char *const kind[] = {"STEP_OP", "STEP_RECORD", "STEP_WAIT", "STEP_ALLOC", "STEP_FREE"};
    stem_out_printf(t->o, "%s{%s, %u, %u},", n % 5 ? " " : "\n    ", kind[s->kind], s->stream, s->index);
}

static void print_segment(const struct tables *t, const struct stem_plan_segment *s, const struct route *r, uint32_t first,
                          struct stem_out *o)
{
    stem_out_printf(o, "    {%u, %u, %u, %u, %d, {", s->first_op, s->n_ops, first, r->n_steps - first, s->eager);
    for (uint32_t i = 0; i < t->p->n_streams; i++)
        stem_out_printf(o, "%s%s", i ? ", " : "", r->use[i] == 3 ? "ROUTE_USED | ROUTE_FORK" : r->use[i] ? "ROUTE_USED" : "0");
    stem_out_str(o, "}},\n");
}

static void print_steps(const struct tables *t, uint32_t bucket, const struct stem_plan_variant *v)
{
    struct stem_arena *arena = stem_arena_new();
    struct route r = {.segment_of_event = STEM_NEW_ARRAY(arena, uint32_t, v->n_events + 1),
                      .use = STEM_NEW_ARRAY(arena, unsigned char, t->p->n_streams)};
    struct stem_out segments = {0};
    for (uint32_t i = 0; i < v->n_events; i++)
        r.segment_of_event[i] = STEM_NONE;
    stem_out_printf(t->o, "static const struct step steps_%u[] = {", bucket);
    for (uint32_t g = 0; g < v->n_segments; g++) {
        uint32_t first = r.n_steps;
        memset(r.use, 0, t->p->n_streams);
        for (uint32_t i = 0; i < v->segments[g].n_steps; i++) {
            const struct stem_step *s = &v->steps[v->segments[g].first_step + i];
            if (skipped(&r, s, g))
                continue;
            note_step(&r, s, g);
            print_step(t, s, r.n_steps++);
        }
        print_segment(t, &v->segments[g], &r, first, &segments);
    }
    stem_out_str(t->o, r.n_steps ? "\n};\n\n" : "{STEP_OP, 0, 0}};\n\n");
    stem_out_printf(t->o, "static const struct segment segments_%u[] = {\n%s};\n\n", bucket,
                    v->n_segments ? stem_out_text(&segments) : "    {0, 0, 0, 0, 0, {0}},\n");
    stem_out_free(&segments);
    stem_arena_free(arena);
}

static void print_bucket(struct tables *t, uint32_t bucket, uint32_t variant)
{
    const struct stem_plan_variant *v = &t->p->variants[variant];
    stem_out_printf(t->o, "/* ---- bucket %u:", bucket);
    for (uint32_t i = 0; i < t->p->n_dims; i++)
        stem_out_printf(t->o, " %s = %lld,", t->p->dims[i], (long long)v->dim[i]);
    stem_out_printf(t->o, " %u ops, %u events, %llu bytes of slab ---- */\n\n", v->n_ops, v->n_events,
                    (unsigned long long)v->slab_bytes);
    print_buffers(t, bucket, v);
    print_operands(t, bucket, v);
    print_edges(t, bucket, v);
    print_ops(t, bucket, variant);
    print_steps(t, bucket, v);
}

static void print_variants(const struct tables *t, const uint32_t *order)
{
    stem_out_str(t->o, "static const struct variant variants[] = {\n");
    for (uint32_t i = 0; i < t->p->n_variants; i++) {
        const struct stem_plan_variant *v = &t->p->variants[order[i]];
        uint32_t n_temps = v->n_buffers - t->p->n_external;
        stem_out_printf(t->o, "    {dim_%u, shapes_%u, ", i, i);
        print_table(t->o, "temps", i, n_temps != 0, ", ");
        stem_out_printf(t->o, "%u, ", n_temps);
        print_table(t->o, "ops", i, v->n_ops != 0, ", ");
        stem_out_printf(t->o, "%u, operands_%u, steps_%u, ", v->n_ops, i, i);
        print_table(t->o, "edges", i, v->n_edges != 0, ", ");
        stem_out_printf(t->o, "segments_%u, %u},\n", i, v->n_segments);
    }
    stem_out_str(t->o, "};\n");
}

void stem_host_tables(const struct stem_plan *p, const uint32_t *order, const char *name, struct stem_out *o)
{
    struct tables t = {.p = p, .name = name, .o = o, .runs = stem_strtab_new()};
    print_tensors(&t);
    print_kernels(&t);
    print_streams(&t);
    print_scalars(&t);
    print_externs(&t);
    print_calls(&t, order);
    print_products(&t);
    for (uint32_t i = 0; i < p->n_variants; i++)
        print_bucket(&t, i, order[i]);
    print_variants(&t, order);
    stem_vec_free(&t.run_at);
    stem_vec_free(&t.products);
    stem_vec_free(&t.calls);
    stem_strtab_free(t.runs);
}
