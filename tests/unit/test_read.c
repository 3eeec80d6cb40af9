/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdlib.h>

#include "ir/build.h"

/* Reads `text`; the program, or NULL with the first diagnostic in `said` ("line:col number text"). */
static struct stem_program *read_text(struct stem_strtab *s, struct stem_arena *a, const char *text, size_t len,
                                      struct stem_out *said)
{
    struct stem_source *source = stem_source_new(a, "t.ir", text, len);
    struct stem_diags *q = stem_diags_new(0);
    struct stem_program *p = stem_program_read(s, source, q);
    CU_ASSERT_EQUAL(stem_diags_errors(q), p ? 0 : 1);
    if (!p && stem_diags_count(q)) {
        const struct stem_diag *d = stem_diags_get(q, 0);
        struct stem_place at = {0, 0};
        if (d->span.begin != UINT32_MAX)
            at = stem_source_place(source, d->span.begin);
        stem_out_printf(said, "%u:%u %u %s", at.line, at.column, d->id, d->text);
    }
    stem_diags_free(q);
    return p;
}

static void round_trip(const char *text)
{
    struct stem_strtab *s = stem_strtab_new();
    struct stem_arena *a = stem_arena_new();
    struct stem_out said = {0}, again = {0};
    struct stem_program *p = read_text(s, a, text, strlen(text), &said);
    UNIT_SAME_TEXT(stem_out_text(&said), "");
    if (p) {
        stem_program_print(p, &again);
        UNIT_SAME_TEXT(stem_out_text(&again), text);
    }
    stem_program_free(p);
    stem_out_free(&said);
    stem_out_free(&again);
    stem_arena_free(a);
    stem_strtab_free(s);
}

/* ---- by hand: every statement ---- */

static const char scheduled[] =
    "program \"a \\\"name\\\" with \\\\ and \\x01\";\n"
    "state expanded streams deps order waits lifetime memory lanes;\n"
    "dim \"T\" = 4;\n"
    "dim \"U\" = -1;\n"
    "stream s0 \"main\";\n"
    "stream s1 \"side\" priority -1;\n"
    "segment g0;\n"
    "segment g1 eager;\n"
    "layer l0 \"moe[0]\";\n"
    "kernel d0 \"k\" waits params \"float *y, const float *x, int n\" body\n"
    "    \"y[0] = x[0];\\n\"\n"
    "    \"y[1] = n;\";\n"
    "extern d1 \"send\" library \"libx.so\";\n"
    "buffer b0 input \"x\" f32[4, 8];\n"
    "value v0 \"x\" b0;\n"
    "buffer b1 weight \"w\" f32[8] from \"layers.0.{*}.w\";\n"
    "value v1 \"w\" b1;\n"
    "buffer b2 output \"out\" f32[4, 8];\n"
    "value v2 \"out\" b2 view v4;\n"
    "buffer b3 state \"s\" i64[2] align 16;\n"
    "buffer b4 temp \"t\" f32[4, 8] offset 256;\n"
    "value v3 \"t\" b4;\n"
    "op o0 v3 = rmsnorm(v0, v1) {eps = 0.001} name \"moe[0].t\" layer l0 on s0 us 1.5;\n"
    "value v4 \"y\" b2;\n"
    "value v5 \"row\" b4 f32[8] offset 32 view v3;\n"
    "op o1 v4 = pointwise(v3, v5, v0) {expr = \"i0 i1 add i2 mul c:0.100000001 add\", dtype = \"f32\"} "
    "name \"y\" pin s1 priority 2 resource \"link\" after o0 on s1 us 0.25;\n"
    "value v6 \"column\" b4 f32[4] offset 4 stride [8] view v3;\n"
    "value v7 \"t2\" b4 next v3;\n"
    "op o2 v7 = d0(inout v3, release v6) scalars i32 -7, i64 5000000000, f32 1e-06 grid [1, 2, 3] block [32, 1, 1] "
    "smem 128 name \"k\" segment g1 on s0;\n"
    "op o3 d1(v7) scalars f32 inf, f32 -inf, f32 nan name \"send\" segment g1 on s0;\n"
    "buffer b5 temp \"gone\" f32[4, 8];\n"
    "value v8 \"gone\" b5;\n"
    "op o4 v8 = copy(v0) name \"gone\" dead;\n"
    "value v9 \"t3\" b4 next v7;\n"
    "op o5 v9 = d0(inout v7, v6) grid [1, 1, 1] block [1, 1, 1] name \"k\" segment g1 on s0;\n"
    "dep data o0 -> o1 v3;\n"
    "dep anti o1 -> o2 v3;\n"
    "dep output o2 -> o5 v7;\n"
    "dep after o0 -> o1;\n"
    "dep resource o0 -> o3;\n"
    "dep memory o0 -> o3;\n"
    "order o0, o1, o2, o3, o5;\n"
    "wait o1 for o0 segment g0;\n"
    "wait o1 for start segment g0;\n"
    "wait end for o1 segment g0;\n"
    "use b0 first o0 last o0, o1;\n"
    "use b1 first o0 last o0;\n"
    "use b2 first o1 last o1;\n"
    "use b3;\n"
    "use b4 first o0 last o5 free o5;\n"
    "use b5;\n"
    "events 2 bound 1;\n"
    "slab 384 bound 128;\n"
    "lanes 2;\n"
    "estimate 1.75 2 0.5;\n";

static void by_hand(void)
{
    round_trip("program \"\";\nstream s0 \"main\";\nsegment g0;\n");
    round_trip(scheduled);
    round_trip("program \"u\";\nstream s0 \"main\";\nsegment g0;\nextern d0 \"f\";\nbuffer b0 input \"x\" f32[4] inout;\nvalue v0 \"x\" b0;\n"
               "value v1 \"x\" b0 next v0;\nop o0 v1 = d0(inout v0) name \"x\";\n");
}

/* The example in the reference page is a program. */
static void documentation(void)
{
    const char *dir = getenv("SRCDIR"), *why = NULL;
    struct stem_arena *a = stem_arena_new();
    struct stem_source *page = stem_source_read(a, stem_arena_printf(a, "%s/docs/ir.md", dir ? dir : "."), &why);
    UNIT_SAME_TEXT(why ? why : "", "");
    char *begin = page ? strstr(page->text, "```ir\n") : NULL, *end = begin ? strstr(begin, "\n```\n") : NULL;
    CU_ASSERT(end != NULL);
    if (end)
        round_trip(stem_arena_strndup(a, begin + 6, (size_t)(end + 1 - begin - 6)));
    stem_arena_free(a);
}

static void what_was_read(void)
{
    struct stem_strtab *s = stem_strtab_new();
    struct stem_arena *a = stem_arena_new();
    struct stem_out said = {0};
    struct stem_program *p = read_text(s, a, scheduled, sizeof scheduled - 1, &said);
    CU_ASSERT_FATAL(p != NULL);
    CU_ASSERT_EQUAL(p->state, 255);
    CU_ASSERT_EQUAL(p->values.at[7].version, 1);
    CU_ASSERT_EQUAL(p->values.at[9].version, 2);
    CU_ASSERT_EQUAL(p->values.at[4].def.n, 1);
    CU_ASSERT_EQUAL(stem_value_def(p, (struct stem_value_id){2}).n, 1);
    CU_ASSERT_EQUAL(p->buffers.at[3].bytes, 16);
    CU_ASSERT_EQUAL(p->ops.at[0].cost.bytes_read, 128 + 32); /* costs are made again */
    CU_ASSERT_EQUAL(p->ops.at[2].scalars[1].i, INT64_C(5000000000));
    CU_ASSERT_EQUAL(p->sched.last_use_begin.at[6], 5);
    CU_ASSERT_EQUAL(p->sched.free_after.at[4].n, 5);
    CU_ASSERT_EQUAL(p->sched.free_after.at[5].n, STEM_NONE);
    stem_program_free(p);
    stem_arena_free(a);
    stem_strtab_free(s);
}

/* Blanks, comments and line breaks mean nothing. */
static void free_form(void)
{
    struct stem_strtab *s = stem_strtab_new();
    struct stem_arena *a = stem_arena_new();
    struct stem_out said = {0}, o = {0};
    const char *text = "program\"p\";# note\n\tbuffer b0 input \"a\"\n \"b\" f32[ ] ;value v0\"x\"b0;";
    struct stem_program *p = read_text(s, a, text, strlen(text), &said);
    CU_ASSERT_FATAL(p != NULL);
    stem_program_print(p, &o);
    UNIT_SAME_TEXT(stem_out_text(&o), "program \"p\";\nstream s0 \"main\";\nsegment g0;\n"
                                      "buffer b0 input \"ab\" f32[];\nvalue v0 \"x\" b0;\n");
    stem_program_free(p);
    stem_out_free(&o);
    stem_arena_free(a);
    stem_strtab_free(s);
}

/* ---- bad input ---- */

#define P "program \"p\"; "
#define X "buffer b0 input \"x\" f32[4]; value v0 \"x\" b0; buffer b1 temp \"y\" f32[4]; value v1 \"y\" b1; "

#define F "extern d0 \"f\" params \"float *x\"; extern d1 \"g\" params \"float *x, float *y\"; "
static const struct {
    const char *text, *said;
} bad[] = {
    {"", "1:1 4001 'program' expected here"},
    {"program;", "1:8 4001 a string expected here"},
    {P "buffr b0;", "1:14 4001 a statement expected here"},
    {P "dim \"T\" = x;", "1:24 4001 an integer expected here"},
    {P "dim \"T\" = 99999999999999999999;", "1:24 4000 '99999999999999999999' is no number"},
    {P "dim \"T\" = 1.2.3;", "1:24 4000 '1.2.3' is no number"},
    {P "dim \"T\" = 12ab;", "1:24 4000 '12' is no number"},
    {P "dim \"T = 1;", "1:18 4000 a string without an end, or an unknown escape in it"},
    {P "dim \"\\q\" = 1;", "1:18 4000 a string without an end, or an unknown escape in it"},
    {P "dim \"\\x00\" = 1;", "1:18 4000 a string without an end, or an unknown escape in it"},
    {P "$", "1:14 4000 a byte that starts no token"},
    {P "stream s1 \"side\";", "1:21 4003 s0 expected here"},
    {P "stream 1 \"side\";", "1:21 4001 s0 expected here"},
    {P "buffer b0 input \"x\" f31[4];", "1:34 4001 an element type expected here"},
    {P "buffer b0 import \"x\" f32[4];", "1:24 4001 temp, input, output, weight or state expected here"},
    {P "buffer b0 input \"x\" f32[0];", "1:38 4004 0 is not in 1..281474976710656"},
    {P "buffer b0 input \"x\" f32[100000000, 100000000];", "1:34 4004 a tensor of 2^48 elements or more"},
    {P "buffer b0 input \"x\" f32[1,1,1,1,1,1,1];", "1:50 4004 more than 6 sizes"},
    {P "buffer b0 input \"x\" f32[4] align 3;", "0:0 4005 not a sound program: b0: alignment 3"},
    {P "buffer b0 input \"x\" f32[4]; buffer b1 weight \"y\" f32[4]; buffer b2 output \"x\" f32[4];",
     "0:0 4005 not a sound program: b0 and b2 are both called 'x', and callers find them by name"},
    {P "buffer b0 temp \"x\" f32[4]; buffer b1 input \"y\" f32[4];",
     "0:0 4005 not a sound program: b1: an external buffer after a temporary one"},
    {P "value v0 \"x\" b0;", "1:27 4002 b0 does not exist (yet)"},
    {P X "value v2 \"z\" b0 f32[8];", "0:0 4005 not a sound program: v2: its tensor does not lie within b0"},
    {P X "value v2 \"z\" b0 f32[2] offset 12 view v0;",
     "0:0 4005 not a sound program: v2: its tensor does not lie within b0"},
    {P X "value v2 \"z\" b0 f32[2] stride [1, 1] view v0;", "1:140 4004 one stride for each size expected"},
    {P X "value v2 \"z\" b0 f32[2] stride [281474976710656] view v0;",
     "0:0 4005 not a sound program: v2: its tensor does not lie within b0"},
    {P X "value v2 \"z\" b0 view v2;", "1:109 4005 v2 is its own base"},
    {P X "value v2 \"z\" b0 view v3; value v3 \"z\" b0 next v2;", "1:109 4005 v2 is its own base"},
    {P X "value v2 \"z\" b0 view v7;", "1:109 4002 v7 does not exist"},
    {P X "value v2 \"z\" b0 view v1;", "0:0 4005 not a sound program: v2: its base is not in its buffer"},
    {P X "value v2 \"z\" b0 view v0; value v3 \"z\" b0 view v2;",
     "0:0 4005 not a sound program: v3: a view of a view"},
    {P X "op o0 v1 = cpy(v0) name \"y\";", "1:114 4002 'cpy' is no op"},
    {P X "op o0 v1 = experts(v0) name \"y\";", "1:114 4002 'experts' is made of other ops and cannot stand here"},
    {P X "op o0 v1 = copy(v9) name \"y\";", "1:119 4002 v9 does not exist (yet)"},
    {P X "op o0 v1 = copy(v0);", "1:122 4001 'name' expected here"},
    {P X "op o1 v1 = copy(v0) name \"y\";", "1:106 4003 o0 expected here"},
    {P X "op o0 v1 = copy(v0) {eps = 1} name \"y\";", "1:124 4001 an attribute of the op expected here"},
    {P X "op o0 v1 = copy(v0) name \"y\" layer l0;", "1:138 4002 l0 does not exist (yet)"},
    {P X "op o0 v1 = copy(v0) name \"y\" on s1;", "1:135 4002 s1 does not exist (yet)"},
    {P X "op o0 v1 = copy(v0) name \"y\" after o0;", "1:138 4002 o0 does not exist (yet)"},
    {P X "op o0 v1 = copy() name \"y\";", "0:0 4005 not a sound program: o0: copy takes 1 operand, not 0"},
    {P X "op o0 v1 = copy(_) name \"y\";", "0:0 4005 not a sound program: o0: input 0 is missing"},
    {P X "op o0 v1 = copy(v0, v0) name \"y\";", "0:0 4005 not a sound program: o0: too many inputs"},
    {P X "op o0 v1 = copy(inout v0) name \"y\";",
     "0:0 4005 not a sound program: o0: input 0: mode does not fit the signature"},
    {P X "op o0 v1 = copy(out v0) name \"y\";", "0:0 4005 not a sound program: o0: input 0 has the mode of a result"},
    {P X "op o0 copy(v0) name \"y\";", "0:0 4005 not a sound program: o0: wrong number of results"},
    {P X "op o0 v1, v1 = copy(v0) name \"y\";", "1:113 4003 v1 is the result of two ops"},
    {P X "op o0 v1 = copy(v0) name \"y\"; op o1 v1 = copy(v0) name \"y\";", "1:139 4003 v1 is the result of two ops"},
    {P X "op o0 v0 = copy(v1) name \"y\";", "0:0 4005 not a sound program: o0: reads v1, which nothing writes"},
    {P X "op o0 v1 = copy(v1) name \"y\";", "0:0 4005 not a sound program: o0: reads v1 of the later op o0"},
    {P X "op o0 v1 = copy(v0) name \"y\" dead; buffer b2 temp \"z\" f32[4]; value v2 \"z\" b2; op o1 v2 = copy(v1) "
         "name \"z\";",
     "0:0 4005 not a sound program: o1: reads v1 of the dead op o0"},
    {P X "op o0 v1 = argmax(v0) name \"y\";",
     "0:0 4005 not a sound program: o0: result 0 is not of the type that the rule says"},
    {P X "op o0 v1 = rmsnorm(v0, v0) {eps = -1} name \"y\";",
     "0:0 4005 not a sound program: o0: rmsnorm: eps = -1 must not be negative"},
    {P X "value v2 \"s\" b0 f32[2] stride [2] view v0; buffer b2 temp \"n\" f32[2]; value v3 \"n\" b2; "
         "op o0 v3 = rmsnorm(v2, v2) name \"n\";",
     "0:0 4005 not a sound program: o0: input 1 is strided"},
    {P "kernel d0 \"k\" params \"float *x\" body \"\"; " X
       "op o0 d0(inout v0) grid [1, 1, 1] block [1, 1, 1] name \"k\";",
     "0:0 4005 not a sound program: o0: input 0 has no next version"},
    {P F "buffer b0 state \"s\" f32[4] inout;", "1:117 4001 ';' expected here"},
    {P "kernel d0 \"k\" params \"float *x\" body \"\"; " X
       "op o0 v1 = d0() grid [0, 1, 1] block [1, 1, 1] name \"k\";",
     "1:166 4004 0 is not in 1..2147483647"},
    /* versions form a line */
    {P F "buffer b0 state \"s\" f32[4]; value v0 \"s\" b0; value v1 \"a\" b0 next v0; value v2 \"b\" b0 next v0; "
         "op o0 v1 = d0(inout v0) name \"a\"; op o1 v2 = d0(inout v0) name \"b\";",
     "0:0 4005 not a sound program: o0 and o1 both write version 0 of b0 in place"},
    {P F "buffer b0 state \"s\" f32[4]; value v0 \"s\" b0; value v1 \"p\" b0 f32[3] view v0; "
         "value v2 \"q\" b0 f32[2] offset 8 view v0; value v3 \"a\" b0 f32[3] next v1; "
         "value v4 \"b\" b0 f32[2] offset 8 next v2; op o0 v3 = d0(inout v1) name \"a\"; op o1 v4 = d0(inout v2) name \"b\";",
     "0:0 4005 not a sound program: o0 and o1 both write version 0 of b0 in place"},
    {P F X "op o0 v1 = copy(v0) name \"y\"; value v2 \"a\" b1 next v1; buffer b2 temp \"c\" f32[4]; "
           "value v3 \"c\" b2; op o1 v2 = d0(inout v1) name \"a\"; op o2 v3 = d1(consume v1) name \"c\";",
     "0:0 4005 not a sound program: o1 and o2 both write version 0 of b1 in place"},
    {P "state order; " X "op o0 v1 = copy(v0) name \"y\";",
     "0:0 4005 not a sound program: issue order: an op is missing"},
    {P "state order; " X "op o0 v1 = copy(v0) name \"y\"; order o0, o0;",
     "0:0 4005 not a sound program: issue order: place 1"},
    {P "state streams; " X "op o0 v1 = copy(v0) name \"y\";", "0:0 4005 not a sound program: o0: has no stream"},
    {P "state lifetime; " X, "0:0 4005 not a sound program: lifetimes: not one for each buffer"},
    {P X "use b0;", "1:110 4005 1 'use' statements for 2 buffers"},
    {P X "dep dta o0 -> o0;", "1:107 4001 a kind of dependency expected here"},
    {P X "wait o0 for o0 segment g0;", "1:108 4002 o0 does not exist (yet)"},
};

static void bad_input(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct stem_strtab *s = stem_strtab_new();
        struct stem_arena *a = stem_arena_new();
        struct stem_out said = {0};
        struct stem_program *p = read_text(s, a, bad[i].text, strlen(bad[i].text), &said);
        CU_ASSERT_PTR_NULL(p);
        UNIT_SAME_TEXT(stem_out_text(&said), bad[i].said);
        stem_program_free(p);
        stem_out_free(&said);
        stem_arena_free(a);
        stem_strtab_free(s);
    }
}

/* ---- random ---- */

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

/* Damaged text is refused or read, and nothing else happens. */
static void damaged(void)
{
    static const char bytes[] = "bvosdgl0123456789\";,=()[]{} \n-.exx\\\xff";
    static char text[sizeof scheduled + 16];
    for (seed = 1; seed < 3000;) {
        uint64_t start = seed;
        size_t len = sizeof scheduled - 1;
        struct stem_strtab *s = stem_strtab_new();
        struct stem_arena *a = stem_arena_new();
        struct stem_out said = {0};
        memcpy(text, scheduled, len);
        for (uint32_t k = 1 + random_below(3); k; k--) {
            size_t at = random_below((uint32_t)len);
            if (random_below(2)) {
                text[at] = bytes[random_below(sizeof bytes)];
            } else {
                size_t cut = 1 + random_below(8);
                cut = cut > len - at ? len - at : cut;
                memmove(text + at, text + at + cut, len - at - cut);
                len -= cut;
            }
        }
        struct stem_program *p = read_text(s, a, text, len, &said);
        if (p) { /* then it prints, and what it prints reads back */
            struct stem_out one = {0};
            stem_program_print(p, &one);
            round_trip(stem_out_text(&one));
            stem_out_free(&one);
        }
        stem_program_free(p);
        stem_out_free(&said);
        stem_arena_free(a);
        stem_strtab_free(s);
        seed = start + 1;
    }
}

/* A random program: every op reads random earlier values of the right type. */
static struct stem_program *random_program(struct stem_strtab *s, struct stem_dims *dims, struct stem_diags *q)
{
    struct stem_program *p = stem_program_new(s, NULL);
    struct stem_builder b = stem_builder_new(p, dims, q);
    struct stem_value_id rows[64], w, results[STEM_MAX_OPERANDS];
    uint32_t n = 0, layers = 1 + random_below(3), streams = 1 + random_below(3);
    int64_t t = 1 + random_below(5), shape[2] = {t, 32};
    stem_vec_push(&p->dim_names, stem_intern(s, "T"));
    stem_vec_push(&p->dim_values, t);
    for (uint32_t i = 1; i < streams; i++)
        stem_vec_push(&p->streams, (struct stem_stream_decl){stem_intern_printf(s, "s%u", i), (int32_t)i - 1});
    for (uint32_t i = 0; i < layers; i++)
        stem_vec_push(&p->layers, stem_intern_printf(s, "layer[%u]", i));
    rows[n++] = stem_build_buffer(&b, STEM_BUFFER_INPUT, stem_intern(s, "in"), STEM_F32, 2, shape);
    w = stem_build_buffer(&b, STEM_BUFFER_WEIGHT, stem_intern(s, "w"), STEM_F32, 1, shape + 1);
    while (n < 40) {
        struct stem_value_id x = rows[random_below(n)], y = rows[random_below(n)];
        struct stem_op_id after = {p->ops.len ? random_below(p->ops.len) : 0};
        b.name = stem_intern_printf(s, "v%u", n);
        b.layer = random_below(2) ? random_below(layers) : STEM_NONE;
        b.pin.n = random_below(3) ? STEM_NONE : random_below(streams);
        b.priority = (int32_t)random_below(3) - 1;
        b.resource = random_below(8) ? (struct stem_sym){0} : stem_intern(s, "r");
        b.after = &after;
        b.n_after = p->ops.len && random_below(6) == 0;
        struct stem_attr expr[2] = {{.name = "expr", .kind = STEM_ATTR_TEXT, .text = "i0 i1 add c:0.1 mul"},
                                    {.name = "dtype", .kind = STEM_ATTR_TEXT, .text = "f32"}};
        struct stem_attr eps = {.name = "eps", .kind = STEM_ATTR_FLOAT, .f = 1.0 / (1 + random_below(1000))};
        if (random_below(4) == 0) { /* a strided half of one, doubled */
            struct stem_value_id half =
                stem_build_view(&b, x, b.name, random_below(2) * 64, 2, (int64_t[]){t, 16}, (int64_t[]){32, 1});
            stem_build_simple(&b, "silu_mul", &half, 1, NULL, 0);
        }
        struct stem_input in[2] = {{x, random_below(2) ? STEM_MODE_IN : STEM_MODE_RELEASE, STEM_NOWHERE},
                                   {y, STEM_MODE_IN, STEM_NOWHERE}};
        if (random_below(2))
            results[0] = stem_build_simple(&b, "rmsnorm", (struct stem_value_id[]){x, w}, 2, &eps, 1);
        else
            CU_ASSERT(stem_build_op(&b, stem_op_find("pointwise"), in, 2, expr, NULL, results));
        rows[n++] = results[0];
    }
    return p;
}

static void random_round_trips(void)
{
    for (uint64_t round = 0; round < 30; round++) {
        struct stem_strtab *s = stem_strtab_new();
        struct stem_dims *dims = stem_dims_new();
        struct stem_diags *q = stem_diags_new(0);
        struct stem_out o = {0};
        seed = round;
        struct stem_program *p = random_program(s, dims, q);
        const char *fault = stem_program_check(p);
        UNIT_SAME_TEXT(fault ? fault : "", "");
        stem_program_print(p, &o);
        round_trip(stem_out_text(&o));
        stem_program_free(p);
        stem_out_free(&o);
        stem_diags_free(q);
        stem_dims_free(dims);
        stem_strtab_free(s);
    }
}

UNIT_MAIN("read", {"every statement", by_hand}, {"documentation", documentation}, {"what was read", what_was_read},
          {"free form", free_form}, {"bad input", bad_input}, {"damaged text", damaged},
          {"random programs", random_round_trips})
