/* SPDX-License-Identifier: Apache-2.0
 *
 * Device code of a pointwise op, generated from its expression. Each thread makes one chunk of the result; operands
 * that run along the last dim are read as vectors, broadcast ones as single elements.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ops/pointwise/expr.h"
#include "ops/pointwise/pointwise.h"
#include "ops/rule.h"
#include "ops/strided.h"

enum { THREADS = 128 };

/* 16 bytes of the smallest type that is read or written as vectors, at most 8 elements. */
static uint32_t widest(const struct stem_concrete *c, const struct stem_walk *w)
{
    uint32_t most = 2;
    for (uint32_t i = 0; i <= c->n_in; i++) {
        uint32_t fit = 128 / stem_dtype_bits(c->operand[i].dtype);
        if (w->stride[i][w->rank - 1] && fit > most)
            most = fit;
    }
    return most > 8 ? 8 : most;
}

static void print_signature(const struct stem_concrete *c, const char *index, struct stem_out *o)
{
    for (uint32_t i = 0; i < c->n_in; i++)
        stem_out_printf(o, "const %s *x%u, ", stem_c_type(c->operand[i].dtype), i);
    stem_out_printf(o, "%s *y, %s n)\n{\n", stem_c_type(c->operand[c->n_in].dtype), index);
}

static void print_node(const struct stem_expr *e, uint32_t n, struct stem_out *o)
{
    const struct stem_expr_node *x = &e->node[n];
    stem_out_printf(o, "        float t%u = ", n);
    switch (x->kind) {
    case STEM_EXPR_INPUT:
        stem_out_printf(o, "a%u;\n", x->input);
        return;
    case STEM_EXPR_CONST: {
        union {
            float f;
            uint32_t u;
        } bits = {x->constant};
        stem_out_printf(o, "__uint_as_float(0x%08xu); /* %.9g */\n", bits.u, x->constant);
        return;
    }
    case STEM_EXPR_UNARY:
        stem_out_printf(o, "stem_fn_%s(t%u);\n", stem_expr_fn_name(x->fn), x->a);
        return;
    case STEM_EXPR_BINARY:
        stem_out_printf(o, "stem_fn_%s(t%u, t%u);\n", stem_expr_fn_name(x->fn), x->a, x->b);
        return;
    case STEM_EXPR_AS:
        stem_out_printf(o, "stem_float(stem_round<%s>::from(t%u));\n", stem_c_type(x->as), x->a);
    }
}

void stem_pointwise_print(const struct stem_expr *e, struct stem_out *o)
{
    for (uint32_t n = 0; n < e->n; n++)
        print_node(e, n, o);
}

void stem_pointwise_print_store(const struct stem_expr *e, uint32_t whole, const char *raw, enum stem_dtype result,
                                const char *target, struct stem_out *o)
{
    if (whole == UINT32_MAX) {
        stem_pointwise_print(e, o);
        stem_out_printf(o, "        %s = stem_round<%s>::from(t%u);\n", target, stem_c_type(result), e->n - 1);
        return;
    }
    for (uint32_t n = 0; n <= whole && !raw; n++)
        print_node(e, n, o);
    stem_out_printf(o, "        %s = stem_clamp<%s>::from(", target, stem_c_type(result));
    for (uint32_t n = e->n - 1; n > whole; n--)
        stem_out_printf(o, "stem_%s<%s>::from(", n == whole + 1 && !raw ? "round" : "clamp", stem_c_type(e->node[n].as));
    if (raw)
        stem_out_str(o, raw);
    else
        stem_out_printf(o, "t%u", whole);
    for (uint32_t n = whole; n < e->n; n++)
        stem_out_char(o, ')');
    stem_out_str(o, ";\n");
}

/* Whether operand i is read at all. */
static bool reads(const struct stem_expr *e, uint32_t i)
{
    for (uint32_t n = 0; n < e->n; n++)
        if (e->node[n].kind == STEM_EXPR_INPUT && e->node[n].input == i)
            return true;
    return false;
}

/* The operands as each thread needs them: v0 .. vectors, s0 .. an element for all places, w0 .. that one as it lies. */
static void print_loads(const struct stem_concrete *c, const struct stem_expr *e, const struct stem_walk *w,
                        uint32_t width, bool raw, struct stem_out *o)
{
    for (uint32_t i = 0; i < c->n_in; i++) {
        const char *type = stem_c_type(c->operand[i].dtype);
        if (!reads(e, i))
            stem_out_printf(o, "    (void)x%u;\n    (void)o%u;\n", i, i);
        else if (w->stride[i][w->rank - 1])
            stem_out_printf(o, "    stem_vec<%s, %u> v%u = stem_load<%u>(x%u + o%u);\n", type, width, i, width, i, i);
        else if (raw)
            stem_out_printf(o, "    %s w%u = x%u[o%u];\n", type, i, i, i);
        else
            stem_out_printf(o, "    float s%u = stem_float(x%u[o%u]);\n", i, i, i);
    }
}

static void print_body(const struct stem_concrete *c, const struct stem_expr *e, const struct stem_walk *w,
                       uint32_t width, const char *index, struct stem_out *o)
{
    enum stem_dtype in[STEM_MAX_OPERANDS], result = c->operand[c->n_in].dtype;
    for (uint32_t i = 0; i < c->n_in; i++)
        in[i] = c->operand[i].dtype;
    uint32_t whole = stem_expr_whole(e, in, result);
    bool raw = whole != UINT32_MAX && stem_expr_whole_input(e, in, whole);
    stem_out_printf(o,
                    "    %s e = ((%s)blockIdx.x * %d + threadIdx.x) * %u;\n"
                    "    if (e >= n)\n"
                    "        return;\n",
                    index, index, THREADS, width);
    stem_walk_print(w, index, o);
    print_loads(c, e, w, width, raw, o);
    stem_out_printf(o,
                    "    stem_vec<%s, %u> r;\n"
                    "#pragma unroll\n"
                    "    for (int k = 0; k < %u; k++) {\n",
                    stem_c_type(result), width, width);
    for (uint32_t i = 0; i < c->n_in && !raw; i++)
        if (reads(e, i) && w->stride[i][w->rank - 1])
            stem_out_printf(o, "        float a%u = stem_float(v%u.at[k]);\n", i, i);
        else if (reads(e, i))
            stem_out_printf(o, "        float a%u = s%u;\n", i, i);
    char name[16] = "";
    if (raw) {
        uint32_t i = e->node[whole].input;
        snprintf(name, sizeof name, w->stride[i][w->rank - 1] ? "v%u.at[k]" : "w%u", i);
    }
    stem_pointwise_print_store(e, whole, raw ? name : NULL, result, "r.at[k]", o);
    stem_out_str(o, "    }\n    stem_store(y + e, r);\n}\n");
}

void stem_pointwise_lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                          struct stem_lowered *l)
{
    struct stem_walk w;
    struct stem_expr e;
    const char *why;
    struct stem_out o = {0};
    (void)t;
    if (!stem_expr_parse(&e, stem_op_attr(c->def, c->attrs, "expr")->text, &why))
        abort();
    stem_walk_init(&w, c->operand, c->n_in + 1);
    uint32_t width = stem_walk_width(&w, c->operand, widest(c, &w));
    bool wide = stem_walk_wide(&w);
    const char *index = wide ? "unsigned long long" : "unsigned";
    print_signature(c, index, &o);
    stem_out_str(&o, "    stem_launch_dependents();\n    stem_wait();\n");
    print_body(c, &e, &w, width, index, &o);
    uint64_t threads = w.elements / width;
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_kernel_name(arena, "stem_pw_", o.text, o.len),
        .headers = {"common", "pointwise"},
        .grid = {(uint32_t)((threads + THREADS - 1) / THREADS), 1, 1},
        .block = {THREADS, 1, 1},
        .scalars = {{.kind = wide ? STEM_SCALAR_I64 : STEM_SCALAR_I32, .i = (int64_t)w.elements}},
        .n_scalars = 1,
        .waits = true,
        .ahead = true,
    };
    l->code = stem_arena_printf(arena, "extern \"C\" __global__ void __launch_bounds__(%d) %s(%s", THREADS, l->kernel,
                                stem_out_text(&o));
    stem_out_free(&o);
}
