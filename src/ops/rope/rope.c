/* SPDX-License-Identifier: Apache-2.0
 *
 * rope: rotary position embedding (Su et al., 2021) of x[T, D] or x[T, heads, D] at positions pos[T]. Of each row the
 * last `size` elements (or the first: at = first) are pairs that are turned by pos * base^(-2i / size); the others are
 * copied. Pairs are (i, i + size / 2), or neighbours if `interleaved`.
 *
 * factor > 1 is YaRN (Peng et al., 2023), as DeepSeek and Hugging Face compute it: a pair that turns more than
 * beta_fast times within `original` positions keeps its frequency, one that turns less than beta_slow times has it
 * divided by factor, between them a linear ramp over i; the result is multiplied by m(mscale) / m(mscale_all), where
 * m(s) = 1 + 0.1 s ln factor.
 *
 * Frequencies are computed in double when compiling and kept as turns for each position, so that the angle is reduced
 * exactly, whatever the position; sine and cosine are f32, one rounding at the end.
 */
#include "ops/rope/rope.h"

#include <math.h>
#include <string.h>

#include "ops/rule.h"

enum { THREADS = 128 };

static double number(const struct stem_op_def *def, const struct stem_attr *attrs, const char *name)
{
    return stem_op_attr(def, attrs, name)->f;
}

bool stem_rope_attrs_fine(struct stem_infer *c, const struct stem_op_def *def)
{
    static const struct {
        const char *name;
        double least;
    } bounds[] = {{"base", 1}, {"factor", 1}, {"beta_fast", 0}, {"beta_slow", 0}, {"mscale", 0}, {"mscale_all", 0}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        double v = number(def, c->attrs, bounds[i].name);
        if (v >= bounds[i].least && v < 1e30 && (i || v > 1))
            continue;
        return stem_rule_attr(c, "%s: %s = %g must be %s %g", def->name, bounds[i].name, v, i ? "at least" : "more than",
                              bounds[i].least);
    }
    double slow = number(def, c->attrs, "beta_slow"), fast = number(def, c->attrs, "beta_fast");
    long long original = (long long)stem_op_attr(def, c->attrs, "original")->i;
    if (original < 1)
        return stem_rule_attr(c, "%s: original = %lld must be at least 1", def->name, original);
    if (number(def, c->attrs, "factor") > 1 && (slow <= 0 || fast < slow))
        return stem_rule_attr(c, "%s: beta_slow = %g must be more than 0, and beta_fast = %g at least as large", def->name, slow,
                              fast);
    return true;
}

/* The pair, as a real number, that turns `rotations` times within `original` positions. */
static double pair_of(double rotations, uint32_t n, double base, double original)
{
    return n * log(original / (rotations * 2 * M_PI)) / (2 * log(base));
}

double stem_rope_turns(const struct stem_op_def *def, const struct stem_attr *attrs, uint32_t n, double *turns)
{
    double base = number(def, attrs, "base"), factor = number(def, attrs, "factor"), low = 0, high = 0;
    if (factor > 1) {
        double original = (double)stem_op_attr(def, attrs, "original")->i;
        low = fmax(floor(pair_of(number(def, attrs, "beta_fast"), n, base, original)), 0);
        high = fmin(ceil(pair_of(number(def, attrs, "beta_slow"), n, base, original)), n - 1);
        if (low == high)
            high += 0.001;
    }
    for (uint32_t i = 0; i < n / 2; i++) {
        double f = pow(base, -2.0 * i / n) / (2 * M_PI);
        if (factor > 1) {
            double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
            f = f / factor * ramp + f * (1 - ramp);
        }
        turns[i] = f;
    }
    return factor > 1 ? (1 + 0.1 * number(def, attrs, "mscale") * log(factor)) /
                            (1 + 0.1 * number(def, attrs, "mscale_all") * log(factor))
                      : 1;
}

const char *stem_rope_table(struct stem_arena *arena, const char *name, const double *turns, uint32_t n)
{
    struct stem_out o = {0};
    stem_out_printf(&o, "static __device__ const double %s[%u] = {", name, n / 2);
    for (uint32_t i = 0; i < n / 2; i++)
        stem_out_printf(&o, "%s%.17g", i ? ", " : "", turns[i]);
    stem_out_printf(&o, "};\n");
    const char *text = stem_arena_printf(arena, "%s", stem_out_text(&o));
    stem_out_free(&o);
    return text;
}

/* ---- the op ---- */

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0], *pos = &c->in[1];
    int64_t n = stem_op_attr(&stem_op_rope, c->attrs, "size")->i, row;
    if (!stem_rule_float(c, 0, "rope: x"))
        return false;
    if (pos->dtype != STEM_I32 && pos->dtype != STEM_I64)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "rope: the positions must be i32 or i64");
    if (x->rank != 2 && x->rank != 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "rope: x must be [T, D] or [T, heads, D]");
    if (pos->rank != 1)
        return stem_rule_fail(c, STEM_E_OP_RANK, 1, "rope: the positions must have one dimension");
    if (!stem_dim_same(pos->dim[0], x->dim[0]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "rope: there must be a position for each of x's %s rows",
                              stem_rule_dim(c, x->dim[0]).s);
    if (!stem_dim_value(c->dims, x->dim[x->rank - 1], &row))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "rope: the last size of x must be a constant");
    n = n ? n : row;
    if (n < 2 || n % 2 || n > row || n > STEM_ROPE_MAX)
        return stem_rule_attr(c, "rope: size = %lld must be even, at least 2, at most x's last size, %lld, and %d", (long long)n,
                              (long long)row, STEM_ROPE_MAX);
    if (!stem_rope_attrs_fine(c, &stem_op_rope))
        return false;
    c->out[0] = *x;
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t n = stem_tensor_elements(&c->operand[2]), bytes = stem_tensor_extent(&c->operand[2]);
    *cost = (struct stem_cost){.bytes_read = bytes + stem_tensor_extent(&c->operand[1]),
                               .bytes_written = bytes,
                               .flops = 6 * n,
                               .blocks = (uint32_t)((n + 1023) / 1024)};
}

/* The rotated elements of a row. */
static uint32_t rotated(const struct stem_concrete *c)
{
    const struct stem_tensor *x = &c->operand[0];
    int64_t n = stem_op_attr(c->def, c->attrs, "size")->i;
    return (uint32_t)(n ? n : x->dim[x->rank - 1]);
}

static bool rotates_first(const struct stem_concrete *c)
{
    return !strcmp(stem_op_attr(c->def, c->attrs, "at")->text, "first");
}

/* Elements that a thread moves at once: what the sizes, strides and offsets allow. */
static uint32_t width_of(const struct stem_concrete *c, uint32_t n, bool interleaved)
{
    const struct stem_tensor *x = &c->operand[0];
    uint32_t bytes = stem_dtype_bits(x->dtype) / 8;
    uint64_t all =
        (uint64_t)x->dim[x->rank - 1] | (interleaved ? n : n / 2) | x->offset / bytes | c->operand[2].offset / bytes;
    if (x->stride[x->rank - 1] != 1)
        return 1;
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        all |= x->dim[i] > 1 ? (uint64_t)x->stride[i] : 0;
    return stem_vector_width(all, 16 / bytes);
}

/* The same, but fewer where wide accesses would leave multiprocessors with few threads: a pair takes a sine and a cosine, which
 * a thread makes one after the other. */
static uint32_t spread(const struct stem_concrete *c, uint32_t width, const struct stem_target *t)
{
    uint64_t elements = stem_tensor_elements(&c->operand[0]);
    while (width > 2 && elements / width < (uint64_t)t->n_sms * 4 * THREADS)
        width /= 2;
    return width;
}

/* A thread turns `width` pairs (half as many if they are interleaved), or copies `width` elements. */
static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[0];
    uint32_t n = rotated(c), row = (uint32_t)x->dim[x->rank - 1];
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, n, turns);
    uint32_t width = spread(c, width_of(c, n, interleaved), t);
    int64_t heads = x->rank == 3 ? x->dim[1] : 1;
    uint64_t units = (uint64_t)x->dim[0] * (uint64_t)heads *
                     ((row - n) / width + n / 2 / (interleaved && width > 1 ? width / 2 : width));
    const char *type = stem_c_type(x->dtype), *position = stem_c_type(c->operand[1].dtype);
    const char *table = stem_rope_table(arena, "turns", turns, n);
    const char *body = stem_arena_printf(
        arena,
        "(const %s *x, const %s *pos, %s *y, int tokens, int heads, long long token_stride, long long head_stride, "
        "long long stride)\n{\n    %s"
        "    stem_rope<%s, %s, %u, %u, %u, %s, %s>(x, pos, y, turns, (float)%.17g, tokens, heads, token_stride, "
        "head_stride, "
        "stride);\n}\n",
        type, position, type, table, type, position, row, n, width, rotates_first(c) ? "true" : "false",
        interleaved ? "true" : "false", amplitude);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_kernel_name(arena, "stem_rope_", body, strlen(body)),
        .headers = {"common", "rope"},
        .grid = {(uint32_t)((units + THREADS - 1) / THREADS), 1, 1},
        .block = {THREADS, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I32, .i = x->dim[0]},
                    {.kind = STEM_SCALAR_I32, .i = heads},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[0]},
                    {.kind = STEM_SCALAR_I64, .i = x->rank == 3 ? x->stride[1] : 0},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[x->rank - 1]}},
        .n_scalars = 5,
        .waits = true,
        .ahead = true,
    };
    l->code =
        stem_arena_printf(arena, "extern \"C\" __global__ void __launch_bounds__(%d) %s%s", THREADS, l->kernel, body);
}

static const char *const places[] = {"last", "first", NULL};

const struct stem_op_def stem_op_rope = {
    .name = "rope",
    .blurb = "rotary position embedding, plain or YaRN",
    .params = {{"x", STEM_MODE_IN, false, true}, {"pos", STEM_MODE_IN, false, false}},
    .n_params = 2,
    .attrs = {STEM_ROPE_ATTRS,
              {"size", STEM_ATTR_TYPE_INT, false, 0, NULL, NULL}, /* 0: all */
              {"at", STEM_ATTR_TYPE_WORD, false, 0, "last", places}},
    .n_attrs = STEM_ROPE_N_ATTRS + 2,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_rope_reference,
};
