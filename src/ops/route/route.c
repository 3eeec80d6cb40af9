/* SPDX-License-Identifier: Apache-2.0
 *
 * route: which k experts a token goes to, and with what weight.
 *   score  = softmax over the experts, sigmoid of each, or the logit itself;
 *   choice = score + bias (the bias steers the choice only, as in DeepSeek-V3), greatest first, equal ones by index;
 *   groups: the experts in `groups` equal ranges, of which the top_groups best by group_score (their best choice, or
 * the sum of the best two) may be chosen from; weight = score, divided by the sum of the k chosen + 1e-20 if
 * renormalize, times scale. NaN in a choice ranks below every number, so ids are always valid; NaN scores give NaN
 * weights.
 */
#include <string.h>

#include "ops/linear/linear.h"
#include "ops/route/route.h"
#include "ops/rule.h"

static int64_t int_attr(const struct stem_attr *attrs, const char *name)
{
    return stem_op_attr(&stem_op_route, attrs, name)->i;
}

static bool check_attrs(struct stem_infer *c)
{
    int64_t k = int_attr(c->attrs, "k"), groups = int_attr(c->attrs, "groups"),
            top = int_attr(c->attrs, "top_groups"), e;
    if (k < 1 || k > STEM_ROUTE_MAX_K)
        return stem_rule_attr(c, "route: k = %lld must be at least 1 and at most 32", (long long)k);
    if (groups < 1 || groups > 32)
        return stem_rule_attr(c, "route: groups = %lld must be at least 1 and at most 32", (long long)groups);
    if (top < 0 || top > groups)
        return stem_rule_attr(c, "route: top_groups = %lld must be at least 1 and at most groups = %lld", (long long)top,
                              (long long)groups);
    if (!stem_dim_value(c->dims, c->in[0].dim[1], &e))
        return stem_rule_attr(c, "route: the number of experts must be a constant");
    if (e > STEM_ROUTE_MAX_EXPERTS)
        return stem_rule_attr(c, "route: %lld experts are more than 1024", (long long)e);
    if (e % groups)
        return stem_rule_attr(c, "route: groups = %lld must divide the number of experts, %lld", (long long)groups, (long long)e);
    int64_t most = e / groups * (top ? top : groups);
    if (k <= most)
        return true;
    stem_rule_attr(c, "route: k = %lld is larger than the number of experts that may be chosen, %lld", (long long)k,
                   (long long)most);
    if (top && top < groups)
        stem_diag_help(c->diags, "those of top_groups = %lld of %lld groups of %lld", (long long)top, (long long)groups,
                       (long long)(e / groups));
    return false;
}

static bool infer(struct stem_infer *c)
{
    const struct stem_type *logits = &c->in[0];
    if (!stem_stream_is_float(logits->dtype)) {
        stem_error(c->diags, STEM_E_OP_DTYPE, c->operand_span[0], "route takes bf16, f16 or f32 logits, not %s",
                   stem_dtype_name(logits->dtype));
        return false;
    }
    if (logits->rank != 2) {
        stem_error(c->diags, STEM_E_OP_RANK, c->operand_span[0], "route takes logits[T, E], of 2 dimensions, not %u",
                   logits->rank);
        return false;
    }
    if (c->n_in > 1 && c->in[1].dtype != STEM_N_DTYPES) {
        if (c->in[1].dtype != STEM_F32) {
            stem_error(c->diags, STEM_E_OP_DTYPE, c->operand_span[1], "route: bias is f32 here, not %s",
                       stem_dtype_name(c->in[1].dtype));
            return false;
        }
        if (c->in[1].rank != 1 || !stem_dim_same(c->in[1].dim[0], logits->dim[1])) {
            stem_error(c->diags, STEM_E_OP_SHAPE, c->operand_span[1], "route: bias[E] needs the E of logits[T, E]");
            return false;
        }
    }
    if (!check_attrs(c))
        return false;
    for (int i = 0; i < 2; i++) {
        c->out[i] = (struct stem_type){.dtype = i ? STEM_F32 : STEM_I32, .rank = 2};
        c->out[i].dim[0] = logits->dim[0];
        c->out[i].dim[1] = stem_dim_const(c->dims, int_attr(c->attrs, "k"));
    }
    return true;
}

static bool has_bias(const struct stem_concrete *c)
{
    return c->n_in > 1 && c->operand[1].rank != STEM_NONE;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    const struct stem_tensor *logits = &c->operand[0];
    uint64_t tokens = (uint64_t)logits->dim[0], experts = (uint64_t)logits->dim[1];
    *cost = (struct stem_cost){.bytes_read = tokens * experts * stem_dtype_bits(logits->dtype) / 8 +
                                             (has_bias(c) ? experts * 4 : 0),
                               .bytes_written = tokens * (uint64_t)int_attr(c->attrs, "k") * 8,
                               .flops = tokens * experts * 8,
                               .blocks = (uint32_t)tokens};
}

/* Experts of a segment: as many as leave half as many again as k in the chosen groups, so that little more than k experts
 * are candidates. */
static uint32_t segment_of(uint32_t warps, int64_t k, int64_t groups, int64_t top)
{
    uint32_t segment = 32;
    while (segment > 4 && warps * (32 / segment) * top < 3 * k / 2 * groups)
        segment /= 2;
    return segment;
}

enum { FEW = 128 }; /* experts that one warp takes */

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    (void)t;
    const struct stem_tensor *logits = &c->operand[0];
    const char *score = stem_op_attr(c->def, c->attrs, "score")->text, *type = stem_stream_type(logits->dtype);
    int64_t experts = logits->dim[1], k = int_attr(c->attrs, "k");
    int64_t groups = int_attr(c->attrs, "groups"), top = int_attr(c->attrs, "top_groups");
    bool limit = top && top < groups, top2 = !strcmp(stem_op_attr(c->def, c->attrs, "group_score")->text, "top2");
    bool few = !limit && experts <= FEW, biased = has_bias(c), early = biased && c->constant >> 1 & 1;
    const char *upper = !strcmp(score, "softmax") ? "SOFTMAX" : !strcmp(score, "sigmoid") ? "SIGMOID" : "NONE";
    uint32_t warps = (uint32_t)((experts + 31) / 32), threads = few ? 32 : 32 * warps;
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "route"},
                               .grid = {(uint32_t)logits->dim[0], 1, 1},
                               .block = {threads, 1, 1},
                               .waits = true};
    l->early = early ? 1u << 1 : 0;
    uint32_t segment = segment_of(warps, k, limit ? groups : 1, limit ? top : 1);
    int64_t size = limit && experts / groups <= 32 && 32 % (experts / groups) == 0 ? experts / groups : 0;
    const char *form = few ? "few" : stem_arena_printf(a, "s%u", segment), *given = c->n_in > 1 ? "const float *bias, " : "";
    l->kernel = stem_arena_printf(a, "stem_route_%s_e%u_%s_%s%s%s%s%s", stem_dtype_name(logits->dtype), warps * 32, form, score,
                                  c->n_in < 2 ? "" : biased ? "_bias" : "_nobias", early ? "_w" : "",
                                  !limit ? "" : top2 ? "_top2" : "_max",
                                  size ? stem_arena_printf(a, "%lld", (long long)size) : "");
    const char *terms = stem_arena_printf(a, "STEM_SCORE_%s, %s, %s", upper, biased ? "true" : "false", early ? "true" : "false");
    const char *bias = biased ? "bias" : "nullptr";
    const char *call =
        few ? stem_arena_printf(a, "(void)groups;\n    (void)top_groups;\n    stem_route_few<%s, %u, %s>(logits, %s, ids, weights, "
                                   "experts, k, renormalize, scale);", type, warps, terms, bias)
            : stem_arena_printf(a, "stem_route<%s, %u, %u, %s, %s, %s, %lld>(logits, %s, ids, weights, experts, k, groups, "
                                   "top_groups, renormalize, scale);", type, warps, segment, terms, limit ? "true" : "false",
                                top2 || !limit ? "true" : "false", (long long)size, bias);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%u) %s(const %s *logits, %sint *ids, float *weights, "
        "int experts, int k, int groups, int top_groups, int renormalize, float scale)\n{\n    %s\n}\n",
        threads, l->kernel, type, given, call);
    const int64_t v[] = {experts, k, groups, top ? top : groups, int_attr(c->attrs, "renormalize")};
    for (l->n_scalars = 0; l->n_scalars < 5; l->n_scalars++)
        l->scalars[l->n_scalars] = (struct stem_scalar){STEM_SCALAR_I32, {.i = v[l->n_scalars]}};
    l->scalars[l->n_scalars++] =
        (struct stem_scalar){STEM_SCALAR_F32, {.f = stem_op_attr(c->def, c->attrs, "scale")->f}};
}

static const char *const scores[] = {"softmax", "sigmoid", "none", NULL};
static const char *const group_scores[] = {"top2", "max", NULL};

const struct stem_op_def stem_op_route = {
    .name = "route",
    .blurb = "the k experts of each token and their weights, from the gate's logits",
    .params = {{"logits", STEM_MODE_IN, false, false}, {"bias", STEM_MODE_IN, true, false}},
    .n_params = 2,
    .attrs = {{"k", STEM_ATTR_TYPE_INT, true, 0, NULL, NULL},
              {"score", STEM_ATTR_TYPE_WORD, false, 0, "softmax", scores},
              {"groups", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},
              {"top_groups", STEM_ATTR_TYPE_INT, false, 0, NULL, NULL}, /* 0: all */
              {"group_score", STEM_ATTR_TYPE_WORD, false, 0, "top2", group_scores},
              {"renormalize", STEM_ATTR_TYPE_BOOL, false, 1, NULL, NULL},
              {"scale", STEM_ATTR_TYPE_FLOAT, false, 1, NULL, NULL}},
    .n_attrs = 7,
    .results = {"ids", "weights"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_route_reference,
};
