/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of attention.cu: shapes to check, and configurations to time.
 */

/* Launches as the runtime does: with STEM_PDL, early. */
template <class... P, class... A>
static void go(void (*kernel)(P...), dim3 grid, int block, int smem, cudaStream_t s, A... args)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = dim3(block);
    c.dynamicSmemBytes = smem;
    c.stream = s;
    c.attrs = &early;
    c.numAttrs = STEM_PDL;
    CHECK(cudaLaunchKernelEx(&c, kernel, P(args)...));
}

/* ---- grouped queries ---- */

template <class E, int D, int ROWS, int GROUPS, int PAGE, int STAGES>
__global__ void __launch_bounds__(128)
    k_gqa(const E *q, const E *k, const E *v, const int *table, const int *lens, float *acc, float *ml, int tokens, int heads,
          int pages, int max_pages, int parts, float scale)
{
    stem_gqa_part<E, D, ROWS, GROUPS, PAGE, STAGES>(q, k, v, table, lens, acc, ml, tokens, heads, pages, max_pages, parts,
                                                    scale);
}
template <class E, int ROWS, int GROUPS, int D, int SLICE, int UNIT, bool SPARSE, int WARPS, int BATCH>
__global__ void __launch_bounds__(256, 4)
    k_combine(const float *acc, const float *ml, const int *lens, E *y, int tokens, int heads, int most, int parts)
{
    stem_attention_combine<E, ROWS, GROUPS, D, SLICE, UNIT, SPARSE, WARPS, BATCH>(acc, ml, lens, y, tokens, heads, most, parts);
}
/* As attention_combine is lowered, but for the size of a batch: what the most shares need. */
template <class E, int ROWS, int GROUPS, int D, int UNIT, bool SPARSE>
static void combine(const float *acc, const float *ml, const int *lens, E *y, int tokens, int heads, int most, int parts,
                    cudaStream_t s)
{
    constexpr int FEW = D % 64 ? D : 64, MANY = D % 128 ? D : 128, BATCH = UNIT == 64 ? 10 : 18;
    constexpr int SOME = D % 64 ? 36 / ((D + 31) / 32) : BATCH, LESS = D % 128 ? 36 / ((D + 31) / 32) : 8;
    int warps = tokens == 1 ? 8 : tokens == 2 ? 4 : tokens <= 4 ? 2 : 1, slice = tokens <= 8 ? FEW : MANY;
    auto kernel = tokens == 1   ? k_combine<E, ROWS, GROUPS, D, FEW, UNIT, SPARSE, 8, SOME>
                  : tokens == 2 ? k_combine<E, ROWS, GROUPS, D, FEW, UNIT, SPARSE, 4, SOME>
                  : tokens <= 4 ? k_combine<E, ROWS, GROUPS, D, FEW, UNIT, SPARSE, 2, SOME>
                  : tokens <= 8 ? k_combine<E, ROWS, GROUPS, D, FEW, UNIT, SPARSE, 1, SOME>
                                : k_combine<E, ROWS, GROUPS, D, MANY, UNIT, SPARSE, 1, LESS>;
    go(kernel, dim3((tokens * heads * (D / slice) * warps + 7) / 8), 256, 0, s, acc, ml, lens, y, tokens, heads, most, parts);
}

template <class E> struct gqa_arrays {
    E *q, *k, *v, *y;
    float *acc, *ml;
    int pages;
};

template <class E, int D, int ROWS, int GROUPS, int PAGE, int STAGES>
static void gqa(const gqa_arrays<E> &a, const int *table, const int *lens, int tokens, int per_sequence, int parts,
                bool whole, cudaStream_t s)
{
    const int smem = stem_gqa_smem<D, ROWS, STAGES>, heads = ROWS * GROUPS;
    static bool once = (allow(k_gqa<E, D, ROWS, GROUPS, PAGE, STAGES>, smem), true);
    (void)once;
    int units = tokens * GROUPS * ((per_sequence * PAGE + 63) / 64);
    parts = std::min(parts, units);
    go(k_gqa<E, D, ROWS, GROUPS, PAGE, STAGES>, dim3(parts), 128, smem, s, a.q, a.k, a.v, table, lens, a.acc, a.ml, tokens,
       heads, a.pages, per_sequence, parts, (float)(1.4426950408889634 / sqrt((double)D)));
    if (whole)
        combine<E, ROWS, GROUPS, D, 64, false>(a.acc, a.ml, lens, a.y, tokens, heads, per_sequence * PAGE, parts, s);
}

template <class E, int D, int ROWS, int GROUPS, int PAGE, int STAGES>
static void check_gqa(int tokens, int context, bool ragged)
{
    const int heads = ROWS * GROUPS, per_sequence = (context + PAGE - 1) / PAGE, pages = tokens * per_sequence;
    gqa_arrays<E> a = {random_array<E>((size_t)tokens * heads * D, 1, 2),
                       random_array<E>((size_t)pages * PAGE * GROUPS * D, 2, 1),
                       random_array<E>((size_t)pages * PAGE * GROUPS * D, 3, 1),
                       random_array<E>((size_t)tokens * heads * D, 4, 1),
                       random_array<float>((size_t)(264 + tokens * GROUPS) * ROWS * D, 5, 1),
                       random_array<float>((size_t)(264 + tokens * GROUPS) * ROWS * 2, 6, 1),
                       pages};
    E *ref = random_array<E>((size_t)tokens * heads * D, 7, 1);
    std::vector<int> n(tokens, context);
    for (int t = 0; t < tokens && ragged; t++)
        n[t] = t % 3 ? 1 + rand() % context : 1;
    int *table = make_table(tokens, per_sequence, 1), *lens = upload(n);
    allow(r_attention<E>, context * 8);
    r_attention<E><<<tokens * heads, 256, context * 8>>>(a.q, a.k, a.v, table, lens, nullptr, ref, heads, GROUPS, D, D, PAGE,
                                                         per_sequence, 0, 1 / sqrt((double)D));
    char what[128];
    snprintf(what, sizeof what, "gqa t%d ctx %d d%d %d/%d page %d%s", tokens, context, D, heads, GROUPS, PAGE,
             ragged ? " ragged" : "");
    compare<E>(what, a.y, ref, (size_t)tokens * heads * D, sizeof(E) == 2 ? 6e-3 : 1e-5, [&] {
        gqa<E, D, ROWS, GROUPS, PAGE, STAGES>(a, table, lens, tokens, per_sequence, 264, true, 0);
    });
    for (void *p : {(void *)a.q, (void *)a.k, (void *)a.v, (void *)a.y, (void *)a.acc, (void *)a.ml, (void *)ref, (void *)table,
                    (void *)lens})
        CHECK(cudaFree(p));
}

static const size_t POOL = (size_t)9 << 30; /* bytes of keys, and of values */

/* Table of call i: its own pages of the pool where they are enough, else all calls share some. */
static std::vector<int *> make_tables(int calls, int need, int pages)
{
    std::vector<int> order(pages);
    for (int i = 0; i < pages; i++)
        order[i] = i;
    srand(1);
    for (int i = pages; i > 1; i--)
        std::swap(order[i - 1], order[rand() % i]);
    std::vector<int *> tables;
    for (int c = 0; c < calls; c++) {
        std::vector<int> own(need);
        for (int i = 0; i < need; i++)
            own[i] = order[((size_t)c * need + i) % pages];
        tables.push_back(upload(own));
    }
    return tables;
}

static int calls_for(double bytes)
{
    return (int)std::min(24.0, std::max(3.0, 6e8 / bytes));
}

template <int D, int ROWS, int GROUPS, int STAGES>
static void time_gqa(const char *name, const gqa_arrays<bf16> &a, int tokens, int context, int parts, bool whole)
{
    const int PAGE = 64, per_sequence = context / PAGE;
    double bytes = (double)tokens * context * GROUPS * D * 2 * 2;
    int calls = calls_for(bytes);
    std::vector<int *> tables = make_tables(calls, tokens * per_sequence, a.pages);
    int *lens = upload(std::vector<int>(tokens, context));
    double us = time_of(calls, [&](int i, cudaStream_t s) {
        gqa<bf16, D, ROWS, GROUPS, PAGE, STAGES>(a, tables[i], lens, tokens, per_sequence, parts, whole, s);
    });
    report(name, tokens, context, us, bytes);
    for (int *p : tables)
        CHECK(cudaFree(p));
    CHECK(cudaFree(lens));
}

template <int D, int ROWS, int GROUPS, int STAGES> static void time_gqa_shape(const char *name)
{
    const int heads = ROWS * GROUPS, pages = (int)(POOL / ((size_t)64 * GROUPS * D * 2));
    gqa_arrays<bf16> a = {random_array<bf16>((size_t)64 * heads * D, 1, 2), random_array<bf16>(POOL / 2, 2, 1),
                          random_array<bf16>(POOL / 2, 3, 1), random_array<bf16>((size_t)64 * heads * D, 4, 1),
                          random_array<float>((size_t)(1056 + 64 * GROUPS) * ROWS * D, 5, 1),
                          random_array<float>((size_t)(1056 + 64 * GROUPS) * ROWS * 2, 6, 1), pages};
    char what[64];
    for (int context : {1024, 4096, 16384, 65536})
        for (int tokens : {1, 4, 16, 64}) {
            /* as gqa_attention is expanded and attention_part lowered */
            int units = tokens * GROUPS * context / 64, parts = units > 132 && units <= 264 ? units / 2 : 264;
            int stages = units <= parts ? 2 : STAGES;
            auto time = stages == 2 ? time_gqa<D, ROWS, GROUPS, 2> : time_gqa<D, ROWS, GROUPS, STAGES>;
            snprintf(what, sizeof what, "%s s%d", name, stages);
            time(what, a, tokens, context, parts, true);
            if (tokens == 1) {
                snprintf(what, sizeof what, "%s s%d, part only", name, stages);
                time(what, a, tokens, context, parts, false);
            }
        }
    for (void *p : {(void *)a.q, (void *)a.k, (void *)a.v, (void *)a.y, (void *)a.acc, (void *)a.ml})
        CHECK(cudaFree(p));
}

static void time_gqa_all(void)
{
    time_gqa_shape<128, 8, 4, 3>("gqa 32/4 x 128");
    time_gqa_shape<128, 4, 8, 3>("gqa 32/8 x 128");
}

/* ---- latents ---- */

template <class E, int ROWS, int GROUPS, int PAGE, int WK, int TILE, int STAGES, bool SPARSE>
__global__ void __launch_bounds__(256)
    k_mla(const E *q, const E *cache, const int *table, const int *lens, const int *chosen, float *acc, float *ml, int tokens,
          int heads, int pages, int max_pages, int indices, int parts, float scale)
{
    stem_mla_part<E, 576, 512, ROWS, GROUPS, PAGE, WK, TILE, STAGES, SPARSE>(q, cache, table, lens, chosen, acc, ml, tokens, heads,
                                                                   pages, max_pages, indices, parts, scale);
}

/* By wgmma. */
template <class E, int ROWS, int GROUPS, int PAGE, bool SPARSE>
__global__ void __launch_bounds__(STEM_WGMMA_THREADS, 1)
    k_mla_wgmma(const E *q, const E *cache, const int *table, const int *lens, const int *chosen, float *acc, float *ml, int tokens,
                int heads, int pages, int max_pages, int indices, int parts, float scale)
{
#if defined __CUDA_ARCH__ && !defined STEM_WGMMA
#error "this is for sm_90a"
#elif defined STEM_WGMMA
    stem_mla_wgmma<E, 576, ROWS, GROUPS, PAGE, SPARSE>(q, cache, table, lens, chosen, acc, ml, tokens, heads, pages, max_pages,
                                                       indices, parts, scale);
#endif
}

template <class E> struct mla_arrays {
    E *q, *cache, *y;
    float *acc, *ml;
    int pages;
};

/* STAGES 0: by wgmma. */
template <class E, int ROWS, int GROUPS, int PAGE, int WK, int TILE, int STAGES, bool SPARSE>
static void mla(const mla_arrays<E> &a, const int *table, const int *lens, const int *chosen, int count, int tokens, int heads,
                int per_sequence, bool whole, cudaStream_t s)
{
    constexpr int OWN = stem_mla_rows<ROWS>, HALVES = stem_mla_halves<ROWS>, MT = OWN <= 16 ? 1 : OWN <= 32 ? 2 : 4;
    constexpr int smem = STAGES ? stem_mla_smem<576, MT, WK, TILE, STAGES> : stem_mla_wgmma_smem<576>;
    auto kernel = k_mla_wgmma<E, ROWS, GROUPS, PAGE, SPARSE>;
    if constexpr (STAGES > 0)
        kernel = k_mla<E, ROWS, GROUPS, PAGE, WK, TILE, STAGES, SPARSE>;
    static bool once = (allow(kernel, smem), true);
    (void)once;
    int most = SPARSE ? count : per_sequence * PAGE, units = tokens * GROUPS * ((most + 31) / 32);
    int parts = units > 132 / HALVES ? 132 / HALVES : units > 66 && ROWS <= 16 ? units / 2 : units;
    go(kernel, dim3(parts * HALVES), STAGES ? 256 : STEM_WGMMA_THREADS, smem, s, a.q, a.cache, table, lens, chosen, a.acc, a.ml,
       tokens, heads, a.pages, per_sequence, count, parts, (float)(1.4426950408889634 / sqrt(192.0)));
    if (whole)
        combine<E, ROWS, GROUPS, 512, 32, SPARSE>(a.acc, a.ml, lens, a.y, tokens, heads, most, parts, s);
}

template <class E> static mla_arrays<E> mla_make(int tokens, int heads, int pages, int page)
{
    return {random_array<E>((size_t)tokens * heads * 576, 1, 2), random_array<E>((size_t)pages * page * 576, 2, 1),
            random_array<E>((size_t)tokens * heads * 512, 4, 1),
            random_array<float>((size_t)(132 + tokens * 2) * std::min(heads, 128) * 512, 5, 1),
            random_array<float>((size_t)(132 + tokens * 2) * std::min(heads, 128) * 2, 6, 1), pages};
}
template <class E> static void mla_free(const mla_arrays<E> &a)
{
    for (void *p : {(void *)a.q, (void *)a.cache, (void *)a.y, (void *)a.acc, (void *)a.ml})
        CHECK(cudaFree(p));
}

template <class E, int ROWS, int GROUPS, int PAGE, int WK, int TILE, int STAGES, bool SPARSE>
static void check_mla(int tokens, int heads, int context, int count)
{
    const int per_sequence = (context + PAGE - 1) / PAGE, pages = tokens * per_sequence;
    mla_arrays<E> a = mla_make<E>(tokens, heads, pages, PAGE);
    E *ref = random_array<E>((size_t)tokens * heads * 512, 7, 1);
    std::vector<int> n(tokens, context), indices((size_t)tokens * count + 1, -1);
    for (int t = 0; t < tokens; t++) {
        n[t] = t % 3 ? 1 + rand() % context : context;
        for (int i = 0; i < count; i++)
            indices[t * count + i] = rand() % 7 ? rand() % n[t] : -1;
    }
    int *table = make_table(tokens, per_sequence, 1), *lens = upload(n), *chosen = upload(indices);
    allow(r_attention<E>, std::max(context, count) * 8);
    r_attention<E><<<tokens * heads, 256, std::max(context, count) * 8>>>(
        a.q, a.cache, a.cache, table, lens, SPARSE ? chosen : nullptr, ref, heads, 1, 576, 512, PAGE, per_sequence, count,
        1 / sqrt(192.0));
    char what[128];
    snprintf(what, sizeof what, "mla t%d h%d ctx %d page %d k%d", tokens, heads, context, PAGE, count);
    compare<E>(what, a.y, ref, (size_t)tokens * heads * 512, 6e-3, [&] {
        mla<E, ROWS, GROUPS, PAGE, WK, TILE, STAGES, SPARSE>(a, table, lens, chosen, count, tokens, heads, per_sequence, true, 0);
    });
    mla_free(a);
    for (void *p : {(void *)ref, (void *)table, (void *)lens, (void *)chosen})
        CHECK(cudaFree(p));
}

template <int ROWS, int GROUPS, int WK, int TILE, int STAGES, bool SPARSE>
static void time_mla(const char *name, const mla_arrays<bf16> &a, int heads, int tokens, int context, bool whole)
{
    const int PAGE = 64, per_sequence = context / PAGE, count = SPARSE ? 2048 : 0;
    double bytes = (double)tokens * (SPARSE ? count : context) * 576 * 2;
    int calls = calls_for(bytes);
    std::vector<int *> tables = make_tables(calls, tokens * per_sequence, a.pages);
    int *lens = upload(std::vector<int>(tokens, context));
    std::vector<int> indices((size_t)tokens * count + 1);
    for (int t = 0; t < tokens; t++)
        for (int i = 0; i < count; i++)
            indices[(size_t)t * count + i] = (int)((double)(i + 0.5 * (rand() % 2)) * context / count);
    int *chosen = upload(indices);
    double us = time_of(calls, [&](int i, cudaStream_t s) {
        mla<bf16, ROWS, GROUPS, PAGE, WK, TILE, STAGES, SPARSE>(a, tables[i], lens, chosen, count, tokens, heads, per_sequence, whole, s);
    });
    report(name, tokens, context, us, bytes);
    for (int *p : tables)
        CHECK(cudaFree(p));
    CHECK(cudaFree(lens));
    CHECK(cudaFree(chosen));
}

template <int ROWS, int GROUPS, int WK, int TILE, int STAGES> static void time_mla_shape(int heads)
{
    mla_arrays<bf16> a = mla_make<bf16>(64, heads, (int)(POOL / (64 * 576 * 2)), 64);
    constexpr int FEW = STAGES ? 2 : 0;
    char config[32], what[64];
    for (int context : {1024, 4096, 16384, 65536})
        for (int tokens : {1, 4, 16, 64}) {
            /* as attention_part is lowered */
            int units = tokens * GROUPS * (context / 32), tile = units > 2 * 132 ? TILE : 32;
            int stages = units <= (ROWS <= 16 ? 66 : 132) ? FEW : STAGES;
            auto time = tile == TILE    ? time_mla<ROWS, GROUPS, WK, TILE, STAGES, false>
                        : stages == FEW ? time_mla<ROWS, GROUPS, WK, 32, FEW, false>
                                        : time_mla<ROWS, GROUPS, WK, 32, STAGES, false>;
            snprintf(config, sizeof config, STAGES ? "k%d t%d s%d" : "wgmma", WK, tile, stages);
            snprintf(what, sizeof what, "mla h%d %s", heads, config);
            time(what, a, heads, tokens, context, true);
            if (tokens == 1) {
                snprintf(what, sizeof what, "mla h%d %s, part only", heads, config);
                time(what, a, heads, tokens, context, false);
            }
            if (context == 65536) {
                snprintf(what, sizeof what, "mla h%d %s, 2048 chosen", heads, config);
                time_mla<ROWS, GROUPS, WK, TILE, STAGES, true>(what, a, heads, tokens, context, true);
            }
        }
    mla_free(a);
}

static void time_mla_all(void)
{
    time_mla_shape<8, 1, 2, 64, 3>(8);
    time_mla_shape<16, 1, 2, 64, 3>(16);
    time_mla_shape<32, 1, 2, 32, 4>(32);
    time_mla_shape<32, 1, 0, 64, 0>(32);
    time_mla_shape<64, 1, 0, 64, 0>(64);
    time_mla_shape<128, 1, 0, 64, 0>(128);
}

/* ---- the indexer ---- */

template <class E, int HEADS, int WIDTH, int PAGE, int STAGES>
__global__ void __launch_bounds__(256)
    k_scores(const E *q, const float *w, const E *cache, const int *table, const int *lens, float *y, int tokens, int most,
             int pages, int max_pages)
{
    stem_index_scores<E, float, HEADS, WIDTH, PAGE, STAGES>(q, w, cache, table, lens, y, tokens, most, pages, max_pages);
}
template <class E, int HEADS, int WIDTH, int PAGE, int STAGES>
static void scores(const E *q, const float *w, const E *cache, const int *table, const int *lens, float *y, int tokens, int most,
                   int pages, int per_sequence, cudaStream_t s)
{
    const int smem = 8 * STAGES * stem_index_stage<WIDTH>;
    static bool once = (allow(k_scores<E, HEADS, WIDTH, PAGE, STAGES>, smem), true);
    (void)once;
    go(k_scores<E, HEADS, WIDTH, PAGE, STAGES>, dim3(std::min(132, tokens * ((most + 127) / 128))), 256, smem, s, q, w, cache,
       table, lens, y, tokens, most, pages, per_sequence);
}
template <class E, int HEADS, int WIDTH, int PAGE, int STAGES> static void check_scores(int tokens, int context)
{
    const int per_sequence = (context + PAGE - 1) / PAGE, pages = tokens * per_sequence, most = per_sequence * PAGE;
    E *q = random_array<E>((size_t)tokens * HEADS * WIDTH, 1, 1), *cache = random_array<E>((size_t)pages * PAGE * WIDTH, 2, 1);
    float *w = random_array<float>((size_t)tokens * HEADS, 3, 1), *y = random_array<float>((size_t)tokens * most, 4, 1),
          *ref = random_array<float>((size_t)tokens * most, 5, 1);
    std::vector<int> n(tokens);
    for (int t = 0; t < tokens; t++)
        n[t] = t % 3 ? rand() % (context + 1) : context;
    int *table = make_table(tokens, per_sequence, 1), *lens = upload(n);
    r_scores<E, float><<<dim3((most + 127) / 128, tokens), 128>>>(q, w, cache, table, lens, ref, HEADS, WIDTH, PAGE,
                                                                  per_sequence, most);
    char what[128];
    snprintf(what, sizeof what, "index_scores t%d ctx %d h%d d%d page %d", tokens, context, HEADS, WIDTH, PAGE);
    compare<float>(what, y, ref, (size_t)tokens * most, 1e-5, [&] {
        scores<E, HEADS, WIDTH, PAGE, STAGES>(q, w, cache, table, lens, y, tokens, most, pages, per_sequence, 0);
    });
    for (void *p : {(void *)q, (void *)cache, (void *)w, (void *)y, (void *)ref, (void *)table, (void *)lens})
        CHECK(cudaFree(p));
}
template <int STAGES> static void time_scores(int tokens, int context, const bf16 *cache, int pages)
{
    const int PAGE = 64, per_sequence = context / PAGE;
    double bytes = (double)tokens * context * (128 * 2 + 4);
    int calls = calls_for(bytes);
    bf16 *q = random_array<bf16>((size_t)tokens * 64 * 128, 1, 1);
    float *w = random_array<float>((size_t)tokens * 64, 3, 1), *y = random_array<float>((size_t)tokens * context, 4, 1);
    std::vector<int *> tables = make_tables(calls, tokens * per_sequence, pages);
    int *lens = upload(std::vector<int>(tokens, context));
    double us = time_of(calls, [&](int i, cudaStream_t s) {
        scores<bf16, 64, 128, PAGE, STAGES>(q, w, cache, tables[i], lens, y, tokens, context, pages, per_sequence, s);
    });
    report("index_scores 64 x 128", tokens, context, us, bytes);
    for (int *p : tables)
        CHECK(cudaFree(p));
    for (void *p : {(void *)q, (void *)w, (void *)y, (void *)lens})
        CHECK(cudaFree(p));
}

template <int CLUSTER> __global__ void __launch_bounds__(1024) __cluster_dims__(CLUSTER, 1, 1)
    k_top(const float *x, const int *lens, int *y, int n, int k)
{
    stem_top_k<1024, CLUSTER, true>(x, lens, y, n, k);
}
template <int CLUSTER> static void top(const float *x, const int *lens, int *y, int tokens, int n, int k, cudaStream_t s)
{
    int smem = (int)sizeof(stem_top_shared) + ((n + CLUSTER - 1) / CLUSTER + 127) / 128 * 512;
    allow(k_top<CLUSTER>, smem);
    go(k_top<CLUSTER>, dim3(tokens * CLUSTER), 1024, smem, s, x, lens, y, n, k);
}

template <int CLUSTER> static void check_top(int tokens, int n, int k, float levels)
{
    std::vector<float> x((size_t)tokens * n);
    std::vector<int> want((size_t)tokens * k, -1), lens(tokens, n), got(want.size());
    for (float &f : x)
        f = levels > 0 ? (float)(rand() % (int)levels) : rand() % 9 == 0 ? -INFINITY : (float)rand() / (float)RAND_MAX - 0.5f;
    for (int t = 0; t < tokens; t++) {
        lens[t] = t % 2 ? n : n / 2 + t;
        std::vector<std::pair<float, int>> order;
        for (int i = 0; i < lens[t]; i++)
            if (x[(size_t)t * n + i] > -INFINITY)
                order.push_back({-x[(size_t)t * n + i], i});
        std::sort(order.begin(), order.end());
        order.resize(std::min(order.size(), (size_t)k));
        std::vector<int> chosen;
        for (auto &o : order)
            chosen.push_back(o.second);
        std::sort(chosen.begin(), chosen.end());
        std::copy(chosen.begin(), chosen.end(), want.begin() + (size_t)t * k);
    }
    float *dx = upload(x);
    int *dl = upload(lens), *y = upload(got);
    top<CLUSTER>(dx, dl, y, tokens, n, k, 0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got.data(), y, got.size() * 4, cudaMemcpyDeviceToHost));
    bool good = got == want;
    failures += !good;
    printf("%-6s top_k t%d n%d k%d cluster %d levels %.0f\n", good ? "ok" : "FAIL", tokens, n, k, CLUSTER, levels);
    for (void *p : {(void *)dx, (void *)dl, (void *)y})
        CHECK(cudaFree(p));
}

template <int CLUSTER> static void time_top(int tokens, int n)
{
    const int sets = 12;
    std::vector<float *> x;
    for (int i = 0; i < sets; i++)
        x.push_back(random_array<float>((size_t)tokens * n, i, 1));
    int *y;
    CHECK(cudaMalloc(&y, (size_t)tokens * 2048 * 4));
    double us = time_of(24, [&](int i, cudaStream_t s) { top<CLUSTER>(x[i % sets], nullptr, y, tokens, n, 2048, s); });
    char what[64];
    snprintf(what, sizeof what, "top_k 2048, cluster %d", CLUSTER);
    report(what, tokens, n, us, (double)tokens * n * 4);
    for (float *p : x)
        CHECK(cudaFree(p));
    CHECK(cudaFree(y));
}

static void time_index_all(void)
{
    const size_t bytes = (size_t)3 << 30;
    bf16 *cache = random_array<bf16>(bytes / 2, 2, 1);
    for (int tokens : {1, 4, 16, 64})
        for (int context : {4096, 16384, 65536, 131072})
            time_scores<6>(tokens, context, cache, (int)(bytes / (64 * 128 * 2)));
    CHECK(cudaFree(cache));
    for (int tokens : {1, 4, 16, 64})
        for (int n : {4096, 16384, 65536, 131072}) {
            /* as top_k is lowered */
            int cluster = 1;
            while (cluster < 8 && ((n > 8192 * cluster && tokens * 4 * cluster <= 132) || n / cluster > 49000))
                cluster *= 2;
            cluster == 1 ? time_top<1>(tokens, n) : cluster == 2 ? time_top<2>(tokens, n)
            : cluster == 4 ? time_top<4>(tokens, n) : time_top<8>(tokens, n);
        }
}

static void check_all(void)
{
    for (bool ragged : {false, true}) {
        check_gqa<bf16, 128, 8, 4, 64, 3>(1, 1000, ragged);
        check_gqa<bf16, 128, 8, 4, 64, 3>(7, 3000, ragged);
        check_gqa<bf16, 128, 4, 8, 16, 3>(33, 517, ragged);
        check_gqa<__half, 64, 16, 2, 7, 6>(5, 777, ragged);
        check_gqa<bf16, 256, 2, 1, 64, 3>(3, 2000, ragged);
    }
    check_mla<bf16, 8, 1, 64, 2, 64, 3, false>(1, 8, 3000, 0);
    check_mla<bf16, 8, 1, 64, 2, 32, 2, false>(1, 8, 4000, 0);
    check_mla<bf16, 16, 1, 16, 2, 64, 3, false>(7, 16, 700, 0);
    check_mla<__half, 32, 1, 7, 2, 32, 4, false>(5, 32, 500, 0);
    check_mla<bf16, 128, 1, 64, 2, 32, 3, false>(3, 128, 1500, 0);
    check_mla<bf16, 70, 2, 64, 2, 32, 2, false>(3, 140, 700, 0);
    check_mla<bf16, 128, 1, 64, 0, 64, 0, false>(3, 128, 1500, 0);
    check_mla<bf16, 64, 1, 64, 0, 64, 0, false>(9, 64, 6000, 0);
    check_mla<__half, 70, 2, 7, 0, 64, 0, false>(3, 140, 700, 0);
    check_mla<bf16, 16, 1, 64, 2, 64, 3, true>(5, 16, 5000, 300);
    check_mla<bf16, 128, 1, 64, 2, 32, 3, true>(2, 128, 5000, 2048);
    check_mla<bf16, 128, 1, 64, 0, 64, 0, true>(2, 128, 5000, 2048);
    check_mla<bf16, 65, 1, 64, 0, 64, 0, true>(70, 65, 500, 170);
    check_scores<bf16, 64, 128, 64, 6>(7, 5000);
    check_scores<__half, 24, 96, 7, 4>(40, 300);
    for (float levels : {0.0f, 3.0f, 5000.0f}) {
        check_top<1>(5, 4096, 2048, levels);
        check_top<4>(5, 20001, 2048, levels);
        check_top<8>(3, 131072, 2048, levels);
    }
}
