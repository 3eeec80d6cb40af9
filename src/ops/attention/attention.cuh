/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode attention: how blocks share out the cached positions (attention.h has the rule), the combination of their
 * sums, and a plain kernel for any type and width. A position's row in the cache is found through the table; a page
 * outside of the cache counts as page 0, a length is clamped, so nothing outside is ever read.
 */
#ifndef STEM_ATTENTION_CUH
#define STEM_ATTENTION_CUH

#ifndef STEM_EMULATED

/* Four 8 x 8 matrices of 16-bit elements, transposed: lane 8 * i + r says where row r of matrix i is (16 bytes). r[i] of
 * lane 4g + t has rows 2t and 2t + 1 of column g: a fragment of operand B whose k runs over rows. */
__device__ __forceinline__ void stem_matrix_trans(unsigned (&r)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

#endif

#define STEM_NO_MAX (-1e30f) /* below every score; scores that are not there are -infinity */

struct stem_attention_call {
    int tokens, heads, rows, groups, kv_heads, pages, page, max_pages, indices, unit, parts;
    float scale; /* times log2(e) */
    __device__ __forceinline__ int most() const
    {
        return indices ? indices : max_pages * page;
    }
};

/* Two elements in a word, and what they are as floats. */
template <class E> __device__ __forceinline__ unsigned stem_pack(float &low, float &high)
{
    E a = stem_round<E>::from(low), b = stem_round<E>::from(high);
    low = stem_float(a);
    high = stem_float(b);
    return (unsigned)*reinterpret_cast<unsigned short *>(&a) | (unsigned)*reinterpret_cast<unsigned short *>(&b) << 16;
}

/* Where 16-byte piece c of row r lies in a row: neither rows of one piece nor pieces of two neighbouring rows meet in a
 * bank. */
__device__ __forceinline__ int stem_attention_piece(int r, int c)
{
    return c ^ ((r & 1) << 2 | (r >> 1 & 3));
}

/* Positions of a token; units of that many. */
__device__ __forceinline__ int stem_attention_length(const int *lens, int token, int most, bool sparse)
{
    return sparse ? most : min(max(stem_load_fresh(lens + token), 0), most);
}

/* Units of all tokens. Called by whole warps. */
__device__ __forceinline__ long long stem_attention_units(const int *lens, int tokens, int groups, int most, int unit,
                                                          bool sparse)
{
    int lane = threadIdx.x & 31;
    long long all = 0;
    for (int t0 = 0; t0 < tokens; t0 += 32) {
        int n = t0 + lane < tokens ? stem_attention_length(lens, t0 + lane, most, sparse) : 0;
        n = (n + unit - 1) / unit;
#pragma unroll
        for (int d = 16; d; d >>= 1)
            n += __shfl_xor_sync(0xffffffffu, n, d);
        all += n;
    }
    return all * groups;
}

/* The item that unit u lies in (the last one if u is past the end), and the number of units before it. */
struct stem_attention_place {
    int item;
    long long start;
};
__device__ __forceinline__ stem_attention_place stem_attention_find(const int *lens, int tokens, int groups, int most,
                                                                    int unit, bool sparse, long long u)
{
    const unsigned every = 0xffffffffu;
    int lane = threadIdx.x & 31, last = 0;
    long long before = 0;
    for (int t0 = 0; t0 < tokens; t0 += 32) {
        int n = t0 + lane < tokens ? stem_attention_length(lens, t0 + lane, most, sparse) : 0;
        n = (n + unit - 1) / unit;
        int sum = n;
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            int other = __shfl_up_sync(every, sum, d);
            sum += lane >= d ? other : 0;
        }
        unsigned past = __ballot_sync(every, (before + sum) * groups > u);
        if (past) {
            int token = __ffs(past) - 1, units = __shfl_sync(every, n, token);
            long long start = (before + __shfl_sync(every, sum, token) - units) * groups;
            int group = (int)((u - start) / units);
            return {(t0 + token) * groups + group, start + (long long)group * units};
        }
        before += __shfl_sync(every, sum, 31);
        last = __shfl_sync(every, n, min(31, tokens - 1 - t0));
    }
    return {tokens * groups - 1, before * groups - last};
}

/* A block's shares: for each of them step() sets slot, token, group, and positions from..to-1 of the token's n. All
 * threads of the block go through the same ones. Called after stem_wait(). */
struct stem_attention_walk {
    const int *lens;
    int tokens, groups, most, unit, last, item;
    bool sparse;
    long long begin, end, start;
    int slot, token, group, from, to, n;

    __device__ __forceinline__ stem_attention_walk(const int *lens_, int tokens_, int groups_, int most_, int unit_,
                                                   int parts, bool sparse_)
        : lens(lens_), tokens(tokens_), groups(groups_), most(most_), unit(unit_), sparse(sparse_)
    {
        long long all = stem_attention_units(lens, tokens, groups, most, unit, sparse);
        begin = all * blockIdx.x / parts;
        end = all * (blockIdx.x + 1) / parts;
        stem_attention_place first = {0, 0};
        if (blockIdx.x > 0)
            first = stem_attention_find(lens, tokens, groups, most, unit, sparse, begin);
        last = (int)blockIdx.x + 1 < parts ? stem_attention_find(lens, tokens, groups, most, unit, sparse, end).item
                                           : tokens * groups - 1;
        item = first.item;
        start = first.start;
        token = item / groups;
        n = stem_attention_length(lens, token, most, sparse);
    }
    __device__ __forceinline__ bool step()
    {
        if (item > last)
            return false;
        if (item / groups != token) {
            token = item / groups;
            n = stem_attention_length(lens, token, most, sparse);
        }
        long long units = (n + unit - 1) / unit, low = begin > start ? begin - start : 0,
                  high = end < start + units ? end - start : units;
        group = item % groups;
        slot = blockIdx.x + item;
        from = (int)low * unit;
        to = high > low ? min((int)high * unit, n) : from;
        start += units;
        item++;
        return true;
    }
};

/* ---- the sum of the shares ---- */

/* Grid: tokens * heads. The warps share out the blocks' sums in turn; lanes have columns. ROWS rows a slot, D wide. */
template <class O, int ROWS, int GROUPS, int D, int UNIT, bool SPARSE>
__device__ __forceinline__ void stem_attention_combine(const float *acc, const float *ml, const int *lens, O *y,
                                                       int tokens, int heads, int most, int parts)
{
    constexpr int WARPS = 8, EACH = (D + 31) / 32;
    __shared__ float sums[WARPS][EACH * 32], weights[WARPS];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int token = blockIdx.x / heads, head = blockIdx.x % heads;
    int item = token * GROUPS + head / ROWS, row = head % ROWS;
    stem_wait();
    stem_launch_dependents();
    long long all = stem_attention_units(lens, tokens, GROUPS, most, UNIT, SPARSE), before = 0;
    int units = (stem_attention_length(lens, token, most, SPARSE) + UNIT - 1) / UNIT;
    before = token > 0 ? stem_attention_units(lens, token, GROUPS, most, UNIT, SPARSE) : 0;
    before += (long long)(head / ROWS) * units;
    /* unit u is block ((u + 1) * parts - 1) / all's */
    int first = units ? (int)(((before + 1) * parts - 1) / all) : 0;
    int end = units ? (int)(((before + units) * parts - 1) / all) + 1 : 0;
    float top = STEM_NO_MAX, weight = 0, sum[EACH] = {};
    for (int b = first + lane; b < end; b += 32) {
        const float *at = ml + ((long long)(b + item) * ROWS + row) * 2;
        if (stem_load_fresh(at + 1) != 0.0f)
            top = fmaxf(top, stem_load_fresh(at));
    }
    top = stem_warp_max(top);
#pragma unroll 4
    for (int b = first + warp; b < end; b += WARPS) {
        long long slot = (long long)(b + item) * ROWS + row;
        float l = stem_load_fresh(ml + slot * 2 + 1), f = l != 0.0f ? exp2f(stem_load_fresh(ml + slot * 2) - top) : 0.0f;
        weight += f * l;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (D % 32 == 0 || i * 32 + lane < D)
                sum[i] += f * stem_load_fresh(acc + slot * D + i * 32 + lane);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
        sums[warp][i * 32 + lane] = sum[i];
    if (lane == 0)
        weights[warp] = weight;
    __syncthreads();
    weight = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        weight += weights[w];
    for (int d = threadIdx.x; d < D; d += 32 * WARPS) {
        float v = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            v += sums[w][d];
        y[(long long)blockIdx.x * D + d] = stem_round<O>::from(weight != 0.0f ? v / weight : 0.0f);
    }
}

/* ---- any type and width ---- */

/* Row of the cache, counted in key heads' rows; -1: none. */
__device__ __forceinline__ long long stem_attention_row(const stem_attention_call &c, const int *table,
                                                        const int *lens, const int *chosen, int token, int head,
                                                        int position)
{
    if (chosen != nullptr) {
        position = stem_load_fresh(chosen + (long long)token * c.indices + position);
        if (position < 0 || position >= stem_attention_length(lens, token, c.max_pages * c.page, false))
            return -1;
    }
    int page = stem_load_fresh(table + (long long)token * c.max_pages + position / c.page);
    if (page < 0 || page >= c.pages)
        page = 0;
    return ((long long)page * c.page + position % c.page) * c.kv_heads + head;
}

/* Block: 128 threads, a warp for every fourth row of a slot. v NULL: the rows of k. EACH * 32 >= latent. */
template <class E, int ROWS, int EACH>
__device__ __forceinline__ void stem_attention_plain(const E *q, const E *k, const E *v, const int *table,
                                                     const int *lens, const int *chosen, float *acc, float *ml,
                                                     stem_attention_call c, int width, int latent)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    stem_wait();
    stem_launch_dependents();
    stem_attention_walk walk(lens, c.tokens, c.groups, c.most(), c.unit, c.parts, c.indices != 0);
    while (walk.step())
        for (int r = warp; r < ROWS; r += 4) {
            int head = walk.group * ROWS + r;
            float top = STEM_NO_MAX, weight = 0, sum[EACH] = {};
            const E *own = q + ((long long)walk.token * c.heads + head) * width;
            for (int i = walk.from; i < walk.to && head < c.heads; i++) {
                long long row = stem_attention_row(c, table, lens, chosen, walk.token,
                                                   c.kv_heads > 1 ? walk.group : 0, i);
                if (row < 0)
                    continue;
                float dot = 0;
                for (int d = lane; d < width; d += 32)
                    dot += stem_float(own[d]) * stem_float(k[row * width + d]);
                float s = stem_warp_sum(dot) * c.scale, higher = fmaxf(top, ceilf(s)), f = exp2f(top - higher);
                float p = stem_float(stem_round<E>::from(exp2f(s - higher)));
                top = higher;
                weight = weight * f + p;
                const E *values = (v != nullptr ? v : k) + row * width;
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    if (j * 32 + lane < latent)
                        sum[j] = sum[j] * f + p * stem_float(values[j * 32 + lane]);
            }
            long long slot = (long long)walk.slot * ROWS + r;
#pragma unroll
            for (int j = 0; j < EACH; j++)
                if (j * 32 + lane < latent)
                    acc[slot * latent + j * 32 + lane] = sum[j];
            if (lane == 0) {
                ml[slot * 2] = top > STEM_NO_MAX ? top : 0.0f;
                ml[slot * 2 + 1] = weight;
            }
        }
}

#endif
