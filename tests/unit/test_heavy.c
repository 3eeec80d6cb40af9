/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "ir/build.h"
#include "ops/linear/even.h"
#include "ops/linear/wide.h"
#include "ops/linear/linear.h"

/* ---- type rules: a call, and the result's types or the fault that is reported ---- */

struct call {
    const char *op, *operands, *attr, *value, *expect;
};

static const struct call calls[] = {
    {"linear", "bf16[4,64] bf16[32,64]", NULL, NULL, "bf16[4, 32]"},
    {"linear", "bf16[2,3,64] bf16[32,64]", "out", "f32", "f32[2, 3, 32]"},
    {"linear", "f32[64] f32[32,64]", NULL, NULL, "f32[32]"},
    {"linear", "bf16[4,64] bf16[32,63]", NULL, NULL,
     "the last sizes of x and w differ: linear multiplies x[.., K] by w[N, K]"},
    {"linear", "bf16[4,64] f32[32,64]", NULL, NULL, "linear needs x and w of one element type, not bf16 and f32"},
    {"linear", "bf16[4,64] bf16[2,32,64]", NULL, NULL, "linear needs a weight of 2 dimensions [N, K], not 3"},
    {"linear", "i32[4,64] i32[32,64]", NULL, NULL, "linear takes bf16, f16, f32 or, with its scales, f8e4m3, not i32"},
    {"linear", "bf16[4,64] bf16[32,64]", "out", "i32", "linear: out is bf16, f16 or f32, not i32"},
    /* formats: f8e4m3 has a scale for 128 x 128, nvfp4 for 16 columns and for all, int4 for 32 columns */
    {"linear", "bf16[4,300] f8e4m3[129,300] f32[2,3]", NULL, NULL, "bf16[4, 129]"},
    {"linear", "bf16[4,64] nvfp4[32,64] f8e4m3[32,4] f32[1]", "out", "f32", "f32[4, 32]"},
    {"linear", "bf16[4,64] int4[32,64] bf16[32,2]", NULL, NULL, "bf16[4, 32]"},
    {"linear", "bf16[4,64] f8e4m3[32,64]", NULL, NULL, "linear: w of type f8e4m3 needs a scale, f32[1, 1]"},
    {"linear", "bf16[4,64] f8e4m3[32,64] f32[32,1]", NULL, NULL,
     "linear: the scale of this f8e4m3 w is f32[1, 1], not f32[32, 1]"},
    {"linear", "bf16[4,64] f8e4m3[32,64] f32[1,1] f32[1]", NULL, NULL,
     "linear: w of type f8e4m3 has no tensor_scale"},
    {"linear", "bf16[4,64] nvfp4[32,64] f8e4m3[32,4]", NULL, NULL,
     "linear: w of type nvfp4 needs a tensor_scale, f32[1]"},
    {"linear", "bf16[4,64] nvfp4[32,64] f32[32,4] f32[1]", NULL, NULL,
     "linear: the scale of this nvfp4 w is f8e4m3[32, 4], not f32[32, 4]"},
    {"linear", "bf16[4,40] int4[32,40] bf16[32,1]", NULL, NULL,
     "linear: the columns of an int4 w are a multiple of 32, which share a scale"},
    {"linear", "f16[4,64] int4[32,64] bf16[32,2]", NULL, NULL,
     "linear: weights of type int4 need x of type bf16, not f16"},
    {"linear", "bf16[4,64] bf16[32,64] bf16[32,2]", NULL, NULL, "linear: w of type bf16 has no scale"},
    {"quantize_f8", "bf16[4,300]", NULL, NULL, "f8e4m3[4, 300] f32[4, 3]"},
    {"quantize_f8", "i32[4,300]", NULL, NULL, "quantize_f8: x must be f32, f16 or bf16; the operand is i32[4, 300]"},
    {"linear", "f8e4m3[4,300] f8e4m3[129,300] f32[2,3] - f32[4,3]", NULL, NULL, "bf16[4, 129]"},
    {"linear", "f8e4m3[4,300] f8e4m3[129,300] f32[2,3] - f32[4,3]", "out", "f32", "f32[4, 129]"},
    {"linear", "f8e4m3[4,300] f8e4m3[129,300] f32[2,3]", NULL, NULL,
     "linear: an x of type f8e4m3 has an x_scale, f32[4, 3] (quantize_f8 makes both)"},
    {"linear", "f8e4m3[4,300] f8e4m3[129,300] f32[2,3] - f32[4,2]", NULL, NULL,
     "linear: an x of type f8e4m3 has an x_scale, f32[4, 3], not f32[4, 2] (quantize_f8 makes both)"},
    {"linear", "bf16[4,300] f8e4m3[129,300] f32[2,3] - f32[4,3]", NULL, NULL,
     "linear: only an x of type f8e4m3 has an x_scale, not one of bf16"},
    {"linear", "f8e4m3[4,64] bf16[32,64] - - f32[4,1]", NULL, NULL,
     "linear needs x and w of one element type, not f8e4m3 and bf16"},
    {"linear", "f8e4m3[4,64] int4[32,64] bf16[32,2] - f32[4,1]", NULL, NULL,
     "linear: weights of type int4 need x of type bf16, not f8e4m3"},
    {"linear", "f16[4,64] f8e4m3[32,64] f32[1,1]", NULL, NULL,
     "linear: weights of type f8e4m3 need x of type bf16 or, with its scales, f8e4m3, not f16"},
    {"experts", "f8e4m3[4,64] i32[4,2] f32[4,2] f8e4m3[8,32,64] f8e4m3[8,64,16] f32[8,2,1] f32[8,1,1] - - f32[4,1]", NULL,
     NULL, "bf16[4, 64]"},
    {"experts", "f8e4m3[4,64] i32[4,2] f32[4,2] f8e4m3[8,32,64] f8e4m3[8,64,16] f32[8,2,1] f32[8,1,1]", NULL, NULL,
     "experts: an x of type f8e4m3 has an x_scale, f32[4, 1] (quantize_f8 makes both)"},
    {"experts", "bf16[4,64] i32[4,2] f32[4,2] f8e4m3[8,300,64] f8e4m3[8,64,150] f32[8,4,1] f32[8,1,2]", NULL, NULL,
     "bf16[4, 64]"},
    {"experts", "bf16[4,64] i32[4,2] f32[4,2] f8e4m3[8,300,64] f8e4m3[8,64,150] f32[8,3,1] f32[8,1,2]", NULL, NULL,
     "experts: the s13 of this f8e4m3 w13 is f32[8, 4, 1], not f32[8, 3, 1]"},
    {"experts",
     "bf16[4,64] i32[4,2] f32[4,2] nvfp4[8,32,64] nvfp4[8,64,16] f8e4m3[8,32,4] f8e4m3[8,64,1] f32[8,2] f32[8]", NULL,
     NULL, "bf16[4, 64]"},
    {"experts",
     "bf16[4,64] i32[4,2] f32[4,2] nvfp4[8,32,64] nvfp4[8,64,16] f8e4m3[8,32,4] f8e4m3[8,64,1] f32[8] f32[8]", NULL,
     NULL, "experts: the t13 of this nvfp4 w13 is f32[8, 2], not f32[8]"},
    {"experts", "bf16[4,64] i32[4,2] f32[4,2] bf16[8,64,64] int4[8,64,32]", NULL, NULL,
     "experts: w13 and w2 are of one type, not bf16 and int4"},
    {"experts", "bf16[4,64] i32[4,2] f32[4,2] bf16[8,32,64] bf16[8,64,16]", NULL, NULL, "bf16[4, 64]"},
    {"experts", "bf16[4,64] i64[4,2] f32[4,2] bf16[8,32,64] bf16[8,64,16]", NULL, NULL,
     "experts: ids is i32 here, not i64"},
    {"experts", "bf16[4,64] i32[4,2] bf16[4,2] bf16[8,32,64] bf16[8,64,16]", NULL, NULL,
     "experts: scale is f32 here, not bf16"},
    {"experts", "bf16[4,64] i32[4,2] f32[4,2] bf16[8,33,64] bf16[8,64,16]", NULL, NULL,
     "experts: w13[E, 2*I, H] has not twice the I rows that w2[E, H, I] has columns"},
    {"experts", "bf16[4,64] i32[5,2] f32[5,2] bf16[8,32,64] bf16[8,64,16]", NULL, NULL,
     "experts: ids[T, k] and x[T, H] have different T"},
    {"experts", "bf16[4,64] i32[4,2] f32[4,3] bf16[8,32,64] bf16[8,64,16]", NULL, NULL,
     "experts: scale and ids have different k"},
    {"experts", "bf16[4,64] i32[4,2] f32[4,2] bf16[8,32,64] bf16[9,64,16]", NULL, NULL,
     "experts: w2[E, H, I] and w13[E, 2*I, H] have different E"},
    {"experts", "bf16[4,64] i32[4,33] f32[4,33] bf16[8,32,64] bf16[8,64,16]", NULL, NULL,
     "experts: at most 32 experts for each token, not 33"},
    {"experts", "bf16[64] i32[4,2] f32[4,2] bf16[8,32,64] bf16[8,64,16]", NULL, NULL,
     "experts takes x[T, H], of 2 dimensions, not 1"},
    {"route", "bf16[4,64] f32[64]", "k", "8", "i32[4, 8] f32[4, 8]"},
    {"route", "bf16[4,64]", "k", "64", "route: k = 64 must be at least 1 and at most 32"},
    {"route", "bf16[4,8]", "k", "9", "route: k = 9 is larger than the number of experts that may be chosen, 8"},
    {"route", "bf16[4,64] f32[63]", "k", "8", "route: bias[E] needs the E of logits[T, E]"},
    {"route", "bf16[4,64] bf16[64]", "k", "8", "route: bias is f32 here, not bf16"},
    {"route", "i32[4,64]", "k", "8", "route takes bf16, f16 or f32 logits, not i32"},
    {"route", "bf16[4,1025]", "k", "8", "route: 1025 experts are more than 1024"},
    {"gqa_attention", "bf16[4,8,64] bf16[9,16,2,64] bf16[9,16,2,64] i32[4,5] i32[4]", NULL, NULL, "bf16[4, 8, 64]"},
    {"gqa_attention", "i32[4,8,64] bf16[9,16,2,64] bf16[9,16,2,64] i32[4,5] i32[4]", NULL, NULL,
     "gqa_attention: q must be f32, f16 or bf16; the operand is i32[4, 8, 64]"},
    {"gqa_attention", "bf16[4,512] bf16[9,16,2,64] bf16[9,16,2,64] i32[4,5] i32[4]", NULL, NULL,
     "gqa_attention: q must be [tokens, heads, width]; the operand is bf16[4, 512]"},
    {"gqa_attention", "bf16[4,8,64] f16[9,16,2,64] bf16[9,16,2,64] i32[4,5] i32[4]", NULL, NULL,
     "gqa_attention: the cache must be bf16, as q is; the operand is f16[9, 16, 2, 64]"},
    {"gqa_attention", "bf16[4,8,64] bf16[144,2,64] bf16[9,16,2,64] i32[4,5] i32[4]", NULL, NULL,
     "gqa_attention: the cache must be [pages, page, heads, width]; the operand is bf16[144, 2, 64]"},
    {"gqa_attention", "bf16[4,8,64] bf16[9,16,2,64] bf16[9,16,4,64] i32[4,5] i32[4]", NULL, NULL,
     "gqa_attention: both caches must have the same sizes; the operand is bf16[9, 16, 4, 64]"},
    {"gqa_attention", "bf16[4,8,64] bf16[9,16,2,64] f16[9,16,2,64] i32[4,5] i32[4]", NULL, NULL,
     "gqa_attention: both caches must have one element type; the operand is f16[9, 16, 2, 64]"},
    {"gqa_attention", "bf16[4,8,64] bf16[9,16,2,32] bf16[9,16,2,32] i32[4,5] i32[4]", NULL, NULL,
     "gqa_attention: keys must have the width of q, 64; the operand is bf16[9, 16, 2, 32]"},
    {"gqa_attention", "bf16[4,8,64] bf16[9,16,3,64] bf16[9,16,3,64] i32[4,5] i32[4]", NULL, NULL,
     "gqa_attention: the heads of q, 8, must be a multiple of the cache's 3, at most 16 times as many; the operand is "
     "bf16[9, 16, 3, 64]"},
    {"gqa_attention", "bf16[4,8,64] bf16[9,16,2,64] bf16[9,16,2,64] i64[4,5] i32[4]", NULL, NULL,
     "gqa_attention: table[T, pages] must be i32; the operand is i64[4, 5]"},
    {"gqa_attention", "bf16[4,8,64] bf16[9,16,2,64] bf16[9,16,2,64] i32[4,5] i32[4,1]", NULL, NULL,
     "gqa_attention: lens[T] must have 1 dimension; the operand is i32[4, 1]"},
    {"gqa_attention", "bf16[4,8,64] bf16[9,16,2,64] bf16[9,16,2,64] i32[4,5] i32[3]", NULL, NULL,
     "gqa_attention: lens[T] must have a row for each of the 4 tokens; the operand is i32[3]"},
    {"mla_attention", "bf16[4,8,96] bf16[9,16,96] i32[4,5] i32[4]", "latent", "64", "bf16[4, 8, 64]"},
    {"mla_attention", "bf16[4,8,96] bf16[9,16,96] i32[4,5] i32[4] i32[4,7]", "latent", "64", "bf16[4, 8, 64]"},
    {"mla_attention", "bf16[4,8,96] bf16[9,16,96] i32[4,5] i32[4] i32[5,7]", "latent", "64",
     "mla_attention: indices[T, K] must have a row for each of the 4 tokens; the operand is i32[5, 7]"},
    {"mla_attention", "bf16[4,8,96] bf16[9,16,96] i32[4,5] i32[4]", "latent", "97",
     "mla_attention: latent = 97 must be at least 1, and at most 512 and the width of a cache row, 96"},
    {"mla_attention", "bf16[4,8,96] bf16[9,16,64] i32[4,5] i32[4]", "latent", "64",
     "mla_attention: cache rows must have the width of q, 96; the operand is bf16[9, 16, 64]"},
    {"index_scores", "bf16[4,8,64] f32[4,8] bf16[9,16,64] i32[4,5] i32[4]", NULL, NULL, "f32[4, 80]"},
    {"index_scores", "bf16[4,8,64] f32[4,8] bf16[9,16,64] i32[4,5] i32[4]", "max_len", "33", "f32[4, 33]"},
    {"index_scores", "bf16[4,8,64] f32[4,8] bf16[9,16,64] i32[4,5] i32[4]", "max_len", "81",
     "index_scores: max_len = 81 must be from 0 to the table's 80 positions"},
    {"index_scores", "bf16[4,8,64] f16[4,8] bf16[9,16,64] i32[4,5] i32[4]", NULL, NULL,
     "index_scores: w must be f32 or bf16, as q is; the operand is f16[4, 8]"},
    {"index_scores", "bf16[4,8,64] f32[4,7] bf16[9,16,64] i32[4,5] i32[4]", NULL, NULL,
     "index_scores: w must have a number for each head of q; the operand is f32[4, 7]"},
    {"top_k", "f32[4,80] i32[4]", "k", "5", "i32[4, 5]"},
    {"top_k", "bf16[4,80]", NULL, NULL, "top_k: the scores must be f32; the operand is bf16[4, 80]"},
    {"top_k", "f32[80]", NULL, NULL, "top_k: the scores must be [T, N]; the operand is f32[80]"},
    {"top_k", "f32[4,80] i32[5]", NULL, NULL, "top_k: lens must be [T], one for each row; the operand is i32[5]"},
    {"top_k", "f32[4,80]", "k", "0", "top_k: k = 0 must be at least 1 and at most 1073741823"},
    {"route", "bf16[64]", "k", "8", "route takes logits[T, E], of 2 dimensions, not 1"},
};

struct bench {
    struct stem_strtab *strings;
    struct stem_dims *dims;
    struct stem_diags *diags;
    struct stem_program *program;
    struct stem_builder b;
};

static struct bench open_bench(void)
{
    struct bench t = {stem_strtab_new(), stem_dims_new(), stem_diags_new(0), NULL, {0}};
    t.program = stem_program_new(t.strings, NULL);
    t.b = stem_builder_new(t.program, t.dims, t.diags);
    t.b.name = stem_intern(t.strings, "r");
    return t;
}

static void close_bench(struct bench *t)
{
    stem_program_free(t->program);
    stem_diags_free(t->diags);
    stem_dims_free(t->dims);
    stem_strtab_free(t->strings);
}

static uint32_t read_operands(struct bench *t, const char *text, struct stem_input *in)
{
    uint32_t n = 0;
    for (const char *at = text; *at; n++) {
        int64_t dim[STEM_MAX_RANK];
        uint32_t rank = 0;
        char type[16];
        if (*at == '-') { /* absent */
            in[n] = (struct stem_input){STEM_NO_VALUE, STEM_MODE_IN, STEM_NOWHERE};
            at += at[1] ? 2 : 1;
            continue;
        }
        const char *open = strchr(at, '[');
        snprintf(type, sizeof type, "%.*s", (int)(open - at), at);
        for (at = open; *at != ']';) {
            char *end;
            dim[rank++] = strtoll(at + 1, &end, 10);
            at = end;
        }
        at += at[1] == ' ' ? 2 : 1;
        in[n] = (struct stem_input){stem_build_buffer(&t->b, STEM_BUFFER_INPUT, stem_intern_printf(t->strings, "in%u", n),
                                                      stem_dtype_from_name(type), rank, dim),
                                    STEM_MODE_IN, {n + 1, n + 2}};
    }
    return n;
}

static bool build(struct bench *t, const struct call *call, struct stem_value_id *results)
{
    const struct stem_op_def *def = stem_op_find(call->op);
    struct stem_input in[STEM_MAX_OPERANDS];
    struct stem_attr attrs[STEM_MAX_ATTRS];
    uint32_t n = read_operands(t, call->operands, in);
    stem_op_attr_defaults(def, attrs);
    if (call->attr) {
        struct stem_attr *a = (struct stem_attr *)stem_op_attr(def, attrs, call->attr);
        a->text = call->value;
        a->i = atoi(call->value);
    }
    return stem_build_op(&t->b, def, in, n, attrs, NULL, results);
}

static void type_rules(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct bench t = open_bench();
        struct stem_value_id results[STEM_MAX_OPERANDS];
        struct stem_out o = {0};
        if (build(&t, &calls[i], results)) {
            uint32_t n = stem_op_n_results(stem_op_find(calls[i].op));
            for (uint32_t k = 0; k < n; k++) {
                struct stem_type type = stem_tensor_type(t.dims, &stem_value_at(t.program, results[k])->tensor);
                stem_out_str(&o, k ? " " : "");
                stem_type_print(t.dims, t.strings, &type, &o);
            }
        } else {
            stem_out_str(&o, stem_diags_get(t.diags, 0)->text);
        }
        UNIT_SAME_TEXT(stem_out_text(&o), calls[i].expect);
        stem_out_free(&o);
        close_bench(&t);
    }
}

/* experts is two launches; x, which the caller gives up, is given up by the one that reads it. */
static void experts_parts(void)
{
    struct bench t = open_bench();
    struct stem_input in[STEM_MAX_OPERANDS];
    struct stem_value_id results[STEM_MAX_OPERANDS];
    uint32_t n = read_operands(&t, "bf16[4,64] i32[4,2] f32[4,2] bf16[8,32,64] bf16[8,64,16]", in);
    const int64_t dim[] = {4, 64};
    in[0].value = stem_build_buffer(&t.b, STEM_BUFFER_TEMP, stem_intern(t.strings, "x"), STEM_BF16, 2, dim);
    in[0].mode = STEM_MODE_RELEASE;
    CU_ASSERT_FATAL(stem_build_op(&t.b, stem_op_find("experts"), in, n, NULL, NULL, results));
    CU_ASSERT_EQUAL_FATAL(t.program->ops.len, 2);
    const struct stem_op *up = &t.program->ops.at[0], *down = &t.program->ops.at[1];
    UNIT_SAME_TEXT(up->def->name, "experts_up");
    UNIT_SAME_TEXT(down->def->name, "experts_down");
    CU_ASSERT_EQUAL(up->operands[0].mode, STEM_MODE_RELEASE);
    CU_ASSERT_EQUAL(down->operands[0].value.n, up->operands[up->n_in].value.n);
    /* 4 tokens with 2 of 8 experts each meet 8 * (1 - 0.75^4) = 5.5 of them; then x and the ids */
    CU_ASSERT_EQUAL(up->cost.bytes_read, 5 * 32 * 64 * 2 + 4 * 64 * 2 + 4 * 2 * 4);
    close_bench(&t);
}

/* ---- references against sums in double, and hand-made cases ---- */

static struct stem_tensor tensor(enum stem_dtype type, uint32_t rank, int64_t a, int64_t b, int64_t c)
{
    return (struct stem_tensor){.dtype = type, .rank = rank, .dim = {a, b, c},
                                .stride = {rank == 3 ? b * c : rank == 2 ? b : 1, rank == 3 ? c : 1, 1}};
}

static void dot_products(void)
{
    float a[100], b[100];
    for (int n = 0; n < 100; n++) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            a[i] = (float)(i * 37 % 19) - 9.0f;
            b[i] = (float)(i * 53 % 23) - 11.0f;
            sum += (double)a[i] * (double)b[i];
        }
        CU_ASSERT_EQUAL(stem_ref_dot(a, b, n), (float)sum); /* small integers: exact in any order */
    }
}

static void experts_by_hand(void)
{
    /* Two tokens, two experts of inter 1, hidden 2, relu: h = max(gate, 0) * up. */
    float x[] = {1, 2, -1, 3}, scale[] = {0.5f, 2, 1, 4}, h[4], y[4];
    int32_t ids[] = {1, 0, 0, -1};
    float w13[] = {1, 0, 0, 1, /* expert 0: gate x0, up x1 */ 1, 1, 2, 0 /* expert 1: gate x0 + x1, up 2 x0 */};
    float w2[] = {1, 10, 3, -1};
    const struct stem_op_def *up = stem_op_find("experts_up"), *down = stem_op_find("experts_down");
    struct stem_attr act = {.name = "act", .kind = STEM_ATTR_TEXT, .text = "relu"};
    struct stem_tensor u[] = {tensor(STEM_F32, 2, 2, 2, 0), tensor(STEM_I32, 2, 2, 2, 0), tensor(STEM_F32, 3, 2, 2, 2),
                              tensor(STEM_F32, 3, 2, 2, 1)};
    struct stem_concrete c = {.def = up, .operand = u, .n_in = 3, .n_out = 1, .attrs = &act, .n_attrs = 1};
    up->reference(&c, (void *[]){x, ids, w13, h});
    CU_ASSERT_EQUAL(h[0], 6);  /* (1 + 2) * 2 */
    CU_ASSERT_EQUAL(h[1], 2);  /* 1 * 2 */
    CU_ASSERT_EQUAL(h[2], 0);  /* relu(-1) */
    struct stem_tensor d[] = {u[3], u[1], tensor(STEM_F32, 2, 2, 2, 0), tensor(STEM_F32, 3, 2, 2, 1),
                              tensor(STEM_F32, 2, 2, 2, 0)};
    c = (struct stem_concrete){.def = down, .operand = d, .n_in = 4, .n_out = 1};
    down->reference(&c, (void *[]){h, ids, scale, w2, y});
    CU_ASSERT_EQUAL(y[0], 0.5f * 18 + 2 * 2);
    CU_ASSERT_EQUAL(y[1], 0.5f * -6 + 2 * 20);
    CU_ASSERT_EQUAL(y[2], 0); /* an id of -1 adds nothing */
    CU_ASSERT_EQUAL(y[3], 0);
}

/* One token: a block for each tile, but no more than are there at once; those walk over the tiles. */
static void blocks_of_a_token(void)
{
    const struct {
        int64_t k, inter;
        uint32_t blocks;
    } cases[] = {{8, 256, 256}, {8, 257, 264}, {8, 264, 264}, {8, 768, 264}, {6, 1408, 264}, {1, 8, 1}};
    const struct stem_target target = {.sm = 90, .n_sms = 132};
    struct stem_attr act = {.name = "act", .kind = STEM_ATTR_TEXT, .text = "silu"};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stem_tensor u[] = {tensor(STEM_BF16, 2, 1, 512, 0), tensor(STEM_I32, 2, 1, cases[i].k, 0),
                                  tensor(STEM_BF16, 3, 64, 2 * cases[i].inter, 512),
                                  tensor(STEM_BF16, 3, 1, cases[i].k, cases[i].inter)};
        struct stem_concrete c = {
            .def = stem_op_find("experts_up"), .operand = u, .n_in = 3, .n_out = 1, .attrs = &act, .n_attrs = 1, .constant = 4};
        struct stem_arena *a = stem_arena_new();
        struct stem_lowered l = {0};
        c.def->lower(&c, &target, a, &l);
        CU_ASSERT_PTR_NOT_NULL(strstr(l.kernel, "up_one"));
        CU_ASSERT_EQUAL(l.grid[0], cases[i].blocks);
        CU_ASSERT_EQUAL(l.grid[1] * l.grid[2], 1);
        stem_arena_free(a);
    }
}

/* ---- formats: values worked out here bit by bit, sums in double ---- */

static uint32_t random_bits(void)
{
    static uint64_t state = 99;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static double e4m3_value(uint32_t code)
{
    double m = (code >> 3 & 15) ? ldexp(8 + (code & 7), (int)(code >> 3 & 15) - 10) : ldexp(code & 7, -9);
    return code & 128 ? -m : m;
}

/* An e4m3 code that is no NaN. */
static uint8_t random_e4m3(void)
{
    return (uint8_t)(random_bits() & 1 ? random_bits() % 127 : 128 + random_bits() % 127);
}

static double bf16_value(uint16_t bits)
{
    double m = ldexp(128 + (bits & 127), (bits >> 7 & 255) - 134);
    return bits & 0x8000 ? -m : m;
}

enum { M = 3, N = 130, K = 288 };

struct coded {
    uint16_t x[M * K];
    uint8_t w[N * K];
    union {
        float f8[2 * 3];
        uint8_t nvfp4[N * K / 16];
        uint16_t int4[N * K / 32];
    } scale;
    float whole, y[M * N];
};

static double weight_value(const struct coded *c, enum stem_dtype type, int n, int k)
{
    static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
    int i = n * K + k, code = c->w[i / 2] >> (i % 2 * 4) & 15;
    if (type == STEM_F8E4M3)
        return e4m3_value(c->w[i]) * (double)c->scale.f8[n / 128 * 3 + k / 128];
    if (type == STEM_NVFP4)
        return e2m1[code] * e4m3_value(c->scale.nvfp4[i / 16]) * (double)c->whole;
    return (code - 8) * bf16_value(c->scale.int4[i / 32]);
}

/* x as it is multiplied: for f8e4m3 as quantised by the nearest of all codes. */
static double x_value(const struct coded *c, enum stem_dtype type, int m, int k)
{
    double amax = 1e-4f, v = bf16_value(c->x[m * K + k]), best = 0;
    if (type != STEM_F8E4M3)
        return v;
    for (int i = k / 128 * 128; i < K && i < k / 128 * 128 + 128; i++)
        amax = fmax(amax, fabs(bf16_value(c->x[m * K + i])));
    for (uint32_t code = 0; code < 256; code++)
        if (code % 128 != 127) { /* all of this is exact in double; the even one of two that are as near */
            double d = fabs(e4m3_value(code) * amax - v * 448), b = fabs(best * amax - v * 448);
            if (d < b || (d == b && code % 2 == 0))
                best = e4m3_value(code);
        }
    return best * amax / 448;
}

static void formats(void)
{
    static struct coded c;
    static const enum stem_dtype types[] = {STEM_F8E4M3, STEM_NVFP4, STEM_INT4};
    const struct stem_op_def *def = stem_op_find("linear");
    for (int f = 0; f < 3; f++) {
        enum stem_dtype type = types[f], scale = f == 0 ? STEM_F32 : f == 1 ? STEM_F8E4M3 : STEM_BF16;
        for (int i = 0; i < M * K; i++)
            c.x[i] = (uint16_t)(0x3d00 + random_bits() % 0x300) | (uint16_t)(random_bits() & 1 ? 0x8000 : 0);
        for (int i = 0; i < N * K; i++)
            c.w[i] = type == STEM_F8E4M3 ? random_e4m3() : (uint8_t)random_bits();
        for (int i = 0; i < 6 && f == 0; i++)
            c.scale.f8[i] = 0.001f * (float)(1 + random_bits() % 100);
        for (int i = 0; i < N * K / 16 && f == 1; i++)
            c.scale.nvfp4[i] = (uint8_t)(random_bits() % 127);
        for (int i = 0; i < N * K / 32 && f == 2; i++)
            c.scale.int4[i] = (uint16_t)(0x3b00 + random_bits() % 0x200);
        c.whole = 0.0123f;
        int64_t group = f == 0 ? 128 : f == 1 ? 16 : 32;
        struct stem_tensor t[] = {tensor(STEM_BF16, 2, M, K, 0), tensor(type, 2, N, K, 0),
                                  tensor(scale, 2, f == 0 ? 2 : N, (K + group - 1) / group, 0),
                                  tensor(STEM_F32, 1, 1, 0, 0), tensor(STEM_F32, 2, M, N, 0)};
        void *data[] = {c.x, c.w, &c.scale, &c.whole, c.y};
        if (f != 1) {
            t[3] = t[4];
            data[3] = data[4];
        }
        struct stem_concrete op = {.def = def, .operand = t, .n_in = f == 1 ? 4 : 3, .n_out = 1};
        def->reference(&op, data);
        double error = 0, norm = 0;
        for (int i = 0; i < M * N; i++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += x_value(&c, type, i / N, k) * weight_value(&c, type, i % N, k);
            error += (sum - (double)c.y[i]) * (sum - (double)c.y[i]);
            norm += sum * sum;
        }
        CU_ASSERT(sqrt(error / norm) < (type == STEM_F8E4M3 ? 2e-4 : 1e-6));
        CU_ASSERT(norm > 0);
    }
}

struct route_case {
    const char *score;
    float logits[8], bias[8];
    int k, groups, top_groups;
    bool renormalize;
    int ids[3];
    float weights[3];
};

static void routes_by_hand(void)
{
    static const struct route_case cases[] = {
        /* equal ones by index */
        {"none", {1, 3, 3, 2, 3, 0, 0, 0}, {0}, 3, 1, 0, false, {1, 2, 4}, {3, 3, 3}},
        /* the bias chooses, and does not weigh */
        {"none", {1, 3, 3, 2, 3, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 9, 0}, 3, 1, 0, false, {6, 1, 2}, {0, 3, 3}},
        /* two of four groups by their best two: 5 + 0, 3 + 3, 4 + 1, 2 + 1 */
        {"none", {5, 0, 3, 3, 4, 1, 2, 1}, {0}, 3, 4, 2, false, {0, 2, 3}, {5, 3, 3}},
        {"none", {1, 3, 0, 0, 0, 0, 0, 0}, {0}, 2, 1, 0, true, {1, 0}, {0.75f, 0.25f}},
        {"sigmoid", {0, 0, 0, 0, 0, 0, 0, INFINITY}, {0}, 2, 1, 0, false, {7, 0}, {1, 0.5f}},
        {"softmax", {0, 0, 0, 0, 0, 0, 0, 0}, {0}, 2, 1, 0, false, {0, 1}, {0.125f, 0.125f}},
        /* NaN last */
        {"none", {NAN, NAN, -INFINITY, NAN, NAN, NAN, NAN, NAN}, {0}, 2, 1, 0, false, {2, 0}, {-INFINITY, NAN}},
    };
    const struct stem_op_def *def = stem_op_find("route");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct route_case *r = &cases[i];
        struct stem_attr attrs[STEM_MAX_ATTRS];
        stem_op_attr_defaults(def, attrs);
        ((struct stem_attr *)stem_op_attr(def, attrs, "score"))->text = r->score;
        ((struct stem_attr *)stem_op_attr(def, attrs, "k"))->i = r->k;
        ((struct stem_attr *)stem_op_attr(def, attrs, "groups"))->i = r->groups;
        ((struct stem_attr *)stem_op_attr(def, attrs, "top_groups"))->i = r->top_groups;
        ((struct stem_attr *)stem_op_attr(def, attrs, "renormalize"))->i = r->renormalize;
        int32_t ids[3];
        float weights[3];
        struct stem_tensor t[] = {tensor(STEM_F32, 2, 1, 8, 0), tensor(STEM_F32, 1, 8, 0, 0),
                                  tensor(STEM_I32, 2, 1, r->k, 0), tensor(STEM_F32, 2, 1, r->k, 0)};
        struct stem_concrete c = {.def = def, .operand = t, .n_in = 2, .n_out = 2, .attrs = attrs, .n_attrs = def->n_attrs};
        def->reference(&c, (void *[]){(void *)r->logits, (void *)r->bias, ids, weights});
        for (int j = 0; j < r->k; j++) {
            CU_ASSERT_EQUAL(ids[j], r->ids[j]);
            CU_ASSERT(weights[j] == r->weights[j] || (isnan(weights[j]) && isnan(r->weights[j])));
        }
    }
}

/* ---- how linear_even.cuh cuts a product ---- */

/* Every product gets a way that fits the multiprocessor as often as it says, whose tiles cover it. */
static void cuts(void)
{
    static const int64_t sizes[][2] = {{7168, 16384}, {24576, 1536}, {2112, 7168}, {40, 256}, {151936, 2048}, {512, 32768}};
    static const struct stem_target targets[] = {{.sm = 80, .n_sms = 108}, {.sm = 90, .n_sms = 132}, {.sm = 120, .n_sms = 20}};
    static const enum stem_dtype types[] = {STEM_F8E4M3, STEM_NVFP4, STEM_INT4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * 9 * 8; i++) {
        const struct stem_target *t = &targets[i % 3];
        const int64_t *size = sizes[i / 72];
        struct stem_even_product p = {types[i / 3 % 3], (int64_t[]){1, 2, 7, 8, 16, 17, 64, 200}[i / 9 % 8], size[0], size[1],
                                      i % 5 == 0, i % 7 == 0};
        struct stem_even_shape s = {0};
        CU_ASSERT_FATAL(stem_even_shape(&p, t, &s));
        CU_ASSERT(s.smem <= stem_stream_block_smem(t) && s.room * (s.smem + 1024) <= stem_stream_sm_smem(t));
        CU_ASSERT(s.per_sm <= s.room && s.clusters * s.cluster <= t->n_sms * s.per_sm);
        CU_ASSERT(s.clusters >= 1 && s.each >= 1 && s.stages >= 2 && s.most >= 1 && s.most <= 8 * s.nt);
        CU_ASSERT(t->sm >= 90 || s.cluster == 1);
        CU_ASSERT(s.clusters <= (p.columns + (p.pair ? 8 : 16) * s.mt - 1) / ((p.pair ? 8 : 16) * s.mt));
    }
    /* a share of k for each block of a cluster where the tokens of all k have no room */
    struct stem_even_product p = {STEM_NVFP4, 16, 7168, 16384, false, false};
    struct stem_even_shape s;
    CU_ASSERT(stem_even_shape(&p, &targets[1], &s) && s.cluster == 4 && s.clusters == 30);
    /* tiles of 32 rows for 16 tokens, and as many warps as share out the work of a block without a rest */
    p = (struct stem_even_product){STEM_INT4, 16, 24576, 1536, false, false};
    CU_ASSERT(stem_even_shape(&p, &targets[1], &s) && s.mt == 2 && s.warps == 12 && s.cluster == 1 && s.each == 6);
    p = (struct stem_even_product){STEM_NVFP4, 16, 4608, 7168, false, false};
    CU_ASSERT(stem_even_shape(&p, &targets[1], &s) && s.mt == 2 && s.warps == 8 && s.cluster == 4);
    p.m = 4;
    CU_ASSERT(stem_even_shape(&p, &targets[1], &s) && s.mt == 1 && s.warps == 16 && s.cluster == 4);
}

/* Those of linear_wide.cuh: k is shared out over as many blocks and warpgroups as have something to do. */
static void wide_cuts(void)
{
    static const int64_t sizes[][2] = {{2240, 7168}, {8192, 1536}, {7168, 2048}, {7168, 256}, {256, 7168}, {48, 128}, {7168, 16384}};
    const struct stem_target t = {.sm = 90, .n_sms = 132}, old = {.sm = 80, .n_sms = 108};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * 8; i++) {
        const int64_t *size = sizes[i / 8];
        struct stem_even_product p = {STEM_F8E4M3, (int64_t[]){1, 8, 9, 16, 17, 64, 65, 300}[i % 8], size[0], size[1], i % 3 == 0, false};
        struct stem_wide_shape s = {0}, coded = {0};
        CU_ASSERT_FATAL(stem_wide_shape(&p, &t, &s));
        CU_ASSERT(!stem_wide_shape(&p, &old, &s));
        CU_ASSERT(s.smem <= stem_stream_block_smem(&t) && s.stages >= 2 && s.stages <= 4 && s.nt <= 8);
        CU_ASSERT(s.groups >= 1 && s.groups <= 4 && s.cluster >= 1 && s.cluster <= 8 && s.cluster <= (p.k + 127) / 128);
        CU_ASSERT(8 * s.nt >= p.m || s.nt == 8);
        p.coded = true; /* the same order of sums */
        CU_ASSERT(stem_wide_shape(&p, &t, &coded) && !memcmp(&coded, &s, sizeof s));
    }
    struct stem_even_product p = {STEM_NVFP4, 16, 7168, 16384, false, false};
    struct stem_wide_shape s;
    CU_ASSERT(!stem_wide_shape(&p, &t, &s));
}

UNIT_MAIN("linear, experts, route", {"type rules", type_rules}, {"experts is two launches", experts_parts},
          {"dot products", dot_products}, {"experts by hand", experts_by_hand},
          {"blocks of a token", blocks_of_a_token}, {"routes by hand", routes_by_hand},
          {"formats", formats}, {"cuts", cuts}, {"cuts by warpgroups", wide_cuts})
