/* SPDX-License-Identifier: Apache-2.0
 *
 * A schedule as the driver will see it, one graph for each segment that is recorded, and waits that bring its lanes
 * down.
 */
#ifndef STEM_PASS_LANES_H
#define STEM_PASS_LANES_H

#include "lanes/lanes.h"
#include "pass/pass.h"

/* A segment that is recorded. Node i is the op at begin + i in issue order. */
struct stem_lane_part {
    uint32_t begin, end; /* of sched.order */
    struct stem_lane_graph graph;
    struct stem_lanes lanes;
    uint32_t *stream; /* by node */
    uint32_t streams; /* distinct ones */
};

struct stem_lane_view {
    struct stem_lane_part *at;
    uint32_t len;
    uint32_t most;   /* lanes of the part that has most; 0 without parts */
    uint32_t excess; /* lanes above streams, summed over parts */
};
struct stem_lane_view stem_lane_view_new(const struct stem_program *p, struct stem_arena *a);

/* Adds waits that are implied by the others (struct stem_wait.lane), so that lanes above streams go away; where that
 * does not do and the order is main-first, tries other orders and keeps the best. Happens-before stays, unless the
 * order changes; the slab does not grow, and the schedule gets at most 1 % longer. Says in a remark what it did. Work
 * is linear for each order that is tried. */
void stem_lane_repair_schedule(struct stem_program *p, struct stem_pass_ctx *ctx);

#endif
