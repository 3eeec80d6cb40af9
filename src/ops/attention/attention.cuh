/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode attention: how blocks share out the cached positions (attention.h has the rule), the combination of their
 * sums, and a plain kernel for any type and width. A position's row in the cache is found through the table; a page
 * outside of the cache counts as page 0, a length is clamped, so nothing outside is ever read.
 */
#ifndef STEM_ATTENTION_CUH
#define STEM_ATTENTION_CUH

#ifndef STEM_EMULATED

/* Four 8 x 8 matrices of 16-bit elements, transposed: lane 8 * i + r says where row r of matrix i is (16 bytes). r[i]
 * of lane 4g + t has rows 2t and 2t + 1 of column g: a fragment of operand B whose k runs over rows. */
__device__ __forceinline__ void stem_matrix_trans(unsigned (&r)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

/* Asks for the line at p in the second-level cache. A hint that reads nothing: it may come before stem_wait(), for
 * whoever still writes there writes to that cache. */
__device__ __forceinline__ void stem_ask(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
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
    return (unsigned)*reinterpret_cast<unsigned short *>(&a) | (unsigned)*reinterpret_cast<unsigned short *>(&b)
                                                                   << 16;
}

/* Where 16-byte piece c of row r lies in a row: neither rows of one piece nor pieces of two neighbouring rows meet in
 * a bank. */
__device__ __forceinline__ int stem_attention_piece(int r, int c)
{
    return c ^ ((r & 1) << 2 | (r >> 1 & 3));
}

/* Positions of a token. */
__device__ __forceinline__ int stem_attention_length(const int *lens, int token, int most, bool sparse)
{
    return sparse ? most : min(max(stem_load_fresh(lens + token), 0), most);
}

/* The lengths of all tokens; every lane keeps one of the first 32, so that most calls load them once. Its functions
 * are called by whole warps. */
struct stem_attention_lengths {
    const int *lens;
    int tokens, most, unit, own;
    bool sparse;
    __device__ __forceinline__ stem_attention_lengths(const int *lens_, int tokens_, int most_, int unit_,
                                                      bool sparse_)
        : lens(lens_), tokens(tokens_), most(most_), unit(unit_), sparse(sparse_)
    {
        int lane = threadIdx.x & 31;
        own = lane < tokens ? stem_attention_length(lens, lane, most, sparse) : 0;
    }
    __device__ __forceinline__ int length(int token) const
    {
        return token < 32 ? __shfl_sync(0xffffffffu, own, token) : stem_attention_length(lens, token, most, sparse);
    }
    /* units of the lane's token t0 + lane, 0 from token `end` on */
    __device__ __forceinline__ int units(int t0, int end) const
    {
        int t = t0 + (threadIdx.x & 31), n = t0 == 0 ? own : 0;
        if (t0 > 0 && t < end)
            n = stem_attention_length(lens, t, most, sparse);
        return t < end ? (n + unit - 1) / unit : 0;
    }
    /* of all tokens before `end` */
    __device__ __forceinline__ long long before(int end) const
    {
        long long all = 0;
        for (int t0 = 0; t0 < end; t0 += 32) {
            int n = units(t0, end);
#pragma unroll
            for (int d = 16; d; d >>= 1)
                n += __shfl_xor_sync(0xffffffffu, n, d);
            all += n;
        }
        return all;
    }
};

/* The item that unit u lies in (the last one if u is past the end), and the number of units before it. */
struct stem_attention_place {
    int item;
    long long start;
};
__device__ __forceinline__ stem_attention_place stem_attention_find(const stem_attention_lengths &s, int groups,
                                                                    long long u)
{
    const unsigned every = 0xffffffffu;
    int lane = threadIdx.x & 31, last = 0;
    long long before = 0;
    for (int t0 = 0; t0 < s.tokens; t0 += 32) {
        int n = s.units(t0, s.tokens), sum = n;
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
        last = __shfl_sync(every, n, min(31, s.tokens - 1 - t0));
    }
    return {s.tokens * groups - 1, before * groups - last};
}

/* The shares of one of the parts, a block's: for each of them step() sets slot, token, group, and positions
 * from..to-1 of the token's n. All threads of the block go through the same ones. ONE: there is one token, and few enough
 * units for one_token(). */
template <bool ONE = false> struct stem_attention_walk {
    stem_attention_lengths lengths;
    int groups, part, last, item;
    long long begin, end, start;
    int slot, token, group, from, to, n;

    __device__ __forceinline__ stem_attention_walk(const int *lens, int tokens, int groups_, int most, int unit,
                                                   int parts, bool sparse, int part_ = (int)blockIdx.x)
        : lengths(lens, tokens, most, unit, sparse), groups(groups_), part(part_)
    {
        if (!one_token(tokens, parts) && !ONE)
            many_tokens(tokens, parts);
        token = item / groups;
        n = lengths.length(token);
    }
    /* What many_tokens() finds, in a few steps: most of the time until the first load is fetching instructions. */
    __device__ __forceinline__ bool one_token(int tokens, int parts)
    {
        if (tokens > 1 && !ONE)
            return false;
        unsigned units = (unsigned)(lengths.length(0) + lengths.unit - 1) / (unsigned)lengths.unit, all = units * groups;
        if ((units >= 1 << 16 || groups * parts >= 1 << 16) && !ONE)
            return false;
        unsigned b = (unsigned)part, low = all * b / (unsigned)parts, high = all * (b + 1) / (unsigned)parts;
        item = b == 0 ? 0 : low < all ? (int)(low / units) : groups - 1;
        last = (int)b + 1 < parts && high < all ? (int)(high / units) : groups - 1;
        begin = low;
        end = high;
        start = (long long)item * units;
        return true;
    }
    __device__ __forceinline__ void many_tokens(int tokens, int parts)
    {
        long long all = lengths.before(tokens) * groups;
        begin = all * part / parts;
        end = all * (part + 1) / parts;
        stem_attention_place first = {0, 0};
        if (part > 0)
            first = stem_attention_find(lengths, groups, begin);
        last = part + 1 < parts ? stem_attention_find(lengths, groups, end).item : tokens * groups - 1;
        item = first.item;
        start = first.start;
    }
    __device__ __forceinline__ bool step()
    {
        if (item > last)
            return false;
        if (item / groups != token) {
            token = item / groups;
            n = lengths.length(token);
        }
        int unit = lengths.unit;
        long long units = (n + unit - 1) / unit, low = begin > start ? begin - start : 0,
                  high = end < start + units ? end - start : units;
        group = item % groups;
        slot = part + item;
        from = (int)low * unit;
        to = high > low ? min((int)high * unit, n) : from;
        start += units;
        item++;
        return true;
    }
};

/* ---- the sum of the shares ---- */

/* Blocks first..end-1 have shares of an item. ONE: as for a walk. */
template <bool ONE = false> struct stem_attention_range {
    int first, end;
    /* of token `token` and a group of heads: unit u of all is block ((u + 1) * parts - 1) / all's */
    __device__ __forceinline__ stem_attention_range(const int *lens, int tokens, int groups, int token, int group,
                                                    int most, int unit, int parts, bool sparse)
        : first(0), end(0)
    {
        stem_attention_lengths lengths(lens, tokens, most, unit, sparse);
        unsigned units = (unsigned)(lengths.length(token) + unit - 1) / (unsigned)unit;
        if (units == 0)
            return;
        if (ONE || (tokens == 1 && units < 1 << 16 && groups * parts < 1 << 16)) { /* as below, in a few steps */
            unsigned all = units * groups, before = units * group;
            first = (int)(((before + 1) * parts - 1) / all);
            end = (int)(((before + units) * parts - 1) / all) + 1;
            return;
        }
        long long all = lengths.before(tokens) * groups;
        long long before = lengths.before(token) * groups + (long long)group * units;
        first = (int)(((before + 1) * parts - 1) / all);
        end = (int)(((before + units) * parts - 1) / all) + 1;
    }
};

/* A warp's part of the sum over an item's shares, for SLICE columns of a row: shares first + part, + WARPS, .. of those
 * before `end`. A lane has EACH columns, and knows the weight of one share of each BATCH. */
template <int SLICE, int WARPS, int BATCH> struct stem_attention_sum {
    static constexpr int VECTOR = SLICE % 128 == 0 ? 4 : SLICE % 64 == 0 ? 2 : 1, EACH = (SLICE + 31) / 32;
    float top, weight, sum[EACH];

    /* acc, ml: of the row in block 0's slot of the item; row: elements of acc from one slot to the next. */
    __device__ __forceinline__ void add(const float *acc, const float *ml, long long row, int rows, int first, int end,
                                        int part)
    {
        const unsigned every = 0xffffffffu;
        int lane = threadIdx.x & 31, column = lane * VECTOR;
        top = STEM_NO_MAX;
        weight = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            sum[i] = 0;
#pragma unroll 1
        for (int b0 = first + part; b0 < end; b0 += WARPS * BATCH) {
            float v[BATCH][EACH];
            int own = b0 + lane * WARPS;
            stem_vec<float, 2> of = {};
            if (lane < BATCH && own < end)
                of = stem_load<2>(ml + (long long)own * rows * 2);
#pragma unroll
            for (int k = 0; k < BATCH; k++)
#pragma unroll
                for (int i = 0; i < EACH; i += VECTOR) {
                    stem_vec<float, VECTOR> x = {};
                    if (b0 + k * WARPS < end && (SLICE % 32 == 0 || i * 32 + column < SLICE))
                        x = stem_load<VECTOR>(acc + (b0 + k * WARPS) * row + i * 32 + column);
#pragma unroll
                    for (int j = 0; j < VECTOR; j++)
                        v[k][i + j] = x.at[j];
                }
            float higher = fmaxf(top, stem_warp_max(of.at[1] != 0.0f ? of.at[0] : STEM_NO_MAX));
            float own_factor = of.at[1] != 0.0f ? exp2f(of.at[0] - higher) : 0.0f, f = exp2f(top - higher);
            top = higher;
            weight = weight * f + stem_warp_sum(own_factor * of.at[1]);
#pragma unroll
            for (int i = 0; i < EACH; i++)
                sum[i] *= f;
#pragma unroll
            for (int k = 0; k < BATCH; k++) {
                f = __shfl_sync(every, own_factor, k);
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    sum[i] += f * v[k][i];
            }
        }
    }
};

/* The warps' sums: a place for each of a block's. */
template <int SLICE, int COUNT = 8> struct stem_attention_sums {
    static constexpr int WIDTH = (SLICE + 31) / 32 * 32;
    float sum[COUNT][WIDTH], top[COUNT], weight[COUNT];
    template <int WARPS, int BATCH>
    __device__ __forceinline__ void put(int place, const stem_attention_sum<SLICE, WARPS, BATCH> &s)
    {
        constexpr int VECTOR = stem_attention_sum<SLICE, WARPS, BATCH>::VECTOR;
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int i = 0; i < WIDTH / 32; i++)
            sum[place][i / VECTOR * VECTOR * 32 + lane * VECTOR + i % VECTOR] = s.sum[i];
        if (lane == 0) {
            top[place] = s.top;
            weight[place] = s.weight;
        }
        __syncwarp();
    }
    /* Column of the output whose warps' sums begin at `place`. */
    template <int WARPS> __device__ __forceinline__ float get(int place, int column) const
    {
        float most = top[place], all = 0, v = 0;
#pragma unroll
        for (int w = 1; w < WARPS; w++)
            most = fmaxf(most, top[place + w]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            float f = exp2f(top[place + w] - most);
            all += f * weight[place + w];
            v += f * sum[place + w][column];
        }
        return all != 0.0f ? v / all : 0.0f;
    }
};

/* SLICE columns of an output are added up by WARPS warps, which share out the blocks' sums in turn. ROWS rows a slot,
 * D wide. Block: 8 warps. Grid: tokens * heads * (D / SLICE) outputs, 8 / WARPS a block. `lens` is read before the
 * wait. */
template <class O, int ROWS, int GROUPS, int D, int SLICE, int UNIT, bool SPARSE, int WARPS, int BATCH>
__device__ __forceinline__ void stem_attention_combine(const float *acc, const float *ml, const int *lens, O *y,
                                                       int tokens, int heads, int most, int parts)
{
    __shared__ stem_attention_sums<SLICE> sums;
    int warp = threadIdx.x >> 5, output = (int)blockIdx.x * (8 / WARPS) + warp / WARPS;
    bool there = output < tokens * heads * (D / SLICE);
    output = there ? output : 0;
    int slice = output % (D / SLICE), token = output / (D / SLICE) / heads;
    int head = output / (D / SLICE) % heads, item = token * GROUPS + head / ROWS;
    long long at = (long long)item * ROWS + head % ROWS;
    stem_attention_range<> of(lens, tokens, GROUPS, token, head / ROWS, most, UNIT, parts, SPARSE);
    y += ((long long)token * heads + head) * D + slice * SLICE;
    stem_launch_dependents();
    stem_wait();
    stem_attention_sum<SLICE, WARPS, BATCH> s;
    s.add(acc + at * D + slice * SLICE, ml + at * 2, (long long)ROWS * D, ROWS, of.first, of.end, warp % WARPS);
    sums.put(warp, s);
    if (WARPS > 1)
        __syncthreads();
    for (int c = threadIdx.x % (32 * WARPS); there && c < SLICE; c += 32 * WARPS)
        y[c] = stem_round<O>::from(sums.template get<WARPS>(warp / WARPS * WARPS, c));
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
    stem_attention_walk<> walk(lens, c.tokens, c.groups, c.most(), c.unit, c.parts, c.indices != 0);
    stem_wait();
    stem_launch_dependents();
    while (walk.step())
        for (int r = warp; r < ROWS; r += 4) {
            int head = walk.group * ROWS + r;
            float top = STEM_NO_MAX, weight = 0, sum[EACH] = {};
            const E *own = q + ((long long)walk.token * c.heads + head) * width;
            for (int i = walk.from; i < walk.to && head < c.heads; i++) {
                long long row =
                    stem_attention_row(c, table, lens, chosen, walk.token, c.kv_heads > 1 ? walk.group : 0, i);
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
