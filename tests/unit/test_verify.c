/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verifier says. Each row compiles a small dataflow program, breaks the plan in one place, and names the
 * diagnostic that must come; every id of the range has a row. The texts name both ops, their streams and the wait.
 */
#include "unit.h"

#include <stdlib.h>

#include "emit/emit.h"
#include "flow.h"
#include "verify/verify.h"

struct subject {
    struct flow f;
    struct stem_plan *p;
    struct stem_plan_variant *v;
    struct stem_step *steps;
    struct stem_plan_op *ops;
    struct stem_plan_buffer *buffers;
    struct stem_plan_edge *edges;
};

static struct subject subject_new(const char *text)
{
    struct subject s = {.f = flow_new(text)};
    struct stem_options o = stem_options_default();
    o.max_streams = 3;
    o.inplace = STEM_INPLACE_WAIT;
    bool ok = stem_pass_run_all(s.f.program, s.f.diags, &o, NULL, NULL, NULL);
    const struct stem_program *programs[] = {s.f.program};
    s.p = ok ? stem_emit_plan(programs, 1, &o, s.f.diags) : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(s.p);
    s.v = (struct stem_plan_variant *)s.p->variants;
    s.steps = (struct stem_step *)s.v->steps;
    s.ops = (struct stem_plan_op *)s.v->ops;
    s.buffers = (struct stem_plan_buffer *)s.v->buffers;
    s.edges = (struct stem_plan_edge *)s.v->edges;
    return s;
}

static void subject_free(struct subject *s)
{
    stem_plan_free(s->p);
    flow_free(&s->f);
}

/* The diagnostics of the plan as it stands, in `o`; the verdict. */
static bool judge(struct subject *s, struct stem_out *o)
{
    struct stem_diags *q = stem_diags_new(0);
    bool ok = stem_verify(s->p, q);
    stem_diags_print(q, (struct stem_diag_style){0}, o);
    CU_ASSERT_EQUAL(ok, stem_diags_errors(q) == 0);
    stem_diags_free(q);
    return ok;
}

/* ---- ways to break a plan ---- */

static uint32_t nth_step(const struct subject *s, enum stem_step_kind kind, uint32_t n)
{
    for (uint32_t i = 0; i < s->v->n_steps; i++)
        if (s->steps[i].kind == kind && n-- == 0)
            return i;
    CU_FAIL_FATAL("no such step");
    return 0;
}

static void remove_step(struct subject *s, uint32_t i)
{
    memmove(&s->steps[i], &s->steps[i + 1], sizeof *s->steps * (s->v->n_steps - i - 1));
    s->v->n_steps--;
    ((struct stem_plan_segment *)s->v->segments)[0].n_steps--;
}

static uint32_t buffer_named(const struct subject *s, const char *name)
{
    for (uint32_t i = 0; i < s->v->n_buffers; i++)
        if (!strcmp(s->buffers[i].name, name))
            return i;
    CU_FAIL_FATAL("no such buffer");
    return 0;
}

static struct stem_plan_operand *operand(struct subject *s, uint32_t op, uint32_t k)
{
    return (struct stem_plan_operand *)&s->ops[op].operands[k];
}

/* The wait of the last join, or of the first op that waits. */
static void last_wait(struct subject *s)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < s->v->n_steps; i++)
        last = s->steps[i].kind == STEM_STEP_WAIT ? i : last;
    remove_step(s, last);
}

static void first_wait(struct subject *s)
{
    remove_step(s, nth_step(s, STEM_STEP_WAIT, 0));
}

static void first_record(struct subject *s)
{
    remove_step(s, nth_step(s, STEM_STEP_RECORD, 0));
}

static void bad_stream(struct subject *s)
{
    s->ops[1].stream = 7;
}

static void bad_buffer(struct subject *s)
{
    operand(s, 0, 0)->tensor.buffer = 99;
}

static void write_weight(struct subject *s)
{
    s->buffers[0].kind = STEM_BUFFER_WEIGHT;
    operand(s, 0, 0)->access = STEM_READ_WRITE;
}

static void write_input(struct subject *s)
{
    operand(s, 0, 0)->access = STEM_READ_WRITE;
}

static void bad_version(struct subject *s)
{
    s->p->version = 99;
}

static void swapped_steps(struct subject *s)
{
    uint32_t a = nth_step(s, STEM_STEP_OP, 0), b = nth_step(s, STEM_STEP_OP, 1);
    struct stem_step t = s->steps[a];
    s->steps[a] = s->steps[b];
    s->steps[b] = t;
}

static void lost_op(struct subject *s)
{
    remove_step(s, nth_step(s, STEM_STEP_OP, 1));
}

static void beyond_buffer(struct subject *s)
{
    operand(s, 0, 0)->tensor.dim[0] += 8;
}

static void huge_shape(struct subject *s)
{
    struct stem_tensor *t = &operand(s, 0, 0)->tensor;
    t->rank = 2;
    t->dim[0] = t->dim[1] = t->stride[0] = t->stride[1] = INT64_MAX;
}

static void beyond_slab(struct subject *s)
{
    s->buffers[s->p->n_external].offset = s->v->slab_bytes;
}

static void misaligned(struct subject *s)
{
    s->buffers[s->p->n_external].offset += 8;
    s->v->slab_bytes += 4096;
    s->p->slab_bytes = s->v->slab_bytes;
}

static void same_place(struct subject *s)
{
    for (uint32_t i = s->p->n_external; i < s->v->n_buffers; i++)
        s->buffers[i].offset = 0;
}

static void read_more(struct subject *s)
{
    s->buffers[buffer_named(s, "r")].bytes += 16;
    s->v->slab_bytes += 4096;
    s->p->slab_bytes = s->v->slab_bytes;
    for (uint32_t i = s->p->n_external + 1; i < s->v->n_buffers; i++)
        s->buffers[i].offset += 1024; /* make room */
    operand(s, 1, 0)->tensor.dim[0] += 16;
}

static void own_input(struct subject *s)
{
    operand(s, 0, 1)->tensor.buffer = operand(s, 0, 0)->tensor.buffer;
    s->buffers[operand(s, 0, 0)->tensor.buffer].inout = true;
}

static void early_free(struct subject *s)
{
    uint32_t i = nth_step(s, STEM_STEP_FREE, 0), to = nth_step(s, STEM_STEP_OP, 0) + 1;
    struct stem_step t = s->steps[i];
    memmove(&s->steps[to + 1], &s->steps[to], sizeof t * (i - to));
    s->steps[to] = t;
}

static void no_alloc(struct subject *s)
{
    remove_step(s, nth_step(s, STEM_STEP_ALLOC, 0));
}

static void no_free(struct subject *s)
{
    remove_step(s, nth_step(s, STEM_STEP_FREE, 0));
}

static void double_free(struct subject *s)
{
    s->steps[nth_step(s, STEM_STEP_FREE, 1)].index = s->steps[nth_step(s, STEM_STEP_FREE, 0)].index;
}

static void share_resource(struct subject *s)
{
    static const char *const names[] = {"comm"};
    s->p->resources = names;
    s->p->n_resources = 1;
    for (uint32_t i = 0; i < s->v->n_ops; i++)
        s->ops[i].resource = 0;
}

static void programmatic_extern(struct subject *s)
{
    s->ops[1].programmatic = true;
}

static void kernel_that(struct subject *s, bool waits)
{
    static const struct stem_plan_kernel kernels[] = {{"k0", 0, false, 0, false}, {"k1", 0, true, 0, false}};
    s->p->kernels = kernels;
    s->p->n_kernels = 2;
    for (uint32_t i = 0; i < s->v->n_ops; i++) {
        s->ops[i].work = STEM_WORK_LAUNCH;
        s->ops[i].kernel = waits;
        for (int k = 0; k < 3; k++)
            s->ops[i].grid[k] = s->ops[i].block[k] = 1;
    }
}

static void programmatic_without_wait(struct subject *s)
{
    kernel_that(s, false);
    s->ops[1].programmatic = true;
    s->edges[0].kind = STEM_EDGE_PROGRAMMATIC;
}

static void programmatic_edge_only(struct subject *s)
{
    kernel_that(s, true);
    s->edges[0].kind = STEM_EDGE_PROGRAMMATIC;
}

static void programmatic_allowed(struct subject *s)
{
    kernel_that(s, true);
    s->ops[1].programmatic = true;
    s->edges[0].kind = STEM_EDGE_PROGRAMMATIC;
}

/* The last op is launched programmatically and its kernel reads the operands in `early` before it waits; if `ahead`, the
 * op before it is and does the same, and starts it ahead of its own wait. */
static void read_early(struct subject *s, uint32_t early, bool ahead)
{
    struct stem_plan_kernel *kernel = stem_plan_alloc(s->p, sizeof *kernel);
    *kernel = (struct stem_plan_kernel){.name = "k", .waits = true, .early = early, .ahead = ahead};
    kernel_that(s, false);
    s->p->kernels = kernel;
    s->p->n_kernels = 1;
    s->ops[s->v->n_ops - 1].programmatic = true;
    s->ops[s->v->n_ops - 2].programmatic = ahead;
    struct stem_plan_edge *edges;
    CU_ASSERT_EQUAL_FATAL(stem_plan_derive_edges(s->v, s->p->n_streams, &edges), s->v->n_edges);
    memcpy(s->edges, edges, sizeof *edges * s->v->n_edges);
    free(edges);
}

static void first_early(struct subject *s) { read_early(s, 1, false); }
static void second_early(struct subject *s) { read_early(s, 2, false); }
static void result_early(struct subject *s) { read_early(s, 4, false); }
static void behind_ahead(struct subject *s) { read_early(s, 1, true); }

static void huge_block(struct subject *s)
{
    kernel_that(s, true);
    s->ops[0].block[0] = 2048;
}

static void lost_edge(struct subject *s)
{
    s->v->n_edges--;
}

static void false_continuation(struct subject *s)
{
    s->edges[0].continuation = true;
}

static void half_output(struct subject *s)
{
    operand(s, s->v->n_ops - 1, s->ops[s->v->n_ops - 1].n_operands - 1)->tensor.dim[0] = 512;
}

static void nothing(struct subject *s)
{
    (void)s;
}

/* ---- the table ---- */

#define CHAIN "input h; output y; a@M R{h} W{r}; b@M R{r} W{y}"
#define FORK "input h; output y; a@M R{h} W{r}; m@M R{r} W{q}; s@A R{r} W{z}; j@M R{q,z} W{y}"
#define LEAF "input h; output y; state c; s@A R{h} inout{c>c2}; m@M R{h} W{y}"
#define INPLACE "input h; output y; state c; s@A R{c} W{z}; m@M R{h} inout{c>c2}; j@M R{z,c2} W{y}"

#define TWO "input h; output y; a@M R{h} W{r}; b@M R{r} W{q}; c@M R{r,q} W{y}"
#define SKIP "input h; output y; a@M R{h} W{r}; b@M R{h} W{q}; c@M R{r,q} W{y}"

static const struct {
    const char *what, *program;
    void (*change)(struct subject *s);
    uint32_t id; /* 0: accepted */
    const char *says;
} rows[] = {
    {"a chain", CHAIN, nothing, 0, ""},
    {"a fork and join", FORK, nothing, 0, ""},
    {"a leaf on a side stream", LEAF, nothing, 0, ""},
    {"in place beside a reader", INPLACE, nothing, 0, ""},
    {"a legal programmatic launch", CHAIN, programmatic_allowed, 0, ""},
    {"a read before the wait of what is complete", TWO, first_early, 0, ""},
    {"a read before the wait of an input", "input h; output y; a@M R{h} W{r}; b@M R{r,h} W{y}", second_early, 0, ""},
    {"a read before the wait, two behind its writer", SKIP, first_early, 0, ""},
    {"a read before the wait of what it then writes in place", "input h; output y; state c; a@M R{h} W{y}; b@M inout{c>c2}", first_early, 0, ""},
    {"the same behind who wrote it", "input h; output y; state c; a@M R{h} W{y} inout{c>c2}; b@M inout{c2>c3}", first_early, 3015, "reads operand 0 before it waits; 'a'"},
    {"a stream that is not there", CHAIN, bad_stream, 3001, "op 1 ('b') has a stream, segment or resource that does"},
    {"a buffer that is not there", CHAIN, bad_buffer, 3001, "operand 0 of 'a'"},
    {"a write to a weight", CHAIN, write_weight, 3018, "'a' (op 0, stream main) writes to the weight 'h', which its caller only lends"},
    {"a write to an input", CHAIN, write_input, 3018, "'a' (op 0, stream main) writes to the input 'h', which its caller only lends"},
    {"another version", CHAIN, bad_version, 3001, "the plan has version 99"},
    {"a block too large", CHAIN, huge_block, 3001, "a launch shape that no device accepts"},
    {"a shape that overflows", CHAIN, huge_shape, 3001, "a shape that cannot be addressed"},
    {"two steps swapped", CHAIN, swapped_steps, 3002, "where op 0 is due"},
    {"an op without a step", CHAIN, lost_op, 3002, "the steps issue 1 of 2 ops"},
    {"an operand beyond its buffer", CHAIN, beyond_buffer, 3003, "ends at byte 1032 of buffer 'h', which has 1024"},
    {"a buffer beyond the slab", CHAIN, beyond_slab, 3003, "reaches beyond the slab"},
    {"a buffer misaligned", CHAIN, misaligned, 3003, "not a multiple of its alignment"},
    {"the join's wait dropped", FORK, last_wait, 3004, "'j' (op 3, stream main) reads what is written by 's'"},
    {"a reader overtaken", INPLACE, nothing, 0, ""},
    {"two buffers in one place", FORK, same_place, 3008, "through buffer"},
    {"a read past what was written", CHAIN, read_more, 3007, "reads bytes of buffer 'r' that no op has written"},
    {"output in the place of input", CHAIN, own_input, 3009, "'a' (op 0, stream main) writes bytes of buffer 'h'"},
    {"a free before the reader", CHAIN, early_free, 3010, "'b' (op 1, stream main) uses buffer 'r' after its free"},
    {"no allocation", CHAIN, no_alloc, 3010, "uses buffer 'r' before its allocation"},
    {"no free", CHAIN, no_free, 3010, "buffer 'r' is never freed"},
    {"two frees", FORK, double_free, 3010, "is freed twice"},
    {"the end join dropped", LEAF, last_wait, 3011, "segment 0 ends while 's' (op 1, stream A) may still run"},
    {"the fork dropped", LEAF, first_wait, 3012, "'s' (op 1, stream A) is the first op of its stream in segment 0"},
    {"an event never recorded", FORK, first_record, 3013, "waits for event 0 before it is recorded"},
    {"a shared resource", FORK, share_resource, 3014, "both use the resource 'comm' and nothing orders them"},
    {"a programmatic extern", CHAIN, programmatic_extern, 3015, "is launched programmatically but is no kernel"},
    {"a kernel that never waits", CHAIN, programmatic_without_wait, 3015, "its kernel 'k0' never waits"},
    {"a programmatic edge alone", CHAIN, programmatic_edge_only, 3015, "the consumer is launched as an ordinary one"},
    {"a read of the predecessor's before the wait", TWO, second_early, 3015, "reads operand 1 before it waits; 'b'"},
    {"a read of another stream's before the wait", FORK, second_early, 3015, "which may still run when 'm' (op 1"},
    {"a read behind one that starts it ahead", SKIP, behind_ahead, 3015, "reads operand 0 before it waits; 'a' (op 0, stream main)"},
    {"a write before the wait", TWO, result_early, 3015, "writes operand 2, which its kernel 'k' touches"},
    {"an edge missing", CHAIN, lost_edge, 3016, "the graph lacks the edge from 'a' (op 0, stream main) to 'b'"},
    {"no continuation", CHAIN, false_continuation, 3016, "marked as a continuation"},
    {"half an output", CHAIN, half_output, 3017, "bytes 512 to 1023 of the output 'y' are never written"},
};

static void table(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct subject s = subject_new(rows[i].program);
        struct stem_out o = {0};
        rows[i].change(&s);
        bool ok = judge(&s, &o);
        char id[32];
        snprintf(id, sizeof id, "[STEM%u]", rows[i].id);
        bool right = ok == !rows[i].id && (ok || (strstr(stem_out_text(&o), id) && strstr(o.text, rows[i].says)));
        if (!right)
            fprintf(stderr, "\n%s: expected %s '%s', got:\n%s\n", rows[i].what, id, rows[i].says, stem_out_text(&o));
        CU_ASSERT(right);
        stem_out_free(&o);
        subject_free(&s);
    }
}

/* The races that remain when the steps lose a wait and the edges follow. */
static void races(void)
{
    static const struct {
        const char *program;
        uint32_t id;
        const char *says, *help;
    } cases[] = {
        {FORK, 3004,
         "'j' (op 3, stream main) reads what is written by 's' (op 2, stream A) in buffer 'z', and nothing orders them",
         "missing: a wait of stream main, before op 3, for an event of stream A after op 2"},
        {"input h; output y; state c; s@A R{c} W{z}; m@M R{h} inout{c>c2}; k@A R{z} W{y}", 3005,
         "overwrites what is read by 's'", "missing: a wait of stream main"},
        {"input h; output y; state c; s@A R{h} inout{c>c1}; m@M R{h} inout{c1>c2}; k@M R{h} W{y}", 3006, "'m'", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct subject s = subject_new(cases[i].program);
        bool found = false;
        /* drop each wait of stream main in turn */
        for (uint32_t w = 0; w < s.v->n_steps; w++) {
            if (s.steps[w].kind != STEM_STEP_WAIT || s.steps[w].stream != 0)
                continue;
            struct subject t = subject_new(cases[i].program);
            struct stem_out o = {0};
            char id[32];
            remove_step(&t, w);
            CU_ASSERT_FALSE(judge(&t, &o));
            snprintf(id, sizeof id, "[STEM%u]", cases[i].id);
            found |= strstr(o.text, id) && strstr(o.text, cases[i].says) && strstr(o.text, cases[i].help);
            stem_out_free(&o);
            subject_free(&t);
        }
        if (!found)
            fprintf(stderr, "\ncase %zu: %u is not reported\n", i, cases[i].id);
        CU_ASSERT(found);
        subject_free(&s);
    }
}

/* At most 20 faults are looked for, however broken the plan is. */
static void many_faults(void)
{
    struct subject s = subject_new(FORK);
    struct stem_diags *q = stem_diags_new(0);
    s.v->n_edges = 0;
    for (uint32_t i = 0; i < s.v->n_ops; i++)
        for (uint32_t k = 0; k < s.ops[i].n_operands; k++)
            operand(&s, i, k)->tensor.buffer = 1000;
    CU_ASSERT_FALSE(stem_verify(s.p, q));
    CU_ASSERT(stem_diags_errors(q) >= 9 && stem_diags_errors(q) <= 21);
    stem_diags_free(q);
    subject_free(&s);
}

/* ---- a deep plan ---- */

struct deep {
    struct stem_plan *p;
    struct stem_plan_buffer *buffers;
    struct stem_plan_op *ops;
    struct stem_plan_operand *operands;
    struct stem_step *steps;
    uint32_t n_buffers, n_ops, n_operands, n_steps, n_events;
};

static void deep_step(struct deep *d, enum stem_step_kind kind, uint32_t stream, uint32_t index)
{
    d->steps[d->n_steps++] = (struct stem_step){kind, stream, index};
}

static uint32_t deep_temp(struct deep *d, uint64_t offset)
{
    d->buffers[d->n_buffers] = (struct stem_plan_buffer){.name = "t", .kind = STEM_BUFFER_TEMP, .bytes = 1024,
                                                         .align = 256, .offset = offset, .dtype = STEM_U8,
                                                         .rank = 1, .dim = {1024}};
    return d->n_buffers++;
}

/* Reads a and b (STEM_NONE: not), writes c. */
static void deep_op(struct deep *d, uint32_t stream, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t used[] = {a, b, c};
    struct stem_plan_op *o = &d->ops[d->n_ops];
    *o = (struct stem_plan_op){.name = "op", .kind = "test", .stream = stream, .grid = {1, 1, 1}, .block = {1, 1, 1},
                               .layer = STEM_NONE, .resource = STEM_NONE, .operands = &d->operands[d->n_operands]};
    for (int i = 0; i < 3; i++)
        if (used[i] != STEM_NONE) {
            d->operands[d->n_operands++] = (struct stem_plan_operand){
                i == 2 ? STEM_WRITE : STEM_READ,
                {.buffer = used[i], .dtype = STEM_U8, .rank = 1, .dim = {1024}, .stride = {1}}};
            o->n_operands++;
        }
    if (c >= d->p->n_external)
        deep_step(d, STEM_STEP_ALLOC, stream, c);
    deep_step(d, STEM_STEP_OP, stream, d->n_ops++);
}

/* x -> t; t -> u on main, t -> v on the side; u, v -> the next layer's x. */
static uint32_t deep_layer(struct deep *d, uint32_t layer, uint32_t x, uint32_t y)
{
    uint32_t t = deep_temp(d, 0), u = deep_temp(d, 1024), v = deep_temp(d, 2048);
    deep_op(d, 0, x, STEM_NONE, t);
    deep_step(d, STEM_STEP_RECORD, 0, d->n_events);
    if (layer)
        deep_step(d, STEM_STEP_FREE, 0, x);
    deep_op(d, 0, t, STEM_NONE, u);
    deep_step(d, STEM_STEP_WAIT, 1, d->n_events++);
    deep_op(d, 1, t, STEM_NONE, v);
    deep_step(d, STEM_STEP_RECORD, 1, d->n_events);
    uint32_t next = y == STEM_NONE ? deep_temp(d, 3072 + layer % 2 * 1024) : y;
    deep_step(d, STEM_STEP_WAIT, 0, d->n_events++);
    deep_op(d, 0, u, v, next);
    deep_step(d, STEM_STEP_FREE, 0, t);
    deep_step(d, STEM_STEP_FREE, 0, u);
    deep_step(d, STEM_STEP_FREE, 0, v);
    return next;
}

static struct deep deep_new(uint32_t layers)
{
    static const char *const streams[] = {"main", "side"};
    static const int32_t priorities[2];
    static const struct stem_plan_kernel kernels[] = {{"k", 0, false, 0, false}};
    struct deep d = {.p = stem_plan_new()};
    struct stem_plan_variant *v = stem_plan_alloc(d.p, sizeof *v);
    struct stem_plan_segment *segment = stem_plan_alloc(d.p, sizeof *segment);
    d.buffers = stem_plan_alloc(d.p, sizeof *d.buffers * (layers * 4 + 2));
    d.ops = stem_plan_alloc(d.p, sizeof *d.ops * layers * 4);
    d.operands = stem_plan_alloc(d.p, sizeof *d.operands * layers * 9);
    d.steps = stem_plan_alloc(d.p, sizeof *d.steps * layers * 17);
    d.p->n_external = 2;
    d.buffers[0] = (struct stem_plan_buffer){.name = "x", .kind = STEM_BUFFER_INPUT, .bytes = 1024, .align = 256};
    d.buffers[1] = (struct stem_plan_buffer){.name = "y", .kind = STEM_BUFFER_OUTPUT, .bytes = 1024, .align = 256};
    d.n_buffers = 2;
    for (uint32_t i = 0, x = 0; i < layers; i++)
        x = deep_layer(&d, i, x, i + 1 == layers ? 1 : STEM_NONE);
    *segment = (struct stem_plan_segment){.n_ops = d.n_ops, .n_steps = d.n_steps};
    deep_step(&d, STEM_STEP_SEGMENT, 0, 0);
    *v = (struct stem_plan_variant){.buffers = d.buffers, .n_buffers = d.n_buffers, .ops = d.ops, .n_ops = d.n_ops,
                                    .steps = d.steps, .n_steps = d.n_steps, .segments = segment, .n_segments = 1,
                                    .n_events = d.n_events, .slab_bytes = 5120};
    struct stem_plan_edge *edges = NULL;
    v->n_edges = stem_plan_derive_edges(v, 2, &edges);
    v->edges = stem_plan_alloc(d.p, sizeof *edges * v->n_edges);
    memcpy((void *)v->edges, edges, sizeof *edges * v->n_edges);
    free(edges);
    d.p->version = STEM_PLAN_VERSION;
    d.p->streams = streams;
    d.p->n_streams = 2;
    d.p->priorities = priorities;
    d.p->kernels = kernels;
    d.p->n_kernels = 1;
    d.p->variants = v;
    d.p->n_variants = 1;
    d.p->slab_bytes = 5120;
    return d;
}

/* 200,000 ops. Anything that is quadratic in them would take minutes. The fault in the last layer is found. */
static void deep(void)
{
    struct deep d = deep_new(50000);
    struct stem_diags *q = stem_diags_new(0);
    struct stem_out o = {0};
    CU_ASSERT(stem_verify(d.p, q));
    ((struct stem_plan_operand *)d.ops[d.n_ops - 2].operands)[1].tensor.buffer = d.n_buffers - 2; /* v becomes u */
    CU_ASSERT_FALSE(stem_verify(d.p, q));
    stem_diags_print(q, (struct stem_diag_style){0}, &o);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(o.text, "'op' (op 199998, stream side) overwrites what is written by 'op' (op 199997, stream main)"));
    stem_out_free(&o);
    stem_diags_free(q);
    stem_plan_free(d.p);
}

UNIT_MAIN("verify", {"every fault has its diagnostic", table}, {"races name both ops and the wait", races},
          {"many faults", many_faults}, {"200,000 ops", deep})
