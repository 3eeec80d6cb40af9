/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem bench FILE`: the same program as one stream, main-first, side-first, and main-first with programmatic
 * launches (PDL), captured and built node by node, in one process over the same weights; replays of all ways take
 * turns. Prints a table, in Markdown.
 */
#include "cli/gpu_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { N_WAYS = 8, N_PLANS = 4, MOST_STATE = 256 << 20 /* bytes of state that are fetched and compared for each way */ };

struct bench {
    struct stem_cli_compile compile;
    uint32_t iters;
    uint64_t seed;
};

struct way {
    const char *schedule, *built;
    uint32_t plan; /* 0 one stream, 1 main-first, 2 side-first, 3 main-first with PDL */
    enum stem_run_by by;
    struct stem_cli_exec exec;
    struct stem_replay replay;
    struct stem_graph_info info;
    double *us;
    uint32_t lanes;
    bool same;
};

enum { OPT_ITERS = 0x300, OPT_SEED };

static const struct argp_option options[] = {
    {"iters", OPT_ITERS, "N", 0, "Replays of each way to time (default 50)", 11},
    {"seed", OPT_SEED, "N", 0, "Of the random weights and inputs (default 1)", 11},
    {0}};
static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct bench *b = state->input;
    char *end;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &b->compile; return 0;
    case OPT_ITERS:
    case OPT_SEED: {
        unsigned long n = strtoul(arg, &end, 10);
        if (*end || end == arg || (key == OPT_ITERS && (n < 1 || n > 100000)))
            argp_error(state, "--iters and --seed take numbers, not '%s'", arg);
        if (key == OPT_ITERS)
            b->iters = (uint32_t)n;
        else
            b->seed = n;
        return 0;
    }
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse, "FILE",
                                 "Times one-stream, main-first and side-first schedules of a program, and main-first with PDL, against\n"
                                 "each other on a GPU.",
                                 children, 0, 0};

static bool compile_all(struct bench *b, struct stem_compiled **out, int *status)
{
    for (uint32_t i = 0; i < N_PLANS; i++) {
        struct stem_cli_compile c = b->compile;
        c.args.options.one_stream = i == 0;
        c.args.options.order = i == 2 ? STEM_ORDER_SIDE_FIRST : STEM_ORDER_MAIN_FIRST;
        c.args.options.pdl = i == 3 ? STEM_PDL_AUTO : STEM_PDL_OFF;
        c.no_warnings = true; /* side-first is warned about, rightly; here it is wanted */
        out[i] = stem_cli_compile(&c, status);
        if (!out[i] || !out[i]->plan)
            return false;
    }
    return true;
}

static bool build(struct stem_gpu *g, struct way *w, struct stem_rt_error *err)
{
    w->replay.e = &w->exec;
    if (!stem_replay_new(g, 0, w->by, &w->replay, err))
        return false;
    stem_graph_info(w->replay.graph, &w->info);
    return true;
}

static bool time_all(struct stem_gpu *g, struct way *ways, uint32_t iters, struct stem_rt_error *err)
{
    struct stem_timer *t = NULL;
    bool fine = stem_timer_new(g->rt, &t, err) == STEM_OK;
    struct stem_progress bar = stem_progress_start("timing");
    for (uint32_t i = 0; fine && i < iters + 3; i++) {
        for (uint32_t w = 0; fine && w < N_WAYS; w++) {
            double us;
            fine = stem_timer_start(t, g->stream, err) == STEM_OK && stem_replay(g, &ways[w].replay, err) &&
                   stem_timer_stop(t, g->stream, &us, err) == STEM_OK;
            if (fine && i >= 3)
                ways[w].us[i - 3] = us;
        }
        stem_progress_step(&bar, i, iters + 3);
    }
    stem_progress_end(&bar);
    stem_timer_free(t);
    return fine;
}

static bool same_bits(struct stem_gpu *g, struct way *ways, struct stem_rt_error *err)
{
    struct stem_results first = {0}, r;
    const char *where;
    bool fine = true;
    for (uint32_t w = 0; fine && w < N_WAYS; w++) {
        fine = stem_gpu_execute(g, &ways[w].replay, true, &r, err);
        if (!fine)
            break;
        if (w == 0) {
            first = r;
            ways[w].same = true;
            continue;
        }
        ways[w].same = stem_results_same(&g->many.plan->variants[0], &r, &first, &where);
        stem_results_free(&r);
    }
    stem_results_free(&first);
    return fine;
}

/* States (caches) as full of random numbers as inputs are: reading zeros takes less power than a real cache does. */
static bool fill_states(struct stem_gpu *g, uint64_t seed, struct stem_rt_error *err)
{
    bool fine = true;
    for (uint32_t i = 0; fine && i < g->many.plan->n_external; i++) {
        struct stem_plan_buffer b = g->many.plan->variants[0].buffers[i];
        if (b.kind != STEM_BUFFER_STATE || b.dtype == STEM_I32 || b.dtype == STEM_I64 || b.dtype == STEM_U8)
            continue;
        b.kind = STEM_BUFFER_INPUT;
        fine = stem_rt_fill(g->rt, &b, seed, stem_exec_address(g->many.exec, i), err) == STEM_OK;
    }
    return fine;
}

static uint64_t state_bytes(const struct stem_plan *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_external; i++)
        n += p->variants[0].buffers[i].kind == STEM_BUFFER_STATE ? p->variants[0].buffers[i].bytes : 0;
    return n;
}

/* Kernel records change timing, so lanes are read in a second pass, each way launched once, in order. */
static void measure_lanes(struct stem_gpu *g, struct way *ways)
{
    struct stem_rt_error err;
    struct stem_audit *audit;
    const struct stem_audit_record *records;
    uint32_t n, *lanes = NULL;
    if (stem_audit_start(NULL, &audit, &err) != STEM_OK)
        return;
    bool fine = true;
    for (uint32_t w = 0; fine && w < N_WAYS; w++) {
        stem_replay_free(g, &ways[w].replay);
        fine = build(g, &ways[w], &err) && stem_replay(g, &ways[w].replay, &err) &&
               stem_rt_synchronize(g->rt, g->stream, &err) == STEM_OK;
    }
    if (fine && stem_audit_stop(audit, &records, &n, &err) == STEM_OK) {
        uint32_t replays = stem_audit_lanes(audit, &lanes);
        for (uint32_t w = 0; w < N_WAYS && replays == N_WAYS; w++)
            ways[w].lanes = lanes[w];
        if (replays != N_WAYS)
            stem_cli_error("the audit saw %u graph launches, not %d; lanes are not shown", replays, (int)N_WAYS);
        free(lanes);
    }
    stem_audit_free(audit);
}

static int print_table(const struct stem_gpu *g, struct way *ways, uint32_t iters)
{
    const struct stem_plan *p = g->many.plan;
    int status = STEM_EXIT_OK;
    printf("%s", p->name);
    for (uint32_t i = 0; i < p->n_dims; i++)
        printf(", %s = %lld", p->dims[i], (long long)p->variants[0].dim[i]);
    printf(", %s, driver %d.%d, median of %u replays\n\n", g->info.name, g->info.driver / 1000,
           g->info.driver % 1000 / 10, iters);
    printf("| schedule | graph | nodes | edges | lanes predicted | lanes measured | instantiate | memory | replay | same bits |\n"
           "|---|---|---|---|---|---|---|---|---|---|\n");
    double base = stem_quantile(ways[0].us, iters, 0.5);
    for (uint32_t w = 0; w < N_WAYS; w++) {
        struct way *x = &ways[w];
        double us = stem_quantile(x->us, iters, 0.5);
        char lanes[16] = "-";
        if (x->lanes)
            snprintf(lanes, sizeof lanes, "%u", x->lanes);
        printf("| %s | %s | %u | %u | %u | %s | %.2f ms | %s | %.1f us (%.3f) | %s |\n", x->schedule, x->built,
               x->info.n_nodes, x->info.n_edges, x->exec.plan->variants[0].lanes, lanes, x->info.instantiate_us / 1000,
               stem_cli_bytes(x->info.device_bytes > 0 ? (uint64_t)x->info.device_bytes : 0), us, us / base,
               x->same ? "yes" : "NO");
        if (!x->same)
            status = STEM_EXIT_DIFFER;
    }
    if (g->many.no_state)
        printf("\nSame bits: of the outputs; states of %s were not fetched.\n", stem_cli_bytes(state_bytes(p)));
    return status;
}

static int bench(struct bench *b, struct stem_gpu *g, struct stem_compiled **c)
{
    struct way ways[N_WAYS] = {
        {"one stream", "captured", 0, STEM_RUN_BY_CAPTURE, {0}, {0}, {0}, NULL, 0, false},
        {"one stream", "node by node", 0, STEM_RUN_BY_NODES, {0}, {0}, {0}, NULL, 0, false},
        {"main-first", "captured", 1, STEM_RUN_BY_CAPTURE, {0}, {0}, {0}, NULL, 0, false},
        {"main-first", "node by node", 1, STEM_RUN_BY_NODES, {0}, {0}, {0}, NULL, 0, false},
        {"side-first", "captured", 2, STEM_RUN_BY_CAPTURE, {0}, {0}, {0}, NULL, 0, false},
        {"side-first", "node by node", 2, STEM_RUN_BY_NODES, {0}, {0}, {0}, NULL, 0, false},
        {"main-first, PDL", "captured", 3, STEM_RUN_BY_CAPTURE, {0}, {0}, {0}, NULL, 0, false},
        {"main-first, PDL", "node by node", 3, STEM_RUN_BY_NODES, {0}, {0}, {0}, NULL, 0, false},
    };
    struct stem_rt_error err;
    int status = STEM_EXIT_OK;
    bool fine = stem_gpu_load(g, c[1]->plan, c[0]->plan, NULL, &err) &&
                stem_exec_fill(g->many.exec, 0, b->seed, &err) == STEM_OK;
    g->many.no_state = state_bytes(c[1]->plan) > MOST_STATE;
    for (uint32_t w = 0; fine && w < N_WAYS; w++) {
        ways[w].us = stem_xmalloc(b->iters * sizeof(double));
        fine = stem_cli_exec_new(g->rt, c[ways[w].plan]->plan, NULL, &g->many, &ways[w].exec, &err) &&
               build(g, &ways[w], &err);
        ways[w].exec.no_state = g->many.no_state;
    }
    struct stem_graph_info info[N_WAYS];
    if ((fine = fine && same_bits(g, ways, &err) && fill_states(g, b->seed, &err) &&
         time_all(g, ways, b->iters, &err))) {
        for (uint32_t w = 0; w < N_WAYS; w++)
            info[w] = ways[w].info;
        measure_lanes(g, ways);
        for (uint32_t w = 0; w < N_WAYS; w++)
            ways[w].info = info[w];
        status = print_table(g, ways, b->iters);
    } else {
        status = stem_cli_rt_error(&err);
    }
    for (uint32_t w = 0; w < N_WAYS; w++) {
        stem_replay_free(g, &ways[w].replay);
        if (ways[w].exec.exec)
            stem_exec_free(ways[w].exec.exec);
        free(ways[w].us);
    }
    return status;
}

int stem_cmd_bench(int argc, char **argv)
{
    struct bench b = {.iters = 50, .seed = 1};
    struct stem_compiled *c[N_PLANS] = {0};
    struct stem_gpu g = {0};
    struct stem_rt_error err;
    stem_cli_compile_init(&b.compile);
    argp_parse(&argp, argc, argv, 0, NULL, &b);
    g.seed = b.seed;
    int status = STEM_EXIT_WORLD;
    if (stem_gpu_open(&g, 0, STEM_GPU_NO_RECORDS, &err) != STEM_OK) {
        status = stem_cli_rt_error(&err);
    } else {
        b.compile.args.options.target.sm = stem_cli_target_sm(g.info.sm);
        if (compile_all(&b, c, &status))
            status = bench(&b, &g, c);
        stem_gpu_unload(&g);
        stem_gpu_close(&g);
    }
    for (uint32_t i = 0; i < N_PLANS; i++)
        stem_compiled_free(c[i]);
    stem_cli_compile_free(&b.compile);
    return status;
}
