/* SPDX-License-Identifier: Apache-2.0
 *
 * library: which products cuBLASLt does instead of our own kernels. Runs first, since what an op costs decides about its
 * stream; and a product of the library takes in no epilogue, which speaks against it where one would be fused.
 *
 * By cost: if both ways were measured (mainstem tune), by that. Else only for many tokens, by the model of all passes: our kernel,
 * which is made to stream weights, comes to a share of the arithmetic; the library's come to most of it, but do not let each other
 * start early and often are two. What each comes to is said by the ops' costs.
 *
 * Time: linear.
 */
#include <stdio.h>
#include <string.h>

#include "costs/costs.h"
#include "ir/build.h"
#include "ops/epilogue.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"
#include "pass/graph.h"

#define CLEARLY 1.15 /* the model is no better than that */
/* From here on the model agrees with what was measured (docs/kernels_measured.md); below, the two are near. */
enum { MODEL_TOKENS = 64 };

struct reader {
    uint32_t n, op; /* reads of a buffer; the last reader */
};

struct state {
    struct stem_program *p;
    struct stem_pass_ctx *ctx;
    struct stem_options options; /* for costs: as usual, so that all schedules of a program choose alike and have the same bits */
    struct stem_options model;   /* the same without measurements: one way measured says nothing about the other */
    struct reader *reader; /* by buffer */
    const char *at; /* of remarks: which specialisation */
};

static void find_readers(struct state *s)
{
    s->reader = STEM_NEW_ARRAY(s->ctx->scratch, struct reader, s->p->buffers.len);
    for (uint32_t i = 0; i < s->p->ops.len; i++) {
        const struct stem_op *op = &s->p->ops.at[i];
        for (uint32_t k = 0; !op->dead && k < op->n_in; k++) {
            if (op->operands[k].value.n == STEM_NONE)
                continue;
            struct reader *r = &s->reader[stem_value_at(s->p, op->operands[k].value)->tensor.buffer];
            r->n++;
            r->op = i;
        }
    }
}

/* The same op by the library, but for its workspace, which costs do not depend on; of a norm_linear, its product. */
static struct stem_op by_library(const struct state *s, const struct stem_op *op, struct stem_operand operands[3])
{
    struct stem_op lib = *op;
    struct stem_attr out = *stem_op_attr(op->def, op->attrs, "out");
    operands[0] = op->operands[0];
    operands[1] = op->operands[op->def == &stem_op_norm_linear ? 2 : 1];
    operands[2] = op->operands[op->n_in];
    lib.def = &stem_op_matmul;
    lib.operands = operands;
    lib.n_in = 2;
    lib.attrs = stem_arena_dup(s->p->arena, &out, sizeof out);
    lib.n_attrs = 1;
    stem_op_set_cost(s->p, &lib);
    return lib;
}

/* What a launch more costs because the reader cannot be computed by the product itself. */
static double unfused_us(const struct state *s, const struct stem_op *op)
{
    const struct stem_tensor *y = &stem_value_at(s->p, op->operands[op->n_in].value)->tensor;
    struct reader r = s->reader[y->buffer];
    if (s->p->buffers.at[y->buffer].kind != STEM_BUFFER_TEMP || r.n != 1)
        return 0;
    struct stem_op reader = s->p->ops.at[r.op];
    if (reader.class != STEM_OP_BUILTIN || (strcmp(reader.def->name, "pointwise") && strcmp(reader.def->name, "silu_mul")))
        return 0;
    stem_cost_op(s->p, &reader, &s->options);
    return reader.est_us;
}

static int64_t tokens(const struct stem_concrete *c)
{
    int64_t m = 1;
    for (uint32_t i = 0; i + 1 < c->operand[0].rank; i++)
        m *= c->operand[0].dim[i];
    return m;
}

struct times {
    double own, library, more; /* microseconds; more: of what must be launched beside the library's product */
    bool measured, clear;      /* clear: the library is ahead by more than the model may be wrong */
};

static struct times compare(const struct state *s, const struct stem_op *op, double more)
{
    struct stem_operand operands[3];
    struct stem_op own = *op, lib = by_library(s, op, operands);
    stem_cost_op(s->p, &own, &s->options);
    stem_cost_op(s->p, &lib, &s->options);
    bool measured = own.measured && lib.measured;
    if (!measured) {
        stem_cost_op(s->p, &own, &s->model);
        stem_cost_op(s->p, &lib, &s->model);
    }
    double us = (measured ? 1 : CLEARLY) * lib.est_us + more;
    return (struct times){own.est_us, lib.est_us, more, measured, us < own.est_us};
}

/* Why it is not what the times would say; "" if it is. */
static const char *despite(const struct state *s, const struct times *t, bool take)
{
    bool ahead = t->library + t->more < t->own;
    if (take == ahead)
        return "";
    return take                                           ? "; it is taken wherever it can be"
           : s->ctx->options->matmul == STEM_MATMUL_OWN   ? "; it is not to be used"
           : t->clear                                     ? "; for so few tokens only measured times count"
                                                          : "; too near for estimates to tell";
}

static bool library_multiplies(const struct state *s, const struct stem_op *op, const struct stem_concrete *c)
{
    enum stem_matmul_by by = s->ctx->options->matmul;
    struct times t = compare(s, op, unfused_us(s, op));
    bool take = by == STEM_MATMUL_CUBLASLT ||
                (by != STEM_MATMUL_OWN && t.clear && (t.measured || tokens(c) >= MODEL_TOKENS));
    char unfused[64] = "";
    if (t.more > 0)
        snprintf(unfused, sizeof unfused, " and %.1f us for what would be fused", t.more);
    stem_remark(s->ctx->diags, "library", op->span, "%s%s: %s (%s: %.1f us of our own, %.1f us by cuBLASLt%s%s)", s->at,
                stem_op_label(s->p, (struct stem_op_id){(uint32_t)(op - s->p->ops.at)}), take ? "by cuBLASLt" : "our own kernel",
                t.measured ? "measured" : "estimated", t.own, t.library, unfused, despite(s, &t, take));
    return take;
}

static void replace(struct state *s, uint32_t index)
{
    struct stem_program *p = s->p;
    struct stem_dims *dims = stem_dims_new();
    struct stem_builder b = stem_builder_new(p, dims, s->ctx->diags);
    struct stem_operand operands[4];
    const int64_t bytes = STEM_MATMUL_WORKSPACE;
    struct stem_op *op = &p->ops.at[index];
    b.span = op->span;
    struct stem_sym name = stem_intern_printf(p->strings, "%s.workspace", stem_op_label(p, (struct stem_op_id){index}));
    struct stem_value_id workspace = stem_build_buffer(&b, STEM_BUFFER_TEMP, name, STEM_U8, 1, &bytes);
    stem_dims_free(dims);
    stem_value_at(p, workspace)->def = (struct stem_op_id){index};
    *op = by_library(s, op, operands);
    operands[3] = (struct stem_operand){workspace, STEM_MODE_OUT, op->span};
    op->operands = stem_arena_dup(p->arena, operands, sizeof operands);
    op->n_out = 2;
    stem_op_set_cost(p, op);
}

/* x normalised by a launch of its own, which writes what the product reads. */
static double norm_us(const struct state *s, const struct stem_tensor *x)
{
    uint64_t bytes = (uint64_t)stem_tensor_elements(x) * stem_dtype_bits(x->dtype) / 8;
    struct stem_cost cost = {.bytes_read = bytes, .bytes_written = bytes, .blocks = (uint32_t)(bytes / 2048 + 1)};
    return stem_estimate_us(&cost, &s->options.target);
}

/* Never by the library: a norm_linear has bits of its own, which rmsnorm and a product do not have. So it is only said where its
 * author would do better with these. */
static void tell_norm_linear(const struct state *s, uint32_t i, const struct stem_concrete *c)
{
    const struct stem_op *op = &s->p->ops.at[i];
    enum stem_matmul_by by = s->ctx->options->matmul;
    struct stem_tensor operand[3] = {c->operand[0], c->operand[2], c->operand[c->n_in]};
    struct stem_concrete product = *c;
    const char *why, *label = stem_op_label(s->p, (struct stem_op_id){i});
    operand[0].offset = 0; /* of the normalised x */
    product.operand = operand;
    product.n_in = 2;
    if (!stem_matmul_can(&product, &why)) {
        if (by == STEM_MATMUL_CUBLASLT)
            stem_remark(s->ctx->diags, "library", op->span, "%s%s: our own kernel, since %s", s->at, label, why);
        return;
    }
    struct times t = compare(s, op, norm_us(s, &operand[0]));
    bool better = by != STEM_MATMUL_OWN && t.clear && (t.measured || tokens(c) >= MODEL_TOKENS);
    if (better || by == STEM_MATMUL_CUBLASLT)
        stem_remark(s->ctx->diags, "library", op->span,
                    "%s%s: our own kernel, since norm_linear divides its sums by the norm (%s: %.1f us of our own, %.1f us by "
                    "cuBLASLt and %.1f us for a rmsnorm%s)",
                    s->at, label, t.measured ? "measured" : "estimated", t.own, t.library, t.more,
                    better ? "; linear(rmsnorm(x, norm), w) is faster here" : "");
}

/* "T = 128: " */
static const char *sizes(const struct stem_program *p, struct stem_arena *a)
{
    const char *text = "";
    for (uint32_t i = 0; i < p->dim_names.len; i++)
        text = stem_arena_printf(a, "%s%s%s = %lld", text, i ? ", " : "", stem_sym_str(p->strings, p->dim_names.at[i]),
                                 (long long)p->dim_values.at[i]);
    return *text ? stem_arena_printf(a, "%s: ", text) : "";
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct state s = {.p = p, .ctx = ctx, .options = *ctx->options, .at = sizes(p, ctx->scratch)};
    s.options.pdl = STEM_PDL_AUTO;
    s.model = s.options;
    s.model.costs = NULL;
    find_readers(&s);
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        struct stem_tensor tensor[2 * STEM_MAX_OPERANDS];
        struct stem_concrete c;
        const char *why;
        if (op->dead || op->class != STEM_OP_BUILTIN || (op->def != &stem_op_linear && op->def != &stem_op_norm_linear))
            continue;
        stem_op_concrete(p, op, tensor, &c);
        if (op->def == &stem_op_norm_linear)
            tell_norm_linear(&s, i, &c);
        else if (!stem_matmul_can(&c, &why))
            stem_remark(ctx->diags, "library", op->span, "%s%s: our own kernel, since %s", s.at,
                        stem_op_label(p, (struct stem_op_id){i}), why);
        else if (library_multiplies(&s, op, &c))
            replace(&s, i);
    }
    return true;
}

const struct stem_pass stem_pass_library = {
    .name = "library",
    .blurb = "which products cuBLASLt does",
    /* Streams stay: a product of the library is on that of the linear, and ops that passes added stand at the end. */
    .kills =
        STEM_FACT_DEPS | STEM_FACT_ORDER | STEM_FACT_WAITS | STEM_FACT_LIFETIME | STEM_FACT_MEMORY | STEM_FACT_LANES,
    .run = run,
};
