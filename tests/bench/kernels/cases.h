/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of bench.cu: shapes to check, and configurations to time.
 */

template <class E, class O, int NT, int STAGES, int KP, int G, int CL> static void check_linear_one(int m, int n, int k)
{
    E *x = random_array<E>((size_t)m * k, 1 + m, 1), *w = random_array<E>((size_t)n * k, 2 + n, 0.05f);
    O *y = random_array<O>((size_t)m * n, 3, 1), *ref = random_array<O>((size_t)m * n, 4, 1);
    r_linear<E, O><<<dim3((n + 127) / 128, m), 128>>>(x, w, ref, m, n, k);
    char what[128];
    snprintf(what, sizeof what, "linear %dx%dx%d nt%d s%d kp%d g%d cl%d", m, n, k, NT, STAGES, KP, G, CL);
    compare<O>(what, y, ref, (size_t)m * n, [&] { linear<E, O, NT, STAGES, KP, G, CL>(x, w, y, m, n, k, 0); });
    for (void *p : {(void *)x, (void *)w, (void *)y, (void *)ref})
        CHECK(cudaFree(p));
}

static void check_linear(void)
{
    for (int m : {1, 3, 4, 8}) {
        check_linear_one<bf16, bf16, 1, 4, 8, 1, 8>(m, 384, 7168);
        check_linear_one<bf16, float, 1, 4, 8, 1, 8>(m, 41, 200);
        check_linear_one<bf16, bf16, 1, 4, 4, 2, 1>(m, 7168, 256);
        check_linear_one<__half, __half, 1, 4, 8, 1, 4>(m, 500, 72);
    }
    check_linear_one<bf16, bf16, 2, 3, 8, 1, 8>(16, 384, 7168);
    check_linear_one<bf16, bf16, 4, 2, 8, 1, 8>(27, 512, 7168);
    check_linear_one<bf16, bf16, 8, 2, 8, 1, 8>(64, 384, 7168);
    check_linear_one<bf16, bf16, 8, 2, 8, 1, 8>(150, 384, 1032);
    check_linear_one<bf16, bf16, 8, 2, 4, 2, 1>(64, 7168, 256);
    check_linear_one<__half, float, 8, 2, 4, 2, 1>(33, 100, 40);
    check_linear_one<bf16, bf16, 1, 4, 8, 1, 1>(2, 40000, 64);
}

template <class E, int NT, int STAGES, int WARPS, int MT, int TR, int DSTAGES, int DWARPS>
static void check_experts_one(const shape &d, bool wild)
{
    size_t pairs = (size_t)d.tokens * d.k;
    E *x = random_array<E>((size_t)d.tokens * d.hidden, 1, 1);
    E *w13 = random_array<E>((size_t)d.experts * 2 * d.inter * d.hidden, 2, 1.7f / sqrtf(d.hidden));
    E *w2 = random_array<E>((size_t)d.experts * d.hidden * d.inter, 3, 1.7f / sqrtf(d.inter));
    float *scale = random_array<float>(pairs, 5, 1);
    E *h = random_array<E>(pairs * d.inter, 6, 1), *hr = random_array<E>(pairs * d.inter, 7, 1);
    E *y = random_array<E>((size_t)d.tokens * d.hidden, 8, 1), *yr = random_array<E>((size_t)d.tokens * d.hidden, 9, 1);
    int *ids = upload(make_ids(d, d.tokens + 1, wild));
    char what[128];
    snprintf(what, sizeof what, "up t%d k%d e%d %dx%d nt%d s%d w%d%s", d.tokens, d.k, d.experts, d.hidden, d.inter, NT,
             STAGES, WARPS, wild ? " wild" : "");
    if (wild) { /* h of pairs without an expert, and of repeated ones, stays as it was */
        up<E, NT, STAGES, WARPS>(x, ids, w13, h, d, 264, 0);
        r_up<E><<<dim3((d.inter + 63) / 64, pairs), 64>>>(x, ids, w13, hr, d.k, d.experts, d.hidden, d.inter);
    } else {
        r_up<E><<<dim3((d.inter + 63) / 64, pairs), 64>>>(x, ids, w13, hr, d.k, d.experts, d.hidden, d.inter);
        compare<E>(what, h, hr, pairs * d.inter, [&] { up<E, NT, STAGES, WARPS>(x, ids, w13, h, d, 264, 0); });
    }
    r_down<E><<<dim3((d.hidden + 63) / 64, d.tokens), 64>>>(h, ids, scale, w2, yr, d.k, d.experts, d.hidden, d.inter);
    snprintf(what, sizeof what, "down t%d k%d e%d %dx%d mt%d r%d s%d w%d%s", d.tokens, d.k, d.experts, d.hidden,
             d.inter, MT, TR, DSTAGES, DWARPS, wild ? " wild" : "");
    compare<E>(what, y, yr, (size_t)d.tokens * d.hidden,
               [&] { down<E, MT, TR, DSTAGES, DWARPS>(h, ids, scale, w2, y, d, 0); });
    for (void *p : {(void *)x, (void *)w13, (void *)w2, (void *)scale, (void *)h, (void *)hr, (void *)y, (void *)yr,
                    (void *)ids})
        CHECK(cudaFree(p));
}

static void check_experts(void)
{
    for (bool wild : {false, true})
        for (int t : {1, 2, 4, 5, 16, 64, 70}) {
            check_experts_one<bf16, 1, 4, 8, 2, 8, 3, 4>({t, 8, 48, 512, 256}, wild);
            check_experts_one<bf16, 2, 3, 8, 2, 16, 3, 4>({t, 8, 20, 1032, 72}, wild);
            check_experts_one<__half, 1, 4, 8, 1, 8, 4, 4>({t, 3, 5, 136, 40}, wild);
            check_experts_one<bf16, 1, 4, 8, 1, 16, 3, 12>({t, 6, 20, 520, 328}, wild);
            if (t == 1)
                check_experts_one<bf16, 1, 4, 8, 1, 1, 3, 11>({t, 6, 20, 520, 328}, wild);
            if (t <= 4)
                check_experts_one<bf16, 1, 4, 8, 1, 4, 3, 12>({t, 6, 20, 520, 328}, wild);
        }
}

/* softmax, bias, the best 3 of 8 groups by their best two, 6 of 256, not renormalised. */
static void check_route_groups(void)
{
    const int tokens = 29, experts = 256, k = 6, size = 32;
    float *logits = random_array<float>(tokens * experts, 5, 3), *bias = random_array<float>(experts, 6, 0.02f);
    float *weights = random_array<float>(tokens * k, 7, 1);
    int *ids;
    CHECK(cudaMalloc(&ids, tokens * k * sizeof(int)));
    k_route_groups<<<tokens, 256>>>(logits, bias, ids, weights);
    CHECK(cudaDeviceSynchronize());
    std::vector<float> l(tokens * experts), b(experts), w(tokens * k);
    std::vector<int> got(tokens * k);
    CHECK(cudaMemcpy(l.data(), logits, l.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b.data(), bias, b.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(w.data(), weights, w.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got.data(), ids, got.size() * 4, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (int t = 0; t < tokens; t++) {
        double sum = 0;
        std::vector<double> score(experts);
        for (int e = 0; e < experts; e++)
            sum += score[e] = exp((double)l[t * experts + e]);
        std::vector<std::pair<double, int>> group, order;
        for (int g = 0; g < 8; g++) {
            std::vector<double> c;
            for (int e = g * size; e < (g + 1) * size; e++)
                c.push_back(-(score[e] / sum + b[e]));
            std::sort(c.begin(), c.end());
            group.push_back({c[0] + c[1], g});
        }
        std::sort(group.begin(), group.end());
        for (int g = 0; g < 3; g++)
            for (int e = group[g].second * size; e < (group[g].second + 1) * size; e++)
                order.push_back({-(score[e] / sum + b[e]), e});
        std::sort(order.begin(), order.end());
        for (int j = 0; j < k; j++)
            bad += got[t * k + j] != order[j].second ||
                   fabs(w[t * k + j] - 1.5 * score[order[j].second] / sum) > 1e-5;
    }
    printf("route with groups: %d wrong of %d\n", bad, tokens * k);
    failures += bad > 2;
    for (void *p : {(void *)logits, (void *)bias, (void *)weights, (void *)ids})
        CHECK(cudaFree(p));
}

static void check_route(void)
{
    const int tokens = 37, experts = 384, k = 8;
    bf16 *logits = random_array<bf16>((size_t)tokens * experts, 1, 4);
    float *bias = random_array<float>(experts, 2, 0.2f), *weights = random_array<float>(tokens * k, 3, 1);
    int *ids;
    CHECK(cudaMalloc(&ids, tokens * k * sizeof(int)));
    k_route<bf16><<<tokens, 384>>>(logits, bias, ids, weights, experts, k);
    CHECK(cudaDeviceSynchronize());
    std::vector<bf16> l(tokens * experts);
    std::vector<float> b(experts), w(tokens * k);
    std::vector<int> got(tokens * k);
    CHECK(cudaMemcpy(l.data(), logits, l.size() * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b.data(), bias, b.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(w.data(), weights, w.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got.data(), ids, got.size() * 4, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (int t = 0; t < tokens; t++) {
        std::vector<std::pair<float, int>> order;
        for (int e = 0; e < experts; e++)
            order.push_back({-(1 / (1 + expf(-__bfloat162float(l[t * experts + e]))) + b[e]), e});
        std::sort(order.begin(), order.end());
        float sum = 0;
        for (int j = 0; j < k; j++)
            sum += 1 / (1 + expf(-__bfloat162float(l[t * experts + order[j].second])));
        for (int j = 0; j < k; j++) {
            float s = 1 / (1 + expf(-__bfloat162float(l[t * experts + order[j].second]))) / sum * 2.5f;
            bad += got[t * k + j] != order[j].second || fabsf(w[t * k + j] - s) > 1e-4f;
        }
    }
    printf("route: %d wrong of %d\n", bad, tokens * k);
    failures += bad > 2; /* two near-ties may fall differently in the host's expf */
    for (void *p : {(void *)logits, (void *)bias, (void *)weights, (void *)ids})
        CHECK(cudaFree(p));
    check_route_groups();
}

/* ---- timing ---- */

struct arrays {
    bf16 *x, *w13[SETS], *w2[SETS], *gate[LAUNCHES], *s13[LAUNCHES], *s2[LAUNCHES], *h, *y, *wide, *mid;
    float *scale, *bias;
    int *ids[LAUNCHES];
    double distinct; /* mean over the launches */
};

template <int NT, int STAGES, int WARPS> static void time_up(arrays &a, const shape &d, int blocks)
{
    char what[64];
    snprintf(what, sizeof what, "up nt%d s%d w%d b%d", NT, STAGES, WARPS, blocks);
    double us = time_of([&](int i, cudaStream_t s) { up<bf16, NT, STAGES, WARPS>(a.x, a.ids[i], a.w13[i % SETS], a.h, d, blocks, s); });
    report(what, d.tokens, us, a.distinct * 2 * INTER * HIDDEN * 2);
}
template <int MT, int TR, int STAGES, int WARPS> static void time_down(arrays &a, const shape &d)
{
    char what[64];
    bool wide = d.inter != INTER;
    snprintf(what, sizeof what, "%s mt%d r%d s%d w%d", wide ? "down-wide" : "down", MT, TR, STAGES, WARPS);
    double us = time_of([&](int i, cudaStream_t s) {
        down<bf16, MT, TR, STAGES, WARPS>(a.h, a.ids[i], a.scale, a.w2[i % SETS], a.y, d, s);
    });
    report(what, d.tokens, us, a.distinct * d.inter * d.hidden * 2);
}
template <int NT, int STAGES, int KP, int G, int CL>
static void time_linear(const char *name, const bf16 *x, bf16 *const *w, bf16 *y, int m, int n, int k)
{
    char what[64];
    snprintf(what, sizeof what, "%s nt%d s%d kp%d g%d cl%d", name, NT, STAGES, KP, G, CL);
    double us = time_of([&](int i, cudaStream_t s) { linear<bf16, bf16, NT, STAGES, KP, G, CL>(x, w[i], y, m, n, k, s); });
    report(what, m, us, (double)n * k * 2);
}

template <int NT> static void time_linears(arrays &a, int t)
{
    constexpr int S = NT == 1 ? 4 : NT == 2 ? 3 : 2;
    time_linear<NT, 2, 8, 1, 8>("gate", a.x, a.gate, a.y, t, 384, 7168);
    time_linear<NT, S, 8, 1, 4>("gate", a.x, a.gate, a.y, t, 384, 7168);
    time_linear<NT, 2, 8, 1, 8>("s13", a.x, a.s13, a.y, t, 512, 7168);
    time_linear<NT, S, 8, 1, 4>("s13", a.x, a.s13, a.y, t, 512, 7168);
    time_linear<NT, S, 4, 1, 8>("s13", a.x, a.s13, a.y, t, 512, 7168);
    time_linear<NT, 2, 4, 2, 1>("s2", a.mid, a.s2, a.wide, t, 7168, 256);
    time_linear<NT, 2, 4, 1, 1>("s2", a.mid, a.s2, a.wide, t, 7168, 256);
}

/* Gate, route, up and down beside the shared expert's two linears: the layer without its pointwise ops. */
template <int NT> static void time_layer(arrays &a, const shape &d)
{
    constexpr int S = NT == 1 ? 4 : NT == 2 ? 3 : 2, U = 1, US = 4;
    int t = d.tokens;
    for (bool dual : {false, true}) {
        cudaStream_t side;
        cudaEvent_t fork, join;
        CHECK(cudaStreamCreate(&side));
        CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
        double us = time_of([&](int i, cudaStream_t s) {
            cudaStream_t o = dual ? side : s;
            if (dual)
                CHECK(cudaEventRecord(fork, s));
            linear<bf16, bf16, NT, 2, 8, 1, 8>(a.x, a.gate[i], a.y, t, 384, 7168, s);
            k_route<bf16><<<t, 384, 0, s>>>(a.y, a.bias, a.ids[0] + 4096, a.scale + 4096, EXPERTS, TOPK);
            up<bf16, U, US, 8>(a.x, a.ids[i], a.w13[i % SETS], a.h, d, 264, s);
            down<bf16, 2, 8, 3, 4>(a.h, a.ids[i], a.scale, a.w2[i % SETS], a.y, d, s);
            if (dual)
                CHECK(cudaStreamWaitEvent(o, fork, 0));
            linear<bf16, bf16, NT, S, 8, 1, 4>(a.x, a.s13[i], a.wide, t, 512, 7168, o);
            linear<bf16, bf16, NT, 2, 4, 2, 1>(a.mid, a.s2[i], a.wide, t, 7168, 256, o);
            if (dual) {
                CHECK(cudaEventRecord(join, o));
                CHECK(cudaStreamWaitEvent(s, join, 0));
            }
        });
        report(dual ? "layer, two streams" : "layer, one stream", t, us,
               a.distinct * 3 * INTER * HIDDEN * 2 + (384.0 + 512 + 256) * HIDDEN * 2);
    }
}

static void choose_experts(arrays &a, const shape &d)
{
    a.distinct = 0;
    for (int i = 0; i < LAUNCHES; i++) {
        std::vector<int> ids = make_ids(d, 100 * d.tokens + i, false);
        a.distinct += (double)std::set<int>(ids.begin(), ids.end()).size() / LAUNCHES;
        CHECK(cudaMemcpy(a.ids[i], ids.data(), ids.size() * 4, cudaMemcpyHostToDevice));
    }
    printf("-- T=%d, %.1f experts of %d\n", d.tokens, a.distinct, d.inter);
}

template <int TR> static void time_downs(arrays &a, const shape &d)
{
    time_down<2, TR, 2, 4>(a, d);
    time_down<2, TR, 3, 4>(a, d);
    time_down<2, TR, 4, 4>(a, d);
    time_down<1, TR, 4, 4>(a, d);
}
template <int TR> static void time_wide(arrays &a, const shape &d)
{
    time_down<1, TR, 3, 8>(a, d);
    time_down<1, TR, 3, 11>(a, d);
    time_down<1, TR, 3, 12>(a, d);
    time_down<1, TR, 2, 14>(a, d);
}

static void time_tokens(arrays &a, int t)
{
    shape d = {t, TOPK, EXPERTS, HIDDEN, INTER};
    choose_experts(a, d);
    double us = time_of([&](int i, cudaStream_t s) { k_route<bf16><<<t, 384, 0, s>>>(a.gate[i], a.bias, a.ids[0] + 4096, a.scale + 4096, EXPERTS, TOPK); });
    report("route", t, us, t * EXPERTS * 2);
    if (t <= 8)
        time_linears<1>(a, t), time_layer<1>(a, d);
    else if (t <= 16)
        time_linears<2>(a, t), time_layer<2>(a, d);
    else if (t <= 32)
        time_linears<4>(a, t), time_layer<4>(a, d);
    else
        time_linears<8>(a, t), time_layer<8>(a, d);
    time_up<1, 4, 8>(a, d, 264);
    time_up<1, 3, 8>(a, d, 264);
    if (t == 1)
        time_downs<1>(a, d);
    else if (t <= 4)
        time_downs<4>(a, d);
    else
        time_downs<8>(a, d);
    shape wide = {t, 6, 64, 2048, 1408};
    choose_experts(a, wide);
    if (t == 1)
        time_wide<1>(a, wide);
    else if (t <= 4)
        time_wide<4>(a, wide);
    else if (t <= 32)
        time_wide<8>(a, wide);
    else
        time_wide<16>(a, wide);
}

static void time_all(void)
{
    arrays a;
    a.x = random_array<bf16>(64 * HIDDEN, 1, 1);
    a.h = random_array<bf16>((size_t)64 * 6 * 1408, 2, 1); /* not less than 64 * TOPK * INTER */
    a.mid = random_array<bf16>(64 * INTER, 3, 1);
    a.y = random_array<bf16>(64 * HIDDEN, 4, 1);
    a.wide = random_array<bf16>(64 * HIDDEN, 5, 1);
    a.scale = random_array<float>(8192, 6, 1);
    a.bias = random_array<float>(EXPERTS, 7, 0.1f);
    for (int i = 0; i < SETS; i++) {
        a.w13[i] = random_array<bf16>((size_t)EXPERTS * 2 * INTER * HIDDEN, 10 + i, 0.02f);
        a.w2[i] = random_array<bf16>((size_t)EXPERTS * INTER * HIDDEN, 20 + i, 0.1f);
    }
    for (int i = 0; i < LAUNCHES; i++) {
        a.gate[i] = random_array<bf16>((size_t)EXPERTS * HIDDEN, 30 + i, 0.02f);
        a.s13[i] = random_array<bf16>((size_t)512 * HIDDEN, 40 + i, 0.02f);
        a.s2[i] = random_array<bf16>((size_t)HIDDEN * INTER, 50 + i, 0.1f);
        CHECK(cudaMalloc(&a.ids[i], 8192 * sizeof(int)));
    }
    for (int t : {1, 4, 16, 64})
        time_tokens(a, t);
}
