/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

#include "runtime/plan.h"

/* Reads a text and writes each graph as a line with its label and the names of its nodes; faults as id at begin. */
static void read_as(const char *text, const char *expected)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_diags *q = stem_diags_new(0);
    struct stem_lane_cases c = {0};
    struct stem_out o = {0};
    struct stem_source *s = stem_source_new(a, "g.dot", text, strlen(text));
    stem_diags_set_source(q, s);
    bool good = stem_lane_read(s, a, q, &c);
    CU_ASSERT_EQUAL(good, stem_diags_errors(q) == 0);
    for (uint32_t i = 0; i < stem_diags_count(q); i++) {
        const struct stem_diag *d = stem_diags_get(q, i);
        stem_out_printf(&o, "%s %u at %u: %s\n", d->severity == STEM_ERROR ? "error" : "warning", (unsigned)d->id,
                        d->span.begin, d->text);
    }
    for (uint32_t i = 0; good && i < c.len; i++) {
        stem_lane_write_line(&o, c.at[i].label, &c.at[i].graph, NULL);
        for (uint32_t v = 0; c.at[i].graph.name && v < c.at[i].graph.n; v++)
            stem_out_printf(&o, "  %s\n", c.at[i].graph.name[v]);
    }
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
    stem_diags_free(q);
    stem_arena_free(a);
}

static void verbose(void)
{
    read_as("digraph dot {\n"
            "subgraph cluster_1 {\n"
            "label=\"graph_1\" graph[style=\"dashed\"];\n"
            "\"graph_1_node_1\"[style=\"bold\" shape=\"record\" label=\"{KERNEL\n"
            "| {ID | 1 (topoId: 1) | _Z4gemmPf\\<\\<\\<2,128,0\\>\\>\\>}\n"
            "| {{node handle | func handle} | {0x000055D000000010 | 0x000055D000000020}}\n"
            "| {cooperative | 0}\n"
            "}\"];\n"
            "\"graph_1_node_0\"[style=\"bold\" shape=\"record\" label=\"{KERNEL\n"
            "| {ID | 0 (topoId: 4) | norm\\|x\\<\\<\\<1,64,0\\>\\>\\>}\n"
            "}\"];\n"
            "\"graph_1_node_2\"[style=\"solid\" shape=\"record\" label=\"{\nMEMCPY\n| {{ID | node handle} | {2 "
            "(topoId: 0) | "
            "0x0}}\n}\"];\n"
            "\"graph_1_node_10\"[style=\"solid\" shape=\"record\" label=\"{MEMSET\n| {x | y}}\"];\n"
            "\"graph_1_node_11\"[style=\"solid\" shape=\"record\" label=\"{HOST\n| {ID | 11}}\"];\n"
            "\"graph_1_node_0\" -> \"graph_1_node_1\" [headlabel=0];\n"
            "\"graph_1_node_1\" -> \"graph_1_node_2\" [headlabel=0];\n"
            "\"graph_1_node_2\" -> \"graph_1_node_10\" [headlabel=0];\n"
            "\"graph_1_node_10\" -> \"graph_1_node_11\";\n"
            "}\n"
            "}\n",
            "graph_1 5 kkcmh | 0>1 1>2 2>3 3>4\n"
            "  norm|x\n  _Z4gemmPf\n  graph_1_node_2\n  graph_1_node_10\n  graph_1_node_11\n");
}

static void plain(void)
{
    read_as("digraph dot {\n"
            "subgraph cluster_1 {\n"
            "label=\"graph_1\" graph[style=\"dashed\"];\n"
            "\"graph_1_node_0\"[style=\"bold\" shape=\"octagon\" label=\"0\nfirst\n\"];\n"
            "\"graph_1_node_1\"[style=\"solid\" shape=\"rectangle\" label=\"1\ngraph_2\n\"];\n"
            "\"graph_1_node_2\"[style=\"solid\" shape=\"rectangle\" label=\"2\nEMPTY\n\"];\n"
            "\"graph_1_node_3\"[style=\"solid\" shape=\"rectangle\" label=\"3\nMEM_ALLOC\n\"];\n"
            "\"graph_1_node_4\"[style=\"solid\" shape=\"rectangle\" label=\"4\nEVENT_RECORD\n\"];\n"
            "\"graph_1_node_5\"[style=\"solid\" shape=\"rectangle\" label=\"5\nMEMCPY\n(HtoD,64)\n\"];\n"
            "\"graph_1_node_6\"[style=\"bold\" shape=\"octagon\" label=\"6\ngraph_3\n\"];\n"
            "\"graph_1_node_0\" -> \"graph_1_node_1\";\n"
            "\"graph_1_node_0\" -> \"graph_1_node_6\" [taillabel=1 headlabel=2];\n"
            "\"graph_1_node_0\" -> \"graph_1_node_2\" [label=\"PROGRAMMATIC\"];\n"
            "}\n"
            "subgraph cluster_2 {\n"
            "label=\"graph_2\" graph[style=\"dashed\"];\n"
            "\"graph_2_node_0\"[style=\"bold\" shape=\"octagon\" label=\"0\ninner\n\"];\n"
            "}\n"
            "}\n",
            "graph_1 8 kgkeartk | 0>1 0>7 0>3p 2@1\n"
            "  first\n  graph_1_node_1\n  inner\n  graph_1_node_2\n  graph_1_node_3\n  graph_1_node_4\n"
            "  graph_1_node_5\n  graph_3\n");
    read_as("digraph dot { a [shape=box label=\"0\\nMEMSET\\n(0,4096)\"]; b [shape=box "
            "label=\"1\\nMEMSET\\n(0,4097)\"]; }",
            "graph 2 ml |\n  a\n  b\n");
}

/* As the driver wrote them (calibrate --dot, driver 580.159.04): both forms of a graph give the graph that was built,
 * but for programmatic edges, which it does not mark. */
static void as_written(void)
{
    static const struct {
        const char *name, *graph;
    } row[] = {
        {"child", "8 kgkkkgkk | 2>3 2>4 0>1 0>7 1>5 2@1 3@1 4@1 6@5\n"},
        {"cond", "6 kikkmk | 2>3 0>1 1>5 2@1 3@1 4@1\n"},
        {"copies", "6 kckttk | 0>1 0>3 1>2 3>4 4>5\n"},
        {"emptyhost", "5 kekhk | 0>1 1>2 1>3 2>4 3>4\n"},
        {"events", "5 krkwk | 0>1 0>3 1>2 3>4\n"},
        {"memory", "5 kakfk | 0>1 1>2 2>3 3>4\n"},
        {"memset", "4 kmkk | 0>1 0>3 1>2\n"},
        {"nested", "7 kgkgkkk | 4>5 2>3 0>1 1>6 2@1 3@1 4@3 5@3\n"},
        {"pdl", "6 kkkkkk | 0>1 0>2 1>3 2>3 3>4 4>5\n"},
    };
    const char *dir = getenv("SRCDIR"), *why = NULL;
    for (size_t i = 0; i < 2 * (sizeof row / sizeof row[0]); i++) {
        struct stem_arena *a = stem_arena_new();
        struct stem_diags *q = stem_diags_new(0);
        struct stem_lane_cases c = {0};
        struct stem_out o = {0};
        char *path = stem_arena_printf(a, "%s/tests/lanes/data/dot/%s.%s.dot", dir ? dir : ".", row[i / 2].name,
                                       i % 2 ? "verbose" : "plain");
        struct stem_source *s = stem_source_read(a, path, &why);
        CU_ASSERT_PTR_NOT_NULL_FATAL(s);
        stem_diags_set_source(q, s);
        CU_ASSERT(stem_lane_read(s, a, q, &c));
        CU_ASSERT_EQUAL(stem_diags_count(q), 0);
        CU_ASSERT_EQUAL_FATAL(c.len, 1);
        stem_lane_write_line(&o, "g", &c.at[0].graph, NULL);
        UNIT_SAME_TEXT(stem_out_text(&o) + 2, row[i / 2].graph);
        stem_out_free(&o);
        stem_diags_free(q);
        stem_arena_free(a);
    }
}

/* By hand: chains, comments, no subgraph, names without numbers, default attributes. */
static void by_hand(void)
{
    read_as("/* two */ strict digraph {\n"
            "  node [shape=box]; rankdir = LR; // left to right\n"
            "  a [label=\"a\"] b [label=\"b\"], c\n"
            "# a line\n"
            "  a -> b -> c [style=dotted, weight=-2]\n"
            "}\n",
            "warning 4105 at 109: 'c' has no label: taken for a kernel\n"
            "graph 3 kkk | 0>1 1>2\n  a\n  b\n  c\n");
    read_as("digraph { a [label=\"17\"] }", "warning 4105 at 10: the label of 'a' says no kind that is known\n"
                                            "graph 1 o |\n  a\n");
    read_as("line 2 | 0>1\ngraph 2 |\n", "line 2 | 0>1\ngraph 2 |\n");
}

static void faults(void)
{
    static const struct {
        const char *text, *expected;
    } row[] = {
        {"digraph {", "error 4103 at 9: the text ends, but '}' is expected\n"},
        {"digraph { \"a", "error 4103 at 10: this text has no end\n"},
        {"digraph { a [label=\"x\"]; a -> }", "error 4103 at 30: expected the node that the edge goes to\n"},
        {"digraph { a -- b }", "error 4103 at 12: an edge without direction: CUDA graphs are directed\n"},
        {"graph { a }", "error 4103 at 0: an undirected graph: CUDA graphs are digraphs\n"},
        {"digraph { a -> b; }", "error 4104 at 10: there are edges in this text, but no node is declared\n"},
        {"digraph { }", "error 4104 at 0: there are 0 nodes in this text\n"},
        {"digraph { a [label=\"x\"]; a -> b; }", "error 4101 at 30: node 'b' does not exist\n"},
        {"digraph { a [label=\"x\"]; a -> a; }", "error 4102 at 30: a node depends on itself\n"},
        {"digraph { a [label=\"x\"]; a [label=\"x\"]; }", "error 4106 at 25: node 'a' is there twice\n"},
        {"digraph { a [label=\"x\"]; b [label=\"y\"]; a -> b -> a; }",
         "error 4102 at 10: the edges of graph have a cycle through node 0 (x)\n"},
        {"digraph { a [label=] }", "error 4103 at 19: expected a value\n"},
        {"digraph { a [label=x }", "error 4103 at 21: expected an attribute or ']'\n"},
        {"digraph { ! }", "error 4103 at 10: expected a node, an edge, a subgraph or '}'\n"},
        {"digraph { } x", "error 4103 at 12: expected the end of the text or 'digraph'\n"},
        {"digraph { subgraph x { a [label=k] } subgraph y { b [label=k] } a -> b }",
         "warning 4107 at 64: an edge between two graphs is left out\nx 1 k |\n  k\ny 1 k |\n  k\n"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        read_as(row[i].text, row[i].expected);
}

/* Any prefix of a good file gives graphs or located errors, never a crash. */
static void prefixes(void)
{
    static const char text[] =
        "digraph dot {\nsubgraph cluster_1 {\nlabel=\"graph_1\" graph[style=\"dashed\"];\n"
        "\"graph_1_node_0\"[label=\"{KERNEL\n| {ID | 0 (topoId: 3) | k\\<\\<\\<1,1,0\\>\\>\\>}\n}\"];\n"
        "\"graph_1_node_1\"[label=<b <i> x>];\n\"graph_1_node_0\" -> \"graph_1_node_1\" [a=1];\n}\n}\n";
    for (size_t n = 0; n < sizeof text; n++) {
        struct stem_arena *a = stem_arena_new();
        struct stem_diags *q = stem_diags_new(0);
        struct stem_lane_cases c;
        struct stem_source *s = stem_source_new(a, "t", text, n);
        bool good = stem_lane_read_dot(s, a, q, &c);
        CU_ASSERT_EQUAL(good, stem_diags_errors(q) == 0);
        CU_ASSERT(good || stem_diags_get(q, 0)->span.begin <= n);
        stem_diags_free(q);
        stem_arena_free(a);
    }
}

static void nesting(void)
{
    char text[1000] = "digraph ";
    memset(text + 8, '{', 500);
    struct stem_arena *a = stem_arena_new();
    struct stem_diags *q = stem_diags_new(0);
    struct stem_lane_cases c;
    CU_ASSERT(!stem_lane_read_dot(stem_source_new(a, "t", text, strlen(text)), a, q, &c));
    CU_ASSERT_EQUAL(stem_diags_errors(q), 1);
    stem_diags_free(q);
    stem_arena_free(a);
}

static void plans(void)
{
    const struct stem_plan_op ops[] = {
        {.name = "a"}, {.name = "b"}, {.name = "c", .work = STEM_WORK_MEMSET}, {.name = "d"}, {.name = "e"}};
    const struct stem_plan_edge edges[] = {
        {0, 1, STEM_EDGE_PROGRAMMATIC, false}, {1, 2, STEM_EDGE_FULL, false}, {3, 4, STEM_EDGE_FULL, true}};
    const struct stem_plan_segment segments[] = {
        {.n_ops = 2}, {.first_op = 2, .n_ops = 1, .eager = true}, {.first_op = 3, .n_ops = 2}};
    const struct stem_plan_variant v = {
        .ops = ops, .n_ops = 5, .edges = edges, .n_edges = 3, .segments = segments, .n_segments = 3};
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_cases c;
    struct stem_out o = {0};
    stem_lane_from_variant(&v, a, &c);
    for (uint32_t i = 0; i < c.len; i++)
        stem_lane_write_line(&o, c.at[i].label, &c.at[i].graph, NULL);
    UNIT_SAME_TEXT(stem_out_text(&o), "segment 0 2 kk | 0>1p\nsegment 2 2 kk | 0>1\n");
    stem_out_free(&o);
    stem_arena_free(a);
}

UNIT_MAIN("lane reading", {"verbose DOT", verbose}, {"plain DOT", plain}, {"DOT of the driver", as_written},
          {"DOT by hand, and lines", by_hand}, {"faults are located", faults}, {"every prefix", prefixes},
          {"deep nesting", nesting}, {"plans", plans})
