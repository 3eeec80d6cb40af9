/* SPDX-License-Identifier: Apache-2.0
 *
 * rmsnorm: y = x / sqrt(mean(x^2) + eps) * weight over the last dim, in f32, rounded once (Zhang and Sennrich, 2019).
 * x may be a slice with gaps, of a merged projection.
 */
#include "ops/rmsnorm/rmsnorm.h"

#include "ops/rule.h"
#include "ops/strided.h"

enum { MAX_CHUNKS = 4 };

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0], *w = &c->in[1];
    if (!stem_rule_float(c, 0, "rmsnorm: x") || !stem_rule_float(c, 1, "rmsnorm: the weight"))
        return false;
    if (w->dtype != x->dtype && w->dtype != STEM_F32)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "rmsnorm: the weight must be %s, as x is, or f32",
                              stem_dtype_name(x->dtype));
    if (x->rank < 1)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "rmsnorm: x must have a dimension to normalise");
    if (w->rank != 1)
        return stem_rule_fail(c, STEM_E_OP_RANK, 1, "rmsnorm: the weight must have one dimension");
    if (!stem_dim_same(w->dim[0], x->dim[x->rank - 1]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "rmsnorm: the weight must have x's last size, %s",
                              stem_rule_dim(c, x->dim[x->rank - 1]).s);
    if (!stem_rule_eps(c, &stem_op_rmsnorm))
        return false;
    c->out[0] = *x;
    return true;
}

static uint64_t rows(const struct stem_concrete *c)
{
    const struct stem_tensor *x = &c->operand[0];
    return stem_tensor_elements(x) / (uint64_t)x->dim[x->rank - 1];
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t bytes = stem_tensor_extent(&c->operand[2]);
    *cost = (struct stem_cost){.bytes_read = bytes + stem_tensor_extent(&c->operand[1]),
                               .bytes_written = bytes,
                               .flops = 4 * stem_tensor_elements(&c->operand[0]),
                               .blocks = (uint32_t)rows(c)};
}

/* Elements of a 16-byte access to x that the row length and the offsets allow; the weight may be wider. */
static uint32_t chunk(const struct stem_tensor *xwy)
{
    const struct stem_tensor *x = &xwy[0];
    uint32_t width = stem_vector_width((uint64_t)x->dim[x->rank - 1], 128 / stem_dtype_bits(x->dtype));
    for (int i = 0; i < 3; i++)
        while (width > 1 && xwy[i].offset % (width * stem_dtype_bits(xwy[i].dtype) / 8))
            width /= 2;
    for (uint32_t d = 0; d < x->rank; d++) {
        bool last = d + 1 == x->rank;
        if (x->dim[d] > 1 && (last ? x->stride[d] != 1 : x->stride[d] % width != 0))
            width = last ? 1 : stem_vector_width((uint64_t)x->stride[d], width);
    }
    return width;
}

struct stem_norm_shape stem_norm_shape(const struct stem_tensor *xwy)
{
    uint64_t length = (uint64_t)xwy->dim[xwy->rank - 1];
    uint32_t width = chunk(xwy);
    uint64_t chunks = length / width, threads = (chunks + 31) / 32 * 32;
    if (threads > STEM_NORM_MAX_THREADS)
        threads = STEM_NORM_MAX_THREADS;
    uint64_t each = (chunks + threads - 1) / threads;
    return (struct stem_norm_shape){width, (uint32_t)threads, each > MAX_CHUNKS ? 0 : (uint32_t)each,
                                    (uint32_t)(stem_tensor_elements(xwy) / length)};
}

void stem_norm_print_row(const struct stem_tensor *x, const char *row, struct stem_out *o)
{
    struct stem_tensor rows[2] = {*x, {.dtype = x->dtype, .rank = x->rank - 1}};
    struct stem_walk w;
    int64_t stride = 1;
    rows[0].rank--;
    for (uint32_t d = rows[1].rank; d-- > 0; stride *= x->dim[d]) {
        rows[1].dim[d] = x->dim[d];
        rows[1].stride[d] = stride;
    }
    stem_walk_init(&w, rows, 2);
    stem_out_printf(o, "    unsigned long long e = %s;\n", row);
    stem_walk_print(&w, "unsigned long long", o);
}

/* One block for each row. The row is kept in registers, up to MAX_CHUNKS chunks a thread; longer rows are read twice.
 */
static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1];
    struct stem_norm_shape s = stem_norm_shape(c->operand);
    (void)t;
    const char *tx = stem_c_type(x->dtype), *tw = stem_c_type(w->dtype);
    bool gaps = !stem_tensor_contiguous(x);
    struct stem_out o = {0};
    stem_out_printf(&o, "(const %s *x, const %s *w, %s *y, long long n, long long step, float eps)\n{\n", tx, tw, tx);
    if (gaps)
        stem_norm_print_row(x, "blockIdx.x", &o);
    stem_out_printf(&o, "    stem_rmsnorm<%s, %s, %u, %u>(x + %s, w, y + blockIdx.x * n, n, step, eps);\n}\n", tx, tw,
                    s.width, s.kept, gaps ? "o0" : "blockIdx.x * n");
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = gaps ? stem_kernel_name(arena, "stem_rmsnorm_", o.text, o.len)
                       : stem_arena_printf(arena, "stem_rmsnorm_%s_%s_v%u_k%u", stem_dtype_name(x->dtype),
                                           stem_dtype_name(w->dtype), s.width, s.kept),
        .headers = {"common", "rmsnorm"},
        .grid = {s.rows, 1, 1},
        .block = {s.threads, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = x->dim[x->rank - 1]},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[x->rank - 1]},
                    {.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f}},
        .n_scalars = 3,
        .waits = true,
        .ahead = true,
    };
    l->code = stem_arena_printf(arena, "extern \"C\" __global__ void __launch_bounds__(%d)\n%s%s",
                                STEM_NORM_MAX_THREADS,
                                l->kernel, stem_out_text(&o));
    stem_out_free(&o);
}

const struct stem_op_def stem_op_rmsnorm = {
    .name = "rmsnorm",
    .blurb = "root-mean-square normalisation over the last dim",
    .params = {{"x", STEM_MODE_IN, false, true}, {"weight", STEM_MODE_IN, false, false}},
    .n_params = 2,
    .attrs = {{"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL}},
    .n_attrs = 1,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_rmsnorm_reference,
};
