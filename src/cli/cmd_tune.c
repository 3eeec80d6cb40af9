/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem tune FILE -o costs.json`: measures the ops of a program on the GPU, each alone and in the pairs that could
 * overlap, and writes the table that the passes choose streams by. What the table has of the same kernels is kept, so
 * that an interrupted run goes on where it was.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "cli/tune.h"
#include "runtime/cublaslt.h"

enum { OPT_SECONDS = 0x400, OPT_PAIRS, OPT_AGAIN, OPT_INDEX, OPT_SEED };
enum { OURS = 3, N_PROGRAMS }; /* the last: products by cuBLASLt */

struct options {
    struct stem_cli_compile compile;
    const char *output;
    uint32_t seconds, pairs, index;
    uint64_t seed;
    bool again;
};

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "The table to make or to go on with (default: costs.json beside the cached kernels)", 11},
    {"seconds", OPT_SECONDS, "N", 0, "Stop measuring after so long; what is there then is written (default 300)", 11},
    {"pairs", OPT_PAIRS, "N", 0, "Measure at most so many pairs, those that could save most first (default 512)", 11},
    {"again", OPT_AGAIN, 0, 0, "Measure what the table has already, too", 11},
    {"gpu", OPT_INDEX, "N", 0, "Which GPU (default 0)", 11},
    {"seed", OPT_SEED, "N", 0, "Of the random weights and inputs (default 1)", 11},
    {0}};
static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

static uint32_t number(struct argp_state *state, const char *arg, const char *what, uint32_t high)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(arg, &end, 10);
    if (errno || end == arg || *end || *arg == '-' || n > high)
        stem_cli_usage(state, "%s takes a number from 0 to %u, not '%s'", what, high, arg);
    return (uint32_t)n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    static const char *const refused[] = {"arch", "passes", "stop-after", "one-stream", "costs", NULL};
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->compile; stem_cli_hide(refused); return 0;
    case 'o': o->output = arg; return 0;
    case OPT_SECONDS: o->seconds = number(state, arg, "--seconds", 1000000); return 0;
    case OPT_PAIRS: o->pairs = number(state, arg, "--pairs", 1000000); return 0;
    case OPT_INDEX: o->index = number(state, arg, "--gpu", 1023); return 0;
    case OPT_SEED: o->seed = number(state, arg, "--seed", UINT32_MAX); return 0;
    case OPT_AGAIN: o->again = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse, "FILE",
                                 "Measures the ops of a program on a GPU, alone and in pairs, for the choice of streams.", children, 0, 0};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool save(const struct tune *t, const char *path)
{
    struct stem_out o = {0};
    stem_costs_write(t->costs, &o);
    bool fine = stem_cli_write(path, stem_out_text(&o), o.len);
    stem_out_free(&o);
    return fine;
}

static int by_worth(const void *a, const void *b)
{
    const struct tune_pair *x = a, *y = b;
    if (x->worth > y->worth || x->worth < y->worth)
        return x->worth > y->worth ? -1 : 1;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

/* Pairs that are in the table are left out. */
static void rank_pairs(struct tune *t, uint32_t most)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->pairs.len; i++) {
        struct tune_pair *p = &t->pairs.at[i];
        const struct tune_op *a = &t->ops.at[p->a], *b = &t->ops.at[p->b];
        if (a->stale || b->stale || stem_costs_find_pair(t->table, a->entry, b->entry))
            continue;
        p->worth = p->count * (a->us < b->us ? a->us : b->us);
        t->pairs.at[kept++] = *p;
    }
    qsort(t->pairs.at, kept, sizeof *t->pairs.at, by_worth);
    t->pairs.len = kept < most ? kept : most;
}

struct counts {
    uint32_t ops, pairs, known, left;
};

static bool measure_all(struct tune *t, const char *path, uint32_t most_pairs, struct counts *n, struct stem_rt_error *err)
{
    double saved = now();
    struct stem_progress bar = stem_progress_start("measuring ops");
    bool fine = true;
    for (uint32_t i = 0; fine && i < t->ops.len; i++) {
        struct tune_op *o = &t->ops.at[i];
        n->known += !o->stale;
        if (o->stale && now() < t->deadline) {
            fine = tune_measure_op(t, o, err);
            n->ops += fine;
        }
        n->left += o->stale;
        stem_progress_step(&bar, i, t->ops.len);
    }
    stem_progress_end(&bar);
    if (!fine)
        return false;
    rank_pairs(t, most_pairs);
    bar = stem_progress_start("measuring pairs");
    for (uint32_t i = 0; fine && i < t->pairs.len; i++) {
        if (now() >= t->deadline) {
            n->left += t->pairs.len - i;
            break;
        }
        fine = tune_measure_pair(t, &t->pairs.at[i], err);
        n->pairs += fine;
        if (now() - saved > 5) { /* an interrupted run loses no more than that */
            save(t, path);
            saved = now();
        }
        stem_progress_step(&bar, i, t->pairs.len);
    }
    stem_progress_end(&bar);
    return fine;
}

/* On one stream without fusion, with it, and as written: what the passes come to look at. Streams are chosen when some ops
 * are fused and others not yet, so pairs of both matter. Then without fusion once more, with products by cuBLASLt. */
static bool compile_all(struct options *o, struct tune_program *p, int *status)
{
    bool library = o->compile.args.options.matmul != STEM_MATMUL_OWN && stem_cublaslt_present();
    for (uint32_t i = 0; i < (library ? N_PROGRAMS : OURS); i++) {
        struct stem_cli_compile c = o->compile;
        c.costs = "none";
        c.args.options.one_stream = i != 2;
        c.args.options.no_fuse |= i == 0 || i == OURS;
        c.args.options.matmul = i == OURS ? STEM_MATMUL_CUBLASLT : STEM_MATMUL_OWN;
        c.no_warnings |= i > 0;
        p[i].compiled = stem_cli_compile(&c, status);
        if (!p[i].compiled || !p[i].compiled->plan)
            return false;
    }
    return true;
}

static bool load_all(struct stem_gpu *g, struct tune_program *p, struct stem_rt_error *err)
{
    for (uint32_t i = 0; i < N_PROGRAMS; i++)
        if (p[i].compiled && !stem_cli_exec_new(g->rt, p[i].compiled->plan, NULL, i ? &p[0].exec : NULL, &p[i].exec, err))
            return false;
    return true;
}

static int run(struct options *o, struct stem_gpu *g, struct tune_program *p, struct stem_costs *costs, const char *path)
{
    struct stem_rt_error err;
    struct counts n = {0};
    struct tune t = {.gpu = g, .arena = stem_arena_new(), .costs = costs, .options = &o->compile.args.options, .deadline = now() + o->seconds};
    t.table = stem_costs_gpu(costs, g->info.name, g->info.sm);
    if (o->again) {
        stem_vec_clear(&t.table->pairs);
        for (uint32_t i = 0; i < t.table->entries.len; i++)
            t.table->entries.at[i].kernel = 0;
    }
    bool fine = load_all(g, p, &err) && stem_rt_info(g->rt, &g->info, &err) == STEM_OK;
    t.budget = g->info.free_bytes / 5 * 2;
    for (uint32_t i = 0; fine && i < N_PROGRAMS; i++)
        fine = !p[i].compiled || tune_collect(&t, &p[i], &err);
    fine = fine && tune_bandwidth(g, &t.table->bandwidth, &err) && measure_all(&t, path, o->pairs, &n, &err);
    int status = fine ? STEM_EXIT_OK : stem_cli_rt_error(&err);
    if (!save(&t, path))
        status = STEM_EXIT_WORLD;
    else if (fine)
        printf("%s: %u ops and %u pairs measured on %s, %u ops were known%s\n", path, n.ops, n.pairs, g->info.name, n.known,
               n.left ? "; there was no time for the others: run it again" : "");
    tune_free(&t);
    return status;
}

/* The ops of all schedules are measured: an option that is of one of them would be without effect. */
static bool is_sensible(const struct options *o)
{
    static const char *const costs[] = {"costs", NULL}, *const arch[] = {"arch", NULL};
    if (o->compile.args.options.one_stream) {
        stem_cli_error("tune measures the ops of every schedule: --one-stream is for those that read its table");
        return false;
    }
    return stem_cli_takes(&o->compile, costs, "tune makes the table: -o FILE names it") &&
           stem_cli_takes(&o->compile, arch, "tune compiles for the GPU that is there") && stem_cli_whole(&o->compile);
}

int stem_cmd_tune(int argc, char **argv)
{
    struct options o = {.seconds = 300, .pairs = 512, .seed = 1};
    struct tune_program p[N_PROGRAMS] = {0};
    struct stem_gpu g = {0};
    struct stem_rt_error err;
    int status = STEM_EXIT_USAGE;
    stem_cli_compile_init(&o.compile);
    stem_cli_parse(&argp, argc, argv, 0, &o);
    g.seed = o.seed;
    char *path = o.output ? strdup(o.output) : stem_cli_costs_path();
    struct stem_costs *costs = is_sensible(&o) ? stem_cli_costs_read(path, true, &status) : NULL;
    if (costs && stem_gpu_open(&g, (int)o.index, STEM_GPU_NO_RECORDS, &err) != STEM_OK) {
        o.compile.costs = "none";
        if (stem_cli_compiles(&o.compile, &status))
            status = stem_cli_rt_error(&err);
    } else if (costs) {
        o.compile.args.options.target.sm = stem_cli_target_sm(g.info.sm);
        o.compile.gpu = g.info.name;
        if (compile_all(&o, p, &status))
            status = run(&o, &g, p, costs, path);
        for (uint32_t i = N_PROGRAMS; i-- > 0;)
            stem_exec_free(p[i].exec.exec);
        stem_gpu_close(&g);
    }
    for (uint32_t i = 0; i < N_PROGRAMS; i++)
        stem_compiled_free(p[i].compiled);
    stem_costs_free(costs);
    free(path);
    stem_cli_compile_free(&o.compile);
    return status;
}
