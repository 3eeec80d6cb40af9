/* SPDX-License-Identifier: Apache-2.0
 *
 * The fuse pass: which pointwise ops go into their reader, and which may not.
 */
#include "unit.h"

#include "flow.h"
#include "ir/build.h"
#include "ops/pointwise/expr.h"
#include "pass/pass.h"

struct pointwise {
    struct flow f;
    struct stem_builder b;
    struct stem_value_id x, y, w;
};

static struct pointwise pointwise_new(void)
{
    static const int64_t dim[] = {4, 64};
    struct pointwise t = {.f = flow_empty()};
    t.b = stem_builder_new(t.f.program, t.f.dims, t.f.diags);
    stem_vec_push(&t.f.program->streams, (struct stem_stream_decl){stem_intern(t.f.strings, "A"), 0});
    t.x = stem_build_buffer(&t.b, STEM_BUFFER_INPUT, stem_intern(t.f.strings, "x"), STEM_BF16, 2, dim);
    t.y = stem_build_buffer(&t.b, STEM_BUFFER_INPUT, stem_intern(t.f.strings, "y"), STEM_BF16, 2, dim);
    t.w = stem_build_buffer(&t.b, STEM_BUFFER_INPUT, stem_intern(t.f.strings, "w"), STEM_BF16, 2, dim);
    return t;
}

static struct stem_value_id pw(struct pointwise *t, const char *name, const char *expr, struct stem_value_id a,
                               struct stem_value_id b)
{
    const struct stem_value_id in[] = {a, b};
    const struct stem_attr attrs[] = {{.name = "expr", .kind = STEM_ATTR_TEXT, .text = expr},
                                      {.name = "dtype", .kind = STEM_ATTR_TEXT, .text = "bf16"}};
    t->b.name = stem_intern(t->f.strings, name);
    return stem_build_simple(&t->b, "pointwise", in, 2, attrs, 2);
}

/* Names of live ops with their expressions. */
static void check_fused(struct pointwise *t, const char *expected)
{
    struct stem_options options = stem_options_default();
    struct stem_out o = {0};
    CU_ASSERT(stem_pass_run_all(t->f.program, t->f.diags, &options, NULL, NULL,
                                &(struct stem_pass_hooks){.check_each = true}));
    for (uint32_t i = 0; i < t->f.program->ops.len; i++) {
        const struct stem_op *op = &t->f.program->ops.at[i];
        if (!op->dead)
            stem_out_printf(&o, "%s: %s\n", stem_sym_str(t->f.strings, op->name),
                            stem_op_attr(op->def, op->attrs, "expr")->text);
    }
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
    flow_free(&t->f);
}

static void fusing(void)
{
    struct pointwise t = pointwise_new(); /* a chain */
    struct stem_value_id a = pw(&t, "a", "i0 i1 add", t.x, t.y), b = pw(&t, "b", "i0 i1 mul", a, t.w);
    pw(&t, "c", "i0 silu i1 sub", b, t.x);
    check_fused(&t, "c: i0 i2 add as:bf16 i1 mul as:bf16 silu i0 sub\n");
    t = pointwise_new(); /* two readers */
    a = pw(&t, "a", "i0 i1 add", t.x, t.y);
    pw(&t, "b", "i0 i1 mul", a, t.w);
    pw(&t, "c", "i0 i1 sub", a, t.w);
    check_fused(&t, "a: i0 i1 add\nb: i0 i1 mul\nc: i0 i1 sub\n");
    t = pointwise_new(); /* C09: the producer is on a side stream, the consumer joins */
    t.b.pin.n = 1;
    a = pw(&t, "a", "i0 i1 add", t.x, t.y);
    t.b.pin.n = 0;
    b = pw(&t, "b", "i0 i1 mul", t.x, t.w);
    pw(&t, "c", "i0 i1 sub", b, a);
    check_fused(&t, "a: i0 i1 add\nc: i1 i2 mul as:bf16 i0 sub\n");
    t = pointwise_new(); /* across a segment */
    a = pw(&t, "a", "i0 i1 add", t.x, t.y);
    stem_vec_push(&t.f.program->segments, (struct stem_segment){.span = STEM_NOWHERE});
    t.b.segment = 1;
    pw(&t, "b", "i0 i1 mul", a, t.w);
    check_fused(&t, "a: i0 i1 add\nb: i0 i1 mul\n");
    t = pointwise_new(); /* an order without data */
    a = pw(&t, "a", "i0 i1 add", t.x, t.y);
    static const struct stem_op_id first = {0};
    t.b.after = &first;
    t.b.n_after = 1;
    pw(&t, "b", "i0 i1 mul", a, t.w);
    check_fused(&t, "a: i0 i1 add\nb: i0 i1 mul\n");
}

/* A chain longer than an expression may be is cut where the next op does not fit. In bf16 each op is two nodes, the
 * function and what it is applied to: the input, or a rounding. */
static void long_chain(void)
{
    struct pointwise t = pointwise_new();
    struct stem_value_id x = t.x;
    struct stem_options options = stem_options_default();
    enum { OPS = 1000, EACH = STEM_EXPR_MAX_NODES / 2 };
    for (uint32_t i = 0; i < OPS; i++)
        x = pw(&t, "a", "i0 silu", x, t.y);
    CU_ASSERT(stem_pass_run_all(t.f.program, t.f.diags, &options, NULL, NULL,
                                &(struct stem_pass_hooks){.check_each = true}));
    uint32_t live = 0, calls = 0;
    for (uint32_t i = 0; i < t.f.program->ops.len; i++) {
        const struct stem_op *op = &t.f.program->ops.at[i];
        struct stem_expr e;
        const char *why;
        live += !op->dead;
        CU_ASSERT_FATAL(stem_expr_parse(&e, stem_op_attr(op->def, op->attrs, "expr")->text, &why));
        for (uint32_t k = 0; !op->dead && k < e.n; k++)
            calls += e.node[k].kind == STEM_EXPR_UNARY;
    }
    CU_ASSERT_EQUAL(live, (OPS + EACH - 1) / EACH);
    CU_ASSERT_EQUAL(calls, OPS);
    flow_free(&t.f);
}

UNIT_MAIN("fuse", {"fusing", fusing}, {"a long chain", long_chain})
