/* SPDX-License-Identifier: Apache-2.0
 *
 * add_rmsnorm: h = an expression of x0, x1, .. (a residual and what is added to it), stored, and y = rmsnorm(h) of what
 * was stored. The fuse pass makes it of a pointwise op and the rmsnorm that reads it. The bits of both results are
 * those of the two ops: the squares are added in the same order, which hangs on the width of an access.
 */
#include "ops/rmsnorm/rmsnorm.h"

#include <math.h>
#include <stdlib.h>

#include "ops/epilogue.h"
#include "ops/pointwise/pointwise.h"
#include "ops/ref.h"
#include "ops/rule.h"

static const char *text_of(const struct stem_attr *attrs, const char *name)
{
    return stem_op_attr(&stem_op_add_rmsnorm, attrs, name)->text;
}

static void expression(const struct stem_attr *attrs, struct stem_expr *e)
{
    const char *why;
    if (!stem_expr_parse(e, text_of(attrs, "expr"), &why))
        abort();
}

static bool meets(const struct stem_type *x, const struct stem_type *y)
{
    bool all = x->rank == y->rank, last = x->rank == 1 && stem_dim_same(x->dim[0], y->dim[y->rank - 1]);
    for (uint32_t i = 0; all && i < y->rank; i++)
        all = stem_dim_same(x->dim[i], y->dim[i]);
    return all || last;
}

static bool infer(struct stem_infer *c)
{
    struct stem_expr e;
    const char *why;
    uint32_t widest = 1;
    enum stem_dtype type = stem_dtype_from_name(text_of(c->attrs, "dtype"));
    if (!stem_expr_parse(&e, text_of(c->attrs, "expr"), &why) || e.n_inputs + 1 > c->n_in) {
        stem_error(c->diags, STEM_E_OP_ATTR, c->span, "add_rmsnorm: '%s' is not an expression of its operands",
                   text_of(c->attrs, "expr"));
        return false;
    }
    for (uint32_t i = 2; i < c->n_in; i++)
        widest = c->in[i].rank > c->in[widest].rank ? i : widest;
    struct stem_type *h = &c->out[0];
    *h = c->in[widest];
    h->dtype = type;
    for (uint32_t i = 1; i < c->n_in; i++)
        if (c->in[i].dtype != type || h->rank < 1 || !meets(&c->in[i], h))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, i, "add_rmsnorm: operands have one shape and element type");
    if (!stem_rule_float(c, 1, "add_rmsnorm: x") || !stem_rule_float(c, 0, "add_rmsnorm: the weight"))
        return false;
    if (c->in[0].rank != 1 || !stem_dim_same(c->in[0].dim[0], h->dim[h->rank - 1]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "add_rmsnorm: the weight must have x's last size");
    c->out[1] = *h;
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    const struct stem_tensor *h = &c->operand[c->n_in];
    *cost = (struct stem_cost){.bytes_written = 2 * stem_tensor_extent(h),
                               .flops = (3 + c->n_in) * stem_tensor_elements(h),
                               .blocks = (uint32_t)(stem_tensor_elements(h) / (uint64_t)h->dim[h->rank - 1])};
    for (uint32_t i = 0; i < c->n_in; i++)
        cost->bytes_read += stem_tensor_extent(&c->operand[i]);
}

/* The functor that makes chunk `c` of row `row` of h. */
static void print_functor(const struct stem_concrete *c, const struct stem_expr *e, uint32_t width, struct stem_out *o)
{
    const struct stem_tensor *h = &c->operand[c->n_in];
    const char *type = stem_c_type(h->dtype);
    for (uint32_t i = 1; i < c->n_in; i++)
        stem_out_printf(o, "    const %s *x%u;\n", type, i - 1);
    stem_out_printf(o,
                    "    long long n;\n"
                    "    __device__ __forceinline__ stem_vec<%s, %u> operator()(long long row, int c) const\n    {\n"
                    "        long long last = (long long)c * %u, at = row * n + last;\n"
                    "        (void)last;\n        stem_vec<%s, %u> r;\n",
                    type, width, width, type, width);
    for (uint32_t i = 1; i < c->n_in; i++)
        stem_out_printf(o, "        stem_vec<%s, %u> v%u = stem_load<%u>(x%u + %s);\n", type, width, i - 1, width, i - 1,
                        stem_epilogue_meets(&c->operand[i], h) == STEM_MEETS_ALL ? "at" : "last");
    stem_out_printf(o, "#pragma unroll\n        for (int k = 0; k < %u; k++) {\n", width);
    for (uint32_t i = 1; i < c->n_in; i++)
        stem_out_printf(o, "        float a%u = stem_float(v%u.at[k]);\n", i - 1, i - 1);
    stem_pointwise_print(e, o);
    stem_out_printf(o, "        r.at[k] = stem_round<%s>::from(t%u);\n        }\n        return r;\n    }\n};\n", type,
                    e->n - 1);
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *h = &c->operand[c->n_in], *w = &c->operand[0];
    const struct stem_tensor shape[] = {*h, *w, c->operand[c->n_in + 1]};
    struct stem_norm_shape s = stem_norm_shape(shape);
    struct stem_expr e;
    struct stem_out o = {0}, params = {0}, args = {0};
    (void)t;
    expression(c->attrs, &e);
    print_functor(c, &e, s.width, &o);
    for (uint32_t i = 1; i < c->n_in; i++) {
        stem_out_printf(&params, "const %s *x%u, ", stem_c_type(h->dtype), i - 1);
        stem_out_printf(&args, "x%u, ", i - 1);
    }
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_arena_printf(arena, "stem_add_rmsnorm_%s_%s_v%u_k%u%s", stem_dtype_name(h->dtype),
                                    stem_dtype_name(w->dtype), s.width, s.kept,
                                    stem_kernel_name(arena, "_", o.text, o.len)),
        .headers = {"common", "pointwise", "rmsnorm"},
        .grid = {s.rows, 1, 1},
        .block = {s.threads, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = h->dim[h->rank - 1]},
                    {.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f}},
        .n_scalars = 2,
        .waits = true,
        .ahead = true,
    };
    const char *th = stem_c_type(h->dtype), *tw = stem_c_type(w->dtype);
    l->code = stem_arena_printf(arena,
                                "struct %s_sum {\n%s"
                                "extern \"C\" __global__ void __launch_bounds__(%d)\n"
                                "%s(const %s *w, %s%s *h, %s *y, long long n, float eps)\n"
                                "{\n"
                                "    stem_add_rmsnorm<%s, %s, %u, %u>(%s_sum{%sn}, w, h, y, n, eps);\n"
                                "}\n",
                                l->kernel, stem_out_text(&o), STEM_NORM_MAX_THREADS, l->kernel, tw,
                                stem_out_text(&params), th, th, th, tw, s.width, s.kept, l->kernel,
                                stem_out_text(&args));
    stem_out_free(&o);
    stem_out_free(&params);
    stem_out_free(&args);
}

static void reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *h = &c->operand[c->n_in];
    struct stem_expr e;
    uint32_t n = (uint32_t)h->dim[h->rank - 1];
    float *memory = stem_xmalloc((STEM_MAX_OPERANDS + STEM_EXPR_MAX_NODES) * (size_t)n * sizeof *memory);
    float *out = memory + (size_t)(STEM_MAX_OPERANDS - 1) * n, *scratch = out + n;
    const float *in[STEM_MAX_OPERANDS];
    expression(c->attrs, &e);
    for (uint64_t r = 0; r < stem_ref_rows(h); r++) {
        for (uint32_t i = 1; i < c->n_in; i++) {
            bool all = stem_epilogue_meets(&c->operand[i], h) == STEM_MEETS_ALL;
            in[i - 1] = memory + (size_t)(i - 1) * n;
            stem_ref_load_row(h->dtype, data[i], all ? (int64_t)(r * n) : 0, 1, n, memory + (size_t)(i - 1) * n);
        }
        stem_expr_eval(&e, in, n, scratch, out);
        stem_ref_store_row(h->dtype, data[c->n_in], (int64_t)(r * n), n, out);
    }
    free(memory);
    struct stem_attr eps = *stem_op_attr(c->def, c->attrs, "eps");
    const struct stem_tensor norm[] = {*h, c->operand[0], c->operand[c->n_in + 1]};
    struct stem_concrete then = {
        .def = &stem_op_rmsnorm, .operand = norm, .n_in = 2, .n_out = 1, .attrs = &eps, .n_attrs = 1};
    stem_rmsnorm_reference(&then, (void *[]){data[c->n_in], data[0], data[c->n_in + 1]});
}

const struct stem_op_def stem_op_add_rmsnorm = {
    .name = "add_rmsnorm",
    .blurb = "a sum, and its root-mean-square normalisation over the last dim",
    .params = {{"weight", STEM_MODE_IN, false, false}, {"x", STEM_MODE_IN, false, false}},
    .n_params = 2,
    .variadic = true,
    .attrs = {{"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL},
              {"expr", STEM_ATTR_TYPE_EXPR, true, 0, NULL, NULL},
              {"dtype", STEM_ATTR_TYPE_DTYPE, true, 0, NULL, NULL}},
    .n_attrs = 3,
    .results = {"h", "y"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = reference,
};
