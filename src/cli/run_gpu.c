/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem run --device=gpu`: compiles for the GPU that is there, fills weights, replays, and checks what was asked
 * for.
 */
#include "cli/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/device.h"
#include "cli/gpu_check.h"
#include "cli/profile.h"
#include "cli/summary.h"
#include "cli/weights.h"

static bool load_weights(struct stem_gpu *g, uint32_t variant, const struct stem_run *r, struct stem_rt_error *err,
                         int *status)
{
    const struct stem_plan_variant *v = &g->many.plan->variants[variant];
    struct stem_weights *files = r->n_weights ? stem_weights_open(r->weights, r->n_weights, g->many.plan->source) : NULL;
    bool fine = !r->n_weights || files;
    if (!fine)
        *status = STEM_EXIT_WORLD;
    if (files && variant == 0 && !(fine = stem_weights_cover(files, v)))
        *status = STEM_EXIT_INPUT;
    struct stem_progress bar = stem_progress_start("loading weights");
    for (uint32_t i = 0; fine && files && i < g->many.plan->n_external; i++) {
        bool found = false;
        if (v->buffers[i].kind != STEM_BUFFER_WEIGHT)
            continue;
        void *host = stem_xmalloc(v->buffers[i].bytes);
        fine = stem_weights_load(files, &v->buffers[i], host, &found);
        if (!fine)
            *status = STEM_EXIT_INPUT;
        if (fine && found &&
            stem_rt_upload(g->rt, stem_exec_address(g->many.exec, i), host, v->buffers[i].bytes, err) != STEM_OK) {
            fine = false;
            *status = stem_cli_rt_error(err);
        }
        free(host);
        stem_progress_step(&bar, i, g->many.plan->n_external);
    }
    stem_progress_end(&bar);
    stem_weights_close(files);
    return fine;
}

/* Those that the program only reads; what it writes is loaded before each launch. */
static bool load_inputs(struct stem_gpu *g, uint32_t variant, int *status)
{
    const struct stem_plan_variant *v = &g->many.plan->variants[variant];
    struct stem_rt_error err;
    bool fine = true, found;
    for (uint32_t i = 0; fine && i < g->many.plan->n_external; i++)
        fine = stem_gpu_input(g, &v->buffers[i], stem_exec_address(g->many.exec, i), &found, &err);
    if (!fine) {
        if (err.status != STEM_E_WRONG_SHAPE) /* it was said already */
            stem_cli_rt_error(&err);
        *status = err.status == STEM_E_WRONG_SHAPE ? STEM_EXIT_INPUT : STEM_EXIT_WORLD;
    }
    return fine;
}

static const char *const way[] = {"own graph by capture", "own graph node by node",
                                  "recorded into a caller's capture", "eager"};

static int time_replays(struct stem_gpu *g, struct stem_replay *p, uint32_t iters, uint32_t warmup)
{
    struct stem_rt_error err;
    struct stem_timer *t = NULL;
    double *us = stem_xmalloc(iters * sizeof *us);
    bool fine = stem_timer_new(g->rt, &t, &err) == STEM_OK;
    for (uint32_t i = 0; fine && i < warmup + iters; i++) {
        double one = 0;
        fine = stem_timer_start(t, g->stream, &err) == STEM_OK && stem_replay(g, p, &err) &&
               stem_timer_stop(t, g->stream, &one, &err) == STEM_OK;
        if (fine && i >= warmup)
            us[i - warmup] = one;
    }
    if (fine)
        printf("  time           %.1f us median of %u (%.1f to %.1f)%s\n", stem_quantile(us, iters, 0.5), iters,
               stem_quantile(us, iters, 0.1), stem_quantile(us, iters, 0.9),
               g->audit ? ", while CUPTI records every kernel" : "");
    free(us);
    stem_timer_free(t);
    return fine ? STEM_EXIT_OK : stem_cli_rt_error(&err);
}

static int run_variant(struct stem_gpu *g, uint32_t variant, const struct stem_run *r, struct stem_profiles *profiles)
{
    struct stem_rt_error err;
    struct stem_replay p = {0};
    int status = STEM_EXIT_OK;
    if (stem_exec_fill(g->many.exec, variant, r->seed, &err) != STEM_OK)
        return stem_cli_rt_error(&err);
    if (!load_weights(g, variant, r, &err, &status) || !load_inputs(g, variant, &status))
        return status;
    if (!stem_replay_new(g, variant, r->by, &p, &err))
        return stem_cli_rt_error(&err);
    printf("%s%s%s on %s: %s\n", g->many.plan->name, g->many.plan->n_dims ? ", " : "",
           stem_cli_dims(g->many.plan, variant), g->info.name, way[r->by]);
    if (p.graph) {
        struct stem_graph_info i;
        stem_graph_info(p.graph, &i);
        printf("  graph          %u nodes, %u edges, as planned; instantiated in %.2f ms, %s\n", i.n_nodes, i.n_edges,
               i.instantiate_us / 1000, stem_cli_bytes(i.device_bytes > 0 ? (uint64_t)i.device_bytes : 0));
    }
    status = stem_gpu_check_bits(g, variant, &p, r->poison ? r->iters : 1, r->poison);
    if (status == STEM_EXIT_OK)
        status = time_replays(g, &p, r->iters, r->warmup);
    if (status == STEM_EXIT_OK && r->profile)
        status = stem_profile_replays(g, &p, r->iters < 50 ? r->iters : 50, profiles);
    stem_replay_free(g, &p);
    if (status == STEM_EXIT_OK && r->chaos)
        status = stem_gpu_check_chaos(g, variant, r->iters);
    if (status == STEM_EXIT_OK && r->compare)
        status = stem_gpu_check_ops(g, variant);
    return status;
}

static int run_all(struct stem_gpu *g, const struct stem_run *r, const struct stem_source *source)
{
    const struct stem_plan *plan = g->many.plan;
    struct stem_profiles profiles;
    int status = STEM_EXIT_OK;
    stem_profiles_new(&profiles, plan);
    for (uint32_t v = 0; status == STEM_EXIT_OK && v < plan->n_variants; v++)
        status = run_variant(g, v, r, &profiles);
    if (status == STEM_EXIT_OK && r->profile)
        status = stem_profiles_write(&profiles, g, source, r->by, r->profile_path);
    stem_profiles_free(&profiles);
    if (status == STEM_EXIT_OK && r->audit)
        status = stem_gpu_check_lanes(g, r->by, 5);
    return status;
}

/* With the files of --input open. */
static int run_with_inputs(struct stem_gpu *g, const struct stem_run *r, const struct stem_source *source)
{
    struct stem_weights *inputs = NULL;
    int status = STEM_EXIT_INPUT;
    if (!stem_run_saves_one(r, g->many.plan))
        return STEM_EXIT_USAGE;
    if (r->n_inputs && !(inputs = stem_weights_open(r->inputs, r->n_inputs, g->many.plan->source)))
        return STEM_EXIT_WORLD;
    g->inputs = inputs;
    g->save = r->save;
    g->verbose = r->verbose;
    for (uint32_t v = 0; v < g->many.plan->n_variants; v++)
        if (!r->save && stem_cli_state_bytes(g->many.plan, v) > STEM_MOST_STATE)
            g->many.states = g->one.states = STEM_STATES_DIGESTED;
    if (!inputs || stem_weights_fit(inputs, &g->many.plan->variants[0]))
        status = run_all(g, r, source);
    g->inputs = NULL;
    stem_weights_close(inputs);
    return status;
}

static int compile_and_run(struct stem_gpu *g, struct stem_run *r)
{
    struct stem_rt_error err;
    int status;
    struct stem_compiled *many = stem_cli_compile(&r->compile, &status), *one = NULL;
    if (many && many->plan) {
        uint64_t need = stem_cli_device_bytes(many->plan);
        if (need > g->info.free_bytes) {
            stem_cli_error("the program needs %s on the device, %s has %s free; make it smaller with -D%s",
                           stem_cli_bytes(need), g->info.name, stem_cli_bytes(g->info.free_bytes),
                           strcmp(many->plan->name, "dual_stream_moe") ? "" : " SETS=2");
            status = STEM_EXIT_WORLD;
        } else if ((one = stem_cli_compile_single(&r->compile, &status)) && one->plan) {
            struct stem_exec_options o = {.memory = r->pool ? STEM_MEMORY_POOL : STEM_MEMORY_SLAB};
            if (stem_gpu_load(g, many->plan, one->plan, &o, &err))
                status = run_with_inputs(g, r, many->source);
            else
                status = stem_cli_rt_error(&err);
        }
    }
    stem_gpu_unload(g);
    stem_compiled_free(one);
    stem_compiled_free(many);
    return status;
}

int stem_run_gpu(struct stem_run *r, bool *no_gpu)
{
    struct stem_gpu g = {.seed = r->seed};
    struct stem_rt_error err;
    *no_gpu = false;
    enum stem_status s = stem_gpu_open(&g, (int)r->device_index,
                                       r->profile ? STEM_GPU_EVERYTHING
                                       : r->audit ? STEM_GPU_KERNELS
                                                  : STEM_GPU_NO_RECORDS,
                                       &err);
    bool needs_gpu = r->audit || r->chaos || r->compare || r->poison || r->profile;
    if (r->device == STEM_RUN_AUTO && stem_gpu_is_none(s) && !needs_gpu) {
        *no_gpu = true;
        return STEM_EXIT_OK;
    }
    if (s != STEM_OK) {
        int status = stem_cli_rt_error(&err);
        if (stem_gpu_is_none(s))
            fputs(needs_gpu ? "  --audit, --chaos, --compare, --poison and --profile need a GPU; on the CPU device use --orders=N\n"
                            : "  run it on the CPU device with --device=cpu\n", stderr);
        return status;
    }
    static const char *const arch[] = {"arch", NULL};
    if (!stem_cli_takes(&r->compile, arch, "a GPU runs what is compiled for it; --device=cpu takes any")) {
        stem_gpu_close(&g);
        return STEM_EXIT_USAGE;
    }
    r->compile.args.options.target.sm = stem_cli_target_sm(g.info.sm);
    r->compile.gpu = g.info.name;
    int status = compile_and_run(&g, r);
    stem_gpu_close(&g);
    return status;
}
