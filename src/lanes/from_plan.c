/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of a plan: each segment that is recorded is a graph whose node i is its op i.
 */
#include "lanes/read.h"
#include "runtime/plan.h"

static struct stem_lane_case segment_case(const struct stem_plan_variant *v, uint32_t first, uint32_t n,
                                          const char *label, struct stem_arena *a)
{
    uint8_t *kind = STEM_NEW_ARRAY(a, uint8_t, n);
    const char **name = STEM_NEW_ARRAY(a, const char *, n);
    struct stem_lane_edge *edges = STEM_NEW_ARRAY(a, struct stem_lane_edge, v->n_edges);
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct stem_plan_op *op = &v->ops[first + i];
        kind[i] = (uint8_t)(op->work == STEM_WORK_MEMSET && op->n_operands
                                ? stem_lane_memset_kind(stem_tensor_extent(&op->operands[0].tensor))
                                : STEM_LANE_KERNEL);
        name[i] = v->ops[first + i].name;
    }
    for (uint32_t i = 0; i < v->n_edges; i++) {
        const struct stem_plan_edge *e = &v->edges[i];
        if (e->from >= first && e->from - first < n && e->to >= first && e->to - first < n)
            edges[m++] = (struct stem_lane_edge){e->from - first, e->to - first, e->kind == STEM_EDGE_PROGRAMMATIC};
    }
    return (struct stem_lane_case){
        .label = label,
        .graph = {.n = n, .kind = kind, .name = name, .edges = edges, .n_edges = m},
        .span = STEM_NOWHERE,
    };
}

void stem_lane_from_variant(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_lane_cases *out)
{
    struct stem_lane_case *cases = STEM_NEW_ARRAY(a, struct stem_lane_case, v->n_segments + 1u);
    out->len = 0;
    out->at = cases;
    if (!v->n_segments && v->n_ops)
        cases[out->len++] = segment_case(v, 0, v->n_ops, "graph", a);
    for (uint32_t s = 0; s < v->n_segments; s++)
        if (!v->segments[s].eager && v->segments[s].n_ops)
            cases[out->len++] = segment_case(v, v->segments[s].first_op, v->segments[s].n_ops,
                                             v->n_segments == 1 ? "graph" : stem_arena_printf(a, "segment %u", s), a);
}
