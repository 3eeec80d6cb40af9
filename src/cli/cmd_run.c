/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem run FILE`: options, and the choice of the device.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum {
    OPT_DEVICE = 0x200,
    OPT_BY,
    OPT_ITERS,
    OPT_SEED,
    OPT_ORDERS,
    OPT_COMPARE,
    OPT_AUDIT,
    OPT_POISON,
    OPT_CHAOS,
    OPT_POOL,
    OPT_WEIGHTS,
    OPT_INDEX,
    OPT_PROFILE,
    OPT_INPUT,
    OPT_SAVE,
};

static const struct argp_option options[] = {
    {"device", OPT_DEVICE, "KIND", 0, "gpu, cpu, auto (default: the GPU if there is one)", 11},
    {"gpu", OPT_INDEX, "N", 0, "Which GPU (default 0)", 11},
    {"by", OPT_BY, "WAY", 0, "GPU: capture (default: own graph by capture), nodes (own graph, node by node), record (into a "
                             "capture of the caller's), eager", 11},
    {"iters", OPT_ITERS, "N", 0, "GPU: replays to time (default 20)", 11},
    {"seed", OPT_SEED, "N", 0, "Of the random weights and inputs (default 1)", 11},
    {"weights", OPT_WEIGHTS, "PATH", 0,
     "Load weights from a .safetensors file, a checkpoint's directory or its index, by the names that the program gives or "
     "its own; may be given several times",
     11},
    {"input", OPT_INPUT, "FILE", 0,
     "Load inputs, and what state starts with, by name from a .safetensors file; may be given several times", 11},
    {"save", OPT_SAVE, "FILE", 0, "Write outputs, state and what was written in place to a .safetensors file", 11},
    {"verbose", 'v', 0, 0, "List every state, however many there are", 11},
    {"memory", OPT_POOL, "MODE", 0, "slab (default), pool", 11},
    {"orders", OPT_ORDERS, "N", 0, "On the CPU device: run N random legal orders as well, with poisoned memory, and compare their bits", 12},
    {"compare", OPT_COMPARE, "cpu", 0, "GPU: compare each op with its CPU reference on the same inputs", 12},
    {"audit", OPT_AUDIT, 0, 0, "GPU: count lanes by CUPTI kernel records; fail if they are not the plan's", 12},
    {"profile", OPT_PROFILE, "FILE", OPTION_ARG_OPTIONAL,
     "GPU: measure each op of a replay with CUPTI; print a table, write a trace (default NAME.profile.json)", 12},
    {"poison", OPT_POISON, 0, 0, "GPU: fill the slab with NaN before every replay; the results must stay the same", 12},
    {"chaos", OPT_CHAOS, 0, 0, "GPU: delay each branch in turn with poisoned memory; compare with one stream", 12},
    {0}};

static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

static uint64_t number(struct argp_state *state, const char *arg, const char *what, uint64_t low, uint64_t high)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(arg, &end, 10);
    if (errno || end == arg || *end || *arg == '-' || n < low || n > high)
        stem_cli_usage(state, "%s takes a number from %llu to %llu, not '%s'", what, (unsigned long long)low,
                   (unsigned long long)high, arg);
    return n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const devices[] = {"auto", "gpu", "cpu", NULL};
    static const char *const ways[] = {"capture", "nodes", "record", "eager", NULL};
    static const char *const memories[] = {"slab", "pool", NULL};
    static const char *const oracles[] = {"cpu", NULL};
    static const char *const refused[] = {"passes", "stop-after", NULL};
    struct stem_run *r = state->input;
    r->for_gpu = key == OPT_BY      ? "by"
                 : key == OPT_ITERS ? "iters"
                 : key == OPT_POOL  ? "memory"
                 : key == OPT_INDEX ? "gpu"
                                    : r->for_gpu;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &r->compile; stem_cli_hide(refused); return 0;
    case OPT_DEVICE: r->device = (enum stem_run_device)stem_cli_word(state, arg, "--device", devices); return 0;
    case OPT_BY: r->by = (enum stem_run_by)stem_cli_word(state, arg, "--by", ways); return 0;
    case OPT_ITERS: r->iters = (uint32_t)number(state, arg, "--iters", 1, 1000000); return 0;
    case OPT_INDEX: r->device_index = (uint32_t)number(state, arg, "--gpu", 0, 1023); return 0;
    case OPT_SEED: r->seed = number(state, arg, "--seed", 0, UINT64_MAX); return 0;
    case OPT_ORDERS: r->orders = (uint32_t)number(state, arg, "--orders", 1, 1000000); return 0;
    case OPT_POOL: r->pool = stem_cli_word(state, arg, "--memory", memories) == 1; return 0;
    case OPT_COMPARE: stem_cli_word(state, arg, "--compare", oracles), r->compare = true; return 0;
    case OPT_AUDIT: r->audit = true; return 0;
    case OPT_INPUT:
        r->inputs = stem_xrealloc(r->inputs, (r->n_inputs + 1) * sizeof *r->inputs);
        r->inputs[r->n_inputs++] = arg;
        return 0;
    case OPT_SAVE: r->save = arg; return 0;
    case 'v': r->verbose = true; return 0;
    case OPT_PROFILE:
        r->profile = true;
        r->profile_path = arg;
        return 0;
    case OPT_POISON: r->poison = true; return 0;
    case OPT_CHAOS: r->chaos = true; return 0;
    case OPT_WEIGHTS:
        r->weights = stem_xrealloc(r->weights, (r->n_weights + 1) * sizeof *r->weights);
        r->weights[r->n_weights++] = arg;
        stem_cli_reads(arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse, "FILE", "Compiles a .stem file and runs it.", children, 0, 0};

/* Options that the other device would silently ignore. */
static bool fits_device(const struct stem_run *r)
{
    if (r->device == STEM_RUN_CPU && r->profile) {
        stem_cli_error("--profile measures a GPU; the estimates are drawn by 'mainstem compile FILE -o DIR --emit=trace'");
        return false;
    }
    if (r->device == STEM_RUN_CPU && (r->audit || r->chaos || r->compare || r->poison)) {
        stem_cli_error("--audit, --chaos, --compare and --poison need a GPU; on the CPU device use --orders=N");
        return false;
    }
    if (r->device == STEM_RUN_CPU && r->for_gpu) {
        stem_cli_error("--%s is for a GPU: it would change nothing on the CPU device", r->for_gpu);
        return false;
    }
    if (r->device == STEM_RUN_GPU && r->orders) {
        stem_cli_error("--orders is for the CPU device; on a GPU use --chaos");
        return false;
    }
    return true;
}

bool stem_run_saves_one(const struct stem_run *r, const struct stem_plan *plan)
{
    if (!r->save || plan->n_variants == 1)
        return true;
    stem_cli_error("--save is for one specialisation, and there are %u: give one size for each --dim", plan->n_variants);
    return false;
}

int stem_cmd_run(int argc, char **argv)
{
    struct stem_run r = {.iters = 20, .warmup = 3, .seed = 1};
    stem_cli_compile_init(&r.compile);
    stem_cli_parse(&argp, argc, argv, 0, &r);
    int status = STEM_EXIT_USAGE;
    if (r.device == STEM_RUN_AUTO && r.orders)
        r.device = STEM_RUN_CPU; /* who asks for orders means that device */
    if (fits_device(&r) && stem_cli_whole(&r.compile)) {
        bool no_gpu = r.device == STEM_RUN_CPU;
        bool save = !r.save || stem_cli_can_write(r.save);
        status = STEM_EXIT_WORLD;
        if (save && !no_gpu)
            status = stem_run_gpu(&r, &no_gpu);
        if (save && no_gpu && r.for_gpu)
            fprintf(stderr, "mainstem: note: there is no GPU, for which --%s is\n", r.for_gpu);
        if (save && no_gpu)
            status = stem_run_cpu(&r);
    }
    free(r.weights);
    free(r.inputs);
    stem_cli_compile_free(&r.compile);
    return status;
}
