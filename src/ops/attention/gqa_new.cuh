/* SPDX-License-Identifier: Apache-2.0
 *
 * What gqa_store makes of a merged projection x, for an attention_part that adds it itself, bit for bit: the queries of each
 * item, by the block that has a share of it, and new rows of the caches. A warp that would have loaded a new row makes it
 * where it would lie, so that nobody reads what the launch still writes, and all other rows may be loaded before the launch
 * waits for its predecessor. The block with an item's first position stores the item's new rows.
 */
#ifndef STEM_GQA_NEW_CUH
#define STEM_GQA_NEW_CUH

/* P: type of positions. Up to 32 tokens; PAGE a multiple of 16, so that a tile's rows lie one after the other. */
template <class E, class P, int D, int ROWS, int GROUPS, int V, bool INTERLEAVED, bool Q_NORM, bool K_NORM, bool EARLY>
struct stem_gqa_new {
    typedef stem_gqa_head<E, D, V, INTERLEAVED> head;
    typedef stem_vec<E, V> piece;
    static constexpr bool ANY = true;
    static constexpr int LD = D + 32, EACH = (ROWS + 3) / 4; /* of queries in shared memory; queries of a warp */
    E *k, *v;
    const E *x, *q_norm, *k_norm;
    const P *pos;
    const double *turns;
    long long token_stride, head_stride;
    float amplitude, eps;
    int own;           /* new row of token threadIdx % 32, or -1 */
    int turned, made;  /* tokens: of the angles; of key and value */
    float sine[head::EACH][V], cosine[head::EACH][V], q_gain[head::EACH][2 * V], k_gain[head::EACH][2 * V];
    head key, value;

    __device__ __forceinline__ stem_gqa_new(E *k_, E *v_, const E *x_, const E *q_norm_, const E *k_norm_, const P *pos_,
                                            const int *slot, const double *turns_, int tokens, int slots,
                                            long long token_stride_, long long head_stride_, float amplitude_, float eps_)
        : k(k_), v(v_), x(x_), q_norm(q_norm_), k_norm(k_norm_), pos(pos_), turns(turns_), token_stride(token_stride_),
          head_stride(head_stride_), amplitude(amplitude_), eps(eps_), turned(-1), made(-1)
    {
        int lane = threadIdx.x & 31;
        own = lane < tokens ? stem_load_fresh(slot + lane) : -1;
        own = own < slots ? own : -1;
    }
    __device__ __forceinline__ void gains()
    {
        if (Q_NORM)
            head::gains(q_norm, q_gain);
        if (K_NORM)
            head::gains(k_norm, k_gain);
    }
    __device__ __forceinline__ void turn_to(int token)
    {
        if (turned != token)
            head::angles(turns, stem_load_fresh(pos + token), amplitude, sine, cosine);
        turned = token;
    }
    /* What does not depend on the predecessor. */
    __device__ __forceinline__ void before_wait(int token)
    {
        if (EARLY)
            gains();
        turn_to(token);
    }
    __device__ __forceinline__ void after_wait()
    {
        if (!EARLY)
            gains();
    }
    /* A warp makes a token's key and value, and keeps them. */
    __device__ __forceinline__ void make(int token, int group)
    {
        const E *from = x + token * token_stride + (long long)(ROWS * GROUPS + group) * head_stride;
        float sum = key.template load<true>(from, 1);
        value.template load<true>(from + GROUPS * head_stride, 1);
        turn_to(token);
        key.finish(K_NORM, true, head::scale_of(sum, eps), k_gain, sine, cosine, [](int, const piece &) {});
        made = token;
    }
    /* put(whether it is the value's, column, v) gets V columns at a time of what was made. */
    template <class PUT> __device__ __forceinline__ void give(PUT put) const
    {
        key.each([&](int column, const piece &of) { put(false, column, of); });
        value.each([&](int column, const piece &of) { put(true, column, of); });
    }
    /* The block stores what it made, half of it a warp. */
    __device__ __forceinline__ void store(int group) const
    {
        int warp = threadIdx.x >> 5, at = __shfl_sync(0xffffffffu, own, made);
        E *to = (warp == 0 ? k : v) + ((long long)at * GROUPS + group) * D;
        auto put = [&](int column, const piece &of) { stem_store(to + column, of); };
        if (warp == 0 && at >= 0)
            key.each(put);
        if (warp == 1 && at >= 0)
            value.each(put);
    }
    /* The block makes a token's queries of a group, and the key and value. */
    __device__ __forceinline__ void begin(int token, int group, E *queries)
    {
        int warp = threadIdx.x >> 5;
        const E *from = x + token * token_stride + (long long)group * ROWS * head_stride;
        head q[EACH];
        float sum[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            sum[i] = q[i].template load<true>(from + (long long)min(warp + 4 * i, ROWS - 1) * head_stride, 1);
        make(token, group);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int r = warp + 4 * i;
            E *to = queries + r * LD;
            float scale = head::scale_of(sum[i], eps);
            if (r < ROWS)
                q[i].finish(Q_NORM, true, scale, q_gain, sine, cosine,
                            [&](int column, const piece &of) { stem_store(to + column, of); });
        }
    }
};

#endif
