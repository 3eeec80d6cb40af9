/* SPDX-License-Identifier: Apache-2.0
 *
 * New rows of a cache of latents, for an attention_part that adds them itself: what mla_store makes of kv, bit for bit. A
 * block that needs one for its scores makes it where it would have loaded it, so that nobody reads what the launch still
 * writes, and all other rows may be loaded before the launch waits for its predecessor.
 */
#ifndef STEM_MLA_NEW_CUH
#define STEM_MLA_NEW_CUH

/* P: type of positions. TOKENS: at least as many as there are. */
template <class E, class P, int L, int R, int TOKENS, bool INTERLEAVED> struct stem_mla_new {
    static constexpr bool ANY = true;
    static constexpr int EACH = (TOKENS + 7) / 8;
    E *cache;
    const E *kv, *norm;
    const P *pos;
    const int *slot;
    const double *turns;
    long long kv_row;
    int slots;
    float amplitude, eps;
    int own[EACH]; /* slots of tokens threadIdx % 8, + 8, .. */

    __device__ __forceinline__ stem_mla_new(E *cache_, const E *kv_, const E *norm_, const P *pos_, const int *slot_,
                                            const double *turns_, int tokens, int slots_, long long kv_row_,
                                            float amplitude_, float eps_)
        : cache(cache_), kv(kv_), norm(norm_), pos(pos_), slot(slot_), turns(turns_), kv_row(kv_row_), slots(slots_),
          amplitude(amplitude_), eps(eps_)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int t = i * 8 + (threadIdx.x & 7);
            own[i] = t < tokens ? stem_load_fresh(slot + t) : -1;
        }
        /* nearly always far away, and only asked for: the gain need not be a weight */
        for (int i = threadIdx.x * 64; i < L; i += 64 * 256)
            stem_ask(norm + i);
        if (threadIdx.x < (R / 2 + 15) / 16)
            stem_ask(turns + threadIdx.x * 16);
    }
    /* The token whose new row is row `row` of the cache; -1: it is an old one. For the eight lanes of a row. */
    __device__ __forceinline__ int token_of(int row, bool there) const
    {
        int token = -1;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            token = there && own[i] == row ? i * 8 + (int)(threadIdx.x & 7) : token;
        if (__ballot_sync(0xffffffffu, token >= 0) == 0)
            return -1;
#pragma unroll
        for (int d = 1; d < 8; d <<= 1)
            token = max(token, __shfl_xor_sync(0xffffffffu, token, d));
        return token;
    }
    /* Past the first-level cache: a rehearsal reads what is still written. */
    static __device__ __forceinline__ stem_vec<E, 4> stem_load_new(const E *p)
    {
        unsigned long long v = stem_load_fresh(reinterpret_cast<const unsigned long long *>(p));
        stem_vec<E, 4> r;
        memcpy(&r, &v, 8);
        return r;
    }
    /* A warp makes a token's row: put(column, v) gets four columns at a time. */
    template <class PUT> __device__ __forceinline__ void make(int token, PUT put) const
    {
        constexpr int V = 4, CHUNKS = L / 128, PAIRS = stem_rope_pairs<R, V, INTERLEAVED>, UNITS = R / 2 / PAIRS;
        int lane = threadIdx.x & 31;
        const E *from = kv + token * kv_row;
        stem_vec<E, V> x[CHUNKS], gain[CHUNKS];
        float sum[4] = {};
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            x[i] = stem_load_new(from + (i * 32 + lane) * V);
            gain[i] = stem_load_new(norm + (i * 32 + lane) * V);
        }
        for (int unit = lane; unit < UNITS; unit += 32) {
            double turn[PAIRS];
            stem_vec<E, V> a, b = {};
#pragma unroll
            for (int k = 0; k < PAIRS; k++)
                turn[k] = turns[unit * PAIRS + k];
            stem_rope_turned<R, V, INTERLEAVED>(from + L, unit, 1, turn, pos[token], amplitude, a, b);
            put(L + unit * PAIRS * (INTERLEAVED ? 2 : 1), a);
            if (!INTERLEAVED)
                put(L + unit * PAIRS + R / 2, b);
        }
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
#pragma unroll
            for (int j = 0; j < V; j++)
                sum[i] += stem_float(x[i].at[j]) * stem_float(x[i].at[j]);
            sum[i] = stem_warp_sum(sum[i]);
        }
        float scale = rsqrtf(((sum[0] + sum[2]) + (sum[1] + sum[3])) / (float)L + eps); /* as stem_block_sum adds */
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
#pragma unroll
            for (int j = 0; j < V; j++)
                x[i].at[j] = stem_round<E>::from(stem_float(x[i].at[j]) * scale * stem_float(gain[i].at[j]));
            put((i * 32 + lane) * V, x[i]);
        }
    }
    /* A warp stores a token's row; into `instead`, if that is not NULL. */
    __device__ __forceinline__ void store(int token, E *instead) const
    {
        int at = stem_load_fresh(slot + token);
        E *to = instead != nullptr ? instead : cache + (long long)at * (L + R);
        if (at < 0 || at >= slots)
            return;
        make(token, [&](int column, const stem_vec<E, 4> &v) { stem_store(to + column, v); });
    }
};

#endif
