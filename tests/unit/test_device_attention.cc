/* SPDX-License-Identifier: Apache-2.0
 *
 * The device code of the attention ops, run by the emulator, against the ops' C references; twice with another order of
 * threads, for equal bits. Tables name pages that do not exist, lengths are negative and too large, indices lie outside.
 */
#include "emulate/emulate.h"
#include "emulate/wgmma.h"

#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "heads_linear/heads_linear.cuh"
#include "attention/attention.cuh"
#include "attention/gqa_part.cuh"
#include "rope/rope.cuh"
#include "mla/mla.cuh"
#include "attention/mla_part.cuh"
#include "linear/wgmma.cuh"
#include "attention/mla_new.cuh"
#include "attention/mla_wgmma.cuh"
#include "cache_store/cache_store.cuh"
#include "index_scores/index_scores.cuh"
#include "index_scores/index_part.cuh"
#include "index_scores/index_wide.cuh"
#include "top_k/top_k.cuh"
#include "top_k/top_few.cuh"
#include "attention_heads/attention_heads.cuh"

#include "emulate/check.h"

struct shape {
    int tokens, pages, per_sequence;
};

static int below(int n)
{
    int i = (int)((uniform() + 1) / 2 * (float)n);
    return i < n ? i : n - 1;
}

struct sequences {
    array<int> table, lens;
    sequences(const shape &s, int page) : table((size_t)(s.tokens * s.per_sequence)), lens((size_t)s.tokens)
    {
        for (size_t i = 0; i < table.n; i++)
            table.data()[i] = below(s.pages + 2) - 1;
        for (int t = 0; t < s.tokens; t++)
            lens.data()[t] = t == 1 ? -3 : t == 2 ? 1000000 : below(page * s.per_sequence + 1);
    }
};

/* ---- the two launches ---- */

template <class E, int ROWS, int GROUPS, int D, int UNIT, bool SPARSE, int WARPS, int BATCH>
static void combine(const char *what, array<float> &acc, array<float> &ml, array<int> &lens, int tokens, int heads,
                    int most, int parts)
{
    array<E> want((size_t)tokens * heads * D), y[2] = {array<E>(want.n), array<E>(want.n)};
    reference("attention_combine").operand(acc.data(), {(int64_t)(acc.n / D / ROWS), ROWS, D})
        .operand(ml.data(), {(int64_t)(acc.n / D / ROWS), ROWS, 2}).operand(lens.data(), {tokens})
        .operand(want.data(), {tokens, heads, D}).set("groups", GROUPS).set("parts", parts).set("unit", UNIT)
        .set("most", most).set("sparse", SPARSE).run(1);
    constexpr int SLICE = D % 128 ? D : WARPS == 8 || WARPS == 4 ? 32 : 128;
    unsigned outputs = (unsigned)(tokens * heads * (D / SLICE));
    for (array<E> &out : y)
        emu_launch({(outputs * WARPS + 7) / 8, 1, 1}, 256, 1, 0, [&] {
            stem_attention_combine<E, ROWS, GROUPS, D, SLICE, UNIT, SPARSE, WARPS, BATCH>(
                acc.data(), ml.data(), lens.data(), out.data(), tokens, heads, most, parts);
        });
    compare(what, y[0], want, y[1], bound_of((E *)0));
}

/* The sum and the product in one launch: the bits of two. */
template <class E, int ROWS, int GROUPS, int D, bool SPARSE, int TOKENS, int BATCH, bool EARLY>
static void heads_of(array<float> &acc, array<float> &ml, array<int> &lens, int tokens, int heads, int most, int parts, int n)
{
    constexpr int CLUSTER = D / 64, WARPS = 8 / TOKENS;
    array<E> x((size_t)tokens * heads * D), w((size_t)heads * n * D, 1), want((size_t)tokens * heads * n),
        y[2] = {array<E>(want.n), array<E>(want.n)};
    emu_launch({(unsigned)(tokens * heads * CLUSTER * WARPS + 7) / 8, 1, 1}, 256, 1, 0, [&] {
        stem_attention_combine<E, ROWS, GROUPS, D, 64, 32, SPARSE, WARPS, BATCH>(acc.data(), ml.data(), lens.data(), x.data(),
                                                                               tokens, heads, most, parts);
    });
    emu_launch({(unsigned)(heads * ((n + 15) / 16)), 1, 1}, 32 * CLUSTER, 1,
               CLUSTER * (2 * stem_stage_bytes<1, 1> + 8 * STEM_TILE_LD * 4), [&] {
                   stem_heads_rows<E, E, 1, 2, CLUSTER, true>(x.data(), w.data(), want.data(), tokens, heads, n, D, heads * D, D,
                                                              (long long)n * D, D);
               });
    for (array<E> &out : y)
        emu_launch({(unsigned)(heads * CLUSTER), (unsigned)(n + 127) / 128, 1}, 256, CLUSTER, stem_attention_heads_smem<TOKENS>,
                   [&] {
                       stem_attention_heads<E, E, ROWS, GROUPS, D, 32, SPARSE, TOKENS, BATCH, EARLY>(
                           acc.data(), ml.data(), lens.data(), w.data(), out.data(), tokens, heads, most, parts, n,
                           (long long)n * D, D);
                   });
    char what[128];
    snprintf(what, sizeof what, "sum and heads t%d/%d h%d k%d n%d", tokens, TOKENS, heads, D, n);
    compare(what, y[0], want, y[1], 1e-30);
}

template <class E, int D, int ROWS, int GROUPS, int PAGE, int STAGES> static void gqa(shape s, int parts)
{
    int heads = ROWS * GROUPS, most = s.per_sequence * PAGE, slots = parts + s.tokens * GROUPS - 1;
    const float scale = 0.3f;
    array<E> q((size_t)s.tokens * heads * D, 2), k((size_t)s.pages * PAGE * GROUPS * D, 2), v(k.n, 2);
    sequences c(s, PAGE);
    array<float> acc_want((size_t)slots * ROWS * D), ml_want((size_t)slots * ROWS * 2);
    array<float> acc[3] = {array<float>(acc_want.n), array<float>(acc_want.n), array<float>(acc_want.n)};
    array<float> ml[3] = {array<float>(ml_want.n), array<float>(ml_want.n), array<float>(ml_want.n)};
    reference("attention_part").operand(q.data(), {s.tokens, heads, D}).operand(k.data(), {s.pages, PAGE, GROUPS, D})
        .operand(v.data(), {s.pages, PAGE, GROUPS, D}).operand(c.table.data(), {s.tokens, s.per_sequence})
        .operand(c.lens.data(), {s.tokens}).operand(acc_want.data(), {slots, ROWS, D})
        .operand(ml_want.data(), {slots, ROWS, 2}).set("rows", ROWS).set("parts", parts).set("unit", 64)
        .set("latent", D).set("scale", scale).run(2);
    for (int i = 0; i < 2; i++)
        emu_launch({(unsigned)parts, 1, 1}, 128, 1, stem_gqa_smem<D, ROWS, STAGES>, [&] {
            stem_gqa_part<E, D, ROWS, GROUPS, PAGE, STAGES>(q.data(), k.data(), v.data(), c.table.data(),
                                                            c.lens.data(), acc[i].data(), ml[i].data(), s.tokens,
                                                            heads, s.pages, s.per_sequence, parts,
                                                            (float)(scale * 1.4426950408889634));
        });
    emu_launch({(unsigned)parts, 1, 1}, 128, 1, 0, [&] {
        stem_attention_plain<E, ROWS, (D + 31) / 32>(
            q.data(), k.data(), v.data(), c.table.data(), c.lens.data(), nullptr, acc[2].data(), ml[2].data(),
            stem_attention_call{s.tokens, heads, ROWS, GROUPS, GROUPS, s.pages, PAGE, s.per_sequence, 0, 64, parts,
                                (float)(scale * 1.4426950408889634)},
            D, D);
    });
    char what[128];
    snprintf(what, sizeof what, "gqa t%d d%d r%d g%d page %d parts %d", s.tokens, D, ROWS, GROUPS, PAGE, parts);
    compare(what, acc[0], acc_want, acc[1], 1e-4);
    compare(what, ml[0], ml_want, ml[1], 1e-4);
    compare("gqa plain", acc[2], acc_want, acc[2], 1e-4);
    compare("gqa plain", ml[2], ml_want, ml[2], 1e-4);
    combine<E, ROWS, GROUPS, D, 64, false, 1, 18>("combine", acc[0], ml[0], c.lens, s.tokens, heads, most, parts);
    combine<E, ROWS, GROUPS, D, 64, false, 4, 2>("combine", acc[0], ml[0], c.lens, s.tokens, heads, most, parts);
}

/* STAGES 0: by wgmma. */
template <class E, int W, int L, int ROWS, int GROUPS, int PAGE, int WK, int TILE, int STAGES, bool SPARSE>
static void mla(shape s, int heads, int parts, int count)
{
    int most = SPARSE ? count : s.per_sequence * PAGE, slots = parts + s.tokens * GROUPS - 1;
    const float scale = 0.1f;
    array<E> q((size_t)s.tokens * heads * W, 2), k((size_t)s.pages * PAGE * W, 2);
    array<int> chosen((size_t)s.tokens * count + 1);
    sequences c(s, PAGE);
    for (size_t i = 0; i < chosen.n; i++)
        chosen.data()[i] = below(s.per_sequence * PAGE + 9) - 5;
    array<float> acc_want((size_t)slots * ROWS * L), ml_want((size_t)slots * ROWS * 2);
    array<float> acc[3] = {array<float>(acc_want.n), array<float>(acc_want.n), array<float>(acc_want.n)};
    array<float> ml[3] = {array<float>(ml_want.n), array<float>(ml_want.n), array<float>(ml_want.n)};
    reference r("attention_part");
    r.operand(q.data(), {s.tokens, heads, W}).operand(k.data(), {s.pages, PAGE, W}).absent()
        .operand(c.table.data(), {s.tokens, s.per_sequence}).operand(c.lens.data(), {s.tokens});
    if (SPARSE)
        r.operand(chosen.data(), {s.tokens, count});
    r.operand(acc_want.data(), {slots, ROWS, L}).operand(ml_want.data(), {slots, ROWS, 2}).set("rows", ROWS)
        .set("parts", parts).set("unit", 32).set("latent", L).set("scale", scale).run(2);
    const float scaled = (float)(scale * 1.4426950408889634);
    constexpr int HALVES = stem_mla_halves<ROWS>;
    for (int i = 0; i < 2; i++)
        if constexpr (STAGES == 0)
            emu_launch({(unsigned)parts * HALVES, 1, 1}, STEM_WGMMA_THREADS, 1, stem_mla_wgmma_smem<W>, [&] {
                stem_mla_wgmma<E, W, ROWS, GROUPS, PAGE, SPARSE>(q.data(), k.data(), c.table.data(), c.lens.data(),
                                                                 chosen.data(), acc[i].data(), ml[i].data(), s.tokens,
                                                                 heads, s.pages, s.per_sequence, count, parts, scaled);
            });
        else {
            constexpr int MT = stem_mla_block<E, W, L, stem_mla_rows<ROWS>, PAGE, WK, TILE, STAGES, SPARSE>::MT;
            emu_launch({(unsigned)parts * HALVES, 1, 1}, 256, 1, stem_mla_smem<W, MT, WK, TILE, STAGES>, [&] {
                stem_mla_part<E, W, L, ROWS, GROUPS, PAGE, WK, TILE, STAGES, SPARSE>(
                    q.data(), k.data(), c.table.data(), c.lens.data(), chosen.data(), acc[i].data(), ml[i].data(),
                    s.tokens, heads, s.pages, s.per_sequence, count, parts, scaled);
            });
        }
    char what[128];
    snprintf(what, sizeof what, "mla t%d %d/%d h%d r%d g%d page %d parts %d k%d", s.tokens, W, L, heads, ROWS, GROUPS,
             PAGE, parts, count);
    compare(what, acc[0], acc_want, acc[1], 1e-4);
    compare(what, ml[0], ml_want, ml[1], 1e-4);
    if (STAGES == 0) /* the others below have had the same numbers */
        return;
    emu_launch({(unsigned)parts, 1, 1}, 128, 1, 0, [&] {
        stem_attention_plain<E, ROWS, (L + 31) / 32>(
            q.data(), k.data(), (const E *)nullptr, c.table.data(), c.lens.data(), SPARSE ? chosen.data() : nullptr,
            acc[2].data(), ml[2].data(),
            stem_attention_call{s.tokens, heads, ROWS, GROUPS, 1, s.pages, PAGE, s.per_sequence, SPARSE ? count : 0, 32,
                                parts, scaled},
            W, L);
    });
    compare("mla plain", acc[2], acc_want, acc[2], 1e-4);
    compare("mla plain", ml[2], ml_want, ml[2], 1e-4);
    combine<E, ROWS, GROUPS, L, 32, SPARSE, 8, 4>("mla combine", acc[0], ml[0], c.lens, s.tokens, heads, most, parts);
    combine<E, ROWS, GROUPS, L, 32, SPARSE, 2, 3>("mla combine", acc[0], ml[0], c.lens, s.tokens, heads, most, parts);
    if (s.tokens <= 4) {
        heads_of<E, ROWS, GROUPS, L, SPARSE, 4, 5, true>(acc[0], ml[0], c.lens, s.tokens, heads, most, parts, 40);
        heads_of<E, ROWS, GROUPS, L, SPARSE, 8, 3, false>(acc[0], ml[0], c.lens, s.tokens, heads, most, parts, 136);
    }
    if (s.tokens == 1)
        heads_of<E, ROWS, GROUPS, L, SPARSE, 1, 5, true>(acc[0], ml[0], c.lens, s.tokens, heads, most, parts, 128);
}

extern "C" double stem_rope_turns(const struct stem_op_def *def, const struct stem_attr *attrs, uint32_t n, double *turns);

/* New rows that the launch itself adds: the cache that stem_mla_store leaves, bit for bit, and attention over that one. Some
 * tokens' rows are the last ones that they see, some nobody's, and of one token several see the row. ADDERS: blocks that store.
 * INPLACE: by the first of the others. */
template <class E, int W, int L, int ROWS, int PAGE, int TILE, int STAGES, int HOW, bool ONE, bool INTERLEAVED>
static void added(shape s, int parts, int adders)
{
    constexpr int R = W - L, TOKENS = 16;
    int slots = parts + s.tokens - 1, rows = s.pages * PAGE, gap = 8;
    const float scale = 0.1f, eps = 1e-6f, scaled = (float)(scale * 1.4426950408889634);
    array<E> q((size_t)s.tokens * ROWS * W, 2), k((size_t)rows * W, 2), kv((size_t)s.tokens * (W + gap), 1), norm(L, 1);
    array<E> want(k.n), cache[2] = {array<E>(k.n), array<E>(k.n)};
    array<int> pos((size_t)s.tokens), slot((size_t)s.tokens);
    sequences c(s, PAGE);
    for (int t = 0; t < s.tokens; t++) {
        int last = c.lens.data()[t] < 1 ? 0 : c.lens.data()[t] - 1, place = last < PAGE * s.per_sequence ? last : 0;
        int page = c.table.data()[t * s.per_sequence + place / PAGE];
        pos.data()[t] = 3 * t + last % 5000;
        slot.data()[t] = t % 4 == 3 ? -1 : (page < 0 || page >= s.pages ? 0 : page) * PAGE + place % PAGE;
        for (int u = 0; u < t; u++)
            slot.data()[t] = slot.data()[u] == slot.data()[t] ? rows + t : slot.data()[t];
        if (t > 4) /* what another one has as its new row */
            c.table.data()[t * s.per_sequence] = slot.data()[0] / PAGE;
    }
    array<float> acc_want((size_t)slots * ROWS * L), ml_want((size_t)slots * ROWS * 2);
    array<float> acc[2] = {array<float>(acc_want.n), array<float>(acc_want.n)};
    array<float> ml[2] = {array<float>(ml_want.n), array<float>(ml_want.n)};
    double turns[R / 2];
    reference of("mla_store");
    float amplitude = (float)stem_rope_turns(of.def, of.attrs, R, turns);
    memcpy(want.data(), k.data(), k.n * sizeof(E));
    emu_launch({(unsigned)s.tokens, 1, 1}, 128, 1, 0, [&] {
        stem_mla_store<E, int, L, R, 4, 1, INTERLEAVED>(want.data(), kv.data(), norm.data(), pos.data(), slot.data(), turns,
                                                        amplitude, rows, W + gap, 1, eps);
    });
    reference("attention_part").operand(q.data(), {s.tokens, ROWS, W}).operand(want.data(), {s.pages, PAGE, W}).absent()
        .operand(c.table.data(), {s.tokens, s.per_sequence}).operand(c.lens.data(), {s.tokens})
        .operand(acc_want.data(), {slots, ROWS, L}).operand(ml_want.data(), {slots, ROWS, 2}).set("rows", ROWS)
        .set("parts", parts).set("unit", 32).set("latent", L).set("scale", scale).run(2);
    typedef stem_mla_new<E, int, L, R, TOKENS, INTERLEAVED> fresh;
    constexpr int MT = stem_mla_block<E, W, L, ROWS, PAGE, 2, TILE, STAGES, false, fresh, HOW>::MT;
    for (int i = 0; i < 2; i++) {
        memcpy(cache[i].data(), k.data(), k.n * sizeof(E));
        emu_launch({(unsigned)(parts + adders), 1, 1}, 256, 1, stem_mla_smem<W, MT, 2, TILE, STAGES, (HOW & 1) != 0>, [&] {
            stem_mla_part<E, W, L, ROWS, 1, PAGE, 2, TILE, STAGES, false, fresh, HOW, ONE>(
                q.data(), cache[i].data(), c.table.data(), c.lens.data(), nullptr, acc[i].data(), ml[i].data(), s.tokens,
                ROWS, s.pages, s.per_sequence, 0, parts, scaled,
                fresh(cache[i].data(), kv.data(), norm.data(), pos.data(), slot.data(), turns, s.tokens, rows, W + gap,
                      amplitude, eps));
        });
    }
    char what[128];
    snprintf(what, sizeof what, "added t%d %d/%d r%d page %d parts %d + %d", s.tokens, W, L, ROWS, PAGE, parts, adders);
    compare(what, acc[0], acc_want, acc[1], 1e-4);
    compare(what, ml[0], ml_want, ml[1], 1e-4);
    compare(what, cache[0], want, cache[1], 1e-30);
}

/* ---- the others ---- */

template <int THREADS, int CLUSTER, bool KEPT, int EACH = 0> static void top(int tokens, int n, int k, bool has_lens, int kind)
{
    array<float> x((size_t)tokens * n, 3);
    array<int> lens((size_t)tokens), want((size_t)tokens * k), y[2] = {array<int>(want.n), array<int>(want.n)};
    for (size_t i = 0; i < x.n && kind; i++) /* many equal, some that are never chosen */
        x.data()[i] = kind == 2 && below(5) ? -INFINITY : kind == 3 && below(3) == 0 ? NAN : (float)(below(9) - 4) / 4;
    for (size_t i = 0; i < x.n && kind > 3; i++) /* alike: many bits in common, up to all; infinite ones */
        x.data()[i] = kind == 4 ? 40 + uniform() : kind == 5 ? 40 : below(100) ? uniform() : INFINITY;
    for (int t = 0; t < tokens; t++)
        lens.data()[t] = t == 1 ? -2 : t == 2 ? n + 5 : below(n + 1);
    reference r("top_k");
    r.operand(x.data(), {tokens, n});
    if (has_lens)
        r.operand(lens.data(), {tokens});
    r.operand(want.data(), {tokens, k}).run(1);
    size_t smem = sizeof(stem_top_shared) + (KEPT ? (size_t)((n + CLUSTER - 1) / CLUSTER + 127) / 128 * 512 : 0);
    for (array<int> &out : y)
        emu_launch({(unsigned)tokens * CLUSTER, 1, 1}, THREADS, CLUSTER, smem, [&] {
            stem_top_k<THREADS, CLUSTER, KEPT>(x.data(), has_lens ? lens.data() : nullptr, out.data(), n, k);
        });
    char what[128];
    snprintf(what, sizeof what, "top_k t%d n%d k%d cluster %d kind %d%s", tokens, n, k, CLUSTER, kind, KEPT ? " kept" : "");
    compare(what, y[0], want, y[1], 1e-30);
    if constexpr (CLUSTER == 1 && KEPT && EACH > 0) { /* in registers */
        for (array<int> &out : y)
            emu_launch({(unsigned)tokens, 1, 1}, THREADS, 1, sizeof(stem_top_shared) + 4 * THREADS * EACH, [&] {
                stem_top_few<THREADS, EACH>(x.data(), has_lens ? lens.data() : nullptr, out.data(), n, k);
            });
        snprintf(what, sizeof what, "top_k of few t%d n%d k%d kind %d", tokens, n, k, kind);
        compare(what, y[0], want, y[1], 1e-30);
    }
}

/* STAGES 0: the plain kernel. */
template <class E, class W, int HEADS, int WIDTH, int PAGE, int STAGES> static void scores(shape s, int most, unsigned blocks)
{
    array<E> q((size_t)s.tokens * HEADS * WIDTH, 1), k((size_t)s.pages * PAGE * WIDTH, 1);
    array<W> w((size_t)s.tokens * HEADS, 1);
    array<float> want((size_t)s.tokens * most), y[2] = {array<float>(want.n), array<float>(want.n)};
    sequences c(s, PAGE);
    reference("index_scores").operand(q.data(), {s.tokens, HEADS, WIDTH}).operand(w.data(), {s.tokens, HEADS})
        .operand(k.data(), {s.pages, PAGE, WIDTH}).operand(c.table.data(), {s.tokens, s.per_sequence})
        .operand(c.lens.data(), {s.tokens}).operand(want.data(), {s.tokens, most}).run(1);
    for (array<float> &out : y)
        emu_launch({blocks, 1, 1}, 256, 1, 8 * STAGES * stem_index_stage<WIDTH>, [&] {
            if constexpr (STAGES > 0)
                stem_index_scores<E, W, HEADS, WIDTH, PAGE, STAGES>(q.data(), w.data(), k.data(), c.table.data(),
                                                                    c.lens.data(), out.data(), s.tokens, most, s.pages,
                                                                    s.per_sequence);
            else
                stem_index_scores_plain<E, W, HEADS, WIDTH, PAGE>(q.data(), w.data(), k.data(), c.table.data(),
                                                                  c.lens.data(), out.data(), s.tokens, most, s.pages,
                                                                  s.per_sequence);
        });
    char what[128];
    snprintf(what, sizeof what, "index_scores t%d h%d d%d page %d s%d", s.tokens, HEADS, WIDTH, PAGE, STAGES);
    compare(what, y[0], want, y[1], 1e-5);
}

/* By wgmma. */
template <class E, class W, int WIDTH, int PAGE> static void scores_wide(shape s, int most, unsigned blocks)
{
    constexpr int STAGES = 2, GROUPS = 2;
    array<E> q((size_t)s.tokens * 64 * WIDTH, 1), k((size_t)s.pages * PAGE * WIDTH, 1);
    array<W> w((size_t)s.tokens * 64, 1);
    array<float> want((size_t)s.tokens * most), y[2] = {array<float>(want.n), array<float>(want.n)};
    sequences c(s, PAGE);
    reference("index_scores").operand(q.data(), {s.tokens, 64, WIDTH}).operand(w.data(), {s.tokens, 64})
        .operand(k.data(), {s.pages, PAGE, WIDTH}).operand(c.table.data(), {s.tokens, s.per_sequence})
        .operand(c.lens.data(), {s.tokens}).operand(want.data(), {s.tokens, most}).run(1);
    for (array<float> &out : y)
        emu_launch({blocks, 1, 1}, 128 * GROUPS, 1, 1024 + GROUPS * (STAGES + 1) * stem_index_wide_bytes<WIDTH>, [&] {
            stem_index_wide<E, W, WIDTH, PAGE, STAGES, GROUPS>(q.data(), w.data(), k.data(), c.table.data(), c.lens.data(), out.data(),
                                                               s.tokens, most, s.pages, s.per_sequence);
        });
    char what[128];
    snprintf(what, sizeof what, "index_scores by wgmma t%d d%d page %d", s.tokens, WIDTH, PAGE);
    compare(what, y[0], want, y[1], 1e-5);
}

static void store()
{
    const int rows = 5, n = 24, slots = 12;
    array<int> cache((size_t)slots * n, 100), want((size_t)slots * n), x((size_t)rows * n, 100), slot(rows);
    const int at[rows] = {3, -1, 12, 0, 11};
    memcpy(slot.data(), at, sizeof at);
    memcpy(want.data(), cache.data(), want.n * 4);
    reference("cache_store").operand(want.data(), {slots / 2, 2, n}).operand(x.data(), {rows, n})
        .operand(slot.data(), {rows}).run(0);
    emu_launch({1, 2, 1}, 32, 1, 0, [&] { stem_cache_store<int, 4>(cache.data(), x.data(), slot.data(), rows, slots, n); });
    compare("cache_store", cache, want, cache, 1e-30);
}

int main()
{
    setvbuf(stdout, nullptr, _IOLBF, 0);
    gqa<bf16, 64, 4, 2, 16, 3>({3, 9, 20}, 7);
    gqa<bf16, 128, 8, 1, 7, 2>({5, 9, 60}, 12);
    gqa<__half, 96, 16, 2, 64, 4>({1, 3, 3}, 6);
    gqa<bf16, 32, 1, 3, 1, 2>({35, 200, 130}, 20);
    gqa<bf16, 64, 2, 2, 16, 2>({2, 9, 100}, 60);
    mla<bf16, 576, 512, 8, 1, 64, 2, 64, 3, false>({3, 4, 3}, 8, 5, 0);
    mla<bf16, 576, 512, 16, 1, 64, 2, 64, 2, true>({3, 4, 3}, 16, 5, 170);
    mla<__half, 192, 128, 9, 1, 7, 2, 32, 4, false>({4, 9, 20}, 9, 7, 0);
    mla<__half, 192, 128, 20, 1, 7, 2, 32, 2, false>({4, 9, 20}, 20, 7, 0);
    mla<bf16, 128, 128, 32, 1, 1, 2, 32, 3, true>({4, 60, 50}, 32, 9, 33);
    mla<bf16, 192, 128, 67, 2, 16, 1, 32, 2, false>({3, 4, 9}, 133, 5, 0);
    mla<bf16, 192, 128, 128, 1, 16, 2, 32, 3, true>({3, 4, 9}, 128, 4, 40);
    mla<bf16, 576, 512, 8, 1, 64, 2, 32, 3, false>({1, 4, 6}, 8, 5, 0);
    mla<bf16, 576, 512, 16, 1, 64, 2, 64, 3, false>({4, 9, 5}, 16, 7, 0);
    mla<bf16, 192, 128, 64, 1, 16, 2, 32, 3, false>({3, 4, 9}, 64, 4, 0);
    mla<bf16, 576, 512, 128, 1, 64, 0, 64, 0, false>({1, 4, 5}, 128, 2, 0);
    mla<bf16, 576, 512, 40, 1, 16, 0, 64, 0, true>({3, 20, 12}, 40, 3, 150);
    mla<__half, 512, 512, 65, 2, 7, 0, 64, 0, false>({3, 30, 12}, 129, 1, 0);
    added<bf16, 576, 512, 8, 64, 64, 1, 3, true, true>({1, 4, 6}, 6, 1);
    added<bf16, 576, 512, 16, 64, 64, 2, 1, true, true>({1, 4, 6}, 5, 0);
    added<bf16, 576, 512, 16, 64, 64, 2, 1, false, true>({6, 40, 3}, 12, 0);
    added<__half, 192, 128, 9, 7, 32, 3, 0, false, false>({13, 60, 20}, 7, 2);
    added<__half, 192, 128, 20, 16, 32, 2, 0, false, true>({16, 90, 5}, 5, 0);
    for (int kind : {0, 1, 2, 3, 4, 5, 6}) {
        top<128, 1, true, 8>(4, 1000, 100, true, kind);
        top<64, 1, false>(3, 333, 300, false, kind);
        top<64, 4, true>(4, 2001, 150, true, kind);
        top<64, 2, false>(2, 5000, 1, false, kind);
    }
    top<1024, 1, true, 4>(1, 3000, 512, false, 0);
    top<1024, 1, true, 8>(1, 5000, 2048, true, 4);
    scores<bf16, float, 3, 40, 7, 0>({3, 9, 8}, 50, 3);
    scores<bf16, float, 64, 128, 64, 3>({4, 9, 8}, 512, 5);
    scores<__half, __half, 24, 96, 7, 2>({35, 30, 8}, 50, 9);
    scores_wide<bf16, float, 128, 64>({4, 9, 8}, 512, 3);
    scores_wide<__half, __half, 64, 7>({35, 30, 8}, 50, 2);
    store();
    printf("device code: %d of %d checks failed\n", failures, checks);
    return failures != 0;
}
