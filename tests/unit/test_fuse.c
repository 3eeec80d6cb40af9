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

/* ---- epilogues ---- */

static struct stem_value_id buffer(struct pointwise *t, const char *name, enum stem_dtype dtype, int64_t rows,
                                   int64_t columns)
{
    const int64_t dim[] = {rows, columns};
    return stem_build_buffer(&t->b, STEM_BUFFER_WEIGHT, stem_intern(t->f.strings, name), dtype, rows ? 2 : 1,
                             rows ? dim : dim + 1);
}

static struct stem_value_id call(struct pointwise *t, const char *name, const char *op, struct stem_value_id a,
                                 struct stem_value_id b)
{
    const struct stem_value_id in[] = {a, b};
    t->b.name = stem_intern(t->f.strings, name);
    return stem_build_simple(&t->b, op, in, b.n == STEM_NONE ? 1 : 2, NULL, 0);
}

/* Names of live ops, in text order, with what they do to their result and its operands. */
static void check_epilogues(struct pointwise *t, const char *expected)
{
    struct stem_options options = stem_options_default();
    struct stem_out o = {0};
    const struct stem_program *p = t->f.program;
    CU_ASSERT(stem_pass_run_all(t->f.program, t->f.diags, &options, NULL, NULL,
                                &(struct stem_pass_hooks){.check_each = true}));
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        if (op->dead)
            continue;
        stem_out_printf(&o, "%s %s", stem_sym_str(t->f.strings, op->name), op->def->name);
        for (uint32_t k = 0; k < op->n_attrs; k++)
            if (op->attrs[k].kind == STEM_ATTR_TEXT && op->attrs[k].text)
                stem_out_printf(&o, " %s=%s", op->attrs[k].name, op->attrs[k].text);
        if (!strcmp(op->def->name, "linear") && stem_value_at(p, op->operands[0].value)->tensor.dtype == STEM_F8E4M3)
            stem_out_printf(&o, " of %s", stem_sym_str(t->f.strings, stem_value_at(p, op->operands[4].value)->name));
        for (uint32_t k = op->def->n_params; k < op->n_in && op->def->epilogue; k++)
            stem_out_printf(&o, " (%s)", stem_sym_str(t->f.strings, stem_value_at(p, op->operands[k].value)->name));
        stem_out_char(&o, '\n');
    }
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
    flow_free(&t->f);
}

#define NONE STEM_NO_VALUE
#define THEN(expr, type) "then=" expr " then_of=bf16 then_type=" type

static void epilogues(void)
{
    struct pointwise t = pointwise_new(); /* the residual; then a chain of pointwise ops */
    struct stem_value_id w = buffer(&t, "m", STEM_BF16, 64, 64), bias = buffer(&t, "b", STEM_BF16, 0, 64);
    pw(&t, "y", "i1 i0 add", call(&t, "a", "linear", t.x, w), t.y);
    check_epilogues(&t, "y linear " THEN("i1 i0 add", "bf16") " (y)\n");
    t = pointwise_new();
    w = buffer(&t, "m", STEM_BF16, 64, 64), bias = buffer(&t, "b", STEM_BF16, 0, 64);
    struct stem_value_id a = pw(&t, "a1", "i0 i1 add", call(&t, "a", "linear", t.x, w), bias);
    pw(&t, "y", "i0 i1 mul", a, t.y);
    check_epilogues(&t, "y linear " THEN("i0 i2 add as:bf16 i1 mul", "bf16") " (y) (b)\n");
    t = pointwise_new(); /* silu_mul, and an op after it that another op keeps apart from it */
    w = buffer(&t, "m", STEM_BF16, 128, 64);
    a = call(&t, "h", "silu_mul", call(&t, "a", "linear", t.x, w), NONE);
    pw(&t, "y", "i0 i1 add", a, t.y);
    check_epilogues(&t, "y linear then=i0 silu i1 mul as:bf16 i2 add then_of=bf16 then_type=bf16 halves=1 (y)\n");
}

static void no_epilogues(void)
{
    struct pointwise t = pointwise_new(); /* two readers */
    struct stem_value_id w = buffer(&t, "m", STEM_BF16, 64, 64), a = call(&t, "a", "linear", t.x, w);
    pw(&t, "y", "i0 i1 add", a, t.y);
    pw(&t, "z", "i0 i1 sub", a, t.y);
    check_epilogues(&t, "a linear\ny pointwise expr=i0 i1 add dtype=bf16\nz pointwise expr=i0 i1 sub dtype=bf16\n");
    t = pointwise_new(); /* on another stream */
    w = buffer(&t, "m", STEM_BF16, 64, 64);
    t.b.pin.n = 1;
    a = call(&t, "a", "linear", t.x, w);
    t.b.pin.n = 0;
    pw(&t, "y", "i0 i1 add", a, t.y);
    check_epilogues(&t, "a linear\ny pointwise expr=i0 i1 add dtype=bf16\n");
    t = pointwise_new(); /* silu_mul's input has another reader; rmsnorm has no epilogue */
    w = buffer(&t, "m", STEM_BF16, 128, 64);
    struct stem_value_id norm = buffer(&t, "n", STEM_BF16, 0, 64);
    a = call(&t, "a", "linear", t.x, w);
    call(&t, "h", "silu_mul", a, NONE);
    call(&t, "i", "silu_mul", a, NONE);
    pw(&t, "y", "i0 i1 add", call(&t, "r", "rmsnorm", t.x, norm), t.y);
    check_epilogues(&t, "a linear\nh silu_mul\ni silu_mul\nr rmsnorm\ny pointwise expr=i0 i1 add dtype=bf16\n");
    t = pointwise_new(); /* a broadcast along the last dim */
    w = buffer(&t, "m", STEM_BF16, 64, 64);
    struct stem_value_id column = buffer(&t, "c", STEM_BF16, 4, 1);
    pw(&t, "y", "i0 i1 mul", call(&t, "a", "linear", t.x, w), column);
    check_epilogues(&t, "a linear\ny pointwise expr=i0 i1 mul dtype=bf16\n");
}

/* A join: the sum of what main and a side stream computed goes into main's op, unless the side is late. */
static void joins(void)
{
    for (int late = 0; late < 2; late++) {
        struct pointwise t = pointwise_new();
        struct stem_value_id w = buffer(&t, "m", STEM_BF16, 64, 64), wide = buffer(&t, "v", STEM_BF16, 40000, 64),
                             tall = buffer(&t, "u", STEM_BF16, 64, 40000), side = t.x;
        t.b.pin.n = 1;
        if (late)
            side = call(&t, "s", "linear", call(&t, "s0", "linear", side, wide), tall);
        side = call(&t, "s1", "linear", side, w);
        t.b.pin.n = 0;
        struct stem_value_id a = call(&t, "a", "linear", call(&t, "a0", "linear", t.x, w), w);
        pw(&t, "y", "i0 i1 add", a, side);
        check_epilogues(&t, late ? "s0 linear\ns linear\ns1 linear\na0 linear\na linear\n"
                                   "y pointwise expr=i0 i1 add dtype=bf16\n"
                                 : "s1 linear\na0 linear\ny linear " THEN("i0 i1 add", "bf16") " (s1)\n");
    }
}

/* ---- a sum and its normalisation ---- */

static void norms(void)
{
    for (int way = 0; way < 4; way++) {
        struct pointwise t = pointwise_new();
        struct stem_value_id norm = buffer(&t, "n", STEM_BF16, 0, 64), w = buffer(&t, "m", STEM_BF16, 64, 64),
                             a = t.x;
        if (way == 1) /* then the linear adds */
            a = call(&t, "a", "linear", t.x, w);
        if (way == 2) /* what is normalised is on another stream */
            t.b.pin.n = 1;
        struct stem_value_id h = pw(&t, "h", "i0 i1 add", a, t.y);
        t.b.pin.n = 0;
        if (way == 3) /* the weight is made later */
            norm = call(&t, "v", "copy", norm, NONE);
        call(&t, "r", "rmsnorm", h, norm);
        pw(&t, "z", "i0 i1 mul", h, t.y);
        static const char *const expected[] = {
            "h add_rmsnorm expr=i0 i1 add dtype=bf16\nz pointwise expr=i0 i1 mul dtype=bf16\n",
            "h linear " THEN("i0 i1 add", "bf16") " (y)\nr rmsnorm\nz pointwise expr=i0 i1 mul dtype=bf16\n",
            "h pointwise expr=i0 i1 add dtype=bf16\nr rmsnorm\nz pointwise expr=i0 i1 mul dtype=bf16\n",
            "h pointwise expr=i0 i1 add dtype=bf16\nv copy\nr rmsnorm\nz pointwise expr=i0 i1 mul dtype=bf16\n",
        };
        check_epilogues(&t, expected[way]);
    }
}

/* The end of an attention and the product behind it, from its text: `tokens` tokens, for sm, with another reader or not. */
static void check_heads(int64_t tokens, uint32_t sm, bool read_twice, const char *expected)
{
    struct flow f = flow_empty();
    struct stem_builder b = stem_builder_new(f.program, f.dims, f.diags);
    const struct {
        enum stem_dtype dtype;
        uint32_t rank;
        int64_t dim[3];
    } of[] = {{STEM_BF16, 3, {tokens, 8, 192}}, {STEM_BF16, 3, {9, 16, 192}}, {STEM_I32, 2, {tokens, 4}},
              {STEM_I32, 1, {tokens}},          {STEM_BF16, 3, {8, 40, 128}}, {STEM_BF16, 3, {tokens, 8, 128}}};
    struct stem_value_id v[6];
    for (uint32_t i = 0; i < 6; i++)
        v[i] = stem_build_buffer(&b, STEM_BUFFER_INPUT, stem_intern_printf(f.strings, "in%u", i), of[i].dtype, of[i].rank,
                                 of[i].dim);
    struct stem_attr attrs[] = {{.name = "scale", .kind = STEM_ATTR_FLOAT, .f = 0.1},
                                {.name = "latent", .kind = STEM_ATTR_INT, .i = 128}};
    b.name = stem_intern(f.strings, "y");
    struct stem_value_id y = stem_build_simple(&b, "mla_attention", v, 4, attrs, 2), two[] = {y, v[4]};
    b.name = stem_intern(f.strings, "v");
    stem_build_simple(&b, "heads_linear", two, 2, NULL, 0);
    if (read_twice)
        stem_build_simple(&b, "heads_linear", two, 2, NULL, 0);
    struct stem_options options = stem_options_default();
    struct stem_out o = {0};
    options.target.sm = sm;
    CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, &(struct stem_pass_hooks){.check_each = true}));
    for (uint32_t i = 0; i < f.program->ops.len; i++)
        if (!f.program->ops.at[i].dead)
            stem_out_printf(&o, "%s ", f.program->ops.at[i].def->name);
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
    flow_free(&f);
}

static void heads(void)
{
    check_heads(8, 90, false, "attention_part attention_heads ");
    check_heads(9, 90, false, "attention_part attention_combine heads_linear ");
    check_heads(1, 80, false, "attention_part attention_combine heads_linear ");
    check_heads(1, 100, true, "attention_part attention_combine heads_linear heads_linear ");
}

/* mla_store on another stream and the attention over its cache; `way` 1: somebody else reads the cache, too, 2: the attention is
 * of chosen positions, 3: another layout of a new row, 4: the cache is written once more before it is read. */
static void check_store(int way, uint32_t sm, const char *expected)
{
    struct flow f = flow_empty();
    struct stem_builder b = stem_builder_new(f.program, f.dims, f.diags);
    const struct {
        enum stem_dtype dtype;
        uint32_t rank;
        int64_t dim[3];
    } of[] = {{STEM_BF16, 3, {2, 8, 192}}, {STEM_I32, 2, {2, 4}}, {STEM_I32, 1, {2}},   {STEM_BF16, 2, {2, 300}},
              {STEM_BF16, 1, {128}},       {STEM_I32, 1, {2}},    {STEM_I32, 2, {2, 32}}};
    struct stem_value_id v[7], made[STEM_MAX_OPERANDS];
    for (uint32_t i = 0; i < 7; i++)
        v[i] = stem_build_buffer(&b, STEM_BUFFER_INPUT, stem_intern_printf(f.strings, "in%u", i), of[i].dtype, of[i].rank,
                                 of[i].dim);
    struct stem_value_id cache =
        stem_build_buffer(&b, STEM_BUFFER_STATE, stem_intern(f.strings, "cache"), STEM_BF16, 3, (int64_t[]){9, 16, 192});
    b.name = stem_intern(f.strings, "s");
    for (int i = 0; i < (way == 4 ? 2 : 1); i++) {
        struct stem_value_id row = stem_build_view(&b, v[3], stem_intern_printf(f.strings, "row%d", i), way == 3 ? 2 : 16, 2,
                                                   (int64_t[]){2, 192}, (int64_t[]){300, 1});
        struct stem_input in[] = {{cache, STEM_MODE_INOUT, {0}}, {row, STEM_MODE_IN, {0}}, {v[4], STEM_MODE_IN, {0}},
                                  {v[2], STEM_MODE_IN, {0}},     {v[5], STEM_MODE_IN, {0}}};
        CU_ASSERT_FATAL(stem_build_op(&b, stem_op_find("mla_store"), in, 5, NULL, NULL, made));
        cache = made[0];
    }
    struct stem_attr attrs[] = {{.name = "scale", .kind = STEM_ATTR_FLOAT, .f = 0.1},
                                {.name = "latent", .kind = STEM_ATTR_INT, .i = 128}};
    b.name = stem_intern(f.strings, "y");
    stem_build_simple(&b, "mla_attention", (struct stem_value_id[]){v[0], cache, v[1], v[2], v[6]}, way == 2 ? 5 : 4, attrs, 2);
    if (way == 1)
        stem_build_simple(&b, "copy", &cache, 1, NULL, 0);
    struct stem_options options = stem_options_default();
    struct stem_out o = {0};
    options.target.sm = sm;
    CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, &(struct stem_pass_hooks){.check_each = true}));
    for (uint32_t i = 0; i < f.program->ops.len; i++)
        if (!f.program->ops.at[i].dead)
            stem_out_printf(&o, "%s ", f.program->ops.at[i].def->name);
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
    flow_free(&f);
}

static void stores(void)
{
    check_store(0, 90, "mla_store_part attention_combine ");
    check_store(0, 80, "mla_store attention_part attention_combine ");
    check_store(1, 90, "mla_store attention_part attention_combine copy ");
    check_store(2, 90, "mla_store attention_part attention_combine ");
    check_store(3, 90, "mla_store attention_part attention_combine ");
    check_store(4, 90, "mla_store mla_store attention_part attention_combine ");
}

/* A norm_linear and the mla_query of its first columns, for sm; `way` 1: of columns that begin further on, 2: positions that come
 * behind the norm_linear, 3: few multiprocessors, 4: another absorbed size. Others read the norm_linear, too. */
static void check_query(int way, int64_t tokens, uint32_t sm, const char *expected)
{
    struct flow f = flow_empty();
    struct stem_builder b = stem_builder_new(f.program, f.dims, f.diags);
    int64_t absorbed = way == 4 ? 112 : 128;
    const struct {
        enum stem_dtype dtype;
        uint32_t rank;
        int64_t dim[3];
    } of[] = {{STEM_BF16, 2, {tokens, 1536}}, {STEM_BF16, 1, {1536}}, {STEM_BF16, 2, {1600, 1536}},
              {STEM_BF16, 3, {8, absorbed, 512}}, {STEM_I32, 1, {tokens}}};
    struct stem_value_id v[5];
    for (uint32_t i = 0; i < 5; i++)
        v[i] = stem_build_buffer(&b, i == 4 ? STEM_BUFFER_INPUT : STEM_BUFFER_WEIGHT, stem_intern_printf(f.strings, "in%u", i),
                                 of[i].dtype, of[i].rank, of[i].dim);
    b.name = stem_intern(f.strings, "a");
    struct stem_value_id a = stem_build_simple(&b, "norm_linear", v, 3, NULL, 0), pos = v[4];
    if (way == 2)
        pos = stem_build_simple(&b, "copy", &pos, 1, NULL, 0);
    struct stem_value_id view = stem_build_view(&b, a, stem_intern(f.strings, "view"), way == 1 ? 64 * 2 : 0, 3,
                                                (int64_t[]){tokens, 8, absorbed + 64}, (int64_t[]){1600, absorbed + 64, 1});
    b.name = stem_intern(f.strings, "q");
    struct stem_value_id q = stem_build_simple(&b, "mla_query", (struct stem_value_id[]){view, v[3], pos}, 3, NULL, 0);
    stem_build_simple(&b, "copy", way == 3 ? &q : &a, 1, NULL, 0);
    struct stem_options options = stem_options_default();
    struct stem_out o = {0};
    options.target.sm = sm;
    options.target.n_sms = way == 3 ? 30 : 132;
    CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, &(struct stem_pass_hooks){.check_each = true}));
    for (uint32_t i = 0; i < f.program->ops.len; i++)
        if (!f.program->ops.at[i].dead)
            stem_out_printf(&o, "%s ", f.program->ops.at[i].def->name);
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
    flow_free(&f);
}

static void queries(void)
{
    check_query(0, 1, 90, "norm_query copy ");
    check_query(0, 1, 100, "norm_query copy ");
    check_query(0, 2, 90, "norm_linear mla_query copy ");
    check_query(0, 1, 80, "norm_linear mla_query copy ");
    check_query(1, 1, 90, "norm_linear mla_query copy ");
    check_query(2, 1, 90, "norm_linear copy mla_query copy ");
    check_query(3, 1, 90, "norm_linear mla_query copy "); /* 72 blocks have no room on so few multiprocessors */
    check_query(4, 1, 90, "norm_linear mla_query copy ");
}

/* A rmsnorm and the products in f8e4m3 that read it: `way` 1: others read it, too; 2: a quantize_f8 in the program; 3: no
 * product in f8e4m3; 4: no rmsnorm, so that x is quantised once for both products. */
static void quantised(void)
{
    static const char *const expected[] = {
        "r rmsnorm_quantize\na linear of r.scale\nb linear of r.scale\n",
        "r rmsnorm_quantize_keep\na linear of r.scale\nb linear of r.scale\nz pointwise expr=i0 i1 mul dtype=bf16\n",
        "r rmsnorm_quantize\na linear of q.scale\nb linear of q.scale\n",
        "r rmsnorm\nz pointwise expr=i0 i1 mul dtype=bf16\n",
        "a linear of a.x.scale\nb linear of a.x.scale\na.x quantize_f8\n"};
    for (int way = 0; way < 5; way++) {
        struct pointwise t = pointwise_new();
        struct stem_value_id norm = buffer(&t, "n", STEM_BF16, 0, 64), w = buffer(&t, "m", STEM_F8E4M3, 64, 64),
                             s = buffer(&t, "s", STEM_F32, 1, 1), y = way == 4 ? t.x : call(&t, "r", "rmsnorm", t.x, norm);
        const struct stem_value_id in[] = {y, w, s};
        t.b.name = stem_intern(t.f.strings, "q");
        if (way == 2)
            stem_build_simple(&t.b, "quantize_f8", in, 1, NULL, 0);
        for (int i = 0; i < 2 && way != 3; i++) {
            t.b.name = stem_intern(t.f.strings, i ? "b" : "a");
            stem_build_simple(&t.b, "linear", in, 3, NULL, 0);
        }
        if (way == 1 || way == 3)
            pw(&t, "z", "i0 i1 mul", y, t.y);
        check_epilogues(&t, expected[way]);
    }
}

UNIT_MAIN("fuse", {"quantised", quantised}, {"fusing", fusing}, {"a long chain", long_chain}, {"epilogues", epilogues},
          {"no epilogues", no_epilogues}, {"joins", joins}, {"norms", norms}, {"heads", heads}, {"stores", stores},
          {"queries", queries})
