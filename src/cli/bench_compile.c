/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/bench.h"

/* One text on its way through NVRTC. */
struct job {
    pthread_t thread;
    struct stem_compiler *compiler;
    const struct stem_plan *plan;
    uint32_t sm;
    struct stem_cubin *cubin;
    struct stem_rt_error err;
    enum stem_status status;
    bool threaded;
};

static void *run_job(void *arg)
{
    struct job *j = arg;
    char name[256];
    snprintf(name, sizeof name, "%s.cu", j->plan->name);
    j->status = stem_compile(j->compiler, j->plan->cuda, name, j->sm, NULL, 0, j->cubin, &j->err);
    return NULL;
}

static struct stem_compiled *compile_plan(const struct bench_options *o, enum bench_plan plan, int *status)
{
    struct stem_cli_compile c = o->compile;
    struct stem_options *s = &c.args.options;
    s->one_stream = plan == BENCH_ONE || plan == BENCH_ONE_PDL;
    s->order = plan == BENCH_SIDE || plan == BENCH_SIDE_PDL ? STEM_ORDER_SIDE_FIRST : STEM_ORDER_MAIN_FIRST;
    if (plan == BENCH_ONE || plan == BENCH_MAIN || plan == BENCH_SIDE)
        s->pdl = STEM_PDL_OFF;
    s->ignore_pins |= plan == BENCH_AUTO_PDL;
    c.no_warnings = true; /* side-first is warned about, rightly; here it is wanted */
    if (plan != BENCH_MAIN_PDL && plan != BENCH_AUTO_PDL)
        c.remarks = NULL;
    return stem_cli_compile(&c, status);
}

static bool needed(const struct bench_options *o, uint32_t plan)
{
    for (uint32_t k = 0; k < BENCH_KINDS; k++)
        if (o->way[k] && bench_kinds[k].plan == plan)
            return true;
    return false;
}

/* Starts the compilation of the plan's kernels unless another plan has the same text. */
static void start(struct bench *b, struct stem_compiler *compiler, uint32_t p, struct bench_cubins *c, struct job *jobs)
{
    const struct stem_plan *plan = b->compiled[p]->plan;
    for (uint32_t q = 0; q < p; q++)
        if (b->compiled[q] && c->of[q] == q && !strcmp(b->compiled[q]->plan->cuda, plan->cuda)) {
            c->of[p] = q;
            return;
        }
    c->of[p] = p;
    struct job *j = &jobs[p];
    *j = (struct job){.compiler = compiler, .plan = plan, .sm = b->g->info.sm, .cubin = &c->cubin[p]};
    if (!plan->n_kernels)
        return;
    j->threaded = !pthread_create(&j->thread, NULL, run_job, j);
    if (!j->threaded)
        run_job(j);
}

static bool fits(const struct bench *b, const struct stem_plan *plan, int *status)
{
    uint64_t need = stem_cli_device_bytes(plan);
    if (need <= b->g->info.free_bytes)
        return true;
    stem_cli_error("the program needs %s on the device, %s has %s free; make it smaller with -D", stem_cli_bytes(need),
                   b->g->info.name, stem_cli_bytes(b->g->info.free_bytes));
    *status = STEM_EXIT_WORLD;
    return false;
}

bool bench_compile(struct bench *b, struct bench_cubins *cubins, int *status)
{
    struct job jobs[BENCH_PLANS] = {0};
    struct stem_compiler_options o = {.log = stem_cli_log()};
    struct stem_compiler *compiler;
    struct stem_rt_error err;
    if (stem_compiler_open(&o, &compiler, &err) != STEM_OK) {
        *status = stem_cli_rt_error(&err);
        return false;
    }
    bool fine = true;
    for (uint32_t p = 0; fine && p < BENCH_PLANS; p++) {
        if (!needed(b->o, p))
            continue;
        b->compiled[p] = compile_plan(b->o, (enum bench_plan)p, status);
        fine = b->compiled[p] && b->compiled[p]->plan && fits(b, b->compiled[p]->plan, status);
        if (fine)
            start(b, compiler, p, cubins, jobs);
    }
    struct stem_busy *busy = stem_busy_start("compiling kernels with NVRTC");
    for (uint32_t p = 0; p < BENCH_PLANS; p++)
        if (jobs[p].threaded)
            pthread_join(jobs[p].thread, NULL);
    stem_busy_end(busy);
    for (uint32_t p = 0; fine && p < BENCH_PLANS; p++)
        if (jobs[p].status != STEM_OK) {
            *status = stem_cli_rt_error(&jobs[p].err);
            fine = false;
        }
    stem_compiler_close(compiler);
    return fine;
}

void bench_cubins_free(struct bench_cubins *c)
{
    for (uint32_t p = 0; p < BENCH_PLANS; p++)
        stem_cubin_free(&c->cubin[p]);
}
