/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem run --device=cpu`: the plan executed by the ops' C references, in issue order and in random legal orders,
 * against the one-stream schedule of the same program.
 */
#include "cli/run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli/device.h"
#include "cli/kernel_error.h"
#include "cli/watched.h"
#include "cpu/cpu.h"
#include "cli/weights.h"

struct host {
    const struct stem_plan *plan;
    struct stem_cpu *cpu;
    uint8_t **data; /* for each external buffer */
    bool owner;     /* of data */
    uint64_t seed;
    const struct stem_weights *inputs; /* of --input, or NULL */
    const struct stem_cpu_watch *watch; /* where there are inline kernels or extern functions, or NULL */
};

/* An error about an op, which begins with the file and its line, as the compiler's do. */
static void say(const struct stem_plan *plan, const char *error)
{
    size_t n = plan->source ? strlen(plan->source) : 0;
    size_t digits = n && !strncmp(error, plan->source, n) && error[n] == ':' ? strspn(error + n + 1, "0123456789") : 0;
    if (digits && error[n + 1 + digits] == ':')
        fprintf(stderr, "%.*s: error%s\n", (int)(n + 1 + digits), error, error + n + 1 + digits);
    else
        stem_cli_error("%s", error);
}

static uint64_t memory_of_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
}

static void host_free(struct host *h)
{
    stem_cpu_free(h->cpu);
    for (uint32_t i = 0; h->owner && h->data && i < h->plan->n_external; i++)
        free(h->data[i]);
    if (h->owner)
        free(h->data);
}

/* Makes the program on the CPU device; external buffers are `share`'s, or new ones, large enough for every variant.
 */
static bool host_new(struct host *h, const struct stem_plan *plan, const struct host *share, struct stem_cpu_watch *watch)
{
    *h = (struct host){.plan = plan, .owner = !share, .data = share ? share->data : NULL};
    char *error = NULL;
    h->cpu = stem_cpu_new(plan, &error);
    if (!h->cpu) {
        say(plan, error);
        free(error);
        return false;
    }
    stem_cpu_watch(h->cpu, watch);
    h->watch = watch;
    if (share)
        return true;
    h->data = stem_xmalloc(plan->n_external * sizeof *h->data);
    memset(h->data, 0, plan->n_external * sizeof *h->data); /* all of them are freed, even if memory runs out half-way */
    for (uint32_t i = 0; i < plan->n_external; i++) {
        uint64_t bytes = 0;
        for (uint32_t v = 0; v < plan->n_variants; v++)
            bytes = plan->variants[v].buffers[i].bytes > bytes ? plan->variants[v].buffers[i].bytes : bytes;
        h->data[i] = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
        if (!h->data[i]) {
            stem_cli_error("out of memory: '%s' needs %s", plan->variants[0].buffers[i].name, stem_cli_bytes(bytes));
            return false;
        }
    }
    return true;
}

/* What a buffer of the caller holds before a launch: what --input has; else inputs by the rule, state zero, outputs
 * NaN. */
static bool start(struct host *h, const struct stem_plan_buffer *b, void *to)
{
    bool found = false;
    if (h->inputs && b->kind != STEM_BUFFER_OUTPUT && !stem_weights_load(h->inputs, b, to, &found))
        return false;
    if (!found && b->kind == STEM_BUFFER_INPUT)
        stem_fill(b, h->seed, to);
    else if (!found)
        memset(to, b->kind == STEM_BUFFER_OUTPUT ? 0xff : 0, b->bytes);
    return true;
}

static bool fill(struct host *h, uint32_t variant, const struct stem_run *r, struct stem_weights *files)
{
    const struct stem_plan_variant *v = &h->plan->variants[variant];
    struct stem_progress bar = stem_progress_start("filling weights");
    bool fine = true;
    for (uint32_t i = 0; fine && i < h->plan->n_external; i++) {
        bool found = false;
        if (files && v->buffers[i].kind == STEM_BUFFER_WEIGHT)
            fine = stem_weights_load(files, &v->buffers[i], h->data[i], &found);
        if (v->buffers[i].kind != STEM_BUFFER_WEIGHT)
            fine = start(h, &v->buffers[i], h->data[i]);
        else if (!found)
            stem_fill(&v->buffers[i], r->seed, h->data[i]);
        stem_progress_step(&bar, i, h->plan->n_external);
    }
    stem_progress_end(&bar);
    return fine;
}

/* Poisons outputs, zeroes state, fills anew what the program writes in place, runs, and copies the results out. */
static bool execute(struct host *h, uint32_t variant, const struct stem_cpu_options *options, struct stem_results *r)
{
    const struct stem_plan_variant *v = &h->plan->variants[variant];
    *r = (struct stem_results){0};
    for (uint32_t i = 0; i < h->plan->n_external; i++) {
        stem_cpu_bind(h->cpu, variant, i, h->data[i]);
        if (!stem_cli_is_result(v, i))
            continue;
        if (!start(h, &v->buffers[i], h->data[i]))
            return false;
        r->bytes += v->buffers[i].bytes;
    }
    char *error = NULL;
    if (!stem_cpu_run(h->cpu, variant, options, &error)) {
        say(h->plan, error);
        free(error);
        return false;
    }
    r->data = stem_xmalloc(r->bytes);
    uint64_t at = 0;
    for (uint32_t i = 0; i < h->plan->n_external; i++)
        if (stem_cli_is_result(v, i)) {
            memcpy(r->data + at, h->data[i], v->buffers[i].bytes);
            at += v->buffers[i].bytes;
        }
    return true;
}

static void step(void *user, uint32_t done, uint32_t total)
{
    stem_progress_step(user, done, total);
}

/* One more execution, compared with the reference; false if it could not run, *differs if the bits are others. */
static bool again(struct host *h, uint32_t variant, struct stem_cpu_options o, const struct stem_results *reference,
                  const char *what, bool *differs)
{
    struct stem_results r;
    const char *where;
    if (!execute(h, variant, &o, &r))
        return false;
    if (!stem_results_same(&h->plan->variants[variant], &r, reference, &where)) {
        printf("  %s: DIFFERS from one stream: %s\n", what, where);
        *differs = true;
    }
    stem_results_free(&r);
    return true;
}

static void print_equal(uint32_t orders)
{
    printf("  equal to the one-stream schedule bit for bit: issue order, latest first");
    if (orders)
        printf(", %u random legal order%s", orders, orders == 1 ? "" : "s");
    putchar('\n');
}

/* An op of the input's own code that failed is the input's fault. */
static int failure(const struct host *h)
{
    return h->watch && h->watch->plan ? STEM_EXIT_INPUT : STEM_EXIT_WORLD;
}

static int run_variant(struct host *many, struct host *one, uint32_t variant, const struct stem_run *r)
{
    const struct stem_plan_variant *v = &many->plan->variants[variant];
    struct stem_results reference;
    struct stem_progress bar = stem_progress_start("one stream");
    struct stem_cpu_options o = {.order = STEM_CPU_ISSUE, .poison = true, .progress = step, .user = &bar};
    bool fine = execute(one, variant, &o, &reference), differs = false;
    stem_progress_end(&bar);
    if (!fine)
        return failure(one);
    bar = stem_progress_start("all streams");
    fine = again(many, variant, o, &reference, "issue order", &differs);
    o.order = STEM_CPU_LAST;
    o.use_edges = true;
    fine = fine && again(many, variant, o, &reference, "latest first", &differs);
    stem_progress_end(&bar);
    for (uint32_t i = 0; fine && i < r->orders; i++) {
        char what[64];
        o.order = STEM_CPU_RANDOM;
        o.seed = r->seed * 1000003 + i;
        o.use_edges = i % 2;
        snprintf(what, sizeof what, "random order %u", i);
        fine = again(many, variant, o, &reference, what, &differs);
    }
    if (fine) {
        stem_results_print(v, &reference, r->verbose);
        if (!differs)
            print_equal(r->orders);
        fine = !r->save || stem_weights_save(v, &reference, r->save);
    }
    stem_results_free(&reference);
    return !fine ? failure(many) : differs ? STEM_EXIT_DIFFER : STEM_EXIT_OK;
}

struct job {
    const struct stem_plan *plan, *single;
    const struct stem_run *r;
};

static int run_plans(void *user, struct stem_cpu_watch *watch)
{
    const struct job *job = user;
    const struct stem_plan *plan = job->plan, *single = job->single;
    const struct stem_run *r = job->r;
    struct host many = {0}, one = {0};
    struct stem_weights *files = NULL, *inputs = NULL;
    int status = STEM_EXIT_WORLD;
    if (stem_cli_device_bytes(plan) > memory_of_machine() / 4 * 3) {
        stem_cli_error(
            "%sthe program needs %s of memory, more than this machine has; make it smaller with -D%s",
            r->device == STEM_RUN_AUTO ? "there is no GPU, and on the CPU device " : "", stem_cli_bytes(stem_cli_device_bytes(plan)),
            strcmp(plan->name, "dual_stream_moe") ? "" : ": -D SETS=2 -D HIDDEN=512 -D EXPERTS=32 -D TOPK=4 -D INTER=64");
        return STEM_EXIT_WORLD;
    }
    if (r->n_weights && !(files = stem_weights_open(r->weights, r->n_weights, plan->source)))
        return STEM_EXIT_WORLD;
    bool fine = !r->n_inputs || (inputs = stem_weights_open(r->inputs, r->n_inputs, plan->source));
    if (fine && ((files && !stem_weights_cover(files, &plan->variants[0])) ||
                 (inputs && !stem_weights_fit(inputs, &plan->variants[0])))) {
        fine = false;
        status = STEM_EXIT_INPUT;
    }
    if (fine && host_new(&many, plan, NULL, watch) && host_new(&one, single, &many, watch)) {
        many.seed = one.seed = r->seed;
        many.inputs = one.inputs = inputs;
        status = STEM_EXIT_OK;
        for (uint32_t v = 0; status == STEM_EXIT_OK && v < plan->n_variants; v++) {
            printf("%s%s%s on the CPU device\n", plan->name, plan->n_dims ? ", " : "", stem_cli_dims(plan, v));
            status = fill(&many, v, r, files) ? run_variant(&many, &one, v, r) : STEM_EXIT_INPUT;
        }
    }
    host_free(&one);
    host_free(&many);
    stem_weights_close(files);
    stem_weights_close(inputs);
    return status;
}

/* Inline kernels are compiled first: what is wrong with them is said before anything runs. */
static int compile_kernels(const struct stem_plan *plan)
{
    bool rejected;
    char *error = NULL;
    if (stem_cpu_compiles(plan, &rejected, &error))
        return STEM_EXIT_OK;
    if (!rejected)
        say(plan, error);
    else if (!stem_cli_kernel_error(error, plan->source, "the host's compiler"))
        stem_cli_error("an inline kernel does not compile for the CPU device:\n%s", error);
    free(error);
    return rejected ? STEM_EXIT_INPUT : STEM_EXIT_WORLD;
}

static int run_job(struct job *job)
{
    int status = compile_kernels(job->plan);
    if (status != STEM_EXIT_OK)
        return status;
    return stem_cli_has_code(job->plan) ? stem_cli_watched(run_plans, job) : run_plans(job, NULL);
}

int stem_run_cpu(struct stem_run *r)
{
    int status;
    struct stem_compiled *many = stem_cli_compile(&r->compile, &status), *one = NULL;
    if (many)
        one = stem_cli_compile_single(&r->compile, &status);
    if (many && one && many->plan && one->plan && !stem_run_saves_one(r, many->plan))
        status = STEM_EXIT_USAGE;
    else if (many && one && many->plan && one->plan)
        status = run_job(&(struct job){many->plan, one->plan, r});
    stem_compiled_free(one);
    stem_compiled_free(many);
    return status;
}
