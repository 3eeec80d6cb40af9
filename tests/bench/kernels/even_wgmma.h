/* SPDX-License-Identifier: Apache-2.0
 *
 * linear in f8e4m3 as the compiler has it on sm_90, for even.cu: products of warpgroups (linear_wide.cuh) of codes that the
 * launch before has made, cut in the ways that wide.c chooses from.
 */

/* A row of x in codes with a scale for each 128 columns, as rmsnorm and quantize_f8 leave it. A block has 128 columns. */
__global__ void quantise_rows(const bf16 *x, byte *code, float *down, int k)
{
    __shared__ float seen[4];
    int i = blockIdx.x * 128 + threadIdx.x, row = blockIdx.y, warp = threadIdx.x / 32;
    float v = i < k ? (float)x[(size_t)row * k + i] : 0.0f, most = fabsf(v);
    for (int o = 16; o; o /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
    seen[warp] = most;
    __syncthreads();
    most = fmaxf(fmaxf(fmaxf(seen[0], seen[1]), fmaxf(seen[2], seen[3])), 1e-4f);
    if (i < k)
        code[(size_t)row * k + i] = __nv_fp8_e4m3(v * (448.0f / most)).__x;
    if (threadIdx.x == 0)
        down[(size_t)row * gridDim.x + blockIdx.x] = most / 448.0f;
}

template <int NT, int STAGES, int GROUPS, int CL>
__global__ void __launch_bounds__(128 * GROUPS, 4 / GROUPS) __cluster_dims__(CL, 1, 1)
    k_wgmma(const byte *x, const float *down, const void *w, const void *s, bf16 *y, int m, int n, int k)
{
#ifdef STEM_WGMMA
    stem_linear_wide<NT, STAGES, GROUPS, CL, true, false>(stem_f8_rows{x, down}, w, s, stem_store_plain<bf16>{y, n}, m, n, k);
#endif
}

template <int NT, int STAGES, int GROUPS, int CL> struct wgmma_config {
    dim3 grid;
    int smem;
    wgmma_config(int m, int n)
    {
        int count = std::min(m, 8 * NT), each = (count * 16 + CL - 1) / CL * 4;
        int ring = (STAGES * (stem_wide_stage_bytes<NT> + 4 * stem_wide_scales<NT>) + 1023) / 1024 * 1024;
        grid = dim3((n + 63) / 64 * CL, (m + 8 * NT - 1) / (8 * NT));
        smem = 1024 + GROUPS * ring + (CL > 1 ? each * CL * 4 + 16 : 0);
        allow(k_wgmma<NT, STAGES, GROUPS, CL>, smem);
    }
    void run(const byte *x, const float *down, const weight &w, bf16 *y, int m, int n, int k, cudaStream_t stream) const
    {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t c = {};
        c.gridDim = grid;
        c.blockDim = dim3(128 * GROUPS);
        c.dynamicSmemBytes = smem;
        c.stream = stream;
        c.attrs = &attribute;
        c.numAttrs = early;
        CHECK(cudaLaunchKernelEx(&c, k_wgmma<NT, STAGES, GROUPS, CL>, x, down, (const void *)w.w, (const void *)w.s, y, m, n, k));
    }
};

/* The codes of random rows, made once for each size. */
static byte *codes;
static float *downs;
static void make_codes(const bf16 *x, int m, int k)
{
    if (!codes) {
        CHECK(cudaMalloc(&codes, (size_t)64 * 16384));
        CHECK(cudaMalloc(&downs, (size_t)64 * 128 * sizeof(float)));
    }
    quantise_rows<<<dim3((k + 127) / 128, m), 128>>>(x, codes, downs, k);
    CHECK(cudaDeviceSynchronize());
}

template <int NT, int STAGES, int GROUPS, int CL> static void check_wgmma(int m, int n, int k)
{
    wgmma_config<NT, STAGES, GROUPS, CL> c(m, n);
    weight w = place(n, k, 3);
    char what[128];
    snprintf(what, sizeof what, "%s wgmma %dx%dx%d nt%d s%d g%d cl%d", name, m, n, k, NT, STAGES, GROUPS, CL);
    bf16 *x = random_array<bf16>((size_t)m * k, 1 + m, 1), *y = random_array<bf16>((size_t)m * n, 3, 1),
         *ref = random_array<bf16>((size_t)m * n, 4, 1);
    r_linear<<<dim3((n + 127) / 128, m), 128>>>(x, w.w, w.s, nullptr, ref, m, n, k);
    make_codes(x, m, k);
    compare<bf16>(what, y, ref, (size_t)m * n, [&] { c.run(codes, downs, w, y, m, n, k, 0); });
    for (void *p : {(void *)x, (void *)y, (void *)ref})
        CHECK(cudaFree(p));
}

/* As many stages as wide.c gives a warpgroup. */
template <int NT, int GROUPS, int CL, int STAGES = NT <= 2 && CL == 1 ? 4 : 3> static void time_wgmma(int t, int n, int k)
{
    int chunks = (k + 127) / 128, share = (chunks + CL * GROUPS - 1) / (CL * GROUPS);
    if constexpr (STAGES > 2)
        if (share + 1 < STAGES) {
            time_wgmma<NT, GROUPS, CL, STAGES - 1>(t, n, k);
            return;
        }
    wgmma_config<NT, STAGES, GROUPS, CL> c(t, n);
    if (chunks < CL)
        return;
    char config[64];
    snprintf(config, sizeof config, "wgmma x8 nt%d s%d g%d cl%d", NT, STAGES, GROUPS, CL);
    measure(t, n, k, config, [&](int i, cudaStream_t s) { c.run(codes, downs, place(n, k, i), Y, t, n, k, s); });
}
template <int NT, int CL> static void time_groups(int t, int n, int k)
{
    time_wgmma<NT, 1, CL>(t, n, k);
    time_wgmma<NT, 2, CL>(t, n, k);
    time_wgmma<NT, 4, CL>(t, n, k);
}
template <int NT> static void time_clusters(int t, int n, int k)
{
    time_groups<NT, 1>(t, n, k);
    time_groups<NT, 2>(t, n, k);
    time_groups<NT, 4>(t, n, k);
    time_groups<NT, 8>(t, n, k);
}
/* Nothing for another format. */
template <class G> static void check_warpgroups()
{
    if constexpr (stem_is_f8<G>) {
        for (int m : {1, 5, 8}) {
            check_wgmma<1, 4, 4, 1>(m, 7168, 2048);
            check_wgmma<1, 3, 2, 8>(m, 2112, 7168);
        }
        check_wgmma<2, 4, 4, 1>(16, 500, 2048);
        check_wgmma<2, 3, 2, 8>(13, 600, 7168);
        check_wgmma<8, 3, 2, 2>(64, 600, 7168);
        check_wgmma<8, 3, 1, 1>(64, 4608, 1536);
        check_wgmma<1, 3, 2, 2>(3, 140, 400);
    }
}
template <class G> static void time_warpgroups(int t, int n, int k)
{
    if constexpr (stem_is_f8<G>) {
        make_codes(X, t, k);
        (t <= 8 ? time_clusters<1> : t <= 16 ? time_clusters<2> : time_clusters<8>)(t, n, k);
    }
}
