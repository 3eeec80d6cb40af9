/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes/report.h"

#include <string.h>

#include "lanes/lanes_internal.h"

/* Length of the path from v through nodes with one parent and one child: a branch, up to its join or next fork. */
static uint32_t branch_length(const struct stem_lane_adj *adj, uint32_t v)
{
    uint32_t length = 0;
    while (adj->parent_at[v + 1] - adj->parent_at[v] == 1) {
        length++;
        if (adj->child_at[v + 1] - adj->child_at[v] != 1)
            break;
        v = adj->child[adj->child_at[v]];
    }
    return length;
}

/* Which branch was recorded first matters to the driver: the first one goes on with the lane. */
static void count_forks(struct stem_lane_report *r)
{
    struct stem_arena *scratch = stem_arena_new();
    struct stem_lane_adj adj;
    if (stem_lane_adj_build(&r->c->graph, scratch, &adj))
        for (uint32_t u = 0; u < adj.n; u++) {
            if (adj.child_at[u + 1] - adj.child_at[u] < 2)
                continue;
            uint32_t first = branch_length(&adj, adj.child[adj.child_at[u]]);
            bool longer = false;
            for (uint32_t k = adj.child_at[u] + 1; k < adj.child_at[u + 1]; k++)
                longer |= branch_length(&adj, adj.child[k]) > first;
            r->forks++;
            r->side_first += longer;
        }
    stem_arena_free(scratch);
}

bool stem_lanes_report(const struct stem_lane_driver *driver, const struct stem_lane_case *c,
                       const struct stem_lane_repair_options *repair, struct stem_arena *a,
                       struct stem_lane_report *out)
{
    *out = (struct stem_lane_report){.driver = driver ? driver : stem_lane_driver_find(NULL), .c = c};
    if (!stem_lanes_predict(out->driver, &c->graph, a, &out->lanes) ||
        !stem_lanes_repair(out->driver, &c->graph, repair, a, &out->repair))
        return false;
    stem_lanes_explain(&c->graph, &out->lanes, a, &out->openings);
    for (uint32_t v = 0; v < c->graph.n; v++)
        out->by_kind[stem_lane_kind_of(&c->graph, v)]++;
    count_forks(out);
    return true;
}

/* ---- text ---- */

static void put_node(const struct stem_lane_report *r, uint32_t v, struct stem_out *o)
{
    const char *name = r->c->graph.name ? r->c->graph.name[v] : NULL;
    stem_out_printf(o, "%u", v);
    if (!name)
        return;
    struct stem_out shown = {0};
    stem_out_printf(&shown, " (%.60s%s)", name, strlen(name) > 60 ? "..." : "");
    stem_out_plain(o, stem_out_text(&shown));
    stem_out_free(&shown);
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

static void put_opening(const struct stem_lane_report *r, const struct stem_lane_opening *p, struct stem_out *o)
{
    stem_out_printf(o, "  lane %-4u node ", p->lane);
    put_node(r, p->node, o);
    if (p->why == STEM_LANE_ROOT)
        stem_out_str(o, ": nothing comes before it");
    else if (p->rival != STEM_NO_NODE && p->rival != p->node) {
        stem_out_printf(o, ": %s ", p->rival < p->node ? "recorded after" : "recorded before");
        put_node(r, p->rival, o);
        stem_out_str(o, ", which goes on with the lane of ");
        put_node(r, p->parent, o);
    } else {
        stem_out_str(o, ": no parent hands it a lane");
    }
    if (p->tail != STEM_NO_NODE) {
        stem_out_printf(o, "\n            lane %u ended before it; an edge from node ", r->lanes.lane[p->tail]);
        put_node(r, p->tail, o);
        stem_out_str(o, " could continue that lane");
    }
    stem_out_char(o, '\n');
}

static void put_trust(const struct stem_lane_report *r, struct stem_out *o)
{
    static const char *const text[] = {
        [STEM_LANE_EXACT] = "kernels and ordinary edges; no exception was ever measured",
        [STEM_LANE_GOOD] = "programmatic edges or other kinds of nodes; a few exceptions are known",
        [STEM_LANE_MIXED] = "programmatic edges and other kinds of nodes together; exceptions are known",
        [STEM_LANE_UNKNOWN] = "some kinds of nodes were never measured; a guess",
    };
    stem_out_printf(o, "  model      driver %s (%s): %s\n", r->driver->name, r->driver->blurb, text[r->lanes.trust]);
}

static void put_repair(const struct stem_lane_report *r, uint32_t max_rows, struct stem_out *o)
{
    static const char *const proof[] = {
        [STEM_LANE_SMALL] = "a small set", [STEM_LANE_MINIMAL] = "none of them can be left out",
        [STEM_LANE_SMALLEST] = "no smaller set does as well",
    };
    const struct stem_lane_repair *p = &r->repair;
    if (!p->n_edges) {
        stem_out_printf(o, "  repair     none %s\n", p->before <= p->bound ? "needed" : "found");
        return;
    }
    stem_out_printf(o, "  repair     %u -> %u lane%s with %u redundant edge%s (%s)\n", p->before, p->after,
                    plural(p->after), p->n_edges, plural(p->n_edges), proof[p->proof]);
    for (uint32_t i = 0; i < p->n_edges && (!max_rows || i < max_rows); i++) {
        stem_out_str(o, "    ");
        put_node(r, p->edges[i].from, o);
        stem_out_str(o, " -> ");
        put_node(r, p->edges[i].to, o);
        stem_out_char(o, '\n');
    }
    if (max_rows && p->n_edges > max_rows)
        stem_out_printf(o, "    ... and %u more\n", p->n_edges - max_rows);
}

void stem_lanes_report_text(const struct stem_lane_report *r, uint32_t max_rows, struct stem_out *o)
{
    const struct stem_lane_graph *g = &r->c->graph;
    stem_out_printf(o, "%s: %u node%s, %u edge%s, %u lane%s", r->c->label, g->n, plural(g->n), g->n_edges,
                    plural(g->n_edges), r->lanes.n_kernel_lanes, plural(r->lanes.n_kernel_lanes));
    stem_out_printf(o, " (at least %u)\n  nodes     ", r->repair.bound);
    for (size_t k = 0; k < sizeof r->by_kind / sizeof r->by_kind[0]; k++)
        if (r->by_kind[k])
            stem_out_printf(o, " %u %s", r->by_kind[k], stem_lane_kind_name((uint32_t)k));
    stem_out_char(o, '\n');
    put_trust(r, o);
    if (r->forks)
        stem_out_printf(o, "  forks      %u; in %u the branch recorded first is not the longest\n", r->forks,
                        r->side_first);
    for (uint32_t i = 0; i < r->openings.len && (!max_rows || i < max_rows); i++)
        put_opening(r, &r->openings.at[i], o);
    if (max_rows && r->openings.len > max_rows)
        stem_out_printf(o, "  ... and %u more\n", r->openings.len - max_rows);
    put_repair(r, max_rows, o);
}

/* ---- DOT ---- */

static void put_quoted(const char *s, struct stem_out *o)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            stem_out_char(o, '\\');
        stem_out_char(o, *s);
    }
}

void stem_lanes_report_dot(const struct stem_lane_report *r, struct stem_out *o)
{
    const struct stem_lane_graph *g = &r->c->graph;
    stem_out_str(o, "digraph lanes {\n  node [shape=box, style=filled];\n");
    for (uint32_t v = 0; v < g->n; v++) {
        stem_out_printf(o, "  n%u [label=\"%u ", v, v);
        put_quoted(g->name && g->name[v] ? g->name[v] : stem_lane_kind_name(stem_lane_kind_of(g, v)), o);
        uint32_t lane = r->lanes.lane[v];
        if (lane == STEM_NO_LANE) {
            stem_out_str(o, "\\nno lane\", fillcolor=white];\n");
            continue;
        }
        /* Hues a golden section apart: neighbours differ, and any number of lanes has colours. */
        stem_out_printf(o, "\\nlane %u\", fillcolor=\"%.3f 0.45 0.95\"];\n", lane,
                        lane * 0.618034 - (int)(lane * 0.618034));
    }
    for (uint32_t i = 0; i < g->n_edges; i++)
        stem_out_printf(o, "  n%u -> n%u%s;\n", g->edges[i].from, g->edges[i].to,
                        g->edges[i].programmatic ? " [style=dotted, label=\"programmatic\"]" : "");
    for (uint32_t i = 0; i < r->repair.n_edges; i++)
        stem_out_printf(o, "  n%u -> n%u [color=red, style=dashed, label=\"repair\"];\n", r->repair.edges[i].from,
                        r->repair.edges[i].to);
    stem_out_str(o, "}\n");
}
