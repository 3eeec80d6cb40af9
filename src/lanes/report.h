/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known about the lanes of a graph, together, and printed as text, as DOT with lanes as colours, and as HTML.
 */
#ifndef STEM_LANES_REPORT_H
#define STEM_LANES_REPORT_H

#include "lanes/lanes.h"
#include "lanes/read.h"
#include "lanes/repair.h"

struct stem_lane_report {
    const struct stem_lane_driver *driver;
    const struct stem_lane_case *c;
    struct stem_lanes lanes;
    struct stem_lane_openings openings;
    struct stem_lane_repair repair;
    uint32_t by_kind[sizeof STEM_LANE_KINDS - 1]; /* nodes of each kind */
    uint32_t forks;      /* nodes with several children */
    uint32_t side_first; /* of these: where a branch recorded later is longer than the first, up to its join */
};

/* Predicts, explains and repairs one graph. `driver` NULL: the newest; `repair` NULL: defaults. The report lives in
 * the arena and points to the case. False if the graph has a cycle (readers refuse those). */
bool stem_lanes_report(const struct stem_lane_driver *driver, const struct stem_lane_case *c,
                       const struct stem_lane_repair_options *repair, struct stem_arena *a,
                       struct stem_lane_report *out);

/* Text for people. At most `max_rows` openings and edges are listed (0: all). */
void stem_lanes_report_text(const struct stem_lane_report *r, uint32_t max_rows, struct stem_out *o);
/* DOT: a node's colour is its lane; edges of the repair are red and dashed. */
void stem_lanes_report_dot(const struct stem_lane_report *r, struct stem_out *o);
/* One self-contained HTML page for n graphs: lanes as columns, nodes in the driver's order downwards. Graphs above
 * 4000 nodes are cut, and say so. */
void stem_lanes_report_html(const struct stem_lane_report *r, uint32_t n, struct stem_out *o);

#endif
