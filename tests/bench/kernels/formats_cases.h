/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of formats.cu: shapes to check, and configurations to time.
 */
enum { HIDDEN = 7168, EXPERTS = 384, TOPK = 8, INTER = 256 };
template <class G, int MT, int STAGES, int WARPS, int DMT, int DSTAGES, int DWARPS, int WIDTH, bool KEEP, bool ONE> static void check_experts(const shape &d)
{
    size_t pairs = (size_t)d.tokens * d.k;
    weight w13 = place((size_t)d.experts * 2 * d.inter, d.hidden, 1), w2 = place((size_t)d.experts * d.hidden, d.inter, 2);
    bf16 *x = random_array<bf16>((size_t)d.tokens * d.hidden, 1, IS_F8 ? 1e-1f : 1);
    bf16 *h = random_array<bf16>(pairs * d.inter, 6, 1), *hr = random_array<bf16>(pairs * d.inter, 7, 1);
    bf16 *y = random_array<bf16>((size_t)d.tokens * d.hidden, 8, 1), *yr = random_array<bf16>((size_t)d.tokens * d.hidden, 9, 1);
    float *scale = random_array<float>(pairs, 5, 1);
    int *ids = upload(make_ids(d, d.tokens + 1, false));
    config_up<G, MT, STAGES, WARPS, WIDTH, KEEP, ONE> up(d);
    config_down<G, DMT, DSTAGES, DWARPS, WIDTH, ONE> down(d);
    char what[128];
    snprintf(what, sizeof what, "%s up t%d k%d e%d %dx%d mt%d w%d keep%d", name, d.tokens, d.k, d.experts, d.hidden, d.inter, MT,
             WARPS, KEEP);
    r_up<<<dim3((d.inter + 63) / 64, pairs), 64>>>(x, ids, w13.w, w13.s, tensor_scale(), hr, d.k, d.experts, d.hidden, d.inter);
    compare<bf16>(what, h, hr, pairs * d.inter, [&] { up.run(x, ids, w13.w, w13.s, tensor_scale(), h, d, 0); });
    snprintf(what, sizeof what, "%s down t%d k%d e%d %dx%d mt%d w%d", name, d.tokens, d.k, d.experts, d.hidden, d.inter, DMT,
             DWARPS);
    r_down<<<dim3((d.hidden + 63) / 64, d.tokens), 64>>>(hr, ids, scale, w2.w, w2.s, tensor_scale(), yr, d.k, d.experts,
                                                        d.hidden, d.inter);
    compare<bf16>(what, y, yr, (size_t)d.tokens * d.hidden,
                  [&] { down.run(hr, ids, scale, w2.w, w2.s, tensor_scale(), y, d, 0); });
    for (void *p : {(void *)x, (void *)h, (void *)hr, (void *)y, (void *)yr, (void *)scale, (void *)ids})
        CHECK(cudaFree(p));
}

static void check_all()
{
    for (int t : {1, 4, 16, 70}) {
        check_experts<F, 1, 3, 8, 1, 2, 4, 2, true, false>({t, 8, 48, 512, 256});
        check_experts<F, 2, 2, 7, 2, 2, 8, 8, false, false>({t, 4, 20, 1792, 256});
        check_experts<F, 2, 2, 8, 2, 2, 8, 2, true, false>({t, 8, 384, 7168, 256});
        if constexpr (HAS_FIXED) {
            check_experts<FIXED, 2, 2, 8, 2, 2, 8, 2, true, false>({t, 8, 384, 7168, 256});
            check_experts<FIXED, 1, 2, 8, 2, 2, 4, 3, true, false>({t, 8, 48, 1024, 512});
        }
    }
    check_experts<F, 1, 3, 8, 1, 2, 4, 1, true, true>({1, 8, 48, 512, 256});
    check_experts<F, 2, 2, 8, 2, 2, 8, 1, true, true>({1, 8, 384, 7168, 256});
    if constexpr (HAS_FIXED)
        check_experts<FIXED, 2, 2, 8, 2, 2, 8, 1, true, true>({1, 8, 384, 7168, 256});
}

/* ---- timing ---- */

static bf16 *X, *Y;
static int *IDS[LAUNCHES];
static float *WEIGHTS;

template <class G, int MT, int STAGES, int WARPS, int WIDTH, bool KEEP, bool ONE> static void time_up(const shape &d, double distinct)
{
    config_up<G, MT, STAGES, WARPS, WIDTH, KEEP, ONE> c(d);
    char config[64], what[32];
    if (!c.per_sm)
        return;
    snprintf(what, sizeof what, "%dx%d", 2 * d.inter, d.hidden);
    snprintf(config, sizeof config, "mt%d s%d w%d %s t%d b%d", MT, STAGES, WARPS,
             G::TOKENS == 1 ? "fixed" : KEEP ? "kept" : "read", WIDTH, c.per_sm);
    double bytes = distinct * (double)(weight_bytes(2 * d.inter, d.hidden) + scale_bytes(2 * d.inter, d.hidden));
    measure("up", what, config, d.tokens, bytes, [&](int i, cudaStream_t s) {
        weight w = place((size_t)d.experts * 2 * d.inter, d.hidden, i);
        c.run(X, IDS[i], w.w, w.s, tensor_scale(), Y, d, s);
    });
}
template <class G, int MT, int STAGES, int WARPS, int WIDTH, bool ONE> static void time_down(const shape &d, double distinct)
{
    config_down<G, MT, STAGES, WARPS, WIDTH, ONE> c(d);
    char config[64], what[32];
    if (!c.per_sm)
        return;
    snprintf(what, sizeof what, "%dx%d", d.hidden, d.inter);
    snprintf(config, sizeof config, "mt%d s%d w%d %s t%d b%d", MT, STAGES, WARPS, G::TOKENS == 1 ? "fixed" : "kept", WIDTH,
             c.per_sm);
    double bytes = distinct * (double)(weight_bytes(d.hidden, d.inter) + scale_bytes(d.hidden, d.inter));
    measure("down", what, config, d.tokens, bytes, [&](int i, cudaStream_t s) {
        weight w = place((size_t)d.experts * d.hidden, d.inter, i);
        c.run(X, IDS[i], WEIGHTS, w.w, w.s, tensor_scale(), Y, d, s);
    });
}

template <bool ONE> static void time_experts(const shape &d)
{
    double distinct = 0;
    for (int i = 0; i < LAUNCHES; i++) {
        std::vector<int> ids = make_ids(d, 100 * d.tokens + i, false);
        distinct += (double)std::set<int>(ids.begin(), ids.end()).size() / LAUNCHES;
        CHECK(cudaMemcpy(IDS[i], ids.data(), ids.size() * 4, cudaMemcpyHostToDevice));
    }
    constexpr int FEW = ONE ? 1 : 2;
    if constexpr (HAS_FIXED) {
        time_up<FIXED, 2, 2, 8, 1, true, ONE>(d, distinct);
        time_up<FIXED, 2, 2, 8, FEW, true, ONE>(d, distinct);
        time_up<FIXED, 2, 2, 6, FEW, true, ONE>(d, distinct);
        time_down<FIXED, 2, 2, 8, 1, ONE>(d, distinct);
        time_down<FIXED, 2, 2, 8, FEW, ONE>(d, distinct);
        time_down<FIXED, 2, 2, 6, FEW, ONE>(d, distinct);
    }
    time_up<F, 2, 2, 8, FEW, true, ONE>(d, distinct);
    time_up<F, 2, 2, 4, FEW, true, ONE>(d, distinct);
    time_up<F, 2, 2, 4, FEW, false, ONE>(d, distinct);
    time_up<F, 2, 3, 8, FEW, true, ONE>(d, distinct);
    time_up<F, 1, 2, 8, FEW, true, ONE>(d, distinct);
    time_up<F, 1, 3, 8, FEW, true, ONE>(d, distinct);
    time_down<F, 2, 2, 8, FEW, ONE>(d, distinct);
    time_down<F, 2, 2, 4, FEW, ONE>(d, distinct);
    time_down<F, 2, 3, 4, FEW, ONE>(d, distinct);
    time_down<F, 1, 2, 8, FEW, ONE>(d, distinct);
    time_down<F, 1, 2, 4, FEW, ONE>(d, distinct);
}

static void time_all()
{
    X = random_array<bf16>(64 * 16384, 1, 1);
    Y = random_array<bf16>(64 * 24576, 2, 1);
    WEIGHTS = random_array<float>(8192, 3, 1);
    for (int i = 0; i < LAUNCHES; i++)
        CHECK(cudaMalloc(&IDS[i], 8192 * sizeof(int)));
    for (int t : {1, 4, 16})
        for (int wide : {0, 1}) { /* an eighth of the columns, and all of them */
            shape d = {t, TOPK, wide ? 256 : EXPERTS, HIDDEN, wide ? 2048 : INTER};
            t == 1 ? time_experts<true>(d) : time_experts<false>(d);
        }
}
