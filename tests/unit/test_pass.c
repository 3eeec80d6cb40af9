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
         ""},
        {"C01: two layers",
         "input h; g@M R{h} W{r}; t@M R{r} W{k}; e@M R{h,k} W{y}; s@A R{h} W{z}; add@M R{y,z} W{o};"
         "g2@M R{o} W{r2}; t2@M R{r2} W{k2}; e2@M R{o,k2} W{y2}; s2@A R{o} W{z2}; add2@M R{y2,z2} W{o2}", {0},
         ""},
        {"C02: needless fork, not pinned", "input h; a R{h} W{x}; c R{x} W{y}; b R{y} W{z}", {0}, ""},
        {"C02: needless fork, pinned", "input h; a@M R{h} W{x}; c@A R{x} W{y}; b@M R{y} W{z}", {0}, ""},
        {"C03: late record",
         "input h; f@M R{h} W{x}; s@A R{x} W{y}; m1@M R{x} W{a}; m2@M R{a} W{b}; m3@M R{b} W{c}; j@M R{c,y} W{z}", {0}, ""},
        {"C06: three streams", "input x; n@M R{x} W{h}; q@M R{h} W{a}; k@A R{h} W{b}; v@B R{h} W{c}; att@M R{a,b,c} W{o}",
         {0}, ""},
        {"C10: leaf on a side stream",
         "input x; state c; f@M R{x} W{k}; store@A R{k} inout{c>d}; m1@M R{k} W{a}; m2@M R{a} W{b}", {0}, ""},
        {"C11: write-only first op", "input x; zero@A W{acc}; m1@M R{x} W{a}; accum@M R{a} inout{acc>o}", {0}, ""},
        {"C13: order without data", "input x; a@M R{x} W{y}; b@A R{x} W{z} after{a}", {0}, ""},
    };
    check_rows(rows, sizeof rows / sizeof *rows, "events");
}

UNIT_MAIN("pass", {"schedules", schedules})
