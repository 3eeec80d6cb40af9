/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier against the truth: random correct plans must be accepted, and no mutant that some legal execution gets
 * wrong may be. A mutant that is safe all the same may be judged either way; those are counted. Prints a table.
 *
 * test_mutants [--full | --plans N] [--seed S]; MAINSTEM_MUTANTS=N in the environment sets the number of plans too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/verify/model.h"
#include "verify/verify.h"

struct count {
    uint64_t tried, unsafe, wrongly_accepted, safe_accepted, safe_rejected, unknown;
};

static bool accepts(const struct stem_plan *p, struct stem_out *o)
{
    struct stem_diags *q = stem_diags_new(0);
    bool ok = stem_verify(p, q);
    if (ok != (stem_diags_errors(q) == 0)) {
        fprintf(stderr, "the verdict is not what the diagnostics say\n");
        exit(1);
    }
    if (o)
        stem_diags_print(q, (struct stem_diag_style){0}, o);
    stem_diags_free(q);
    return ok;
}

static void dump(const struct stem_plan *p)
{
    static const char *const kinds[] = {"op", "record", "wait", "alloc", "free", "segment"};
    static const char *const accesses[] = {"", "R", "W", "RW:"};
    const struct stem_plan_variant *v = &p->variants[0];
    for (uint32_t i = 0; i < v->n_steps; i++) {
        const struct stem_step *s = &v->steps[i];
        fprintf(stderr, "  %-6s %s %u", p->streams[s->stream], kinds[s->kind], s->index);
        const struct stem_plan_op *o = s->kind == STEM_STEP_OP ? &v->ops[s->index] : NULL;
        for (uint32_t k = 0; o && k < o->n_operands; k++) {
            const struct stem_tensor *t = &o->operands[k].tensor;
            fprintf(stderr, " %s%s@%llu+%llu[%lld%s]", accesses[o->operands[k].access], v->buffers[t->buffer].name,
                    (unsigned long long)v->buffers[t->buffer].offset, (unsigned long long)t->offset,
                    (long long)t->dim[0], t->rank > 1 ? "x2" : "");
        }
        fprintf(stderr, "%s%s\n", o && o->resource == 0 ? " comm" : "",
                !o || !o->programmatic          ? ""
                : p->kernels[o->kernel].waits ? " programmatic"
                                              : " programmatic, no wait");
    }
    for (uint32_t i = 0; i < v->n_edges; i++)
        fprintf(stderr, "  edge %u -> %u%s%s\n", v->edges[i].from, v->edges[i].to,
                v->edges[i].kind == STEM_EDGE_PROGRAMMATIC ? " programmatic" : "",
                v->edges[i].continuation ? " continuation" : "");
}

static void judge(struct count *c, const struct stem_plan *p, const char *what, uint64_t seed)
{
    const char *why;
    enum truth truth = plan_truth(p, &why);
    bool accepted = accepts(p, NULL);
    c->tried++;
    c->unsafe += truth == TRUTH_UNSAFE;
    c->unknown += truth == TRUTH_UNKNOWN;
    c->safe_accepted += truth == TRUTH_SAFE && accepted;
    c->safe_rejected += truth == TRUTH_SAFE && !accepted;
    if (truth != TRUTH_UNSAFE || !accepted)
        return;
    if (c->wrongly_accepted++ < 3) {
        fprintf(stderr, "accepted although %s: seed %llu, %s\n", why, (unsigned long long)seed, what);
        dump(p);
    }
}

static void judge_plan(uint64_t seed, struct count *correct, struct count *mutants)
{
    struct stem_arena *a = stem_arena_new();
    struct rng r = {seed};
    struct stem_plan *p = plan_random(a, &r);
    uint64_t rejected = correct->safe_rejected, unsafe = correct->unsafe;
    judge(correct, p, "as generated", seed);
    if (correct->unsafe != unsafe || correct->safe_rejected != rejected) {
        struct stem_out o = {0};
        const char *why;
        plan_truth(p, &why);
        accepts(p, &o);
        fprintf(stderr, "seed %llu: a plan that should be correct (%s): %s", (unsigned long long)seed, why,
                stem_out_text(&o));
        dump(p);
        stem_out_free(&o);
    }
    for (uint32_t kind = 0; kind < n_mutations; kind++)
        for (uint32_t again = 0; again < 3; again++) {
            struct stem_plan *m = plan_copy(a, p);
            if (plan_mutate(a, m, kind, &r))
                judge(&mutants[kind], m, mutation_name(kind), seed);
        }
    stem_arena_free(a);
}

static void print_row(const char *name, const struct count *c)
{
    printf("%-30s %9llu %9llu %9llu %9llu %9llu %9llu\n", name, (unsigned long long)c->tried,
           (unsigned long long)c->unsafe, (unsigned long long)c->wrongly_accepted,
           (unsigned long long)c->safe_accepted, (unsigned long long)c->safe_rejected,
           (unsigned long long)c->unknown);
}

int main(int argc, char **argv)
{
    const char *number = getenv("MAINSTEM_MUTANTS");
    uint64_t plans = number ? strtoull(number, NULL, 10) : 1500, seed = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--full"))
            plans = 200000;
        else if (!strcmp(argv[i], "--plans") && i + 1 < argc)
            plans = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
    }
    struct count correct = {0}, all = {0}, *mutants = calloc(n_mutations, sizeof *mutants);
    for (uint64_t i = 0; i < plans; i++)
        judge_plan(seed + i, &correct, mutants);
    printf("%-30s %9s %9s %9s %9s %9s %9s\n", "", "tried", "unsafe", "accepted", "safe,acc", "safe,rej", "unknown");
    print_row("correct plans", &correct);
    for (uint32_t k = 0; k < n_mutations; k++) {
        print_row(mutation_name(k), &mutants[k]);
        all.tried += mutants[k].tried;
        all.unsafe += mutants[k].unsafe;
        all.wrongly_accepted += mutants[k].wrongly_accepted;
        all.safe_accepted += mutants[k].safe_accepted;
        all.safe_rejected += mutants[k].safe_rejected;
        all.unknown += mutants[k].unknown;
    }
    print_row("all mutants", &all);
    printf("%llu mutants tried, %llu unsafe, %llu of them accepted; %llu correct plans, %llu rejected\n",
           (unsigned long long)all.tried, (unsigned long long)all.unsafe, (unsigned long long)all.wrongly_accepted,
           (unsigned long long)correct.tried, (unsigned long long)(correct.safe_rejected + correct.unsafe));
    free(mutants);
    bool vacuous = plans >= 1000 && all.unsafe < plans; /* mutations that break nothing test nothing */
    return all.wrongly_accepted || correct.safe_rejected || correct.unsafe || vacuous;
}
