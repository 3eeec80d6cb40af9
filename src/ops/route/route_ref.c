/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "ops/ref.h"
#include "ops/route/route.h"

struct call {
    int64_t experts, k, groups, top_groups;
    bool renormalize, top2;
    float scale;
    const char *score;
};

/* a is chosen before b: greater, NaN last; equal ones keep the order in which they are looked at. */
static bool better(float a, float b)
{
    return a > b || (b != b && a == a);
}

static void scores_of(const struct call *c, const float *logit, float *score)
{
    float top = -INFINITY, sum = 0;
    for (int64_t e = 0; e < c->experts; e++)
        top = fmaxf(top, logit[e]);
    for (int64_t e = 0; e < c->experts; e++) {
        if (!strcmp(c->score, "softmax"))
            score[e] = expf(logit[e] - top);
        else if (!strcmp(c->score, "sigmoid"))
            score[e] = 1.0f / (1.0f + expf(-logit[e]));
        else
            score[e] = logit[e];
        sum += score[e];
    }
    for (int64_t e = 0; e < c->experts && !strcmp(c->score, "softmax"); e++)
        score[e] /= sum;
}

/* Marks the experts of the groups that are not among the best as taken. */
static void limit(const struct call *c, const float *choice, bool *taken)
{
    float of[32];
    bool kept[32] = {false};
    int64_t size = c->experts / c->groups;
    for (int64_t g = 0; g < c->groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (int64_t e = g * size; e < (g + 1) * size; e++) {
            if (choice[e] > first) {
                second = first;
                first = choice[e];
            } else if (choice[e] > second) {
                second = choice[e];
            }
        }
        of[g] = c->top2 && size > 1 ? first + second : first;
    }
    for (int64_t i = 0; i < c->top_groups; i++) {
        int64_t best = -1;
        for (int64_t g = 0; g < c->groups; g++)
            if (!kept[g] && (best < 0 || better(of[g], of[best])))
                best = g;
        kept[best] = true;
    }
    for (int64_t e = 0; e < c->experts; e++)
        taken[e] = !kept[e / size];
}

static void route_token(const struct call *c, const float *logit, const float *bias, int32_t *ids, float *weights)
{
    float score[STEM_ROUTE_MAX_EXPERTS], choice[STEM_ROUTE_MAX_EXPERTS], sum = 0;
    bool taken[STEM_ROUTE_MAX_EXPERTS] = {false};
    scores_of(c, logit, score);
    for (int64_t e = 0; e < c->experts; e++)
        choice[e] = bias ? score[e] + bias[e] : score[e];
    if (c->top_groups < c->groups)
        limit(c, choice, taken);
    for (int64_t j = 0; j < c->k; j++) {
        int64_t best = -1;
        for (int64_t e = 0; e < c->experts; e++)
            if (!taken[e] && (best < 0 || better(choice[e], choice[best])))
                best = e;
        taken[best] = true;
        ids[j] = (int32_t)best;
        weights[j] = score[best];
        sum += score[best];
    }
    for (int64_t j = 0; j < c->k; j++)
        weights[j] = c->renormalize ? weights[j] / (sum + 1e-20f) * c->scale : weights[j] * c->scale;
}

void stem_route_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *logits = &c->operand[0];
    const struct stem_attr *a = c->attrs;
    struct call call = {.experts = logits->dim[1],
                        .k = stem_op_attr(c->def, a, "k")->i,
                        .groups = stem_op_attr(c->def, a, "groups")->i,
                        .top_groups = stem_op_attr(c->def, a, "top_groups")->i,
                        .renormalize = stem_op_attr(c->def, a, "renormalize")->i != 0,
                        .top2 = !strcmp(stem_op_attr(c->def, a, "group_score")->text, "top2"),
                        .scale = (float)stem_op_attr(c->def, a, "scale")->f,
                        .score = stem_op_attr(c->def, a, "score")->text};
    call.top_groups = call.top_groups ? call.top_groups : call.groups;
    const float *bias = c->n_in > 1 ? data[1] : NULL;
    for (int64_t t = 0; t < logits->dim[0]; t++) {
        float row[STEM_ROUTE_MAX_EXPERTS];
        stem_ref_load_row(logits->dtype, data[0], t * call.experts, 1, (uint32_t)call.experts, row);
        route_token(&call, row, bias, (int32_t *)data[c->n_in] + t * call.k, (float *)data[c->n_in + 1] + t * call.k);
    }
}
