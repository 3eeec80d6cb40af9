/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes, as tables of a dataflow and the schedule that it must get. The cases named Cnn are failures that real systems
 * had, each reduced to the smallest graph that shows it.
 */
#include "unit.h"

#include "flow.h"
#include "pass/pass.h"

struct row {
    const char *name, *flow;
    struct stem_options options;
    const char *expected; /* what stem_schedule_print says up to the events */
};

static struct stem_options defaults(struct stem_options o)
{
    struct stem_options d = stem_options_default();
    d.order = o.order;
    d.inplace = o.inplace;
    d.one_stream = o.one_stream;
    d.max_streams = o.max_streams ? o.max_streams : d.max_streams;
    d.memory_budget = o.memory_budget;
    return d;
}

static void check_rows(const struct row *rows, size_t n, const char *stop_after)
{
    for (size_t i = 0; i < n; i++) {
        struct flow f = flow_new(rows[i].flow);
        struct stem_options options = defaults(rows[i].options);
        struct stem_out o = {0};
        if (stem_pass_run_all(f.program, f.diags, &options, NULL, stop_after, NULL))
            stem_schedule_print(f.program, &o);
        else
            stem_diags_print(f.diags, (struct stem_diag_style){0}, &o);
        if (strcmp(stem_out_text(&o), rows[i].expected))
            fprintf(stderr, "\n%s:", rows[i].name);
        UNIT_SAME_TEXT(stem_out_text(&o), rows[i].expected);
        stem_out_free(&o);
        flow_free(&f);
    }
}

static void schedules(void)
{
    static const struct row rows[] = {
        {"C01: one layer", "input h; g@M R{h} W{r}; t@M R{r} W{k}; e@M R{h,k} W{y}; s@A R{h} W{z}; add@M R{y,z} W{o}", {0},
         "segment 0: record\n"
         "0 main g\n"
         "1 main t\n"
         "2 main e\n"
         "3 A s  waits start  record\n"
         "4 main add  waits 3\n"
         "events 2, bound 2\n"},
        {"C01: two layers",
         "input h; g@M R{h} W{r}; t@M R{r} W{k}; e@M R{h,k} W{y}; s@A R{h} W{z}; add@M R{y,z} W{o};"
         "g2@M R{o} W{r2}; t2@M R{r2} W{k2}; e2@M R{o,k2} W{y2}; s2@A R{o} W{z2}; add2@M R{y2,z2} W{o2}", {0},
         "segment 0: record\n"
         "0 main g\n"
         "1 main t\n"
         "2 main e\n"
         "3 A s  waits start  record\n"
         "4 main add  waits 3  record\n"
         "5 main g2\n"
         "6 main t2\n"
         "7 main e2\n"
         "8 A s2  waits 4  record\n"
         "9 main add2  waits 8\n"
         "events 4, bound 4\n"},
        {"C02: needless fork, not pinned", "input h; a R{h} W{x}; c R{x} W{y}; b R{y} W{z}", {0}, "segment 0\n"
         "0 main a\n"
         "1 main c\n"
         "2 main b\n"
         "events 0, bound 0\n"},
        {"C02: needless fork, pinned", "input h; a@M R{h} W{x}; c@A R{x} W{y}; b@M R{y} W{z}", {0}, "segment 0\n"
         "0 main a  record\n"
         "1 A c  waits 0  record\n"
         "2 main b  waits 1\n"
         "events 2, bound 2\n"},
        {"C03: late record",
         "input h; f@M R{h} W{x}; s@A R{x} W{y}; m1@M R{x} W{a}; m2@M R{a} W{b}; m3@M R{b} W{c}; j@M R{c,y} W{z}", {0}, "segment 0\n"
         "0 main f  record\n"
         "2 main m1\n"
         "3 main m2\n"
         "4 main m3\n"
         "1 A s  waits 0  record\n"
         "5 main j  waits 1\n"
         "events 2, bound 2\n"},
        {"C06: three streams", "input x; n@M R{x} W{h}; q@M R{h} W{a}; k@A R{h} W{b}; v@B R{h} W{c}; att@M R{a,b,c} W{o}",
         {0}, "segment 0\n"
         "0 main n  record\n"
         "1 main q\n"
         "2 A k  waits 0  record\n"
         "3 B v  waits 0  record\n"
         "4 main att  waits 2, 3\n"
         "events 3, bound 3\n"},
        {"C10: leaf on a side stream",
         "input x; state c; f@M R{x} W{k}; store@A R{k} inout{c>d}; m1@M R{k} W{a}; m2@M R{a} W{b}", {0}, "segment 0\n"
         "0 main f  record\n"
         "2 main m1\n"
         "3 main m2\n"
         "1 A store  waits 0  record\n"
         "join 1\n"
         "events 2, bound 2\n"},
        {"C11: write-only first op", "input x; zero@A W{acc}; m1@M R{x} W{a}; accum@M R{a} inout{acc>o}", {0}, "segment 0: record\n"
         "1 main m1\n"
         "0 A zero  waits start  record\n"
         "2 main accum  waits 0\n"
         "events 2, bound 2\n"},
        {"C13: order without data", "input x; a@M R{x} W{y}; b@A R{x} W{z} after{a}", {0}, "segment 0\n"
         "0 main a  record\n"
         "1 A b  waits 0  record\n"
         "join 1\n"
         "events 2, bound 2\n"},
    };
    check_rows(rows, sizeof rows / sizeof *rows, "events");
}

static struct flow dual_branch(uint32_t layers)
{
    struct stem_out text = {0};
    stem_out_str(&text, "input x; f@M R{x} W{h0}\n");
    for (uint32_t l = 0; l < layers; l++)
        stem_out_printf(&text, "s%u@A R{h%u} W{z%u}; g%u@M R{h%u} W{r%u}; t%u@M R{r%u} W{k%u}; e%u@M R{h%u,k%u} W{y%u};"
                        "add%u@M R{y%u,z%u} W{h%u}\n", l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l + 1);
    struct flow f = flow_new(stem_out_text(&text));
    stem_out_free(&text);
    return f;
}

/* C01 for any number of layers. */
static void many_layers(void)
{
    static const uint32_t layers[] = {8, 61};
    static const char *const issued[] = {"g", "t", "e", "s", "add"};
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
        struct flow f = dual_branch(layers[k]);
        struct stem_options options = stem_options_default();
        CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, NULL));
        for (uint32_t i = 1; i < f.program->sched.order.len; i++) {
            const char *name = stem_sym_str(f.strings, stem_op_at(f.program, f.program->sched.order.at[i])->name);
            CU_ASSERT(!strncmp(name, issued[(i - 1) % 5], strlen(issued[(i - 1) % 5])));
        }
        CU_ASSERT_EQUAL(f.program->sched.n_events, 2 * layers[k]);
        CU_ASSERT_EQUAL(f.program->sched.events_bound, 2 * layers[k]);
        CU_ASSERT_EQUAL(f.program->sched.slab_bytes, 4 * 1024); /* h, z, y, and r or k */
        CU_ASSERT_EQUAL(f.program->sched.lanes, 2);
        CU_ASSERT_EQUAL(stem_diags_count(f.diags), 0);
        flow_free(&f);
    }
}

static void side_first_lanes(void)
{
    struct flow f = dual_branch(8);
    struct stem_options options = stem_options_default();
    struct stem_out o = {0};
    options.order = STEM_ORDER_SIDE_FIRST;
    CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, NULL));
    CU_ASSERT_EQUAL(f.program->sched.lanes, 9);
    stem_diags_print(f.diags, (struct stem_diag_style){0}, &o);
    UNIT_SAME_TEXT(stem_out_text(&o),
                   "mainstem: warning: the driver will use 9 lanes for 2 streams: 'g1' opens one of its own [STEM2201]\n"
                   "mainstem: note: it forks after 'add0'\n"
                   "      = help: --order=main-first issues main's ops before those of the side streams\n");
    stem_out_free(&o);
    flow_free(&f);
    f = dual_branch(8);
    options.max_lanes = 2;
    CU_ASSERT(!stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, NULL));
    flow_free(&f);
}

UNIT_MAIN("pass", {"schedules", schedules}, {"many layers", many_layers}, {"lanes, side first", side_first_lanes})
