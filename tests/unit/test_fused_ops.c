/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuse pass makes of several ops has their bits: references of fused ops against those of the ops one by one.
 */
#include "op_run.h"

static const enum stem_dtype floats[] = {STEM_F32, STEM_F16, STEM_BF16};

static void text(struct run *r, const char *name, const char *value)
{
    ((struct stem_attr *)stem_op_attr(r->def, r->attrs, name))->text = value;
}

/* Operands like those of another run, by place. */
static void like(struct run *r, const struct run *from, uint32_t k)
{
    operand(r, from->t[k].dtype, from->t[k].rank, from->t[k].dim);
    memcpy(r->data[r->n - 1], from->data[k], stem_tensor_extent(&from->t[k]));
}

static void absent(struct run *r)
{
    r->t[r->n] = (struct stem_tensor){.rank = STEM_NONE, .buffer = STEM_NONE};
    r->data[r->n++] = NULL;
}

static bool same_bits(const struct run *a, uint32_t i, const struct run *b, uint32_t k)
{
    return !memcmp(a->data[i], b->data[k], stem_tensor_extent(&a->t[i]));
}

/* add_rmsnorm against pointwise, then rmsnorm: the same bits. */
static void add_rmsnorm(void)
{
    for (int k = 0; k < 3; k++) {
        const char *type = stem_dtype_name(floats[k]);
        struct run both, sum, norm;
        begin(&both, "add_rmsnorm");
        operand(&both, STEM_F32, 1, (int64_t[]){70});
        operand(&both, floats[k], 3, (int64_t[]){2, 3, 70});
        operand(&both, floats[k], 1, (int64_t[]){70});
        operand(&both, floats[k], 3, (int64_t[]){2, 3, 70});
        operand(&both, floats[k], 3, (int64_t[]){2, 3, 70});
        text(&both, "expr", "i0 i1 mul silu");
        text(&both, "dtype", type);
        both.attrs[0].f = 0.25;
        execute_for(&both, 2);
        begin(&sum, "pointwise");
        like(&sum, &both, 1);
        like(&sum, &both, 2);
        operand(&sum, floats[k], 3, (int64_t[]){2, 3, 70});
        text(&sum, "expr", "i0 i1 mul silu");
        text(&sum, "dtype", type);
        execute(&sum);
        begin(&norm, "rmsnorm");
        like(&norm, &sum, 2);
        like(&norm, &both, 0);
        operand(&norm, floats[k], 3, (int64_t[]){2, 3, 70});
        norm.attrs[0].f = 0.25;
        execute(&norm);
        CU_ASSERT(same_bits(&both, 3, &sum, 2));
        CU_ASSERT(same_bits(&both, 4, &norm, 2));
        finish(&both);
        finish(&sum);
        finish(&norm);
    }
}

/* linear with an epilogue against linear, silu_mul and pointwise: the same bits. */
static void epilogue(void)
{
    struct run all, linear, silu, sum;
    begin(&all, "linear");
    operand(&all, STEM_BF16, 2, (int64_t[]){5, 48});
    operand(&all, STEM_BF16, 2, (int64_t[]){36, 48});
    for (uint32_t i = 2; i < all.def->n_params; i++) /* the scales of formats */
        absent(&all);
    operand(&all, STEM_F32, 2, (int64_t[]){5, 18});
    operand(&all, STEM_F16, 1, (int64_t[]){18});
    operand(&all, STEM_F16, 2, (int64_t[]){5, 18});
    text(&all, "then", "i0 silu i1 mul as:bf16 i2 add i3 mul");
    text(&all, "then_of", "bf16");
    text(&all, "then_type", "f16");
    text(&all, "halves", "1");
    execute(&all);
    begin(&linear, "linear");
    like(&linear, &all, 0);
    like(&linear, &all, 1);
    operand(&linear, STEM_BF16, 2, (int64_t[]){5, 36});
    execute(&linear);
    begin(&silu, "silu_mul");
    like(&silu, &linear, 2);
    operand(&silu, STEM_BF16, 2, (int64_t[]){5, 18});
    execute(&silu);
    begin(&sum, "pointwise");
    like(&sum, &silu, 1);
    like(&sum, &all, all.n - 3);
    like(&sum, &all, all.n - 2);
    operand(&sum, STEM_F16, 2, (int64_t[]){5, 18});
    text(&sum, "expr", "i0 i1 add i2 mul");
    text(&sum, "dtype", "f16");
    execute(&sum);
    CU_ASSERT(same_bits(&all, all.n - 1, &sum, 3));
    finish(&all);
    finish(&linear);
    finish(&silu);
    finish(&sum);
}

/* attention_heads against attention_combine, then heads_linear of a slice with gaps: the same bits. */
static void attention_heads(void)
{
    enum { T = 3, HEADS = 6, ROWS = 4, PARTS = 5, K = 70, N = 9, SLOTS = PARTS + T * 2 - 1 };
    static const char *const names[] = {"heads", "groups", "parts", "unit", "most"};
    const int64_t values[] = {HEADS, 2, PARTS, 32, 96};
    struct run all, sum, heads;
    begin(&all, "attention_heads");
    operand(&all, STEM_F32, 3, (int64_t[]){SLOTS, ROWS, K});
    operand(&all, STEM_F32, 3, (int64_t[]){SLOTS, ROWS, 2});
    operand(&all, STEM_I32, 1, (int64_t[]){T});
    operand(&all, STEM_F16, 3, (int64_t[]){HEADS, N, K + 2});
    operand(&all, STEM_F16, 3, (int64_t[]){T, HEADS, N});
    all.t[3].dim[2] = K;
    memcpy(all.data[2], (int32_t[]){96, 0, 40}, 12);
    for (int i = 0; i < SLOTS * ROWS; i++)
        ((float *)all.data[1])[2 * i + 1] = (float)(i % 4) * 0.5f;
    begin(&sum, "attention_combine");
    for (uint32_t i = 0; i < 3; i++)
        like(&sum, &all, i);
    operand(&sum, STEM_F16, 3, (int64_t[]){T, HEADS, K});
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2; k++) {
            struct run *r = k ? &sum : &all;
            ((struct stem_attr *)stem_op_attr(r->def, r->attrs, names[i]))->i = values[i];
        }
    text(&all, "dtype", "f16");
    text(&sum, "dtype", "f16");
    execute(&all);
    execute(&sum);
    begin(&heads, "heads_linear");
    like(&heads, &sum, 3);
    operand(&heads, STEM_F16, 3, (int64_t[]){HEADS, N, K + 2});
    memcpy(heads.data[1], all.data[3], HEADS * N * (K + 2) * 2);
    heads.t[1].dim[2] = K;
    operand(&heads, STEM_F16, 3, (int64_t[]){T, HEADS, N});
    execute(&heads);
    CU_ASSERT(same_bits(&all, 4, &heads, 2));
    finish(&all);
    finish(&sum);
    finish(&heads);
}

/* mla_store_part against mla_store, then attention_part: the same bits, of the cache too. */
static void store_part(void)
{
    enum { T = 3, HEADS = 6, PAGES = 4, PAGE = 8, P = 3, L = 128, R = 64, W = L + R, PARTS = 2, SLOTS = PARTS + T - 1 };
    static const char *const names[] = {"rows", "parts", "unit", "latent"};
    const int64_t values[] = {HEADS, PARTS, 32, L};
    struct run all, store, part;
    begin(&all, "mla_store_part");
    operand(&all, STEM_F16, 3, (int64_t[]){T, HEADS, W});
    operand(&all, STEM_F16, 3, (int64_t[]){PAGES, PAGE, W});
    operand(&all, STEM_I32, 2, (int64_t[]){T, P});
    operand(&all, STEM_I32, 1, (int64_t[]){T});
    operand(&all, STEM_F16, 2, (int64_t[]){T, W + 8});
    all.t[4].dim[1] = W;
    operand(&all, STEM_F16, 1, (int64_t[]){L});
    operand(&all, STEM_I32, 1, (int64_t[]){T});
    operand(&all, STEM_I32, 1, (int64_t[]){T});
    operand(&all, STEM_F32, 3, (int64_t[]){SLOTS, HEADS, L});
    operand(&all, STEM_F32, 3, (int64_t[]){SLOTS, HEADS, 2});
    memcpy(all.data[2], (int32_t[]){0, 1, 2, 3, 2, 1, 1, 0, 9}, 36);
    memcpy(all.data[3], (int32_t[]){24, 9, 0}, 12);
    memcpy(all.data[6], (int32_t[]){23, 8, 70000}, 12);
    memcpy(all.data[7], (int32_t[]){23, -1, 9}, 12);
    begin(&store, "mla_store");
    static const uint32_t of_store[] = {1, 4, 5, 6, 7};
    for (int i = 0; i < 5; i++)
        like(&store, &all, of_store[i]);
    store.t[1].stride[0] = W + 8;
    for (uint32_t i = 0; i < store.def->n_attrs; i++) {
        struct stem_attr *a = (struct stem_attr *)stem_op_attr(all.def, all.attrs, store.def->attrs[i].name);
        if (!strcmp(a->name, "interleaved") || !strcmp(a->name, "factor"))
            a->f = 2, a->i = 1;
        store.attrs[i] = *a;
    }
    for (int i = 0; i < 4; i++)
        ((struct stem_attr *)stem_op_attr(all.def, all.attrs, names[i]))->i = values[i];
    execute_for(&store, 0);
    begin(&part, "attention_part");
    like(&part, &all, 0);
    like(&part, &store, 0);
    part.t[part.n++].rank = STEM_NONE;
    like(&part, &all, 2);
    like(&part, &all, 3);
    operand(&part, STEM_F32, 3, (int64_t[]){SLOTS, HEADS, L});
    operand(&part, STEM_F32, 3, (int64_t[]){SLOTS, HEADS, 2});
    for (uint32_t i = 0; i < part.def->n_attrs; i++)
        part.attrs[i] = *stem_op_attr(all.def, all.attrs, part.def->attrs[i].name);
    execute_for(&part, 2);
    execute_for(&all, 2);
    CU_ASSERT(same_bits(&all, 1, &store, 0));
    CU_ASSERT(same_bits(&all, 8, &part, 5) && same_bits(&all, 9, &part, 6));
    finish(&all);
    finish(&store);
    finish(&part);
}

/* norm_query against norm_linear, then mla_query of its first columns: the same bits. */
static void norm_query(void)
{
    enum { T = 3, HEADS = 2, K = 40, ABSORBED = 6, R = 4, L = 5, ROW = ABSORBED + R, N = HEADS * ROW + 7 };
    struct run all, linear, query;
    begin(&all, "norm_query");
    operand(&all, STEM_BF16, 2, (int64_t[]){T, K + 3});
    all.t[0].dim[1] = K;
    operand(&all, STEM_F32, 1, (int64_t[]){K});
    operand(&all, STEM_BF16, 2, (int64_t[]){N, K});
    operand(&all, STEM_BF16, 3, (int64_t[]){HEADS, ABSORBED + 1, L});
    all.t[3].dim[1] = ABSORBED;
    operand(&all, STEM_I64, 1, (int64_t[]){T});
    operand(&all, STEM_BF16, 2, (int64_t[]){T, N});
    operand(&all, STEM_BF16, 3, (int64_t[]){T, HEADS, L + R});
    ((struct stem_attr *)stem_op_attr(all.def, all.attrs, "eps"))->f = 0.25;
    ((struct stem_attr *)stem_op_attr(all.def, all.attrs, "row"))->i = ROW;
    ((struct stem_attr *)stem_op_attr(all.def, all.attrs, "interleaved"))->i = 1;
    execute_for(&all, 2);
    begin(&linear, "norm_linear");
    for (uint32_t i = 0; i < 3; i++)
        like(&linear, &all, i);
    memcpy(linear.t[0].stride, all.t[0].stride, sizeof all.t[0].stride);
    operand(&linear, STEM_BF16, 2, (int64_t[]){T, N});
    ((struct stem_attr *)stem_op_attr(linear.def, linear.attrs, "eps"))->f = 0.25;
    execute(&linear);
    begin(&query, "mla_query");
    operand(&query, STEM_BF16, 3, (int64_t[]){T, HEADS, ROW});
    for (int t = 0; t < T; t++)
        memcpy((char *)query.data[0] + t * HEADS * ROW * 2, (char *)linear.data[3] + t * N * 2, HEADS * ROW * 2);
    like(&query, &all, 3);
    memcpy(query.t[1].stride, all.t[3].stride, sizeof all.t[3].stride);
    like(&query, &all, 4);
    operand(&query, STEM_BF16, 3, (int64_t[]){T, HEADS, L + R});
    ((struct stem_attr *)stem_op_attr(query.def, query.attrs, "interleaved"))->i = 1;
    execute(&query);
    CU_ASSERT(same_bits(&all, 5, &linear, 3));
    CU_ASSERT(same_bits(&all, 6, &query, 3));
    finish(&all);
    finish(&linear);
    finish(&query);
}

/* norm_linear of a slice with gaps, with an epilogue, against norm_linear of the slice's copy, then pointwise: the same bits. */
static void norm_linear(void)
{
    struct run all, alone, sum;
    begin(&all, "norm_linear");
    operand(&all, STEM_BF16, 3, (int64_t[]){2, 3, 50});
    all.t[0].dim[2] = 48;
    operand(&all, STEM_F32, 1, (int64_t[]){48});
    operand(&all, STEM_BF16, 2, (int64_t[]){10, 48});
    operand(&all, STEM_BF16, 3, (int64_t[]){2, 3, 10});
    text(&all, "then", "i1 i0 add");
    text(&all, "then_of", "f32");
    text(&all, "then_type", "bf16");
    text(&all, "out", "f32");
    ((struct stem_attr *)stem_op_attr(all.def, all.attrs, "eps"))->f = 0.25;
    operand(&all, STEM_BF16, 3, (int64_t[]){2, 3, 10});
    execute(&all);
    begin(&alone, "norm_linear");
    operand(&alone, STEM_BF16, 3, (int64_t[]){2, 3, 48});
    for (int i = 0; i < 6; i++)
        memcpy((char *)alone.data[0] + i * 48 * 2, (char *)all.data[0] + i * 50 * 2, 48 * 2);
    like(&alone, &all, 1);
    like(&alone, &all, 2);
    operand(&alone, STEM_F32, 3, (int64_t[]){2, 3, 10});
    text(&alone, "out", "f32");
    ((struct stem_attr *)stem_op_attr(alone.def, alone.attrs, "eps"))->f = 0.25;
    execute(&alone);
    begin(&sum, "pointwise");
    like(&sum, &alone, 3);
    like(&sum, &all, 3);
    operand(&sum, STEM_BF16, 3, (int64_t[]){2, 3, 10});
    text(&sum, "expr", "i1 i0 add");
    text(&sum, "dtype", "bf16");
    execute(&sum);
    CU_ASSERT(same_bits(&sum, 2, &all, 4));
    finish(&all);
    finish(&alone);
    finish(&sum);
}

/* By hand: the squares of a row have mean 4, so with eps = 5 everything is over 3. */
static void by_hand(void)
{
    static const float x[] = {2, -2, 2, 2}, norm[] = {1, 0.5f, 3, 257}, w[] = {3, 6, 1.5f, 0, 0, 0, 0, 0.75f};
    struct run r;
    begin(&r, "norm_linear");
    operand(&r, STEM_BF16, 2, (int64_t[]){1, 4});
    operand(&r, STEM_F32, 1, (int64_t[]){4});
    operand(&r, STEM_BF16, 2, (int64_t[]){2, 4});
    operand(&r, STEM_F32, 2, (int64_t[]){1, 2});
    for (int i = 0; i < 4; i++) {
        stem_ref_store(STEM_BF16, r.data[0], i, x[i]);
        stem_ref_store(STEM_F32, r.data[1], i, norm[i]);
    }
    for (int i = 0; i < 8; i++)
        stem_ref_store(STEM_BF16, r.data[2], i, w[i]);
    text(&r, "out", "f32");
    ((struct stem_attr *)stem_op_attr(r.def, r.attrs, "eps"))->f = 5;
    execute(&r);
    CU_ASSERT_DOUBLE_EQUAL(at(&r, 3, 0), 3, 1e-6);   /* (2 * 3 - 1 * 6 + 6 * 1.5) / 3 */
    CU_ASSERT_DOUBLE_EQUAL(at(&r, 3, 1), 128, 1e-5); /* 2 * 257 is 512 in bf16: a tie, to even */
    finish(&r);
}

/* linear of what quantize_f8 made against linear of x, and rmsnorm_quantize against rmsnorm and quantize_f8: the same bits. */
static void quantised(void)
{
    enum { T = 3, K = 300, N = 20 };
    struct run norm, code, x, taken, both, keep;
    begin(&norm, "rmsnorm");
    operand(&norm, STEM_BF16, 2, (int64_t[]){T, K});
    operand(&norm, STEM_F32, 1, (int64_t[]){K});
    operand(&norm, STEM_BF16, 2, (int64_t[]){T, K});
    execute(&norm);
    begin(&code, "quantize_f8");
    like(&code, &norm, 2);
    operand(&code, STEM_F8E4M3, 2, (int64_t[]){T, K});
    operand(&code, STEM_F32, 2, (int64_t[]){T, 3});
    execute_for(&code, 2);
    begin(&x, "linear");
    like(&x, &norm, 2);
    operand(&x, STEM_F8E4M3, 2, (int64_t[]){N, K});
    operand(&x, STEM_F32, 2, (int64_t[]){1, 3});
    operand(&x, STEM_BF16, 2, (int64_t[]){T, N});
    execute(&x);
    begin(&taken, "linear");
    like(&taken, &code, 1);
    like(&taken, &x, 1);
    like(&taken, &x, 2);
    absent(&taken);
    like(&taken, &code, 2);
    operand(&taken, STEM_BF16, 2, (int64_t[]){T, N});
    execute(&taken);
    CU_ASSERT(same_bits(&taken, 5, &x, 3));
    begin(&both, "rmsnorm_quantize");
    begin(&keep, "rmsnorm_quantize_keep");
    for (int i = 0; i < 2; i++) {
        struct run *r = i ? &keep : &both;
        like(r, &norm, 0);
        like(r, &norm, 1);
        if (i)
            operand(r, STEM_BF16, 2, (int64_t[]){T, K});
        operand(r, STEM_F8E4M3, 2, (int64_t[]){T, K});
        operand(r, STEM_F32, 2, (int64_t[]){T, 3});
        execute_for(r, i ? 3 : 2);
        CU_ASSERT(same_bits(r, r->n - 2, &code, 1) && same_bits(r, r->n - 1, &code, 2));
    }
    CU_ASSERT(same_bits(&keep, 2, &norm, 2));
    struct run *all[] = {&norm, &code, &x, &taken, &both, &keep};
    for (int i = 0; i < 6; i++)
        finish(all[i]);
}

/* By hand: the greatest of the first 128 is 896, so they are halved; the rest are zeros, whose scale is of 1e-4. */
static void quantised_by_hand(void)
{
    struct run r;
    begin(&r, "quantize_f8");
    operand(&r, STEM_BF16, 1, (int64_t[]){130});
    operand(&r, STEM_F8E4M3, 1, (int64_t[]){130});
    operand(&r, STEM_F32, 1, (int64_t[]){2});
    for (int i = 0; i < 130; i++)
        stem_ref_store(STEM_BF16, r.data[0], i, i == 7 ? -896.0f : i == 8 ? 34 : 0);
    execute_for(&r, 2);
    CU_ASSERT_EQUAL(at(&r, 1, 7), -448);
    CU_ASSERT_EQUAL(at(&r, 1, 8), 16); /* 17: a tie of 16 and 18, to even */
    CU_ASSERT_EQUAL(at(&r, 1, 129), 0);
    CU_ASSERT_EQUAL(at(&r, 2, 0), 2);
    CU_ASSERT_EQUAL(at(&r, 2, 1), 1e-4f / 448.0f);
    finish(&r);
}

UNIT_MAIN("fused ops", {"quantised", quantised}, {"quantised by hand", quantised_by_hand}, {"add_rmsnorm", add_rmsnorm}, {"epilogue", epilogue}, {"attention_heads", attention_heads}, {"store_part", store_part},
          {"norm_query", norm_query}, {"norm_linear", norm_linear}, {"norm_linear by hand", by_hand})
