/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_part for latents and many heads, by the warpgroup products of sm_90a: up to 64 heads are the rows of
 * wgmma.m64, and a tile of 64 positions of the cache is the key of one product and the value of the other, from the
 * same shared memory. Three warpgroups: the first makes the scores and their weights, and adds up a quarter of the
 * values' columns; the second adds up the others, most of it while the first is at the next scores, which alone would
 * not fill the tensor cores; the third loads, its halves a stage each, so that neither waits for the other's rows to
 * land. No barrier of the block after the start: stages, and the weights that the first warpgroup hands to the second,
 * have mbarriers.
 *
 * Preconditions: 16-bit floats, W a multiple of 64 and at most 576, 512 columns of values, 16-byte aligned operands.
 * Shared memory is in slabs of 64 rows of 128 bytes, swizzled as wgmma reads it: 16-byte piece c of row r is at c ^ r % 8.
 */
#ifndef STEM_MLA_WGMMA_CUH
#define STEM_MLA_WGMMA_CUH

#define STEM_WGMMA_THREADS 384
#define STEM_SLAB 8192 /* 64 rows of 128 bytes */

/* Bytes of dynamic shared memory: two stages, the queries, the weights, and what is small; its start is aligned. */
template <int W> constexpr int stem_mla_wgmma_smem = 1024 + 3 * (W / 64) * STEM_SLAB + STEM_SLAB + 64 * 4 + 2 * 64 + 64;

#if defined STEM_WGMMA && !defined STEM_EMULATED /* the instructions; tests/unit/emulate/wgmma.h has them in C++ */

#define STEM_WGMMA_FEW(TYPE)                                                                                          \
    asm volatile("{\nwgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE                                      \
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                            \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                    \
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "                   \
                 "%64, %65, 1, 1, 1, 0, 1;\n}"                                                                         \
                 : STEM_D32(0), STEM_D32(32)                                                                          \
                 : "l"(a), "l"(b))
#define STEM_WGMMA_VALUES(TYPE)                                                                                       \
    asm volatile("{\nwgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE                                      \
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                            \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                    \
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                    \
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                    \
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                    \
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "        \
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "   \
                 "%128, %129, 1, 1, 1, 0, 1;\n}"                                                                       \
                 : STEM_D32(0), STEM_D32(32), STEM_D32(64), STEM_D32(96)                                              \
                 : "l"(a), "l"(b))

/* 128 and 256 columns, added; k goes over the rows of b. */
__device__ __forceinline__ void stem_wgmma_values(const __nv_bfloat16 *, float (&d)[64], stem_wgmma_matrix a,
                                                  stem_wgmma_matrix b)
{
    STEM_WGMMA_FEW("bf16");
}
__device__ __forceinline__ void stem_wgmma_values(const __half *, float (&d)[64], stem_wgmma_matrix a,
                                                  stem_wgmma_matrix b)
{
    STEM_WGMMA_FEW("f16");
}
__device__ __forceinline__ void stem_wgmma_values(const __nv_bfloat16 *, float (&d)[128], stem_wgmma_matrix a,
                                                  stem_wgmma_matrix b)
{
    STEM_WGMMA_VALUES("bf16");
}
__device__ __forceinline__ void stem_wgmma_values(const __half *, float (&d)[128], stem_wgmma_matrix a,
                                                  stem_wgmma_matrix b)
{
    STEM_WGMMA_VALUES("f16");
}

template <int N> __device__ __forceinline__ void stem_registers_more()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void stem_registers_less()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

#endif

#ifdef STEM_WGMMA

/* A position's factor and the tiles' numbers are the same in all threads; stages and parities follow from the number of
 * tiles since the start, over all shares. */
template <class E, int W, int PAGE, bool SPARSE> struct stem_mla_wide {
    static constexpr int TILE = 64, SLABS = W / 64, STAGE = SLABS * STEM_SLAB, L = 512;

    unsigned ring, queries, weights, full, empty, weighed; /* full and empty: two barriers each */
    char *weights_at;
    float *factor;
    unsigned char *present;

    __device__ __forceinline__ stem_mla_wide(char *smem)
    {
        char *start = smem + ((1024 - (stem_shared_address(smem) & 1023)) & 1023);
        ring = stem_shared_address(start);
        queries = ring + 2 * STAGE;
        weights = queries + STAGE;
        weights_at = start + 3 * STAGE;
        char *rest = weights_at + STEM_SLAB;
        factor = (float *)rest;
        present = (unsigned char *)(rest + 64 * 4);
        full = stem_shared_address(rest + 64 * 4 + 2 * TILE);
        empty = full + 16;
        weighed = full + 32;
        if (threadIdx.x == 0) {
            for (int i = 0; i < 2; i++) {
                stem_barrier_init(full + 8 * i, 2); /* warps: those that load the stage */
                stem_barrier_init(empty + 8 * i, 8);
            }
            stem_barrier_init(weighed, 4);
        }
        __syncwarp();
        __syncthreads();
    }
    /* Once for the warp. */
    static __device__ __forceinline__ void arrive(unsigned barrier)
    {
        __syncwarp();
        if ((threadIdx.x & 31) == 0)
            stem_barrier_arrive(barrier);
    }
};

/* ---- loading ---- */

template <class E, int W, int PAGE, bool SPARSE> struct stem_mla_loader {
    typedef stem_mla_wide<E, W, PAGE, SPARSE> wide;
    static constexpr int OWN = 8; /* rows of a tile that a thread helps to load: eight threads load a row */
    const wide &b;
    const E *cache;
    const int *table, *lens, *chosen;
    int pages, max_pages, indices;
    int stage, at, end, number;
    int row[OWN]; /* of the cache; -1: none */

    __device__ __forceinline__ int row_of(int k) const
    {
        return 8 * k + ((threadIdx.x & 63) >> 3);
    }
    /* Finds the rows of the next tile of the block's shares that goes to this stage. */
    __device__ __forceinline__ bool next(stem_attention_walk<> &walk)
    {
        for (;;) {
            for (; at < end; at += wide::TILE)
                if ((number++ & 1) == stage) {
                    find(walk.token);
                    at += wide::TILE;
                    return true;
                }
            if (!walk.step())
                return false;
            at = walk.from;
            end = walk.to;
        }
    }
    __device__ __forceinline__ void find(int token)
    {
        const int *of = table + (long long)token * max_pages;
        int length = SPARSE ? stem_attention_length(lens, token, max_pages * PAGE, false) : end;
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            int i = at + row_of(k);
            row[k] = i < end ? i : -1;
            if (SPARSE && i < end) {
                int position = stem_load_fresh(chosen + (long long)token * indices + i);
                row[k] = position < length ? position : -1;
            }
        }
#pragma unroll
        for (int k = 0; k < OWN; k++)
            if (row[k] >= 0) {
                int page = stem_load_fresh(of + row[k] / PAGE);
                row[k] = (page < 0 || page >= pages ? 0 : page) * PAGE + row[k] % PAGE;
            }
    }
    __device__ __forceinline__ void load() const
    {
        int piece = threadIdx.x & 7;
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            int r = row_of(k);
            const E *from = cache + (long long)max(row[k], 0) * W + piece * 8;
            unsigned to = b.ring + stage * wide::STAGE + r * 128 + ((piece ^ (r & 7)) << 4);
#pragma unroll
            for (int s = 0; s < wide::SLABS; s++)
                stem_copy16(to + s * STEM_SLAB, from + s * 64, row[k] >= 0);
            if (SPARSE && piece == 0)
                b.present[stage * wide::TILE + r] = row[k] >= 0;
        }
        stem_copy_commit();
    }
    __device__ __forceinline__ void run(stem_attention_walk<> &walk)
    {
        stage = (threadIdx.x >> 6) & 1;
        at = end = number = 0;
        bool more = next(walk);
#pragma unroll 1
        for (int parity = 1; more; parity ^= 1) {
            stem_barrier_wait(b.empty + 8 * stage, parity);
            load();
            more = next(walk); /* the chain index, page, row is followed while the tile is on its way */
            stem_copy_wait<0>();
            stem_wgmma_written();
            wide::arrive(b.full + 8 * stage);
        }
    }
};

/* ---- multiplying ---- */

template <class E, int W, int PAGE, bool SPARSE, int HALF> struct stem_mla_adder {
    typedef stem_mla_wide<E, W, PAGE, SPARSE> wide;
    const wide &b;
    int number;
    /* sums of columns 0..127 or 128..255, and of 256..511 (the second warpgroup's) */
    float few[64], many[HALF ? 128 : 1];
    float top[2], weight[2]; /* of rows g and g + 8 of the warp's; the first warpgroup's */

    /* First warpgroup: `heads` rows of q exist. */
    __device__ __forceinline__ void load_queries(const E *q, int heads)
    {
        stem_warpgroup_sync(); /* nobody reads those before */
#pragma unroll 4
        for (int i = threadIdx.x; i < 64 * (W / 8); i += 128) {
            int r = i / (W / 8), c = i % (W / 8);
            stem_copy16(b.queries + c / 8 * STEM_SLAB + r * 128 + (((c ^ r) & 7) << 4), q + (r < heads ? r * W + c * 8 : 0),
                        r < heads);
        }
        stem_copy_commit();
        stem_copy_wait<0>();
        stem_wgmma_written();
        __syncwarp();
        stem_warpgroup_sync();
    }
    __device__ __forceinline__ void score(float (&s)[32], unsigned stage)
    {
        stem_wgmma_matrix q = stem_wgmma_at(b.queries, 16), k = stem_wgmma_at(stage, 16);
        stem_wgmma_hold(s);
        stem_wgmma_begin();
#pragma unroll
        for (int i = 0; i < W / 16; i++) {
            int at = (i / 4 * STEM_SLAB + i % 4 * 32) >> 4;
            stem_wgmma_keys((const E *)nullptr, s, q + at, k + at, i > 0);
        }
        stem_wgmma_end();
        stem_wgmma_hold(s);
    }
    /* The scores become weights; f: what the sums so far are multiplied by. Positions from `end` on are not there. */
    __device__ __forceinline__ void weigh(float (&s)[32], float (&f)[2], int stage, int first, int end, float scale)
    {
        int t = threadIdx.x & 3;
        float higher[2] = {STEM_NO_MAX, STEM_NO_MAX};
#pragma unroll
        for (int j = 0; j < 8; j++) {
            int column = 8 * j + 2 * t;
            unsigned both = 0;
            if (SPARSE)
                both = *reinterpret_cast<const unsigned short *>(b.present + stage * wide::TILE + column);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                bool there = SPARSE ? (both >> 8 * (c & 1) & 1) != 0 : first + column + (c & 1) < end;
                s[4 * j + c] = there ? s[4 * j + c] * scale : __int_as_float(0xff800000);
                higher[c >> 1] = fmaxf(higher[c >> 1], s[4 * j + c]);
            }
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            higher[h] = fmaxf(higher[h], __shfl_xor_sync(0xffffffffu, higher[h], 1));
            higher[h] = fmaxf(higher[h], __shfl_xor_sync(0xffffffffu, higher[h], 2));
            higher[h] = fmaxf(top[h], ceilf(higher[h]));
            f[h] = exp2f(top[h] - higher[h]);
            top[h] = higher[h];
            weight[h] *= f[h];
        }
#pragma unroll
        for (int i = 0; i < 32; i++)
            s[i] = exp2f(s[i] - top[i >> 1 & 1]);
    }
    /* Rounds them and hands them out. */
    __device__ __forceinline__ void hand_out(float (&s)[32], const float (&f)[2])
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, row = threadIdx.x / 32 * 16 + g;
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                *reinterpret_cast<unsigned *>(b.weights_at + (row + 8 * h) * 128 + ((j ^ g) << 4) + 4 * t) =
                    stem_pack<E>(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]);
                weight[h] += s[4 * j + 2 * h] + s[4 * j + 2 * h + 1];
            }
            if (t == 0)
                b.factor[row + 8 * h] = f[h];
        }
        stem_wgmma_written();
        wide::arrive(b.weighed);
    }
    template <int N> static __device__ __forceinline__ void scale_by(float (&sum)[N], float f0, float f1)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] *= i & 2 ? f1 : f0;
    }
    __device__ __forceinline__ void add(float f0, float f1, unsigned stage)
    {
        if (__ballot_sync(0xffffffffu, f0 != 1.0f || f1 != 1.0f) != 0) {
            scale_by(few, f0, f1);
            if (HALF)
                scale_by(many, f0, f1);
        }
        stem_wgmma_matrix p = stem_wgmma_at(b.weights, 16), v = stem_wgmma_at(stage, STEM_SLAB);
        stem_wgmma_hold(few);
        stem_wgmma_hold(many);
        stem_wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            stem_wgmma_values((const E *)nullptr, few, p + k * (32 >> 4), v + ((HALF * 2 * STEM_SLAB + k * 2048) >> 4));
            if constexpr (HALF == 1)
                stem_wgmma_values((const E *)nullptr, many, p + k * (32 >> 4), v + ((4 * STEM_SLAB + k * 2048) >> 4));
        }
        stem_wgmma_end();
        stem_wgmma_hold(few);
        stem_wgmma_hold(many);
    }
    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (float &v : few)
            v = 0;
#pragma unroll
        for (float &v : many)
            v = 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            top[h] = STEM_NO_MAX;
            weight[h] = 0;
        }
    }
    /* A tile: positions first.. of those before `end`. */
    __device__ __forceinline__ void step(int first, int end, float scale)
    {
        int stage = number & 1, row = (threadIdx.x >> 5 & 3) * 16 + ((threadIdx.x & 31) >> 2);
        unsigned at = b.ring + stage * wide::STAGE;
        float f[2];
        stem_barrier_wait(b.full + 8 * stage, number >> 1 & 1);
        if (HALF == 0) {
            float s[32];
            score(s, at);
            weigh(s, f, stage, first, end, scale);
            if (number > 0) /* nobody reads the weights before */
                stem_barrier_wait(b.empty + 8 * (stage ^ 1), (number - 1) >> 1 & 1);
            hand_out(s, f);
        }
        stem_barrier_wait(b.weighed, number & 1);
        if (HALF == 1) {
            f[0] = b.factor[row];
            f[1] = b.factor[row + 8];
        }
        add(f[0], f[1], at);
        wide::arrive(b.empty + 8 * stage);
        number++;
    }
    /* Half h of the thread's two rows: `to` is its first element. */
    template <int N> static __device__ __forceinline__ void put(float *to, const float (&sum)[N], int h, bool there)
    {
#pragma unroll
        for (int j = 0; j < N / 4; j++)
            *reinterpret_cast<stem_vec<float, 2> *>(to + 8 * j) = {there ? sum[4 * j + 2 * h] : 0.0f,
                                                                   there ? sum[4 * j + 2 * h + 1] : 0.0f};
    }
    /* Of the block's rows `heads` exist. */
    __device__ __forceinline__ void store(float *acc, float *ml, int rows, int heads)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int r = (threadIdx.x >> 5 & 3) * 16 + 8 * h + g;
            weight[h] += __shfl_xor_sync(0xffffffffu, weight[h], 1);
            weight[h] += __shfl_xor_sync(0xffffffffu, weight[h], 2);
            if (r >= rows)
                continue;
            put(acc + r * wide::L + HALF * 128 + 2 * t, few, h, r < heads);
            put(acc + r * wide::L + 256 + 2 * t, many, h, r < heads);
            if (HALF == 0 && t == 0) {
                ml[2 * r] = r < heads && top[h] > STEM_NO_MAX ? top[h] : 0.0f;
                ml[2 * r + 1] = r < heads ? weight[h] : 0.0f;
            }
        }
    }
};

template <class E, int W, int ROWS, int PAGE, bool SPARSE, int HALF>
__device__ __forceinline__ void stem_mla_add(const stem_mla_wide<E, W, PAGE, SPARSE> &b, stem_attention_walk<> &walk,
                                             const E *q, float *acc, float *ml, int heads, float scale)
{
    stem_mla_adder<E, W, PAGE, SPARSE, HALF> a{b, 0};
    constexpr int EACH = stem_mla_rows<ROWS>;
    int first = (int)blockIdx.x % stem_mla_halves<ROWS> * EACH, rows = min(EACH, ROWS - first);
#pragma unroll 1
    while (walk.step()) {
        long long row = (long long)walk.slot * ROWS + first;
        float *to_acc = acc + row * 512, *to_ml = ml + row * 2;
        if (walk.from >= walk.to) {
            for (int i = threadIdx.x; i < rows * 512; i += 256)
                to_acc[i] = 0;
            for (int i = threadIdx.x; i < rows * 2; i += 256)
                to_ml[i] = 0;
            continue;
        }
        int head = walk.group * ROWS + first;
        if (HALF == 0)
            a.load_queries(q + ((long long)walk.token * heads + head) * W, min(rows, heads - head));
        a.begin();
#pragma unroll 1
        for (int at = walk.from; at < walk.to; at += a.b.TILE)
            a.step(at, walk.to, scale);
        a.store(to_acc, to_ml, rows, heads - head);
    }
}

/* Block: STEM_WGMMA_THREADS threads. Grid: as for stem_mla_part. */
template <class E, int W, int ROWS, int GROUPS, int PAGE, bool SPARSE>
__device__ __forceinline__ void stem_mla_wgmma(const E *q, const E *cache, const int *table, const int *lens,
                                               const int *chosen, float *acc, float *ml, int tokens, int heads, int pages,
                                               int max_pages, int indices, int parts, float scale)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    stem_mla_wide<E, W, PAGE, SPARSE> b(stem_smem);
    stem_attention_walk<> walk(lens, tokens, GROUPS, SPARSE ? indices : max_pages * PAGE, STEM_MLA_UNIT, parts, SPARSE,
                             (int)blockIdx.x / stem_mla_halves<ROWS>);
    stem_wait();
    stem_launch_dependents();
    if (threadIdx.x >= 256) {
        stem_registers_less<88>();
        stem_mla_loader<E, W, PAGE, SPARSE> l{b, cache, table, lens, chosen, pages, max_pages, indices};
        l.run(walk);
    } else if (threadIdx.x >= 128) {
        stem_registers_more<240>();
        stem_mla_add<E, W, ROWS, PAGE, SPARSE, 1>(b, walk, q, acc, ml, heads, scale);
    } else {
        stem_registers_more<176>();
        stem_mla_add<E, W, ROWS, PAGE, SPARSE, 0>(b, walk, q, acc, ml, heads, scale);
    }
}

#endif

#endif
