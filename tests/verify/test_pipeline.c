/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs through all passes and emission: the verifier accepts the plan, and the CPU device gives the same
 * bits in every legal order that is tried, with memory poisoned once nobody needs it. Ops are extern functions whose
 * results are hashes of all that they read, so a single stale byte shows in the outputs.
 *
 * test_pipeline [--programs N] [--seed S]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "emit/emit.h"
#include "runtime/mainstem_rt.h"
#include "tests/prop/gen.h"
#include "tests/prop/shrink.h"
#include "verify/verify.h"

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ (h >> 29);
}

/* Visits the elements (u8) of a tensor: adds them to *h, or derives them from it. */
static void visit(const struct stem_tensor *t, unsigned char *data, uint64_t *h, bool write)
{
    int64_t index[STEM_MAX_RANK] = {0};
    uint64_t n = stem_tensor_elements(t);
    for (uint64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < t->rank; d++)
            at += index[d] * t->stride[d];
        if (write)
            data[at] = (unsigned char)(mix(*h, i) >> 40);
        else
            *h = mix(*h, data[at]);
        for (uint32_t d = t->rank; d-- > 0 && ++index[d] == t->dim[d];)
            index[d] = 0;
    }
}

static int hash_op(const struct stem_call *call, struct CUstream_st *stream)
{
    (void)stream;
    uint64_t h = 1469598103934665603u;
    for (const char *s = call->name; *s; s++)
        h = mix(h, (unsigned char)*s);
    for (uint32_t i = 0; i < call->n_operands; i++)
        if (call->tensors[i].access & STEM_READ && call->operands[i])
            visit(&call->tensors[i].tensor, call->operands[i], &h, false);
    for (uint32_t i = 0; i < call->n_operands; i++)
        if (call->tensors[i].access & STEM_WRITE) {
            uint64_t each = mix(h, i);
            visit(&call->tensors[i].tensor, call->operands[i], &each, true);
        }
    return 0;
}

/* ---- one plan on the CPU device ---- */

struct memory {
    unsigned char **at; /* of each external buffer */
};

/* The same contents every time, outputs cleared. */
static void reset(const struct stem_plan *p, struct memory *m)
{
    for (uint32_t i = 0; i < p->n_external; i++)
        for (uint64_t k = 0; k < p->variants[0].buffers[i].bytes; k++)
            m->at[i][k] = p->variants[0].buffers[i].kind == STEM_BUFFER_OUTPUT ? 0 : (unsigned char)(mix(i, k) >> 9);
}

static uint64_t digest(const struct stem_plan *p, const struct memory *m)
{
    uint64_t h = 3;
    for (uint32_t i = 0; i < p->n_external; i++)
        for (uint64_t k = 0; k < p->variants[0].buffers[i].bytes; k++)
            h = mix(h, m->at[i][k]);
    return h;
}

static bool run_once(struct stem_cpu *c, const struct stem_plan *p, struct memory *m,
                     const struct stem_cpu_options *options, uint64_t *result)
{
    char *error = NULL;
    reset(p, m);
    if (!stem_cpu_run(c, 0, options, &error)) {
        fprintf(stderr, "%s\n", error);
        free(error);
        return false;
    }
    *result = digest(p, m);
    return true;
}

/* Number of orders that gave other bits than issue order. */
static uint32_t compare_orders(const struct stem_plan *p, uint64_t seed, uint32_t *runs)
{
    char *error = NULL;
    struct stem_cpu *c = stem_cpu_new(p, &error);
    if (!c) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
    struct memory m = {calloc(p->n_external + 1u, sizeof *m.at)};
    for (uint32_t i = 0; i < p->n_external; i++) {
        m.at[i] = malloc(p->variants[0].buffers[i].bytes + 1);
        stem_cpu_bind(c, 0, i, m.at[i]);
    }
    for (uint32_t i = 0; i < p->n_externs; i++)
        stem_cpu_extern(c, p->externs[i].name, hash_op);
    uint64_t expected = 0, got = 0;
    uint32_t wrong = !run_once(c, p, &m, &(struct stem_cpu_options){.order = STEM_CPU_ISSUE}, &expected);
    for (uint32_t i = 0; i < 12; i++) {
        struct stem_cpu_options o = {.order = i < 8    ? STEM_CPU_RANDOM
                                              : i < 10 ? STEM_CPU_LAST
                                                       : STEM_CPU_ISSUE,
                                     .seed = seed * 100 + i,
                                     .use_edges = i % 2,
                                     .poison = true};
        wrong += !run_once(c, p, &m, &o, &got) || got != expected;
        ++*runs;
    }
    for (uint32_t i = 0; i < p->n_external; i++)
        free(m.at[i]);
    free(m.at);
    stem_cpu_free(c);
    return wrong;
}

/* ---- one program ---- */

struct totals {
    uint32_t programs, ops, rejected, runs, differing, concurrent, reused;
};

static bool reuses_memory(const struct stem_plan *p)
{
    uint64_t bytes = 0;
    for (uint32_t b = p->n_external; b < p->variants[0].n_buffers; b++)
        bytes += p->variants[0].buffers[b].bytes;
    return bytes > p->slab_bytes;
}

static struct stem_options options_of(uint64_t seed)
{
    struct stem_options options = stem_options_default();
    options.order = (enum stem_order)(seed % 3);
    options.max_streams = 1 + (uint32_t)(seed / 3 % 4);
    options.inplace = (enum stem_inplace)(seed / 12 % 3);
    return options;
}

/* The verified plan, or NULL. */
static struct stem_plan *compile(struct flow *f, uint64_t seed)
{
    struct stem_options options = options_of(seed);
    const struct stem_program *programs[] = {f->program};
    bool ok = stem_pass_run_all(f->program, f->diags, &options, NULL, NULL, NULL);
    struct stem_plan *p = ok ? stem_emit_plan(programs, 1, &options, f->diags) : NULL;
    if (p && stem_verify(p, f->diags))
        return p;
    stem_plan_free(p);
    return NULL;
}

static bool is_wrong(void *user, struct flow *f)
{
    uint64_t seed = *(const uint64_t *)user;
    uint32_t runs = 0;
    struct stem_plan *p = compile(f, seed);
    bool wrong = !p || compare_orders(p, seed, &runs);
    stem_plan_free(p);
    return wrong;
}

static void show_smallest(uint64_t seed, const struct gen_options *g, const char *what)
{
    struct flow f = gen_program(seed, g), small = shrink_program(&f, is_wrong, &seed);
    shrink_show(&small, what);
    flow_free(&small);
    flow_free(&f);
}

static void judge(uint64_t seed, struct totals *t)
{
    struct gen_options g = gen_any(seed, 14);
    struct flow f = gen_program(seed, &g);
    struct stem_plan *p = compile(&f, seed);
    t->programs++;
    if (!p) {
        struct stem_out o = {0};
        stem_diags_print(f.diags, (struct stem_diag_style){0}, &o);
        fprintf(stderr, "seed %llu is rejected:\n%s", (unsigned long long)seed, stem_out_text(&o));
        stem_out_free(&o);
        if (t->rejected++ < 3)
            show_smallest(seed, &g, "it is rejected");
    } else {
        t->ops += p->variants[0].n_ops;
        t->concurrent += p->variants[0].n_events > 0;
        t->reused += reuses_memory(p);
        uint32_t differing = compare_orders(p, seed, &t->runs);
        if (differing)
            fprintf(stderr, "seed %llu: %u orders give other bits\n", (unsigned long long)seed, differing);
        if (differing && !t->differing)
            show_smallest(seed, &g, "its bits depend on the order");
        t->differing += differing;
    }
    stem_plan_free(p);
    flow_free(&f);
}

int main(int argc, char **argv)
{
    uint64_t programs = 250, seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--programs"))
            programs = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    struct totals t = {0};
    for (uint64_t i = 0; i < programs; i++)
        judge(seed + i, &t);
    printf("%u programs (%u ops; %u with events, %u reusing memory), %u rejected; %u runs in legal orders, "
           "%u with other bits\n",
           t.programs, t.ops, t.concurrent, t.reused, t.rejected, t.runs, t.differing);
    bool vacuous = programs >= 100 && (t.concurrent < programs / 10 || t.reused < programs / 10);
    return t.rejected || t.differing || vacuous;
}
