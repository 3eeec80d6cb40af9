/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel of every op compiles with NVRTC, and its launch fits the architecture: threads, shared memory, grid. For sm_90; with
 * STEM_ALL_ARCHS set, which takes minutes, for each architecture that is supported. Skipped (77) where there is no NVRTC.
 */
#include <stdlib.h>

#include "unit.h"

#include "emit/emit.h"
#include "ir/build.h"
#include "runtime/mainstem_rt.h"

/* A call of an op: operands as "bf16[4,256] f32[256] -" (- is absent, inout: written in place), attributes as "k=8 score=sigmoid". */
struct call {
    const char *op, *operands, *attrs;
};

static const struct call calls[] = {
    /* first, so that it needs all of its headers itself */
    {"experts", "bf16[2,512] i32[2,2] f32[2,2] int4[5,512,512] int4[5,512,256] bf16[5,512,16] bf16[5,512,8]", "act=relu"},
    /* decode shapes of a mixture on one of 8 ranks, by number of tokens */
    {"linear", "bf16[1,7168] bf16[384,7168]", "out=f32"},
    {"linear", "bf16[4,7168] bf16[512,7168]", ""},
    {"linear", "bf16[16,7168] bf16[384,7168]", ""},
    {"linear", "bf16[32,7168] bf16[384,7168]", ""},
    {"linear", "bf16[64,7168] bf16[384,7168]", ""},
    {"linear", "bf16[200,7168] bf16[512,7168]", ""},
    {"matmul", "bf16[200,7168] bf16[512,7168]", "out=f32"}, /* no kernel */
    {"linear", "bf16[64,256] bf16[7168,256]", ""},
    {"linear", "bf16[1,256] bf16[7168,256]", ""},
    {"linear", "f16[2,3,64] f16[100000,64]", "out=f16"},
    {"linear", "f16[5,40] f16[3,40]", ""},
    {"linear", "bf16[5,41] bf16[3,41]", ""},
    {"linear", "f32[5,64] f32[30,64]", "out=bf16"},
    {"norm_linear", "bf16[1,7168] bf16[7168] bf16[384,7168]", "out=f32"},
    {"norm_linear", "bf16[1,7168] bf16[7168] bf16[20480,7168]", "out=f32 eps=1e-5"},
    {"norm_linear", "bf16[11,7168] bf16[7168] bf16[2112,7168]", ""},
    {"norm_linear", "f16[2,3,64] f16[64] f16[1000,64]", ""},
    {"norm_linear", "bf16[64,2048] bf16[2048] bf16[512,2048]", ""},
    {"norm_linear", "bf16[4,2048] f32[2048] bf16[512,2048]", ""},
    {"norm_linear", "bf16[5,41] bf16[41] bf16[3,41]", ""},
    {"norm_linear", "f32[5,64] f32[64] f32[30,64]", "out=bf16"},
    {"norm_linear", "bf16[2,1536] bf16[1536] bf16[512,1536]", "halves=1 then=i0_silu_i1_mul then_of=bf16 then_type=bf16"},
    {"norm_linear", "bf16[1,7168] bf16[7168] bf16[384,7168] bf16[1,384]", "then=i1_i0_add then_of=bf16 then_type=bf16"},
    {"heads_linear", "bf16[1,8,128] bf16[8,128,512]", "transposed=1"},
    {"heads_linear", "f16[64,16,128] f16[16,128,512]", "transposed=1 out=f32"},
    {"heads_linear", "bf16[16,8,512] bf16[8,128,512]", ""},
    {"heads_linear", "bf16[64,8,512] bf16[8,128,512]", ""},
    {"heads_linear", "bf16[4,3,30] bf16[3,7,30]", ""},
    {"heads_linear", "f32[4,3,30] f32[3,30,7]", "transposed=1"},
    {"rope", "bf16[4,8,192] i32[4]", "size=64 interleaved=1 factor=40 mscale_all=1"},
    {"rope", "bf16[4,32,128] i32[4]", "base=1e6"},
    {"rope", "f16[4,96] i64[4]", "size=32 at=first"},
    {"rope", "f32[4,21] i64[4]", "size=6 interleaved=1"},
    {"linear", "bf16[4,7168] bf16[512,7168] - - -", "halves=1 then=i0_silu_i1_mul then_of=bf16 then_type=bf16"},
    {"linear", "f32[5,64] f32[30,64] - - - f32[5,15] bf16[15]",
     "halves=1 then=i0_i1_mul_i2_add_i3_sub then_of=f32 then_type=f16"},
    {"linear", "bf16[64,256] bf16[7168,256] - - - bf16[64,7168] f32[7168]",
     "then=i0_i1_add_as:bf16_i2_add then_of=bf16 then_type=bf16"},
    {"linear", "bf16[1,7168] bf16[384,7168] - - - bf16[1,384]", "out=f32 then=i1_i0_sub then_of=f32 then_type=bf16"},
    {"experts_down", "bf16[4,8,256] i32[4,8] f32[4,8] bf16[384,7168,256] - - bf16[4,7168] bf16[4,7168]",
     "then=i1_i0_add_as:bf16_i2_add then_of=bf16 then_type=bf16"},
    {"experts_down", "f32[4,2,30] i32[4,2] f32[4,2] f32[8,12,30] - - f32[12]", "then=i0_i1_add then_of=f32 then_type=f32"},
    {"gqa_store", "inout:bf16[9,64,4,128] inout:bf16[9,64,4,128] bf16[2,40,128] bf16[128] bf16[128] i32[2] i32[2]", "base=1e6"},
    {"gqa_store", "inout:f16[9,64,1,96] inout:f16[9,64,1,96] f16[2,10,96] - - i64[2] i32[2]", "interleaved=1"},
    {"gqa_store", "inout:f32[9,64,2,64] inout:f32[9,64,2,64] f32[2,10,64] - f32[64] i64[2] i32[2]", "factor=2"},
    {"mla_query", "bf16[1,8,192] bf16[8,128,512] i32[1]", "interleaved=1 factor=40"},
    {"mla_query", "f16[64,16,192] f16[16,128,512] i64[64]", ""},
    {"mla_query", "bf16[64,2,42] bf16[2,32,48] i32[64]", "interleaved=1"},
    {"mla_query", "f32[3,2,42] f32[2,32,48] i32[3]", ""},
    {"mla_store", "inout:bf16[99,64,576] bf16[4,576] bf16[512] i32[4] i32[4]", "interleaved=1 factor=40"},
    {"mla_store", "inout:f16[99,64,8256] f16[4,8256] f16[8192] i64[4] i32[4]", ""},
    {"mla_store", "inout:f32[9,5,21] f32[4,21] f32[15] i32[4] i32[4]", ""},
    {"experts", "bf16[1,7168] i32[1,8] f32[1,8] bf16[384,512,7168] bf16[384,7168,256]", ""},
    {"experts", "bf16[64,7168] i32[64,8] f32[64,8] bf16[384,512,7168] bf16[384,7168,256]", ""},
    {"experts", "bf16[1,2048] i32[1,6] f32[1,6] bf16[64,2816,2048] bf16[64,2048,1408]", ""},
    {"experts", "bf16[3,4096] i32[3,6] f32[3,6] bf16[64,2816,4096] bf16[64,4096,1408]", ""},
    {"experts", "bf16[64,2048] i32[64,6] f32[64,6] bf16[64,2816,2048] bf16[64,2048,1408]", ""},
    {"experts", "bf16[300,512] i32[300,3] f32[300,3] bf16[7,48,512] bf16[7,512,24]", "act=gelu"},
    {"experts", "f16[4,64] i32[4,2] f32[4,2] f16[8,64,64] f16[8,64,32]", "act=relu"},
    {"experts", "bf16[4,30] i32[4,2] f32[4,2] bf16[8,12,30] bf16[8,30,6]", ""},
    {"experts", "f32[4,64] i32[4,2] f32[4,2] f32[8,64,64] f32[8,64,32]", ""},
    {"linear", "bf16[1,7168] f8e4m3[2048,7168] f32[16,56]", ""},
    {"linear", "bf16[16,16384] f8e4m3[7168,16384] f32[56,128]", "out=f32"},
    {"linear", "bf16[64,1536] f8e4m3[24576,1536] f32[192,12]", ""},
    {"linear", "bf16[5,300] f8e4m3[129,300] f32[2,3]", ""},
    {"linear", "bf16[4,7168] nvfp4[2048,7168] f8e4m3[2048,448] f32[1]", ""},
    {"linear", "bf16[70,1536] nvfp4[24576,1536] f8e4m3[24576,96] f32[1]", ""},
    {"linear", "bf16[5,48] nvfp4[7,48] f8e4m3[7,3] f32[1]", "out=f16"},
    {"linear", "bf16[8,2048] int4[7168,2048] bf16[7168,64]", ""},
    {"linear", "bf16[16,7168] int4[512,7168] bf16[512,224] -", ""},
    {"linear", "bf16[3,96] int4[5,96] bf16[5,3]", ""},
    {"linear", "bf16[3,96] bf16[5,96] - -", ""},
    {"linear", "bf16[4,7168] nvfp4[512,7168] f8e4m3[512,448] f32[1] -",
     "halves=1 then=i0_silu_i1_mul then_of=bf16 then_type=bf16"},
    {"linear", "bf16[4,512] f8e4m3[7168,512] f32[56,4] - - bf16[4,7168]",
     "then=i0_i1_add then_of=bf16 then_type=bf16"},
    {"experts_down", "bf16[4,8,256] i32[4,8] f32[4,8] int4[384,7168,256] bf16[384,7168,8] - bf16[4,7168]",
     "then=i1_i0_add then_of=bf16 then_type=bf16"},
    {"experts", "bf16[1,7168] i32[1,8] f32[1,8] f8e4m3[384,512,7168] f8e4m3[384,7168,256] f32[384,4,56] f32[384,56,2]", ""},
    {"experts", "bf16[64,7168] i32[64,8] f32[64,8] f8e4m3[256,512,7168] f8e4m3[256,7168,256] f32[256,4,56] f32[256,56,2]", ""},
    {"experts_down", "f8e4m3[64,8,256] i32[64,8] f32[64,8] f8e4m3[256,7168,256] f32[256,56,2] f32[64,8,2]", ""},
    {"experts", "bf16[64,512] i32[64,3] f32[64,3] f8e4m3[7,48,512] f8e4m3[7,512,24] f32[7,2,4] f32[7,4,1]", "act=gelu"},
    {"experts",
     "bf16[4,7168] i32[4,8] f32[4,8] nvfp4[384,512,7168] nvfp4[384,7168,256] f8e4m3[384,512,448] f8e4m3[384,7168,16] "
     "f32[384,2] f32[384]", ""},
    {"experts",
     "bf16[4,48] i32[4,2] f32[4,2] nvfp4[9,32,48] nvfp4[9,48,16] f8e4m3[9,32,3] f8e4m3[9,48,1] f32[9,2] f32[9]", ""},
    {"experts", "bf16[16,7168] i32[16,8] f32[16,8] int4[384,512,7168] int4[384,7168,256] bf16[384,512,224] bf16[384,7168,8]", ""},
    {"experts", "bf16[2,64] i32[2,2] f32[2,2] int4[5,64,64] int4[5,64,32] bf16[5,64,2] bf16[5,64,1]", "act=relu"},
    {"quantize_f8", "bf16[4,7168]", ""},
    {"quantize_f8", "f16[2,3,301]", ""},
    {"quantize_f8", "f32[5,130]", ""},
    {"linear", "f8e4m3[1,7168] f8e4m3[2240,7168] f32[18,56] - f32[1,56]", ""},
    {"linear", "f8e4m3[16,1536] f8e4m3[8192,1536] f32[64,12] - f32[16,12]", ""},
    {"linear", "f8e4m3[64,7168] f8e4m3[512,7168] f32[4,56] - f32[64,56]",
     "halves=1 then=i0_silu_i1_mul then_of=bf16 then_type=bf16"},
    {"linear", "f8e4m3[5,300] f8e4m3[129,300] f32[2,3] - f32[5,3]", "out=f32"},
    {"experts",
     "f8e4m3[1,7168] i32[1,8] f32[1,8] f8e4m3[256,512,7168] f8e4m3[256,7168,256] f32[256,4,56] f32[256,56,2] - - f32[1,56]", ""},
    {"experts",
     "f8e4m3[16,7168] i32[16,8] f32[16,8] f8e4m3[256,512,7168] f8e4m3[256,7168,256] f32[256,4,56] f32[256,56,2] - - f32[16,56]", ""},
    {"experts",
     "f8e4m3[64,512] i32[64,3] f32[64,3] f8e4m3[7,48,512] f8e4m3[7,512,24] f32[7,2,4] f32[7,4,1] - - f32[64,4]", "act=gelu"},
    {"route", "bf16[4,384] f32[384]", "k=8 score=sigmoid"},
    {"route", "f32[64,256] f32[256]", "k=8 score=sigmoid groups=8 top_groups=4 scale=2.5"},
    {"route", "f16[4,60]", "k=4 score=softmax groups=4 top_groups=2 group_score=max renormalize=0"},
    {"route", "f32[1,1024] -", "k=32 score=none"},
    {"route", "f32[1,1024] -", "k=32 score=none group_score=max"}, /* the same kernel: nothing is limited */
    {"route", "bf16[1,8]", "k=1"},
    /* the others, by type and by path */
    {"zero", "", "dtype=f32 d0=3 d1=5"},
    {"rmsnorm", "bf16[4,7168] bf16[7168]", ""},
    {"rmsnorm", "f16[2,3,100] f16[100]", "eps=1e-5"},
    {"rmsnorm", "f32[4,33] f32[33]", ""},
    {"rmsnorm_quantize", "bf16[4,7168] bf16[7168]", ""},
    {"rmsnorm_quantize", "bf16[2,3,100] f32[100]", "eps=1e-5"},
    {"rmsnorm_quantize_keep", "f16[2,520] f16[520]", ""},
    {"rmsnorm_quantize_keep", "f32[4,33] f32[33]", ""},
    {"add_rmsnorm", "bf16[7168] bf16[4,7168] bf16[4,7168]", "expr=i0_i1_add dtype=bf16"},
    {"add_rmsnorm", "f32[4100] f16[4,4100] f16[4100] f16[4,4100]", "expr=i0_i1_add_as:f16_i2_mul dtype=f16"},
    {"add_rmsnorm", "f32[33] f32[4,33] f32[4,33]", "expr=i0_i1_sub dtype=f32 eps=1e-5"},
    {"silu_mul", "bf16[4,512]", ""},
    {"silu_mul", "f32[4,30]", ""},
    {"copy", "bf16[4,512]", ""},
    {"copy", "i64[3,5]", ""},
    {"embed", "i32[4] bf16[100,256]", ""},
    {"argmax", "bf16[4,1000]", ""},
    {"argmax", "f32[4,37]", ""},
    {"argmax", "f32[4,151936]", ""},
    {"argmax", "bf16[4,40960]", ""},
    {"gqa_attention", "bf16[4,32,128] bf16[64,16,4,128] bf16[64,16,4,128] i32[4,16] i32[4]", ""},
    {"gqa_attention", "f32[3,6,80] f32[9,7,2,80] f32[9,7,2,80] i32[3,5] i32[3]", "scale=0.1"},
    {"mla_attention", "bf16[4,16,576] bf16[64,64,576] i32[4,16] i32[4]", "scale=0.07"},
    {"mla_attention", "bf16[4,128,576] bf16[64,64,576] i32[4,16] i32[4] i32[4,256]", "scale=0.07"},
    {"mla_attention", "f16[3,32,576] f16[64,64,576] i32[3,16] i32[3]", "scale=0.07"},
    {"mla_attention", "f16[3,65,512] f16[64,7,512] i32[3,16] i32[3]", "scale=0.07"},
    {"mla_attention", "bf16[1,64,576] bf16[64,64,576] i32[1,16] i32[1]", "scale=0.07"},
    {"mla_attention", "bf16[64,32,576] bf16[64,64,576] i32[64,64] i32[64]", "scale=0.07"},
    {"mla_attention", "bf16[1,64,640] bf16[64,64,640] i32[1,16] i32[1]", "scale=0.07"},
    {"mla_attention", "f16[2,5,72] f16[9,8,72] i32[2,3] i32[2] -", "scale=0.3 latent=48"},
    {"mla_store_part", "bf16[1,8,576] inout:bf16[64,64,576] i32[1,16] i32[1] bf16[1,576] bf16[512] i32[1] i32[1]",
     "rows=8 parts=16 unit=32 latent=512 interleaved=1 factor=40"},
    {"mla_store_part", "f16[20,30,192] inout:f16[64,7,192] i32[20,16] i32[20] f16[20,192] f16[128] i64[20] i32[20]",
     "rows=30 parts=131 unit=32 latent=128"},
    {"norm_query", "bf16[1,2048] bf16[2048] bf16[3648,2048] bf16[16,128,512] i32[1]", "interleaved=1 factor=40"},
    {"norm_query", "bf16[4,1536] bf16[1536] bf16[1536,1536] bf16[8,128,512] i32[4]", "interleaved=1"},
    {"norm_query", "f16[7,1480] f16[1480] f16[1544,1480] f16[8,128,512] i64[7]", ""},
    {"norm_query", "bf16[5,72] f32[72] bf16[31,72] bf16[2,6,5] i32[5]", "row=10"},
    {"attention_heads", "f32[132,8,512] f32[132,8,2] i32[1] bf16[8,128,512]",
     "dtype=bf16 heads=8 parts=132 unit=32 most=4096"},
    {"attention_heads", "f32[142,64,512] f32[142,64,2] i32[6] f16[128,128,512]",
     "dtype=f16 out=f32 heads=128 groups=2 parts=131 unit=32 most=4096 sparse=1"},
    {"attention_heads", "f32[12,5,40] f32[12,5,2] i32[2] bf16[5,30,40]", "dtype=bf16 heads=5 parts=11 unit=32 most=96"},
    {"cache_store", "inout:bf16[64,16,4,128] bf16[4,4,128] i32[4]", ""},
    {"cache_store", "inout:f8e4m3[8,4,33] f8e4m3[4,33] i32[4]", ""},
    {"index_store", "inout:bf16[64,64,128] bf16[4,128] bf16[128] bf16[128] i32[4] i32[4]", "size=64 factor=40 mscale_all=1"},
    {"index_store", "inout:f16[8,4,50] f16[4,50] f32[50] f32[50] i64[4] i32[4]", "interleaved=1"},
    {"index_scores", "bf16[4,64,128] f32[4,64] bf16[64,64,128] i32[4,16] i32[4]", ""},
    {"index_scores", "f16[4,3,40] f16[4,3] f16[64,5,40] i32[4,16] i32[4]", "max_len=70"},
    {"top_k", "f32[4,1024] i32[4]", "k=100"},
    {"top_k", "f32[2,131072]", ""},
    {"top_k", "f32[2,4000000] -", "k=3"},
    {"pointwise", "bf16[4,512] bf16[4,512] bf16[4,512]", "expr=i0_i1_add_i2_add dtype=bf16"},
    {"pointwise", "f32[4,33] f16[4,33]", "expr=i0_i1_silu_mul dtype=f16"},
    {"pointwise", "i64[4,32]", "expr=i0_as:i32 dtype=i32"},
    {"pointwise", "i32[4,33]", "expr=i0_as:u8_as:i64 dtype=i64"},
    {"pointwise", "f32[4,33]", "expr=i0_as:i32_as:u8 dtype=u8"},
};

/* ---- reading the table ---- */

static struct stem_input read_operand(struct stem_builder *b, const char *text, int n)
{
    int64_t dim[STEM_MAX_RANK];
    uint32_t rank = 0;
    if (!strcmp(text, "-"))
        return (struct stem_input){STEM_NO_VALUE, STEM_MODE_IN, STEM_NOWHERE};
    enum stem_mode mode = strncmp(text, "inout:", 6) ? STEM_MODE_IN : STEM_MODE_INOUT;
    text += mode == STEM_MODE_INOUT ? 6 : 0;
    const char *at = strchr(text, '[');
    char type[16];
    snprintf(type, sizeof type, "%.*s", (int)(at - text), text);
    while (*at != ']') {
        char *end;
        dim[rank++] = strtoll(at + 1, &end, 10);
        at = end;
    }
    struct stem_sym name = stem_intern_printf(b->program->strings, "in%d", n);
    enum stem_buffer_kind kind = mode == STEM_MODE_IN ? STEM_BUFFER_INPUT : STEM_BUFFER_STATE;
    struct stem_value_id v = stem_build_buffer(b, kind, name, stem_dtype_from_name(type), rank, dim);
    return (struct stem_input){v, mode, STEM_NOWHERE};
}

static void read_attr(const struct stem_op_def *def, struct stem_attr *attrs, char *text)
{
    char name[32];
    char *value = strchr(text, '=') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(value - text - 1), text);
    struct stem_attr *a = (struct stem_attr *)stem_op_attr(def, attrs, name);
    if (a->kind == STEM_ATTR_TEXT) { /* blanks, which part the attributes, are written _ */
        for (char *c = strchr(text, '='); (c = strchr(c, '_'));)
            *c = ' ';
        a->text = value;
    } else if (a->kind == STEM_ATTR_FLOAT)
        a->f = strtod(value, NULL);
    else
        a->i = strtoll(value, NULL, 10);
}

static struct stem_program *build(const struct call *call, struct stem_strtab *strings, struct stem_dims *dims)
{
    struct stem_diags *diags = stem_diags_new(0);
    struct stem_program *p = stem_program_new(strings, NULL);
    struct stem_builder b = stem_builder_new(p, dims, diags);
    const struct stem_op_def *def = stem_op_find(call->op);
    CU_ASSERT_PTR_NOT_NULL_FATAL(def);
    struct stem_input in[STEM_MAX_OPERANDS];
    struct stem_value_id results[STEM_MAX_OPERANDS];
    struct stem_attr attrs[STEM_MAX_ATTRS];
    uint32_t n = 0;
    char operands[256], given[256], *save;
    snprintf(operands, sizeof operands, "%s", call->operands);
    snprintf(given, sizeof given, "%s", call->attrs);
    for (char *t = strtok_r(operands, " ", &save); t; t = strtok_r(NULL, " ", &save), n++)
        in[n] = read_operand(&b, t, (int)n);
    stem_op_attr_defaults(def, attrs);
    for (char *t = strtok_r(given, " ", &save); t; t = strtok_r(NULL, " ", &save))
        read_attr(def, attrs, t);
    b.name = stem_intern(strings, "r");
    bool built = stem_build_op(&b, def, in, n, attrs, NULL, results);
    if (!built)
        fprintf(stderr, "%s(%s; %s): %s\n", call->op, call->operands, call->attrs, stem_diags_get(diags, 0)->text);
    CU_ASSERT_FATAL(built);
    stem_diags_free(diags);
    return p;
}

/* ---- what is checked ---- */

static void check_launch(const struct call *call, const struct stem_lowered *l, const struct stem_target *t)
{
    uint32_t limit = (t->sm == 80 ? 163u : t->sm == 120 ? 99u : 227u) << 10; /* CUDA C programming guide, by capability */
    uint32_t threads = l->block[0] * l->block[1] * l->block[2];
    bool fits = threads > 0 && threads <= 1024 && l->smem <= limit && l->grid[0] > 0 && l->grid[1] > 0 && l->grid[2] > 0 &&
                l->grid[1] < 65536 && l->grid[2] < 65536;
    if (!fits)
        fprintf(stderr, "%s(%s) on sm_%u: %s: grid %u %u %u, %u threads, %u bytes\n", call->op, call->operands, t->sm,
                l->kernel, l->grid[0], l->grid[1], l->grid[2], threads, l->smem);
    CU_ASSERT(fits);
}

/* Lowers every op of the program; marks them in `seen` (by index in the table of ops). */
static void lower_all(const struct call *call, const struct stem_target *t, struct stem_cuda *unit, bool *seen)
{
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_dims *dims = stem_dims_new();
    struct stem_arena *arena = stem_arena_new();
    struct stem_program *p = build(call, strings, dims);
    uint32_t n;
    const struct stem_op_def *const *all = stem_op_all(&n);
    CU_ASSERT(p->ops.len > 0);
    for (uint32_t i = 0; i < p->ops.len; i++) {
        struct stem_tensor operands[STEM_MAX_OPERANDS];
        struct stem_concrete c;
        struct stem_lowered l;
        const struct stem_op *op = &p->ops.at[i];
        stem_op_concrete(p, op, operands, &c);
        op->def->lower(&c, t, arena, &l);
        for (uint32_t k = 0; k < n; k++)
            seen[k] |= all[k] == op->def || !strcmp(all[k]->name, call->op);
        if (l.work != STEM_WORK_LAUNCH)
            continue;
        check_launch(call, &l, t);
        CU_ASSERT(l.waits);
        CU_ASSERT_PTR_NOT_NULL(strstr(l.code, l.kernel));
        stem_cuda_builtin(unit, &l);
    }
    stem_program_free(p);
    stem_arena_free(arena);
    stem_dims_free(dims);
    stem_strtab_free(strings);
}

/* Compiles it; `option` may be NULL. */
static void compile(const struct stem_cuda *unit, uint32_t sm, const char *option)
{
    struct stem_compiler *compiler;
    struct stem_compiler_options options = {.cache_dir = ""};
    struct stem_rt_error error = {0};
    struct stem_cubin cubin = {0};
    struct stem_out text = {0};
    stem_cuda_print(unit, "all.cu", &text);
    CU_ASSERT_EQUAL_FATAL(stem_compiler_open(&options, &compiler, &error), STEM_OK);
    enum stem_status status = stem_compile(compiler, stem_out_text(&text), "all.cu", sm, &option, option != NULL, &cubin, &error);
    if (status != STEM_OK)
        fprintf(stderr, "sm_%u: %s\n%.4000s\n", sm, error.message, cubin.log ? cubin.log : "");
    CU_ASSERT_EQUAL(status, STEM_OK);
    CU_ASSERT(cubin.bytes > 0);
    stem_cubin_free(&cubin);
    stem_compiler_close(compiler);
    stem_out_free(&text);
}

static void compile_for(uint32_t sm)
{
    bool seen[256] = {false};
    struct stem_cuda *unit = stem_cuda_new();
    struct stem_target target = stem_options_default().target;
    target.sm = sm;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        lower_all(&calls[i], &target, unit, seen);
    uint32_t n;
    const struct stem_op_def *const *all = stem_op_all(&n);
    for (uint32_t k = 0; k < n; k++) {
        if (!seen[k])
            fprintf(stderr, "no call of '%s' in the table\n", all[k]->name);
        CU_ASSERT(seen[k]);
    }
    compile(unit, sm, NULL);
    stem_cuda_free(unit);
}

/* Launches shaped for sm_90 have kernels for later GPUs too, and for an NVRTC that knows no sm_90a. */
static void without_wgmma(void)
{
    bool seen[256] = {false};
    struct stem_cuda *unit = stem_cuda_new();
    struct stem_target target = stem_options_default().target;
    target.sm = 90;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].op, "mla_attention") || !strcmp(calls[i].op, "index_scores") ||
            (strstr(calls[i].operands, "f8e4m3[") && strcmp(calls[i].op, "quantize_f8") != 0))
            lower_all(&calls[i], &target, unit, seen);
    compile(unit, 90, "--gpu-architecture=sm_90");
    compile(unit, 100, NULL);
    stem_cuda_free(unit);
}

static void sm_80(void)
{
    compile_for(80);
}

static void sm_90(void)
{
    compile_for(90);
}

static void sm_100(void)
{
    compile_for(100);
}

static void sm_120(void)
{
    compile_for(120);
}

int main(void)
{
    static const struct unit_test tests[] = {{"sm_90", sm_90}, {"sm_80", sm_80}, {"sm_100", sm_100}, {"sm_120", sm_120},
                                              {"without wgmma", without_wgmma}};
    struct stem_compiler *compiler;
    struct stem_rt_error error;
    uint32_t sm[64];
    if (stem_compiler_open(NULL, &compiler, &error) != STEM_OK)
        return 99;
    uint32_t n = stem_compiler_archs(compiler, sm, 64, &error);
    stem_compiler_close(compiler);
    if (!n) {
        printf("skipped: %s\n", error.message);
        return 77;
    }
    return unit_run("kernels", tests, getenv("STEM_ALL_ARCHS") ? sizeof tests / sizeof tests[0] : 1);
}
