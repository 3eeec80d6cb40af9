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
template <class E, int ROWS, int GROUPS, int D, int UNIT, bool SPARSE>
__global__ void __launch_bounds__(256)
    k_combine(const float *acc, const float *ml, const int *lens, E *y, int tokens, int heads, int most, int parts)
{
    stem_attention_combine<E, ROWS, GROUPS, D, UNIT, SPARSE>(acc, ml, lens, y, tokens, heads, most, parts);
}

template <class E> struct gqa_arrays {
    E *q, *k, *v, *y;
    float *acc, *ml;
    int pages;
};

template <class E, int D, int ROWS, int GROUPS, int PAGE, int STAGES>
static void gqa(const gqa_arrays<E> &a, const int *table, const int *lens, int tokens, int per_sequence, int parts,
                bool combine, cudaStream_t s)
{
    const int smem = 4 * STAGES * stem_gqa_stage<D>, heads = ROWS * GROUPS;
    static bool once = (allow(k_gqa<E, D, ROWS, GROUPS, PAGE, STAGES>, smem), true);
    (void)once;
    int units = tokens * GROUPS * ((per_sequence * PAGE + 63) / 64);
    parts = std::min(parts, units);
    go(k_gqa<E, D, ROWS, GROUPS, PAGE, STAGES>, dim3(parts), 128, smem, s, a.q, a.k, a.v, table, lens, a.acc, a.ml, tokens,
       heads, a.pages, per_sequence, parts, (float)(1.4426950408889634 / sqrt((double)D)));
    if (combine)
        go(k_combine<E, ROWS, GROUPS, D, 64, false>, dim3(tokens * heads), 256, 0, s, a.acc, a.ml, lens, a.y, tokens, heads,
           per_sequence * PAGE, parts);
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
static void time_gqa(const char *name, const gqa_arrays<bf16> &a, int tokens, int context, int parts, bool combine)
{
    const int PAGE = 64, per_sequence = context / PAGE;
    double bytes = (double)tokens * context * GROUPS * D * 2 * 2;
    int calls = calls_for(bytes);
    std::vector<int *> tables = make_tables(calls, tokens * per_sequence, a.pages);
    int *lens = upload(std::vector<int>(tokens, context));
    double us = time_of(calls, [&](int i, cudaStream_t s) {
        gqa<bf16, D, ROWS, GROUPS, PAGE, STAGES>(a, tables[i], lens, tokens, per_sequence, parts, combine, s);
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
            snprintf(what, sizeof what, "%s s%d", name, STAGES);
            time_gqa<D, ROWS, GROUPS, STAGES>(what, a, tokens, context, 264, true);
            if (tokens == 4 || tokens == 1) {
                snprintf(what, sizeof what, "%s s%d, part only", name, STAGES);
                time_gqa<D, ROWS, GROUPS, STAGES>(what, a, tokens, context, 264, false);
                snprintf(what, sizeof what, "%s s%d, 132 parts", name, STAGES);
                time_gqa<D, ROWS, GROUPS, STAGES>(what, a, tokens, context, 132, true);
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

static void time_mla_all(void)
{
}

/* ---- the indexer ---- */

template <int CLUSTER> __global__ void __launch_bounds__(1024) __cluster_dims__(CLUSTER, 1, 1)
    k_top(const float *x, const int *lens, int *y, int n, int k)
{
    stem_top_k<1024, CLUSTER, true>(x, lens, y, n, k);
}
template <int CLUSTER> static void top(const float *x, const int *lens, int *y, int tokens, int n, int k, cudaStream_t s)
{
    int smem = (int)sizeof(stem_top_shared) + (n + CLUSTER - 1) / CLUSTER * 4;
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
    for (int tokens : {1, 4, 16, 64}) {
        for (int n : {4096, 16384})
            time_top<1>(tokens, n), time_top<4>(tokens, n), time_top<8>(tokens, n);
        for (int n : {32768, 65536, 131072})
            time_top<4>(tokens, n), time_top<8>(tokens, n);
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
    for (float levels : {0.0f, 3.0f, 5000.0f}) {
        check_top<1>(5, 4096, 2048, levels);
        check_top<4>(5, 20001, 2048, levels);
        check_top<8>(3, 131072, 2048, levels);
    }
}
