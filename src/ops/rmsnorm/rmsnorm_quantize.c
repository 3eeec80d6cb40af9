/* SPDX-License-Identifier: Apache-2.0
 *
 * rmsnorm_quantize and rmsnorm_quantize_keep: rmsnorm, then quantize_f8 of the result, in one launch. The fuse pass makes
 * them where products in f8e4m3 read what a rmsnorm makes; the second one keeps that for its other readers.
 */
#include "ops/rmsnorm/rmsnorm.h"

#include <stdlib.h>

#include "ops/linear/format.h"
#include "ops/quantize_f8/quantize_f8.h"
#include "ops/rule.h"

static bool keeps(const struct stem_op_def *def)
{
    return def == &stem_op_rmsnorm_quantize_keep;
}

static bool infer_into(struct stem_infer *c, struct stem_type *code, struct stem_type *scale)
{
    if (!stem_op_rmsnorm.infer(c))
        return false;
    struct stem_type y = c->out[0];
    stem_quantize_f8_types(c, &y, code, scale);
    return true;
}

static bool infer(struct stem_infer *c)
{
    return infer_into(c, &c->out[0], &c->out[1]);
}

static bool infer_keep(struct stem_infer *c)
{
    return infer_into(c, &c->out[1], &c->out[2]);
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    const struct stem_tensor *x = &c->operand[0];
    uint64_t elements = stem_tensor_elements(x);
    *cost = (struct stem_cost){
        .bytes_read = elements * stem_dtype_bits(x->dtype) / 8 + stem_tensor_extent(&c->operand[1]),
        .flops = 7 * elements,
        .blocks = (uint32_t)(elements / (uint64_t)x->dim[x->rank - 1])};
    for (uint32_t i = c->n_in; i < c->n_in + c->n_out; i++)
        cost->bytes_written += stem_tensor_extent(&c->operand[i]);
}

/* As rmsnorm is cut: the order of the squares is the same. */
static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1];
    struct stem_tensor y = {.dtype = x->dtype};
    const struct stem_tensor xwy[] = {*x, *w, keeps(c->def) ? c->operand[2] : y};
    struct stem_norm_shape s = stem_norm_shape(xwy);
    const struct stem_tensor *code = &c->operand[keeps(c->def) ? 3 : 2];
    bool whole = s.kept && s.width * stem_dtype_bits(x->dtype) == 128 && code->offset % s.width == 0;
    bool keep = keeps(c->def), gaps = !stem_tensor_contiguous(x);
    const char *tx = stem_c_type(x->dtype), *tw = stem_c_type(w->dtype);
    struct stem_out o = {0};
    (void)t;
    stem_out_printf(&o,
                    "(const %s *x, const %s *w, %s%svoid *code, float *scale, long long n, long long blocks, long long step, "
                    "float eps)\n{\n",
                    tx, tw, keep ? tx : "", keep ? " *y, " : "");
    if (gaps)
        stem_norm_print_row(x, "blockIdx.x", &o);
    stem_out_printf(&o,
                    "    stem_rmsnorm_quantize<%s, %s, %u, %u, %s, %s>(x + %s, w, %s, (unsigned char *)code + blockIdx.x * n, "
                    "scale + blockIdx.x * blocks, n, step, eps);\n}\n",
                    tx, tw, s.width, s.kept, whole ? "true" : "false", keep ? "true" : "false",
                    gaps ? "o0" : "blockIdx.x * n", keep ? "y + blockIdx.x * n" : stem_arena_printf(arena, "(%s *)nullptr", tx));
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_kernel_name(arena, "stem_rmsnorm_quantize_", o.text, o.len),
        .headers = {"common", "stream", "formats", "quantize_f8", "rmsnorm", "rmsnorm_quantize"},
        .grid = {s.rows, 1, 1},
        .block = {s.threads, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = x->dim[x->rank - 1]},
                    {.kind = STEM_SCALAR_I64, .i = (x->dim[x->rank - 1] + STEM_F8_BLOCK - 1) / STEM_F8_BLOCK},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[x->rank - 1]},
                    {.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f}},
        .n_scalars = 4,
        .waits = true,
        .ahead = true,
    };
    l->code = stem_arena_printf(arena, "extern \"C\" __global__ void __launch_bounds__(%d)\n%s%s", STEM_NORM_MAX_THREADS,
                                l->kernel, stem_out_text(&o));
    stem_out_free(&o);
}

static void reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *x = &c->operand[0];
    struct stem_tensor y = {.dtype = x->dtype, .rank = x->rank};
    uint64_t bytes = stem_tensor_elements(x) * stem_dtype_bits(x->dtype) / 8;
    bool keep = keeps(c->def);
    void *kept = keep ? data[2] : stem_xmalloc(bytes);
    int64_t stride = 1;
    for (uint32_t d = x->rank; d-- > 0; stride *= x->dim[d]) {
        y.dim[d] = x->dim[d];
        y.stride[d] = stride;
    }
    const struct stem_tensor norm[] = {*x, c->operand[1], y};
    const struct stem_tensor quantize[] = {y, c->operand[c->n_in + c->n_out - 2], c->operand[c->n_in + c->n_out - 1]};
    struct stem_concrete first = {
        .def = &stem_op_rmsnorm, .operand = norm, .n_in = 2, .n_out = 1, .attrs = c->attrs, .n_attrs = c->n_attrs};
    struct stem_concrete then = {.def = &stem_op_quantize_f8, .operand = quantize, .n_in = 1, .n_out = 2};
    stem_rmsnorm_reference(&first, (void *[]){data[0], data[1], kept});
    stem_quantize_f8_reference(&then, (void *[]){kept, data[c->n_in + c->n_out - 2], data[c->n_in + c->n_out - 1]});
    if (!keep)
        free(kept);
}

const struct stem_op_def stem_op_rmsnorm_quantize = {
    .name = "rmsnorm_quantize",
    .blurb = "rmsnorm, then quantize_f8 of the result",
    .params = {{"x", STEM_MODE_IN, false, true}, {"weight", STEM_MODE_IN, false, false}},
    .n_params = 2,
    .attrs = {{"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL}},
    .n_attrs = 1,
    .results = {"codes", "scale"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = reference,
};

const struct stem_op_def stem_op_rmsnorm_quantize_keep = {
    .name = "rmsnorm_quantize_keep",
    .blurb = "rmsnorm, and quantize_f8 of the result beside it",
    .params = {{"x", STEM_MODE_IN, false, true}, {"weight", STEM_MODE_IN, false, false}},
    .n_params = 2,
    .attrs = {{"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL}},
    .n_attrs = 1,
    .results = {"y", "codes", "scale"},
    .internal = true,
    .infer = infer_keep,
    .cost = cost,
    .lower = lower,
    .reference = reference,
};
