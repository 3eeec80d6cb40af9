/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_down for many tokens with weights of 4 bits. Sums of its own for each token in each warp leave room for few warps, and
 * the products here wait for each other too long for few. So a product has a *slot*, one for each pair of token and choice,
 * whichever warp makes it, and a token's slots are added up at the end, in the order of its choices. Rings hold weights only; tokens
 * are read where they are used, from the second-level cache. After experts_packed.cuh, whose source it reads.
 */
#ifndef STEM_DOWN_SLOTS_CUH
#define STEM_DOWN_SLOTS_CUH

/* Eight of an item: both halves of a chunk are on their way at once. */
template <class F> struct stem_tokens_slots {
    const __nv_bfloat16 *row; /* of this lane's token */
    mutable uint4 later[4];
    __device__ __forceinline__ void half(int, int chunk, int h, int, uint4 (&piece)[1][4]) const
    {
        if (h == 0) {
            F::load(row + chunk * F::CHUNK, 0, piece[0]);
            F::load(row + chunk * F::CHUNK, 1, later);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            piece[0][i] = F::permuted(h ? later[i] : piece[0][i]);
    }
};

/* slots[pair][row] = scale * product. */
template <int MT>
__device__ __forceinline__ void stem_slots_leave(float *slots, const float *scale, const stem_groups &groups, int group,
                                                 const float (&acc)[MT][1][4])
{
    int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3, begin = groups.begin[group], count = groups.count[group];
#pragma unroll
    for (int c = 0; c < 2; c++)
        if (2 * t + c < count) {
            int place = begin + 2 * t + c;
            float *at = slots + groups.pair[place] * (16 * MT + 4) + g, s = scale[place];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                at[16 * m] = s * acc[m][0][c];
                at[16 * m + 8] = s * acc[m][0][c + 2];
            }
        }
}

/* Block, grid, EARLY, height as for stem_experts_down_packed; groups are of up to 8. Dynamic shared memory: STAGES stages of weights
 * for each warp (at least what stem_groups_make needs in all), tile_tokens * k times 16 * MT + 4 slots, scales of places. */
template <class F, int MT, int STAGES, int WARPS, bool EARLY, class Store>
__device__ __forceinline__ void stem_experts_down_slots(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                        const void *w2, const void *scale, const void *whole,
                                                        const Store &store, int tokens, int k, int experts, int hidden,
                                                        int inter, int tile_tokens, int height)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups made;
    constexpr int bytes = stem_packed_stage_bytes<F, MT>, LD = 16 * MT + 4;
    int tid = threadIdx.x, warp = tid >> 5, t0 = blockIdx.y * tile_tokens, n = min(tile_tokens, tokens - t0);
    int row0 = min((int)blockIdx.x * height, hidden - height), chunks = inter / F::CHUNK;
    float *slots = (float *)(stem_smem + WARPS * STAGES * bytes), *merged = slots + tile_tokens * k * LD;
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    for (int i = tid; i < n * k * LD; i += 32 * WARPS) /* pairs without a place have none */
        slots[i] = 0;
    stem_groups_make(&made, stem_smem, ids + (long long)t0 * k, weight + (long long)t0 * k, merged, n * k, k, experts, 8);
    if (whole || F::UNIT != 1) { /* into the weights of the places */
        for (int group = warp; group < made.n; group += WARPS) {
            float unit = F::UNIT * (whole ? stem_constant((const float *)whole + made.expert[group]) : 1.0f);
            if ((tid & 31) < made.count[group])
                merged[made.begin[group] + (tid & 31)] *= unit;
        }
        __syncwarp();
        __syncthreads();
    }
    stem_groups_of_many groups = {&made};
    stem_down_packed_source<F, MT, 8, stem_groups_of_many> source = {
        h + (long long)t0 * k * inter, (const char *)w2, (const char *)scale, groups, hidden, inter, row0, height};
    unsigned ring = stem_shared_address(stem_smem) + warp * STAGES * bytes;
    int fill_group = warp, fill_chunk = 0, fill_slot = 0, slot = 0;
    stem_packed_runs<F, MT> rows;
    auto fill = [&]() {
        if (fill_group < made.n) {
            if (fill_chunk == 0)
                source.rows(fill_group, rows);
            stem_packed_load<F, MT>(ring + fill_slot * bytes, rows, fill_chunk, inter);
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            if (++fill_chunk == chunks) {
                fill_chunk = 0;
                fill_group += WARPS;
            }
        }
        stem_copy_commit();
    };
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        fill();
    if (EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
#pragma unroll 1
    for (int group = warp; group < made.n; group += WARPS) {
        float acc[MT][1][4] = {};
        stem_tokens_slots<F> token = {source.token(group, min((tid & 31) >> 2, made.count[group] - 1)), {}};
#pragma unroll 1
        for (int i = 0; i < chunks; i++) {
            stem_copy_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
            fill();
            stem_packed_multiply(F(), ring + slot * bytes, token, i, i, acc, 1);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        stem_slots_leave<MT>(slots, merged, made, group, acc);
    }
    __syncwarp();
    __syncthreads();
    for (int o = tid; o < n * 16 * MT; o += 32 * WARPS) {
        int row = o % (16 * MT), token = o / (16 * MT);
        float v = 0;
        for (int j = 0; j < k; j++)
            v += slots[(token * k + j) * LD + row];
        if (row < height && row0 + row >= (int)blockIdx.x * height)
            store(t0 + token, row0 + row, v, 0.0f);
    }
}

#endif
