/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes on programs of many layers: what must not grow with the layers (events, bytes, lanes).
 */
#include "unit.h"

#include "flow.h"
#include "pass/pass.h"

static struct flow dual_branch(uint32_t layers)
{
    struct stem_out text = {0};
    stem_out_str(&text, "input x; f@M R{x} W{h0}\n");
    for (uint32_t l = 0; l < layers; l++)
        stem_out_printf(&text,
                        "s%u@A R{h%u} W{z%u}; g%u@M R{h%u} W{r%u}; t%u@M R{r%u} W{k%u}; e%u@M R{h%u,k%u} W{y%u};"
                        "add%u@M R{y%u,z%u} W{h%u}\n",
                        l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l + 1);
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

/* The whole pipeline on two branches, side-first. Text: what it says. */
static struct flow side_first(uint32_t layers, enum stem_lane_repairs repair, uint32_t max_lanes, bool fine,
                              struct stem_out *o)
{
    struct flow f = dual_branch(layers);
    struct stem_options options = stem_options_default();
    options.order = STEM_ORDER_SIDE_FIRST;
    options.lane_repair = repair;
    options.max_lanes = max_lanes;
    CU_ASSERT_EQUAL(stem_pass_run_all(f.program, f.diags, &options, NULL, NULL,
                                      &(struct stem_pass_hooks){.check_each = true}),
                    fine);
    stem_diags_print(f.diags, (struct stem_diag_style){.remarks = "lanes"}, o);
    return f;
}

static void side_first_lanes(void)
{
    struct stem_out o = {0};
    struct flow f = side_first(8, STEM_LANE_REPAIR_AUTO, 0, true, &o);
    CU_ASSERT_EQUAL(f.program->sched.lanes, 9);
    CU_ASSERT_EQUAL(f.program->sched.n_events, f.program->sched.events_bound);
    UNIT_SAME_TEXT(
        stem_out_text(&o),
        "mainstem: warning: the driver will use 9 lanes for 2 streams: 'g1' opens one of its own [STEM2201]\n"
        "mainstem: note: it forks after 'add0'\n"
        "      = help: --order=main-first issues main's ops before those of the side streams\n"
        "      = help: --lane-repair=always looks for waits that let lanes go on\n");
    stem_out_free(&o);
    flow_free(&f);
}

/* One wait for each layer but the first, from the end of a lane into the op that would open another. The side op has
 * an event already, which main waits for. */
static void lanes_are_repaired(void)
{
    static const struct {
        uint32_t layers, waits;
        const char *said;
    } rows[] = {
        {8, 7,
         "mainstem: remark: 9 lanes become 2: 7 more waits (7 more events), which all others imply, let lanes go on "
         "[lanes]\n"},
        {61, 60,
         "mainstem: remark: 62 lanes become 2: 60 more waits (60 more events), which all others imply, let lanes go "
         "on [lanes]\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_out o = {0};
        struct flow f = side_first(rows[i].layers, STEM_LANE_REPAIR_ALWAYS, 0, true, &o);
        uint32_t waits = 0;
        CU_ASSERT_EQUAL(f.program->sched.lanes, 2);
        for (uint32_t k = 0; k < f.program->sched.waits.len; k++)
            waits += f.program->sched.waits.at[k].lane;
        CU_ASSERT_EQUAL(waits, rows[i].waits);
        CU_ASSERT_EQUAL(f.program->sched.events_bound, 2 * rows[i].layers);
        UNIT_SAME_TEXT(stem_out_text(&o), rows[i].said);
        stem_out_free(&o);
        flow_free(&f);
    }
}

static void limits_on_lanes(void)
{
    static const struct {
        enum stem_lane_repairs repair;
        uint32_t max_lanes;
        bool fine;
        const char *said; /* the end of it */
    } rows[] = {
        {STEM_LANE_REPAIR_AUTO, 9, true, "looks for waits that let lanes go on\n"},
        {STEM_LANE_REPAIR_AUTO, 2, true, "let lanes go on [lanes]\n"}, /* waits are found to meet the limit */
        {STEM_LANE_REPAIR_NEVER, 2, false,
         "mainstem: error: the driver will use 9 lanes, and at most 2 are allowed: 'g1' opens one too many "
         "[STEM2202]\n"
         "mainstem: note: it forks after 'add0'\n"
         "      = help: fewer streams, or --max-lanes=9 for this schedule\n"
         "      = help: --order=main-first issues main's ops before those of the side streams\n"
         "      = help: --lane-repair=always looks for waits that let lanes go on\n"},
        {STEM_LANE_REPAIR_AUTO, 1, false,
         "      = help: 2 ops may run at the same time, and each of them takes a lane: fewer streams, or "
         "--max-lanes=2 for this schedule\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_out o = {0};
        struct flow f = side_first(8, rows[i].repair, rows[i].max_lanes, rows[i].fine, &o);
        const char *text = stem_out_text(&o);
        size_t n = strlen(rows[i].said);
        CU_ASSERT(strlen(text) >= n);
        UNIT_SAME_TEXT(strlen(text) >= n ? text + strlen(text) - n : text, rows[i].said);
        stem_out_free(&o);
        flow_free(&f);
    }
}

/* C06: h lives until all three streams have read it, and the slab does not grow with the layers. */
static void three_streams(void)
{
    static const uint32_t layers[] = {8, 64, 500};
    uint64_t bytes[3];
    for (size_t k = 0; k < 3; k++) {
        struct stem_out text = {0};
        stem_out_str(&text, "input x0\n");
        for (uint32_t l = 0; l < layers[k]; l++)
            stem_out_printf(&text,
                            "n%u@M R{x%u} W{h%u}; q%u@M R{h%u} W{a%u}; k%u@A R{h%u} W{b%u}; v%u@B R{h%u} W{c%u};"
                            "att%u@M R{a%u,b%u,c%u} W{x%u}\n",
                            l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l + 1);
        struct flow f = flow_new(stem_out_text(&text));
        struct stem_options options = stem_options_default();
        CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, NULL));
        bytes[k] = f.program->sched.slab_bytes;
        CU_ASSERT_EQUAL(bytes[k], f.program->sched.slab_bound);
        CU_ASSERT_EQUAL(f.program->sched.lanes, 3);
        CU_ASSERT_EQUAL(f.program->sched.n_events, 3 * layers[k]);
        for (uint32_t b = 0; b < f.program->buffers.len; b++)
            if (*stem_sym_str(f.strings, f.program->buffers.at[b].name) == 'h')
                CU_ASSERT_EQUAL(f.program->sched.last_use_begin.at[b + 1] - f.program->sched.last_use_begin.at[b], 3);
        stem_out_free(&text);
        flow_free(&f);
    }
    CU_ASSERT_EQUAL(bytes[0], bytes[1]);
    CU_ASSERT_EQUAL(bytes[1], bytes[2]);
}

/* A stream that only stores, and one that only clears: nothing makes main wait for the one, or the other for main. */
static void streams_that_drift(void)
{
    static const uint32_t layers[] = {100, 600};
    uint64_t bytes[2];
    for (size_t k = 0; k < 2; k++) {
        struct stem_out text = {0};
        for (uint32_t l = 0; l < layers[k]; l++)
            stem_out_printf(&text, "state s%u\n", l);
        stem_out_str(&text, "input x0\n");
        for (uint32_t l = 0; l < layers[k]; l++)
            stem_out_printf(
                &text,
                "k%u@M R{x%u} W{k%u}; store%u@A R{k%u} inout{s%u>t%u}; zero%u@B W{z%u}; m%u@M R{k%u} W{a%u};"
                "add%u@M R{a%u} inout{z%u>x%u}\n",
                l, l, l, l, l, l, l, l, l, l, l, l, l, l, l, l + 1);
        struct flow f = flow_new(stem_out_text(&text));
        struct stem_options options = stem_options_default();
        CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, NULL, NULL));
        bytes[k] = f.program->sched.slab_bytes;
        stem_out_free(&text);
        flow_free(&f);
    }
    CU_ASSERT(bytes[1] <= bytes[0] + bytes[0] / 4); /* where the waits fall shifts a little */
    CU_ASSERT(bytes[1] < 64 * 1024); /* 600 layers use 1.2 MB of temporaries */
}

/* Layers of 26 ops on streams of their own, which read the input or what the layer before gave; main joins them. */
static struct flow wide(uint32_t layers, bool chained)
{
    struct stem_out text = {0};
    stem_out_str(&text, "input x0\n");
    for (uint32_t l = 0; l < layers; l++) {
        for (char c = 'A'; c <= 'Z'; c++)
            stem_out_printf(&text, "op%c%u@%c R{x%u} W{y%c%u};", c, l, c, chained ? l : 0, c, l);
        for (char half = 'A'; half <= 'N'; half += 13) {
            stem_out_printf(&text, "add%c%u@M R{%c%u", half, l, half == 'A' ? 'x' : 'p', l);
            for (char c = half; c < half + 13; c++)
                stem_out_printf(&text, ",y%c%u", c, l);
            stem_out_printf(&text, "} W{%c%u}\n", half == 'A' ? 'p' : 'x', l + (half == 'N'));
        }
    }
    struct flow f = flow_new(stem_out_text(&text));
    stem_out_free(&text);
    return f;
}

static void wide_layers(void)
{
    struct stem_options options = stem_options_default();
    struct flow f = wide(20, true);
    CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, "memory", NULL));
    CU_ASSERT_EQUAL(f.program->sched.slab_bytes, 28 * 1024); /* x, all y, and half of the sum */
    CU_ASSERT_EQUAL(f.program->sched.slab_bound, f.program->sched.slab_bytes);
    flow_free(&f);
    f = wide(200, false); /* the side ops drift, and now and then wait for main, which knows what all have done */
    CU_ASSERT(stem_pass_run_all(f.program, f.diags, &options, NULL, "memory", NULL));
    uint32_t waits = 0, others = 0;
    for (uint32_t i = 0; i < f.program->sched.deps.len; i++)
        if (f.program->sched.deps.at[i].kind == STEM_DEP_MEMORY) {
            waits++;
            others += stem_op_at(f.program, f.program->sched.deps.at[i].from)->stream.n != 0;
        }
    CU_ASSERT(waits > 0);
    CU_ASSERT_EQUAL(others, 0);
    CU_ASSERT(f.program->sched.slab_bytes < 200 * 28 * 1024 / 4);
    flow_free(&f);
}

UNIT_MAIN("pass, layers", {"many layers", many_layers}, {"lanes, side first", side_first_lanes},
          {"lanes repaired", lanes_are_repaired}, {"limits on lanes", limits_on_lanes},
          {"three streams", three_streams}, {"wide layers", wide_layers},
          {"streams that drift apart", streams_that_drift})
