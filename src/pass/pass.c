/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass manager: which passes there are, and running them with their facts checked.
 */
#include "pass/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEM_PASS(name) extern const struct stem_pass stem_pass_##name;
#include "pass/pass.def"
#undef STEM_PASS

static const struct stem_pass *const passes[] = {
#define STEM_PASS(name) &stem_pass_##name,
#include "pass/pass.def"
#undef STEM_PASS
};

enum { N_PASSES = sizeof passes / sizeof *passes };

static const char *const fact_names[] = {"expanded", "streams",  "deps",   "order",
                                         "waits",    "lifetime", "memory", "lanes"};

const struct stem_pass *const *stem_pass_all(uint32_t *n)
{
    *n = N_PASSES;
    return passes;
}

const struct stem_pass *stem_pass_find(const char *name)
{
    for (uint32_t i = 0; i < N_PASSES; i++)
        if (!strcmp(passes[i]->name, name))
            return passes[i];
    return NULL;
}

/* launch_us: a chain of small kernels in a graph, 61 layers of five nodes in 524 us. */
struct stem_options stem_options_default(void)
{
    return (struct stem_options){
        .order = STEM_ORDER_MAIN_FIRST,
        .inplace = STEM_INPLACE_AUTO,
        .max_streams = 2,
        .target = {.sm = 90, .n_sms = 132, .bandwidth = 4.2e12, .flops = 800e12, .launch_us = 1.7, .early_us = 0.9,
                   .fork_us = 2.0},
    };
}

static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = list; *s; s += strcspn(s, ","), s += *s == ',')
        if (strcspn(s, ",") == n && !strncmp(s, name, n))
            return true;
    return false;
}

static bool known(struct stem_diags *diags, const char *word, size_t len)
{
    char name[64];
    const char *names[N_PASSES];
    snprintf(name, sizeof name, "%.*s", (int)len, word);
    for (uint32_t i = 0; i < N_PASSES; i++)
        names[i] = passes[i]->name;
    if (stem_pass_find(name))
        return true;
    stem_error(diags, STEM_E_UNKNOWN_PASS, STEM_NOWHERE, "there is no pass '%s'", name);
    const char *near = stem_nearest(name, names, N_PASSES);
    if (!strcmp(name, "parse") || !strcmp(name, "check") || !strcmp(name, "expand"))
        stem_diag_help(diags, "parse, check and expand always run; --passes takes those after them, from '%s' on", names[0]);
    else if (near)
        stem_diag_help(diags, "did you mean '%s'?", near);
    else
        stem_diag_help(diags, "`--list-passes` lists them");
    return false;
}

static bool names_known(struct stem_diags *diags, const char *only, const char *stop_after)
{
    bool fine = true;
    for (const char *s = only; s && *s; s += *s == ',') {
        size_t len = strcspn(s, ",");
        fine &= known(diags, s, len);
        s += len;
    }
    return fine & (!stop_after || known(diags, stop_after, strlen(stop_after)));
}

static bool facts_hold(const struct stem_program *p, const struct stem_pass *pass, struct stem_diags *diags)
{
    uint32_t missing = pass->needs & ~p->state;
    for (uint32_t i = 0; i < sizeof fact_names / sizeof *fact_names; i++) {
        if (!(missing >> i & 1))
            continue;
        stem_error(diags, STEM_E_PASS_NEEDS, STEM_NOWHERE, "pass '%s' needs what establishes '%s' to run before it",
                   pass->name, fact_names[i]);
        for (uint32_t k = 0; k < N_PASSES; k++)
            if (passes[k]->gives >> i & 1)
                stem_diag_help(diags, "add '%s' to the list of passes", passes[k]->name);
    }
    return !missing;
}

static void check(const struct stem_program *p, const struct stem_pass *pass)
{
    const char *fault = stem_program_check(p);
    if (!fault)
        return;
    struct stem_out o = {0};
    stem_program_print(p, &o);
    fprintf(stderr, "mainstem: after pass '%s': %s\n%s", pass->name, fault, stem_out_text(&o));
    abort();
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool stem_pass_run_all(struct stem_program *p, struct stem_diags *diags, const struct stem_options *options,
                       const char *only, const char *stop_after, const struct stem_pass_hooks *hooks)
{
    if (!names_known(diags, only, stop_after))
        return false;
    for (uint32_t i = 0; i < N_PASSES; i++) {
        const struct stem_pass *pass = passes[i];
        if (!only || listed(only, pass->name)) {
            if (!facts_hold(p, pass, diags))
                return false;
            struct stem_pass_ctx ctx = {stem_arena_new(), diags, options};
            double begin = now();
            bool fine = pass->run(p, &ctx);
            double seconds = now() - begin;
            stem_arena_free(ctx.scratch);
            if (!fine)
                return false;
            p->state = (p->state & ~pass->kills) | pass->gives;
            if (hooks && hooks->check_each)
                check(p, pass);
            if (hooks && hooks->after)
                hooks->after(hooks->user, pass, p, seconds);
        }
        if (stop_after && !strcmp(pass->name, stop_after))
            break;
    }
    return true;
}
