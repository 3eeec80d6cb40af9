/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gpu_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/caller.h"

bool stem_gpu_is_none(enum stem_status s)
{
    return s == STEM_E_NO_DRIVER || s == STEM_E_OLD_DRIVER || s == STEM_E_NO_DEVICE;
}

enum stem_status stem_gpu_open(struct stem_gpu *g, int device, enum stem_gpu_records audit, struct stem_rt_error *err)
{
    enum stem_status s = STEM_OK;
    struct stem_audit_options a = {.memory = audit == STEM_GPU_EVERYTHING};
    struct stem_rt_options o = {.device = device, .log = stem_cli_log(), .compiler = {.log = stem_cli_log()}};
    if (audit && (s = stem_audit_start(&a, &g->audit, err)) != STEM_OK) {
        struct stem_rt_error cause; /* CUPTI only says that it cannot; without a driver or a GPU that is why */
        enum stem_status open = stem_rt_open(&o, &g->rt, &cause);
        if (stem_gpu_is_none(open)) {
            *err = cause;
            s = open;
        }
        stem_gpu_close(g);
        return s;
    }
    if ((s = stem_rt_open(&o, &g->rt, err)) == STEM_OK && (s = stem_rt_info(g->rt, &g->info, err)) == STEM_OK)
        s = stem_rt_stream_new(g->rt, &g->stream, err);
    if (s != STEM_OK)
        stem_gpu_close(g);
    return s;
}

bool stem_gpu_load(struct stem_gpu *g, const struct stem_plan *many, const struct stem_plan *one,
                   const struct stem_exec_options *options, struct stem_rt_error *err)
{
    g->poison_bytes = many->slab_bytes > one->slab_bytes ? many->slab_bytes : one->slab_bytes;
    g->poison = stem_xmalloc(g->poison_bytes);
    memset(g->poison, 0xff, g->poison_bytes);
    return stem_cli_exec_new(g->rt, many, options, NULL, &g->many, err) &&
           stem_cli_exec_new(g->rt, one, NULL, &g->many, &g->one, err);
}

void stem_gpu_unload(struct stem_gpu *g)
{
    stem_exec_free(g->one.exec);
    stem_exec_free(g->many.exec);
    free(g->poison);
    g->one = g->many = (struct stem_cli_exec){0};
    g->poison = NULL;
}

void stem_gpu_close(struct stem_gpu *g)
{
    stem_audit_free(g->audit);
    if (g->stream)
        stem_rt_stream_free(g->rt, g->stream);
    stem_rt_close(g->rt);
    *g = (struct stem_gpu){0};
}

bool stem_gpu_fill_states(struct stem_rt *rt, const struct stem_cli_exec *e, uint64_t seed, struct stem_rt_error *err)
{
    bool fine = true;
    for (uint32_t i = 0; fine && i < e->plan->n_external; i++) {
        struct stem_plan_buffer b = e->plan->variants[0].buffers[i];
        if (b.kind != STEM_BUFFER_STATE || b.dtype == STEM_I32 || b.dtype == STEM_I64 || b.dtype == STEM_U8)
            continue;
        b.kind = STEM_BUFFER_INPUT;
        fine = stem_rt_fill(rt, &b, seed, stem_exec_address(e->exec, i), err) == STEM_OK;
    }
    return fine;
}

bool stem_replay_new(struct stem_gpu *g, uint32_t variant, enum stem_run_by by, struct stem_replay *p,
                     struct stem_rt_error *err)
{
    if (!p->e)
        p->e = &g->many;
    p->variant = variant;
    p->by = by;
    if (stem_exec_prepare(p->e->exec, err) != STEM_OK)
        return false;
    switch (by) {
    case STEM_RUN_BY_CAPTURE: return stem_graph_new(p->e->exec, variant, STEM_GRAPH_BY_CAPTURE, &p->graph, err) == STEM_OK;
    case STEM_RUN_BY_NODES: return stem_graph_new(p->e->exec, variant, STEM_GRAPH_BY_NODES, &p->graph, err) == STEM_OK;
    case STEM_RUN_BY_RECORD: return (p->recorded = stem_caller_capture(p->e->exec, variant, g->stream, err)) != NULL;
    case STEM_RUN_EAGER: return true;
    }
    return false;
}

bool stem_replay(struct stem_gpu *g, struct stem_replay *p, struct stem_rt_error *err)
{
    if (p->graph)
        return stem_graph_launch(p->graph, g->stream, err) == STEM_OK;
    if (p->recorded)
        return stem_caller_launch(p->recorded, g->stream, err);
    return stem_exec_launch(p->e->exec, p->variant, g->stream, err) == STEM_OK;
}

void stem_replay_free(struct stem_gpu *g, struct stem_replay *p)
{
    struct stem_rt_error err;
    stem_rt_synchronize(g->rt, g->stream, &err);
    stem_graph_free(p->graph);
    stem_caller_free(p->recorded);
    *p = (struct stem_replay){0};
}

bool stem_gpu_input(struct stem_gpu *g, const struct stem_plan_buffer *b, uint64_t at, bool *found,
                    struct stem_rt_error *err)
{
    *found = false;
    if (!g->inputs || (b->kind != STEM_BUFFER_INPUT && b->kind != STEM_BUFFER_STATE))
        return true;
    void *host = stem_xmalloc(b->bytes);
    bool fine = stem_weights_load(g->inputs, b, host, found);
    if (!fine)
        *err = (struct stem_rt_error){.status = STEM_E_WRONG_SHAPE, .message = "the input does not fit"};
    else if (*found)
        fine = stem_rt_upload(g->rt, at, host, b->bytes, err) == STEM_OK;
    free(host);
    return fine;
}

static bool poison_outputs(struct stem_gpu *g, const struct stem_cli_exec *e, uint32_t variant,
                           struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &e->plan->variants[variant];
    bool fine = true;
    for (uint32_t i = 0; fine && i < e->plan->n_external; i++) {
        enum stem_buffer_kind kind = v->buffers[i].kind;
        bool found = false;
        if (!stem_cli_is_result(v, i))
            continue;
        fine = stem_gpu_input(g, &v->buffers[i], stem_exec_address(e->exec, i), &found, err);
        if (!fine || found)
            continue;
        if (kind != STEM_BUFFER_OUTPUT) { /* states become zero */
            fine = stem_rt_fill(g->rt, &v->buffers[i], g->seed, stem_exec_address(e->exec, i), err) == STEM_OK;
            continue;
        }
        uint8_t *bytes = stem_xmalloc(v->buffers[i].bytes);
        memset(bytes, 0xff, v->buffers[i].bytes);
        fine = stem_rt_upload(g->rt, stem_exec_address(e->exec, i), bytes, v->buffers[i].bytes, err) == STEM_OK;
        free(bytes);
    }
    return fine;
}

bool stem_gpu_execute(struct stem_gpu *g, struct stem_replay *p, bool poison, struct stem_results *r,
                      struct stem_rt_error *err)
{
    uint64_t slab = stem_exec_slab(p->e->exec);
    return poison_outputs(g, p->e, p->variant, err) &&
           (!poison || !slab || !p->e->plan->slab_bytes ||
            stem_rt_upload(g->rt, slab, g->poison, p->e->plan->slab_bytes, err) == STEM_OK) &&
           stem_replay(g, p, err) && stem_rt_synchronize(g->rt, g->stream, err) == STEM_OK &&
           stem_cli_download(g->rt, p->e, p->variant, r, err);
}

/* Results of the one-stream schedule, launched eagerly. */
static bool reference(struct stem_gpu *g, uint32_t variant, struct stem_results *r, struct stem_rt_error *err)
{
    struct stem_replay p = {.e = &g->one};
    bool fine = stem_replay_new(g, variant, STEM_RUN_EAGER, &p, err) && stem_gpu_execute(g, &p, true, r, err);
    stem_replay_free(g, &p);
    return fine;
}

int stem_gpu_check_bits(struct stem_gpu *g, uint32_t variant, struct stem_replay *p, uint32_t times, bool poison)
{
    const struct stem_plan_variant *v = &g->many.plan->variants[variant];
    struct stem_rt_error err;
    struct stem_results want, got;
    const char *where = "";
    if (!reference(g, variant, &want, &err))
        return stem_cli_rt_error(&err);
    uint32_t same = 0;
    int status = STEM_EXIT_OK;
    struct stem_progress bar = stem_progress_start("replaying");
    for (uint32_t i = 0; status == STEM_EXIT_OK && i < times; i++) {
        if (!stem_gpu_execute(g, p, poison, &got, &err)) {
            status = stem_cli_rt_error(&err);
            break;
        }
        if (stem_results_same(v, &got, &want, &where))
            same++;
        else
            status = STEM_EXIT_DIFFER;
        stem_results_free(&got);
        stem_progress_step(&bar, i, times);
    }
    stem_progress_end(&bar);
    if (status == STEM_EXIT_OK) {
        stem_results_print(v, &want, g->verbose);
        if (g->save && !stem_weights_save(v, &want, g->save))
            status = STEM_EXIT_WORLD;
        printf("  same bits      as the one-stream schedule, %u replays%s\n", same, poison ? ", slab poisoned with NaN before each" : "");
    } else if (status == STEM_EXIT_DIFFER) {
        printf("  DIFFERS from the one-stream schedule after %u equal replays: %s\n", same, where);
    }
    stem_results_free(&want);
    return status;
}

/* The first op of every run of ops on one stream, in issue order: where a branch begins. */
static uint32_t branches(const struct stem_plan_variant *v, uint32_t *first)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_ops; i++)
        if (i == 0 || v->ops[i].stream != v->ops[i - 1].stream)
            first[n++] = i;
    return n;
}

int stem_gpu_check_chaos(struct stem_gpu *g, uint32_t variant, uint32_t times)
{
    const struct stem_plan_variant *v = &g->many.plan->variants[variant];
    struct stem_rt_error err;
    struct stem_results want, got;
    const char *where = "";
    if (!reference(g, variant, &want, &err))
        return stem_cli_rt_error(&err);
    uint32_t *first = stem_xmalloc(v->n_ops * sizeof *first), n = branches(v, first), done = 0;
    int status = STEM_EXIT_OK;
    for (; status == STEM_EXIT_OK && done < times; done++) {
        struct stem_launch_options o = {.poison = true, .delay_op = first[(uint64_t)done * n / times], .delay_us = 300};
        if (!poison_outputs(g, &g->many, variant, &err) ||
            stem_exec_launch_with(g->many.exec, variant, g->stream, &o, &err) != STEM_OK ||
            stem_rt_synchronize(g->rt, g->stream, &err) != STEM_OK ||
            !stem_cli_download(g->rt, &g->many, variant, &got, &err)) {
            status = stem_cli_rt_error(&err);
            break;
        }
        if (!stem_results_same(v, &got, &want, &where)) {
            const struct stem_plan_op *op = &v->ops[o.delay_op];
            printf("  chaos          DIFFERS with a delay before %s (%s:%u, stream %s): %s\n", op->name,
                   g->many.plan->source ? g->many.plan->source : "?", op->line, g->many.plan->streams[op->stream], where);
            status = STEM_EXIT_DIFFER;
        }
        stem_results_free(&got);
    }
    if (status == STEM_EXIT_OK)
        printf("  chaos          same bits as one stream in %u launches, each with a delay in another of %u branches and "
               "poisoned memory\n", done, n);
    free(first);
    stem_results_free(&want);
    return status;
}

int stem_gpu_check_lanes(struct stem_gpu *g, enum stem_run_by by, uint32_t times)
{
    struct stem_rt_error err;
    const struct stem_plan *plan = g->many.plan;
    const struct stem_audit_record *records;
    struct stem_replay p = {0};
    uint32_t n_records, *lanes = NULL;
    if (by == STEM_RUN_EAGER) {
        printf("  lanes          only graphs have lanes: use --by=capture, nodes or record\n");
        return STEM_EXIT_OK;
    }
    bool fine = stem_replay_new(g, 0, by, &p, &err);
    for (uint32_t i = 0; fine && i < times; i++)
        fine = stem_replay(g, &p, &err) && stem_rt_synchronize(g->rt, g->stream, &err) == STEM_OK;
    fine = fine && stem_audit_stop(g->audit, &records, &n_records, &err) == STEM_OK;
    stem_replay_free(g, &p);
    if (!fine)
        return stem_cli_rt_error(&err);
    uint32_t n = stem_audit_lanes(g->audit, &lanes), streams = 0, on[32] = {0};
    for (uint32_t i = 0; i < plan->variants[0].n_ops; i++)
        streams += on[plan->variants[0].ops[i].stream]++ == 0;
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < n && n != STEM_NONE; i++) {
        low = lanes[i] < low ? lanes[i] : low;
        high = lanes[i] > high ? lanes[i] : high;
    }
    uint32_t last = n != STEM_NONE && n ? lanes[n - 1] : 0;
    printf("  lanes          %u measured (%u to %u over %u graph launches), %u predicted, %u streams\n", last, low, high,
           n == STEM_NONE ? 0 : n, plan->variants[0].lanes, streams);
    if (stem_audit_dropped(g->audit))
        printf("  lanes          CUPTI lost %u records\n", stem_audit_dropped(g->audit));
    free(lanes);
    return last == streams ? STEM_EXIT_OK : STEM_EXIT_DIFFER;
}
