/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures that real systems had, each reduced to the smallest dataflow that shows it (cNN_*.stem), with the right
 * behaviour as its assertions. The notation of schedules is in kit.h.
 */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>

#include "cpu/cpu.h"
#include "kit.h"
#include "verify/verify.h"

enum { ORDERS = 24 };

/* ---- every case: the schedule, and many legal orders against one stream ---- */

struct row {
    const char *file, *options;
    uint32_t streams, lanes, events; /* 0 streams: the case's own test says what is right */
    const char *prefix, *steps;      /* of one layer or of all; NULL: see the case's own test */
    const char *says;                /* a part of what the compiler says; NULL: nothing asked */
};

/* The layer before normalises what this one reads. */
#define C06_LAYER(before) "q ?" before ":a k@a !:a ?" before ":b v@b !:b ?k ?v out !"

static const struct row rows[] = {
    /* Forks are recorded right behind their producer, joins are as late as they can be, lanes are streams. */
    {"c01_dual_branch", "N=8", 2, 2, 16, "block[3].", "r k ?block[2].out:side z@side !:side ?z out !", NULL},
    {"c01_dual_branch", "N=61", 2, 2, 122, "block[59].", "r k ?block[58].out:side z@side !:side ?z out !", NULL},
    {"c01_dual_branch", "N=8 --side-first --no-pdl", 2, 9, 16, NULL, NULL, "the driver will use 9 lanes for 2 streams"},
    {"c01_dual_branch", "N=61 --side-first --no-pdl", 2, 62, 122, NULL, NULL, "the driver will use 62 lanes for 2 streams"},
    {"c02_needless_fork", "", 1, 1, 0, "", "a c out .", NULL},
    {"c02_needless_fork", "PIN=1 --no-pdl", 2, 1, 2, "", "a ! ?a:side c@side !:side ?c out .",
     "fork without concurrency: nothing runs beside 'c'"},
    {"c03_late_record", "", 2, 2, 2, "", "f ! m1 m2 m3 ?f:side s@side !:side ?s out .", NULL},
    {"c04_release_and_read", "", 2, 2, 2, NULL, NULL, NULL},
    {"c04_release_and_read", "READER=0", 1, 1, 0, "", "h expert.out y .", NULL},
    {"c05_diamond", "", 2, 2, 2, NULL, NULL, NULL},
    {"c06_shared_source", "N=8", 3, 3, 8 * 3, "block[3].", C06_LAYER("block[2].out"), NULL},
    {"c06_shared_source", "N=64", 3, 3, 64 * 3, "block[40].", C06_LAYER("block[39].out"), NULL},
    {"c07_side_free", "", 2, 2, 2, "", "! m1 m2 big ?:side tmp@side o@side !:side ?o late last .", NULL},
    {"c08_inplace", "--wait", 2, 0, 2, "", "t ! ?t:side z@side !:side ?z r y .", "waits"},
    {"c08_inplace", "--copy", 2, 2, 2, "", "t ! r.copy r ?t:side z@side !:side ?z y .", "a copy is made"},
    {"c08_inplace", "", 2, 0, 2, NULL, NULL, "waiting costs up to"},
    {"c08_inplace", "OWNED=1 --wait", 2, 0, 2, "", "! ?:side z@side !:side ?z x y .", "waits"},
    {"c08_inplace", "OWNED=1 --copy", 2, 2, 2, "", "x.copy ! x ?x.copy:side z@side !:side ?z y .", "a copy is made"},
    {"c08_mutual", "", 2, 0, 0, NULL, NULL, "'z' needs both the old and the new one: a copy is made"},
    {"c08_mutual", "--wait", 2, 0, 0, NULL, NULL, "a copy is made"},
    {"c09_fusion", "", 2, 2, 2, "", "! w ?:side y@side !:side ?y u .", "'z' is computed within 'u'"},
    {"c10_leaf", "", 2, 2, 2, "", "k ! m1 m2 ?k:side store@side !:side ?store .", NULL},
    {"c11_write_only", "", 2, 1, 2, "", "! m1 ?:side acc@side !:side ?acc store y .", NULL},
    {"c13_order_alone", "", 2, 1, 2, "", "a ! ?a:side b@side !:side ?b .", NULL},
    {"c15_workspaces", "", 2, 0, 0, NULL, NULL, NULL},
    {"c15_workspaces", "SIDE=0", 1, 1, 0, NULL, NULL, NULL},
    {"c16_early_launch", "", 2, 2, 2, "", "p ! c d ?p:side a@side !:side ?a y .", NULL},
};

static void check_row(const struct row *r, const struct kit *k)
{
    bool fine = k->v && (!r->streams || kit_streams_used(k) == r->streams) &&
                (!r->lanes || k->v->lanes == r->lanes) && (!(r->events || r->steps) || k->v->n_events == r->events) &&
                (!r->says || kit_says(k, r->says));
    CU_ASSERT(fine);
    if (!fine)
        fprintf(stderr, "\n%s %s: %u streams, %u lanes, %u events; it says:\n%s\n", r->file, r->options,
                k->v ? kit_streams_used(k) : 0, k->v ? k->v->lanes : 0, k->v ? k->v->n_events : 0, k->said);
    if (!k->v || !r->steps)
        return;
    char *steps = kit_steps(k, r->prefix, false);
    UNIT_SAME_TEXT(steps, r->steps);
    free(steps);
}

static void schedules(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kit k = kit_compile(rows[i].file, rows[i].options);
        check_row(&rows[i], &k);
        kit_free(&k);
    }
}

static void legal_orders(void)
{
    uint32_t runs = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char single[256];
        snprintf(single, sizeof single, "%s --one-stream", rows[i].options);
        struct kit k = kit_compile(rows[i].file, rows[i].options), one = kit_compile(rows[i].file, single);
        uint32_t differing = k.plan && one.plan ? kit_differing(&k, &one, ORDERS) : 1;
        CU_ASSERT_EQUAL(differing, 0);
        if (differing)
            fprintf(stderr, "\n%s %s: %u orders differ from one stream\n", rows[i].file, rows[i].options, differing);
        runs += ORDERS;
        kit_free(&one);
        kit_free(&k);
    }
    fprintf(stderr, "(%u runs) ", runs);
}

/* ---- C01: the warning names the fork ---- */

static void c01_names_the_fork(void)
{
    struct kit k = kit_compile("c01_dual_branch", "--side-first --no-pdl");
    CU_ASSERT(kit_says(&k, "[STEM2201]"));
    CU_ASSERT(kit_says(&k, "'block[1].r' opens one of its own"));
    CU_ASSERT(kit_says(&k, "note: it forks after 'block[0].out'"));
    CU_ASSERT(kit_says(&k, "--order=main-first"));
    kit_free(&k);
}

/* ---- C04: the free waits for every reader ---- */

static void c04_free_after_the_last_reader(void)
{
    struct kit k = kit_compile("c04_release_and_read", "");
    char *steps = kit_steps(&k, "", true);
    CU_ASSERT(strstr(steps, "-h") && strstr(steps, "?z") && strstr(steps, "?z") < strstr(steps, "-h"));
    CU_ASSERT(kit_before(&k, "h", "z") && !kit_before(&k, "expert.out", "z"));
    free(steps);
    kit_free(&k);

    k = kit_compile("c04_release_and_read", "READER=0");
    steps = kit_steps(&k, "", true);
    UNIT_SAME_TEXT(steps, "h expert.out -h y -expert.out .");
    free(steps);
    kit_free(&k);

    k = kit_compile("c04_release_and_read", "OWNED=1");
    CU_ASSERT(!k.plan && kit_says(&k, "[STEM1212]"));
    kit_free(&k);
}

/* ---- C05, C07: bytes are shared only by what cannot meet ---- */

/* x is read on both branches, and neither knows when the other has read it: nothing has its bytes before d. */
static void c05_temporaries_apart(void)
{
    struct kit k = kit_compile("c05_diamond", "");
    static const char *const together[] = {"x", "t1", "u", "t2", "v"};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++)
            CU_ASSERT(!kit_share(&k, together[i], together[j]));
    uint64_t slab = k.v->slab_bytes;
    kit_free(&k);
    k = kit_compile("c05_diamond", "AFTER=20"); /* all of it can be used again after d */
    CU_ASSERT_EQUAL(k.v->slab_bytes, slab);
    kit_free(&k);
}

static void c06_slab_of_any_depth(void)
{
    struct kit few = kit_compile("c06_shared_source", "N=8"), many = kit_compile("c06_shared_source", "N=64");
    CU_ASSERT_EQUAL(few.v->slab_bytes, many.v->slab_bytes);
    CU_ASSERT_EQUAL(many.v->slab_bytes, many.v->slab_bound);
    struct kit c01[] = {kit_compile("c01_dual_branch", "N=8"), kit_compile("c01_dual_branch", "N=61")};
    CU_ASSERT_EQUAL(c01[0].v->slab_bytes, c01[1].v->slab_bytes);
    kit_free(&c01[0]);
    kit_free(&c01[1]);
    CU_ASSERT(!kit_share(&few, "block[2].h", "block[2].q") && !kit_share(&few, "block[2].h", "block[2].k") &&
              !kit_share(&few, "block[2].h", "block[2].v"));
    kit_free(&few);
    kit_free(&many);
}

static void slabs_near_their_bound(void)
{
    static const struct {
        const char *path, *options;
    } files[] = {
        {"examples/dual_stream_moe.stem", ""},
        {"examples/dual_stream_moe.stem", "LAYERS=8 --side-first"},
        {"examples/dual_stream_moe.stem", "HIDDEN=512 INTER=64 --program"},
        {"examples/dsa_indexer.stem", ""},
        {"examples/qkv_three_streams.stem", ""},
        {"examples/inline_kernel.stem", ""},
        {"examples/piecewise.stem", ""},
        {"examples/models/deepseek_v2_lite.stem", ""},
        {"examples/models/kimi_k25_rank.stem", "LAYERS=5"},
        {"tests/cases/c01_dual_branch.stem", "N=61"},
        {"tests/cases/c05_diamond.stem", ""},
        {"tests/cases/c06_shared_source.stem", "N=64"},
        {"tests/cases/c07_side_free.stem", ""},
        {"tests/cases/c08_inplace.stem", "--copy"},
        {"tests/cases/c15_workspaces.stem", ""},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct kit k = kit_compile_file(files[i].path, files[i].options);
        bool near = k.v && k.v->slab_bound && k.v->slab_bytes <= k.v->slab_bound + k.v->slab_bound / 10;
        CU_ASSERT(near);
        if (!near)
            fprintf(stderr, "\n%s %s: slab %llu, bound %llu; %s\n", files[i].path, files[i].options,
                    k.v ? (unsigned long long)k.v->slab_bytes : 0, k.v ? (unsigned long long)k.v->slab_bound : 0,
                    k.said);
        kit_free(&k);
    }
}

/* A budget is met by a wait, at a price that is told, and the plan still is right; or it cannot be met. */
static void budget_buys_bytes_with_a_wait(void)
{
    struct kit free = kit_compile("c07_side_free", ""), one = kit_compile("c07_side_free", "--one-stream");
    struct kit k = kit_compile("c07_side_free", "--budget=3072");
    CU_ASSERT_EQUAL(free.v->slab_bytes, 4096);
    CU_ASSERT_PTR_NOT_NULL_FATAL(k.v);
    CU_ASSERT(k.v->slab_bytes <= 3072 && k.v->critical_path_us >= free.v->critical_path_us);
    CU_ASSERT(kit_says(&k, "the budget of 3072 bytes is met: 3072 instead of 4096 bytes, for "));
    CU_ASSERT(kit_says(&k, "the schedule takes "));
    CU_ASSERT_EQUAL(kit_differing(&k, &one, ORDERS), 0);
    kit_free(&k);
    kit_free(&free);
    kit_free(&one);
    k = kit_compile("c07_side_free", "--budget=1024");
    CU_ASSERT_PTR_NULL(k.plan);
    CU_ASSERT(kit_says(&k, "[STEM2103]") && kit_says(&k, "the budget is 1024"));
    kit_free(&k);
}

/* Moves a buffer and verifies again; the text of what the verifier says. */
static char *verdict(const struct kit *k)
{
    struct stem_diags *q = stem_diags_new(0);
    struct stem_out o = {0};
    stem_diags_set_source(q, k->compiled->source);
    stem_verify(k->plan, q);
    stem_diags_print(q, (struct stem_diag_style){0}, &o);
    char *text = strdup(stem_out_text(&o));
    stem_out_free(&o);
    stem_diags_free(q);
    return text;
}

static char *moved(const struct kit *k, const char *name, const char *onto)
{
    struct stem_plan_buffer *b = (struct stem_plan_buffer *)&k->v->buffers[kit_buffer(k, name)];
    uint64_t was = b->offset;
    b->offset = k->v->buffers[kit_buffer(k, onto)].offset;
    char *text = verdict(k);
    b->offset = was;
    return text;
}

static void c07_reuse_after_the_side_reader(void)
{
    struct kit k = kit_compile("c07_side_free", "");
    CU_ASSERT(!kit_before(&k, "o", "big") && kit_before(&k, "o", "late"));
    CU_ASSERT(!kit_share(&k, "big", "tmp") && !kit_share(&k, "m1", "tmp") && !kit_share(&k, "m2", "tmp"));
    char *text = moved(&k, "big", "tmp"); /* it follows m2, but nothing makes it follow o */
    CU_ASSERT(strstr(text, "[STEM3008]") && strstr(text, "'big'") && (strstr(text, "'o'") || strstr(text, "'tmp'")));
    free(text);
    text = moved(&k, "late", "tmp"); /* behind the join it may */
    UNIT_SAME_TEXT(text, "");
    free(text);
    kit_free(&k);
}

/* ---- C08: one result, whatever the choice ---- */

static void c08_same_result_in_every_mode(void)
{
    static const char *const owned[] = {"OWNED=0", "OWNED=1"}, *const ways[] = {
                                                                   "--wait",       "--copy",       "",
                                                                   "--one-stream", "--side-first", "--program"};
    for (int i = 0; i < 2; i++) {
        uint64_t first = 0;
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            char options[64];
            snprintf(options, sizeof options, "%s %s", owned[i], ways[w]);
            struct kit k = kit_compile("c08_inplace", options);
            CU_ASSERT_PTR_NOT_NULL(k.plan);
            uint64_t digest = k.plan ? kit_digest(&k) : 0;
            first = w ? first : digest;
            CU_ASSERT_EQUAL(digest, first);
            kit_free(&k);
        }
    }
}

/* ---- C10, C11, C13: what belongs to the capture ---- */

static uint32_t count_steps(const struct kit *k, enum stem_step_kind kind, uint32_t stream)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->v->n_steps; i++)
        n += k->v->steps[i].kind == kind && k->v->steps[i].stream == stream;
    return n;
}

static void c10_c11_c13_forks_and_joins(void)
{
    static const char *const cases[] = {"c10_leaf", "c11_write_only", "c13_order_alone"};
    for (int i = 0; i < 3; i++) {
        struct kit k = kit_compile(cases[i], "");
        CU_ASSERT_EQUAL(count_steps(&k, STEM_STEP_WAIT, 0), 1); /* rejoined exactly once */
        CU_ASSERT_EQUAL(count_steps(&k, STEM_STEP_WAIT, 1), 1); /* forked exactly once */
        kit_free(&k);
    }
    struct kit k = kit_compile("c13_order_alone", "");
    CU_ASSERT(kit_before(&k, "a", "b"));
    CU_ASSERT(kit_edge_path(&k, kit_op(&k, "a"), kit_op(&k, "b")));
    kit_free(&k);
}

/* ---- C15: a workspace for each use that can meet another, cleared before each ---- */

static uint32_t operand_buffer(const struct kit *k, uint32_t op, uint32_t operand)
{
    return k->v->ops[op].operands[operand].tensor.buffer;
}

/* Does a memset of the buffer happen before the op, with no other op on the buffer in between? */
static bool cleared(const struct kit *k, uint32_t op, uint32_t operand)
{
    uint32_t b = operand_buffer(k, op, operand);
    for (uint32_t i = op; i-- > 0;)
        for (uint32_t n = 0; n < k->v->ops[i].n_operands; n++)
            if (operand_buffer(k, i, n) == b)
                return k->v->ops[i].work == STEM_WORK_MEMSET && k->v->ops[i].memset_value == 0 &&
                       kit_edge_path(k, i, op);
    return false;
}

static void c15_own_cleared_workspaces(void)
{
    uint64_t slab[2];
    for (int side = 0; side < 2; side++) {
        struct kit k = kit_compile("c15_workspaces", side ? "SIDE=1" : "SIDE=0");
        uint32_t u = kit_op(&k, "u"), v = kit_op(&k, "v");
        for (uint32_t n = 1; n < 3; n++) { /* x, part, done, y */
            const struct stem_plan_buffer *a = &k.v->buffers[operand_buffer(&k, u, n)],
                                          *b = &k.v->buffers[operand_buffer(&k, v, n)];
            CU_ASSERT_PTR_NOT_EQUAL(a, b);
            CU_ASSERT(!side || a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
            CU_ASSERT(cleared(&k, u, n) && cleared(&k, v, n));
        }
        slab[side] = k.v->slab_bytes;
        kit_free(&k);
    }
    CU_ASSERT(slab[0] < slab[1]);
}

/* ---- C16: early launches only where the code waits ---- */

/* Launches the op programmatically, with the edges that this implies; what the verifier says. */
static char *launched_early(struct kit *k, const char *name)
{
    struct stem_plan_op *o = (struct stem_plan_op *)&k->v->ops[kit_op(k, name)];
    struct stem_plan_variant *v = (struct stem_plan_variant *)k->v;
    struct stem_plan_variant was = *v;
    bool early = o->programmatic;
    struct stem_plan_edge *edges = NULL;
    o->programmatic = true;
    v->n_edges = stem_plan_derive_edges(v, k->plan->n_streams, &edges);
    for (uint32_t i = 0; i < v->n_edges; i++)
        CU_ASSERT(edges[i].kind != STEM_EDGE_PROGRAMMATIC ||
                  v->ops[edges[i].from].stream == v->ops[edges[i].to].stream);
    v->edges = edges;
    char *text = verdict(k);
    *v = was;
    o->programmatic = early;
    free(edges);
    return text;
}

static void c16_early_only_if_the_code_waits(void)
{
    struct kit k = kit_compile("c16_early_launch", "");
    static const struct {
        const char *op;
        bool waits;
    } ops[] = {{"c", true}, {"d", false}, {"y", true}};
    for (int i = 0; i < 3; i++) {
        const struct stem_plan_op *o = &k.v->ops[kit_op(&k, ops[i].op)];
        CU_ASSERT_EQUAL(k.plan->kernels[o->kernel].waits, ops[i].waits);
        CU_ASSERT(ops[i].waits || !o->programmatic); /* the compiler never does it itself */
        char *text = launched_early(&k, ops[i].op);
        CU_ASSERT_EQUAL(ops[i].waits, *text == '\0');
        CU_ASSERT(ops[i].waits || strstr(text, "[STEM3015]"));
        free(text);
    }
    kit_free(&k);
}

/* The compiler's own choice: c behind p, a and y behind nothing that they read early; never d, which does not wait, nor
 * what comes first on its stream. Edges from other streams stay full, and every order gives the same bits. */
static void c16_what_the_compiler_launches_early(void)
{
    struct kit k = kit_compile("c16_early_launch", ""), one = kit_compile("c16_early_launch", "--one-stream --no-pdl");
    static const struct {
        const char *op;
        bool early;
    } ops[] = {{"p", false}, {"c", true}, {"d", false}, {"a", false}, {"y", true}};
    for (int i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(k.v->ops[kit_op(&k, ops[i].op)].programmatic, ops[i].early);
    for (uint32_t i = 0; i < k.v->n_edges; i++) {
        const struct stem_plan_edge *e = &k.v->edges[i];
        CU_ASSERT_EQUAL(e->kind == STEM_EDGE_PROGRAMMATIC,
                        k.v->ops[e->to].programmatic && k.v->ops[e->from].stream == k.v->ops[e->to].stream);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(k.plan->cuda, "#define STEM_PDL 1"));
    CU_ASSERT_PTR_NULL(strstr(one.plan->cuda, "#define STEM_PDL 1"));
    CU_ASSERT_EQUAL(kit_differing(&k, &one, 20), 0);
    kit_free(&k);
    kit_free(&one);
    struct kit older = kit_compile("c16_early_launch", "--sm=80");
    CU_ASSERT_FALSE(older.v->ops[kit_op(&older, "c")].programmatic);
    CU_ASSERT_PTR_NULL(strstr(older.plan->cuda, "#define STEM_PDL 1"));
    kit_free(&older);
}

/* experts_down reads ids, scales and weights before it waits for h: only where they are not the predecessor's. */
static void early_reads(void)
{
    struct kit k = kit_compile_file("examples/dual_stream_moe.stem", "LAYERS=2 SETS=2 HIDDEN=128 EXPERTS=16 "
                                                                     "TOPK=2 INTER=64");
    const struct stem_plan_op *down = &k.v->ops[kit_op(&k, "moe[1].out")];
    struct stem_plan_kernel *kernel = (struct stem_plan_kernel *)&k.plan->kernels[down->kernel];
    CU_ASSERT(down->programmatic);
    CU_ASSERT_EQUAL(kernel->early, 1u << 1 | 1u << 2 | 1u << 3);
    char *text = verdict(&k);
    UNIT_SAME_TEXT(text, "");
    free(text);
    kernel->early |= 1; /* h, which the kernel before it writes */
    text = verdict(&k);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "[STEM3015]"));
    free(text);
    kit_free(&k);
}

/* What is fused changes no bit: against the same program with every op by itself. */
static void fusing_keeps_bits(void)
{
    static const struct {
        const char *file, *options;
        uint32_t fewer; /* ops */
    } programs[] = {
        {"examples/dual_stream_moe.stem", "LAYERS=3 SETS=2 HIDDEN=128 EXPERTS=16 TOPK=2 INTER=64", 6},
        {"examples/qkv_three_streams.stem", "HIDDEN=64 LAYERS=2", 2},
        {"examples/piecewise.stem", "HIDDEN=64 VOCAB=96", 10},
        {"tests/cases/c09_fusion.stem", "", 1},
        {"tests/cases/c01_dual_branch.stem", "N=4", 5},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char options[128];
        snprintf(options, sizeof options, "--no-fuse %s", programs[i].options);
        struct kit k = kit_compile_file(programs[i].file, programs[i].options),
                   plain = kit_compile_file(programs[i].file, options);
        CU_ASSERT_EQUAL(plain.v->n_ops - k.v->n_ops, programs[i].fewer);
        CU_ASSERT_EQUAL(kit_differing(&k, &plain, 10), 0);
        kit_free(&k);
        kit_free(&plain);
    }
}

/* ---- node and edge order depend on nothing but the text ---- */

static void same_text_same_plan(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *json[2];
        for (int n = 0; n < 2; n++) {
            void *shift = n ? malloc(12345) : NULL; /* other addresses */
            struct kit k = kit_compile(rows[i].file, rows[i].options);
            json[n] = k.plan ? stem_plan_to_json(k.plan) : strdup("");
            kit_free(&k);
            free(shift);
        }
        UNIT_SAME_TEXT(json[0], json[1]);
        free(json[0]);
        free(json[1]);
    }
}

/* ---- two programs in two threads do not meet ---- */

struct worker {
    const char *file;
    uint64_t digest[6]; /* of what every run computes */
};

static void *compile_and_run(void *user)
{
    struct worker *w = user;
    for (size_t i = 0; i < sizeof w->digest / sizeof *w->digest; i++) {
        struct kit k = kit_compile(w->file, i % 2 ? "--side-first" : "");
        w->digest[i] = k.plan ? kit_digest(&k) : i;
        kit_free(&k);
    }
    return NULL;
}

static void two_threads(void)
{
    struct worker w[2] = {{"c01_dual_branch", {0}}, {"c08_inplace", {0}}}, alone[2] = {w[0], w[1]};
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        compile_and_run(&alone[i]);
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, compile_and_run, &w[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        CU_ASSERT(!memcmp(w[i].digest, alone[i].digest, sizeof w[i].digest));
    }
}

UNIT_MAIN("cases", {"schedules", schedules}, {"legal orders against one stream", legal_orders},
          {"C01 the warning names the fork", c01_names_the_fork},
          {"C04 the free follows the last reader", c04_free_after_the_last_reader},
          {"C05 temporaries of two branches", c05_temporaries_apart},
          {"C06 the slab does not grow with the layers", c06_slab_of_any_depth},
          {"slabs near their bound", slabs_near_their_bound}, {"a budget buys bytes", budget_buys_bytes_with_a_wait},
          {"C07 reuse after a reader on another stream", c07_reuse_after_the_side_reader},
          {"C08 one result in every mode", c08_same_result_in_every_mode},
          {"C10 C11 C13 forks and joins", c10_c11_c13_forks_and_joins},
          {"C15 cleared workspaces of their own", c15_own_cleared_workspaces},
          {"C16 early launches", c16_early_only_if_the_code_waits},
          {"C16 chosen early launches", c16_what_the_compiler_launches_early}, {"early reads", early_reads}, {"fusing keeps bits", fusing_keeps_bits},
          {"the same text, the same plan", same_text_same_plan}, {"two threads", two_threads})
