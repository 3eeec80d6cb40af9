/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicted lanes by op of a variant: each recorded segment is a graph of its own.
 */
#include "lanes/lanes.h"
#include "lanes/read.h"
#include "report/report.h"

void stem_op_lanes_find(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_op_lanes *out)
{
    struct stem_lane_cases cases = {0};
    uint32_t segment = 0;
    *out =
        (struct stem_op_lanes){STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1), STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1),
                               STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1)};
    for (uint32_t i = 0; i < v->n_ops; i++)
        out->lane[i] = out->opens[i] = out->by[i] = STEM_NONE;
    stem_lane_from_variant(v, a, &cases);
    for (uint32_t c = 0; c < cases.len; c++) {
        struct stem_lanes l;
        while (v->n_segments && (v->segments[segment].eager || !v->segments[segment].n_ops))
            segment++;
        uint32_t first = v->n_segments ? v->segments[segment++].first_op : 0;
        if (!stem_lanes_predict(NULL, &cases.at[c].graph, a, &l))
            return;
        for (uint32_t i = 0; i < l.n; i++) {
            out->lane[first + i] = l.lane[i] == STEM_NO_LANE ? STEM_NONE : l.lane[i];
            if (l.why[i] < STEM_LANE_ROOT)
                continue;
            out->opens[first + i] = (uint32_t)l.why[i] - STEM_LANE_ROOT;
            out->by[first + i] = l.by[i] == STEM_NO_NODE ? STEM_NONE : first + l.by[i];
        }
    }
}
