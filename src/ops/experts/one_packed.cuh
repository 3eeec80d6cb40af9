/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_up of a single token with weights of 4 bits, in fixed point, where a block has one item and its shared memory holds all
 * weights of that: all are asked for at once, so a block waits for memory once, and no ring goes around, which halves the
 * instructions. After experts_packed.cuh, whose source it reads.
 */
#ifndef STEM_ONE_PACKED_CUH
#define STEM_ONE_PACKED_CUH

/* A warp's shared memory: stages, then the token's columns of each after zeros. */
template <class F, int MT, int STAGES>
constexpr int stem_one_packed_bytes = STAGES * (stem_packed_stage_bytes<F, MT> + stem_fixed::BYTES) + stem_fixed::ZEROS;

/* k has at most STAGES * WARPS chunks. Block: 32 * WARPS threads. Grid: choices times tiles of 8 * MT rows of inter. Dynamic
 * shared memory: stem_one_packed_bytes for each warp, whose beginning is for sums when all weights have been read. */
template <class F, int MT, int STAGES, int WARPS, stem_act ACT>
__device__ __forceinline__ void stem_experts_up_packed_one(const __nv_bfloat16 *x, const int *ids, const void *w13,
                                                           const void *scale, const void *whole, __nv_bfloat16 *h, int k,
                                                           int experts, int hidden, int inter)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int ROWS = 8 * MT, stage = stem_packed_stage_bytes<F, MT>;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row_tiles = (inter + ROWS - 1) / ROWS, chunks = hidden / F::CHUNK;
    int mine = warp < chunks ? (chunks - warp + WARPS - 1) / WARPS : 0;
    char *own = stem_smem + warp * stem_one_packed_bytes<F, MT, STAGES>, *kept = own + STAGES * stage;
    unsigned at = stem_shared_address(own);
    stem_group_place place = {(int)blockIdx.x / row_tiles, (int)blockIdx.x % row_tiles};
    stem_fixed_clear(kept);
    stem_wait();
    stem_launch_dependents();
    uint4 raw[STAGES]; /* before the weights, which it would come behind */
#pragma unroll
    for (int i = 0; i < STAGES; i++)
        raw[i] = stem_fresh16(x + min(warp + i * WARPS, chunks - 1) * F::CHUNK + lane * 8);
    stem_one one(ids, k, experts);
    if (place.group >= one.n)
        return;
    stem_groups_of_one groups = {one};
    stem_up_packed_source<F, MT, 1, true, const __nv_bfloat16 *, stem_groups_of_one> source = {
        x, (const char *)w13, (const char *)scale, groups, hidden, inter, row_tiles, WARPS, 0};
    stem_packed_runs<F, MT> rows;
    source.rows(place, rows);
#pragma unroll 1
    for (int i = 0; i < STAGES; i++) {
        if (i < mine)
            stem_packed_load<F, MT>(at + i * stage, rows, warp + i * WARPS, hidden);
        stem_copy_commit();
    }
    float unit[2] = {F::UNIT, F::UNIT};
    int expert = one.expert(place.group);
    if (whole) {
        unit[0] *= stem_constant((const float *)whole + 2 * expert);
        unit[1] *= stem_constant((const float *)whole + 2 * expert + 1);
    }
#pragma unroll
    for (int i = 0; i < STAGES; i++)
        stem_fixed_put<F>(kept + stem_fixed::ZEROS + i * stem_fixed::BYTES, raw[i]);
    float acc[MT][1][2] = {};
    stem_fixed_tokens tokens(stem_shared_address(kept));
#pragma unroll 1
    for (int i = 0; i < mine; i++) {
        stem_copy_wait<STAGES - 1>();
        __syncwarp(); /* all lanes' copies have landed */
        stem_fixed_multiply<1>(F(), at + i * stage, tokens, i, 1, acc);
        stem_copy_commit();
    }
    float *partial = (float *)own; /* this warp's weights are done with */
    __syncwarp();
    stem_group_leave(partial, 1, acc);
    __syncthreads();
    if (threadIdx.x < ROWS) {
        float gate = 0, up = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float *sums = (const float *)(stem_smem + w * stem_one_packed_bytes<F, MT, STAGES>);
            gate += sums[threadIdx.x];
            up += sums[threadIdx.x + ROWS];
        }
        h[(long long)one.lane_of(place.group) * inter + source.row0(place.tile) + threadIdx.x] =
            stem_round<__nv_bfloat16>::from(stem_act_apply<ACT>(gate * unit[0]) * (up * unit[1]));
    }
}

#endif
