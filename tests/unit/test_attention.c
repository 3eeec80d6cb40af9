/* SPDX-License-Identifier: Apache-2.0
 *
 * References of the attention ops against computations that know nothing of pages, shares and partial sums: keys are
 * gathered first, softmax is taken as it is written.
 */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "ir/build.h"
#include "ops/attention/attention.h"
#include "ops/ref.h"

static uint64_t seed = 3;

static uint32_t below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

/* Multiples of 1/8 in -2..2: exact in every type. */
static float small(void)
{
    return ((float)below(33) - 16.0f) / 8.0f;
}

static float *random_floats(size_t n)
{
    float *p = malloc(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = small();
    return p;
}

/* ---- running an op, composites through the builder ---- */

struct operand {
    enum stem_dtype type;
    void *data; /* NULL: absent */
    uint32_t rank;
    int64_t dim[4];
    enum stem_mode mode;
};

/* Runs the references of the primitives that the call becomes. Results are in a new array of bytes each. */
static void run(const char *name, const struct operand *in, uint32_t n_in, const struct stem_attr *given, uint32_t n_given,
                void **result)
{
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_dims *dims = stem_dims_new();
    struct stem_diags *diags = stem_diags_new(0);
    struct stem_program *p = stem_program_new(strings, NULL);
    struct stem_builder b = stem_builder_new(p, dims, diags);
    const struct stem_op_def *def = stem_op_find(name);
    struct stem_input inputs[STEM_MAX_OPERANDS];
    struct stem_attr attrs[STEM_MAX_ATTRS];
    struct stem_value_id results[STEM_MAX_OPERANDS];
    b.name = stem_intern(strings, "r");
    for (uint32_t i = 0; i < n_in; i++) {
        inputs[i] = (struct stem_input){STEM_NO_VALUE, in[i].mode, STEM_NOWHERE};
        if (in[i].data)
            inputs[i].value = stem_build_buffer(&b, in[i].mode == STEM_MODE_INOUT ? STEM_BUFFER_STATE : STEM_BUFFER_INPUT,
                                                stem_intern_printf(strings, "in%u", i), in[i].type, in[i].rank, in[i].dim);
    }
    stem_op_attr_defaults(def, attrs);
    for (uint32_t i = 0; i < n_given; i++)
        *(struct stem_attr *)stem_op_attr(def, attrs, given[i].name) = given[i];
    bool built = stem_build_op(&b, def, inputs, n_in, attrs, NULL, results);
    if (!built)
        fprintf(stderr, "%s\n", stem_diags_get(diags, 0)->text);
    CU_ASSERT_FATAL(built);
    void **memory = calloc(p->buffers.len, sizeof *memory);
    for (uint32_t i = 0, k = 0; i < n_in; i++)
        if (in[i].data)
            memory[k++] = in[i].data;
    for (uint32_t i = 0; i < p->buffers.len; i++)
        if (!memory[i])
            memory[i] = memset(malloc(p->buffers.at[i].bytes), 0xff, p->buffers.at[i].bytes);
    for (uint32_t i = 0; i < p->ops.len; i++) {
        struct stem_tensor operands[STEM_MAX_OPERANDS];
        struct stem_concrete c;
        void *data[STEM_MAX_OPERANDS];
        stem_op_concrete(p, &p->ops.at[i], operands, &c);
        for (uint32_t k = 0; k < c.n_in + c.n_out; k++)
            data[k] = operands[k].rank == STEM_NONE ? NULL : (char *)memory[operands[k].buffer] + operands[k].offset;
        p->ops.at[i].def->reference(&c, data);
    }
    uint32_t kept = stem_op_n_results(def) ? stem_value_at(p, results[0])->tensor.buffer : STEM_NONE;
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        bool given_one = false;
        for (uint32_t k = 0; k < n_in; k++)
            given_one |= memory[i] == in[k].data;
        if (i == kept)
            *result = memory[i];
        else if (!given_one)
            free(memory[i]);
    }
    free(memory);
    stem_program_free(p);
    stem_diags_free(diags);
    stem_dims_free(dims);
    stem_strtab_free(strings);
}

/* ---- attention ---- */

struct cached {
    int tokens, pages, page, per_sequence;
    int32_t *table, *lens;
};

/* Pages at random, among them some that do not exist; lengths from below nothing to above all. */
static struct cached cached(int tokens, int pages, int page, int per_sequence)
{
    struct cached c = {tokens, pages, page, per_sequence, malloc((size_t)(tokens * per_sequence) * 4),
                       malloc((size_t)tokens * 4)};
    for (int i = 0; i < tokens * per_sequence; i++)
        c.table[i] = (int32_t)below((uint32_t)pages + 2) - 1;
    for (int t = 0; t < tokens; t++)
        c.lens[t] = t == 1 ? -5 : t == 2 ? 100000 : (int32_t)below((uint32_t)(page * per_sequence + 1));
    return c;
}

static void release(struct cached *c)
{
    free(c->table);
    free(c->lens);
}

static int length_of(const struct cached *c, int t)
{
    int n = c->lens[t], most = c->page * c->per_sequence;
    return n < 0 ? 0 : n > most ? most : n;
}

static int row_of(const struct cached *c, int t, int i)
{
    int page = c->table[t * c->per_sequence + i / c->page];
    return (page < 0 || page >= c->pages ? 0 : page) * c->page + i % c->page;
}

/* y = softmax over `rows` of scale * q . k, times v; strides in floats. */
static void softmax(const float *q, const float *k, const float *v, const int *rows, int n, int stride, int width,
                    int latent, double scale, double *y)
{
    double *e = malloc((size_t)(n + 1) * sizeof *e), sum = 0, top = -INFINITY;
    for (int i = 0; i < n; i++) {
        e[i] = 0;
        for (int d = 0; d < width; d++)
            e[i] += (double)q[d] * (double)k[rows[i] * stride + d];
        e[i] *= scale;
        top = e[i] > top ? e[i] : top;
    }
    for (int i = 0; i < n; i++)
        sum += e[i] = exp(e[i] - top);
    for (int d = 0; d < latent; d++) {
        y[d] = 0;
        for (int i = 0; i < n; i++)
            y[d] += e[i] / sum * (double)v[rows[i] * stride + d];
    }
    free(e);
}

static void *convert(enum stem_dtype type, const float *x, size_t n)
{
    char *p = malloc(n * 4);
    for (size_t i = 0; i < n; i++)
        stem_ref_store(type, p, (int64_t)i, x[i]);
    return p;
}

static double bound_of(enum stem_dtype type) /* rounding p and y */
{
    return type == STEM_F32 ? 2e-6 : type == STEM_F16 ? 1e-3 : 8e-3;
}

static void gqa_one(enum stem_dtype type, int tokens, int heads, int groups, int width, int page, double given)
{
    struct cached c = cached(tokens, 7, page, 90 / page);
    size_t nq = (size_t)(tokens * heads * width), nk = (size_t)(c.pages * page * groups * width);
    float *q = random_floats(nq), *k = random_floats(nk), *v = random_floats(nk);
    void *tq = convert(type, q, nq), *tk = convert(type, k, nk), *tv = convert(type, v, nk), *y = NULL;
    struct operand in[] = {{type, tq, 3, {tokens, heads, width}, STEM_MODE_IN},
                           {type, tk, 4, {c.pages, page, groups, width}, STEM_MODE_IN},
                           {type, tv, 4, {c.pages, page, groups, width}, STEM_MODE_IN},
                           {STEM_I32, c.table, 2, {tokens, c.per_sequence}, STEM_MODE_IN},
                           {STEM_I32, c.lens, 1, {tokens}, STEM_MODE_IN}};
    struct stem_attr scale = {.name = "scale", .kind = STEM_ATTR_FLOAT, .f = given};
    run("gqa_attention", in, 5, &scale, given > 0, &y);
    double want[256], worst = 0;
    int rows[128];
    for (int o = 0; o < tokens * heads; o++) {
        int t = o / heads, group = o % heads / (heads / groups), n = length_of(&c, t);
        for (int i = 0; i < n; i++)
            rows[i] = row_of(&c, t, i) * groups + group;
        softmax(q + o * width, k, v, rows, n, width, width, width, given > 0 ? given : 1 / sqrt(width), want);
        for (int d = 0; d < width; d++)
            worst = fmax(worst, fabs((double)stem_ref_load(type, y, o * width + d) - want[d]));
    }
    if (!(worst <= bound_of(type)))
        fprintf(stderr, "gqa t%d h%d/%d d%d page %d: off by %g\n", tokens, heads, groups, width, page, worst);
    CU_ASSERT(worst <= bound_of(type));
    release(&c);
    for (int i = 0; i < 7; i++)
        free((void *[]){q, k, v, tq, tk, tv, y}[i]);
}

static void gqa(void)
{
    gqa_one(STEM_F32, 4, 6, 2, 20, 7, 0);
    gqa_one(STEM_F32, 1, 3, 3, 16, 90, 0.4);
    gqa_one(STEM_BF16, 40, 16, 1, 64, 16, 0);
    gqa_one(STEM_F16, 5, 8, 4, 32, 1, 0.1);
}

static void mla_one(enum stem_dtype type, int tokens, int heads, int width, int latent, int chosen)
{
    struct cached c = cached(tokens, 5, 8, 9);
    size_t nq = (size_t)(tokens * heads * width), nk = (size_t)(c.pages * c.page * width);
    float *q = random_floats(nq), *k = random_floats(nk);
    void *tq = convert(type, q, nq), *tk = convert(type, k, nk), *y = NULL;
    int32_t *indices = malloc((size_t)(tokens * chosen + 1) * 4);
    for (int i = 0; i < tokens * chosen; i++)
        indices[i] = (int32_t)below(80) - 4;
    struct operand in[] = {{type, tq, 3, {tokens, heads, width}, STEM_MODE_IN},
                           {type, tk, 3, {c.pages, c.page, width}, STEM_MODE_IN},
                           {STEM_I32, c.table, 2, {tokens, c.per_sequence}, STEM_MODE_IN},
                           {STEM_I32, c.lens, 1, {tokens}, STEM_MODE_IN},
                           {STEM_I32, chosen ? indices : NULL, 2, {tokens, chosen}, STEM_MODE_IN}};
    struct stem_attr attrs[] = {{.name = "scale", .kind = STEM_ATTR_FLOAT, .f = 0.25},
                                {.name = "latent", .kind = STEM_ATTR_INT, .i = latent}};
    run("mla_attention", in, 5, attrs, 2, &y);
    double want[256], worst = 0;
    int rows[128];
    for (int o = 0; o < tokens * heads; o++) {
        int t = o / heads, n = 0, all = length_of(&c, t);
        for (int i = 0; i < (chosen ? chosen : all); i++) {
            int at = chosen ? indices[t * chosen + i] : i;
            if (at >= 0 && at < all)
                rows[n++] = row_of(&c, t, at);
        }
        softmax(q + o * width, k, k, rows, n, width, width, latent, 0.25, want);
        for (int d = 0; d < latent; d++)
            worst = fmax(worst, fabs((double)stem_ref_load(type, y, o * latent + d) - want[d]));
    }
    if (!(worst <= bound_of(type)))
        fprintf(stderr, "mla t%d h%d d%d/%d k%d: off by %g\n", tokens, heads, width, latent, chosen, worst);
    CU_ASSERT(worst <= bound_of(type));
    release(&c);
    for (int i = 0; i < 6; i++)
        free((void *[]){q, k, tq, tk, y, indices}[i]);
}

static void mla(void)
{
    mla_one(STEM_F32, 4, 5, 24, 16, 0);
    mla_one(STEM_F32, 4, 130, 8, 8, 0); /* three groups of 44, 44, 42 heads */
    mla_one(STEM_BF16, 3, 16, 72, 64, 0);
    mla_one(STEM_F32, 4, 5, 24, 16, 50);
    mla_one(STEM_F16, 35, 2, 24, 16, 3);
}

/* Every slot belongs to exactly one block, and the shares of an item are all of it. */
static void shares(void)
{
    for (int round = 0; round < 300; round++) {
        int tokens = 1 + (int)below(40), groups = 1 + (int)below(4), unit = 1 + (int)below(5), parts = 1 + (int)below(30);
        int32_t lens[40];
        for (int t = 0; t < tokens; t++)
            lens[t] = below(3) ? (int32_t)below(60) : 0;
        struct stem_attention_sizes s = {.tokens = tokens, .groups = groups, .unit = unit, .parts = parts, .most = 50};
        struct stem_attention_share share = stem_attention_share_out(&s, lens);
        int64_t items = tokens * groups, all = share.start[items], next = 0;
        for (int64_t b = 0; b < parts; b++) {
            int64_t from = all * b / parts, to = all * (b + 1) / parts;
            CU_ASSERT_EQUAL(b + share.first[b], next);
            next = b + share.first[b + 1] + 1;
            /* the units lie within the block's items */
            CU_ASSERT(from == to || share.start[share.first[b]] <= from);
            CU_ASSERT(to <= share.start[share.first[b + 1] + 1]);
        }
        CU_ASSERT_EQUAL(next, parts + items - 1);
        stem_attention_share_free(&share);
    }
}

/* ---- the others ---- */

static void store(void)
{
    float cache[5 * 2 * 3], x[4 * 3];
    int32_t slot[] = {7, -1, 10, 0};
    for (int i = 0; i < 30; i++)
        cache[i] = (float)i;
    for (int i = 0; i < 12; i++)
        x[i] = 100 + (float)i;
    struct operand in[] = {{STEM_F32, cache, 3, {5, 2, 3}, STEM_MODE_INOUT},
                           {STEM_F32, x, 2, {4, 3}, STEM_MODE_IN},
                           {STEM_I32, slot, 1, {4}, STEM_MODE_IN}};
    run("cache_store", in, 3, NULL, 0, NULL);
    for (int i = 0; i < 30; i++)
        CU_ASSERT_EQUAL(cache[i], i / 3 == 7 ? 100.0f + (float)(i % 3) : i / 3 == 0 ? 109.0f + (float)i : (float)i);
}

static void scores(void)
{
    enum { T = 4, H = 3, D = 10, N = 50 };
    struct cached c = cached(T, 6, 9, 7);
    float *q = random_floats(T * H * D), *w = random_floats(T * H), *k = random_floats(6 * 9 * D), *y;
    struct operand in[] = {{STEM_F32, q, 3, {T, H, D}, STEM_MODE_IN},
                           {STEM_F32, w, 2, {T, H}, STEM_MODE_IN},
                           {STEM_F32, k, 3, {6, 9, D}, STEM_MODE_IN},
                           {STEM_I32, c.table, 2, {T, 7}, STEM_MODE_IN},
                           {STEM_I32, c.lens, 1, {T}, STEM_MODE_IN}};
    struct stem_attr most = {.name = "max_len", .kind = STEM_ATTR_INT, .i = N};
    run("index_scores", in, 5, &most, 1, (void **)&y);
    for (int t = 0; t < T; t++)
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int h = 0; h < H; h++) {
                double dot = 0;
                for (int d = 0; d < D; d++)
                    dot += (double)q[(t * H + h) * D + d] * (double)k[row_of(&c, t, i) * D + d];
                sum += (double)w[t * H + h] * (dot > 0 ? dot : 0);
            }
            CU_ASSERT_EQUAL(y[t * N + i], i < length_of(&c, t) ? (float)sum : -INFINITY); /* eighths: exact */
        }
    release(&c);
    for (int i = 0; i < 4; i++)
        free((void *[]){q, w, k, y}[i]);
}

static void top(void)
{
    float x[2][8] = {{3, -1, 3, NAN, 0.5f, -INFINITY, 3, 7}, {-0.0f, 0, -5, INFINITY, 0, 1, 9, 9}};
    static const struct {
        int k;
        bool lens;
        int32_t want[2][8];
    } cases[] = {
        {3, false, {{0, 2, 7}, {3, 6, 7}}},
        {4, false, {{0, 2, 6, 7}, {3, 5, 6, 7}}},
        {5, false, {{0, 2, 4, 6, 7}, {0, 3, 5, 6, 7}}}, /* -0, 0, 0: the lowest index */
        {8, false, {{0, 1, 2, 4, 6, 7, -1, -1}, {0, 1, 2, 3, 4, 5, 6, 7}}},
        {2, true, {{0, 2}, {-1, -1}}},
    };
    int32_t lens[] = {5, -3};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int k = cases[i].k;
        int32_t *y;
        struct operand in[] = {{STEM_F32, x, 2, {2, 8}, STEM_MODE_IN},
                               {STEM_I32, cases[i].lens ? lens : NULL, 1, {2}, STEM_MODE_IN}};
        struct stem_attr attr = {.name = "k", .kind = STEM_ATTR_INT, .i = k};
        run("top_k", in, 2, &attr, 1, (void **)&y);
        for (int j = 0; j < 2 * k; j++)
            CU_ASSERT_EQUAL(y[j], cases[i].want[j / k][j % k]);
        free(y);
    }
}

UNIT_MAIN("attention", {"grouped queries", gqa}, {"latents", mla}, {"shares", shares}, {"stores", store},
          {"index scores", scores}, {"the k largest", top})
