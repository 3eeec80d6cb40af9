/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem bench FILE`: the same program as one stream, main-first, side-first and with the streams that the compiler
 * chooses, with programmatic launches (PDL) and without, in one process over the same weights; replays of all ways take
 * turns. Prints a table for each specialisation, in Markdown. The floor is the time in which a copy on the device,
 * measured in the same run, moves the bytes that the ops must move, with routed experts as the tokens chose them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/gpu_check.h"
#include "cli/tune.h"

enum { ONE, ONE_PDL, MAIN, MAIN_PDL, SIDE, SIDE_PDL, AUTO_PDL, N_PLANS, N_WAYS = 9 };
enum { MOST_STATE = 256 << 20 /* bytes of state that are fetched and compared for each way */ };

struct bench {
    struct stem_cli_compile compile;
    uint32_t iters;
    uint64_t seed;
};

static const struct {
    const char *schedule, *built;
    uint32_t plan;
    enum stem_run_by by;
} kinds[N_WAYS] = {
    {"one stream, no PDL", "captured", ONE, STEM_RUN_BY_CAPTURE},
    {"one stream", "captured", ONE_PDL, STEM_RUN_BY_CAPTURE},
    {"main-first, no PDL", "captured", MAIN, STEM_RUN_BY_CAPTURE},
    {"main-first", "captured", MAIN_PDL, STEM_RUN_BY_CAPTURE},
    {"main-first", "node by node", MAIN_PDL, STEM_RUN_BY_NODES},
    {"side-first, no PDL", "captured", SIDE, STEM_RUN_BY_CAPTURE},
    {"side-first", "captured", SIDE_PDL, STEM_RUN_BY_CAPTURE},
    {"chosen streams", "captured", AUTO_PDL, STEM_RUN_BY_CAPTURE},
    {"chosen streams", "node by node", AUTO_PDL, STEM_RUN_BY_NODES},
};

struct way {
    struct stem_replay replay;
    struct stem_graph_info info;
    double *us;
    uint32_t lanes;
    bool same;
};

struct state {
    struct stem_gpu *g;
    struct stem_compiled *compiled[N_PLANS];
    struct stem_cli_exec exec[N_PLANS];
    struct way way[N_WAYS];
    uint32_t variant;
    double bandwidth;
    struct stem_bench_bytes bytes;
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
                                 "Times one-stream, main-first, side-first and chosen schedules of a program, with PDL and without,\n"
                                 "against each other and against the floor by bytes on a GPU.",
                                 children, 0, 0};

static bool compile_all(struct bench *b, struct state *s, int *status)
{
    for (uint32_t i = 0; i < N_PLANS; i++) {
        struct stem_cli_compile c = b->compile;
        struct stem_options *o = &c.args.options;
        o->one_stream = i == ONE || i == ONE_PDL;
        o->order = i == SIDE || i == SIDE_PDL ? STEM_ORDER_SIDE_FIRST : STEM_ORDER_MAIN_FIRST;
        if (i == ONE || i == MAIN || i == SIDE)
            o->pdl = STEM_PDL_OFF;
        o->ignore_pins |= i == AUTO_PDL;
        c.no_warnings = true; /* side-first is warned about, rightly; here it is wanted */
        if (i != MAIN_PDL && i != AUTO_PDL)
            c.remarks = NULL;
        s->compiled[i] = stem_cli_compile(&c, status);
        if (!s->compiled[i] || !s->compiled[i]->plan)
            return false;
    }
    return true;
}

static bool build(struct state *s, uint32_t w, struct stem_rt_error *err)
{
    struct way *x = &s->way[w];
    x->replay.e = &s->exec[kinds[w].plan];
    return stem_replay_new(s->g, s->variant, kinds[w].by, &x->replay, err);
}

static bool build_all(struct state *s, struct stem_rt_error *err)
{
    for (uint32_t w = 0; w < N_WAYS; w++) {
        if (!build(s, w, err))
            return false;
        stem_graph_info(s->way[w].replay.graph, &s->way[w].info);
    }
    return true;
}

static bool time_all(struct state *s, uint32_t iters, struct stem_rt_error *err)
{
    struct stem_timer *t = NULL;
    bool fine = stem_timer_new(s->g->rt, &t, err) == STEM_OK;
    struct stem_progress bar = stem_progress_start("timing");
    for (uint32_t i = 0; fine && i < iters + 3; i++) {
        for (uint32_t w = 0; fine && w < N_WAYS; w++) {
            double us;
            fine = stem_timer_start(t, s->g->stream, err) == STEM_OK && stem_replay(s->g, &s->way[w].replay, err) &&
                   stem_timer_stop(t, s->g->stream, &us, err) == STEM_OK;
            if (fine && i >= 3)
                s->way[w].us[i - 3] = us;
        }
        stem_progress_step(&bar, i, iters + 3);
    }
    stem_progress_end(&bar);
    stem_timer_free(t);
    return fine;
}

static bool same_bits(struct state *s, struct stem_rt_error *err)
{
    struct stem_results first = {0}, r;
    const char *where;
    bool fine = true;
    for (uint32_t w = 0; fine && w < N_WAYS; w++) {
        fine = stem_gpu_execute(s->g, &s->way[w].replay, true, &r, err);
        if (!fine)
            break;
        if (w == 0) {
            first = r;
            s->way[w].same = true;
            continue;
        }
        s->way[w].same = stem_results_same(&s->exec[ONE].plan->variants[s->variant], &r, &first, &where);
        stem_results_free(&r);
    }
    stem_results_free(&first);
    return fine;
}

static uint64_t state_bytes(const struct stem_plan *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_external; i++)
        n += p->variants[0].buffers[i].kind == STEM_BUFFER_STATE ? p->variants[0].buffers[i].bytes : 0;
    return n;
}

static void free_graphs(struct state *s)
{
    for (uint32_t w = 0; w < N_WAYS; w++)
        stem_replay_free(s->g, &s->way[w].replay);
}

/* Kernel records change timing, so lanes are read in a second pass, each way launched once, in order. */
static void measure_lanes(struct state *s)
{
    struct stem_rt_error err;
    struct stem_audit *audit;
    const struct stem_audit_record *records;
    uint32_t n, *lanes = NULL;
    if (stem_audit_start(NULL, &audit, &err) != STEM_OK)
        return;
    bool fine = true;
    free_graphs(s);
    for (uint32_t w = 0; fine && w < N_WAYS; w++)
        fine = build(s, w, &err) && stem_replay(s->g, &s->way[w].replay, &err) &&
               stem_rt_synchronize(s->g->rt, s->g->stream, &err) == STEM_OK;
    if (fine && stem_audit_stop(audit, &records, &n, &err) == STEM_OK) {
        uint32_t replays = stem_audit_lanes(audit, &lanes);
        for (uint32_t w = 0; w < N_WAYS && replays == N_WAYS; w++)
            s->way[w].lanes = lanes[w];
        if (replays != N_WAYS)
            stem_cli_error("the audit saw %u graph launches, not %d; lanes are not shown", replays, (int)N_WAYS);
        free(lanes);
    }
    stem_audit_free(audit);
}

/* Bytes that the ops of a schedule must move. */
static int print_table(const struct state *s, uint32_t iters)
{
    const struct stem_plan *p = s->exec[ONE].plan;
    const struct stem_rt_info *info = &s->g->info;
    double floor = 1e6 * s->bytes.moved / s->bandwidth;
    int status = STEM_EXIT_OK;
    printf("%s%s", s->variant ? "\n" : "", p->name);
    for (uint32_t i = 0; i < p->n_dims; i++)
        printf(", %s = %lld", p->dims[i], (long long)p->variants[s->variant].dim[i]);
    printf(", %s, driver %d.%d, median of %u replays; floor %.1f us: %s at the %.2f TB/s of a copy", info->name,
           info->driver / 1000, info->driver % 1000 / 10, iters, floor, stem_cli_bytes((uint64_t)s->bytes.moved),
           s->bandwidth / 1e12);
    if (s->bytes.n_experts)
        printf("; %.1f experts chosen in a layer", s->bytes.experts / s->bytes.n_experts);
    printf("\n\n");
    printf("| schedule | graph | nodes | edges | programmatic | lanes predicted | lanes measured | instantiate | memory | replay "
           "| over the floor | same bits |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    double base = stem_quantile(s->way[0].us, iters, 0.5);
    for (uint32_t w = 0; w < N_WAYS; w++) {
        const struct way *x = &s->way[w];
        double us = stem_quantile(x->us, iters, 0.5);
        char lanes[16] = "-";
        if (x->lanes)
            snprintf(lanes, sizeof lanes, "%u", x->lanes);
        printf("| %s | %s | %u | %u | %u | %u | %s | %.2f ms | %s | %.1f us (%.3f) | %.2f | %s |\n", kinds[w].schedule, kinds[w].built,
               x->info.n_nodes, x->info.n_edges, x->info.n_programmatic,
               s->exec[kinds[w].plan].plan->variants[s->variant].lanes, lanes, x->info.instantiate_us / 1000,
               stem_cli_bytes(x->info.device_bytes > 0 ? (uint64_t)x->info.device_bytes : 0), us, us / base, us / floor,
               x->same ? "yes" : "NO");
        if (!x->same)
            status = STEM_EXIT_DIFFER;
    }
    return status;
}

static bool load(struct bench *b, struct state *s, struct stem_rt_error *err)
{
    const struct stem_exec_options *none = NULL;
    if (!stem_gpu_load(s->g, s->compiled[MAIN_PDL]->plan, s->compiled[ONE]->plan, none, err) ||
        !tune_bandwidth(s->g, &s->bandwidth, err))
        return false;
    for (uint32_t i = 0; i < N_PLANS; i++)
        if (!stem_cli_exec_new(s->g->rt, s->compiled[i]->plan, none, &s->g->many, &s->exec[i], err))
            return false;
    s->g->many.no_state = state_bytes(s->g->many.plan) > MOST_STATE;
    for (uint32_t i = 0; i < N_PLANS; i++)
        s->exec[i].no_state = s->g->many.no_state;
    for (uint32_t w = 0; w < N_WAYS; w++)
        s->way[w].us = stem_xmalloc(b->iters * sizeof(double));
    return true;
}

static int bench(struct bench *b, struct state *s)
{
    struct stem_rt_error err;
    int status = STEM_EXIT_OK;
    bool fine = load(b, s, &err);
    for (s->variant = 0; fine && s->variant < s->exec[ONE].plan->n_variants; s->variant++) {
        fine = stem_exec_fill(s->g->many.exec, s->variant, b->seed, &err) == STEM_OK && build_all(s, &err) &&
               same_bits(s, &err) && stem_gpu_fill_states(s->g->rt, &s->g->many, b->seed, &err) && time_all(s, b->iters, &err) &&
               stem_bench_count(s->g, &s->exec[ONE], s->variant, &s->bytes, &err);
        if (!fine)
            break;
        measure_lanes(s);
        int one = print_table(s, b->iters);
        status = status ? status : one;
        free_graphs(s);
    }
    if (!fine)
        status = stem_cli_rt_error(&err);
    free_graphs(s);
    for (uint32_t i = 0; i < N_PLANS; i++)
        stem_exec_free(s->exec[i].exec);
    for (uint32_t w = 0; w < N_WAYS; w++)
        free(s->way[w].us);
    return status;
}

int stem_cmd_bench(int argc, char **argv)
{
    struct bench b = {.iters = 50, .seed = 1};
    struct stem_gpu g = {0};
    struct state s = {.g = &g};
    struct stem_rt_error err;
    stem_cli_compile_init(&b.compile);
    argp_parse(&argp, argc, argv, 0, NULL, &b);
    g.seed = b.seed;
    int status = STEM_EXIT_WORLD;
    if (stem_gpu_open(&g, 0, STEM_GPU_NO_RECORDS, &err) != STEM_OK) {
        status = stem_cli_rt_error(&err);
    } else {
        b.compile.args.options.target.sm = stem_cli_target_sm(g.info.sm);
        b.compile.gpu = g.info.name;
        if (compile_all(&b, &s, &status))
            status = bench(&b, &s);
        stem_gpu_unload(&g);
        stem_gpu_close(&g);
    }
    for (uint32_t i = 0; i < N_PLANS; i++)
        stem_compiled_free(s.compiled[i]);
    stem_cli_compile_free(&b.compile);
    return status;
}
