/* SPDX-License-Identifier: Apache-2.0
 *
 * The device code of norm_query, run by the emulator: the bits of norm_linear's and of mla_query's, one launch after the other;
 * twice with another order of threads.
 */
#include "emulate/emulate.h"

#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "linear/norm_linear.cuh"
#include "rope/rope.cuh"
#include "heads_linear/heads_linear.cuh"
#include "mla/norm_query.cuh"

#include "emulate/check.h"

extern "C" {
#include "ops/rope/rope.h"
}

/* Rows of x `gap` further apart than they are long, heads of `up` and its rows with gaps, too; `more` rows of w that are no query. */
template <class E, int MINE, int CLUSTER, int ROWS, int STAGES, int PARTS, bool INTERLEAVED>
static void query(int tokens, int heads, int k, int more, int gap)
{
    constexpr int WIDE = MINE * CLUSTER, R = WIDE - 128, L = 64 * CLUSTER;
    int n = heads * WIDE + more, distance = k + gap, clusters = (n + WIDE - 1) / WIDE;
    long long ur = L + gap, uh = 140 * ur;
    const float eps = 0.0625f;
    array<E> x((size_t)tokens * distance, 1), norm(k, 2), w((size_t)n * k, 1), up((size_t)(heads * uh), 1);
    array<E> q((size_t)tokens * n), y((size_t)tokens * heads * (L + R));
    array<E> own_q[2] = {array<E>(q.n), array<E>(q.n)}, own_y[2] = {array<E>(y.n), array<E>(y.n)};
    array<int> pos(tokens);
    double turns[R / 2];
    for (int t = 0; t < tokens; t++)
        pos.data()[t] = t == 1 ? 163839 : 777 * t;
    reference r("mla_query");
    float amplitude = (float)stem_rope_turns(r.def, r.set("interleaved", INTERLEAVED).set("factor", 40).attrs, R, turns);
    emu_launch({(unsigned)((n + 15) / 16 * PARTS), 1, 1}, 256, PARTS,
               8 * (STAGES * (stem_stage_bytes<1, 1, ROWS> + 128) + 8 * STEM_TILE_LD * 4) + (PARTS > 1 ? 8 * 17 * 4 + 16 : 0), [&] {
                   stem_norm_linear_to<E, 1, STAGES, 8, 1, PARTS, true, false, ROWS>(
                       x.data(), distance, norm.data(), w.data(), stem_store_plain<E>{q.data(), n}, tokens, n, k, eps);
               });
    emu_launch({(unsigned)(heads * (CLUSTER + 1)), 1, 1}, 256, 1, 8 * 8 * 68 * 4, [&] {
        int h = blockIdx.x / (CLUSTER + 1), tile = blockIdx.x % (CLUSTER + 1);
        if (tile < CLUSTER)
            stem_heads_tile<E, E, 1, 8, true>(q.data(), up.data(), y.data(), h, tile * 64, 0, tokens, L, 128, n, WIDE, uh, ur,
                                              heads * (L + R), L + R);
        else
            stem_rope_block<R, 8, INTERLEAVED>(q.data() + h * WIDE + 128, pos.data(), y.data() + h * (L + R) + L, turns, amplitude, 0,
                                               tokens, n, heads * (L + R));
    });
    for (int i = 0; i < 2; i++)
        emu_launch({(unsigned)(clusters * CLUSTER), 1, 1}, 256, CLUSTER, stem_norm_query_smem<E, MINE, CLUSTER, ROWS, STAGES, PARTS>, [&] {
            stem_norm_query<E, int, MINE, CLUSTER, ROWS, STAGES, PARTS, INTERLEAVED>(
                x.data(), distance, norm.data(), w.data(), up.data(), pos.data(), own_q[i].data(), own_y[i].data(), turns, amplitude,
                tokens, heads, n, k, uh, ur, eps);
        });
    array<E> plain_q(q.n), plain_y(y.n);
    emu_launch({(unsigned)(tokens * clusters), 1, 1}, 256, 1, WIDE * 4, [&] {
        stem_norm_query_plain<E, E, int, R, INTERLEAVED>(x.data(), norm.data(), w.data(), up.data(), pos.data(), plain_q.data(),
                                                         plain_y.data(), turns, amplitude, WIDE, L, heads, n, k, distance, 1, uh, ur, 1,
                                                         eps);
    });
    char what[128];
    snprintf(what, sizeof what, "query t%d/%d h%d k%d, %d of %d rows, %d parts", tokens, ROWS, heads, k, MINE, CLUSTER, PARTS);
    compare(what, own_q[0], q, own_q[1], 1e-30);
    compare(what, own_y[0], y, own_y[1], 1e-30);
    compare("query plain", plain_q, q, plain_q, 4e-3);
    compare("query plain", plain_y, y, plain_y, 6e-3);
}

int main()
{
    setvbuf(stdout, nullptr, _IOLBF, 0);
    query<bf16, 24, 8, 1, 4, 1, true>(1, 2, 2048, 570, 0);
    query<bf16, 24, 8, 1, 3, 2, true>(1, 2, 1536, 0, 576);
    query<__half, 24, 8, 2, 3, 2, false>(2, 1, 1480, 8, 8);
    query<bf16, 24, 8, 4, 3, 1, true>(3, 2, 1096, 200, 8);
    query<bf16, 24, 8, 8, 2, 2, false>(7, 1, 1024, 16, 0);
    query<__half, 24, 8, 8, 1, 1, true>(8, 1, 456, 0, 16);
    query<bf16, 32, 8, 4, 1, 1, false>(4, 1, 512, 40, 0);
    printf("device code: %d of %d checks failed\n", failures, checks);
    return failures != 0;
}
