/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdlib.h>

#include "runtime/plan.h"

/* A program as text: "op S" issues on stream S, "rec S E", "wait S E"; "op S p" is programmatic. */
static struct stem_plan *program(const char *text, uint32_t n_streams)
{
    static const char *const names[] = {"main", "a", "b", "c"};
    struct stem_plan *p = stem_plan_new();
    struct stem_plan_variant *v = stem_plan_alloc(p, sizeof *v);
    struct stem_plan_op *ops = stem_plan_alloc(p, 64 * sizeof *ops);
    struct stem_step *steps = stem_plan_alloc(p, 128 * sizeof *steps);
    struct stem_plan_kernel *kernel = stem_plan_alloc(p, sizeof *kernel);
    struct stem_plan_segment *segment = stem_plan_alloc(p, sizeof *segment);
    int32_t *priorities = stem_plan_alloc(p, n_streams * sizeof *priorities);
    char *copy = stem_plan_strdup(p, text), *save;
    for (char *line = strtok_r(copy, ";", &save); line; line = strtok_r(NULL, ";", &save)) {
        char word[8], flag = 0;
        unsigned s, e = 0;
        struct stem_step *step = &steps[v->n_steps++];
        CU_ASSERT_FATAL(sscanf(line, " %7s %u %u", word, &s, &e) >= 2);
        sscanf(line, " op %*u %c", &flag);
        step->stream = s;
        step->index = e;
        if (strcmp(word, "op") == 0) {
            step->kind = STEM_STEP_OP;
            step->index = v->n_ops;
            ops[v->n_ops++] = (struct stem_plan_op){.name = "op",
                                                    .kind = "kernel:k",
                                                    .stream = s,
                                                    .layer = STEM_NONE,
                                                    .grid = {1, 1, 1},
                                                    .block = {32, 1, 1},
                                                    .resource = STEM_NONE,
                                                    .programmatic = flag == 'p'};
        } else {
            step->kind = strcmp(word, "rec") == 0    ? STEM_STEP_RECORD
                         : strcmp(word, "wait") == 0 ? STEM_STEP_WAIT
                                                     : STEM_STEP_SEGMENT;
            if (step->kind != STEM_STEP_SEGMENT && e >= v->n_events)
                v->n_events = e + 1;
        }
    }
    kernel->name = "k";
    segment->n_ops = v->n_ops;
    segment->n_steps = v->n_steps;
    int64_t *dim = stem_plan_alloc(p, sizeof *dim);
    *dim = 4;
    static const char *const dims[] = {"T"};
    v->dim = dim, v->ops = ops, v->steps = steps, v->segments = segment, v->n_segments = 1;
    p->variants = v, p->n_variants = 1, p->kernels = kernel, p->n_kernels = 1, p->dims = dims, p->n_dims = 1;
    p->streams = names, p->n_streams = n_streams, p->priorities = priorities, p->sm = 90;
    return p;
}

static void edges_text(const struct stem_plan *p, char *out, size_t size)
{
    struct stem_plan_edge *edges;
    uint32_t n = stem_plan_derive_edges(&p->variants[0], p->n_streams, &edges);
    out[0] = '\0';
    if (n == STEM_NONE)
        snprintf(out, size, "none");
    for (uint32_t i = 0; n != STEM_NONE && i < n; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%u>%u%s%s", i ? " " : "", edges[i].from, edges[i].to,
                 edges[i].kind == STEM_EDGE_PROGRAMMATIC ? "p" : "", edges[i].continuation ? "c" : "");
    free(edges);
}

static void edges_follow_capture(void)
{
    static const struct {
        uint32_t n_streams;
        const char *steps, *edges;
    } table[] = {
        {1, "op 0; op 0; op 0", "0>1 1>2"},
        {1, "op 0; op 0 p", "0>1p"},
        /* fork and join */
        {2, "op 0; rec 0 0; op 0; wait 1 0; op 1; rec 1 1; wait 0 1; op 0", "0>1 0>2 1>3 2>3"},
        /* the fork is where it was recorded, not where it is waited for */
        {2, "op 0; rec 0 0; op 0; op 0; wait 1 0; op 1", "0>1 1>2 0>3"},
        /* the second block on a side stream continues the first; the join and the fork imply that edge */
        {2, "rec 0 0; op 0; wait 1 0; op 1; rec 1 1; wait 0 1; op 0; rec 0 2; op 0; wait 1 2; op 1",
         "0>2 1>2 2>3 1>4c 2>4"},
        /* not implied: the two blocks are not joined in between */
        {2, "op 0; op 1; rec 0 0; wait 1 0; op 1", "0>2 1>2"},
        /* a join is programmatic on its own stream only */
        {2, "op 0; rec 0 0; op 0; wait 1 0; op 1; rec 1 1; wait 0 1; op 0 p", "0>1 0>2 1>3p 2>3"},
        /* an event recorded again stands for the later moment; one that brings nothing adds nothing */
        {2, "rec 0 0; op 0; rec 0 0; op 0; wait 1 0; op 1", "0>1 0>2"},
        {2, "rec 0 0; wait 1 0; op 1; op 0", ""},
        /* a pending set passes through a stream without ops */
        {3, "op 0; rec 0 0; wait 1 0; rec 1 1; wait 2 1; op 2", "0>1"},
        {3, "op 0; rec 0 0; wait 1 0; op 1; wait 2 0; op 2; rec 1 1; rec 2 2; wait 0 1; wait 0 2; op 0",
         "0>1 0>2 0>3 1>3 2>3"},
        /* no edge crosses the end of a segment, not even through an event recorded before */
        {2, "op 0; rec 0 0; op 0; seg 0; wait 1 0; op 1; op 0", "0>1"},
        /* what does not exist */
        {1, "op 0; wait 0 3", "none"},
        {1, "op 0; op 1", "none"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct stem_plan *p = program(table[i].steps, table[i].n_streams);
        char got[512];
        edges_text(p, got, sizeof got);
        UNIT_SAME_TEXT(got, table[i].edges);
        stem_plan_free(p);
    }
}

static void tensors(void)
{
    static const struct {
        struct stem_tensor t;
        uint64_t elements, extent;
        bool contiguous;
    } table[] = {
        {{.dtype = STEM_F32, .rank = STEM_NONE}, 0, 0, true},
        {{.dtype = STEM_F32}, 1, 4, true},
        {{.dtype = STEM_BF16, .rank = 2, .dim = {4, 8}, .stride = {8, 1}}, 32, 64, true},
        {{.dtype = STEM_BF16, .rank = 2, .dim = {4, 8}, .stride = {16, 1}}, 32, (3 * 16 + 8) * 2, false},
        {{.dtype = STEM_BF16, .rank = 2, .dim = {1, 8}, .stride = {99, 1}}, 8, 16, true},
        {{.dtype = STEM_NVFP4, .rank = 1, .dim = {5}, .stride = {1}}, 5, 3, true},
        {{.dtype = STEM_F32, .rank = 2, .dim = {0, 8}, .stride = {8, 1}}, 0, 0, true},
        {{.dtype = STEM_F32, .rank = 2, .dim = {INT64_MAX, INT64_MAX}, .stride = {INT64_MAX, 1}},
         UINT64_MAX,
         UINT64_MAX,
         false},
        {{.dtype = STEM_F32, .rank = 1, .dim = {2}, .stride = {-1}}, 2, UINT64_MAX, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CU_ASSERT_EQUAL(stem_tensor_elements(&table[i].t), table[i].elements);
        CU_ASSERT_EQUAL(stem_tensor_extent(&table[i].t), table[i].extent);
        CU_ASSERT_EQUAL(stem_tensor_contiguous(&table[i].t), table[i].contiguous);
    }
}

static void memory(void)
{
    struct stem_plan *p = stem_plan_new();
    for (size_t n = 0; n < 3000; n += 7) {
        unsigned char *at = stem_plan_alloc(p, n * 100);
        CU_ASSERT_EQUAL((uintptr_t)at % 16, 0);
        size_t zeros = 0;
        for (size_t i = 0; i < n * 100; i++)
            zeros += at[i] == 0;
        CU_ASSERT_EQUAL(zeros, n * 100);
        memset(at, 0xff, n * 100);
    }
    CU_ASSERT_PTR_NULL(stem_plan_alloc(p, SIZE_MAX - 3));
    stem_plan_free(p);
    stem_plan_free(NULL);
}

/* One of everything that JSON can express. */
static struct stem_plan *rich(void)
{
    struct stem_plan *p = program("op 0; rec 0 0; op 0 p; wait 1 0; op 1; rec 1 1; wait 0 1; op 0", 2);
    struct stem_plan_variant *v = stem_plan_alloc(p, sizeof *v);
    *v = p->variants[0];
    struct stem_plan_buffer *buffers = stem_plan_alloc(p, 2 * sizeof *buffers);
    buffers[0] = (struct stem_plan_buffer){.name = "h\"\\\n\xc3\xa9",
                                           .kind = STEM_BUFFER_STATE,
                                           .bytes = 64,
                                           .align = 16,
                                           .dtype = STEM_BF16,
                                           .rank = 2,
                                           .dim = {4, 8},
                                           .line = 7,
                                           .low = -2,
                                           .high = INT64_MAX};
    buffers[1] = (struct stem_plan_buffer){
        .name = "t", .bytes = 64, .align = 256, .offset = 256, .dtype = STEM_U8, .rank = 1, .dim = {64}};
    struct stem_plan_op *ops = stem_plan_alloc(p, v->n_ops * sizeof *ops);
    memcpy(ops, v->ops, v->n_ops * sizeof *ops);
    struct stem_plan_operand *operands = stem_plan_alloc(p, 3 * sizeof *operands);
    operands[0] = (struct stem_plan_operand){
        STEM_READ, {.buffer = 0, .offset = 16, .dtype = STEM_BF16, .rank = 2, .dim = {3, 8}, .stride = {8, 1}}};
    operands[1] = (struct stem_plan_operand){STEM_READ_WRITE,
                                             {.buffer = 1, .dtype = STEM_I64, .rank = 1, .dim = {8}, .stride = {1}}};
    operands[2] = (struct stem_plan_operand){STEM_READ, {.buffer = STEM_NONE, .rank = STEM_NONE}};
    struct stem_scalar *scalars = stem_plan_alloc(p, 3 * sizeof *scalars);
    scalars[0] = (struct stem_scalar){.kind = STEM_SCALAR_I32, .i = -5};
    scalars[1] = (struct stem_scalar){.kind = STEM_SCALAR_I64, .i = INT64_MIN};
    scalars[2] = (struct stem_scalar){.kind = STEM_SCALAR_F32, .f = 0.1};
    struct stem_attr *attrs = stem_plan_alloc(p, 4 * sizeof *attrs);
    attrs[0] = (struct stem_attr){.name = "k", .kind = STEM_ATTR_INT, .i = 8};
    attrs[1] = (struct stem_attr){.name = "floor", .kind = STEM_ATTR_FLOAT, .f = -1.0 / 0.0};
    attrs[2] = (struct stem_attr){.name = "score", .kind = STEM_ATTR_TEXT, .text = "sigmoid"};
    ops[0].operands = operands, ops[0].n_operands = 3, ops[0].scalars = scalars, ops[0].n_scalars = 3;
    attrs[3] = (struct stem_attr){.name = "then", .kind = STEM_ATTR_TEXT}; /* not given */
    ops[0].attrs = attrs, ops[0].n_attrs = 4, ops[0].layer = 2, ops[0].smem = 1024, ops[0].est_us = 1.5;
    ops[1].work = STEM_WORK_MEMSET, ops[1].operands = operands + 1, ops[1].n_operands = 1, ops[1].memset_value = 255;
    ops[1].programmatic = false;
    ops[2].work = STEM_WORK_EXTERN, ops[2].resource = 0;
    v->buffers = buffers, v->n_buffers = 2, v->ops = ops, v->slab_bytes = 512, v->lanes = 2;
    struct stem_plan_edge *edges;
    v->n_edges = stem_plan_derive_edges(v, 2, &edges);
    struct stem_plan_edge *kept = stem_plan_alloc(p, v->n_edges * sizeof *kept);
    memcpy(kept, edges, v->n_edges * sizeof *kept);
    free(edges);
    v->edges = kept;
    static const struct stem_plan_kernel kernels[] = {{"k", 2048, true, 6, true}};
    static const struct stem_plan_extern externs[] = {{"sum_ranks", "libranks.so"}, {"other", NULL}};
    static const char *const resources[] = {"comm"};
    static const int32_t priorities[] = {0, -1};
    p->kernels = kernels, p->externs = externs, p->n_externs = 2, p->resources = resources, p->n_resources = 1;
    p->priorities = priorities, p->variants = v, p->n_external = 1, p->slab_bytes = 512;
    p->name = "rich", p->source = "rich.stem", p->cuda = "// \"text\"\n\t__global__ \xff";
    return p;
}

static void round_trip(void)
{
    struct stem_plan *p = rich();
    char *first = stem_plan_to_json(p), *error = NULL;
    struct stem_plan *again = stem_plan_from_json(first, strlen(first), &error);
    if (!again)
        fprintf(stderr, "%s\n%s\n", error, first);
    CU_ASSERT_PTR_NOT_NULL_FATAL(again);
    char *second = stem_plan_to_json(again);
    UNIT_SAME_TEXT(second, first);
    const struct stem_plan_op *op = &again->variants[0].ops[0];
    CU_ASSERT_EQUAL(op->scalars[1].i, INT64_MIN);
    CU_ASSERT_EQUAL(op->scalars[2].f, 0.1);
    CU_ASSERT(op->attrs[1].f < -1e300);
    CU_ASSERT_PTR_NULL(op->attrs[3].text);
    CU_ASSERT_EQUAL(op->operands[0].tensor.offset, 16);
    CU_ASSERT_EQUAL(op->operands[2].tensor.rank, STEM_NONE);
    CU_ASSERT_EQUAL(again->variants[0].ops[1].layer, STEM_NONE);
    CU_ASSERT_EQUAL(again->variants[0].ops[1].memset_value, 255);
    CU_ASSERT_EQUAL(again->priorities[1], -1);
    CU_ASSERT(again->kernels[0].ahead && again->kernels[0].early == 6);
    UNIT_SAME_TEXT(again->variants[0].buffers[0].name, "h\"\\\n\xc3\xa9");
    CU_ASSERT_PTR_NULL(again->externs[1].library);
    CU_ASSERT_EQUAL(stem_plan_find_variant(again, (int64_t[]){4}), 0);
    CU_ASSERT_EQUAL(stem_plan_find_variant(again, (int64_t[]){5}), STEM_NONE);
    free(first);
    free(second);
    stem_plan_free(p);
    stem_plan_free(again);
}

/* Replaces the first occurrence of `from`; the message must start with the place. */
static void faults_are_located(void)
{
    static const struct {
        const char *from, *to, *message;
    } table[] = {
        {"\"sm\":90", "\"sm\":-1", "sm: -1 is not in 0..4294967294"},
        {"\"sm\":90", "\"ms\":90", "sm: missing"},
        {"\"sm\":90", "\"sm\":90,\"x\":0", "unknown member \"x\""},
        {"\"mainstem_plan\":1", "\"mainstem_plan\":2", "mainstem_plan: 2 is not in 1..1"},
        {"\"stream\":0", "\"stream\":2", "variants[0].ops[0].stream: 2 is not in 0..1"},
        {"\"stream\":0", "\"stream\":1", "variants[0].steps[0]: not the stream of op 0"},
        {"\"segment\":0", "\"segment\":1", "variants[0].ops[0].segment: there is no segment 1"},
        {"\"work\":\"launch\"", "\"work\":\"lunch\"", "variants[0].ops[0].work: unknown word \"lunch\"; it is one of launch, memset, extern, matmul"},
        {"\"kernel\":0", "\"kernel\":1", "variants[0].ops[0].kernel: 1 is not in 0..0"},
        {"\"grid\":[1,1,1]", "\"grid\":[0,1,1]", "variants[0].ops[0].grid: out of range"},
        {"\"grid\":[1,1,1]", "\"grid\":[1,1]", "variants[0].ops[0].grid: expected three integers"},
        {"\"block\":[32,1,1]", "\"block\":[64,64,1]", "variants[0].ops[0].block: more than 1024 threads"},
        {"\"smem\":1024", "\"smem\":4096", "variants[0].ops[0].smem: more than the kernel's max_smem"},
        {"\"buffer\":0", "\"buffer\":2", "variants[0].ops[0].operands[0].buffer: 2 is not in 0..1"},
        {"\"offset\":16", "\"offset\":17", "variants[0].ops[0].operands[0]: beyond the end of its buffer"},
        {"\"offset\":16", "\"offset\":9223372036854775807",
         "variants[0].ops[0].operands[0]: beyond the end of its buffer"},
        {"\"stride\":[8,1]", "\"stride\":[9223372036854775807,1]",
         "variants[0].ops[0].operands[0]: beyond the end of its buffer"},
        {"\"stride\":[8,1]", "\"stride\":[1]",
         "variants[0].ops[0].operands[0].stride: as many as dimensions are needed"},
        {"\"dim\":[3,8]", "\"dim\":[1,1,1,1,1,1,1]", "variants[0].ops[0].operands[0].dim: too many dimensions"},
        {"\"dim\":[4,8]", "\"dim\":[4,7]", "variants[0].buffers[0].dim: these elements have 56 bytes, the buffer has 64"},
        {"\"dim\":[4,8]", "\"dim\":[4,0]", "variants[0].buffers[0].dim: these elements have 0 bytes, the buffer has 64"},
        {"\"dim\":[4,8]", "\"dim\":[4611686018427387904,4,4611686018427387912]",
         "variants[0].buffers[0].dim: more elements than memory can have"},
        {"\"align\":256", "\"align\":24", "variants[0].buffers[1].align: not a power of two"},
        {"\"offset\":256", "\"offset\":512", "variants[0].buffers[1].offset: beyond the slab"},
        {"\"kind\":\"state\"", "\"kind\":\"temp\",\"offset\":0",
         "variants[0].buffers[0].kind: the first n_external buffers are the external ones, and only they"},
        {"\"kind\":\"state\"", "\"kind\":\"weight\",\"from\":\"a{\"", "variants[0].buffers[0].from: a '{' without a '}'"},
        {"\"kind\":\"state\"", "\"kind\":\"weight\",\"from\":\"a.{b,}\"",
         "variants[0].buffers[0].from: a list in braces has a name that is empty"},
        {"\"kind\":\"state\"", "\"kind\":\"weight\",\"from\":\"{,a}\"",
         "variants[0].buffers[0].from: a list in braces has a name that is empty"},
        {"\"kind\":\"state\"", "\"kind\":\"state\",\"from\":\"a\"",
         "variants[0].buffers[0].from: only a weight comes from a checkpoint"},
        {"\"kind\":\"state\"", "\"kind\":\"state\",\"inout\":true",
         "variants[0].buffers[0].inout: only an input is updated in the caller's memory"},
        {"\"kind\":\"state\"", "\"kind\":\"input\",\"inout\":1", "variants[0].buffers[0].inout: expected true or false"},
        {"\"kind\":\"state\"", "\"kind\":\"weight\",\"from\":1", "variants[0].buffers[0].from: expected a string"},
        {"[\"op\",0,0]", "[\"op\",0,1]", "variants[0].steps[0]: op 1 is issued where op 0 is due"},
        {"[\"record\",0,0]", "[\"wait\",0,0]", "variants[0].steps[1]: waits for event 0 before it is recorded"},
        {"[\"record\",0,0]", "[\"free\",0,0]", "variants[0].steps[1]: buffer 0 is not a temporary one"},
        {"[\"record\",0,0]", "[\"record\",0,9]", "variants[0].steps[1]: there is no event 9"},
        {"[\"record\",0,0]", "[\"record\",0]", "variants[0].steps[1]: expected [kind, stream, index]"},
        {"[0,1,\"full\"]", "[1,0,\"full\"]", "variants[0].edges[0]: does not go from an op to a later one"},
        {"\"n_ops\":4", "\"n_ops\":3", "variants[0].steps[7]: an op of another segment"},
        {"\"slab_bytes\":512", "\"slab_bytes\":8", "variants[0]: a larger slab than the plan's"},
        {"\"name\":\"sum_ranks\"", "\"name\":\"sum ranks\"", "externs[0].name: not a C identifier"},
        {"\"int\":8", "\"int\":1e99", "variants[0].ops[0].attrs[0].int: expected an integer"},
        {"\"float\":\"-inf\"", "\"float\":\"minus\"",
         "variants[0].ops[0].attrs[1].float: expected a number, or \"inf\", \"-inf\" or \"nan\""},
        {"\"value\":255", "\"value\":255,\"counters\":[0,1]", "variants[0].ops[1]: unknown member \"counters\""},
        {"\"smem\":1024", "\"smem\":1024,\"counters\":[0,1]", "variants[0].ops[0]: unknown member \"counters\""},
        {"\"dims\":[\"T\"]", "\"dims\":[]", "variants[0].dim: as many as plan.dims are needed"},
        {"{\"mainstem_plan\"", "[\"mainstem_plan\"", "line 1, column 17: ']' expected near ':'"},
    };
    struct stem_plan *p = rich();
    char *text = stem_plan_to_json(p);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char *at = strstr(text, table[i].from), *error = NULL, *changed = NULL;
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        size_t head = (size_t)(at - text), n = strlen(text) + strlen(table[i].to) + 1;
        changed = malloc(n);
        snprintf(changed, n, "%.*s%s%s", (int)head, text, table[i].to, at + strlen(table[i].from));
        struct stem_plan *got = stem_plan_from_json(changed, strlen(changed), &error);
        CU_ASSERT_PTR_NULL(got);
        UNIT_SAME_TEXT(error ? error : "(none)", table[i].message);
        stem_plan_free(got);
        free(error);
        free(changed);
    }
    free(text);
    stem_plan_free(p);
}

/* Whatever the bytes, the answer is a plan or a message. */
static void damaged_text(void)
{
    struct stem_plan *p = rich();
    char *text = stem_plan_to_json(p);
    size_t n = strlen(text);
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < 3000; i++) {
        char *copy = malloc(n), *error = NULL;
        memcpy(copy, text, n);
        size_t len = n;
        for (int k = 0; k < 1 + i % 3; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            copy[state % n] = "0123456789-[]{}\",:e."[(state >> 40) % 20];
        }
        if (i % 10 == 0)
            len = state % n;
        struct stem_plan *got = stem_plan_from_json(copy, len, &error);
        CU_ASSERT((got != NULL) == (error == NULL));
        if (got) {
            struct stem_plan_edge *edges;
            stem_plan_derive_edges(&got->variants[0], got->n_streams, &edges);
            free(edges);
        }
        stem_plan_free(got);
        free(error);
        free(copy);
    }
    free(text);
    stem_plan_free(p);
}

UNIT_MAIN("plan", {"edges follow the rule of capture", edges_follow_capture}, {"tensors", tensors},
          {"memory", memory}, {"JSON round trip", round_trip}, {"faults are located", faults_are_located},
          {"damaged text", damaged_text})
