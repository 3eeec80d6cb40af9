/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier against plans that the compiler emits: examples, cases from the field, and random programs through all
 * passes. Each is accepted and has no hazard (hazard.c); of its mutants no one that has a hazard is accepted.
 *
 * test_emitted [--programs N] [--tries N] [--seed S]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emit/emit.h"
#include "tests/cases/kit.h"
#include "tests/prop/gen.h"
#include "tests/verify/model.h"
#include "verify/verify.h"

struct count {
    uint64_t tried, unsafe, accepted, safe_accepted, safe_rejected;
};

struct totals {
    struct count correct, *mutants;
    uint32_t tries; /* of each kind for a plan */
    uint64_t ops;
};

static bool accepts(const struct stem_plan *p, struct stem_out *o)
{
    struct stem_diags *q = stem_diags_new(0);
    bool ok = stem_verify(p, q);
    if (o)
        stem_diags_print(q, (struct stem_diag_style){0}, o);
    stem_diags_free(q);
    return ok;
}

static void judge(struct count *c, const struct stem_plan *p, const char *name, const char *what, uint64_t seed)
{
    const char *hazard = plan_hazard(p);
    bool accepted = accepts(p, NULL);
    c->tried++;
    c->unsafe += hazard != NULL;
    c->safe_accepted += !hazard && accepted;
    c->safe_rejected += !hazard && !accepted;
    if (hazard && accepted && c->accepted++ < 3)
        fprintf(stderr, "%s, seed %llu, %s: accepted although %s\n", name, (unsigned long long)seed, what, hazard);
}

static void judge_plan(struct totals *t, const struct stem_plan *p, const char *name, uint64_t seed)
{
    struct stem_arena *a = stem_arena_new();
    struct rng r = {seed * 7919 + 1};
    struct count was = t->correct;
    judge(&t->correct, p, name, "as emitted", seed);
    if (t->correct.unsafe != was.unsafe || t->correct.safe_rejected != was.safe_rejected) {
        struct stem_out o = {0};
        const char *hazard = plan_hazard(p);
        accepts(p, &o);
        fprintf(stderr, "%s, seed %llu: a plan that should be correct: %s; %s", name, (unsigned long long)seed,
                hazard ? hazard : "no hazard", stem_out_text(&o));
        stem_out_free(&o);
    }
    t->ops += p->variants[0].n_ops;
    for (uint32_t kind = 0; kind < n_mutations; kind++)
        for (uint32_t again = 0; again < t->tries; again++) {
            struct stem_plan *m = plan_copy(a, p);
            if (p->variants[0].n_ops && plan_mutate(a, m, kind, &r))
                judge(&t->mutants[kind], m, name, mutation_name(kind), seed);
        }
    stem_arena_free(a);
}

static void judge_file(struct totals *t, const char *path, const char *options)
{
    struct kit k = kit_compile_file(path, options);
    if (k.plan) {
        judge_plan(t, k.plan, path, 1);
    } else {
        fprintf(stderr, "%s: %s\n", path, k.said);
        t->correct.safe_rejected++;
    }
    kit_free(&k);
}

static void judge_random(struct totals *t, uint64_t seed)
{
    struct gen_options g = gen_any(seed, seed % 8 ? 12 : 40);
    g.small = true;
    g.segments = 1 + seed % 2;
    g.layers = seed % 5 ? 1 : 3;
    struct flow f = gen_program(seed, &g);
    struct stem_options options = stem_options_default();
    options.order = (enum stem_order)(seed % 3);
    options.max_streams = 1 + (uint32_t)(seed / 3 % 4);
    options.inplace = (enum stem_inplace)(seed / 12 % 3);
    const struct stem_program *programs[] = {f.program};
    bool ok = stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, NULL);
    struct stem_plan *p = ok ? stem_emit_plan(programs, 1, &options, f.diags) : NULL;
    if (p)
        judge_plan(t, p, "random program", seed);
    else
        t->correct.safe_rejected++;
    stem_plan_free(p);
    flow_free(&f);
}

static void print_row(const char *name, const struct count *c)
{
    printf("%-30s %9llu %9llu %9llu %9llu %9llu\n", name, (unsigned long long)c->tried, (unsigned long long)c->unsafe,
           (unsigned long long)c->accepted, (unsigned long long)c->safe_accepted,
           (unsigned long long)c->safe_rejected);
}

static void all_files(struct totals *t)
{
    static const struct {
        const char *path, *options;
    } files[] = {
        {"examples/dual_stream_moe.stem", "HIDDEN=256 EXPERTS=16 INTER=64 LAYERS=4 SETS=2"},
        {"examples/dsa_indexer.stem", "HIDDEN=256 QRANK=128 HEADS=2 SLOTS=64 LAYERS=3"},
        {"examples/qkv_three_streams.stem", "HIDDEN=128 LAYERS=4"},
        {"examples/inline_kernel.stem", "N=256"},
        {"examples/piecewise.stem", "HIDDEN=128 VOCAB=64"},
        {"tests/cases/c01_dual_branch.stem", "N=6"},
        {"tests/cases/c02_needless_fork.stem", "PIN=1"},
        {"tests/cases/c03_late_record.stem", ""},
        {"tests/cases/c04_release_and_read.stem", ""},
        {"tests/cases/c05_diamond.stem", ""},
        {"tests/cases/c06_shared_source.stem", "N=5"},
        {"tests/cases/c07_side_free.stem", ""},
        {"tests/cases/c08_inplace.stem", "--wait"},
        {"tests/cases/c08_inplace.stem", "--copy OWNED=1"},
        {"tests/cases/c09_fusion.stem", ""},
        {"tests/cases/c10_leaf.stem", ""},
        {"tests/cases/c11_write_only.stem", ""},
        {"tests/cases/c13_order_alone.stem", ""},
        {"tests/cases/c15_workspaces.stem", ""},
        {"tests/cases/c16_early_launch.stem", ""},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        judge_file(t, files[i].path, files[i].options);
}

int main(int argc, char **argv)
{
    uint64_t programs = 400, seed = 1;
    struct totals t = {.tries = 2, .mutants = calloc(n_mutations, sizeof *t.mutants)};
    struct count all = {0};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--programs"))
            programs = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--tries"))
            t.tries = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    all_files(&t);
    for (uint64_t i = 0; i < programs; i++)
        judge_random(&t, seed + i);
    printf("%-30s %9s %9s %9s %9s %9s\n", "", "tried", "unsafe", "accepted", "safe,acc", "safe,rej");
    print_row("emitted plans", &t.correct);
    for (uint32_t k = 0; k < n_mutations; k++) {
        print_row(mutation_name(k), &t.mutants[k]);
        all.tried += t.mutants[k].tried;
        all.unsafe += t.mutants[k].unsafe;
        all.accepted += t.mutants[k].accepted;
        all.safe_accepted += t.mutants[k].safe_accepted;
        all.safe_rejected += t.mutants[k].safe_rejected;
    }
    print_row("all mutants", &all);
    printf("%llu mutants of emitted plans tried, %llu unsafe, %llu of them accepted; %llu plans (%llu ops), %llu "
           "rejected\n",
           (unsigned long long)all.tried, (unsigned long long)all.unsafe, (unsigned long long)all.accepted,
           (unsigned long long)t.correct.tried, (unsigned long long)t.ops,
           (unsigned long long)(t.correct.safe_rejected + t.correct.unsafe));
    free(t.mutants);
    bool vacuous = programs >= 100 && all.unsafe < 5 * programs;
    return all.accepted || t.correct.safe_rejected || t.correct.unsafe || vacuous;
}
