/* SPDX-License-Identifier: Apache-2.0
 *
 * The drawing: an SVG for each graph, lanes as columns, nodes downwards in the driver's order. No scripts, nothing
 * from elsewhere.
 */
#include "lanes/lanes_internal.h"
#include "lanes/report.h"

#define MAX_DRAWN 4000
#define COLUMN 26
#define ROW 16

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Lanes</title>\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    ":root{color-scheme:light dark}body{font:14px/1.45 system-ui,sans-serif;margin:20px 28px}h2{font-size:17px;overflow-wrap:anywhere}"
    "pre{font:12.5px/1.3 ui-monospace,\"DejaVu Sans Mono\",monospace;overflow-x:auto}.g{overflow-x:auto}"
    "text{font:11px ui-monospace,monospace;fill:currentColor}.o{stroke:currentColor;stroke-width:1.5}"
    ".e{stroke:#8888}.p{stroke:#58c;stroke-dasharray:2 2}.r{stroke:#e5534b;stroke-width:1.5;stroke-dasharray:5 3}"
    "ul{list-style:none;display:flex;flex-wrap:wrap;gap:2px 22px;padding:0;margin:6px 0}li svg{vertical-align:middle;margin-right:6px}"
    "\n</style></head><body>\n<p>Columns are lanes, nodes go downwards in the driver's order.</p>\n<ul>"
    "<li><svg width=\"14\" height=\"14\"><circle cx=\"7\" cy=\"7\" r=\"4\" fill=\"#58c\"/></svg>a node, in the colour of its lane"
    "<li><svg width=\"14\" height=\"14\"><circle class=\"o\" cx=\"7\" cy=\"7\" r=\"6\" fill=\"#58c\"/></svg>it opens the lane"
    "<li><svg width=\"26\" height=\"8\"><line class=\"e\" x1=\"0\" y1=\"4\" x2=\"26\" y2=\"4\"/></svg>an edge"
    "<li><svg width=\"26\" height=\"8\"><line class=\"p\" x1=\"0\" y1=\"4\" x2=\"26\" y2=\"4\"/></svg>a programmatic edge"
    "<li><svg width=\"26\" height=\"8\"><line class=\"r\" x1=\"0\" y1=\"4\" x2=\"26\" y2=\"4\"/></svg>an edge of the repair</ul>\n";

static void put_escaped(const char *s, struct stem_out *o)
{
    for (; *s; s++)
        if (*s == '<')
            stem_out_str(o, "&lt;");
        else if (*s == '>')
            stem_out_str(o, "&gt;");
        else if (*s == '&')
            stem_out_str(o, "&amp;");
        else if (*s == '"')
            stem_out_str(o, "&quot;");
        else if ((unsigned char)*s >= 0x20 || *s == '\n')
            stem_out_char(o, *s);
}

static uint32_t x_of(const struct stem_lane_report *r, uint32_t v)
{
    return COLUMN / 2 + r->lanes.lane[v] * COLUMN;
}

static void put_edge(const struct stem_lane_report *r, const uint32_t *row, struct stem_lane_edge e,
                     const char *class_name, struct stem_out *o)
{
    if (row[e.from] >= MAX_DRAWN || row[e.to] >= MAX_DRAWN)
        return;
    stem_out_printf(o, "<line class=\"%s\" x1=\"%u\" y1=\"%u\" x2=\"%u\" y2=\"%u\"/>\n", class_name, x_of(r, e.from),
                    ROW / 2 + row[e.from] * ROW, x_of(r, e.to), ROW / 2 + row[e.to] * ROW);
}

static void put_node(const struct stem_lane_report *r, uint32_t v, uint32_t row, uint32_t text_x, struct stem_out *o)
{
    const struct stem_lane_graph *g = &r->c->graph;
    uint32_t lane = r->lanes.lane[v], y = ROW / 2 + row * ROW;
    bool opens = r->lanes.why[v] >= STEM_LANE_ROOT;
    stem_out_printf(
        o,
        "<circle cx=\"%u\" cy=\"%u\" r=\"%u\" fill=\"hsl(%u 60%% 55%%)\"%s><title>node %u, lane %u</title>"
        "</circle><text x=\"%u\" y=\"%u\">%u ",
        x_of(r, v), y, opens ? 6 : 4, lane * 222 % 360, opens ? " class=\"o\"" : "", v, lane, text_x, y + 4, v);
    if (g->name && g->name[v])
        put_escaped(g->name[v], o);
    stem_out_str(o, "</text>\n");
}

static void put_graph(const struct stem_lane_report *r, struct stem_out *o)
{
    const struct stem_lane_graph *g = &r->c->graph;
    uint32_t drawn = r->lanes.n_order < MAX_DRAWN ? r->lanes.n_order : MAX_DRAWN;
    uint32_t text_x = r->lanes.n_lanes * COLUMN + 8;
    struct stem_arena *a = stem_arena_new();
    uint32_t *row = STEM_NEW_ARRAY(a, uint32_t, g->n);
    for (uint32_t v = 0; v < g->n; v++)
        row[v] = UINT32_MAX;
    for (uint32_t i = 0; i < r->lanes.n_order; i++)
        row[r->lanes.order[i]] = i;

    struct stem_out text = {0};
    stem_lanes_report_text(r, 20, &text);
    stem_out_str(o, "<h2>");
    put_escaped(r->c->label, o);
    stem_out_printf(o, "</h2>\n<pre>");
    put_escaped(stem_out_text(&text), o);
    stem_out_free(&text);
    stem_out_printf(o, "</pre>\n%s<div class=\"g\"><svg width=\"%u\" height=\"%u\">\n",
                    drawn < r->lanes.n_order ? "<p>Only the first 4000 nodes are drawn.</p>\n" : "", text_x + 500,
                    drawn * ROW + 4);
    for (uint32_t i = 0; i < g->n_edges; i++)
        put_edge(r, row, g->edges[i], g->edges[i].programmatic ? "p" : "e", o);
    for (uint32_t i = 0; i < r->repair.n_edges; i++)
        put_edge(r, row, r->repair.edges[i], "r", o);
    for (uint32_t i = 0; i < drawn; i++)
        put_node(r, r->lanes.order[i], i, text_x, o);
    stem_out_str(o, "</svg></div>\n");
    stem_arena_free(a);
}

void stem_lanes_report_html(const struct stem_lane_report *r, uint32_t n, struct stem_out *o)
{
    stem_out_str(o, head);
    for (uint32_t i = 0; i < n; i++)
        put_graph(&r[i], o);
    stem_out_str(o, "</body></html>\n");
}
