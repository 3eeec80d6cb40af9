/* SPDX-License-Identifier: Apache-2.0
 *
 * The public compile calls, over the pipeline.
 */
#include "mainstem.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "costs/costs.h"
#include "pipeline.h"
#include "runtime/cublaslt.h"

struct stem_jit {
    struct stem_compiled *compiled;
    struct stem_message *messages;
    uint32_t n;
    struct stem_out text, why;
};

/* Position of `word` in `words`, 0 for NULL; -1 if it is not there. */
static int choice(const char *word, const char *const *words)
{
    if (!word)
        return 0;
    for (int i = 0; words[i]; i++)
        if (!strcmp(word, words[i]))
            return i;
    return -1;
}

static bool all_given(const char *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!list || !list[i])
            return false;
    return true;
}

/* NULL if the options are fine, else which one is not. */
static const char *fill_args(const struct stem_program_options *o, struct stem_compile_args *a)
{
    static const char *const orders[] = {"main-first", "program", "side-first", NULL};
    static const char *const ways[] = {"auto", "wait", "copy", NULL};
    static const char *const repairs[] = {"auto", "always", "never", NULL};
    static const char *const pdls[] = {"auto", "on", "off", NULL};
    int order = choice(o->order, orders), inplace = choice(o->inplace, ways), repair = choice(o->lane_repair, repairs);
    static const char *const matmuls[] = {"auto", "own", "cublaslt", NULL};
    int pdl = choice(o->pdl, pdls), matmul = choice(o->matmul, matmuls);
    if (order < 0)
        return "options.order is none of main-first, program, side-first";
    if (inplace < 0)
        return "options.inplace is none of auto, wait, copy";
    if (repair < 0)
        return "options.lane_repair is none of auto, always, never";
    if (pdl < 0)
        return "options.pdl is none of auto, on, off";
    if (matmul < 0)
        return "options.matmul is none of auto, own, cublaslt";
    if (o->sm && o->sm != 80 && o->sm != 90 && o->sm != 100 && o->sm != 120)
        return "options.sm is none of 80, 90, 100, 120";
    if (o->max_streams > STEM_MAX_STREAMS)
        return "options.max_streams is more than 32";
    if (!all_given(o->defines, o->n_defines))
        return "options.defines is NULL, or one of them";
    if (!all_given(o->dims, o->n_dims))
        return "options.dims is NULL, or one of them";
    a->options.order = (enum stem_order)order;
    a->options.inplace = (enum stem_inplace)inplace;
    a->options.lane_repair = (enum stem_lane_repairs)repair;
    a->options.pdl = (enum stem_pdl)pdl;
    a->options.matmul = (enum stem_matmul_by)matmul;
    a->options.target.sm = o->sm ? o->sm : a->options.target.sm;
    a->options.max_streams = o->max_streams ? o->max_streams : a->options.max_streams;
    a->options.ignore_pins = o->ignore_pins;
    a->options.one_stream = o->one_stream;
    a->options.max_lanes = o->max_lanes;
    a->options.memory_budget = o->memory_budget;
    a->options.no_fuse = o->no_fuse;
    a->no_verify = o->no_verify;
    a->max_errors = o->max_errors;
    a->defines = o->defines;
    a->n_defines = o->n_defines;
    a->dims = o->dims;
    a->n_dims = o->n_dims;
    return NULL;
}

static void add_message(struct stem_jit *j, struct stem_message m)
{
    j->messages = stem_xrealloc(j->messages, (j->n + 1) * sizeof *j->messages);
    j->messages[j->n++] = m;
}

static void collect(struct stem_jit *j)
{
    static const enum stem_message_kind kind[] = {
        [STEM_REMARK] = STEM_MESSAGE_REMARK, [STEM_WARNING] = STEM_MESSAGE_WARNING, [STEM_ERROR] = STEM_MESSAGE_ERROR};
    const struct stem_compiled *c = j->compiled;
    if (c->world_error) {
        add_message(j, (struct stem_message){.kind = STEM_MESSAGE_ERROR, .text = c->world_error});
        stem_out_printf(&j->text, "mainstem: error: %s\n", c->world_error);
    }
    for (uint32_t i = 0; i < stem_diags_count(c->diags); i++) {
        const struct stem_diag *d = stem_diags_get(c->diags, i);
        struct stem_message m = {.kind = kind[d->severity], .id = d->id, .text = d->text, .pass = d->pass};
        if (c->source && d->span.begin != UINT32_MAX) {
            struct stem_place p = stem_source_place(c->source, d->span.begin);
            m.line = p.line;
            m.column = p.column;
        }
        add_message(j, m);
    }
    stem_diags_print(c->diags, (struct stem_diag_style){0}, &j->text);
    stem_out_text(&j->text);
}

/* An error that no diagnostic says. */
static void fail(struct stem_jit *j, const char *what, const char *why)
{
    stem_out_printf(&j->why, "%s%s%s", what, why ? ": " : "", why ? why : "");
    stem_out_printf(&j->text, "mainstem: error: %s\n", stem_out_text(&j->why));
    add_message(j, (struct stem_message){.kind = STEM_MESSAGE_ERROR, .text = stem_out_text(&j->why)});
}

/* Left the choice, a program does without a library that is not there. */
static bool library_there(const struct stem_compiled *c, const struct stem_options *o)
{
    return o->matmul != STEM_MATMUL_AUTO || !c->plan || !stem_plan_has_matmul(c->plan) || stem_cublaslt_present();
}

/* What is returned when there is no memory for another one. */
static struct stem_message exhausted_message = {.kind = STEM_MESSAGE_ERROR, .text = "out of memory"};
static char exhausted_text[] = "mainstem: error: out of memory\n";
static struct stem_jit exhausted = {.messages = &exhausted_message, .n = 1, .text = {.text = exhausted_text}};

struct job {
    struct stem_compile_args args;
    const struct stem_program_options *options;
    const char *missing; /* what is wrong before the options are looked at, or NULL */
    struct stem_jit *done;
};

static struct stem_jit *compile_args(struct stem_compile_args a, const struct stem_program_options *options, const char *missing)
{
    static const struct stem_program_options none;
    struct stem_jit *j = stem_xmalloc(sizeof *j);
    const struct stem_program_options *o = options ? options : &none;
    memset(j, 0, sizeof *j);
    a.options = stem_options_default();
    const char *wrong = missing ? missing : fill_args(o, &a), *why = NULL;
    if (wrong) {
        fail(j, wrong, NULL);
        return j;
    }
    struct stem_arena *arena = stem_arena_new();
    struct stem_costs *costs = o->costs ? stem_costs_read(o->costs, strlen(o->costs), arena, &why) : NULL;
    if (why) {
        fail(j, "options.costs", why);
    } else {
        a.options.costs = costs ? stem_costs_find_gpu(costs, o->gpu, a.options.target.sm) : NULL;
        j->compiled = stem_pipeline(&a);
        if (!library_there(j->compiled, &a.options)) {
            stem_compiled_free(j->compiled);
            a.options.matmul = STEM_MATMUL_OWN;
            j->compiled = stem_pipeline(&a);
            stem_remark(j->compiled->diags, "library", STEM_NOWHERE, "cuBLASLt cannot be loaded: our own kernels multiply");
        }
        collect(j);
    }
    stem_costs_free(costs);
    stem_arena_free(arena);
    return j;
}

static void compile_job(void *user)
{
    struct job *job = user;
    job->done = compile_args(job->args, job->options, job->missing);
}

/* A program that embeds the compiler goes on when memory runs out. */
static struct stem_jit *compile(struct stem_compile_args a, const struct stem_program_options *options, const char *missing)
{
    struct job job = {a, options, missing, NULL};
    return stem_arena_try(compile_job, &job) ? job.done : &exhausted;
}

struct stem_jit *stem_jit_file(const char *path, const struct stem_program_options *options)
{
    return compile((struct stem_compile_args){.path = path}, options,
                   path ? NULL : "stem_jit_file: path is NULL");
}

struct stem_jit *stem_jit_text(const char *name, const char *text, size_t len,
                               const struct stem_program_options *options)
{
    return compile((struct stem_compile_args){.path = name, .text = text, .len = len}, options,
                   !name   ? "stem_jit_text: name is NULL"
                   : !text ? "stem_jit_text: text is NULL"
                           : NULL);
}

void stem_jit_free(struct stem_jit *j)
{
    if (!j || j == &exhausted)
        return;
    stem_compiled_free(j->compiled);
    stem_out_free(&j->text);
    stem_out_free(&j->why);
    free(j->messages);
    free(j);
}

const struct stem_plan *stem_jit_plan(const struct stem_jit *j)
{
    return j && j->compiled && !stem_diags_errors(j->compiled->diags) ? j->compiled->plan : NULL;
}

const struct stem_message *stem_jit_messages(const struct stem_jit *j, uint32_t *n)
{
    if (n)
        *n = j ? j->n : 0;
    return j ? j->messages : NULL;
}

const char *stem_jit_text_of_messages(const struct stem_jit *j)
{
    return j && j->text.text ? j->text.text : "";
}

const char *stem_explain(uint32_t id)
{
    return stem_diag_explanation(id);
}

const char *stem_version(void)
{
    return PACKAGE_VERSION;
}
