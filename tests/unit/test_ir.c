/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdlib.h>

#include "ir/build.h"

/* Everything that a builder needs, in one place. */
struct bench {
    struct stem_strtab *strings;
    struct stem_program *p;
    struct stem_dims *dims;
    struct stem_diags *diags;
    struct stem_builder b;
};

static void setup(struct bench *x)
{
    x->strings = stem_strtab_new();
    x->p = stem_program_new(x->strings, NULL);
    x->dims = stem_dims_new();
    x->diags = stem_diags_new(0);
    x->b = stem_builder_new(x->p, x->dims, x->diags);
    x->p->name = stem_intern(x->strings, "test");
}

static void teardown(struct bench *x)
{
    stem_program_free(x->p);
    stem_diags_free(x->diags);
    stem_dims_free(x->dims);
    stem_strtab_free(x->strings);
}

static void name(struct bench *x, const char *s)
{
    x->b.name = stem_intern(x->strings, s);
}

static struct stem_value_id buffer(struct bench *x, enum stem_buffer_kind kind, const char *s, enum stem_dtype t,
                                   int64_t rows, int64_t cols)
{
    int64_t dim[2] = {rows, cols};
    uint32_t rank = rows ? 2 : 1;
    return stem_build_buffer(&x->b, kind, stem_intern(x->strings, s), t, rank, dim + 2 - rank);
}

static struct stem_value_id norm(struct bench *x, const char *s, struct stem_value_id v, struct stem_value_id w)
{
    name(x, s);
    return stem_build_simple(&x->b, "rmsnorm", (struct stem_value_id[]){v, w}, 2, NULL, 0);
}

static void same_program(struct bench *x, const char *expected)
{
    struct stem_out o = {0};
    const char *fault = stem_program_check(x->p);
    UNIT_SAME_TEXT(fault ? fault : "", "");
    stem_program_print(x->p, &o);
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
}

/* ---- building ---- */

static void ops_and_copies(void)
{
    struct bench x;
    setup(&x);
    struct stem_value_id h = buffer(&x, STEM_BUFFER_INPUT, "h", STEM_BF16, 4, 128);
    struct stem_value_id w = buffer(&x, STEM_BUFFER_WEIGHT, "w", STEM_BF16, 64, 64);
    struct stem_value_id out = buffer(&x, STEM_BUFFER_OUTPUT, "out", STEM_BF16, 4, 64);
    struct stem_value_id left = stem_build_view(&x.b, h, stem_intern(x.strings, "h[:, 64:]"), 128, 2,
                                                (int64_t[]){4, 64}, (int64_t[]){128, 1});
    name(&x, "y");
    struct stem_value_id y = stem_build_simple(&x.b, "linear", (struct stem_value_id[]){left, w}, 2, NULL, 0); /* copies */
    struct stem_attr attrs[2], zero[7];
    const struct stem_op_def *pointwise = stem_op_find("pointwise"), *z = stem_op_find("zero");
    stem_op_attr_defaults(pointwise, attrs);
    attrs[0].text = "i0 i1 add";
    attrs[1].text = "bf16";
    struct stem_input in[2] = {{y, STEM_MODE_RELEASE, STEM_NOWHERE}, {left, STEM_MODE_IN, STEM_NOWHERE}};
    struct stem_value_id results[STEM_MAX_OPERANDS];
    name(&x, "sum");
    CU_ASSERT(stem_build_op(&x.b, pointwise, in, 2, attrs, &out, results)); /* takes strides; writes the output */
    CU_ASSERT_EQUAL(results[0].n, out.n);
    stem_op_attr_defaults(z, zero);
    zero[0].text = "f32";
    zero[1].i = 3;
    name(&x, "acc");
    CU_ASSERT(stem_build_op(&x.b, z, NULL, 0, zero, NULL, results));
    same_program(&x, "program \"test\";\n"
                     "stream s0 \"main\";\n"
                     "segment g0;\n"
                     "buffer b0 input \"h\" bf16[4, 128];\n"
                     "value v0 \"h\" b0;\n"
                     "buffer b1 weight \"w\" bf16[64, 64];\n"
                     "value v1 \"w\" b1;\n"
                     "buffer b2 output \"out\" bf16[4, 64];\n"
                     "value v2 \"out\" b2;\n"
                     "value v3 \"h[:, 64:]\" b0 bf16[4, 64] offset 128 stride [128, 1] view v0;\n"
                     "buffer b3 temp \"h[:, 64:].copy\" bf16[4, 64];\n"
                     "value v4 \"h[:, 64:].copy\" b3;\n"
                     "op o0 v4 = copy(v3) name \"h[:, 64:].copy\";\n"
                     "buffer b4 temp \"y\" bf16[4, 64];\n"
                     "value v5 \"y\" b4;\n"
                     "op o1 v5 = linear(v4, v1) name \"y\";\n"
                     "op o2 v2 = pointwise(release v5, v3) {expr = \"i0 i1 add\", dtype = \"bf16\"} name \"sum\";\n"
                     "buffer b5 temp \"acc\" f32[3];\n"
                     "value v6 \"acc\" b5;\n"
                     "op o3 v6 = zero() {dtype = \"f32\", d0 = 3} name \"acc\";\n");
    CU_ASSERT_EQUAL(x.p->ops.at[1].cost.bytes_read, 4 * 64 * 2 + 64 * 64 * 2);
    CU_ASSERT_EQUAL(x.p->ops.at[1].cost.bytes_written, 4 * 64 * 2);
    teardown(&x);
}

static void calls_and_versions(void)
{
    struct bench x;
    setup(&x);
    struct stem_value_id cache = buffer(&x, STEM_BUFFER_STATE, "cache", STEM_F32, 0, 8);
    struct stem_value_id k = buffer(&x, STEM_BUFFER_INPUT, "k", STEM_F32, 0, 4);
    x.p->buffers.at[stem_value_at(x.p, k)->tensor.buffer].inout = true;
    struct stem_decl store = {.class = STEM_OP_KERNEL,
                              .name = stem_intern(x.strings, "store"),
                              .waits = true,
                              .params = "float *cache, const float *k, float *sum, int at",
                              .body = "cache[at] = k[0]; // \"}\"\nsum[0] = 1;\n"};
    struct stem_decl send = {.class = STEM_OP_EXTERN, .name = stem_intern(x.strings, "send"), .library = "libx.so"};
    stem_vec_push(&x.p->decls, store);
    stem_vec_push(&x.p->decls, send);
    stem_vec_push(&x.p->streams, (struct stem_stream_decl){stem_intern(x.strings, "side"), 3});
    stem_vec_push(&x.p->segments, (struct stem_segment){true, STEM_NOWHERE});
    stem_vec_push(&x.p->layers, stem_intern(x.strings, "attention[0]"));
    x.b.layer = 0;
    x.b.pin = (struct stem_stream_id){1};
    x.b.priority = -2;
    x.b.resource = stem_intern(x.strings, "link");
    name(&x, "c");
    struct stem_value_id sum = buffer(&x, STEM_BUFFER_TEMP, "sum", STEM_F32, 0, 1);
    struct stem_value_id whole =
        stem_build_view(&x.b, cache, stem_intern(x.strings, "grid"), 0, 2, (int64_t[]){2, 4}, (int64_t[]){4, 1});
    struct stem_input in[3] = {{sum, STEM_MODE_OUT, STEM_NOWHERE},
                               {whole, STEM_MODE_INOUT, STEM_NOWHERE},
                               {k, STEM_MODE_CONSUME, STEM_NOWHERE}};
    struct stem_scalar scalar[2] = {{STEM_SCALAR_I32, {.i = -3}}, {STEM_SCALAR_F32, {.f = 0.1f}}};
    struct stem_value_id results[STEM_MAX_OPERANDS];
    struct stem_op_id first = stem_build_mark(&x.b);
    stem_build_call(&x.b, 0, in, 3, scalar, 2, (uint32_t[]){2, 1, 1}, (uint32_t[]){32, 1, 1}, 64, results);
    CU_ASSERT_EQUAL(results[0].n, sum.n);
    CU_ASSERT_EQUAL(stem_value_at(x.p, results[1])->version, 1);
    CU_ASSERT_EQUAL(stem_op_n_inout(&x.p->ops.at[0]), 1);
    CU_ASSERT_EQUAL(x.p->ops.at[0].cost.bytes_read, 32 + 16);
    CU_ASSERT_EQUAL(x.p->ops.at[0].cost.bytes_written, 4 + 32);
    CU_ASSERT_EQUAL(x.p->ops.at[0].cost.blocks, 2);
    /* a view of the new version belongs to the op that wrote it */
    struct stem_value_id again =
        stem_build_view(&x.b, results[1], stem_intern(x.strings, "flat"), 0, 1, (int64_t[]){8}, (int64_t[]){1});
    CU_ASSERT_EQUAL(stem_value_def(x.p, again).n, 0);
    CU_ASSERT_EQUAL(stem_value_origin(x.p, again).n, results[1].n);
    CU_ASSERT_EQUAL(stem_value_def(x.p, whole).n, STEM_NONE);
    CU_ASSERT(stem_value_is_view(x.p, whole));
    CU_ASSERT(!stem_value_is_view(x.p, results[1]));
    x.b.segment = 1;
    x.b.layer = STEM_NONE;
    x.b.pin = STEM_NO_STREAM;
    x.b.after = &first;
    x.b.n_after = 1;
    name(&x, "sent");
    struct stem_input out[1] = {{again, STEM_MODE_IN, STEM_NOWHERE}};
    stem_build_call(&x.b, 1, out, 1, NULL, 0, NULL, NULL, 0, results);
    struct stem_tensor t[STEM_MAX_OPERANDS];
    struct stem_concrete c;
    stem_op_concrete(x.p, &x.p->ops.at[0], t, &c);
    CU_ASSERT_EQUAL(c.n_in, 2);
    CU_ASSERT_EQUAL(c.n_out, 1); /* the next version is its input's memory and not listed again */
    CU_ASSERT_EQUAL(t[2].dim[0], 1);
    same_program(&x, "program \"test\";\n"
                     "stream s0 \"main\";\n"
                     "stream s1 \"side\" priority 3;\n"
                     "segment g0;\n"
                     "segment g1 eager;\n"
                     "layer l0 \"attention[0]\";\n"
                     "kernel d0 \"store\" waits params \"float *cache, const float *k, float *sum, int at\" body\n"
                     "    \"cache[at] = k[0]; // \\\"}\\\"\\n\"\n"
                     "    \"sum[0] = 1;\\n\";\n"
                     "extern d1 \"send\" library \"libx.so\";\n"
                     "buffer b0 state \"cache\" f32[8];\n"
                     "value v0 \"cache\" b0;\n"
                     "buffer b1 input \"k\" f32[4] inout;\n"
                     "value v1 \"k\" b1;\n"
                     "buffer b2 temp \"sum\" f32[1];\n"
                     "value v2 \"sum\" b2;\n"
                     "value v3 \"grid\" b0 f32[2, 4] view v0;\n"
                     "value v4 \"c\" b0 f32[2, 4] next v3;\n"
                     "op o0 v4, v2 = d0(inout v3, consume v1) scalars i32 -3, f32 0.10000000149011612 grid [2, 1, 1] "
                     "block [32, 1, 1] smem 64 name \"c\" layer l0 pin s1 priority -2 resource \"link\";\n"
                     "value v5 \"flat\" b0 view v4;\n"
                     "op o1 d1(v5) name \"sent\" segment g1 priority -2 resource \"link\" after o0;\n");
    teardown(&x);
}

static void moving_results(void)
{
    struct bench x;
    setup(&x);
    struct stem_value_id h = buffer(&x, STEM_BUFFER_INPUT, "h", STEM_BF16, 4, 64);
    struct stem_value_id w = buffer(&x, STEM_BUFFER_WEIGHT, "w", STEM_BF16, 0, 64);
    struct stem_value_id out = buffer(&x, STEM_BUFFER_OUTPUT, "out", STEM_BF16, 4, 64);
    struct stem_value_id small = buffer(&x, STEM_BUFFER_OUTPUT, "small", STEM_BF16, 2, 64);
    struct stem_value_id y = norm(&x, "y", h, w);
    struct stem_value_id rows =
        stem_build_view(&x.b, y, stem_intern(x.strings, "y[0:2]"), 0, 2, (int64_t[]){2, 64}, (int64_t[]){64, 1});
    CU_ASSERT(!stem_build_can_move(&x.b, h, out));      /* the caller's */
    CU_ASSERT(!stem_build_can_move(&x.b, rows, small)); /* a part */
    CU_ASSERT(!stem_build_can_move(&x.b, y, small));
    CU_ASSERT(stem_build_can_move(&x.b, y, out));
    stem_build_move(&x.b, y, out);
    CU_ASSERT(!stem_build_can_move(&x.b, y, out)); /* there already */
    CU_ASSERT_EQUAL(stem_value_at(x.p, y)->tensor.buffer, 2);
    CU_ASSERT_EQUAL(stem_value_at(x.p, rows)->tensor.buffer, 2);
    CU_ASSERT_EQUAL(stem_value_def(x.p, out).n, 0); /* who holds `out` reads y */
    const char *fault = stem_program_check(x.p);
    UNIT_SAME_TEXT(fault ? fault : "", "");
    teardown(&x);
}

/* ---- type rules ---- */

static const struct {
    const char *op;
    const char *in[7];  /* types */
    const char *attr;   /* one text attribute, "name=value" */
    const char *result; /* or the diagnostic, which begins with its number */
} rules[] = {
    {"rmsnorm", {"bf16[T, 64]", "bf16[64]"}, NULL, "bf16[T, 64]"},
    {"rmsnorm", {"f32[2, T, 8*T]", "f32[T*8]"}, NULL, "f32[2, T, 8*T]"},
    {"rmsnorm", {"f16[64]", "f32[64]"}, NULL, "f16[64]"},
    {"rmsnorm", {"bf16[T, 64]"}, NULL, "1250 rmsnorm takes 2 operands, not 1"},
    {"rmsnorm", {"bf16[T, 64]", "bf16[64]", "bf16[64]"}, NULL, "1250 rmsnorm takes 2 operands, not 3"},
    {"rmsnorm",
     {"i32[T, 64]", "bf16[64]"},
     NULL,
     "1251 rmsnorm: x must be f32, f16 or bf16; the operand is i32[T, 64]"},
    {"rmsnorm",
     {"bf16[T, 64]", "f16[64]"},
     NULL,
     "1251 rmsnorm: the weight must be bf16, as x is, or f32; the operand is f16[64]"},
    {"rmsnorm",
     {"bf16[T, 64]", "bf16[1, 64]"},
     NULL,
     "1252 rmsnorm: the weight must have one dimension; the operand is bf16[1, 64]"},
    {"rmsnorm",
     {"bf16[]", "bf16[1]"},
     NULL,
     "1252 rmsnorm: x must have a dimension to normalise; the operand is bf16[]"},
    {"rmsnorm",
     {"bf16[T, 64]", "bf16[T]"},
     NULL,
     "1253 rmsnorm: the weight must have x's last size, 64; the operand is bf16[T]"},
    {"rmsnorm", {"bf16[T, 64]", "bf16[64]"}, "eps=-1", "1254 rmsnorm: eps = -1 must not be negative"},
    {"rmsnorm", {"bf16[T, 64]", "-"}, NULL, "1250 rmsnorm needs its operand 'weight'"},
    {"silu_mul", {"bf16[T, 64]"}, NULL, "bf16[T, 32]"},
    {"silu_mul", {"f32[4*T]"}, NULL, "f32[2*T]"},
    {"silu_mul", {"bf16[T, 63]"}, NULL, "1253 silu_mul: the last size of x must be even; the operand is bf16[T, 63]"},
    {"silu_mul", {"bf16[64, T]"}, NULL, "1253 silu_mul: the last size of x must be even; the operand is bf16[64, T]"},
    {"silu_mul", {"u8[64]"}, NULL, "1251 silu_mul: x must be f32, f16 or bf16; the operand is u8[64]"},
    {"silu_mul", {"f32[]"}, NULL, "1252 silu_mul: x must have a dimension to halve; the operand is f32[]"},
    {"embed", {"i32[T]", "bf16[1000, 64]"}, NULL, "bf16[T, 64]"},
    {"embed", {"i64[T]", "f8e4m3[1000, 64]"}, NULL, "f8e4m3[T, 64]"},
    {"embed", {"f32[T]", "bf16[1000, 64]"}, NULL, "1251 embed: the ids must be i32 or i64; the operand is f32[T]"},
    {"embed",
     {"i32[T, 1]", "bf16[1000, 64]"},
     NULL,
     "1252 embed: the ids must have one dimension; the operand is i32[T, 1]"},
    {"embed",
     {"i32[T]", "bf16[1000]"},
     NULL,
     "1252 embed: the table must have two dimensions; the operand is bf16[1000]"},
    {"embed",
     {"i32[T]", "nvfp4[1000, 64]"},
     NULL,
     "1251 embed: the table cannot be nvfp4; the operand is nvfp4[1000, 64]"},
    {"rope", {"bf16[T, 4, 64]", "i32[T]"}, NULL, "bf16[T, 4, 64]"},
    {"rope", {"f32[T, 65]", "i64[T]"}, "size=64", "f32[T, 65]"},
    {"rope", {"u8[T, 64]", "i32[T]"}, NULL, "1251 rope: x must be f32, f16 or bf16; the operand is u8[T, 64]"},
    {"rope", {"bf16[T, 64]", "f32[T]"}, NULL, "1251 rope: the positions must be i32 or i64; the operand is f32[T]"},
    {"rope", {"bf16[T]", "i32[T]"}, NULL, "1252 rope: x must be [T, D] or [T, heads, D]; the operand is bf16[T]"},
    {"rope", {"bf16[T, 64]", "i32[T, 1]"}, NULL, "1252 rope: the positions must have one dimension; the operand is i32[T, 1]"},
    {"rope", {"bf16[T, 64]", "i32[8]"}, NULL, "1253 rope: there must be a position for each of x's T rows; the operand is i32[8]"},
    {"rope", {"bf16[T, T]", "i32[T]"}, NULL, "1253 rope: the last size of x must be a constant; the operand is bf16[T, T]"},
    {"rope", {"bf16[T, 65]", "i32[T]"}, NULL, "1254 rope: size = 65 must be even, at least 2, at most x's last size, 65, and 1024"},
    {"rope", {"bf16[T, 64]", "i32[T]"}, "base=1", "1254 rope: base = 1 must be more than 1"},
    {"rope", {"bf16[T, 64]", "i32[T]"}, "factor=0.5", "1254 rope: factor = 0.5 must be at least 1"},
    {"norm_linear", {"bf16[T, 64]", "f32[64]", "bf16[32, 64]"}, "out=f32", "f32[T, 32]"},
    {"norm_linear", {"bf16[T, 64]", "f16[64]", "bf16[32, 64]"}, NULL,
     "1251 norm_linear: the norm's weight is of x's type or f32; the operand is f16[64]"},
    {"norm_linear", {"bf16[T, 64]", "bf16[64]", "f16[32, 64]"}, NULL,
     "1251 norm_linear: w is of x's type; the operand is f16[32, 64]"},
    {"norm_linear", {"bf16[T, 64]", "bf16[64]", "bf16[2, 32, 64]"}, NULL,
     "1252 norm_linear takes x[.., K], the norm's weight [K] and w[N, K]; the operand is bf16[2, 32, 64]"},
    {"norm_linear", {"bf16[T, 64]", "bf16[48]", "bf16[32, 64]"}, NULL,
     "1253 norm_linear: the last sizes differ from x's; the operand is bf16[48]"},
    {"norm_linear", {"bf16[T, 64]", "bf16[64]", "bf16[32, 64]"}, "out=u8",
     "1254 norm_linear: out is bf16, f16 or f32, not u8"},
    {"heads_linear", {"bf16[T, 4, 64]", "bf16[4, 32, 64]"}, NULL, "bf16[T, 4, 32]"},
    {"heads_linear", {"bf16[T, 4, 64]", "bf16[4, 64, 32]"}, "transposed=1", "bf16[T, 4, 32]"},
    {"heads_linear", {"bf16[T, 4, 64]", "bf16[4, 32, 64]"}, "out=f32", "f32[T, 4, 32]"},
    {"heads_linear", {"bf16[T, 4, 64]", "bf16[4, 32, 64]"}, "out=u8", "1254 heads_linear: out is bf16, f16 or f32, not u8"},
    {"heads_linear",
     {"bf16[T, 4, 64]", "f16[4, 32, 64]"},
     NULL,
     "1251 heads_linear: w must be bf16, as x is; the operand is f16[4, 32, 64]"},
    {"heads_linear", {"bf16[T, 64]", "bf16[4, 32, 64]"}, NULL, "1252 heads_linear: x must be x[T, H, K]; the operand is bf16[T, 64]"},
    {"heads_linear", {"bf16[T, 4, 64]", "bf16[4, 32]"}, NULL, "1252 heads_linear: w must be w[H, N, K]; the operand is bf16[4, 32]"},
    {"heads_linear",
     {"bf16[T, 4, 64]", "bf16[5, 32, 64]"},
     NULL,
     "1253 heads_linear: w[H, N, K] must have x's 4 heads; the operand is bf16[5, 32, 64]"},
    {"heads_linear",
     {"bf16[T, 4, 64]", "bf16[4, 32, 64]"},
     "transposed=1",
     "1253 heads_linear: K of w[H, K, N] must be x's last size, 64; the operand is bf16[4, 32, 64]"},
    {"gqa_store", {"bf16[9, 64, 4, 128]", "bf16[9, 64, 4, 128]", "bf16[T, 40, 128]", "bf16[128]", "bf16[128]", "i32[T]", "i32[T]"}, NULL, "bf16[T, 32, 128]"},
    {"gqa_store", {"bf16[9, 64, 4, 128]", "bf16[9, 64, 4, 128]", "bf16[T, 40, 128]", "-", "-", "i64[T]", "i32[T]"}, NULL, "bf16[T, 32, 128]"},
    {"gqa_store",
     {"bf16[9, 64, 4, 128]", "bf16[9, 64, 4, 128]", "f16[T, 40, 128]", "-", "-", "i64[T]", "i32[T]"},
     NULL,
     "1251 gqa_store: k must be f16, as x is; the operand is bf16[9, 64, 4, 128]"},
    {"gqa_store",
     {"bf16[9, 64, 4, 128]", "bf16[9, 64, 4, 128]", "bf16[T, 40, 128]", "-", "-", "i64[T]", "i64[T]"},
     NULL,
     "1251 gqa_store: slot must be i32; the operand is i64[T]"},
    {"gqa_store",
     {"bf16[9, 64, 4, 128]", "bf16[9, 64, 4, 128]", "bf16[T, 5120]", "-", "-", "i64[T]", "i32[T]"},
     NULL,
     "1252 gqa_store takes k and v[pages, page, G, D], x[T, H + 2G, D], q_norm[D], k_norm[D], pos[T], slot[T]; the operand is bf16[T, "
     "5120]"},
    {"gqa_store",
     {"bf16[9, 64, 4, 128]", "bf16[9, 64, 4, 128]", "bf16[T, 8, 128]", "-", "-", "i64[T]", "i32[T]"},
     NULL,
     "1253 gqa_store: x must have more than twice the cache's heads, of an even width of at most 1024, all constants; the operand is "
     "bf16[T, 8, 128]"},
    {"gqa_store",
     {"bf16[9, 64, 4, 128]", "bf16[9, 64, 4, 128]", "bf16[T, 40, 128]", "bf16[64]", "-", "i64[T]", "i32[T]"},
     NULL,
     "1253 gqa_store: a norm must be as wide as a head, 128; the operand is bf16[64]"},
    {"gqa_store",
     {"bf16[9, 64, 4, 128]", "bf16[9, 64, 4, 128]", "bf16[T, 40, 128]", "-", "-", "i64[4]", "i32[T]"},
     NULL,
     "1253 gqa_store: there must be a position and a slot for each of the T tokens; the operand is i64[4]"},
    {"mla_query", {"bf16[T, 4, 192]", "bf16[4, 128, 512]", "i32[T]"}, NULL, "bf16[T, 4, 576]"},
    {"mla_query",
     {"bf16[T, 4, 128]", "bf16[4, 128, 512]", "i32[T]"},
     NULL,
     "1253 mla_query: q must have an even number, at most 1024, of elements more than w has rows, 128; the operand is bf16[T, 4, 128]"},
    {"mla_query",
     {"bf16[T, 4, 192]", "bf16[3, 128, 512]", "i32[T]"},
     NULL,
     "1253 mla_query: w must have q's 4 heads; the operand is bf16[3, 128, 512]"},
    {"mla_query",
     {"bf16[T, 4, 192]", "f16[4, 128, 512]", "i32[T]"},
     NULL,
     "1251 mla_query: w must be bf16, as q is; the operand is f16[4, 128, 512]"},
    {"mla_query",
     {"bf16[T, 4, 192]", "bf16[4, 128, 512]", "i32[4]"},
     NULL,
     "1253 mla_query: there must be a position for each of q's T tokens; the operand is i32[4]"},
    {"mla_query",
     {"bf16[T, 192]", "bf16[4, 128, 512]", "i32[T]"},
     NULL,
     "1252 mla_query: q must be [T, heads, K + R]; the operand is bf16[T, 192]"},
    {"mla_query", {"bf16[T, 4, 192]", "bf16[4, 128, 512]", "i32[T]"}, "factor=0", "1254 mla_query: factor = 0 must be at least 1"},
    {"mla_store", {"bf16[99, 64, 576]", "bf16[T, 576]", "bf16[512]", "i32[T]", "i32[T]"}, NULL, ""},
    {"mla_store",
     {"bf16[99, 64, 576]", "f32[T, 576]", "bf16[512]", "i32[T]", "i32[T]"},
     NULL,
     "1251 mla_store: the cache must be f32, as kv is; the operand is bf16[99, 64, 576]"},
    {"mla_store",
     {"bf16[99, 64, 576]", "bf16[T, 576]", "bf16[512]", "i32[T]", "i64[T]"},
     NULL,
     "1251 mla_store: slot must be i32; the operand is i64[T]"},
    {"mla_store",
     {"bf16[99, 64, 576]", "bf16[T, 576]", "bf16[512]", "i32[T]", "i32[T, 1]"},
     NULL,
     "1252 mla_store takes cache[pages, page, L + R], kv[T, L + R], norm[L], pos[T], slot[T]; the operand is i32[T, 1]"},
    {"mla_store",
     {"bf16[99, 64, 576]", "bf16[T, 512]", "bf16[512]", "i32[T]", "i32[T]"},
     NULL,
     "1253 mla_store: kv must be as wide as the cache, 576; the operand is bf16[T, 512]"},
    {"mla_store",
     {"bf16[99, 64, 576]", "bf16[T, 576]", "bf16[511]", "i32[T]", "i32[T]"},
     NULL,
     "1253 mla_store: kv must have an even number, at most 1024, of elements more than norm, 511; the operand is bf16[T, 576]"},
    {"mla_store",
     {"bf16[99, 64, 576]", "bf16[T, 576]", "bf16[512]", "i32[T]", "i32[4]"},
     NULL,
     "1253 mla_store: there must be a position and a slot for each of the T tokens; the operand is i32[4]"},
    {"mla_store",
     {"bf16[99, 64, 576]", "bf16[T, 576]", "bf16[512]", "i32[T]", "i32[T]"},
     "eps=-1",
     "1254 mla_store: eps = -1 must not be negative"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "bf16[128]", "bf16[128]", "i32[T]", "i32[T]"}, "size=64", ""},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "bf16[128]", "f32[128]", "i32[T]", "i32[T]"}, NULL, "1251 index_store: gain and bias must be of one type, bf16; the operand is f32[128]"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "bf16[128]", "bf16[128]", "i32[T]", "i64[T]"}, NULL, "1251 index_store: slot must be i32; the operand is i64[T]"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 2, 64]", "bf16[128]", "bf16[128]", "i32[T]", "i32[T]"}, NULL, "1252 index_store takes cache[pages, page, D], x[T, D], gain[D], bias[D], pos[T], slot[T]; the operand is bf16[T, 2, 64]"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 64]", "bf16[128]", "bf16[128]", "i32[T]", "i32[T]"}, NULL, "1253 index_store: x must be as wide as the cache, 128; the operand is bf16[T, 64]"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "bf16[64]", "bf16[128]", "i32[T]", "i32[T]"}, NULL, "1253 index_store: gain and bias must be as wide as x, 128; the operand is bf16[64]"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "bf16[128]", "bf16[128]", "i32[T]", "i32[4]"}, NULL, "1253 index_store: there must be a position and a slot for each of the T tokens; the operand is i32[4]"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "bf16[128]", "bf16[128]", "i32[T]", "i32[T]"}, "size=130", "1254 index_store: size = 130 must be even and at most the width of x, 128"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "f32[128]", "f32[128]", "i32[T]", "i32[T]"}, NULL, ""},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "f16[128]", "f16[128]", "i32[T]", "i32[T]"}, NULL,
     "1251 index_store: gain must be bf16, as x is, or f32; the operand is f16[128]"},
    {"index_store", {"bf16[99, 64, 128]", "bf16[T, 128]", "bf16[128]", "bf16[128]", "i32[T]", "i32[T]"}, "eps=-1", "1254 index_store: eps = -1 must not be negative"},
    {"argmax", {"bf16[T, 1000]"}, NULL, "i32[T]"},
    {"argmax", {"f32[7]"}, NULL, "i32[]"},
    {"argmax", {"i32[7]"}, NULL, "1251 argmax: x must be f32, f16 or bf16; the operand is i32[7]"},
    {"argmax", {"f32[]"}, NULL, "1252 argmax: x must have a dimension; the operand is f32[]"},
    {"argmax",
     {"f32[3000000000]"},
     NULL,
     "1253 argmax: indices of the last dim must fit i32; the operand is f32[3000000000]"},
    {"copy", {"nvfp4[T, 64]"}, NULL, "nvfp4[T, 64]"},
    {"pointwise", {"bf16[T, 64]", "f32[64]"}, "expr=i0 i1 add", "f32[T, 64]"},
    {"pointwise", {"bf16[T, 1]", "f32[1, 64]"}, "expr=i0 i1 add", "f32[T, 64]"},
    {"pointwise", {"bf16[]", "f32[T, 64]"}, "expr=i0 i1 add", "f32[T, 64]"},
    {"pointwise", {"i32[2, 1, T]", "u8[3, 1]"}, "expr=i0 i1 add", "f32[2, 3, T]"},
    {"pointwise",
     {"bf16[T, 64]", "f32[T]"},
     "expr=i0 i1 add",
     "1253 a size of this operand is T where others have 64; the operand is f32[T]"},
    {"pointwise", {"bf16[T, 64]"}, "expr=i0 i1 add", "1250 pointwise: the expression has 2 operands, not 1"},
    {"pointwise",
     {"bf16[T, 64]"},
     "expr=i0 add",
     "1254 pointwise: 'i0 add' is not an expression: an operation without arguments"},
    {"pointwise",
     {"nvfp4[T, 64]"},
     "expr=i0 neg",
     "1251 pointwise: an operand cannot be nvfp4; the operand is nvfp4[T, 64]"},
    {"pointwise", {"f32[T]"}, "dtype=f12", "1254 pointwise: dtype = f12 is not a dtype"},
    {"pointwise", {"f32[T]"}, NULL, "1254 pointwise needs the attribute 'expr'"},
};

/* "bf16[T, 8*T]": sizes are N, T, N*T or T*N. */
static struct stem_type parse_type(struct stem_strtab *s, struct stem_dims *d, const char *text)
{
    struct stem_type t = {.dtype = STEM_N_DTYPES};
    char dtype[16] = {0};
    size_t n = strcspn(text, "[");
    if (*text == '-')
        return t;
    memcpy(dtype, text, n);
    t.dtype = stem_dtype_from_name(dtype);
    for (const char *p = text + n + 1; *p && *p != ']';) {
        struct stem_dim dim = stem_dim_const(d, 1);
        for (; *p && *p != ',' && *p != ']'; p += *p == '*' || *p == ' ') {
            char *end = (char *)p + 1;
            struct stem_dim f =
                *p == 'T' ? stem_dim_symbol(d, stem_intern(s, "T"), 1, 64) : stem_dim_const(d, strtoll(p, &end, 10));
            dim = stem_dim_op(d, STEM_DIM_MUL, dim, f);
            p = end;
        }
        t.dim[t.rank++] = dim;
        p += *p == ',';
        p += *p == ' ';
    }
    return t;
}

static void set_attr(const struct stem_op_def *def, struct stem_attr *attrs, const char *text)
{
    char key[24] = {0};
    const char *value = strchr(text, '=') + 1;
    memcpy(key, text, (size_t)(value - text) - 1);
    struct stem_attr *a = (struct stem_attr *)stem_op_attr(def, attrs, key);
    a->text = value;
    a->f = a->kind == STEM_ATTR_FLOAT ? atof(value) : 0;
    a->i = a->kind == STEM_ATTR_INT ? atoi(value) : 0;
}

static void type_rules(void)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct stem_strtab *s = stem_strtab_new();
        struct stem_dims *d = stem_dims_new();
        struct stem_diags *q = stem_diags_new(0);
        const struct stem_op_def *def = stem_op_find(rules[i].op);
        struct stem_attr attrs[STEM_MAX_ATTRS];
        struct stem_type in[7];
        struct stem_span spans[7] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}, {13, 14}};
        struct stem_infer c = {.dims = d, .strings = s, .diags = q, .operand_span = spans, .in = in, .attrs = attrs};
        struct stem_out o = {0};
        stem_op_attr_defaults(def, attrs);
        if (!strcmp(def->name, "pointwise")) {
            attrs[0].text = rules[i].attr ? "i0" : NULL;
            attrs[1].text = "f32";
        }
        if (rules[i].attr)
            set_attr(def, attrs, rules[i].attr);
        for (; c.n_in < 7 && rules[i].in[c.n_in]; c.n_in++)
            in[c.n_in] = parse_type(s, d, rules[i].in[c.n_in]);
        bool fine = stem_op_infer(def, &c);
        CU_ASSERT_EQUAL(fine, stem_diags_errors(q) == 0);
        if (fine && c.n_out)
            stem_type_print(d, s, &c.out[0], &o);
        else if (!fine)
            stem_out_printf(&o, "%u %s", stem_diags_get(q, 0)->id, stem_diags_get(q, 0)->text);
        UNIT_SAME_TEXT(stem_out_text(&o), rules[i].result);
        stem_out_free(&o);
        stem_diags_free(q);
        stem_dims_free(d);
        stem_strtab_free(s);
    }
}

static void modes(void)
{
    struct bench x;
    setup(&x);
    struct stem_value_id h = buffer(&x, STEM_BUFFER_INPUT, "h", STEM_BF16, 4, 64), results[STEM_MAX_OPERANDS];
    struct stem_input in = {h, STEM_MODE_INOUT, STEM_NOWHERE};
    CU_ASSERT(!stem_build_op(&x.b, stem_op_find("copy"), &in, 1, NULL, NULL, results));
    UNIT_SAME_TEXT(stem_diags_get(x.diags, 0)->text, "copy does not write its operand 'x' in place");
    CU_ASSERT_EQUAL(x.p->ops.len, 0);
    teardown(&x);
}

static void registry(void)
{
    uint32_t n;
    const struct stem_op_def *const *all = stem_op_all(&n);
    for (uint32_t i = 0; i < n; i++) {
        const struct stem_op_def *d = all[i];
        CU_ASSERT(i == 0 || strcmp(all[i - 1]->name, d->name) < 0);
        CU_ASSERT(stem_op_find(d->name) == d);
        CU_ASSERT(d->infer && d->blurb);
        CU_ASSERT(stem_op_n_results(d) > 0 || d->params[0].mode == STEM_MODE_INOUT); /* else nobody needs it */
        /* a primitive can be costed, lowered and computed; a composite has its expansion */
        CU_ASSERT((d->expand != NULL) != (d->cost && d->lower && d->reference));
        for (uint32_t k = 0; k < d->n_attrs; k++)
            CU_ASSERT(stem_op_attr(d, (const struct stem_attr[STEM_MAX_ATTRS]){{0}}, d->attrs[k].name) != NULL);
    }
    CU_ASSERT_PTR_NULL(stem_op_find("no_such_op"));
    CU_ASSERT_PTR_NULL(stem_op_header("no_such_header"));
    CU_ASSERT(strstr(stem_op_header("common"), "griddepcontrol.wait") != NULL);
}

static void many_ops(void)
{
    struct bench x;
    setup(&x);
    enum { N = 100000 };
    struct stem_value_id h = buffer(&x, STEM_BUFFER_INPUT, "h", STEM_BF16, 4, 64);
    struct stem_value_id w = buffer(&x, STEM_BUFFER_WEIGHT, "w", STEM_BF16, 0, 64);
    for (uint32_t i = 0; i < N; i++) {
        x.b.name = stem_intern_printf(x.strings, "layer[%u].x", i);
        h = stem_build_simple(&x.b, "rmsnorm", (struct stem_value_id[]){h, w}, 2, NULL, 0);
    }
    CU_ASSERT_EQUAL(x.p->ops.len, N);
    CU_ASSERT_PTR_NULL(stem_program_check(x.p));
    teardown(&x);
}

UNIT_MAIN("ir", {"ops, views and copies", ops_and_copies}, {"calls and versions", calls_and_versions},
          {"results move into outputs", moving_results}, {"type rules", type_rules}, {"modes", modes},
          {"registry", registry}, {"a hundred thousand ops", many_ops})
