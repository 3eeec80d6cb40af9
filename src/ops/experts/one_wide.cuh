/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_up of a single token in f8e4m3 by the products of warpgroups (wgmma.cuh), of weights as they lie in memory. 1024 bytes of a row,
 * eight chunks of 128 columns, are eight rows of the first operand; the second one's eight rows are the token's codes of the same
 * columns. Of the product of eight rows of w13 with them only elements (8 * i + j, j) count: chunk j of row i. The swizzle exchanges pieces
 * of row j alike on both sides, so nothing is put in order, and no tokens fill columns: the tensor cores have as much to do as memory.
 */
#ifndef STEM_ONE_WIDE_CUH
#define STEM_ONE_WIDE_CUH

#ifdef STEM_WGMMA

enum { STEM_ONE_STAGE = 8192 };

/* The token's codes of all columns, and their scales; by all threads, complete when the copies of each thread have come and all
 * have met. */
__device__ __forceinline__ void stem_one_token(const stem_f8_rows &x, char *codes, float *downs, int hidden)
{
    unsigned to = stem_shared_address(codes), scales = stem_shared_address(downs);
    for (int i = threadIdx.x; i < hidden / 16; i += blockDim.x)
        stem_copy16(to + 16 * i, x.code + 16 * i, true);
    for (int i = threadIdx.x; i < hidden / 128; i += blockDim.x)
        stem_copy4(scales + 4 * i, x.down + i);
}

/* The same of x as it is. */
__device__ __forceinline__ void stem_one_token(const __nv_bfloat16 *x, char *codes, float *downs, int hidden)
{
    int t = threadIdx.x & 3;
#pragma unroll 1
    for (int chunk = threadIdx.x >> 2; chunk < hidden / 128; chunk += blockDim.x >> 2) { /* hidden / 128 is a multiple of 8 */
        uint4 raw[4], piece[2];
        stem_f8::load(x, chunk * 128, hidden, raw);
        float down = stem_f8::quantise(raw, piece);
        *(uint4 *)(codes + chunk * 128 + 16 * t) = piece[0];
        *(uint4 *)(codes + chunk * 128 + 64 + 16 * t) = piece[1];
        if (t == 0)
            downs[chunk] = down;
    }
}

/* A warpgroup's ring. A stage has 1024 columns of eight rows of w13, an octet: those of gate and of up of a pair come after each other. */
template <int STAGES> struct stem_one_ring {
    unsigned stages, scales; /* shared memory */
    const char *w13;
    const float *scale;
    const stem_one &one;
    int first, row_tiles, hidden, inter, pieces; /* first: of the block's pairs */
    int octet, piece, left, slot;                /* what is filled next */
    const char *from;
    const float *of_rows;

    __device__ __forceinline__ void point()
    {
        int pair = first + octet / 2, place = pair / row_tiles, tile = pair - place * row_tiles, i = threadIdx.x & 127;
        long long half = 2 * one.expert(min(place, one.n - 1)) + (octet & 1);
        from = w13 + (half * inter + tile * 8 + (i >> 6)) * hidden + (i & 63) * 16;
        of_rows = scale + (half * ((inter + 127) / 128) + tile / 16) * (hidden / 128) + (i & 7);
    }
    __device__ __forceinline__ void fill()
    {
        int i = threadIdx.x & 127;
        if (left > 0) {
            unsigned to = stages + slot * STEM_ONE_STAGE + i * 16;
#pragma unroll
            for (int j = 0; j < 4; j++)
                stem_copy16_once(to + 2048 * j, from + (long long)(2 * j) * hidden + piece * 1024, true);
            if (i < 8)
                stem_copy4(scales + (slot * 8 + i) * 4, of_rows + piece * 8);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
            left--;
            if (++piece == pieces) {
                piece = 0;
                octet++;
                point();
            }
        }
        stem_copy_commit();
    }
};

/* Chunk lane / 4 of rows 2 * warp and 2 * warp + 1 of a stage: the elements that count, in the lanes that have them; 0 in the others. */
__device__ __forceinline__ void stem_one_multiply(unsigned stage, unsigned token, float (&v)[2])
{
    int g = (threadIdx.x & 31) >> 2;
    bool mine = (int)(threadIdx.x & 3) == g >> 1;
    float part[4];
    stem_wgmma_f8_128(part, stem_wgmma_at(stage, 16), stem_wgmma_at(token, 16));
#pragma unroll
    for (int half = 0; half < 2; half++)
        v[half] = mine ? (g & 1 ? part[2 * half + 1] : part[2 * half]) : 0.0f;
}

/* hidden a multiple of 1024, inter of 8, operands 16-byte aligned. Block: GROUPS warpgroups, which share out its (octet, 1024 columns) in runs.
 * Grid: x = any number; a block then has at most `octets`. Dynamic shared memory: up to 1024 bytes to align it; the warpgroups' rings; the
 * token's codes and scales; scales of the stages; a sum of each row by each warpgroup. */
template <int GROUPS, int STAGES, stem_act ACT, class Rows>
__device__ __forceinline__ void stem_experts_up_one_wide(const Rows &x, const int *ids, const void *w13, const void *scale,
                                                         __nv_bfloat16 *h, int k, int experts, int hidden, int inter, int octets)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int THREADS = 128 * GROUPS, stages = STAGES * STEM_ONE_STAGE;
    char *smem = stem_smem + ((1024 - (stem_shared_address(stem_smem) & 1023)) & 1023), *codes = smem + GROUPS * stages;
    float *downs = (float *)(codes + hidden), *scales = downs + hidden / 128, *sums = scales + GROUPS * STAGES * 8;
    int group = threadIdx.x >> 7, lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, row_tiles = inter / 8, pieces = hidden / 1024;
    for (int i = threadIdx.x; i < GROUPS * octets * 8; i += THREADS)
        sums[i] = 0;
    stem_wait();
    stem_launch_dependents();
    if constexpr (stem_is_coded<Rows>)
        stem_one_token(x, codes, downs, hidden);
    stem_one one(ids, k, experts);
    unsigned pairs = one.n * row_tiles; /* times the grid they fit 32 bits: a division of 64 is a long way to go for once */
    int first = (int)(pairs * blockIdx.x / gridDim.x), last = (int)(pairs * (blockIdx.x + 1) / gridDim.x), units = 2 * (last - first) * pieces;
    int begin = units * group / GROUPS, end = units * (group + 1) / GROUPS;
    int octet = begin / pieces, piece = begin - octet * pieces, slot = 0;
    if (last == first)
        return;
    stem_one_ring<STAGES> ring = {stem_shared_address(smem) + group * stages, stem_shared_address(scales) + group * STAGES * 32,
                                  (const char *)w13, (const float *)scale, one, first, row_tiles, hidden, inter, pieces, octet, piece,
                                  end - begin, 0, nullptr, nullptr};
    ring.point();
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        ring.fill();
    if constexpr (!stem_is_coded<Rows>)
        stem_one_token(x, codes, downs, hidden);
    stem_copy_wait<STAGES - 2>(); /* with the first stage the token has come */
    stem_wgmma_written();
    __syncwarp();
    __syncthreads();
    float acc[2] = {};
#pragma unroll 1
    for (int unit = begin; unit < end; unit++) {
        float v[2];
        stem_copy_wait<STAGES - 2>();
        stem_wgmma_written();
        __syncwarp();
        stem_warpgroup_sync(group); /* all that this stage holds has come, and the one that is filled now has been read */
        ring.fill();
        stem_one_multiply(ring.stages + slot * STEM_ONE_STAGE, stem_shared_address(codes) + piece * 1024, v);
        float s = downs[piece * 8 + (lane >> 2)] * scales[(group * STAGES + slot) * 8 + (lane >> 2)];
        acc[0] += v[0] * s;
        acc[1] += v[1] * s;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        if (++piece == pieces || unit + 1 == end) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float sum = stem_warp_sum(acc[half]);
                if (lane == 0)
                    sums[(group * octets + octet) * 8 + 2 * warp + half] = sum;
                acc[half] = 0;
            }
            octet++;
            piece = 0;
        }
    }
    __syncwarp();
    __syncthreads();
    for (int i = threadIdx.x; i < 8 * (last - first); i += THREADS) {
        int pair = first + i / 8, place = pair / row_tiles, at = i / 8 * 16 + i % 8;
        float gate = 0, up = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            gate += sums[g * octets * 8 + at];
            up += sums[g * octets * 8 + at + 8];
        }
        h[(long long)one.lane_of(place) * inter + (pair - place * row_tiles) * 8 + i % 8] =
            stem_round<__nv_bfloat16>::from(stem_act_apply<ACT>(gate) * up);
    }
}

#endif /* STEM_WGMMA */

#endif
