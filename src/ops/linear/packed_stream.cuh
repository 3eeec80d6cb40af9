/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of stream.cuh for weights in a format of formats.cuh: each warp's ring holds weights and their scales
 * only. Tokens are few bytes beside them only if each is read once: a warp either keeps its share of k of all tokens
 * in shared memory for the whole launch, in the order in which its lanes use it (stem_tokens_kept), or, where the
 * tokens change with the item, reads them from the second-level cache (stem_tokens_read).
 *
 * Preconditions: a row of weights is a multiple of 16 bytes and 16-byte aligned; for the formats of 4 bits K is a
 * multiple of 256, and rows of scales are 16-byte aligned; rows of x are 16-byte aligned.
 */
#ifndef STEM_PACKED_STREAM_CUH
#define STEM_PACKED_STREAM_CUH

/* Where this lane's rows of an item start: weights rows lane / 8 + 4 * i at byte 16 * (lane % 8), scales row lane + 32 *
 * i. f8e4m3: `block`, the scales of columns 0 .. of the 8 rows 8i .. 8i + 7. */
template <class F, int MT> struct stem_packed_rows {
    const char *weight[4 * MT], *scale[(MT + 1) / 2];
};

template <class F, int MT> constexpr int stem_packed_stage_bytes = 16 * MT * (128 + F::SCALES);
/* Shared memory for a token's columns of one chunk. */
template <class F> constexpr int stem_packed_token_bytes = F::PIECES * 64 + (F::SCALES ? 0 : 4);

/* A row's 16 bytes number `column` of a stage lie at the place column ^ turn: accesses of 16 bytes by four lanes for each of
 * two rows, and with int4 of 4 bytes by four lanes for each of eight, are free of bank conflicts. */
template <class F> __device__ __forceinline__ int stem_packed_turn(int row)
{
    return (row & 1) << 2;
}
template <> __device__ __forceinline__ int stem_packed_turn<stem_int4>(int row)
{
    return (row & 1) << 2 | (row >> 1 & 3);
}

/* The same where two runs of 8 * MT rows are in place as they lie: where the lane's first row of each starts, rows at every
 * `step` bytes from it, and its row of scales. */
template <class F, int MT> struct stem_packed_runs {
    const char *weight[2], *scale;
    unsigned step;
    int height; /* rows that there are in all, a multiple of 4: not more than 8 are missing */
};
template <class F, int MT>
__device__ __forceinline__ void stem_packed_load(unsigned stage, const stem_packed_runs<F, MT> &rows, int chunk, int K)
{
    int lane = threadIdx.x & 31, row = lane >> 3, column = lane & 7;
    bool inside = F::SCALES || chunk * F::CHUNK + column * (F::CHUNK / 8) < K;
    unsigned at = inside ? chunk * 128u : 0;
    const char *from[2] = {rows.weight[0] + at, rows.weight[1] + at};
#pragma unroll
    for (int i = 0; i < 4 * MT; i++)
        if (i < 4 * MT - 2 || 4 * i < rows.height)
            stem_copy16_once(stage + (row + 4 * i) * 128 + ((column ^ stem_packed_turn<F>(row + 4 * i)) << 4),
                             from[i / (2 * MT)] + (unsigned long long)rows.step * (i % (2 * MT)), inside);
    if (F::SCALES && lane < rows.height)
        stem_copy16_once(stage + 16 * MT * 128 + lane * 16, rows.scale + chunk * 16u, true);
}

/* One stage: columns k .. k + CHUNK - 1. */
template <class F, int MT>
__device__ __forceinline__ void stem_packed_load(unsigned stage, const stem_packed_rows<F, MT> &rows, int chunk, int K)
{
    int lane = threadIdx.x & 31, row = lane >> 3, column = lane & 7;
    bool inside = F::SCALES || chunk * F::CHUNK + column * (F::CHUNK / 8) < K;
    long long at = inside ? (long long)chunk * 128 : 0;
#pragma unroll
    for (int i = 0; i < 4 * MT; i++)
        stem_copy16_once(stage + (row + 4 * i) * 128 + ((column ^ stem_packed_turn<F>(row + 4 * i)) << 4),
                         rows.weight[i] + at, inside);
    if (F::SCALES) {
#pragma unroll
        for (int i = 0; i < (MT + 1) / 2; i++)
            if (lane + 32 * i < 16 * MT)
                stem_copy16_once(stage + 16 * MT * 128 + (lane + 32 * i) * 16, rows.scale[i] + chunk * 16, true);
    }
}

/* ---- tokens ---- */

/* Reads them where they are used. row: of this lane's token in each group of 8; where there is none, of any other: its
 * column of the product is not used. */
template <class F, int NT> struct stem_tokens_read {
    const __nv_bfloat16 *row[NT];
    int K;
    /* Formats of 4 bits: the pieces of half h, all on their way before the first is used. */
    __device__ __forceinline__ void half(int, int chunk, int h, int tiles, uint4 (&piece)[NT][4]) const
    {
#pragma unroll
        for (int j = 0; j < NT; j++)
            if (NT == 1 || j < tiles)
                F::load(row[j] + chunk * F::CHUNK, h, piece[j]);
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                piece[j][i] = F::permuted(piece[j][i]);
    }
    /* f8e4m3: all pieces, and the scales of tokens 2t and 2t + 1. */
    __device__ __forceinline__ void codes(int j, int, int chunk, uint4 (&piece)[2], float (&down)[2]) const
    {
        uint4 raw[4];
        F::load(row[j], chunk * F::CHUNK, K, raw);
        float s = F::quantise(raw, piece);
        int t = threadIdx.x & 3;
        down[0] = __shfl_sync(0xffffffffu, s, 8 * t);
        down[1] = __shfl_sync(0xffffffffu, s, 8 * t + 4);
    }
};

/* The same of tokens in f8e4m3. */
template <int NT> struct stem_tokens_coded {
    stem_f8_rows row[NT];
    int K;
    __device__ __forceinline__ void codes(int j, int, int chunk, uint4 (&piece)[2], float (&down)[2]) const
    {
        int t = threadIdx.x & 3;
        float s = stem_load_fresh(row[j].down + chunk);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int at = chunk * 128 + 64 * h + 16 * t;
            piece[h] = at < K ? stem_fresh16(row[j].code + at) : uint4{0, 0, 0, 0};
        }
        down[0] = __shfl_sync(0xffffffffu, s, 8 * t);
        down[1] = __shfl_sync(0xffffffffu, s, 8 * t + 4);
    }
};

/* Keeps `count` of them: [chunk of the warp][piece][token][t], then f8e4m3's scales [chunk][token]. */
template <class F, int NT> struct stem_tokens_kept {
    char *at;
    int chunks, count;
    __device__ __forceinline__ uint4 *place(int j, int c, int p) const
    {
        int lane = threadIdx.x & 31, token = min(8 * j + (lane >> 2), count - 1);
        return (uint4 *)at + ((c * F::PIECES + p) * count + token) * 4 + (lane & 3);
    }
    __device__ __forceinline__ float *scale(int token, int c) const
    {
        return (float *)(at + chunks * count * F::PIECES * 64) + c * count + min(token, count - 1);
    }
    __device__ __forceinline__ void half(int c, int, int h, int tiles, uint4 (&piece)[NT][4]) const
    {
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (NT == 1 || j < tiles)
                    piece[j][i] = *place(j, c, 4 * h + i);
    }
    __device__ __forceinline__ void codes(int j, int c, int, uint4 (&piece)[2], float (&down)[2]) const
    {
        int t = threadIdx.x & 3;
        piece[0] = *place(j, c, 0);
        piece[1] = *place(j, c, 1);
        down[0] = *scale(8 * j + 2 * t, c);
        down[1] = *scale(8 * j + 2 * t + 1, c);
    }
};

/* ---- products ---- */

/* acc += weights * tokens of one stage, on the first `tiles` groups of 8 tokens. scale: of each 8 rows. */
template <int MT, int NT, class Tokens>
__device__ __forceinline__ void stem_packed_multiply(stem_f8, unsigned stage, const float (&scale)[2 * MT],
                                                     const Tokens &tokens, int c, int chunk, float (&acc)[MT][NT][4],
                                                     int tiles)
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    uint4 low[2][MT], high[2][MT];
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int m = 0; m < MT; m++) {
            unsigned at = stage + m * 2048 + g * 128 + (((h * 4 + t) ^ stem_packed_turn<stem_f8>(g)) << 4);
            low[h][m] = stem_shared16(at);
            high[h][m] = stem_shared16(at + 1024);
        }
#pragma unroll
    for (int j = 0; j < NT; j++) {
        if (NT > 1 && j >= tiles)
            break;
        uint4 b[2];
        float down[2];
        tokens.codes(j, c, chunk, b, down);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float part[4] = {};
#pragma unroll
            for (int h = 0; h < 2; h++) {
                stem_mma_f8(part, low[h][m].x, high[h][m].x, low[h][m].y, high[h][m].y, b[h].x, b[h].y);
                stem_mma_f8(part, low[h][m].z, high[h][m].z, low[h][m].w, high[h][m].w, b[h].z, b[h].w);
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                acc[m][j][i] += part[i] * (down[i & 1] * scale[2 * m + (i >> 1)]);
        }
    }
}

/* Of 32 columns each, whose sum the scale multiplies. */
template <int MT, int NT, class Tokens>
__device__ __forceinline__ void stem_packed_multiply(stem_int4, unsigned stage, const Tokens &tokens, int c, int chunk,
                                                     float (&acc)[MT][NT][4], int tiles)
{
    const __nv_bfloat16 *type = nullptr;
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, turn = stem_packed_turn<stem_int4>(g);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint4 token[NT][4];
        unsigned scale[MT][2][2];
        tokens.half(c, chunk, h, tiles, token);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    scale[m][r][i] = stem_shared4(stage + 16 * MT * 128 + (16 * m + 8 * r + g) * 16 + 8 * h + 4 * i);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned low[MT][4], high[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                unsigned at = stage + m * 2048 + g * 128 + (((4 * h + i) ^ turn) << 4) + 4 * t;
                stem_int4::expand(stem_shared4(at), low[m]);
                stem_int4::expand(stem_shared4(at + 1024), high[m]);
            }
            float part[MT][NT][4] = {};
#pragma unroll
            for (int two = 0; two < 2; two++) /* products that do not wait for each other follow one another */
#pragma unroll
                for (int j = 0; j < NT; j++) {
                    if (NT > 1 && j >= tiles)
                        break;
#pragma unroll
                    for (int m = 0; m < MT; m++)
                        stem_mma(type, part[m][j], low[m][2 * two], high[m][2 * two], low[m][2 * two + 1], high[m][2 * two + 1],
                                 stem_word(token[j][i], 2 * two), stem_word(token[j][i], 2 * two + 1));
                }
#pragma unroll
            for (int j = 0; j < NT; j++) {
                if (NT > 1 && j >= tiles)
                    break;
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int o = 0; o < 4; o++) {
                        unsigned s = scale[m][o >> 1][i >> 1];
                        acc[m][j][o] += part[m][j][o] * __uint_as_float(i & 1 ? s & 0xffff0000u : s << 16);
                    }
            }
        }
    }
}

template <int MT, int NT, class F, class Tokens>
__device__ __forceinline__ void stem_packed_multiply(F, unsigned stage, const Tokens &tokens, int c, int chunk,
                                                     float (&acc)[MT][NT][4], int tiles)
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint4 row[MT][2], token[NT][4];
        unsigned factor[MT][2][2];
        tokens.half(c, chunk, h, tiles, token);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                row[m][r] = stem_shared16(stage + m * 2048 + r * 1024 + g * 128 +
                                          (((h * 4 + t) ^ ((g & 1) << 2)) << 4));
                F::scale(stem_shared2(stage + 16 * MT * 128 + (16 * m + 8 * r + g) * 16 + 8 * h + 2 * t), factor[m][r]);
            }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned low[MT][4], high[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                F::expand(stem_word(row[m][0], i), factor[m][0][i >> 1], low[m]);
                F::expand(stem_word(row[m][1], i), factor[m][1][i >> 1], high[m]);
            }
#pragma unroll
            for (int j = 0; j < NT; j++) {
                if (NT > 1 && j >= tiles)
                    break;
                const uint4 &b = token[j][i];
#pragma unroll
                for (int m = 0; m < MT; m++)
                    stem_mma((const __nv_bfloat16 *)nullptr, acc[m][j], low[m][0], high[m][0], low[m][1], high[m][1],
                             b.x, b.y);
#pragma unroll
                for (int m = 0; m < MT; m++)
                    stem_mma((const __nv_bfloat16 *)nullptr, acc[m][j], low[m][2], high[m][2], low[m][3], high[m][3],
                             b.z, b.w);
            }
        }
    }
}

#endif
