/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties of the passes on random programs, judged by check.c. STEM_SEEDS=N: N programs where 300 are the default, and in
 * proportion where there are fewer.
 */
#include "unit.h"

#include <stdlib.h>

#include "check.h"
#include "gen.h"
#include "pass/lanes.h"
#include "shrink.h"

/* So many, if 300 are asked for. */
static uint32_t seeds(uint32_t n)
{
    const char *s = getenv("STEM_SEEDS");
    uint64_t asked = s ? strtoul(s, NULL, 10) : 300;
    return (uint32_t)((n * asked + 299) / 300);
}

static struct stem_options any_options(uint64_t seed)
{
    struct gen_rng r = {seed};
    struct stem_options o = stem_options_default();
    o.order = (enum stem_order)gen_below(&r, 3);
    o.max_streams = 1 + gen_below(&r, 4);
    o.one_stream = gen_chance(&r, 5);
    o.inplace = (enum stem_inplace)gen_below(&r, 3);
    o.lane_repair = (enum stem_lane_repairs)gen_below(&r, 3);
    return o;
}

static void show(uint64_t seed, const char *what, const struct flow *f)
{
    struct stem_out o = {0};
    stem_schedule_print(f->program, &o);
    stem_diags_print(f->diags, (struct stem_diag_style){0}, &o);
    fprintf(stderr, "\nseed %llu: %s\n%s", (unsigned long long)seed, what, stem_out_text(&o));
    stem_out_free(&o);
}

static bool run(struct flow *f, const struct stem_options *o)
{
    return stem_pass_run_all(f->program, f->diags, o, NULL, NULL, &(struct stem_pass_hooks){.check_each = true});
}

static bool is_wrong(void *user, struct flow *f)
{
    const struct stem_options *o = user;
    return !run(f, o) || check_schedule(f->program, o);
}

/* The smallest part of the program of that seed that shows a fault too. */
static void show_smallest(uint64_t seed, const struct gen_options *g, struct stem_options *o)
{
    struct flow f = gen_program(seed, g);
    struct flow small = shrink_program(&f, is_wrong, o);
    struct flow copy = shrink_copy(&small, NULL);
    const char *what = run(&copy, o) ? check_schedule(copy.program, o) : "a pass failed";
    shrink_show(&small, what ? what : "the copy is right");
    flow_free(&copy);
    flow_free(&small);
    flow_free(&f);
}

static void schedules_are_right(void)
{
    uint32_t n = seeds(300), failed = 0;
    for (uint64_t seed = 1; seed <= n && failed < 3; seed++) {
        struct gen_options g = gen_any(seed, seed % 16 ? 24 : 60);
        struct stem_options o = any_options(seed);
        struct flow f = gen_program(seed, &g);
        const char *what = run(&f, &o) ? check_schedule(f.program, &o) : "a pass failed";
        if (what) {
            show(seed, what, &f);
            show_smallest(seed, &g, &o);
            failed++;
        }
        flow_free(&f);
    }
    CU_ASSERT_EQUAL(failed, 0);
}

static void same_program_same_schedule(void)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct gen_options g = gen_any(seed, 60);
        struct stem_options o = any_options(seed);
        struct stem_out out[2] = {{0}, {0}};
        for (int i = 0; i < 2; i++) {
            struct flow f = gen_program(seed, &g);
            if (run(&f, &o))
                stem_schedule_print(f.program, &out[i]);
            flow_free(&f);
        }
        UNIT_SAME_TEXT(stem_out_text(&out[0]), stem_out_text(&out[1]));
        stem_out_free(&out[0]);
        stem_out_free(&out[1]);
    }
}

/* The slab within 10 % of its bound on average. */
static void slabs_are_small(void)
{
    double ratio = 0;
    uint32_t n = 0, all = seeds(120);
    for (uint64_t seed = 1; seed <= all; seed++) {
        struct gen_options g = gen_any(seed, 200);
        struct stem_options o = any_options(seed);
        struct flow f = gen_program(seed, &g);
        if (run(&f, &o) && f.program->sched.slab_bound) {
            ratio += (double)f.program->sched.slab_bytes / (double)f.program->sched.slab_bound;
            n++;
        }
        flow_free(&f);
    }
    printf("slab / bound: %.3f on average over %u programs ", ratio / n, n);
    CU_ASSERT(n > all / 3);
    CU_ASSERT(ratio / n < 1.10);
}

/* Repeating a layer four times as often needs at most a little more memory: the first and the last layers differ. */
static void slab_of_many_layers(void)
{
    uint32_t larger = 0, n = seeds(10);
    for (uint64_t seed = 1; seed <= n; seed++) {
        uint64_t bytes[2] = {0, 0};
        for (uint32_t i = 0; i < 2; i++) {
            struct gen_options g = gen_any(seed, 16);
            struct stem_options o = any_options(seed);
            g.ops += 4;
            o.order = STEM_ORDER_MAIN_FIRST;
            g.layers = i ? 160 : 40;
            g.segments = 1;
            g.odd = g.stale = false;
            struct flow f = gen_program(seed, &g);
            CU_ASSERT(run(&f, &o));
            bytes[i] = f.program->sched.slab_bytes;
            flow_free(&f);
        }
        bool more = bytes[1] > bytes[0] + bytes[0] / 8;
        larger += more;
        if (more)
            fprintf(stderr, "\nseed %llu: %llu bytes for 40 layers, %llu for 160", (unsigned long long)seed,
                    (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
    }
    CU_ASSERT_EQUAL(larger, 0);
}

/* A made-up fault: an op writes in place, on a side stream, a value that an op on another stream reads as well. */
static bool reader_beside_writer(void *user, struct flow *f)
{
    const struct stem_program *p = f->program;
    ++*(uint32_t *)user;
    for (uint32_t k = 0; k < p->ops.len; k++)
        for (uint32_t i = 0; i < p->ops.at[k].n_in; i++)
            for (uint32_t m = 0; m < p->ops.len && p->ops.at[k].operands[i].mode == STEM_MODE_INOUT; m++)
                for (uint32_t j = 0; j < p->ops.at[m].n_in; j++)
                    if (m != k && p->ops.at[m].operands[j].value.n == p->ops.at[k].operands[i].value.n &&
                        p->ops.at[m].pin.n != p->ops.at[k].pin.n)
                        return true;
    return false;
}

/* Shrinking finds the two or three ops that matter, keeps programs sound, and what it prints reads the same. */
static void failures_are_shrunk(void)
{
    uint32_t found = 0, ops = 0;
    for (uint64_t seed = 1; seed <= 400 && found < 12; seed++) {
        struct gen_options g = gen_any(seed, 60);
        struct flow f = gen_program(seed, &g);
        uint32_t calls = 0;
        if (reader_beside_writer(&calls, &f)) {
            struct flow small = shrink_program(&f, reader_beside_writer, &calls);
            ops += small.program->ops.len; /* writer, reader, and what made the value */
            CU_ASSERT(small.program->ops.len <= 6);
            CU_ASSERT(reader_beside_writer(&calls, &small));
            CU_ASSERT_PTR_NULL(stem_program_check(small.program));
            struct stem_out o[2] = {{0}, {0}};
            stem_program_print(small.program, &o[0]);
            struct stem_arena *arena = stem_arena_new();
            struct stem_source *s = stem_source_new(arena, "small", stem_out_text(&o[0]), o[0].len);
            struct stem_program *again = stem_program_read(small.strings, s, small.diags);
            CU_ASSERT_PTR_NOT_NULL(again);
            if (again)
                stem_program_print(again, &o[1]);
            UNIT_SAME_TEXT(stem_out_text(&o[1]), stem_out_text(&o[0]));
            stem_program_free(again);
            stem_arena_free(arena);
            stem_out_free(&o[0]);
            stem_out_free(&o[1]);
            flow_free(&small);
            found++;
        }
        flow_free(&f);
    }
    printf("%u failures, %.1f ops on average ", found, found ? (double)ops / found : 0);
    CU_ASSERT(found > 5 && ops <= 4 * found);
}

/* A budget is met, and then the plan still is right, or refused with the number of bytes that it would take. */
static void budgets_are_met_or_refused(void)
{
    uint32_t met = 0, refused = 0, n = seeds(100);
    for (uint64_t seed = 1; seed <= n; seed++) {
        struct gen_options g = gen_any(seed, 40);
        struct stem_options o = any_options(seed);
        o.lane_repair = STEM_LANE_REPAIR_NEVER; /* another order may need less than the memory pass could know */
        struct flow f = gen_program(seed, &g);
        uint64_t slab = run(&f, &o) ? f.program->sched.slab_bytes : 0;
        flow_free(&f);
        if (slab < 1024)
            continue;
        o.memory_budget = slab - slab / (2 + seed % 9);
        f = gen_program(seed, &g);
        bool fits = run(&f, &o);
        met += fits;
        refused += !fits;
        CU_ASSERT(fits ? f.program->sched.slab_bytes <= o.memory_budget : stem_diags_errors(f.diags) == 1);
        if (!fits)
            CU_ASSERT_EQUAL(stem_diags_get(f.diags, stem_diags_count(f.diags) - 1)->id, STEM_E_MEMORY_BUDGET);
        uint64_t need = f.program->sched.slab_bytes;
        const char *what = fits ? check_schedule(f.program, &o) : NULL;
        if (what)
            show(seed, what, &f);
        CU_ASSERT_PTR_NULL(what);
        flow_free(&f);
        o.memory_budget = need; /* what it says that it needs is enough */
        f = gen_program(seed, &g);
        CU_ASSERT(run(&f, &o));
        flow_free(&f);
    }
    printf("%u budgets met, %u refused ", met, refused);
    CU_ASSERT(met > n / 20);
    CU_ASSERT(refused > n / 20);
}

/* Repairing never makes more lanes, a larger slab, or other happens-before (check.c); how often lanes were above the
 * streams, and how often they still are. */
static void lanes_are_repaired(void)
{
    uint32_t above = 0, still = 0, fewer = 0, n = seeds(100);
    for (uint64_t seed = 1; seed <= n; seed++) {
        struct gen_options g = gen_any(seed, 60);
        struct stem_options o = any_options(seed);
        uint32_t lanes[2], over[2];
        uint64_t slab[2];
        o.one_stream = false;
        for (uint32_t i = 0; i < 2; i++) {
            struct flow f = gen_program(seed, &g);
            o.lane_repair = i ? STEM_LANE_REPAIR_ALWAYS : STEM_LANE_REPAIR_NEVER;
            const char *what = run(&f, &o) ? check_schedule(f.program, &o) : "a pass failed";
            if (what)
                show(seed, what, &f);
            CU_ASSERT_PTR_NULL(what);
            lanes[i] = f.program->sched.lanes;
            slab[i] = f.program->sched.slab_bytes;
            over[i] = 0;
            for (uint32_t k = 0; k < stem_diags_count(f.diags); k++)
                over[i] += stem_diags_get(f.diags, k)->id == STEM_E_MORE_LANES;
            flow_free(&f);
        }
        CU_ASSERT(lanes[1] <= lanes[0]);
        CU_ASSERT(slab[1] <= slab[0]);
        above += over[0] > 0;
        still += over[1] > 0;
        fewer += lanes[1] < lanes[0];
    }
    printf("%u programs have more lanes than streams, %u still after repair; %u have fewer lanes ", above, still,
           fewer);
    CU_ASSERT(above > n / 20);
    CU_ASSERT(still < above - above / 4);
    CU_ASSERT(fewer > above / 2);
}

/* Main-first: lanes above streams, before and after. What docs/passes.md says is of STEM_SEEDS=1200. */
static void surplus_of_main_first(void)
{
    uint32_t surplus[2] = {0}, programs[2] = {0}, n = seeds(100);
    for (uint64_t seed = 1; seed <= n; seed++)
        for (uint32_t i = 0; i < 2; i++) {
            struct gen_options g = gen_any(seed, 60);
            struct stem_options o = any_options(seed);
            o.one_stream = false;
            o.order = STEM_ORDER_MAIN_FIRST;
            o.lane_repair = i ? STEM_LANE_REPAIR_AUTO : STEM_LANE_REPAIR_NEVER;
            struct flow f = gen_program(seed, &g);
            const char *what = run(&f, &o) ? check_schedule(f.program, &o) : "a pass failed";
            if (what)
                show(seed, what, &f);
            CU_ASSERT_PTR_NULL(what);
            struct stem_arena *a = stem_arena_new();
            uint32_t excess = stem_lane_view_new(f.program, a).excess;
            surplus[i] += excess;
            programs[i] += excess > 0;
            stem_arena_free(a);
            flow_free(&f);
        }
    printf("%u lanes too many in %u programs, after repair %u in %u ", surplus[0], programs[0], surplus[1],
           programs[1]);
    CU_ASSERT(surplus[1] < surplus[0] / 3);
}

UNIT_MAIN("prop_pass", {"main-first programs have few lanes too many", surplus_of_main_first},
          {"lanes are repaired", lanes_are_repaired}, {"schedules are right and minimal", schedules_are_right},
          {"the same program has the same schedule", same_program_same_schedule},
          {"slabs are small", slabs_are_small}, {"budgets are met or refused", budgets_are_met_or_refused},
          {"failures are shrunk", failures_are_shrunk}, {"the slab of many layers", slab_of_many_layers})
