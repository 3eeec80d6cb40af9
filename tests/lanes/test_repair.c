/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

#include "lanes/repair.h"

/* What every repair must be: edges that are new, implied, between kernels, away from programmatic edges; and the
 * promised number of lanes. Returns lanes after. */
static uint32_t check_repair(const struct stem_lane_graph *g, const struct stem_lane_repair *r)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_edge *all = STEM_NEW_ARRAY(a, struct stem_lane_edge, g->n_edges + r->n_edges);
    memcpy(all, g->edges, g->n_edges * sizeof *all);
    for (uint32_t i = 0; i < r->n_edges; i++) {
        struct stem_lane_edge e = r->edges[i];
        CU_ASSERT(stem_lanes_implied(g, e.from, e.to));
        CU_ASSERT(!e.programmatic);
        if (g->kind)
            CU_ASSERT(g->kind[e.from] == STEM_LANE_KERNEL && g->kind[e.to] == STEM_LANE_KERNEL);
        for (uint32_t k = 0; k < g->n_edges; k++) {
            CU_ASSERT(g->edges[k].from != e.from || g->edges[k].to != e.to);
            CU_ASSERT(!g->edges[k].programmatic || (g->edges[k].from != e.from && g->edges[k].to != e.to));
        }
        all[g->n_edges + i] = e;
    }
    struct stem_lane_graph repaired = *g;
    repaired.edges = all;
    repaired.n_edges += r->n_edges;
    uint32_t lanes = lanes_of(&repaired);
    CU_ASSERT_EQUAL(lanes, r->after);
    CU_ASSERT_EQUAL(lanes_of(g), r->before);
    CU_ASSERT(r->after <= r->before);
    CU_ASSERT(r->after >= r->bound);
    CU_ASSERT((r->n_edges == 0) == (r->after == r->before));
    stem_arena_free(a);
    return lanes;
}

/* The pattern of engines: layers of a main and a side branch, the side branch recorded first. */
static void side_first(void)
{
    static const struct {
        uint32_t k, layers, length, main_length, before, after;
    } row[] = {
        {2, 61, 1, 3, 62, 2}, {2, 61, 5, 3, 62, 2}, {2, 40, 2, 2, 41, 2}, {2, 40, 5, 1, 41, 2},
        {3, 40, 1, 2, 81, 3}, {5, 12, 2, 2, 49, 5}, {6, 12, 1, 1, 61, 6},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        for (int side = 0; side < 2; side++) {
            struct stem_arena *a = stem_arena_new();
            struct stem_lane_graph g =
                fork_join(a, row[i].k, row[i].layers, row[i].length, row[i].main_length, side, false);
            struct stem_lane_repair r;
            CU_ASSERT(stem_lanes_repair(NULL, &g, NULL, a, &r));
            CU_ASSERT_EQUAL(r.before, row[i].before);
            CU_ASSERT_EQUAL(check_repair(&g, &r), row[i].after);
            CU_ASSERT_EQUAL(r.bound, row[i].after);
            CU_ASSERT_EQUAL(r.n_edges, row[i].before - row[i].after);
            CU_ASSERT(r.proof >= STEM_LANE_MINIMAL);
            stem_arena_free(a);
        }
}

/* A branch within a branch. The ends of lanes come before nodes that open none, too: those have to give way. */
static void nested_branches(void)
{
    static const struct {
        uint32_t layers, kernels, before;
    } row[] = {{40, 2, 81}, {61, 2, 123}, {12, 1, 25}, {12, 4, 25}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct stem_arena *a = stem_arena_new();
        struct stem_lane_graph g = nested(a, row[i].layers, row[i].kernels);
        struct stem_lane_repair r;
        CU_ASSERT(stem_lanes_repair(NULL, &g, &(struct stem_lane_repair_options){.greedy = true}, a, &r));
        CU_ASSERT_EQUAL(r.before, row[i].before);
        CU_ASSERT_EQUAL(r.bound, 3);
        CU_ASSERT_EQUAL(check_repair(&g, &r), 3);
        CU_ASSERT_EQUAL(r.n_edges, row[i].before - 3);
        stem_arena_free(a);
    }
}

/* Edges between two streams only: in layers of two branches, where the lane of main's last kernel would go on in main,
 * it goes on in the side branch instead. */
static void between_streams(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_graph g = fork_join(a, 2, 61, 1, 3, true, false);
    uint32_t *stream = STEM_NEW_ARRAY(a, uint32_t, g.n);
    for (uint32_t v = 1; v < g.n; v++)
        stream[v] = v % 5 == 1; /* side first; 5 nodes a layer */
    struct stem_lane_repair r;
    CU_ASSERT(stem_lanes_repair(NULL, &g, &(struct stem_lane_repair_options){.stream = stream}, a, &r));
    CU_ASSERT_EQUAL(r.before, 62);
    CU_ASSERT_EQUAL(check_repair(&g, &r), 2);
    CU_ASSERT_EQUAL(r.n_edges, 60);
    for (uint32_t i = 0; i < r.n_edges; i++)
        CU_ASSERT(stream[r.edges[i].from] != stream[r.edges[i].to]);
    CU_ASSERT(stem_lanes_repair(NULL, &g, &(struct stem_lane_repair_options){.enough = 10}, a, &r));
    CU_ASSERT(check_repair(&g, &r) <= 10);
    stem_arena_free(a);
}

/* Every measured graph: the edges are what they must be. Sums are kept so that a change shows. */
static void measured_graphs(void)
{
    static const struct {
        const char *file;
        uint32_t every;
    } files[] = {{"small.txt", 5},  {"random.txt", 7}, {"forks.txt", 9},
                 {"edges.txt", 11}, {"kinds.txt", 11}, {"mixed.txt", 7}};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        struct stem_arena *a = stem_arena_new();
        struct stem_lane_cases c = graphs_from_file(a, files[f].file);
        uint32_t before = 0, after = 0, bound = 0, graphs = 0;
        for (uint32_t i = 0; i < c.len; i += files[f].every) {
            struct stem_lane_repair r;
            struct stem_lane_repair_options options = {.work = 50000};
            CU_ASSERT_FATAL(stem_lanes_repair(NULL, &c.at[i].graph, &options, a, &r));
            check_repair(&c.at[i].graph, &r);
            graphs++;
            before += r.before;
            after += r.after;
            bound += r.bound;
        }
        printf("\n    %-11s %3u graphs, %4u lanes, %4u after repair, bound %4u", files[f].file, graphs, before, after,
               bound);
        CU_ASSERT(after <= before && after >= bound);
        stem_arena_free(a);
    }
    puts("");
}

/* Smallest: on a graph with two layers one edge is enough, and nothing is added where nothing helps. */
static void proofs(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_graph g = fork_join(a, 2, 2, 1, 1, true, false);
    struct stem_lane_repair r;
    CU_ASSERT(stem_lanes_repair(NULL, &g, NULL, a, &r));
    CU_ASSERT_EQUAL(r.n_edges, 1);
    CU_ASSERT_EQUAL(r.proof, STEM_LANE_SMALLEST);
    CU_ASSERT_EQUAL(r.after, 2);
    g = fork_join(a, 3, 2, 1, 1, true, false);
    CU_ASSERT(stem_lanes_repair(NULL, &g, NULL, a, &r));
    CU_ASSERT_EQUAL(r.n_edges, 2);
    CU_ASSERT_EQUAL(r.proof, STEM_LANE_SMALLEST);
    g = fork_join(a, 3, 2, 1, 1, false, true);
    CU_ASSERT(stem_lanes_repair(NULL, &g, NULL, a, &r));
    CU_ASSERT_EQUAL(r.n_edges, 0);
    CU_ASSERT_EQUAL(r.proof, STEM_LANE_SMALLEST);
    stem_arena_free(a);
}

static void limits(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_graph g = fork_join(a, 2, 61, 1, 3, true, false);
    struct stem_lane_repair r;
    CU_ASSERT(stem_lanes_repair(NULL, &g, &(struct stem_lane_repair_options){.max_edges = 10}, a, &r));
    CU_ASSERT(r.n_edges <= 10);
    CU_ASSERT_EQUAL(check_repair(&g, &r), 52);
    CU_ASSERT(stem_lanes_repair(NULL, &g, &(struct stem_lane_repair_options){.work = 1}, a, &r));
    CU_ASSERT_EQUAL(check_repair(&g, &r), r.after);
    CU_ASSERT_EQUAL(r.proof, STEM_LANE_SMALL);
    static const struct stem_lane_edge ring[] = {{0, 1, false}, {1, 0, false}};
    CU_ASSERT(!stem_lanes_repair(NULL, &(struct stem_lane_graph){.n = 2, .edges = ring, .n_edges = 2}, NULL, a, &r));
    stem_arena_free(a);
}

/* An edge is implied by a path of ordinary edges only: after a programmatic one the second kernel may begin early. */
static void implied(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_cases c = graphs_from_text(a, "a 4 | 0>1 1>2p 2>3 0>3");
    const struct stem_lane_graph *g = &c.at[0].graph;
    CU_ASSERT(stem_lanes_implied(g, 0, 1));
    CU_ASSERT(!stem_lanes_implied(g, 1, 2));
    CU_ASSERT(!stem_lanes_implied(g, 0, 2));
    CU_ASSERT(!stem_lanes_implied(g, 1, 3));
    CU_ASSERT(stem_lanes_implied(g, 0, 3));
    CU_ASSERT(!stem_lanes_implied(g, 3, 0));
    CU_ASSERT(!stem_lanes_implied(g, 3, 9));
    stem_arena_free(a);
}

static void bounds(void)
{
    static const struct {
        const char *line;
        uint32_t width;
    } row[] = {
        {"a 1 |", 1},
        {"a 5 |", 5},
        {"a 5 kmhek |", 2},
        {"a 3 | 0>1 1>2", 1},
        {"a 4 | 0>1 0>2 1>3 2>3", 2},
        {"a 6 | 0>3 1>4 2>5 0>4", 3},
        {"a 7 | 0>1 0>2 0>3 1>4 2>4 3>4 4>5 4>6", 3},
        {"a 4 | 0>2 1>2 2>3", 2},
        {"a 0 |", 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct stem_arena *a = stem_arena_new();
        struct stem_lane_cases c = graphs_from_text(a, row[i].line);
        CU_ASSERT_EQUAL(stem_lanes_bound(&c.at[0].graph), row[i].width);
        stem_arena_free(a);
    }
}

/* Where lanes are opened in two layers whose side branch was recorded first. */
static void openings(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_graph g = fork_join(a, 2, 2, 1, 2, true, false);
    struct stem_lanes l;
    struct stem_lane_openings o;
    CU_ASSERT(stem_lanes_predict(NULL, &g, a, &l));
    stem_lanes_explain(&g, &l, a, &o);
    static const struct stem_lane_opening expected[] = {
        {0, 0, STEM_LANE_ROOT, STEM_NO_NODE, STEM_NO_NODE, STEM_NO_NODE},
        {2, 1, STEM_LANE_LEFT, 0, 1, STEM_NO_NODE},
        {6, 2, STEM_LANE_LEFT, 4, 5, 3},
    };
    CU_ASSERT_EQUAL_FATAL(o.len, 3);
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(memcmp(&o.at[i], &expected[i], sizeof expected[i]), 0);
    stem_arena_free(a);
}

UNIT_MAIN("lane repair", {"side branch first", side_first}, {"nested branches", nested_branches},
          {"between streams", between_streams}, {"measured graphs", measured_graphs}, {"proofs", proofs},
          {"limits", limits}, {"implied edges", implied}, {"bounds", bounds}, {"openings", openings})
