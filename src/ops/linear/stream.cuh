/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming weights through the tensor cores: the inner loop of linear and of experts. A warp owns a ring of stages
 * in shared memory. One stage holds 64 values of k (128 bytes) of 16 * MT weight rows and of up to 8 * NT token rows;
 * cp.async fills it again as soon as it is read, across the end of one item (a tile of 16 * MT rows) into the next, so
 * that memory stays busy through the epilogues. No other warp touches the ring: the loop needs no block barrier. A kernel
 * whose share is no more than the ring has all of its weights before it waits for its predecessor.
 *
 * The product is mma.m16n8k16 with the weights as A and the tokens as B. The order of k inside 32 values is permuted
 * the same way for both, so that a thread's fragments of two products are 16 contiguous bytes. Rows lie 128 bytes
 * apart; odd rows have their halves exchanged, which makes every 16-byte access free of bank conflicts.
 *
 * Preconditions: 16-bit floats, row starts 16-byte aligned, K a multiple of 8. Columns of tokens that are not there
 * compute on whatever the stage held: each column of the product depends on its own token only, each row on its own
 * weights.
 */
#ifndef STEM_STREAM_CUH
#define STEM_STREAM_CUH

#define STEM_CHUNK 64   /* values of k in one stage */
#define STEM_TILE_LD 20 /* stride of a token in a tile of 16 rows of f32 in shared memory: no bank conflicts */

#ifndef STEM_EMULATED /* the instructions; tests/unit/emulate.h has them in C++ */

/* The launch's dynamic shared memory. */
#define STEM_DYNAMIC_SHARED(name) extern __shared__ __align__(128) char name[]

__device__ __forceinline__ unsigned stem_shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* 16 bytes from global to shared memory; zeros if !valid. */
__device__ __forceinline__ void stem_copy16(unsigned to, const void *from, bool valid)
{
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

/* The same of weights, which a launch reads once: they are the first to leave the second-level cache, where the code of a
 * step's kernels and what these hand on then stay. STEM_HINTS: who compiles looks through the result (runtime/cubin.c). */
__device__ __forceinline__ void stem_copy16_once(unsigned to, const void *from, bool valid)
{
#if STEM_HINTS
    int bytes = valid ? 16 : 0;
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from), "r"(bytes),
                 "l"(policy)
                 : "memory");
#else
    stem_copy16(to, from, valid);
#endif
}

__device__ __forceinline__ void stem_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void stem_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ uint4 stem_shared16(unsigned from)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

__device__ __forceinline__ void stem_mma(const __nv_bfloat16 *, float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                         unsigned a3, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void stem_mma(const __half *, float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                         unsigned a3, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* mbarriers, by their shared addresses; from sm_90 on. */
__device__ __forceinline__ void stem_barrier_init(unsigned barrier, int arrivals)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
#endif
}

__device__ __forceinline__ void stem_barrier_arrive(unsigned barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
#endif
}

/* Until the phase of this parity has completed; parity 1 has, at the start. */
__device__ __forceinline__ void stem_barrier_wait(unsigned barrier, int parity)
{
#if __CUDA_ARCH__ >= 900
    int done;
    do
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.s32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    while (!done);
#endif
}

#endif /* STEM_EMULATED */

/* Stores a result as it is. What a kernel stores through is called with the place in y, the sum, and with PAIR the sum
 * of the row n / 2 further on; the lowering makes others that compute an expression of these and of more operands. */
template <class O> struct stem_store_plain {
    O *y;
    long long n; /* columns of y */
    __device__ __forceinline__ void operator()(int row, int column, float v, float) const
    {
        y[row * n + column] = stem_round<O>::from(v);
    }
};

/* Where this lane's rows of an item start: rows lane / 8 + 4 * i, at column 8 * (lane % 8). A weight row past the end
 * may be any other row (its sums are not used); a token that is not there is NULL and not loaded. */
template <class E, int MT, int NT> struct stem_rows {
    const E *weight[4 * MT];
    const E *token[2 * NT];
};

/* ROWS: of tokens in each group of 8 that a stage has room for; fewer than 8 if there are never more tokens. */
template <int MT, int NT, int ROWS = 8> constexpr int stem_stage_bytes = (16 * MT + ROWS * NT) * 2 * STEM_CHUNK;

/* One stage: all that the warp loads for values k .. k + 63, or only the weights or the tokens of it. */
template <class E, int MT, int NT>
__device__ __forceinline__ void stem_stage_load(unsigned stage, const stem_rows<E, MT, NT> &rows, int k, int K,
                                                bool weights, bool tokens)
{
    int lane = threadIdx.x & 31, row = lane >> 3, column = lane & 7;
    unsigned to = stage + row * 128 + ((column ^ ((row & 1) << 2)) << 4);
    bool inside = k + column * 8 < K;
#pragma unroll
    for (int i = 0; i < 4 * MT; i++)
        if (weights)
            stem_copy16_once(to + i * 512, rows.weight[i] + (inside ? k : 0), inside);
#pragma unroll
    for (int i = 0; i < 2 * NT; i++)
        if (tokens && rows.token[i] != nullptr)
            stem_copy16(to + MT * 2048 + i * 512, rows.token[i] + (inside ? k : 0), inside);
}

/* What becomes of the tokens between the ring and the products: nothing. norm_linear.cuh has the other one. Its `bytes`
 * of each stage lie behind the rows; it makes a sum for each of `sums` more rows of a token. */
template <int ROWS = 8> struct stem_tokens_plain {
    static constexpr int rows = ROWS, bytes = 0, sums = 0;
    __device__ __forceinline__ void begin(void) {}                  /* an item */
    __device__ __forceinline__ void load(unsigned, int, int) const {} /* its bytes, with the weights of k .. k + 63 */
    __device__ __forceinline__ void next(unsigned, int) {}          /* its bytes for columns 8 * piece .. + 7 of the stage */
    __device__ __forceinline__ uint4 take(const uint4 &b, int) { return b; } /* those columns of token 8 * j + lane / 4 */
    __device__ __forceinline__ void store(float *) const {}         /* its sums to the warp's tile */
    __device__ __forceinline__ float finish(float v, float) const { return v; }
};

/* acc += weights * tokens of one stage, on the first `tiles` groups of 8 tokens. Where a stage has room for fewer than 8,
 * tokens that are not there are taken for others that are. */
template <class E, int MT, int NT, class Tokens>
__device__ __forceinline__ void stem_stage_multiply(unsigned stage, float (&acc)[MT][NT][4], int tiles, Tokens &tokens)
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned at = stage + g * 128 + (((half * 4 + t) ^ ((g & 1) << 2)) << 4);
        int row = g % Tokens::rows;
        unsigned from = stage + MT * 2048 + row * 128 + (((half * 4 + t) ^ ((row & 1) << 2)) << 4);
        uint4 low[MT], high[MT];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            low[m] = stem_shared16(at + m * 2048);
            high[m] = stem_shared16(at + m * 2048 + 1024);
        }
        tokens.next(stage + stem_stage_bytes<MT, NT, Tokens::rows>, half * 4 + t);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            if (NT > 1 && j >= tiles)
                break;
            uint4 b = tokens.take(stem_shared16(from + j * 1024), j);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                stem_mma((const E *)nullptr, acc[m][j], low[m].x, high[m].x, low[m].y, high[m].y, b.x, b.y);
                stem_mma((const E *)nullptr, acc[m][j], low[m].z, high[m].z, low[m].w, high[m].w, b.z, b.w);
            }
        }
    }
}

/* Multiplies items first, first + step, ... < n_items, each over this warp's share of k: chunks part, part + parts,
 * ... `source.rows(item, rows)` says where an item's rows are, `source.tiles(item)` how many groups of 8 tokens it
 * has; `sink(item, acc)` takes the sums (C fragments: acc[m][j][0..1] row 16m + lane / 4, tokens 8j + 2 * (lane % 4)
 * + 0..1; acc[m][j][2..3] row + 8). A warp without a share loads zeros. EARLY: the kernel has not waited for its
 * predecessors yet; the weights of the first stages are loaded meanwhile, so neither they nor what `source.rows` reads
 * may depend on the predecessor. At most Tokens::rows tokens if these are fewer than 8. */
template <class E, int MT, int NT, int STAGES, bool EARLY, class Source, class Sink, class Tokens>
__device__ __forceinline__ void stem_stream_of(unsigned ring, int first, int step, int n_items, int part, int parts,
                                               int K, const Source &source, const Sink &sink, Tokens &what)
{
    constexpr int loaded = stem_stage_bytes<MT, NT, Tokens::rows>, bytes = loaded + Tokens::bytes;
    static_assert(Tokens::rows == 8 || NT == 1, "fewer than 8 tokens are one group");
    int chunks = (K + STEM_CHUNK - 1) / STEM_CHUNK, mine = part < chunks ? (chunks - part + parts - 1) / parts : 1;
    int fill_item = first, fill_chunk = 0, fill_slot = 0, slot = 0;
    stem_rows<E, MT, NT> rows;
    if (first < n_items)
        source.rows(first, rows);

    auto fill = [&](bool weights, bool tokens) {
        if (fill_item < n_items) {
            int k = (part + fill_chunk * parts) * STEM_CHUNK;
            stem_stage_load<E, MT, NT>(ring + fill_slot * bytes, rows, k, K, weights, tokens);
            if (weights)
                what.load(ring + fill_slot * bytes + loaded, k, K);
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            if (++fill_chunk == mine) {
                fill_chunk = 0;
                fill_item += step;
                if (fill_item < n_items)
                    source.rows(fill_item, rows);
            }
        }
        if (tokens)
            stem_copy_commit();
    };
    if (EARLY) { /* these weights become part of the first stage's group */
#pragma unroll 1
        for (int i = 0; i < STAGES; i++)
            fill(true, false);
        fill_item = first;
        fill_chunk = fill_slot = 0;
        if (first < n_items)
            source.rows(first, rows);
        stem_wait();
        stem_launch_dependents();
    }
#pragma unroll 1
    for (int i = 0; i < STAGES; i++)
        fill(!EARLY, true);
#pragma unroll 1
    for (int item = first; item < n_items; item += step) {
        float acc[MT][NT][4] = {};
        int tiles = source.tiles(item);
        what.begin();
#pragma unroll 1
        for (int i = 0; i < mine; i++) {
            stem_copy_wait<STAGES - 1>();
            __syncwarp(); /* all lanes' copies have landed */
            stem_stage_multiply<E, MT, NT>(ring + slot * bytes, acc, tiles, what);
            __syncwarp(); /* all lanes have read the stage that is filled now */
            fill(true, true);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        sink(item, acc);
    }
}

/* The same for one item, of which the ring holds all of the warp's share: no more than STAGES pieces of 64 values of k. A
 * kernel that lasts a few microseconds spends much of them fetching instructions, and these are half as many. EARLY: it is
 * done soon after its wait, so its successor may start ahead of it (`ahead` in ops/op.h). */
template <class E, int MT, int NT, bool EARLY, class Source, class Sink, class Tokens>
__device__ __forceinline__ void stem_stream_whole(unsigned ring, int item, int part, int parts, int K, const Source &source,
                                                  const Sink &sink, Tokens &what)
{
    constexpr int loaded = stem_stage_bytes<MT, NT, Tokens::rows>, bytes = loaded + Tokens::bytes;
    int chunks = (K + STEM_CHUNK - 1) / STEM_CHUNK, mine = part < chunks ? (chunks - part + parts - 1) / parts : 0;
    unsigned end = ring + mine * bytes, stage = ring;
    stem_rows<E, MT, NT> rows;
    source.rows(item, rows);
#pragma unroll 1
    for (int k = part * STEM_CHUNK; stage != end; stage += bytes, k += parts * STEM_CHUNK) {
        stem_stage_load<E, MT, NT>(stage, rows, k, K, true, !EARLY);
        what.load(stage + loaded, k, K);
    }
    if (EARLY) {
        stem_launch_dependents();
        stem_wait();
        stage = ring;
#pragma unroll 1
        for (int k = part * STEM_CHUNK; stage != end; stage += bytes, k += parts * STEM_CHUNK)
            stem_stage_load<E, MT, NT>(stage, rows, k, K, false, true);
    }
    stem_copy_commit();
    float acc[MT][NT][4] = {};
    int tiles = source.tiles(item);
    what.begin();
    stem_copy_wait<0>();
    __syncwarp(); /* all lanes' copies have landed */
#pragma unroll 1
    for (stage = ring; stage != end; stage += bytes)
        stem_stage_multiply<E, MT, NT>(stage, acc, tiles, what);
    sink(item, acc);
}

template <class E, int MT, int NT, int STAGES, bool EARLY, class Source, class Sink>
__device__ __forceinline__ void stem_stream(unsigned ring, int first, int step, int n_items, int part, int parts,
                                            int K, const Source &source, const Sink &sink)
{
    stem_tokens_plain<> tokens;
    stem_stream_of<E, MT, NT, STAGES, EARLY>(ring, first, step, n_items, part, parts, K, source, sink, tokens);
}

/* Writes a warp's sums to shared memory: tile[token * STEM_TILE_LD + row]. */
template <int NT> __device__ __forceinline__ void stem_tile_store(float *tile, const float (&acc)[1][NT][4])
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            tile[(8 * j + 2 * t + (c & 1)) * STEM_TILE_LD + g + 8 * (c >> 1)] = acc[0][j][c];
}

/* Sum over the `parts` tiles of one group of warps, in order. */
template <int NT> __device__ __forceinline__ float stem_tile_sum(const float *tiles, int parts, int token, int row)
{
    float sum = 0;
    for (int p = 0; p < parts; p++)
        sum += tiles[p * 8 * NT * STEM_TILE_LD + token * STEM_TILE_LD + row];
    return sum;
}

#endif
