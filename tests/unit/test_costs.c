/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of costs, and streams chosen by it: made-up tables, so that what must come out is known.
 */
#include "unit.h"

#include <stdlib.h>

#include "costs/costs.h"
#include "pass/events.h"
#include "pass/overlap.h"
#include "pipeline.h"

/* ---- the table ---- */

static struct stem_costs *small_table(void)
{
    struct stem_costs *c = stem_costs_new();
    struct stem_cost_gpu *g = stem_costs_gpu(c, "a \"GPU\"", 90);
    g->bandwidth = 4e12;
    uint32_t b = stem_costs_put(c, g, (struct stem_cost_entry){.key = "b", .kernel = 2, .us = 2.5});
    uint32_t a = stem_costs_put(c, g, (struct stem_cost_entry){.key = "a", .kernel = 1, .us = 4, .early_us = 3});
    stem_costs_put_pair(g, (struct stem_cost_pair){b, a, 1.25, -0.5});
    stem_costs_put_pair(g, (struct stem_cost_pair){b, b, 2, 1});
    stem_costs_gpu(c, "another", 80);
    return c;
}

static const char *const small_text =
    "{\"mainstem_costs\":1,\"gpus\":[\n"
    "{\"name\":\"a \\\"GPU\\\"\",\"sm\":90,\"bandwidth\":4.0000e+12,\"ops\":[\n"
    " {\"op\":\"a\",\"kernel\":\"0000000000000001\",\"us\":4.000,\"early_us\":3.000},\n"
    " {\"op\":\"b\",\"kernel\":\"0000000000000002\",\"us\":2.500}],\"pairs\":[\n"
    " [0,1,1.250,-0.500],\n"
    " [1,1,2.000,1.000]]},\n"
    "{\"name\":\"another\",\"sm\":80,\"ops\":[],\"pairs\":[]}]}\n";

static void round_trip(void)
{
    struct stem_costs *c = small_table();
    struct stem_arena *a = stem_arena_new();
    struct stem_out o = {0}, again = {0};
    const char *error;
    stem_costs_write(c, &o);
    UNIT_SAME_TEXT(stem_out_text(&o), small_text);
    struct stem_costs *read = stem_costs_read(small_text, strlen(small_text), a, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(read);
    stem_costs_write(read, &again);
    UNIT_SAME_TEXT(stem_out_text(&again), small_text);
    const struct stem_cost_gpu *g = stem_costs_find_gpu(read, NULL, 90);
    CU_ASSERT_PTR_EQUAL(g, stem_costs_find_gpu(read, "a \"GPU\"", 0));
    CU_ASSERT_PTR_NULL(stem_costs_find_gpu(read, "a", 90));
    CU_ASSERT_EQUAL(stem_costs_find(g, "c"), STEM_NONE);
    CU_ASSERT_PTR_NOT_NULL(stem_costs_find_pair(g, stem_costs_find(g, "b"), stem_costs_find(g, "a")));
    stem_costs_free(read);
    stem_costs_free(c);
    stem_out_free(&o);
    stem_out_free(&again);
    stem_arena_free(a);
}

/* A new time of the same kernel keeps the pairs, another kernel's drops them. */
static void another_kernel(void)
{
    struct stem_costs *c = small_table();
    struct stem_cost_gpu *g = stem_costs_gpu(c, "a \"GPU\"", 90);
    CU_ASSERT_EQUAL(stem_costs_put(c, g, (struct stem_cost_entry){.key = "a", .kernel = 1, .us = 5}), 1);
    CU_ASSERT_EQUAL(g->entries.len, 2);
    CU_ASSERT_PTR_NOT_NULL(stem_costs_find_pair(g, 0, 1));
    stem_costs_put_pair(g, (struct stem_cost_pair){0, 1, 1.5, 0});
    CU_ASSERT_EQUAL(g->pairs.len, 2);
    CU_ASSERT_EQUAL(stem_costs_find_pair(g, 1, 0)->slowdown, 1.5);
    stem_costs_put(c, g, (struct stem_cost_entry){.key = "a", .kernel = 7, .us = 5});
    CU_ASSERT_PTR_NULL(stem_costs_find_pair(g, 0, 1));
    CU_ASSERT_PTR_NOT_NULL(stem_costs_find_pair(g, 0, 0));
    stem_costs_free(c);
}

#define GPU(ops, pairs) "{\"mainstem_costs\":1,\"gpus\":[{\"name\":\"g\",\"sm\":90,\"ops\":[" ops "],\"pairs\":[" pairs "]}]}"
#define OP "{\"op\":\"a\",\"kernel\":\"0000000000000001\",\"us\":1}"

static void bad_tables(void)
{
    static const char *const rows[][2] = {
        {"", "line 1, column 0: '[' or '{' expected near end of file"},
        {"[]", "this is no table of costs: there is no member 'mainstem_costs'"},
        {"{\"mainstem_plan\":1}", "this is no table of costs: there is no member 'mainstem_costs'"},
        {"{\"mainstem_costs\":2,\"gpus\":[]}", "mainstem_costs: the table is of another version, this program reads 1: measure again"},
        {"{\"mainstem_costs\":1}", "gpus: a list is expected"},
        {"{\"mainstem_costs\":1,\"gpus\":[],\"x\":1}", "unknown member 'x'"},
        {"{\"mainstem_costs\":1,\"gpus\":[3]}", "gpus[0]: an object is expected"},
        {"{\"mainstem_costs\":1,\"gpus\":[{\"name\":\"\",\"sm\":90,\"ops\":[],\"pairs\":[]}]}",
         "gpus[0].name: a text of 1 to 65536 bytes is expected"},
        {"{\"mainstem_costs\":1,\"gpus\":[{\"name\":\"g\",\"sm\":-1,\"ops\":[],\"pairs\":[]}]}",
         "gpus[0].sm: an integer from 0 to 999 is expected"},
        {"{\"mainstem_costs\":1,\"gpus\":[{\"name\":\"g\",\"sm\":90,\"bandwidth\":0,\"ops\":[],\"pairs\":[]}]}",
         "gpus[0].bandwidth: 0 is not in 1..1e+18"},
        {GPU("{\"op\":\"a\",\"kernel\":\"1\",\"us\":1}", ""), "gpus[0].ops[0].kernel: 16 hexadecimal digits are expected"},
        {GPU("{\"op\":\"a\",\"kernel\":\"0000000000000001\",\"us\":-1}", ""), "gpus[0].ops[0].us: -1 is not in 0..1e+09"},
        {GPU("{\"op\":\"a\",\"kernel\":\"0000000000000001\",\"us\":\"1\"}", ""), "gpus[0].ops[0].us: a number is expected"},
        {GPU("{\"op\":\"a\",\"kernel\":\"0000000000000001\"}", ""), "gpus[0].ops[0].us: a number is expected"},
        {GPU("{\"op\":\"a\",\"kernel\":\"0000000000000001\",\"us\":1,\"early\":1}", ""), "gpus[0].ops[0]: unknown member 'early'"},
        {GPU(OP "," OP, ""), "gpus[0].ops[1].op: 'a' is there twice"},
        {GPU(OP, "[0,1,1,1]"), "gpus[0].pairs[0][1]: an integer from 0 to 0 is expected"},
        {GPU(OP, "[0,0,0.5,1]"), "gpus[0].pairs[0][2]: 0.5 is not in 1..1e+06"},
        {GPU(OP, "[0,0,1]"), "gpus[0].pairs[0]: [op, op, slowdown, microseconds of a fork] is expected"},
        {GPU(OP, "[0,0,1,1],[0,0,1,1]"), "gpus[0].pairs[1]: the pair is there twice"},
        {GPU("", "[0,0,1,1]"), "gpus[0].pairs[0]: there are no ops"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_arena *a = stem_arena_new();
        const char *error = NULL;
        CU_ASSERT_PTR_NULL(stem_costs_read(rows[i][0], strlen(rows[i][0]), a, &error));
        UNIT_SAME_TEXT(error ? error : "(nothing)", rows[i][1]);
        stem_arena_free(a);
    }
}

/* ---- keys ---- */

static struct stem_compiled *compile(const char *text, const char *const *dims, struct stem_options o)
{
    struct stem_compile_args a = {.path = "t.stem", .text = text, .len = strlen(text), .options = o, .dims = dims, .n_dims = dims ? 1 : 0};
    struct stem_compiled *c = stem_pipeline(&a);
    if (stem_diags_errors(c->diags)) {
        struct stem_out out = {0};
        stem_diags_print(c->diags, (struct stem_diag_style){0}, &out);
        fprintf(stderr, "%s", stem_out_text(&out));
        abort();
    }
    return c;
}

static const char two_branches[] = "module two;\n"
                                   "dim T in 1..64 = 4;\n"
                                   "layer b(x: bf16[T, 512]) -> bf16[T, 512] {\n"
                                   "  weight n: bf16[512], w: bf16[512, 512], v: bf16[512, 512], u: bf16[1024, 512], d: bf16[512, 1024];\n"
                                   "  h = rmsnorm(x, n);\n"
                                   "  y = linear(linear(h, w), v);\n"
                                   "  z = linear(linear(h, u), d);\n"
                                   "  return y + z;\n"
                                   "}\n"
                                   "model m(x: bf16[T, 512]) -> bf16[T, 512] { repeat 3 as l { x = b[l](x); } return x; }\n";

static void keys(void)
{
    static const char *const dims[] = {"T=1,4"};
    struct stem_options o = stem_options_default();
    o.no_fuse = true;
    struct stem_compiled *c = compile(two_branches, dims, o);
    struct stem_arena *a = stem_arena_new();
    struct stem_strtab *seen = stem_strtab_new();
    uint32_t most = 0;
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t i = 0; i < c->programs[v]->ops.len; i++) {
            const struct stem_op *op = &c->programs[v]->ops.at[i];
            uint32_t n = op->dead ? 0 : stem_intern(seen, stem_cost_key(c->programs[v], op, a)).n;
            most = n > most ? n : most;
        }
    CU_ASSERT_EQUAL(most, 2 * 5); /* norm, 512x512 twice, up, down, sum: three layers have the same ones */
    struct stem_program *p = c->programs[1];
    struct stem_op *norm = &p->ops.at[0], *linear = &p->ops.at[1];
    struct stem_target t = stem_options_default().target;
    UNIT_SAME_TEXT(stem_cost_key(p, norm, a), "rmsnorm(bf16[4,512], *bf16[512]) bf16[4,512] eps=1e-06");
    UNIT_SAME_TEXT(stem_cost_key(p, linear, a), "linear(bf16[4,512], *bf16[512,512]) bf16[4,512]");
    CU_ASSERT_EQUAL(stem_cost_kernel(p, linear, &t), stem_cost_kernel(p, linear, &t));
    CU_ASSERT_NOT_EQUAL(stem_cost_kernel(p, linear, &t), stem_cost_kernel(p, norm, &t));
    struct stem_target older = t;
    older.sm = 80;
    CU_ASSERT_NOT_EQUAL(stem_cost_kernel(p, linear, &t), stem_cost_kernel(p, linear, &older));
    stem_strtab_free(seen);
    stem_arena_free(a);
    stem_compiled_free(c);
}

/* ---- streams by the table ---- */

struct synthetic {
    double us, early_us; /* of every op */
    double slowdown[64 + 1], fork_us; /* of every pair, by T */
    uint64_t damage;     /* of kernel hashes */
};

/* A table of all ops of all specialisations of a compiled program. */
static struct stem_costs *table_of(const struct stem_compiled *c, const struct synthetic *s)
{
    struct stem_costs *costs = stem_costs_new();
    struct stem_cost_gpu *g = stem_costs_gpu(costs, "made up", 90);
    struct stem_arena *a = stem_arena_new();
    struct stem_target t = stem_options_default().target;
    for (uint32_t v = 0; v < c->n_programs; v++) {
        const struct stem_program *p = c->programs[v];
        uint32_t first = g->entries.len;
        for (uint32_t i = 0; i < p->ops.len; i++)
            if (!p->ops.at[i].dead)
                stem_costs_put(costs, g, (struct stem_cost_entry){stem_cost_key(p, &p->ops.at[i], a),
                                                                 stem_cost_kernel(p, &p->ops.at[i], &t) ^ s->damage, s->us, s->early_us});
        for (uint32_t i = first; i < g->entries.len; i++)
            for (uint32_t k = first; k <= i; k++)
                stem_costs_put_pair(g, (struct stem_cost_pair){k, i, s->slowdown[p->dim_values.at[0]], s->fork_us});
    }
    stem_arena_free(a);
    return costs;
}

static uint32_t on_side(const struct stem_plan_variant *v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_ops; i++)
        n += v->ops[i].stream != 0;
    return n;
}

static bool says(const struct stem_compiled *c, const char *text)
{
    struct stem_out o = {0};
    stem_diags_print(c->diags, (struct stem_diag_style){.remarks = "streams"}, &o);
    bool found = strstr(stem_out_text(&o), text);
    stem_out_free(&o);
    return found;
}

/* Overlap is free for one token, worth less than a fork for 16, and nothing for 64. */
static void forks_by_tokens(void)
{
    static const char *const dims[] = {"T=1,4,16,64"};
    struct synthetic s = {.us = 12, .early_us = 10, .fork_us = 3};
    s.slowdown[1] = 1;
    s.slowdown[4] = 1.5;  /* two ops of 10 us beside two others: 30 us instead of 40 */
    s.slowdown[16] = 1.9; /* 38 us instead of 40: less than 3 */
    s.slowdown[64] = 2;
    struct stem_options o = stem_options_default();
    o.no_fuse = true; /* what is fused is not what this is about */
    struct stem_compiled *plain = compile(two_branches, dims, o);
    struct stem_costs *costs = table_of(plain, &s);
    o.costs = stem_costs_find_gpu(costs, "made up", 0);
    struct stem_compiled *c = compile(two_branches, dims, o);
    const uint32_t want[] = {6, 6, 0, 0};
    const double schedule[] = {3 * 40 + 2 * 2, 3 * 50 + 2 * 2, 3 * 60, 3 * 60};
    for (uint32_t v = 0; v < 4; v++) {
        CU_ASSERT_EQUAL(on_side(&c->plan->variants[v]), want[v]);
        CU_ASSERT_EQUAL(c->plan->variants[v].ops[3].est_us, 10);
        CU_ASSERT_EQUAL(c->programs[v]->sched.forks.len, 3);
        CU_ASSERT_EQUAL(c->programs[v]->sched.forks.at[0].measured, true);
        CU_ASSERT_EQUAL(c->programs[v]->sched.forks.at[0].price_us, 3);
        /* a fork costs the model's 2 us here, half at each wait; the last layers' ends are alike */
        CU_ASSERT(c->programs[v]->sched.schedule_us >= schedule[v] - 1 && c->programs[v]->sched.schedule_us <= schedule[v] + 3);
    }
    CU_ASSERT_DOUBLE_EQUAL(c->programs[1]->sched.forks.at[0].gain_us, 10, 1e-9);
    CU_ASSERT(says(c, "saves 20.0 us, and a fork costs 3.0"));
    CU_ASSERT(says(c, "stays on main: a side stream would save 2.0 us, and a fork costs 3.0"));
    stem_compiled_free(c);
    o.pdl = STEM_PDL_OFF;
    c = compile(two_branches, dims, o);
    CU_ASSERT_EQUAL(c->plan->variants[0].ops[3].est_us, 12);
    stem_compiled_free(c);
    stem_costs_free(costs);
    stem_compiled_free(plain);
}

/* Times of kernels that are no longer what they were do not count, and it is said, once for each kind. */
static void stale_kernels(void)
{
    static const char *const dims[] = {"T=1"};
    struct synthetic s = {.us = 500, .early_us = 500, .damage = 1};
    s.slowdown[1] = 2;
    struct stem_options o = stem_options_default();
    o.no_fuse = true;
    struct stem_compiled *plain = compile(two_branches, dims, o);
    struct stem_costs *costs = table_of(plain, &s);
    o.costs = stem_costs_find_gpu(costs, "made up", 0);
    struct stem_compiled *c = compile(two_branches, dims, o);
    CU_ASSERT(c->plan->variants[0].ops[0].est_us < 100);
    CU_ASSERT_EQUAL(c->plan->variants[0].ops[0].est_us, plain->plan->variants[0].ops[0].est_us);
    CU_ASSERT(says(c, "the table of costs has 'linear(bf16[1,512], *bf16[512,512]) bf16[1,512]', but of another kernel"));
    uint32_t remarks = 0;
    for (uint32_t i = 0; i < stem_diags_count(c->diags); i++)
        remarks += strstr(stem_diags_get(c->diags, i)->text, "of another kernel") != NULL;
    CU_ASSERT_EQUAL(remarks, 5);
    stem_compiled_free(c);
    stem_costs_free(costs);
    stem_compiled_free(plain);
}

/* Pins are kept, whatever they cost, unless they are to be ignored. */
static void pins(void)
{
    static const char pinned[] = "module p;\ndim T in 1..4 = 4;\n"
                                 "layer l(x: bf16[T, 64]) -> bf16[T, 64] {\n"
                                 "  weight n: bf16[64], w: bf16[64, 64];\n"
                                 "  on side { a = rmsnorm(x, n); }\n"
                                 "  b = linear(x, w);\n"
                                 "  return a + b;\n}\n"
                                 "model m(x: bf16[T, 64]) -> bf16[T, 64] { return l(x); }\n";
    static const char *const dims[] = {"T=4"};
    struct synthetic s = {.us = 5, .early_us = 5, .fork_us = 9};
    s.slowdown[4] = 1;
    struct stem_options o = stem_options_default();
    struct stem_compiled *plain = compile(pinned, dims, o);
    struct stem_costs *costs = table_of(plain, &s);
    o.costs = stem_costs_find_gpu(costs, "made up", 0);
    struct stem_compiled *c = compile(pinned, dims, o);
    CU_ASSERT_EQUAL(on_side(&c->plan->variants[0]), 1);
    stem_compiled_free(c);
    o.ignore_pins = true;
    c = compile(pinned, dims, o);
    CU_ASSERT_EQUAL(on_side(&c->plan->variants[0]), 0);
    stem_compiled_free(c);
    stem_costs_free(costs);
    stem_compiled_free(plain);
}

/* ---- two lines of ops ---- */

static void lines(void)
{
    /* us of main's ops, of side's; join, needed, delay; slowdown; time, of which main's ops; main's time left before the join */
    static const struct {
        double main[3], side[3];
        uint32_t n_main, n_side, join, needed;
        double delay, slowdown, us, main_us, slack;
    } rows[] = {
        {{10, 10}, {5}, 2, 1, 2, 1, 0, 1, 5, 5, 15},  /* within the window */
        {{10, 10}, {5}, 2, 1, 2, 1, 0, 2, 10, 5, 15},  /* takes turns */
        {{10}, {25}, 1, 1, 1, 1, 0, 1, 25, 10, 0},  /* sticks out */
        {{10}, {25}, 1, 1, 1, 1, 0, 1.5, 30, 10, 0},
        {{10, 10}, {15}, 2, 1, 1, 1, 0, 1, 15, 10, 0},  /* main waits at its second op */
        {{10, 10}, {5, 10}, 2, 2, 1, 1, 0, 1, 15, 15, 5},  /* and here not, since only the first is needed */
        {{10, 10}, {5}, 2, 1, 2, 1, 8, 1, 13, 13, 7},  /* the stream is busy at first */
        {{10}, {5}, 1, 1, 1, 1, 20, 1, 25, 10, 0},
        {{0}, {5}, 0, 1, 0, 1, 0, 1, 5, 0, 0},  /* nothing beside it */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_costs *c = stem_costs_new();
        struct stem_cost_gpu *g = stem_costs_gpu(c, "g", 90);
        struct stem_op ops[6] = {{0}};
        uint32_t main[3] = {0, 1, 2}, side[3] = {3, 4, 5};
        stem_costs_put(c, g, (struct stem_cost_entry){.key = "main", .kernel = 1});
        stem_costs_put(c, g, (struct stem_cost_entry){.key = "side", .kernel = 1});
        stem_costs_put_pair(g, (struct stem_cost_pair){0, 1, rows[i].slowdown, 4});
        for (uint32_t k = 0; k < 6; k++) {
            ops[k].est_us = k < 3 ? rows[i].main[k] : rows[i].side[k - 3];
            ops[k].measured = k < 3 ? 1 : 2;
        }
        struct stem_options o = stem_options_default();
        o.costs = g;
        struct stem_lines l = {.ops = ops, .main = main, .side = side, .n_main = rows[i].n_main, .n_side = rows[i].n_side,
                               .join = rows[i].join, .n_needed = rows[i].needed, .delay = rows[i].delay};
        struct stem_overlap r = stem_overlap(&o, &l);
        CU_ASSERT_DOUBLE_EQUAL(r.us, rows[i].us, 1e-9);
        CU_ASSERT_DOUBLE_EQUAL(r.main_us, rows[i].main_us, 1e-9);
        CU_ASSERT_EQUAL(r.measured, rows[i].n_main > 0 && rows[i].delay < 10);
        CU_ASSERT_DOUBLE_EQUAL(r.slack_us, rows[i].slack, 1e-9);
        double had = ops[0].est_us > ops[3].est_us ? ops[0].est_us - ops[3].est_us : 0; /* in the round that was measured */
        CU_ASSERT_EQUAL(stem_fork_price(&o, &ops[0], &ops[3], had), 4);
        CU_ASSERT_DOUBLE_EQUAL(stem_fork_price(&o, &ops[0], &ops[3], had + 1), 3, 1e-9);
        CU_ASSERT_EQUAL(stem_fork_price(&o, &ops[0], &ops[3], had + 50), 1);
        ops[3].measured = 0;
        CU_ASSERT_EQUAL(stem_fork_price(&o, &ops[0], &ops[3], 0), o.target.fork_us);
        CU_ASSERT_EQUAL(stem_fork_price(&o, &ops[0], &ops[3], 50), o.target.fork_us / 4);
        stem_costs_free(c);
    }
}

/* Where nothing was measured, two ops cannot have more than the bandwidth. */
static void model(void)
{
    struct stem_options o = stem_options_default();
    struct stem_op half = {.est_us = 2}, all = {.est_us = 1}, tiny = {.est_us = 1};
    half.cost.bytes_read = all.cost.bytes_read = (uint64_t)(o.target.bandwidth / 1e6);
    CU_ASSERT_DOUBLE_EQUAL(stem_slowdown(&o, &half, &half).factor, 1, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(stem_slowdown(&o, &half, &all).factor, 1.5, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(stem_slowdown(&o, &all, &all).factor, 2, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(stem_slowdown(&o, &all, &tiny).factor, 1, 1e-6);
    CU_ASSERT_FALSE(stem_slowdown(&o, &all, &tiny).measured);
}

/* Our products of many tokens come to a share of the arithmetic, for all who estimate, and cuBLASLt is ahead. */
static void many_tokens(void)
{
    static const char linear[] = "module m;\ndim T in 1..512 = 512;\n"
                                 "model m(x: bf16[T, 4096]) -> (y: bf16[T, 4096], z: bf16[T, 4096]) {\n"
                                 "  weight w: bf16[4096, 4096], v: bf16[4096, 4096];\n  y = linear(x, w);\n  z = linear(x, v);\n"
                                 "  return y, z;\n}\n";
    static const char norm_linear[] = "module m;\ndim T in 1..512 = 512;\nmodel m(x: bf16[T, 4096]) -> bf16[T, 4096] {\n"
                                      "  weight n: bf16[4096], w: bf16[4096, 4096];\n  return norm_linear(x, n, w);\n}\n";
    static const struct {
        const char *text;
        const char *dim;
        enum stem_matmul_by by;
        double low, high; /* microseconds of an op */
    } rows[] = {
        {linear, "T=4", STEM_MATMUL_OWN, 8, 10},          {linear, "T=4", STEM_MATMUL_AUTO, 8, 10},
        {linear, "T=512", STEM_MATMUL_OWN, 150, 250},     {linear, "T=512", STEM_MATMUL_AUTO, 20, 45},
        {norm_linear, "T=4", STEM_MATMUL_OWN, 8, 10},     {norm_linear, "T=512", STEM_MATMUL_OWN, 150, 250},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const dims[] = {rows[i].dim};
        struct stem_options o = stem_options_default();
        o.matmul = rows[i].by;
        struct stem_compiled *c = compile(rows[i].text, dims, o);
        const struct stem_program *p = c->programs[0];
        for (uint32_t k = 0; k < p->ops.len; k++)
            CU_ASSERT(p->ops.at[k].dead || (p->ops.at[k].est_us > rows[i].low && p->ops.at[k].est_us < rows[i].high));
        if (rows[i].low > 100 && p->ops.len > 1) /* both want all there is: nothing is gained beside each other */
            CU_ASSERT(stem_slowdown(&o, &p->ops.at[0], &p->ops.at[1]).factor > 1.9);
        stem_compiled_free(c);
    }
}

UNIT_MAIN("costs", {"round trip", round_trip}, {"another kernel", another_kernel}, {"bad tables", bad_tables}, {"keys", keys},
          {"forks by token count", forks_by_tokens}, {"stale kernels", stale_kernels}, {"pins", pins}, {"two lines of ops", lines},
          {"the model's slowdown", model}, {"products of many tokens", many_tokens})
