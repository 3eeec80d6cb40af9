/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the model of driver 580 share.
 */
#ifndef STEM_LANES_DRIVER_580_H
#define STEM_LANES_DRIVER_580_H

#include "lanes/lanes_internal.h"

struct stem_lane_kid {
    uint32_t node;
    bool prog;
};

/* Nodes are treated alike that the driver runs alike. */
static inline bool stem_lane_is_kernel(uint32_t kind) /* child graphs: those of unknown contents */
{
    return kind == STEM_LANE_KERNEL || kind == STEM_LANE_MEMCPY || kind == STEM_LANE_FILL || kind == STEM_LANE_CHILD;
}
static inline bool stem_lane_is_empty(uint32_t kind)
{
    return kind == STEM_LANE_EMPTY || kind == STEM_LANE_MEMORY || kind == STEM_LANE_FREE;
}

/* A graph without the nodes that are contracted away. */
struct stem_lane_contracted {
    const uint8_t *gone; /* NULL: none */
    struct stem_lane_adj adj;
    uint32_t *kid_at; /* child lists in the driver's order, which contraction disturbs */
    struct stem_lane_kid *kid;
};
void stem_lane_contract(const struct stem_lane_graph *g, struct stem_arena *a, struct stem_lane_contracted *out);

#endif
