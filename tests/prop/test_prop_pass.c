/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties of the passes on random programs, judged by check.c. STEM_SEEDS sets how many.
 */
#include "unit.h"

#include <stdlib.h>

#include "check.h"
#include "gen.h"

static uint32_t seeds(uint32_t n)
{
    const char *s = getenv("STEM_SEEDS");
    return s ? (uint32_t)strtoul(s, NULL, 10) : n;
}

static struct stem_options any_options(uint64_t seed)
{
    struct gen_rng r = {seed};
    struct stem_options o = stem_options_default();
    o.order = (enum stem_order)gen_below(&r, 3);
    o.max_streams = 1 + gen_below(&r, 4);
    o.one_stream = gen_chance(&r, 5);
    o.inplace = (enum stem_inplace)gen_below(&r, 3);
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

static void schedules_are_right(void)
{
    uint32_t n = seeds(1500), failed = 0;
    for (uint64_t seed = 1; seed <= n && failed < 3; seed++) {
        struct gen_options g = gen_any(seed, seed % 16 ? 24 : 60);
        struct stem_options o = any_options(seed);
        struct flow f = gen_program(seed, &g);
        const char *what = run(&f, &o) ? check_schedule(f.program, &o) : "a pass failed";
        if (what) {
            show(seed, what, &f);
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
    uint32_t n = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
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
    CU_ASSERT(n > 100);
    CU_ASSERT(ratio / n < 1.10);
}

/* Repeating a layer four times as often needs at most a little more memory: the first and the last layers differ. */
static void slab_of_many_layers(void)
{
    uint32_t larger = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t bytes[2] = {0, 0};
        for (uint32_t i = 0; i < 2; i++) {
            struct gen_options g = gen_any(seed, 16);
            struct stem_options o = any_options(seed);
            g.ops += 4;
            o.order = STEM_ORDER_MAIN_FIRST;
            g.layers = i ? 160 : 40;
            g.odd = g.stale = false;
            struct flow f = gen_program(seed, &g);
            CU_ASSERT(run(&f, &o));
            bytes[i] = f.program->sched.slab_bytes;
            flow_free(&f);
        }
        bool more = bytes[1] > bytes[0] + bytes[0] / 10;
        larger += more;
        if (more)
            fprintf(stderr, "\nseed %llu: %llu bytes for 40 layers, %llu for 160", (unsigned long long)seed,
                    (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
    }
    CU_ASSERT_EQUAL(larger, 0);
}

UNIT_MAIN("prop_pass", {"schedules are right and minimal", schedules_are_right},
          {"the same program has the same schedule", same_program_same_schedule},
          {"slabs are small", slabs_are_small}, {"the slab of many layers", slab_of_many_layers})
