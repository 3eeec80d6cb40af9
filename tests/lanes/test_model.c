/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

#include "lanes/lanes.h"

/* How many graphs of each file, of which so many have exactly the measured lanes, and so many the measured number of
 * lanes. A better model raises the last two numbers; nothing may lower them. */
static const struct accuracy {
    const char *file;
    uint32_t graphs, exact, number;
} table[] = {
    {"small.txt", 2752, 2752, 2752},   {"random.txt", 2000, 2000, 2000}, {"forks.txt", 1060, 1060, 1060},
    {"chains.txt", 1918, 1918, 1918},  {"dense.txt", 1000, 1000, 1000},  {"edges.txt", 1440, 1440, 1440},
    {"wide.txt", 2540, 2540, 2540},    {"densep.txt", 1000, 976, 982},   {"kinds.txt", 750, 750, 750},
    {"memsets.txt", 1804, 1802, 1803}, {"copies.txt", 1854, 1843, 1848}, {"events.txt", 1232, 1229, 1232},
    {"memory.txt", 1032, 1030, 1031},  {"child.txt", 1350, 1342, 1344},  {"cond.txt", 652, 652, 652},
    {"mixed.txt", 694, 692, 692},
    /* Nothing was fitted to these, and nothing may be; but for one graph of held.txt. */
    {"held.txt", 900, 900, 900},       {"held-dense.txt", 500, 500, 500}, {"held-densep.txt", 500, 481, 486},
    {"held-empty.txt", 300, 300, 300}, {"held-memsets.txt", 300, 300, 300}, {"held-copies.txt", 400, 400, 400},
    {"held-events.txt", 300, 300, 300}, {"held-memory.txt", 300, 299, 300}, {"held-child.txt", 400, 400, 400},
    {"held-mix.txt", 400, 400, 400},
};

static struct accuracy score(const char *file)
{
    struct accuracy got = {.file = file};
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_cases cases = graphs_from_file(a, file);
    got.graphs = cases.len;
    for (uint32_t i = 0; i < cases.len; i++) {
        struct stem_lanes l;
        CU_ASSERT_FATAL(stem_lanes_predict(NULL, &cases.at[i].graph, a, &l));
        CU_ASSERT_PTR_NOT_NULL_FATAL(cases.at[i].measured);
        struct stem_lane_fit fit = stem_lanes_fit(&l, cases.at[i].measured);
        got.exact += fit.exact;
        got.number += fit.number;
    }
    stem_arena_free(a);
    return got;
}

static void measured_graphs(void)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct accuracy got = score(table[i].file);
        printf("\n    %-16s %4u graphs, %4u exact, %4u with the number of lanes", got.file, got.graphs, got.exact,
               got.number);
        CU_ASSERT_EQUAL(got.graphs, table[i].graphs);
        CU_ASSERT_EQUAL(got.exact, table[i].exact);
        CU_ASSERT_EQUAL(got.number, table[i].number);
    }
    puts("");
}

static void same_as_reference(void)
{
    struct accuracy got = score("reference.txt");
    CU_ASSERT_EQUAL(got.graphs, 799);
    CU_ASSERT_EQUAL(got.exact, 799);
}

/* k-way fork and join, L times, branches of 1: what docs/lanes.md promises. */
static void fork_laws(void)
{
    struct stem_arena *a = stem_arena_new();
    for (uint32_t k = 2; k <= 6; k++)
        for (uint32_t layers = 1; layers <= 6; layers++) {
            struct stem_lane_graph with = fork_join(a, k, layers, 1, 1, false, true);
            struct stem_lane_graph without = fork_join(a, k, layers, 1, 1, false, false);
            CU_ASSERT_EQUAL(lanes_of(&with), k);
            CU_ASSERT_EQUAL(lanes_of(&without), 1 + (k - 1) * layers);
        }
    stem_arena_free(a);
}

/* An edge given twice, edges in another order, and no edges at all. */
static void order_of_edges(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_cases c = graphs_from_text(a, "A 4 | 0>1 0>2 1>3 2>3\n"
                                                   "B 4 | 2>3 0>2 1>3 0>1 0>2 2>3\n"
                                                   "C 0 |\n"
                                                   "D 3 |\n");
    struct stem_lanes l[4];
    for (uint32_t i = 0; i < 4; i++)
        CU_ASSERT(stem_lanes_predict(NULL, &c.at[i].graph, a, &l[i]));
    CU_ASSERT_EQUAL(memcmp(l[0].lane, l[1].lane, 4 * sizeof(uint32_t)), 0);
    CU_ASSERT_EQUAL(l[2].n_lanes, 0);
    CU_ASSERT_EQUAL(l[3].n_lanes, 3);
    stem_arena_free(a);
}

/* Lanes of every node of a graph, who opened them, and how far to trust that. */
static void reasons(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_cases c = graphs_from_text(a, "side 5 | 0>1 1>2 0>3 3>4 2>4\n"
                                                   "p 2 | 0>1p\n"
                                                   "m 2 km | 0>1\n"
                                                   "pm 3 kkm | 0>1p 1>2\n"
                                                   "g 2 kg | 0>1\n");
    struct stem_lanes l;
    CU_ASSERT(stem_lanes_predict(NULL, &c.at[0].graph, a, &l));
    static const uint8_t why[] = {STEM_LANE_ROOT, STEM_LANE_CONTINUES, STEM_LANE_CONTINUES, STEM_LANE_LEFT,
                                  STEM_LANE_PINNED};
    CU_ASSERT_EQUAL(memcmp(l.why, why, 5), 0);
    CU_ASSERT_EQUAL(l.by[1], 0);
    CU_ASSERT_EQUAL(l.by[2], 1);
    CU_ASSERT_EQUAL(l.n_lanes, 2);
    static const enum stem_lane_trust trust[] = {STEM_LANE_EXACT, STEM_LANE_GOOD, STEM_LANE_GOOD, STEM_LANE_MIXED,
                                                 STEM_LANE_UNKNOWN};
    for (uint32_t i = 0; i < 5; i++) {
        CU_ASSERT(stem_lanes_predict(NULL, &c.at[i].graph, a, &l));
        CU_ASSERT_EQUAL(l.trust, trust[i]);
    }
    stem_arena_free(a);
}

static void bad_graphs(void)
{
    struct stem_arena *a = stem_arena_new();
    static const struct stem_lane_edge loop[] = {{0, 0, false}}, out[] = {{0, 7, false}},
                                       ring[] = {{0, 1, false}, {1, 2, false}, {2, 0, false}};
    struct stem_lanes l;
    CU_ASSERT(!stem_lanes_predict(NULL, &(struct stem_lane_graph){.n = 2, .edges = loop, .n_edges = 1}, a, &l));
    CU_ASSERT(!stem_lanes_predict(NULL, &(struct stem_lane_graph){.n = 2, .edges = out, .n_edges = 1}, a, &l));
    CU_ASSERT(!stem_lanes_predict(NULL, &(struct stem_lane_graph){.n = 3, .edges = ring, .n_edges = 3}, a, &l));
    CU_ASSERT(!stem_lanes_predict(NULL, &(struct stem_lane_graph){.n = STEM_LANE_MAX_NODES + 1}, a, &l));
    stem_arena_free(a);
}

/* The larger, the same: a graph of 100,000 nodes gives the lanes that the law gives. */
static void large(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_graph g = fork_join(a, 3, 20000, 1, 2, false, true);
    CU_ASSERT_EQUAL(g.n, 100001);
    CU_ASSERT_EQUAL(lanes_of(&g), 3);
    uint8_t *kind = STEM_NEW_ARRAY(a, uint8_t, g.n); /* every join an empty node: contracted or not, it must end */
    for (uint32_t v = 5; v < g.n; v += 5)
        kind[v] = STEM_LANE_EMPTY;
    g.kind = kind;
    CU_ASSERT(lanes_of(&g) >= 3);
    stem_arena_free(a);
}

static void tables(void)
{
    bool measured;
    uint32_t n;
    CU_ASSERT_PTR_NOT_NULL(stem_lane_driver_find(NULL));
    CU_ASSERT_PTR_NULL(stem_lane_driver_find("1"));
    const struct stem_lane_driver *const *all = stem_lane_drivers(&n);
    for (uint32_t i = 0; i < n; i++) {
        CU_ASSERT_PTR_EQUAL(stem_lane_driver_find(all[i]->name), all[i]);
        CU_ASSERT_PTR_EQUAL(stem_lane_driver_for(all[i]->first, &measured), all[i]);
        CU_ASSERT(measured);
    }
    CU_ASSERT_PTR_EQUAL(stem_lane_driver_for(9999, &measured), all[n - 1]);
    CU_ASSERT(!measured);
    CU_ASSERT_PTR_EQUAL(stem_lane_driver_for(1, &measured), all[0]);
    CU_ASSERT(!measured);
}

static void bad_lines(void)
{
    static const struct {
        const char *line;
        uint32_t id, begin, end;
    } bad[] = {
        {"x", 4100, 1, 1},
        {"x y |", 4100, 2, 3},
        {"x 2 kz |", 4100, 5, 6},
        {"x 2 k |", 4100, 4, 5},
        {"x 2 | 0-1", 4100, 6, 9},
        {"x 2 | 0>1pp", 4100, 6, 11},
        {"x 2 | 0>2", 4101, 6, 9},
        {"x 2 | 1>1", 4102, 6, 9},
        {"x 2 | 1@0", 4100, 6, 9},
        {"x 2 gk | 0@1", 4100, 9, 12},
        {"x 2 gk | 1@2", 4101, 9, 12},
        {"x 3 gkk | 1@0 1>2", 4100, 10, 17},
        {"x 2 gk | 1@0p", 4100, 9, 13},
        {"x 2 | 0>1 1>0", 4102, 0, 13},
        {"x 2 | | 0", 4100, 9, 9},
        {"x 2 | | 0 0 0", 4100, 12, 13},
        {"x 2 | | 0 a", 4100, 10, 11},
        {"x 2 | | 0 0 | 1", 4100, 12, 13},
        {"x 99999999999 |", 4100, 2, 13},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct stem_arena *a = stem_arena_new();
        struct stem_diags *q = stem_diags_new(0);
        struct stem_lane_cases c;
        CU_ASSERT(!stem_lane_read_lines(stem_source_new(a, "t", bad[i].line, strlen(bad[i].line)), a, q, &c));
        CU_ASSERT_EQUAL_FATAL(stem_diags_count(q), 1);
        const struct stem_diag *d = stem_diags_get(q, 0);
        if ((uint32_t)d->id != bad[i].id || d->span.begin != bad[i].begin || d->span.end != bad[i].end)
            fprintf(stderr, "\n'%s': %u at %u..%u\n", bad[i].line, (unsigned)d->id, d->span.begin, d->span.end);
        CU_ASSERT_EQUAL((uint32_t)d->id, bad[i].id);
        CU_ASSERT_EQUAL(d->span.begin, bad[i].begin);
        CU_ASSERT_EQUAL(d->span.end, bad[i].end);
        CU_ASSERT_EQUAL(c.len, 0);
        stem_diags_free(q);
        stem_arena_free(a);
    }
}

static void lines_round_trip(void)
{
    static const char text[] = "a 3 kmh | 0>1 0>2 | 0 - -\nb 2 | 0>1p | 0 0\nc 1 |\n"
                               "d 6 kgkkik | 0>1 2>3 2@1 3@1 5@4 | 0 - 0 0 - 1\n";
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_cases c = graphs_from_text(a, text);
    struct stem_out o = {0};
    for (uint32_t i = 0; i < c.len; i++)
        stem_lane_write_line(&o, c.at[i].label, &c.at[i].graph, c.at[i].measured);
    UNIT_SAME_TEXT(stem_out_text(&o), text);
    stem_out_free(&o);
    stem_arena_free(a);
}

UNIT_MAIN("lane model", {"accuracy on measured graphs", measured_graphs},
          {"same as the reference", same_as_reference}, {"fork and join", fork_laws},
          {"order of edges plays no part", order_of_edges}, {"reasons and trust", reasons},
          {"bad graphs are refused", bad_graphs}, {"100,000 nodes", large}, {"table of drivers", tables},
          {"bad lines are reported at their place", bad_lines}, {"lines are read and written", lines_round_trip})
