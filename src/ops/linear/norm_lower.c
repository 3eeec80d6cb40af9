/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of norm_linear: that of linear, with norm as one more row of each stage. Rows of x need only be equally far
 * apart for the tensor cores; whatever else a view can be takes the plain kernel, as odd shapes and a norm in f32 do.
 */
#include "ops/epilogue.h"
#include "ops/linear/linear.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rule.h"

struct sizes {
    int64_t m, n, k, distance; /* of the rows of x; -1: they are not equally far apart */
    bool pair;
};

/* A kernel in the making: its name before that of the store, what it is called with. */
struct kernel {
    const char *name, *bounds, *params, *call, *before;
};

static int64_t distance_of(const struct stem_tensor *x)
{
    int64_t distance = -1, next = 0;
    for (uint32_t d = x->rank - 1; d-- > 0;) {
        if (x->dim[d] == 1)
            continue;
        if (distance >= 0 && x->stride[d] != next)
            return -1;
        distance = distance < 0 ? x->stride[d] : distance;
        next = x->stride[d] * x->dim[d];
    }
    return distance < 0 ? x->dim[x->rank - 1] : distance;
}

static struct sizes sizes_of(const struct stem_concrete *c)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[2];
    struct stem_epilogue e;
    struct sizes s = {1, w->dim[0], w->dim[1], distance_of(x), stem_epilogue_get(c->def, c->attrs, &e) && e.pair};
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        s.m *= x->dim[i];
    return s;
}

static void print_kernel(const struct stem_concrete *c, struct kernel *k, struct stem_arena *a, struct stem_lowered *l)
{
    const char *x = stem_c_type(c->operand[0].dtype), *norm = stem_c_type(c->operand[1].dtype),
               *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    struct stem_store store;
    stem_epilogue_store(c, k->name, "n", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", k->name, store.name);
    l->code = stem_arena_printf(a,
                                "%s%sextern \"C\" __global__ void %s %s(const %s *x, const %s *norm, const %s *w, %s%s *y, "
                                "int m, int n, int k, float eps, %s)\n{\n    %s, %s, m, n, k, eps);\n}\n",
                                k->before, define, k->bounds, l->kernel, x, norm, x, store.params, y, k->params, k->call,
                                store.make);
}

static void lower_plain(const struct stem_concrete *c, const struct sizes *s, const char *types, struct stem_arena *a,
                        struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[0];
    const char *in = stem_c_type(x->dtype), *norm = stem_c_type(c->operand[1].dtype), *pair = s->pair ? "true" : "false";
    struct kernel k = {.name = stem_arena_printf(a, "stem_norm_linear_plain_%s", types),
                       .bounds = "__launch_bounds__(128)",
                       .params = "long long distance, long long step",
                       .before = ""};
    const char *rows = "stem_rows_apart{distance}";
    if (s->distance < 0) {
        struct stem_out o = {0};
        stem_norm_print_row(x, "row", &o);
        k.name = stem_kernel_name(a, stem_arena_printf(a, "%s_x", k.name), o.text, o.len);
        rows = stem_arena_printf(a, "%s_rows{}", k.name);
        k.before = stem_arena_printf(a,
                                     "struct %s_rows {\n    __device__ __forceinline__ long long operator()(long long row) "
                                     "const\n    {\n%s        return o0;\n    }\n};\n",
                                     k.name, stem_out_text(&o));
        stem_out_free(&o);
    }
    k.call = stem_arena_printf(a, "stem_norm_linear_plain_to<%s, %s, %s>(x, %s, step, norm, w", in, norm, pair, rows);
    print_kernel(c, &k, a, l);
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = s->distance}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = x->stride[x->rank - 1]}};
    l->grid[0] = (uint32_t)((s->n / (s->pair ? 2 : 1) + 3) / 4);
    l->grid[1] = (uint32_t)((s->m + 7) / 8);
    l->block[0] = 128;
}

static void lower_stream(const struct stem_concrete *c, const struct sizes *s, const char *types,
                         const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    struct stem_linear_shape cut = stem_linear_shape(s->m, s->n, s->k, 1, c->shares, t);
    bool early = (c->constant & 6) == 6;
    uint32_t threads = 32 * cut.kparts * cut.groups;
    const char *cluster = cut.cluster > 1 ? stem_arena_printf(a, " __cluster_dims__(%u, 1, 1)", cut.cluster) : "";
    int64_t each = (s->pair ? 8 : 16) * cut.groups, items = (s->n / (s->pair ? 2 : 1) + each - 1) / each;
    int64_t most = (int64_t)t->n_sms * cut.per_sm; /* resident at once */
    struct kernel k = {
        .name = stem_arena_printf(a, "stem_norm_linear_%s_n%u_r%u_s%u%s_k%u_g%u_c%u%s", types, cut.nt, cut.rows, cut.stages,
                                  cut.whole ? "a" : "", cut.kparts, cut.groups, cut.cluster, early ? "_w" : ""),
        .bounds = stem_arena_printf(a, "__launch_bounds__(%u)%s", threads, cluster),
        .params = "int distance",
        .call = stem_arena_printf(a, "stem_norm_linear_to<%s, %u, %u, %u, %u, %u, %s, %s, %u, %s>(x, distance, norm, w",
                                  stem_c_type(c->operand[0].dtype), cut.nt, cut.stages, cut.kparts, cut.groups,
                                  cut.cluster, early ? "true" : "false", s->pair ? "true" : "false", cut.rows,
                                  cut.whole ? "true" : "false"),
        .before = ""};
    print_kernel(c, &k, a, l);
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->distance}};
    l->early = early ? 6 : 0;
    l->ahead = early && cut.whole;
    l->grid[0] = (uint32_t)(items < most ? items : most) * cut.cluster;
    l->grid[1] = (uint32_t)((s->m + 8 * cut.nt - 1) / (8 * cut.nt));
    l->block[0] = threads;
    l->smem = cut.smem;
}

void stem_norm_linear_lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                            struct stem_lowered *l)
{
    struct sizes s = sizes_of(c);
    const struct stem_tensor *x = &c->operand[0], *norm = &c->operand[1];
    const char *types = stem_arena_printf(a, "%s_%s_%s", stem_dtype_name(x->dtype), stem_dtype_name(norm->dtype),
                                          stem_dtype_name(c->operand[c->n_in].dtype));
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "pointwise", "stream", "linear", "norm_linear"},
                               .grid = {1, 1, 1},
                               .block = {1, 1, 1},
                               .n_scalars = 4,
                               .waits = true};
    l->scalars[0] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s.m}};
    l->scalars[1] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s.n}};
    l->scalars[2] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s.k}};
    l->scalars[3] = (struct stem_scalar){.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f};
    bool gaps = x->dim[x->rank - 1] > 1 && x->stride[x->rank - 1] != 1;
    if (stem_stream_fits(x, &c->operand[2], s.k) && norm->dtype == x->dtype && norm->offset % 16 == 0 && !gaps &&
        s.distance >= 0 && s.distance % 8 == 0 && s.distance <= INT32_MAX)
        lower_stream(c, &s, types, t, a, l);
    else
        lower_plain(c, &s, types, a, l);
}
