/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs from text: measured-format lines, DOT as cudaGraphDebugDotPrint writes it, and plans.
 */
#ifndef STEM_LANES_READ_H
#define STEM_LANES_READ_H

#include "lanes/lanes.h"

/* One graph of a file. Everything lives in the arena that the reader was given. */
struct stem_lane_case {
    const char *label;        /* first word of the line; DOT: the graph's name ("graph_1") */
    struct stem_lane_graph graph;
    const uint32_t *measured; /* lane of each node, STEM_NO_LANE where the trace does not show it; NULL: not given */
    struct stem_span span;
};

struct stem_lane_cases {
    const struct stem_lane_case *at;
    uint32_t len;
};

/* Lines `LABEL n [KINDS] | u>v u>vp ... | lane lane - ...`; KINDS are letters of STEM_LANE_KINDS (default: all
 * kernels), `p` marks a programmatic edge, v@w among the edges says that node v is in node w (a child graph, or the
 * body of a conditional node), the lanes and their bar may be missing. Empty lines and lines that begin
 * with # are skipped. Faults are errors 41xx at their place; true if there were none. */
bool stem_lane_read_lines(const struct stem_source *s, struct stem_arena *a, struct stem_diags *q,
                          struct stem_lane_cases *out);

/* DOT as cudaGraphDebugDotPrint writes it, plain or verbose, and what is like it: each subgraph that has nodes is a
 * case of its own, nodes outside any are one more; a subgraph whose name is in the label of a child-graph node or a
 * conditional node before it (graph_15) goes into that node. A node's number is the N of its name
 * "graph_G_node_N", else its place in the text. Its kind is read from its label; what is not known becomes "other"
 * with a warning. An edge is programmatic if an attribute of it contains that word. */
bool stem_lane_read_dot(const struct stem_source *s, struct stem_arena *a, struct stem_diags *q,
                        struct stem_lane_cases *out);

/* DOT or lines, by how the text begins. */
bool stem_lane_read(const struct stem_source *s, struct stem_arena *a, struct stem_diags *q,
                    struct stem_lane_cases *out);

/* One case for each segment that is recorded into a graph; nodes are its ops in issue order. Names are not copied. */
void stem_lane_from_variant(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_lane_cases *out);

/* One measured-format line, with its newline. `lane` NULL: without lanes. */
void stem_lane_write_line(struct stem_out *o, const char *label, const struct stem_lane_graph *g,
                          const uint32_t *lane);

#endif
