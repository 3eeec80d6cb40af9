/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to a compiled program, see kit.h.
 */
#include "kit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cpu/cpu.h"

/* ---- compiling ---- */

static bool set_option(struct stem_compile_args *a, const char *word)
{
    static const struct {
        const char *word;
        enum stem_order order;
    } orders[] = {{"--side-first", STEM_ORDER_SIDE_FIRST}, {"--program", STEM_ORDER_PROGRAM}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (!strcmp(word, orders[i].word))
            return a->options.order = orders[i].order, true;
    if (!strcmp(word, "--wait") || !strcmp(word, "--copy"))
        return a->options.inplace = word[2] == 'w' ? STEM_INPLACE_WAIT : STEM_INPLACE_COPY, true;
    if (!strcmp(word, "--one-stream"))
        return a->options.one_stream = true;
    if (!strcmp(word, "--no-pdl"))
        return a->options.pdl = STEM_PDL_OFF, true;
    if (!strcmp(word, "--no-fuse"))
        return a->options.no_fuse = true;
    if (!strcmp(word, "--no-verify"))
        return a->no_verify = true;
    if (!strncmp(word, "--sm=", 5))
        return a->options.target.sm = (uint32_t)atoi(word + 5), true;
    if (!strncmp(word, "--budget=", 9))
        return a->options.memory_budget = strtoull(word + 9, NULL, 10), true;
    return false;
}

struct kit kit_compile_file(const char *path, const char *options)
{
    const char *defines[16];
    char *words = strdup(options), *rest = words, full[4096];
    const char *top = getenv("SRCDIR");
    struct stem_compile_args a = {.path = full, .options = stem_options_default(), .defines = defines};
    snprintf(full, sizeof full, "%s/%s", top ? top : TOP, path);
    for (char *w; (w = strsep(&rest, " "));) {
        if (!*w || set_option(&a, w))
            continue;
        if (a.n_defines == 16 || !strchr(w, '=')) {
            fprintf(stderr, "no option '%s'\n", w);
            abort();
        }
        defines[a.n_defines++] = w;
    }
    struct kit k = {.compiled = stem_pipeline(&a)};
    struct stem_out o = {0};
    stem_diags_print(k.compiled->diags, (struct stem_diag_style){.remarks = "all"}, &o);
    k.said = strdup(stem_out_text(&o));
    stem_out_free(&o);
    k.plan = stem_diags_errors(k.compiled->diags) ? NULL : k.compiled->plan;
    k.v = k.plan ? &k.plan->variants[0] : NULL;
    free(words);
    return k;
}

struct kit kit_compile(const char *name, const char *options)
{
    char path[256];
    snprintf(path, sizeof path, "tests/cases/%s.stem", name);
    struct kit k = kit_compile_file(path, options);
    return k;
}

void kit_free(struct kit *k)
{
    stem_compiled_free(k->compiled);
    free(k->said);
    *k = (struct kit){0};
}

/* ---- the schedule as text ---- */

static const char *without(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    return n && !strncmp(name, prefix, n) ? name + n : name;
}

/* The op that an event stands for: the last one on its stream at the last record before step `at`. */
static const char *event_op(const struct kit *k, uint32_t at, uint32_t event)
{
    uint32_t i = at;
    while (i > 0 && !(k->v->steps[i - 1].kind == STEM_STEP_RECORD && k->v->steps[i - 1].index == event))
        i--;
    uint32_t stream = i ? k->v->steps[i - 1].stream : 0;
    for (; i > 0; i--) {
        const struct stem_step *s = &k->v->steps[i - 1];
        if (s->kind == STEM_STEP_SEGMENT)
            return "";
        if (s->kind == STEM_STEP_OP && s->stream == stream)
            return k->v->ops[s->index].name;
    }
    return "";
}

static void print_step(const struct kit *k, uint32_t at, const char *prefix, bool frees, struct stem_out *o)
{
    const struct stem_step *s = &k->v->steps[at];
    const char *stream = s->stream ? k->plan->streams[s->stream] : NULL;
    switch (s->kind) {
    case STEM_STEP_OP:
        stem_out_printf(o, " %s%s%s", without(k->v->ops[s->index].name, prefix), stream ? "@" : "",
                        stream ? stream : "");
        break;
    case STEM_STEP_RECORD:
        stem_out_printf(o, " !%s%s", stream ? ":" : "", stream ? stream : "");
        break;
    case STEM_STEP_WAIT:
        stem_out_printf(o, " ?%s%s%s", without(event_op(k, at, s->index), prefix), stream ? ":" : "",
                        stream ? stream : "");
        break;
    case STEM_STEP_FREE:
        if (frees)
            stem_out_printf(o, " -%s", without(k->v->buffers[s->index].name, prefix));
        break;
    case STEM_STEP_ALLOC:
        break;
    case STEM_STEP_SEGMENT:
        stem_out_str(o, " .");
        break;
    }
}

char *kit_steps(const struct kit *k, const char *prefix, bool frees)
{
    struct stem_out o = {0};
    uint32_t first = *prefix ? STEM_NONE : 0, end = k->v->n_steps;
    for (uint32_t i = 0; *prefix && i < k->v->n_steps; i++) {
        if (k->v->steps[i].kind != STEM_STEP_OP)
            continue;
        bool inside = !strncmp(k->v->ops[k->v->steps[i].index].name, prefix, strlen(prefix));
        if (inside && first == STEM_NONE)
            first = i;
        if (inside)
            end = k->v->n_steps;
        else if (first != STEM_NONE && end == k->v->n_steps)
            end = i;
    }
    for (uint32_t i = first; first != STEM_NONE && i < end; i++)
        print_step(k, i, prefix, frees, &o);
    char *text = strdup(o.len ? stem_out_text(&o) + 1 : "");
    stem_out_free(&o);
    return text;
}

/* ---- names, order, places ---- */

static _Noreturn void unknown(const struct kit *k, const char *what, const char *name)
{
    fprintf(stderr, "%s: no %s '%s'\n", k->plan ? k->plan->name : "?", what, name);
    abort();
}

static uint32_t find_op(const struct kit *k, const char *name)
{
    for (uint32_t i = 0; i < k->v->n_ops; i++)
        if (!strcmp(k->v->ops[i].name, name))
            return i;
    return STEM_NONE;
}

bool kit_has_op(const struct kit *k, const char *name)
{
    return find_op(k, name) != STEM_NONE;
}

uint32_t kit_op(const struct kit *k, const char *name)
{
    uint32_t i = find_op(k, name);
    if (i == STEM_NONE)
        unknown(k, "op", name);
    return i;
}

uint32_t kit_buffer(const struct kit *k, const char *name)
{
    for (uint32_t i = 0; i < k->v->n_buffers; i++)
        if (!strcmp(k->v->buffers[i].name, name))
            return i;
    unknown(k, "buffer", name);
}

/* Steps that have happened when step `end` has: a backward search, without clocks or closures. */
static void close_back(const struct kit *k, uint32_t end, bool *before)
{
    before[end] = true;
    for (uint32_t i = end + 1; i-- > 0;) {
        if (!before[i])
            continue;
        const struct stem_step *s = &k->v->steps[i];
        for (uint32_t j = i; j-- > 0;)
            if (k->v->steps[j].stream == s->stream) {
                before[j] = true;
                break;
            }
        for (uint32_t j = i; s->kind == STEM_STEP_WAIT && j-- > 0;)
            if (k->v->steps[j].kind == STEM_STEP_RECORD && k->v->steps[j].index == s->index) {
                before[j] = true;
                break;
            }
    }
}

bool kit_before(const struct kit *k, const char *a, const char *b)
{
    uint32_t at[2] = {0, 0}, op[2] = {kit_op(k, a), kit_op(k, b)};
    for (uint32_t i = 0; i < k->v->n_steps; i++)
        for (int n = 0; n < 2; n++)
            if (k->v->steps[i].kind == STEM_STEP_OP && k->v->steps[i].index == op[n])
                at[n] = i;
    bool *before = calloc(k->v->n_steps, sizeof *before);
    if (at[0] < at[1])
        close_back(k, at[1], before);
    bool yes = at[0] < at[1] && before[at[0]];
    free(before);
    return yes;
}

bool kit_edge_path(const struct kit *k, uint32_t a, uint32_t b)
{
    bool *from = calloc(k->v->n_ops, sizeof *from);
    from[a] = true;
    for (uint32_t e = 0; e < k->v->n_edges; e++) /* by `to`: sources are settled */
        from[k->v->edges[e].to] |= from[k->v->edges[e].from];
    bool yes = from[b];
    free(from);
    return yes;
}

bool kit_share(const struct kit *k, const char *a, const char *b)
{
    const struct stem_plan_buffer *x = &k->v->buffers[kit_buffer(k, a)], *y = &k->v->buffers[kit_buffer(k, b)];
    return x->kind == STEM_BUFFER_TEMP && y->kind == STEM_BUFFER_TEMP && x->offset < y->offset + y->bytes &&
           y->offset < x->offset + x->bytes;
}

bool kit_says(const struct kit *k, const char *text)
{
    return strstr(k->said, text) != NULL;
}

uint32_t kit_streams_used(const struct kit *k)
{
    uint32_t used = 0, mask = 0;
    for (uint32_t i = 0; i < k->v->n_ops; i++)
        mask |= UINT32_C(1) << k->v->ops[i].stream;
    for (; mask; mask &= mask - 1)
        used++;
    return used;
}

/* ---- execution ---- */

struct host {
    struct stem_cpu *cpu;
    void **data;
};

static struct host host_new(const struct stem_plan *p)
{
    char *error = NULL;
    struct host h = {stem_cpu_new(p, &error), calloc(p->n_external + 1U, sizeof *h.data)};
    if (!h.cpu) {
        fprintf(stderr, "%s: %s\n", p->name, error);
        free(error);
    }
    for (uint32_t i = 0; i < p->n_external; i++) {
        h.data[i] = malloc(p->variants[0].buffers[i].bytes + 1);
        if (h.cpu)
            stem_cpu_bind(h.cpu, 0, i, h.data[i]);
    }
    return h;
}

static void host_free(struct host *h, const struct stem_plan *p)
{
    stem_cpu_free(h->cpu);
    for (uint32_t i = 0; i < p->n_external; i++)
        free(h->data[i]);
    free(h->data);
}

static bool host_run(struct host *h, const struct stem_plan *p, const struct stem_cpu_options *o)
{
    char *error = NULL;
    for (uint32_t i = 0; i < p->n_external; i++) {
        const struct stem_plan_buffer *b = &p->variants[0].buffers[i];
        stem_fill(b, 7, h->data[i]);
        if (b->kind == STEM_BUFFER_OUTPUT || b->kind == STEM_BUFFER_STATE)
            memset(h->data[i], b->kind == STEM_BUFFER_OUTPUT ? 0xff : 0, b->bytes);
    }
    bool ok = h->cpu && stem_cpu_run(h->cpu, 0, o, &error);
    if (error)
        fprintf(stderr, "%s: %s\n", p->name, error);
    free(error);
    return ok;
}

uint32_t kit_differing(const struct kit *k, const struct kit *one, uint32_t orders)
{
    struct host a = host_new(k->plan), b = host_new(one->plan);
    uint32_t wrong = k->plan->n_external != one->plan->n_external;
    wrong += !host_run(&b, one->plan, &(struct stem_cpu_options){.order = STEM_CPU_ISSUE, .poison = true});
    for (uint32_t n = 0; !wrong && n < orders; n++) {
        struct stem_cpu_options o = {
            .order = n < 2 ? STEM_CPU_LAST : STEM_CPU_RANDOM, .seed = n, .use_edges = n % 2, .poison = true};
        bool same = host_run(&a, k->plan, &o);
        for (uint32_t i = 0; same && i < k->plan->n_external; i++)
            same = !memcmp(a.data[i], b.data[i], k->v->buffers[i].bytes);
        wrong += !same;
    }
    host_free(&a, k->plan);
    host_free(&b, one->plan);
    return wrong;
}

uint64_t kit_digest(const struct kit *k)
{
    struct host h = host_new(k->plan);
    uint64_t digest = host_run(&h, k->plan, &(struct stem_cpu_options){.order = STEM_CPU_ISSUE, .poison = true});
    for (uint32_t i = 0; i < k->plan->n_external; i++)
        for (uint64_t n = 0; n < k->v->buffers[i].bytes; n++)
            digest = (digest ^ ((const unsigned char *)h.data[i])[n]) * UINT64_C(1099511628211);
    host_free(&h, k->plan);
    return digest;
}
