/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes, as tables of a dataflow and the schedule that it must get. The cases named Cnn are failures that real
 * systems had, each reduced to the smallest graph that shows it.
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
        {"C01: one layer",
         "input h; g@M R{h} W{r}; t@M R{r} W{k}; e@M R{h,k} W{y}; s@A R{h} W{z}; add@M R{y,z} W{o}",
         {0},
         "segment 0: record\n"
         "0 main g\n"
         "1 main t\n"
         "2 main e\n"
         "3 A s  waits start  record\n"
         "4 main add  waits 3\n"
         "events 2, bound 2\n"},
        {"C01: two layers",
         "input h; g@M R{h} W{r}; t@M R{r} W{k}; e@M R{h,k} W{y}; s@A R{h} W{z}; add@M R{y,z} W{o};"
         "g2@M R{o} W{r2}; t2@M R{r2} W{k2}; e2@M R{o,k2} W{y2}; s2@A R{o} W{z2}; add2@M R{y2,z2} W{o2}",
         {0},
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
        {"C02: needless fork, not pinned",
         "input h; a R{h} W{x}; c R{x} W{y}; b R{y} W{z}",
         {0},
         "segment 0\n"
         "0 main a\n"
         "1 main c\n"
         "2 main b\n"
         "events 0, bound 0\n"},
        {"C02: needless fork, pinned",
         "input h; a@M R{h} W{x}; c@A R{x} W{y}; b@M R{y} W{z}",
         {0},
         "segment 0\n"
         "0 main a  record\n"
         "1 A c  waits 0  record\n"
         "2 main b  waits 1\n"
         "events 2, bound 2\n"},
        {"C03: late record",
         "input h; f@M R{h} W{x}; s@A R{x} W{y}; m1@M R{x} W{a}; m2@M R{a} W{b}; m3@M R{b} W{c}; j@M R{c,y} W{z}",
         {0},
         "segment 0\n"
         "0 main f  record\n"
         "2 main m1\n"
         "3 main m2\n"
         "4 main m3\n"
         "1 A s  waits 0  record\n"
         "5 main j  waits 1\n"
         "events 2, bound 2\n"},
        {"C06: three streams",
         "input x; n@M R{x} W{h}; q@M R{h} W{a}; k@A R{h} W{b}; v@B R{h} W{c}; att@M R{a,b,c} W{o}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "1 main q\n"
         "2 A k  waits 0  record\n"
         "3 B v  waits 0  record\n"
         "4 main att  waits 2, 3\n"
         "events 3, bound 3\n"},
        {"C10: leaf on a side stream",
         "input x; state c; f@M R{x} W{k}; store@A R{k} inout{c>d}; m1@M R{k} W{a}; m2@M R{a} W{b}",
         {0},
         "segment 0\n"
         "0 main f  record\n"
         "2 main m1\n"
         "3 main m2\n"
         "1 A store  waits 0  record\n"
         "join 1\n"
         "events 2, bound 2\n"},
        {"C11: write-only first op",
         "input x; zero@A W{acc}; m1@M R{x} W{a}; accum@M R{a} inout{acc>o}",
         {0},
         "segment 0: record\n"
         "1 main m1\n"
         "0 A zero  waits start  record\n"
         "2 main accum  waits 0\n"
         "events 2, bound 2\n"},
        {"C13: order without data",
         "input x; a@M R{x} W{y}; b@A R{x} W{z} after{a}",
         {0},
         "segment 0\n"
         "0 main a  record\n"
         "1 A b  waits 0  record\n"
         "join 1\n"
         "events 2, bound 2\n"},
    };
    check_rows(rows, sizeof rows / sizeof *rows, "events");
}

/* What the whole pipeline says, remarks included. */
static void check_all(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct flow f = flow_new(rows[i].flow);
        struct stem_options options = defaults(rows[i].options);
        struct stem_out o = {0};
        if (stem_pass_run_all(f.program, f.diags, &options, NULL, "memory",
                              &(struct stem_pass_hooks){.check_each = true}))
            stem_schedule_print(f.program, &o);
        stem_diags_print(f.diags, (struct stem_diag_style){.remarks = "streams,inplace,memory"}, &o);
        if (strcmp(stem_out_text(&o), rows[i].expected))
            fprintf(stderr, "\n%s:", rows[i].name);
        UNIT_SAME_TEXT(stem_out_text(&o), rows[i].expected);
        stem_out_free(&o);
        flow_free(&f);
    }
}

static void buffers(void)
{
    static const struct row rows[] = {
        {"C02: the remark",
         "input h; a@M R{h} W{x}; c@A R{x} W{y}; b@M R{y} W{z}",
         {0},
         "segment 0\n"
         "0 main a  record\n"
         "1 A c  waits 0  record\n"
         "2 main b  waits 1\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 1, freed after 1\n"
         "buffer 2 y: 1024 bytes at 1024, first 1, last 2, freed after 2\n"
         "buffer 3 z: 1024 bytes at 0, first 2, last 2, freed after 2\n"
         "slab 2048 bytes, bound 2048\n"
         "mainstem: remark: fork without concurrency: nothing runs beside 'c' on stream 'A' [streams]\n"},
        {"a pin that costs more than it saves",
         "input h; f@M R{h} W{x}; s@A R{x} W{y} us=0; m@M R{x} W{a} us=0; j@M R{a,y} W{z}",
         {0},
         "segment 0\n"
         "0 main f  record\n"
         "2 main m\n"
         "1 A s  waits 0  record\n"
         "3 main j  waits 1\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 2 1, freed after 3\n"
         "buffer 2 y: 1024 bytes at 2048, first 1, last 3, freed after 3\n"
         "buffer 3 a: 1024 bytes at 1024, first 2, last 3, freed after 3\n"
         "buffer 4 z: 1024 bytes at 0, first 3, last 3, freed after 3\n"
         "slab 3072 bytes, bound 3072\n"
         "mainstem: remark: 's' (1 op, 1.7 us) is pinned to stream 'A', which costs more than it saves: 1.7 us against 2.0 us for "
         "the fork [streams]\n"},
        {"C04: release and read",
         "input i; n@M R{i} W{h}; pack@M release{h} W{p}; e@M R{p} W{y}; s@A R{h} W{z}; add@M R{y,z} W{o}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "1 main pack\n"
         "2 main e\n"
         "3 A s  waits 0  record\n"
         "4 main add  waits 3\n"
         "events 2, bound 2\n"
         "buffer 1 h: 1024 bytes at 0, first 0, last 1 3, freed after 4\n"
         "buffer 2 p: 1024 bytes at 1024, first 1, last 2, freed after 2\n"
         "buffer 3 y: 1024 bytes at 2048, first 2, last 4, freed after 4\n"
         "buffer 4 z: 1024 bytes at 3072, first 3, last 4, freed after 4\n"
         "buffer 5 o: 1024 bytes at 0, first 4, last 4, freed after 4\n"
         "slab 4096 bytes, bound 4096\n"},
        {"C04: release without another reader",
         "input i; n@M R{i} W{h}; pack@M release{h} W{p}; e@M R{p} W{y}",
         {0},
         "segment 0\n"
         "0 main n\n"
         "1 main pack\n"
         "2 main e\n"
         "events 0, bound 0\n"
         "buffer 1 h: 1024 bytes at 0, first 0, last 1, freed after 1\n"
         "buffer 2 p: 1024 bytes at 1024, first 1, last 2, freed after 2\n"
         "buffer 3 y: 1024 bytes at 0, first 2, last 2, freed after 2\n"
         "slab 2048 bytes, bound 2048\n"},
        {"C04: release of the caller's buffer",
         "input h; pack@M release{h} W{p}",
         {0},
         "mainstem: error: 'pack' releases 'h', which is an input: its owner frees it [STEM2101]\n"},
        {"C05: diamond",
         "input i; a@M R{i} W{x}; b@M R{x} W{t1}; b2@M R{t1} W{u}; c@A R{x} W{t2}; c2@A R{t2} W{v};"
         "d@M R{u,v} W{w}; e@M R{w} W{q}",
         {0},
         "segment 0\n"
         "0 main a  record\n"
         "1 main b\n"
         "2 main b2\n"
         "3 A c  waits 0\n"
         "4 A c2  record\n"
         "5 main d  waits 4\n"
         "6 main e\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 1 3, freed after 5\n"
         "buffer 2 t1: 1024 bytes at 1024, first 1, last 2, freed after 2\n"
         "buffer 3 u: 1024 bytes at 2048, first 2, last 5, freed after 5\n"
         "buffer 4 t2: 1024 bytes at 3072, first 3, last 4, freed after 4\n"
         "buffer 5 v: 1024 bytes at 4096, first 4, last 5, freed after 5\n"
         "buffer 6 w: 1024 bytes at 0, first 5, last 6, freed after 6\n"
         "buffer 7 q: 1024 bytes at 1024, first 6, last 6, freed after 6\n"
         "slab 5120 bytes, bound 5120\n"},
        {"C07: free on a side stream",
         "input i; p@A R{i} W{tmp:4096}; r@A R{tmp} W{o}; m1@M R{i} W{a}; m2@M R{a} W{b};"
         "big@M R{b} W{c:4096}; j@M R{o,c} W{d}; k@M R{d} W{e:4096}",
         {0},
         "segment 0: record\n"
         "2 main m1\n"
         "3 main m2\n"
         "4 main big\n"
         "0 A p  waits start\n"
         "1 A r  record\n"
         "5 main j  waits 1\n"
         "6 main k\n"
         "events 2, bound 2\n"
         "buffer 1 tmp: 4096 bytes at 4096, first 0, last 1, freed after 1\n"
         "buffer 2 o: 1024 bytes at 9216, first 1, last 5, freed after 5\n"
         "buffer 3 a: 1024 bytes at 0, first 2, last 3, freed after 3\n"
         "buffer 4 b: 1024 bytes at 8192, first 3, last 4, freed after 4\n"
         "buffer 5 c: 4096 bytes at 0, first 4, last 5, freed after 5\n"
         "buffer 6 d: 1024 bytes at 4096, first 5, last 6, freed after 6\n"
         "buffer 7 e: 4096 bytes at 0, first 6, last 6, freed after 6\n"
         "slab 10240 bytes, bound 10240\n"},
        {"C08: in place against a reader, waiting",
         "input i; n@M R{i} W{x}; routed@M inout{x>y} us=20; shared@A R{x} W{z} us=20; add@M R{y,z} W{o}",
         {.inplace = STEM_INPLACE_WAIT},
         "segment 0\n"
         "0 main n  record\n"
         "2 A shared  waits 0  record\n"
         "1 main routed  waits 2\n"
         "3 main add\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 3, freed after 3\n"
         "buffer 2 z: 1024 bytes at 1024, first 2, last 3, freed after 3\n"
         "buffer 3 o: 1024 bytes at 2048, first 3, last 3, freed after 3\n"
         "slab 3072 bytes, bound 3072\n"
         "mainstem: remark: 'routed' overwrites 'x', which 'shared' reads on another stream: it waits "
         "(waiting costs up to 22.3 us, a copy 1.7 us) [inplace]\n"
         "mainstem: remark: fork without concurrency: nothing runs beside 'shared' on stream 'A' [streams]\n"},
        {"C08: a copy by cost",
         "input i; n@M R{i} W{x}; routed@M inout{x>y} us=20; shared@A R{x} W{z} us=20; add@M R{y,z} W{o}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "4 main routed.copy\n"
         "1 main routed\n"
         "2 A shared  waits 0  record\n"
         "3 main add  waits 2\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 4 2, freed after 3\n"
         "buffer 2 z: 1024 bytes at 2048, first 2, last 3, freed after 3\n"
         "buffer 3 o: 1024 bytes at 0, first 3, last 3, freed after 3\n"
         "buffer 4 routed.copy: 1024 bytes at 1024, first 4, last 3, freed after 3\n"
         "slab 3072 bytes, bound 3072\n"
         "mainstem: remark: 'routed' overwrites 'x', which 'shared' reads on another stream: a copy is made "
         "(waiting costs up to 22.3 us, a copy 1.7 us) [inplace]\n"},
        {"C08: waiting by cost",
         "input i; n@M R{i} W{x:9000000}; routed@M inout{x>y} us=20; shared@A R{x} W{z} us=2; add@M R{y,z} W{o}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "2 A shared  waits 0  record\n"
         "1 main routed  waits 2\n"
         "3 main add\n"
         "events 2, bound 2\n"
         "buffer 1 x: 9000000 bytes at 0, first 0, last 3, freed after 3\n"
         "buffer 2 z: 1024 bytes at 9000192, first 2, last 3, freed after 3\n"
         "buffer 3 o: 1024 bytes at 9001216, first 3, last 3, freed after 3\n"
         "slab 9002240 bytes, bound 9002240\n"
         "mainstem: remark: 'routed' overwrites 'x', which 'shared' reads on another stream: it waits "
         "(waiting costs up to 3.8 us, a copy 6.0 us) [inplace]\n"
         "mainstem: remark: fork without concurrency: nothing runs beside 'shared' on stream 'A' [streams]\n"},
        {"C08: a state keeps its newest version",
         "input i; state x; routed@M R{i} inout{x>y} us=20; shared@A R{x} W{z} us=20; add@M R{y,z} W{o}",
         {0},
         "segment 0\n"
         "3 main routed.copy  record\n"
         "0 main routed\n"
         "1 A shared  waits 3  record\n"
         "2 main add  waits 1\n"
         "events 2, bound 2\n"
         "buffer 2 z: 1024 bytes at 1024, first 1, last 2, freed after 2\n"
         "buffer 3 o: 1024 bytes at 0, first 2, last 2, freed after 2\n"
         "buffer 4 routed.copy: 1024 bytes at 0, first 3, last 1, freed after 1\n"
         "slab 2048 bytes, bound 2048\n"
         "mainstem: remark: 'routed' overwrites 'x', which 'shared' reads on another stream: a copy is made "
         "(waiting costs up to 22.3 us, a copy 1.7 us) [inplace]\n"},
        {"copies about as dear as waiting",
         "input i; n@M R{i} W{x:300}; routed@M inout{x>y} us=20; shared@A R{x} W{z} us=0; add@M R{y,z} W{o}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "2 A shared  waits 0  record\n"
         "1 main routed  waits 2\n"
         "3 main add\n"
         "events 2, bound 2\n"
         "buffer 1 x: 300 bytes at 0, first 0, last 3, freed after 3\n"
         "buffer 2 z: 1024 bytes at 512, first 2, last 3, freed after 3\n"
         "buffer 3 o: 1024 bytes at 1536, first 3, last 3, freed after 3\n"
         "slab 2560 bytes, bound 2560\n"
         "mainstem: remark: 'routed' overwrites 'x', which 'shared' reads on another stream: it "
         "waits (waiting costs up to 1.7 us, a copy 1.7 us) [inplace]\n"
         "mainstem: remark: fork without concurrency: nothing runs beside 'shared' on stream 'A' "
         "[streams]\n"},
        {"a state that an earlier segment reads: its readers keep it",
         "input i; state x; early@A R{x} W{e} us=20; | routed@M R{i} inout{x>y} us=20; shared@A R{x} W{z} us=20; "
         "add@M R{y,z,e} W{o}",
         {0},
         "segment 0: record\n"
         "0 A early  waits start  record\n"
         "join 0\n"
         "segment 1\n"
         "4 main routed.copy  record\n"
         "1 main routed\n"
         "2 A shared  waits 4  record\n"
         "3 main add  waits 2\n"
         "events 4, bound 4\n"
         "buffer 2 e: 1024 bytes at 0, first 0, last 3, freed after 3\n"
         "buffer 3 z: 1024 bytes at 2048, first 2, last 3, freed after 3\n"
         "buffer 4 o: 1024 bytes at 1024, first 3, last 3, freed after 3\n"
         "buffer 5 routed.copy: 1024 bytes at 1024, first 4, last 2, freed after 2\n"
         "slab 3072 bytes, bound 3072\n"
         "mainstem: remark: 'routed' overwrites 'x', which 'shared' reads on another stream: a copy "
         "is made (waiting costs up to 22.3 us, a copy 1.7 us) [inplace]\n"
         "mainstem: remark: fork without concurrency: nothing runs beside 'early' on stream 'A' "
         "[streams]\n"},
        {"one resource in two segments, and a copy in the first",
         "input i; n@M R{i} W{x}; routed@M inout{x>y} us=20; shared@A R{x} W{z} us=20; add@M R{y,z} W{o} res{link};"
         "p@A R{i} W{q} us=20 res{link}; | late@M R{i} W{b} res{link}; side@A R{i} W{c} res{link}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "7 main routed.copy\n"
         "1 main routed\n"
         "2 A shared  waits 0\n"
         "4 A p  record\n"
         "3 main add  waits 4\n"
         "segment 1\n"
         "5 main late  record\n"
         "6 A side  waits 5  record\n"
         "join 6\n"
         "events 4, bound 4\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 7 2, freed after 3\n"
         "buffer 2 z: 1024 bytes at 2048, first 2, last 3, freed after 3\n"
         "buffer 3 o: 1024 bytes at 0, first 3, last 3, freed after 3\n"
         "buffer 4 q: 1024 bytes at 3072, first 4, last 4, freed after 4\n"
         "buffer 5 b: 1024 bytes at 0, first 5, last 5, freed after 5\n"
         "buffer 6 c: 1024 bytes at 0, first 6, last 6, freed after 6\n"
         "buffer 7 routed.copy: 1024 bytes at 1024, first 7, last 3, freed after 3\n"
         "slab 4096 bytes, bound 4096\n"
         "mainstem: remark: 'routed' overwrites 'x', which 'shared' reads on another stream: a copy "
         "is made (waiting costs up to 22.3 us, a copy 1.7 us) [inplace]\n"
         "mainstem: remark: fork without concurrency: nothing runs beside 'side' on stream 'A' "
         "[streams]\n"},
        {"a circle",
         "input i; n R{i} W{x}; f inout{x>y}; g R{x,y} W{z}",
         {0},
         "segment 0\n"
         "0 main n\n"
         "3 main f.copy\n"
         "1 main f\n"
         "2 main g\n"
         "events 0, bound 0\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 2, freed after 2\n"
         "buffer 2 z: 1024 bytes at 2048, first 2, last 2, freed after 2\n"
         "buffer 3 f.copy: 1024 bytes at 1024, first 3, last 2, freed after 2\n"
         "slab 3072 bytes, bound 3072\n"
         "mainstem: remark: 'f' overwrites 'x', and 'g' needs both the old and the new one: a copy is made "
         "(1.7 us) [inplace]\n"},
        {"budget",
         "input i; p@A R{i} W{t:4096}; r@A R{t} W{o}; m1@M R{i} W{a:4096}; m2@M R{a} W{b}; j@M R{o,b} W{d}",
         {.memory_budget = 7000},
         "segment 0\n"
         "2 main m1\n"
         "3 main m2  record\n"
         "0 A p  waits 3\n"
         "1 A r  record\n"
         "4 main j  waits 1\n"
         "events 2, bound 2\n"
         "buffer 1 t: 4096 bytes at 0, first 0, last 1, freed after 1\n"
         "buffer 2 o: 1024 bytes at 5120, first 1, last 4, freed after 4\n"
         "buffer 3 a: 4096 bytes at 0, first 2, last 3, freed after 3\n"
         "buffer 4 b: 1024 bytes at 4096, first 3, last 4, freed after 4\n"
         "buffer 5 d: 1024 bytes at 0, first 4, last 4, freed after 4\n"
         "slab 6144 bytes, bound 6144\n"
         "mainstem: remark: the budget of 7000 bytes is met: 6144 instead of 10240 bytes, for 1 more "
         "dependencies; the schedule takes 18.8 us instead of 11.3 [memory]\n"},
        {"budget too small",
         "input i; p@A R{i} W{t:4096}; r@A R{t} W{o}; m1@M R{i} W{a:4096}; m2@M R{a} W{b}; j@M R{o,b} W{d}",
         {.memory_budget = 1000},
         "mainstem: error: the temporaries need 6144 bytes even without overlap, and the budget is 1000 "
         "[STEM2103]\n"},
        {"pins against the segments",
         "input i; state x; f inout{x>y}; | g R{x} W{z}",
         {0},
         "mainstem: error: 'f' overwrites 'x', which 'g' reads after the break [STEM2002]\n"
         "mainstem: note: here it is read, in a later segment\n"
         "      = help: keep what it was, old = copy(x) before it is overwritten, and read that after the break\n"},
        {"a resource keeps two ops apart",
         "input i; a R{i} W{x} us=3; b R{x} W{y} after{a}; c res{r} R{i} W{u}; d res{r} R{i} W{v}",
         {0},
         "segment 0: record\n"
         "0 main a\n"
         "1 main b\n"
         "2 side c  waits start\n"
         "3 side d  record\n"
         "join 3\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 1, freed after 1\n"
         "buffer 2 y: 1024 bytes at 1024, first 1, last 1, freed after 1\n"
         "buffer 3 u: 1024 bytes at 2048, first 2, last 2, freed after 2\n"
         "buffer 4 v: 1024 bytes at 2048, first 3, last 3, freed after 3\n"
         "slab 3072 bytes, bound 3072\n"
         "mainstem: remark: 'c' (1 op, 3.8 us) goes to stream 'side': saves 3.8 us, and a fork costs 2.0 "
         "[streams]\n"
         "mainstem: remark: 'd' (1 op, 3.8 us) goes to stream 'side': saves 3.8 us, and a fork costs 2.0 "
         "[streams]\n"},
        {"a side chain that pays",
         "input i; n R{i} W{x}; m1 R{x} W{a} us=30; m2 R{a} W{b} us=30; s1 R{x} W{c} us=20;"
         "s2 R{c} W{d} us=20; j R{b,d} W{e}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "1 main m1\n"
         "2 main m2\n"
         "3 side s1  waits 0\n"
         "4 side s2  record\n"
         "5 main j  waits 4\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 1 3, freed after 5\n"
         "buffer 2 a: 1024 bytes at 1024, first 1, last 2, freed after 2\n"
         "buffer 3 b: 1024 bytes at 2048, first 2, last 5, freed after 5\n"
         "buffer 4 c: 1024 bytes at 3072, first 3, last 4, freed after 4\n"
         "buffer 5 d: 1024 bytes at 4096, first 4, last 5, freed after 5\n"
         "buffer 6 e: 1024 bytes at 0, first 5, last 5, freed after 5\n"
         "slab 5120 bytes, bound 5120\n"
         "mainstem: remark: 's1' (2 ops, 44.6 us) goes to stream 'side': saves 44.6 us, and a fork costs 0.5 "
         "[streams]\n"},
        {"a side chain that does not",
         "input i; n R{i} W{x}; m1 R{x} W{a} us=0; s1 R{x} W{c} us=0;"
         "j R{a,c} W{e}",
         {0},
         "segment 0\n"
         "0 main n\n"
         "1 main m1\n"
         "2 main s1\n"
         "3 main j\n"
         "events 0, bound 0\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 2, freed after 2\n"
         "buffer 2 a: 1024 bytes at 1024, first 1, last 3, freed after 3\n"
         "buffer 3 c: 1024 bytes at 2048, first 2, last 3, freed after 3\n"
         "buffer 4 e: 1024 bytes at 0, first 3, last 3, freed after 3\n"
         "slab 3072 bytes, bound 3072\n"
         "mainstem: remark: 's1' (1 op, 1.7 us) stays on main: a side stream would save 1.7 us, and a fork "
         "costs 2.0 [streams]\n"},
        {"the same beside something long, so that the join does not wait",
         "input i; n R{i} W{x}; m1 R{x} W{a} us=50; s1 R{x} W{c} us=0;"
         "j R{a,c} W{e}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "1 main m1\n"
         "2 side s1  waits 0  record\n"
         "3 main j  waits 2\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 1 2, freed after 3\n"
         "buffer 2 a: 1024 bytes at 1024, first 1, last 3, freed after 3\n"
         "buffer 3 c: 1024 bytes at 2048, first 2, last 3, freed after 3\n"
         "buffer 4 e: 1024 bytes at 0, first 3, last 3, freed after 3\n"
         "slab 3072 bytes, bound 3072\n"
         "mainstem: remark: 's1' (1 op, 1.7 us) goes to stream 'side': saves 1.7 us, and a fork costs 0.5 [streams]\n"},
        {"unpinned ops follow",
         "input i; n R{i} W{x}; q@A R{x} W{a}; r R{a} W{b}; s@A R{b} W{c}; m R{x} W{d}; j R{c,d} W{e}",
         {0},
         "segment 0\n"
         "0 main n  record\n"
         "4 main m\n"
         "1 A q  waits 0\n"
         "2 A r\n"
         "3 A s  record\n"
         "5 main j  waits 3\n"
         "events 2, bound 2\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 4 1, freed after 5\n"
         "buffer 2 a: 1024 bytes at 2048, first 1, last 2, freed after 2\n"
         "buffer 3 b: 1024 bytes at 3072, first 2, last 3, freed after 3\n"
         "buffer 4 c: 1024 bytes at 2048, first 3, last 5, freed after 5\n"
         "buffer 5 d: 1024 bytes at 1024, first 4, last 5, freed after 5\n"
         "buffer 6 e: 1024 bytes at 0, first 5, last 5, freed after 5\n"
         "slab 4096 bytes, bound 4096\n"},
        {"two segments",
         "input i; a@M R{i} W{x}; b@A R{i} W{y}; | c@A R{x} W{z}; d@M R{y} W{w}",
         {0},
         "segment 0: record\n"
         "0 main a\n"
         "1 A b  waits start  record\n"
         "join 1\n"
         "segment 1: record\n"
         "3 main d\n"
         "2 A c  waits start  record\n"
         "join 2\n"
         "events 4, bound 4\n"
         "buffer 1 x: 1024 bytes at 0, first 0, last 2, freed after 2\n"
         "buffer 2 y: 1024 bytes at 1024, first 1, last 3, freed after 3\n"
         "buffer 3 z: 1024 bytes at 3072, first 2, last 2, freed after 2\n"
         "buffer 4 w: 1024 bytes at 2048, first 3, last 3, freed after 3\n"
         "slab 4096 bytes, bound 4096\n"},
    };
    check_all(rows, sizeof rows / sizeof *rows);
}

UNIT_MAIN("pass", {"schedules", schedules}, {"buffers", buffers})
