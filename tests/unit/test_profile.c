/* SPDX-License-Identifier: Apache-2.0
 *
 * Which op a record is of: looks, order, launch numbers, node numbers, and records that fit no plan.
 */
#include "unit.h"

#include "report/report.h"

enum { OPS = 6 };

static const char *const streams[] = {"main", "side"};
static const struct stem_plan_kernel kernels[] = {{.name = "k"}, {.name = "q"}};

/* x, then a and b on main beside s and t on side, then out. All but x and out run the same kernel. */
static const char *const names[OPS] = {"x", "a", "s", "b", "t", "out"};
static const uint32_t on[OPS] = {0, 0, 1, 0, 1, 0};
static const struct stem_plan_edge edges[] = {{0, 1, 0, 0}, {0, 2, 0, 0}, {1, 3, 0, 0},
                                              {2, 4, 0, 0}, {3, 5, 0, 0}, {4, 5, 0, 0}};

struct made {
    struct stem_plan plan;
    struct stem_plan_variant v;
    struct stem_plan_op op[OPS];
    struct stem_event e[OPS];
};

/* A replay of it: a graph whose nodes are numbered from 40, side two microseconds ahead of main. */
static void make(struct made *m)
{
    static const double start[OPS] = {0, 14, 12, 24, 22, 34};
    memset(m, 0, sizeof *m);
    for (uint32_t i = 0; i < OPS; i++) {
        m->op[i] = (struct stem_plan_op){.name = names[i],
                                         .kind = "k",
                                         .work = STEM_WORK_LAUNCH,
                                         .stream = on[i],
                                         .layer = STEM_NONE,
                                         .resource = STEM_NONE,
                                         .kernel = i == 0 || i == OPS - 1,
                                         .grid = {1, 1, 1},
                                         .block = {32, 1, 1}};
        m->e[i] = (struct stem_event){.name = kernels[m->op[i].kernel].name,
                                      .stream = 7 + on[i],
                                      .graph = 3,
                                      .correlation = 9,
                                      .node = 40 + i,
                                      .grid = {1, 1, 1},
                                      .block = {32, 1, 1},
                                      .start = 100 + start[i],
                                      .end = 100 + start[i] + 8};
    }
    m->v = (struct stem_plan_variant){.ops = m->op, .n_ops = OPS, .edges = edges, .n_edges = 6};
    m->plan = (struct stem_plan){.name = "p",
                                 .streams = streams,
                                 .n_streams = 2,
                                 .kernels = kernels,
                                 .n_kernels = 2,
                                 .variants = &m->v,
                                 .n_variants = 1};
}

static void swap(struct made *m, uint32_t a, uint32_t b)
{
    struct stem_event t = m->e[a];
    m->e[a] = m->e[b];
    m->e[b] = t;
}

static bool map(struct made *m, uint32_t n, struct stem_arena *a, struct stem_profile *out, const char **why)
{
    *why = "";
    m->plan.variants = &m->v;
    return stem_profile_map(&m->plan, &m->v, m->e, n, NULL, a, out, why);
}

/* Of a made replay, in whatever order its records come. */
static void right(const struct stem_profile *f)
{
    static const double start[OPS] = {0, 14, 12, 24, 22, 34};
    static const uint32_t lane[OPS] = {0, 0, 1, 0, 1, 0};
    for (uint32_t i = 0; i < OPS; i++) {
        CU_ASSERT_DOUBLE_EQUAL(f->when.start[i], start[i], 1e-9);
        CU_ASSERT_DOUBLE_EQUAL(f->when.end[i], start[i] + 8, 1e-9);
        CU_ASSERT_EQUAL(f->when.lane[i], lane[i]);
    }
    CU_ASSERT_EQUAL(f->n_lanes, 2);
    CU_ASSERT_DOUBLE_EQUAL(f->when.length, 42, 1e-9);
    CU_ASSERT_EQUAL(f->broken, 0);
}

static void by_node_number(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_profile f;
    struct made m;
    const char *why;
    make(&m);
    swap(&m, 0, 5);
    swap(&m, 1, 2);
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    right(&f);
    CU_ASSERT_TRUE(f.graph);
    CU_ASSERT_EQUAL(f.by_order, 2);
    CU_ASSERT_EQUAL(f.by_number, 4);
    UNIT_SAME_TEXT(
        stem_profile_proof(&f, &m.v, a),
        "2 ops told apart by kernel, shape and order alone, 4 by node number, which agrees with the order of "
        "the others; the times agree with all 6 edges");
    stem_arena_free(a);
}

/* Numbers that grow against the order of x and out say nothing of the others. */
static void numbers_that_do_not_fit(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_profile f;
    struct made m;
    const char *why;
    make(&m);
    m.e[5].node = 1;
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    CU_ASSERT_EQUAL(f.guessed, 4);
    CU_ASSERT_EQUAL(f.by_number, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(stem_profile_proof(&f, &m.v, a), "4 GUESSED"));
    stem_arena_free(a);
}

static void by_order_alone(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_profile f;
    struct made m;
    const char *why;
    make(&m);
    for (uint32_t i = 0; i < OPS; i++) { /* eager: launches are numbered as they are issued */
        m.e[i].graph = 0;
        m.e[i].node = 0;
        m.e[i].correlation = 50 + i;
    }
    swap(&m, 2, 3);
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    right(&f);
    CU_ASSERT_FALSE(f.graph);
    CU_ASSERT_EQUAL(f.by_order, OPS);
    make(&m);
    for (uint32_t i = 0; i < OPS; i++) { /* all one after another: no numbers are needed */
        m.op[i].stream = 0;
        m.e[i].node = 0;
        m.e[i].start = 100 + 10 * i;
        m.e[i].end = 108 + 10 * i;
    }
    static const struct stem_plan_edge chain[] = {
        {0, 1, 0, 0}, {1, 2, 0, 0}, {2, 3, 0, 0}, {3, 4, 0, 0}, {4, 5, 0, 0}};
    m.v.edges = chain;
    m.v.n_edges = 5;
    swap(&m, 1, 4);
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    CU_ASSERT_EQUAL(f.by_order, OPS);
    for (uint32_t i = 0; i < OPS; i++)
        CU_ASSERT_DOUBLE_EQUAL(f.when.start[i], 10.0 * i, 1e-9);
    m.v.n_edges = 0; /* segments order them as well */
    for (uint32_t i = 0; i < OPS; i++)
        m.op[i].segment = i;
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    CU_ASSERT_EQUAL(f.by_order, OPS);
    stem_arena_free(a);
}

static void records_of_no_plan(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_profile f;
    struct made m;
    const char *why;
    make(&m);
    CU_ASSERT_FALSE(map(&m, OPS - 1, a, &f, &why));
    UNIT_SAME_TEXT(why, "1 records of the kernel q with a grid of 1 x 1 x 1, but 2 ops ('x' is the first)");
    make(&m);
    m.e[1].grid[0] = 2;
    CU_ASSERT_FALSE(map(&m, OPS, a, &f, &why));
    make(&m);
    m.e[1].kind = STEM_EVENT_COPY;
    CU_ASSERT_FALSE(map(&m, OPS, a, &f, &why));
    make(&m);
    m.v.n_ops = 5;
    m.v.n_edges = 4;
    CU_ASSERT_FALSE(map(&m, OPS, a, &f, &why));
    make(&m);
    m.e[5].start = 120; /* before b and t have ended, at 132 and 130 */
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    CU_ASSERT_EQUAL(f.broken, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(stem_profile_proof(&f, &m.v, a), "CONTRADICT 2 of 6"));
    struct stem_plan_edge early[6];
    memcpy(early, edges, sizeof edges);
    early[4].kind = early[5].kind = STEM_EDGE_PROGRAMMATIC;
    m.v.edges = early;
    m.e[5].start = 125; /* after they have started */
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    CU_ASSERT_EQUAL(f.broken, 0);
    stem_arena_free(a);
}

static void extern_ops(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_profile f;
    struct made m;
    const char *why;
    make(&m);
    m.op[4].work = STEM_WORK_EXTERN;
    m.e[4].name = "vendor";
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    right(&f);
    CU_ASSERT_EQUAL(f.guessed, 0);
    m.op[3].work = STEM_WORK_EXTERN; /* two at a time: whose record is it? */
    m.e[3].name = "vendor";
    m.e[3].start = m.e[4].start;
    CU_ASSERT_FALSE(map(&m, OPS, a, &f, &why));
    UNIT_SAME_TEXT(why, "no record is of the op 't', whose kernels are not ours");
    make(&m);
    m.op[4].work = STEM_WORK_EXTERN;
    m.e[4].name = "vendor";
    m.e[4].start = 101; /* while x runs, which it waits for */
    CU_ASSERT_FALSE(map(&m, OPS, a, &f, &why));
    UNIT_SAME_TEXT(why, "a record of 'vendor' is of no op");
    stem_arena_free(a);
}

/* Two products side by side, one of two kernels: by their numbers, which agree with those of our own kernels. */
static void products(void)
{
    static const uint32_t some[OPS] = {[3] = 2, [4] = 1}, more[OPS] = {[3] = 2, [4] = 2};
    struct stem_arena *a = stem_arena_new();
    struct stem_profile f;
    struct stem_event e[OPS + 1];
    const char *why = "";
    struct made m;
    make(&m);
    m.op[3].work = m.op[4].work = STEM_WORK_MATMUL;
    m.e[3].name = m.e[4].name = "nvjet";
    memcpy(e, m.e, sizeof m.e);
    e[OPS] = m.e[3]; /* its second kernel, right behind the first */
    e[OPS].start = m.e[3].end;
    e[OPS].end = m.e[3].end + 1;
    for (uint32_t i = 0; i <= OPS; i++)
        e[i].node = i == OPS ? 7 : i < 4 ? 2 * i : 2 * i + 2; /* 0 2 4 6 10 12.., the second kernel between */
    m.plan.variants = &m.v;
    CU_ASSERT_TRUE(stem_profile_map(&m.plan, &m.v, e, OPS + 1, some, a, &f, &why));
    CU_ASSERT_EQUAL(f.guessed, 0);
    CU_ASSERT(f.by_number >= 2);
    CU_ASSERT_EQUAL(f.when.end[3] - f.when.start[3], m.e[3].end + 1 - m.e[3].start);
    CU_ASSERT_EQUAL(f.when.end[4] - f.when.start[4], m.e[4].end - m.e[4].start);
    CU_ASSERT_FALSE(stem_profile_map(&m.plan, &m.v, e, OPS + 1, more, a, &f, &why));
    UNIT_SAME_TEXT(why, "3 records are of no kernel of ours, and the library's products are 4");
    stem_arena_free(a);
}

static void round_trip(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_profile f;
    struct stem_timeline t;
    struct made m;
    struct stem_out o = {0};
    const char *why;
    make(&m);
    CU_ASSERT_TRUE(map(&m, OPS, a, &f, &why));
    stem_profile_trace(&(struct stem_trace){&m.plan, &f, NULL, "device", "way"}, &o);
    CU_ASSERT_TRUE(stem_timeline_trace(&m.plan, &m.v, stem_out_text(&o), o.len, a, &t, &why));
    UNIT_SAME_TEXT(why, "");
    for (uint32_t i = 0; i < OPS; i++) {
        CU_ASSERT_DOUBLE_EQUAL(t.start[i], f.when.start[i], 1e-6);
        CU_ASSERT_EQUAL(t.lane[i], f.when.lane[i]);
        CU_ASSERT_EQUAL(t.critical[i], f.when.critical[i]);
    }
    m.op[2].name = "other";
    CU_ASSERT_FALSE(stem_timeline_trace(&m.plan, &m.v, stem_out_text(&o), o.len, a, &t, &why));
    UNIT_SAME_TEXT(why, "op 2 is 's' there and 'other' here: the trace is of another plan");
    stem_out_free(&o);
    stem_arena_free(a);
}

UNIT_MAIN("profile", {"look-alikes by node number", by_node_number},
          {"node numbers that do not fit prove nothing", numbers_that_do_not_fit},
          {"order alone settles chains, segments and eager launches", by_order_alone},
          {"records that are not the plan's", records_of_no_plan}, {"extern ops get what lies between", extern_ops}, {"products by a library", products},
          {"a trace reads back", round_trip})
