/* SPDX-License-Identifier: Apache-2.0
 *
 * quantize_f8: what linear and experts with weights in f8e4m3 do to x, as an op: for each 128 columns of a row a scale,
 * and codes of e4m3. Both take the result in place of x, with the same bits.
 */
#include "ops/quantize_f8/quantize_f8.h"

#include "ops/linear/format.h"
#include "ops/rule.h"

enum { THREADS = 256 };

void stem_quantize_f8_types(struct stem_infer *c, const struct stem_type *x, struct stem_type *code, struct stem_type *scale)
{
    struct stem_dim up = stem_dim_const(c->dims, STEM_F8_BLOCK - 1), by = stem_dim_const(c->dims, STEM_F8_BLOCK);
    struct stem_dim last = stem_dim_op(c->dims, STEM_DIM_ADD, x->dim[x->rank - 1], up);
    *code = *scale = *x;
    code->dtype = STEM_F8E4M3;
    scale->dtype = STEM_F32;
    scale->dim[x->rank - 1] = stem_dim_op(c->dims, STEM_DIM_DIV, last, by);
}

static bool infer(struct stem_infer *c)
{
    if (!stem_rule_float(c, 0, "quantize_f8: x"))
        return false;
    if (c->in[0].rank < 1)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "quantize_f8: x must have a dimension to quantise");
    stem_quantize_f8_types(c, &c->in[0], &c->out[0], &c->out[1]);
    return true;
}

static uint32_t blocks_of(const struct stem_tensor *scale)
{
    return (uint32_t)((stem_tensor_elements(scale) + THREADS / 32 - 1) / (THREADS / 32));
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    *cost = (struct stem_cost){.bytes_read = stem_tensor_extent(&c->operand[0]),
                               .bytes_written = stem_tensor_extent(&c->operand[1]) + stem_tensor_extent(&c->operand[2]),
                               .flops = 3 * stem_tensor_elements(&c->operand[0]),
                               .blocks = blocks_of(&c->operand[2])};
}

/* A warp for each 128 columns, four for each lane, in accesses of `width` elements. */
static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[0], *code = &c->operand[1], *scale = &c->operand[2];
    uint32_t bytes = stem_dtype_bits(x->dtype) / 8, width = stem_vector_width((uint64_t)x->dim[x->rank - 1], 4);
    (void)t;
    while (width > 1 && (x->offset % (width * bytes) || code->offset % width))
        width /= 2;
    const char *type = stem_c_type(x->dtype);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_arena_printf(arena, "stem_quantize_f8_%s_v%u", stem_dtype_name(x->dtype), width),
        .headers = {"common", "stream", "formats", "quantize_f8"},
        .grid = {blocks_of(scale), 1, 1},
        .block = {THREADS, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = (int64_t)stem_tensor_elements(scale) / scale->dim[scale->rank - 1]},
                    {.kind = STEM_SCALAR_I64, .i = x->dim[x->rank - 1]}},
        .n_scalars = 2,
        .waits = true,
        .ahead = true,
    };
    l->code = stem_arena_printf(arena,
                                "extern \"C\" __global__ void __launch_bounds__(%d)\n"
                                "%s(const %s *x, void *code, float *scale, long long rows, long long k)\n"
                                "{\n"
                                "    stem_quantize_f8<%s, %u>(x, (unsigned char *)code, scale, rows, k);\n"
                                "}\n",
                                THREADS, l->kernel, type, type, width);
}

const struct stem_op_def stem_op_quantize_f8 = {
    .name = "quantize_f8",
    .blurb = "codes of f8e4m3 and a scale for each 128 columns of a row, as linear and experts in f8e4m3 take x",
    .params = {{"x", STEM_MODE_IN, false, false}},
    .n_params = 1,
    .results = {"codes", "scale"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_quantize_f8_reference,
};
