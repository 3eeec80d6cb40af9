/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of packed_stream.cuh for tokens that change with the item: those of an expert's group. A warp keeps them in
 * shared memory as long as its items are of one group.
 */
#ifndef STEM_GROUP_STREAM_CUH
#define STEM_GROUP_STREAM_CUH

/* ---- tokens: a warp's share of k of them, in the order in which its lanes use it ---- */

/* Bytes for `share` chunks of `room` tokens, and for one chunk of `most`: of a group with more tokens than there is room for,
 * each chunk is fetched when it is used. */
template <class F> constexpr __device__ __forceinline__ int stem_group_bytes(int share, int room, int most)
{
    return ((share * room > most ? share * room : most) * stem_packed_token_bytes<F> + 15) / 16 * 16;
}

/* Chunks first, first + step, .. of these tokens, whose rows are row(token); four lanes take 128 columns of a token. */
template <class F, int NT, class Row>
__device__ __forceinline__ void stem_group_fetch(const stem_tokens_kept<F, NT> &to, const Row &row, int first, int step,
                                                 int K)
{
    constexpr int EACH = F::CHUNK / 128, PIECES = F::PIECES / EACH, N = 2; /* N of them are on their way at once */
    int lane = threadIdx.x & 31, t = lane & 3, runs = to.chunks * EACH * to.count;
    __syncwarp();
#pragma unroll 1
    for (int begin = 0; begin < runs; begin += 8 * N) {
        uint4 raw[N][4];
#pragma unroll
        for (int i = 0; i < N; i++) { /* past the end: the last one again */
            int run = min(begin + 8 * i + (lane >> 2), runs - 1), columns = run / to.count;
            const __nv_bfloat16 *x = row(run - columns * to.count);
            int chunk = first + columns / EACH * step;
            if constexpr (F::SCALES != 0)
                F::load(x + (long long)chunk * F::CHUNK, columns % EACH, raw[i]);
            else
                F::load(x, chunk * F::CHUNK, K, raw[i]);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            int run = min(begin + 8 * i + (lane >> 2), runs - 1), columns = run / to.count;
            int token = run - columns * to.count;
            uint4 *at = (uint4 *)to.at + (columns * PIECES * to.count + token) * 4 + t;
            if constexpr (F::SCALES != 0) {
#pragma unroll
                for (int j = 0; j < PIECES; j++)
                    at[4 * to.count * j] = F::permuted(raw[i][j]);
            } else {
                uint4 piece[2];
                float down = F::quantise(raw[i], piece);
                at[0] = piece[0];
                at[4 * to.count] = piece[1];
                if (t == 0)
                    *to.scale(token, columns) = down;
            }
        }
    }
    __syncwarp();
}

/* ---- a stage: the weights of packed_stream.cuh, then f8e4m3's scale of each 8 rows ---- */

template <class F, int MT>
constexpr int stem_group_stage_bytes = stem_packed_stage_bytes<F, MT> + (F::SCALES ? 0 : (8 * MT + 15) / 16 * 16);

/* Lane i of the first 2 * MT: where the scales of rows 8i .. 8i + 7 begin. */
template <class F, int MT> struct stem_group_rows : stem_packed_rows<F, MT> {
    const float *block;
};

template <class F, int MT>
__device__ __forceinline__ void stem_group_load(unsigned stage, const stem_group_rows<F, MT> &rows, int chunk, int K)
{
    int lane = threadIdx.x & 31;
    stem_packed_load<F, MT>(stage, rows, chunk, K);
    if (F::SCALES == 0 && lane < 2 * MT)
        stem_copy4(stage + stem_packed_stage_bytes<F, MT> + lane * 4, rows.block + chunk);
}

template <int MT, int NT, class F, class Tokens>
__device__ __forceinline__ void stem_group_multiply(F, unsigned stage, const Tokens &tokens, int c,
                                                    float (&acc)[MT][NT][4], int tiles)
{
    const float *block[2 * MT] = {};
    stem_packed_multiply(F(), stage, block, tokens, c, 0, acc, tiles);
}

template <int MT, int NT, class Tokens>
__device__ __forceinline__ void stem_group_multiply(stem_f8, unsigned stage, const Tokens &tokens, int c,
                                                    float (&acc)[MT][NT][4], int tiles)
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    uint4 low[2][MT], high[2][MT];
    float scale[2 * MT];
#pragma unroll
    for (int i = 0; i < 2 * MT; i++)
        scale[i] = __uint_as_float(stem_shared4(stage + stem_packed_stage_bytes<stem_f8, MT> + 4 * i));
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
        tokens.codes(j, c, 0, b, down);
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

/* As stem_packed_stream for a warp that keeps the tokens of its item's group: source.rows(item, rows), source.tiles(item);
 * source.begin(item) makes the tokens kept; source.chunk(item, i) those of the warp's i-th chunk, and returns its number
 * among those kept; source.kept. */
template <class F, int MT, int NT, int STAGES, class Source, class Sink>
__device__ __forceinline__ void stem_group_stream(unsigned ring, int first, int n_items, int part, int parts, int K,
                                                  Source &source, const Sink &sink)
{
    constexpr int bytes = stem_group_stage_bytes<F, MT>;
    int chunks = (K + F::CHUNK - 1) / F::CHUNK, mine = part < chunks ? (chunks - part + parts - 1) / parts : 0;
    int fill_item = first, fill_chunk = 0, fill_slot = 0, slot = 0;
    stem_group_rows<F, MT> rows;
    if (first < n_items)
        source.rows(first, rows);
    auto fill = [&]() {
        if (fill_item < n_items && mine) {
            stem_group_load<F, MT>(ring + fill_slot * bytes, rows, part + fill_chunk * parts, K);
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            if (++fill_chunk == mine) {
                fill_chunk = 0;
                if (++fill_item < n_items)
                    source.rows(fill_item, rows);
            }
        }
        stem_copy_commit();
    };
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        fill();
#pragma unroll 1
    for (int item = first; item < n_items; item++) {
        float acc[MT][NT][4] = {};
        int tiles = source.tiles(item);
        source.begin(item, mine);
#pragma unroll 1
        for (int i = 0; i < mine; i++) {
            int c = source.chunk(item, i);
            stem_copy_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
            fill();
            stem_group_multiply(F(), ring + slot * bytes, source.kept, c, acc, tiles);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        sink(item, acc);
    }
}

#endif
