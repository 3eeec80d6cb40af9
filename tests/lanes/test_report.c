/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

#include "lanes/report.h"

static const char two_layers[] =
    "digraph dot {\nsubgraph cluster_1 {\nlabel=\"graph_1\" graph[style=\"dashed\"];\n"
    "\"graph_1_node_0\"[shape=\"octagon\" label=\"0\nin\n\"];\n"
    "\"graph_1_node_1\"[shape=\"octagon\" label=\"1\nside\n\"];\n"
    "\"graph_1_node_2\"[shape=\"octagon\" label=\"2\nmain_a\n\"];\n"
    "\"graph_1_node_3\"[shape=\"octagon\" label=\"3\nmain_b\n\"];\n"
    "\"graph_1_node_4\"[shape=\"octagon\" label=\"4\njoin\n\"];\n"
    "\"graph_1_node_5\"[shape=\"octagon\" label=\"5\nside\n\"];\n"
    "\"graph_1_node_6\"[shape=\"octagon\" label=\"6\nmain_a\n\"];\n"
    "\"graph_1_node_7\"[shape=\"octagon\" label=\"7\nmain_<b>\n\"];\n"
    "\"graph_1_node_8\"[shape=\"octagon\" label=\"8\nout\n\"];\n"
    "\"graph_1_node_0\" -> \"graph_1_node_1\"; \"graph_1_node_0\" -> \"graph_1_node_2\";\n"
    "\"graph_1_node_2\" -> \"graph_1_node_3\"; \"graph_1_node_1\" -> \"graph_1_node_4\";\n"
    "\"graph_1_node_3\" -> \"graph_1_node_4\"; \"graph_1_node_4\" -> \"graph_1_node_5\";\n"
    "\"graph_1_node_4\" -> \"graph_1_node_6\"; \"graph_1_node_6\" -> \"graph_1_node_7\";\n"
    "\"graph_1_node_5\" -> \"graph_1_node_8\"; \"graph_1_node_7\" -> \"graph_1_node_8\";\n"
    "}\n}\n";

static struct stem_lane_report report(struct stem_arena *a, const char *text)
{
    struct stem_diags *q = stem_diags_new(0);
    struct stem_lane_cases c;
    struct stem_lane_report r = {0};
    CU_ASSERT_FATAL(stem_lane_read(stem_source_new(a, "t", text, strlen(text)), a, q, &c));
    CU_ASSERT_FATAL(stem_lanes_report(NULL, &c.at[0], NULL, a, &r));
    stem_diags_free(q);
    return r;
}

static void check_text(const char *graph, uint32_t rows, const char *expected)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_report r = report(a, graph);
    struct stem_out o = {0};
    stem_lanes_report_text(&r, rows, &o);
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
    stem_arena_free(a);
}

static void texts(void)
{
    check_text(
        two_layers, 0,
        "graph_1: 9 nodes, 10 edges, 3 lanes (at least 2)\n"
        "  nodes      9 kernel\n"
        "  model      driver 580 (H200, driver 580.159.04, CUDA 13.0): kernels and ordinary edges; no exception was "
        "ever measured\n"
        "  forks      2; in 2 the branch recorded first is not the longest\n"
        "  lane 0    node 0 (in): nothing comes before it\n"
        "  lane 1    node 2 (main_a): recorded after 1 (side), which goes on with the lane of 0 (in)\n"
        "  lane 2    node 6 (main_a): recorded after 5 (side), which goes on with the lane of 4 (join)\n"
        "            lane 1 ended before it; an edge from node 3 (main_b) could continue that lane\n"
        "  repair     3 -> 2 lanes with 1 redundant edge (no smaller set does as well)\n"
        "    3 (main_b) -> 6 (main_a)\n");
    check_text(
        "x 3 kkm | 0>1p 0>2", 0,
        "x: 3 nodes, 2 edges, 1 lane (at least 1)\n"
        "  nodes      2 kernel 1 memset\n"
        "  model      driver 580 (H200, driver 580.159.04, CUDA 13.0): programmatic edges and other kinds of nodes "
        "together; exceptions are known\n"
        "  forks      1; in 0 the branch recorded first is not the longest\n"
        "  lane 0    node 0: nothing comes before it\n"
        "  lane 1    node 2: recorded after 1, which goes on with the lane of 0\n"
        "  repair     none needed\n");
    check_text(
        "y 3 kkg |", 1,
        "y: 3 nodes, 0 edges, 2 lanes (at least 2)\n"
        "  nodes      2 kernel 1 child graph\n"
        "  model      driver 580 (H200, driver 580.159.04, CUDA 13.0): some kinds of nodes were never measured; a "
        "guess\n"
        "  lane 0    node 0: nothing comes before it\n"
        "  ... and 2 more\n"
        "  repair     none needed\n");
}

static void dot(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_report r = report(a, "x 4 kkek | 0>1p 0>2 2>3");
    struct stem_out o = {0};
    stem_lanes_report_dot(&r, &o);
    UNIT_SAME_TEXT(stem_out_text(&o), "digraph lanes {\n"
                                      "  node [shape=box, style=filled];\n"
                                      "  n0 [label=\"0 kernel\\nlane 0\", fillcolor=\"0.000 0.45 0.95\"];\n"
                                      "  n1 [label=\"1 kernel\\nlane 0\", fillcolor=\"0.000 0.45 0.95\"];\n"
                                      "  n2 [label=\"2 empty\\nno lane\", fillcolor=white];\n"
                                      "  n3 [label=\"3 kernel\\nlane 1\", fillcolor=\"0.618 0.45 0.95\"];\n"
                                      "  n0 -> n1 [style=dotted, label=\"programmatic\"];\n"
                                      "  n0 -> n2;\n"
                                      "  n2 -> n3;\n"
                                      "}\n");
    stem_out_free(&o);
    r = report(a, two_layers);
    stem_lanes_report_dot(&r, &o);
    CU_ASSERT_PTR_NOT_NULL(strstr(stem_out_text(&o), "  n3 -> n6 [color=red, style=dashed, label=\"repair\"];\n"));
    stem_out_free(&o);
    stem_arena_free(a);
}

static uint32_t count(const char *text, const char *word)
{
    uint32_t n = 0;
    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
        n++;
    return n;
}

static void html(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_report r[2] = {report(a, two_layers), report(a, "x 2 ek | 0>1")};
    struct stem_out o = {0};
    stem_lanes_report_html(r, 2, &o);
    const char *page = strstr(stem_out_text(&o), "</ul>"); /* behind the legend */
    CU_ASSERT_PTR_NOT_NULL_FATAL(page);
    CU_ASSERT_EQUAL(count(page, "<svg"), 2);
    CU_ASSERT_EQUAL(count(page, "</svg>"), 2);
    CU_ASSERT_EQUAL(count(page, "<circle"), 10);
    CU_ASSERT_EQUAL(count(page, "class=\"e\""), 10);
    CU_ASSERT_EQUAL(count(page, "class=\"r\""), 1);
    CU_ASSERT_EQUAL(count(page, "main_&lt;b&gt;"), 1);
    CU_ASSERT_EQUAL(count(page, "http"), 0);
    stem_out_free(&o);
    stem_arena_free(a);
}

UNIT_MAIN("lane report", {"text", texts}, {"DOT", dot}, {"HTML", html})
