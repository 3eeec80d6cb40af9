/* SPDX-License-Identifier: Apache-2.0
 *
 * What the DOT parser finds, collected and turned into graphs. Texts are spans of the source.
 */
#ifndef STEM_LANES_READ_DOT_H
#define STEM_LANES_READ_DOT_H

#include "base/vec.h"
#include "lanes/read.h"

struct stem_dot_tables;

/* The attributes of a node or an edge that mean something here. */
struct stem_dot_attrs {
    struct stem_span label, shape;
    bool programmatic;
};

struct stem_dot_tables *stem_dot_tables_new(const struct stem_source *s, struct stem_diags *q);
void stem_dot_tables_free(struct stem_dot_tables *t);

void stem_dot_attr(struct stem_dot_tables *t, struct stem_dot_attrs *attrs, struct stem_span name,
                   struct stem_span value);
/* False, reported, if it is there already. */
bool stem_dot_node(struct stem_dot_tables *t, struct stem_span name, struct stem_span at,
                   const struct stem_dot_attrs *attrs);
void stem_dot_edge(struct stem_dot_tables *t, struct stem_span from, struct stem_span to,
                   const struct stem_dot_attrs *attrs);
/* A subgraph begins; returns the one outside it, for stem_dot_leave. */
uint32_t stem_dot_enter(struct stem_dot_tables *t, struct stem_span name);
void stem_dot_leave(struct stem_dot_tables *t, uint32_t outer);
/* label="graph_1" names the present subgraph. */
void stem_dot_assign(struct stem_dot_tables *t, struct stem_span name, struct stem_span value);
bool stem_dot_finish(struct stem_dot_tables *t, struct stem_arena *a, struct stem_lane_cases *out);

/* Node `node` of group `group` holds group `held`. */
struct stem_dot_hold {
    uint32_t group, node, held;
};
/* Graphs of all groups, each by itself, with what they hold put in; `holds` is sorted meanwhile. */
void stem_dot_nest(struct stem_lane_case *cases, uint32_t n_groups, struct stem_dot_hold *holds, uint32_t n_holds,
                   struct stem_arena *a, struct stem_lane_cases *out);

#endif
