/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem bench FILE`: the same program as one stream, main-first, side-first and with the streams that the compiler
 * chooses, with programmatic launches (PDL) and without, in one process over the same weights; replays of all ways take
 * turns. Prints a table for each specialisation, in Markdown. The floor is the time in which a copy on the device,
 * measured in the same run, moves the bytes that the ops must move, with routed experts as the tokens chose them.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/str.h"
#include "cli/bench.h"

const struct bench_kind bench_kinds[BENCH_KINDS] = {
    {"one-nopdl", "one stream, no PDL", "captured", BENCH_ONE, STEM_RUN_BY_CAPTURE},
    {"one", "one stream", "captured", BENCH_ONE_PDL, STEM_RUN_BY_CAPTURE},
    {"main-nopdl", "main-first, no PDL", "captured", BENCH_MAIN, STEM_RUN_BY_CAPTURE},
    {"main", "main-first", "captured", BENCH_MAIN_PDL, STEM_RUN_BY_CAPTURE},
    {"main-nodes", "main-first", "node by node", BENCH_MAIN_PDL, STEM_RUN_BY_NODES},
    {"side-nopdl", "side-first, no PDL", "captured", BENCH_SIDE, STEM_RUN_BY_CAPTURE},
    {"side", "side-first", "captured", BENCH_SIDE_PDL, STEM_RUN_BY_CAPTURE},
    {"chosen", "chosen streams", "captured", BENCH_AUTO_PDL, STEM_RUN_BY_CAPTURE},
    {"chosen-nodes", "chosen streams", "node by node", BENCH_AUTO_PDL, STEM_RUN_BY_NODES},
};

enum { OPT_ITERS = 0x300, OPT_SEED, OPT_WAYS, OPT_JSON };

static const struct argp_option options[] = {
    {"iters", OPT_ITERS, "N", 0, "Replays of each way to time (default 50)", 11},
    {"seed", OPT_SEED, "N", 0, "Of the random weights and inputs (default 1)", 11},
    {"ways", OPT_WAYS, "LIST", 0,
     "Which to compare (default all): one-nopdl, one, main-nopdl, main, main-nodes, side-nopdl, side, chosen, chosen-nodes",
     11},
    {"json", OPT_JSON, "FILE", 0, "Write what is printed, and more digits of it, as JSON", 11},
    {0}};
static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

static _Noreturn void wrong_way(const struct argp_state *state, const char *way, const char *const *names)
{
    char all[512] = "";
    for (size_t k = 0, len = 0; k < BENCH_KINDS + 1 && len < sizeof all; k++)
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", k ? ", " : "", names[k]);
    const char *near = stem_nearest(way, names, BENCH_KINDS + 1);
    stem_cli_usage(state, "--ways does not know '%s'; %s%s%s", way, near ? "did you mean '" : "there are ", near ? near : all,
                   near ? "'?" : "");
}

static void parse_ways(struct bench_options *o, const char *list, struct argp_state *state)
{
    const char *names[BENCH_KINDS + 1] = {[BENCH_KINDS] = "all"};
    for (uint32_t k = 0; k < BENCH_KINDS; k++) {
        names[k] = bench_kinds[k].name;
        o->way[k] = false;
    }
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
        char one[64];
        bool known = false;
        snprintf(one, sizeof one, "%.*s", (int)strcspn(p, ","), p);
        for (uint32_t k = 0; k < BENCH_KINDS; k++)
            if (!strcmp(one, "all") || !strcmp(one, names[k]))
                o->way[k] = known = true;
        if (!known)
            wrong_way(state, one, names);
    }
    uint32_t n = 0;
    for (uint32_t k = 0; k < BENCH_KINDS; k++)
        n += o->way[k];
    if (!n)
        stem_cli_usage(state, "--ways wants at least one");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct bench_options *o = state->input;
    char *end;
    static const char *const refused[] = {"arch", "passes", "stop-after", "one-stream", "order", "pdl", NULL};
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->compile; stem_cli_hide(refused); return 0;
    case OPT_WAYS: parse_ways(o, arg, state); return 0;
    case OPT_JSON: o->json = arg; return 0;
    case OPT_ITERS:
    case OPT_SEED: {
        unsigned long n = strtoul(arg, &end, 10);
        if (*end || end == arg || (key == OPT_ITERS && (n < 1 || n > 100000)))
            stem_cli_usage(state, "--iters and --seed take numbers, not '%s'", arg);
        if (key == OPT_ITERS)
            o->iters = (uint32_t)n;
        else
            o->seed = n;
        return 0;
    }
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse, "FILE",
                                 "Times one-stream, main-first, side-first and chosen schedules of a program, with PDL and without,\n"
                                 "against each other and against the floor by bytes on a GPU.",
                                 children, 0, 0};

/* The schedules are what is compared: an option that is of one of them would be without effect. */
static bool is_sensible(const struct bench_options *o)
{
    static const char *const schedule[] = {"order", "pdl", NULL}, *const arch[] = {"arch", NULL};
    if (o->compile.args.options.one_stream) {
        stem_cli_error("bench compares one stream with others: for it alone --ways=one, not --one-stream");
        return false;
    }
    return stem_cli_takes(&o->compile, schedule, "bench compares the schedules: --ways chooses some of them") &&
           stem_cli_takes(&o->compile, arch, "bench compiles for the GPU that is there") && stem_cli_whole(&o->compile);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int bench(struct bench *b)
{
    struct bench_cubins cubins = {0};
    struct stem_rt_error err;
    int status = STEM_EXIT_WORLD;
    double start = seconds();
    bool fine = bench_compile(b, &cubins, &status);
    b->compile_s = seconds() - start;
    if (fine)
        status = bench_run(b, &cubins, &err) ? bench_print(b) : stem_cli_rt_error(&err);
    bench_free(b);
    bench_cubins_free(&cubins);
    return status;
}

int stem_cmd_bench(int argc, char **argv)
{
    struct bench_options o = {.iters = 50, .seed = 1};
    struct stem_gpu g = {0};
    struct bench b = {.o = &o, .g = &g, .first = BENCH_KINDS};
    struct stem_rt_error err;
    stem_cli_compile_init(&o.compile);
    for (uint32_t k = 0; k < BENCH_KINDS; k++)
        o.way[k] = true;
    stem_cli_parse(&argp, argc, argv, 0, &o);
    for (uint32_t k = 0; k < BENCH_KINDS; k++) {
        b.n_ways += o.way[k];
        b.first = o.way[k] && b.first == BENCH_KINDS ? k : b.first;
    }
    g.seed = o.seed;
    int status = STEM_EXIT_USAGE;
    if (!is_sensible(&o)) {
        /* said already */
    } else if (o.json && !stem_cli_can_write(o.json)) {
        status = STEM_EXIT_WORLD;
    } else if (stem_gpu_open(&g, 0, STEM_GPU_NO_RECORDS, &err) != STEM_OK) {
        if (stem_cli_compiles(&o.compile, &status))
            status = stem_cli_rt_error(&err);
    } else {
        o.compile.args.options.target.sm = stem_cli_target_sm(g.info.sm);
        o.compile.gpu = g.info.name;
        status = bench(&b);
        stem_gpu_close(&g);
    }
    stem_cli_compile_free(&o.compile);
    return status;
}
