/* SPDX-License-Identifier: Apache-2.0
 *
 * The routed experts with weights in a format of formats.cuh, of any shape and alignment: a warp for each element of h, of y.
 */
#ifndef STEM_EXPERTS_PACKED_PLAIN_CUH
#define STEM_EXPERTS_PACKED_PLAIN_CUH

/* Any grid and block: a warp for each row of inter, y over pairs. */
template <class F, class E, stem_act ACT, class Rows>
__device__ __forceinline__ void stem_experts_up_packed_plain(const Rows &x, const int *ids, const void *w13,
                                                             const void *scale, const void *whole, E *h, int tokens,
                                                             int k, int experts, int hidden, int inter)
{
    int warps = blockDim.x >> 5, blocks = (inter + 127) / 128;
    stem_wait();
    stem_launch_dependents();
    for (int i = blockIdx.x * warps + (threadIdx.x >> 5); i < inter; i += gridDim.x * warps)
        for (int pair = blockIdx.y; pair < tokens * k; pair += gridDim.y) {
            int id = ids[pair];
            if (id < 0 || id >= experts)
                continue;
            auto row = stem_rows_from(x, pair / k, hidden);
            long long w = 2LL * id * inter + i, s = 2LL * id * blocks + i / 128;
            float gate = F::product(row, w13, scale, w, s, hidden);
            float up = F::product(row, w13, scale, w + inter, s + blocks, hidden);
            if (whole) {
                gate *= ((const float *)whole)[2 * id];
                up *= ((const float *)whole)[2 * id + 1];
            }
            if ((threadIdx.x & 31) == 0)
                h[(long long)pair * inter + i] = stem_round<E>::from(stem_act_apply<ACT>(gate) * up);
        }
}

/* Any grid and block: a warp for each row of hidden, y over tokens. */
template <class F, class Rows, class Store>
__device__ __forceinline__ void stem_experts_down_packed_plain(const Rows &h, const int *ids, const float *weight,
                                                               const void *w2, const void *scale, const void *whole,
                                                               const Store &store, int tokens, int k, int experts,
                                                               int hidden, int inter)
{
    int warps = blockDim.x >> 5, blocks = (hidden + 127) / 128;
    stem_wait();
    stem_launch_dependents();
    for (int row = blockIdx.x * warps + (threadIdx.x >> 5); row < hidden; row += gridDim.x * warps)
        for (int token = blockIdx.y; token < tokens; token += gridDim.y) {
            float sum = 0;
            for (int j = 0; j < k; j++) {
                long long pair = (long long)token * k + j;
                int id = ids[pair];
                if (id < 0 || id >= experts)
                    continue;
                float part = F::product(stem_rows_from(h, pair, inter), w2, scale, (long long)id * hidden + row,
                                        (long long)id * blocks + row / 128, inter);
                sum += weight[pair] * (whole ? part * ((const float *)whole)[id] : part);
            }
            if ((threadIdx.x & 31) == 0)
                store(token, row, sum, 0.0f);
        }
}

#endif
