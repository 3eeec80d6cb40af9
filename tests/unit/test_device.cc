/* SPDX-License-Identifier: Apache-2.0
 *
 * The device code of linear, heads_linear, rope, experts and route, run by the emulator, against the ops' C references; twice with another
 * order of threads, for equal bits.
 */
#include "emulate/emulate.h"

#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "rope/rope.cuh"
#include "index_store/index_store.cuh"
#include "heads_linear/heads_linear.cuh"
#include "mla/mla.cuh"
#include "argmax/argmax.cuh"
#include "gqa_store/gqa_store.cuh"
#include "experts/groups.cuh"
#include "experts/experts.cuh"
#include "experts/one.cuh"
#include "experts/experts_down.cuh"
#include "rmsnorm/rmsnorm.cuh"
#include "route/route.cuh"

#include "emulate/check.h"

/* ---- linear ---- */

template <class E, class O, int NT, int STAGES, int KP, int G, int CL, int ROWS = 8, bool WHOLE = false>
static void linear(int m, int n, int k)
{
    array<E> x(m * k, 1), w(n * k, 1);
    array<O> want(m * n);
    reference("linear").operand(x.data(), {m, k}).operand(w.data(), {n, k}).operand(want.data(), {m, n}).run(1);
    unsigned warps = KP * G, items = (n + 16 * G - 1) / (16 * G), blocks = items > 3 && !WHOLE ? 3 : items;
    size_t smem = warps * (STAGES * stem_stage_bytes<1, NT, ROWS> + 8 * NT * STEM_TILE_LD * 4) + (CL > 1 ? G * NT * 8 * 16 * 4 + 16 : 0);
    array<O> y[2] = {array<O>(m * n), array<O>(m * n)};
    for (array<O> &out : y)
        emu_launch({blocks * CL, (unsigned)(m + 8 * NT - 1) / (8 * NT), 1}, 32 * warps, CL, smem, [&] {
            stem_linear_to<E, NT, STAGES, KP, G, CL, true, false, ROWS, WHOLE>(x.data(), w.data(), stem_store_plain<O>{out.data(), n},
                                                                               m, n, k);
        });
    char what[128];
    snprintf(what, sizeof what, "linear %dx%dx%d nt%d r%d s%d kp%d g%d cl%d", m, n, k, NT, ROWS, STAGES, KP, G, CL);
    compare(what, y[0], want, y[1], bound_of((O *)0));
}

template <class E, class O> static void linear_plain(int m, int n, int k)
{
    array<E> x(m * k, 1), w(n * k, 1);
    array<O> want(m * n), y(m * n);
    reference("linear").operand(x.data(), {m, k}).operand(w.data(), {n, k}).operand(want.data(), {m, n}).run(1);
    emu_launch({(unsigned)(n + 3) / 4, (unsigned)(m + 7) / 8, 1}, 128, 1, 0,
               [&] { stem_linear_plain<E, O>(x.data(), w.data(), y.data(), m, n, k); });
    compare("linear plain", y, want, y, bound_of((O *)0));
}

/* ---- heads_linear ---- */

/* x and w are slices: `gap` more elements between heads, and between the rows of w. */
template <class E, class O, int NT, int STAGES, int KP> static void heads(int tokens, int heads, int n, int k, int gap, bool flip)
{
    int rows = flip ? k : n, row = (flip ? n : k) + gap;
    int64_t xt = (int64_t)heads * (k + gap), xh = k + gap, wh = (int64_t)rows * row + gap, wr = row;
    array<E> x(tokens * xt, 1), w(heads * wh, 1);
    array<O> want((size_t)tokens * heads * n), y[2] = {array<O>(want.n), array<O>(want.n)};
    reference r("heads_linear");
    r.set("transposed", flip).operand(x.data(), {tokens, heads, k}).operand(w.data(), {heads, rows, row - gap});
    r.operand(want.data(), {tokens, heads, n});
    r.tensor[0].stride[0] = xt, r.tensor[0].stride[1] = xh, r.tensor[1].stride[0] = wh, r.tensor[1].stride[1] = wr;
    r.run(1);
    for (int i = 0; i < 2; i++) {
        unsigned tiles = (unsigned)(tokens + 8 * NT - 1) / (8 * NT);
        if (flip)
            emu_launch({(unsigned)(heads * ((n + 63) / 64)), tiles, 1}, 32 * KP, 1, KP * 8 * NT * 68 * 4, [&] {
                stem_heads_transposed<E, O, NT, KP, true>(x.data(), w.data(), y[i].data(), tokens, heads, n, k, xt, xh, wh, wr);
            });
        else
            emu_launch({(unsigned)(heads * ((n + 15) / 16)), tiles, 1}, 32 * KP, 1,
                       KP * (STAGES * stem_stage_bytes<1, NT> + 8 * NT * STEM_TILE_LD * 4), [&] {
                           stem_heads_rows<E, O, NT, STAGES, KP, true>(x.data(), w.data(), y[i].data(), tokens, heads, n, k, xt,
                                                                       xh, wh, wr);
                       });
    }
    char what[128];
    snprintf(what, sizeof what, "heads_linear t%d h%d %dx%d gap %d%s", tokens, heads, n, k, gap, flip ? " transposed" : "");
    compare(what, y[0], want, y[1], bound_of((O *)0));
    array<O> plain(want.n);
    emu_launch({(unsigned)(want.n + 127) / 128, 1, 1}, 128, 1, 0, [&] {
        stem_heads_plain<E, O>(x.data(), w.data(), plain.data(), tokens, heads, n, k, xt, xh, 1, wh, flip ? 1 : wr, flip ? wr : 1);
    });
    compare("heads_linear plain", plain, want, plain, bound_of((O *)0));
}

/* ---- rope ---- */

extern "C" double stem_rope_turns(const struct stem_op_def *def, const struct stem_attr *attrs, uint32_t n, double *turns);

template <class E, int D, int N, int V, bool FIRST, bool INTERLEAVED> static void rope(int tokens, int heads, int gap, double factor)
{
    int64_t xh = D + gap, xt = heads * xh;
    array<E> x(tokens * xt, 1), want((size_t)tokens * heads * D), y(want.n);
    array<int> pos(tokens);
    double turns[N / 2];
    for (int t = 0; t < tokens; t++)
        pos.data()[t] = t == 1 ? 163839 : 1000 * t * t;
    reference r("rope");
    r.set("size", N).set("at", FIRST ? "first" : "last").set("interleaved", INTERLEAVED).set("factor", factor);
    r.operand(x.data(), {tokens, heads, D}).operand(pos.data(), {tokens}).operand(want.data(), {tokens, heads, D});
    r.tensor[0].stride[0] = xt, r.tensor[0].stride[1] = xh;
    r.run(1);
    double amplitude = stem_rope_turns(r.def, r.attrs, N, turns);
    unsigned units = tokens * heads * ((D - N) / V + N / 2 / (INTERLEAVED && V > 1 ? V / 2 : V));
    emu_launch({(units + 127) / 128, 1, 1}, 128, 1, 0, [&] {
        stem_rope<E, int, D, N, V, FIRST, INTERLEAVED>(x.data(), pos.data(), y.data(), turns, (float)amplitude, tokens, heads, xt,
                                                       xh, 1);
    });
    compare("rope", y, want, y, type_of((E *)0) == STEM_F32 ? 1e-6 : 1e-3);
}

template <int NT, int STAGES, int KP, int G, int CL, bool PAIR> static void linear_then(int m, int n, int k)
{
    int columns = PAIR ? n / 2 : n, each = (PAIR ? 8 : 16) * G;
    array<bf16> x(m * k, 1), w(n * k, 1), more(m * columns, 1), want(m * columns);
    array<float> last(columns, 1);
    reference("linear").set("then", PAIR ? "i0 i1 mul i2 add as:bf16 i3 add" : "i0 i1 add as:bf16 i2 add")
        .set("then_of", "bf16").set("then_type", "bf16").set("halves", PAIR ? "1" : nullptr)
        .operand(x.data(), {m, k}).operand(w.data(), {n, k}).absent().absent().absent().operand(more.data(), {m, columns})
        .operand(last.data(), {columns}).operand(want.data(), {m, columns}).run(1);
    unsigned warps = KP * G, items = (columns + each - 1) / each, blocks = items > 3 ? 3 : items;
    size_t smem = warps * (STAGES * stem_stage_bytes<1, NT> + 8 * NT * STEM_TILE_LD * 4) + (CL > 1 ? G * NT * 8 * 16 * 4 + 16 : 0);
    array<bf16> y[2] = {array<bf16>(m * columns), array<bf16>(m * columns)}, plain(m * columns);
    for (array<bf16> &out : y)
        emu_launch({blocks * CL, (unsigned)(m + 8 * NT - 1) / (8 * NT), 1}, 32 * warps, CL, smem, [&] {
            stem_linear_to<bf16, NT, STAGES, KP, G, CL, true, PAIR>(
                x.data(), w.data(), add_store<PAIR>{more.data(), last.data(), out.data(), columns}, m, n, k);
        });
    emu_launch({(unsigned)(columns + 3) / 4, (unsigned)(m + 7) / 8, 1}, 128, 1, 0, [&] {
        stem_linear_plain_to<bf16, PAIR>(x.data(), w.data(),
                                         add_store<PAIR>{more.data(), last.data(), plain.data(), columns}, m, n, k);
    });
    compare(PAIR ? "linear, halves, then" : "linear, then", y[0], want, y[1], 4e-3);
    compare("linear plain, then", plain, want, plain, 4e-3);
}

/* ---- around latent attention ---- */

/* The launch as mla_query.c writes it, and the plain one. */
template <class E, int NT, int KP, int R, bool INTERLEAVED> static void mla_query(int tokens, int heads, int n, int k, int gap)
{
    int64_t qh = k + R, qt = heads * qh + gap, wk = n, wh = (int64_t)(k + gap) * n, width = n + R;
    array<E> q(tokens * qt, 1), w(heads * wh, 1), want((size_t)tokens * heads * width), plain(want.n);
    array<E> y[2] = {array<E>(want.n), array<E>(want.n)};
    array<int> pos(tokens);
    double turns[R / 2];
    for (int t = 0; t < tokens; t++)
        pos.data()[t] = 777 * t;
    reference r("mla_query");
    r.set("interleaved", INTERLEAVED).set("factor", 40).operand(q.data(), {tokens, heads, k + R});
    r.operand(w.data(), {heads, k, n}).operand(pos.data(), {tokens}).operand(want.data(), {tokens, heads, width});
    r.tensor[0].stride[0] = qt, r.tensor[1].stride[0] = wh;
    r.run(1);
    float amplitude = (float)stem_rope_turns(r.def, r.attrs, R, turns);
    for (int i = 0; i < 2; i++) {
        int tiles = (n + 63) / 64;
        emu_launch({(unsigned)(heads * (tiles + 1)), (unsigned)(tokens + 8 * NT - 1) / (8 * NT), 1}, 32 * KP, 1, KP * 8 * NT * 68 * 4,
                   [&] {
                       int h = blockIdx.x / (tiles + 1), tile = blockIdx.x - h * (tiles + 1), m0 = blockIdx.y * 8 * NT;
                       if (tile < tiles)
                           stem_heads_tile<E, E, NT, KP, true>(q.data(), w.data(), y[i].data(), h, tile * 64, m0, tokens, n, k, qt, qh,
                                                               wh, wk, heads * width, width);
                       else
                           stem_rope_block<R, 8, INTERLEAVED>(q.data() + h * qh + k, pos.data(), y[i].data() + h * width + n, turns,
                                                              amplitude, m0, tokens < m0 + 8 * NT ? tokens : m0 + 8 * NT, qt,
                                                              heads * width);
                   });
    }
    compare("mla_query", y[0], want, y[1], 4e-3);
    emu_launch({(unsigned)(want.n + 127) / 128, 1, 1}, 128, 1, 0, [&] {
        stem_mla_query_plain<R, INTERLEAVED>(q.data(), w.data(), pos.data(), plain.data(), turns, amplitude, tokens, heads, n, k, qt, qh,
                                             1, wh, wk, 1);
    });
    compare("mla_query plain", plain, want, plain, 4e-3);
}

/* Some slots do not exist. */
template <class E, int L, int R, int V, int K, bool INTERLEAVED> static void mla_store(int tokens, int gap)
{
    constexpr int PAGES = 7, PAGE = 3;
    int64_t row = L + R + gap;
    array<E> kv(tokens * row, 1), norm(L, 1), before(PAGES * PAGE * (L + R), 1), want = before, cache = before;
    array<int> pos(tokens), slot(tokens);
    double turns[R / 2];
    for (int t = 0; t < tokens; t++) {
        pos.data()[t] = 9 * t * t;
        slot.data()[t] = t == 1 ? PAGES * PAGE : t == 3 ? -1 : (t * 5 + 2) % (PAGES * PAGE);
    }
    reference r("mla_store");
    r.set("interleaved", INTERLEAVED).set("factor", 40).set("eps", 0.25).operand(want.data(), {PAGES, PAGE, L + R});
    r.operand(kv.data(), {tokens, L + R}).operand(norm.data(), {L}).operand(pos.data(), {tokens}).operand(slot.data(), {tokens});
    r.tensor[1].stride[0] = row;
    r.run(0);
    float amplitude = (float)stem_rope_turns(r.def, r.attrs, R, turns);
    emu_launch({(unsigned)tokens, 1, 1}, 128, 1, 0, [&] {
        stem_mla_store<E, int, L, R, V, K, INTERLEAVED>(cache.data(), kv.data(), norm.data(), pos.data(), slot.data(), turns, amplitude,
                                                        PAGES * PAGE, row, 1, 0.25f);
    });
    compare("mla_store", cache, want, cache, type_of((E *)0) == STEM_F32 ? 1e-6 : 1e-3);
    checks++;
    bool same = memcmp(want.data(), before.data(), want.n * sizeof(E)) == 0;
    failures += same;
}

template <class E, class W, int D, int N, bool INTERLEAVED> static void index_store(int tokens, int gap)
{
    constexpr int PAGES = 7, PAGE = 3;
    int64_t row = D + gap;
    array<W> gain(D, 1), bias(D, 1);
    array<E> x(tokens * row, 1), before(PAGES * PAGE * D, 1), want = before, cache = before;
    array<int> pos(tokens), slot(tokens);
    double turns[N / 2 + 1];
    for (int t = 0; t < tokens; t++) {
        pos.data()[t] = 9 * t * t;
        slot.data()[t] = t == 1 ? PAGES * PAGE : t == 3 ? -1 : (t * 5 + 2) % (PAGES * PAGE);
    }
    reference r("index_store");
    r.set("interleaved", INTERLEAVED).set("factor", 40).set("eps", 0.25).set("size", N).operand(want.data(), {PAGES, PAGE, D});
    r.operand(x.data(), {tokens, D}).operand(gain.data(), {D}).operand(bias.data(), {D});
    r.operand(pos.data(), {tokens}).operand(slot.data(), {tokens});
    r.tensor[1].stride[0] = row;
    r.run(0);
    float amplitude = (float)stem_rope_turns(r.def, r.attrs, N, turns);
    emu_launch({(unsigned)tokens, 1, 1}, 32, 1, 0, [&] {
        stem_index_store<E, W, int, D, N, INTERLEAVED>(cache.data(), x.data(), gain.data(), bias.data(), pos.data(), slot.data(), turns,
                                                    amplitude, PAGES * PAGE, row, 1, 0.25f);
    });
    compare("index_store", cache, want, cache, type_of((E *)0) == STEM_F32 ? 1e-6 : 2e-3);
    checks++;
    failures += memcmp(want.data(), before.data(), want.n * sizeof(E)) == 0;
}

template <class E, int D, int V, bool INTERLEAVED, bool NORM> static void gqa_store(int tokens, int heads, int groups, int gap)
{
    constexpr int SLOTS = 12;
    int64_t xh = D + gap, xt = heads * xh;
    array<E> x(tokens * xt, 1), norm(D, 1), k(SLOTS * groups * D, 1), v(k.n, 1), k_want = k, v_want = v;
    array<E> want((size_t)tokens * (heads - 2 * groups) * D), y(want.n);
    array<int> pos(tokens), slot(tokens);
    double turns[D / 2];
    for (int t = 0; t < tokens; t++) {
        pos.data()[t] = 99 * t;
        slot.data()[t] = t == 1 ? SLOTS : t == 2 ? -1 : (5 * t + 1) % SLOTS;
    }
    reference r("gqa_store");
    r.set("interleaved", INTERLEAVED).set("eps", 0.25).operand(k_want.data(), {3, SLOTS / 3, groups, D});
    r.operand(v_want.data(), {3, SLOTS / 3, groups, D}).operand(x.data(), {tokens, heads, D});
    for (int i = 0; i < 2; i++)
        r.operand(norm.data(), {D});
    if (!NORM)
        r.data[3] = r.data[4] = nullptr;
    r.operand(pos.data(), {tokens}).operand(slot.data(), {tokens}).operand(want.data(), {tokens, heads - 2 * groups, D});
    r.tensor[2].stride[0] = xt, r.tensor[2].stride[1] = xh;
    r.run(1);
    float amplitude = (float)stem_rope_turns(r.def, r.attrs, D, turns);
    emu_launch({(unsigned)(tokens * heads + 3) / 4, 1, 1}, 128, 1, 0, [&] {
        stem_gqa_store<E, int, D, V, INTERLEAVED, NORM, NORM, V == 1>(k.data(), v.data(), x.data(), norm.data(), norm.data(), pos.data(),
                                                              slot.data(), y.data(), turns, amplitude, tokens, heads, groups, SLOTS,
                                                              xt, xh, 1, 0.25f);
    });
    double bound = type_of((E *)0) == STEM_F32 ? 1e-6 : 1e-3;
    compare("gqa_store q", y, want, y, bound);
    compare("gqa_store k", k, k_want, k, bound);
    compare("gqa_store v", v, v_want, v, 1e-9);
}

template <class E, int V, int CLUSTER> static void argmax(int rows, int n, unsigned threads)
{
    array<E> x((size_t)rows * n, 1);
    array<int> want(rows), y(rows);
    for (int r = 1; r < rows; r++) /* equal ones: the lowest index; NaN above all */
        for (int i : {n / 3, n / 2, n - 1})
            put(x.data()[r * n + i], r == 2 ? NAN : 7.0f);
    reference("argmax").operand(x.data(), {rows, n}).operand(want.data(), {rows}).run(1);
    emu_launch({(unsigned)rows * CLUSTER, 1, 1}, threads, CLUSTER, 33 * 8, [&] { stem_argmax<E, V, CLUSTER>(x.data(), y.data(), n); });
    checks++;
    bool good = memcmp(y.data(), want.data(), rows * 4) == 0;
    failures += !good;
    if (!good)
        printf("FAIL argmax of %d, %d blocks\n", n, CLUSTER);
}

/* ---- experts ---- */

template <class E, int NT, int STAGES, int WARPS, int MT, int DSTAGES, int DWARPS, int TR = 8 * NT>
static void experts(mixture d)
{
    int64_t T = d.tokens, K = d.k, X = d.experts, H = d.hidden, I = d.inter;
    int tile = T < 64 ? d.tokens : 64, tiles = (d.tokens + tile - 1) / tile;
    array<E> x(T * H, 1), w13(X * 2 * I * H, 2 / sqrtf((float)H)), w2(X * H * I, 2 / sqrtf((float)I));
    array<float> scale(T * K, 1);
    array<int> ids = choose(d);
    array<E> h_want(T * K * I), want(T * H), h[2] = {array<E>(T * K * I), array<E>(T * K * I)};
    array<E> y[2] = {array<E>(T * H), array<E>(T * H)};
    reference("experts_up").operand(x.data(), {T, H}).operand(ids.data(), {T, K}).operand(w13.data(), {X, 2 * I, H})
        .operand(h_want.data(), {T, K, I}).run(1);
    reference("experts_down").operand(h_want.data(), {T, K, I}).operand(ids.data(), {T, K}).operand(scale.data(), {T, K})
        .operand(w2.data(), {X, H, I}).operand(want.data(), {T, H}).run(1);
    size_t up_smem = WARPS * (STAGES * stem_stage_bytes<1, NT> + 8 * NT * STEM_TILE_LD * 4);
    size_t down_smem = DWARPS * (DSTAGES * stem_down_stage_size<MT, TR> + tile * (16 * MT + 4) * 4) + tile * K * 4;
    for (int i = 0; i < 2; i++) {
        emu_launch({3, (unsigned)tiles, 1}, 32 * WARPS, 1, up_smem, [&] {
            stem_experts_up<E, NT, STAGES, WARPS, STEM_ACT_SILU>(x.data(), ids.data(), w13.data(), h[i].data(), d.tokens,
                                                                 d.k, d.experts, d.hidden, d.inter, tile);
        });
        emu_launch({(unsigned)(H + 16 * MT - 1) / (16 * MT), (unsigned)tiles, 1}, 32 * DWARPS, 1, down_smem, [&] {
            stem_experts_down<E, MT, TR, DSTAGES, DWARPS, true>(h[i].data(), ids.data(), scale.data(), w2.data(),
                                                                stem_store_plain<E>{y[i].data(), H}, d.tokens, d.k, d.experts,
                                                                d.hidden, d.inter, tile);
        });
    }
    if (d.tokens == 1 && NT == 1) { /* the kernels for one token: the same bits, but for one, which shares out whole experts */
        array<E> h_one(T * K * I), y_single(T * H), y_one[2] = {array<E>(T * H), array<E>(T * H)};
        unsigned blocks = (unsigned)(H + 16 * MT - 1) / (16 * MT);
        emu_launch({3, 1, 1}, 32 * WARPS, 1, up_smem, [&] {
            stem_experts_up_one<E, STAGES, WARPS, STEM_ACT_SILU>(x.data(), ids.data(), w13.data(), h_one.data(), d.k, d.experts,
                                                                 d.hidden, d.inter);
        });
        emu_launch({blocks, 1, 1}, 32 * DWARPS, 1, down_smem, [&] {
            stem_experts_down_single<E, MT, DSTAGES, DWARPS, true>(h_one.data(), ids.data(), scale.data(), w2.data(),
                                                                   stem_store_plain<E>{y_single.data(), H}, d.k, d.experts,
                                                                   d.hidden, d.inter);
        });
        for (array<E> &y : y_one)
            emu_launch({blocks, 1, 1}, 32 * DWARPS, 1, DWARPS * (DSTAGES * stem_stage_bytes<MT, 1> + 16 * MT * 4), [&] {
                stem_experts_down_one<E, MT, DSTAGES, DWARPS, true>(h_one.data(), ids.data(), scale.data(), w2.data(),
                                                                    stem_store_plain<E>{y.data(), H}, d.k, d.experts, d.hidden,
                                                                    d.inter);
            });
        if (!d.wild)
            compare("experts, one token: h", h_one, h[0], h[0], 1e-9);
        compare("experts, one token, single", y_single, y[0], y[0], 1e-9);
        compare("experts, one token", y_one[0], want, y_one[1], 6e-3);
    }
    char what[128];
    snprintf(what, sizeof what, "experts t%d k%d e%d %dx%d nt%d%s", d.tokens, d.k, d.experts, d.hidden, d.inter, NT,
             d.wild ? " wild" : "");
    if (!d.wild)
        compare(what, h[0], h_want, h[1], 4e-3);
    compare(what, y[0], want, y[1], 6e-3);
}

static void experts_plain(mixture d)
{
    int64_t T = d.tokens, K = d.k, X = d.experts, H = d.hidden, I = d.inter;
    array<float> x(T * H, 1), w13(X * 2 * I * H, 1), w2(X * H * I, 1), scale(T * K, 1);
    array<int> ids = choose(d);
    array<float> h_want(T * K * I), want(T * H), h(T * K * I), y(T * H);
    reference("experts_up").operand(x.data(), {T, H}).operand(ids.data(), {T, K}).operand(w13.data(), {X, 2 * I, H})
        .operand(h_want.data(), {T, K, I}).set("act", "gelu").run(1);
    reference("experts_down").operand(h_want.data(), {T, K, I}).operand(ids.data(), {T, K}).operand(scale.data(), {T, K})
        .operand(w2.data(), {X, H, I}).operand(want.data(), {T, H}).run(1);
    emu_launch({(unsigned)(I + 3) / 4, (unsigned)(T * K), 1}, 128, 1, 0, [&] {
        stem_experts_up_plain<float, STEM_ACT_GELU>(x.data(), ids.data(), w13.data(), h.data(), d.tokens, d.k, d.experts,
                                                    d.hidden, d.inter);
    });
    emu_launch({(unsigned)(H + 3) / 4, (unsigned)T, 1}, 128, 1, 0, [&] {
        stem_experts_down_plain<float>(h.data(), ids.data(), scale.data(), w2.data(), y.data(), d.tokens, d.k, d.experts,
                                       d.hidden, d.inter);
    });
    compare("experts plain", y, want, y, 1e-4);
}

/* ---- route ---- */

/* SEGMENT 0: one warp, WARPS experts a lane. */
template <class E, int WARPS, int SEGMENT, stem_score SCORE, bool BIAS, bool LIMIT, bool TOP2, int SIZE = 0>
static void route(const char *score, int tokens, int experts, int k, int groups, int top, bool renormalize, int odd)
{
    array<E> logits(tokens * experts, 3);
    array<float> bias(experts, 0.3f), weights(tokens * k), weights_want(tokens * k);
    array<int> ids(tokens * k), ids_want(tokens * k);
    for (size_t i = 0; i < logits.n && odd; i++) /* many equal, some NaN and infinite */
        put(logits.data()[i], i % 11 == 3 && odd > 1 ? NAN : i % 13 == 5 ? INFINITY : i % 7 == 2 ? -INFINITY : (float)(i % 3));
    reference r("route");
    r.set("score", score).set("k", k).set("groups", groups).set("top_groups", top).set("scale", 2.5);
    r.set("renormalize", renormalize).set("group_score", TOP2 ? "top2" : "max").operand(logits.data(), {tokens, experts});
    if (BIAS)
        r.operand(bias.data(), {experts});
    r.operand(ids_want.data(), {tokens, k}).operand(weights_want.data(), {tokens, k}).run(2);
    const float *own_bias = BIAS ? bias.data() : nullptr;
    emu_launch({(unsigned)tokens, 1, 1}, SEGMENT ? 32 * WARPS : 32, 1, 0, [&] {
        if constexpr (SEGMENT == 0)
            stem_route_few<E, WARPS, SCORE, BIAS, BIAS && WARPS != 2>(logits.data(), own_bias, ids.data(), weights.data(), experts, k,
                                                                      renormalize, 2.5f);
        else
            stem_route<E, WARPS, SEGMENT, SCORE, BIAS, BIAS && WARPS != 32, LIMIT, TOP2, SIZE>(
                logits.data(), own_bias, ids.data(), weights.data(), experts, k, groups, top ? top : groups, renormalize, 2.5f);
    });
    bool good = memcmp(ids.data(), ids_want.data(), ids.n * 4) == 0;
    for (size_t i = 0; i < weights.n; i++) {
        float a = weights.data()[i], b = weights_want.data()[i];
        good &= (a != a && b != b) || a == b || fabsf(a - b) <= 1e-5f * fabsf(b);
    }
    checks++;
    failures += !good;
    if (!good)
        printf("FAIL route %s e%d k%d groups %d/%d odd %d\n", score, experts, k, top, groups, odd);
}

/* ---- add_rmsnorm: the same bits as the sum, then rmsnorm ---- */

template <class E, int V> struct sum_of_two {
    const E *a, *b;
    long long n;
    stem_vec<E, V> operator()(long long row, int c) const
    {
        stem_vec<E, V> r, x = stem_load<V>(a + row * n + c * V), y = stem_load<V>(b + c * V);
        for (int k = 0; k < V; k++)
            r.at[k] = stem_round<E>::from(stem_float(x.at[k]) + stem_float(y.at[k]));
        return r;
    }
};

template <class E, int V, int K> static void add_rmsnorm(int rows, int n)
{
    array<E> a(rows * n, 1), b(n, 1), h(rows * n), y(rows * n), h_want(rows * n), want(rows * n), alone(rows * n);
    array<float> w(n, 1);
    reference("add_rmsnorm").set("expr", "i0 i1 add").set("dtype", type_of((E *)0) == STEM_F32 ? "f32" : "bf16").set("eps", 0.5)
        .operand(w.data(), {n}).operand(a.data(), {rows, n}).operand(b.data(), {n}).operand(h_want.data(), {rows, n})
        .operand(want.data(), {rows, n}).run(2);
    unsigned threads = (n / V + 31) / 32 * 32;
    threads = K > 0 ? (threads / K + 31) / 32 * 32 : 32;
    emu_launch({(unsigned)rows, 1, 1}, threads, 1, 0, [&] {
        stem_add_rmsnorm<E, float, V, K>(sum_of_two<E, V>{a.data(), b.data(), n}, w.data(), h.data(), y.data(), n, 0.5f);
    });
    emu_launch({(unsigned)rows, 1, 1}, threads, 1, 0,
               [&] { stem_rmsnorm<E, float, V, K>(h.data() + blockIdx.x * n, w.data(), alone.data() + blockIdx.x * n, n, 1, 0.5f); });
    compare("add_rmsnorm, the sum", h, h_want, h, 1e-9);
    compare("add_rmsnorm", y, want, alone, bound_of((E *)0));
}

/* ---- integers as other integers ---- */

static void clamps()
{
    const long long max = 0x7fffffffffffffffll;
    bool good = stem_clamp<long long>::from(max) == max && stem_clamp<int>::from(16777217) == 16777217 &&
                stem_clamp<int>::from(0x7fffffff) == 0x7fffffff && stem_clamp<int>::from(0x80000000ll) == 0x7fffffff &&
                stem_clamp<int>::from(-0x80000000ll) == -0x7fffffff - 1 && stem_clamp<int>::from(-max) == -0x7fffffff - 1 &&
                stem_clamp<unsigned char>::from(255) == 255 && stem_clamp<unsigned char>::from(256) == 255 &&
                stem_clamp<unsigned char>::from(-1) == 0;
    checks++;
    failures += !good;
    if (!good)
        printf("FAIL stem_clamp\n");
}

int main()
{
    clamps();
    setvbuf(stdout, nullptr, _IOLBF, 0);
    for (int m : {1, 3, 8, 11})
        linear<bf16, bf16, 1, 4, 8, 1, 1>(m, 41, 200);
    linear<bf16, float, 1, 2, 4, 2, 1>(2, 100, 136);
    linear<bf16, bf16, 1, 2, 2, 1, 4>(5, 40, 600);
    linear<bf16, bf16, 1, 1, 4, 1, 2, 1>(1, 40, 504);
    linear<bf16, bf16, 1, 3, 2, 1, 8, 2>(2, 90, 2000);
    linear<__half, float, 1, 4, 4, 2, 1, 4>(3, 70, 704);
    linear<bf16, bf16, 1, 4, 4, 1, 1, 1, true>(1, 70, 1000);
    linear<bf16, float, 1, 2, 2, 2, 4, 8, true>(7, 70, 1000);
    linear<bf16, bf16, 2, 3, 8, 1, 1, 8, true>(19, 50, 520); /* three pieces of k for some warps, none for others */
    linear<__half, __half, 2, 3, 2, 1, 2>(13, 33, 256);
    linear<bf16, bf16, 8, 2, 2, 1, 1>(70, 17, 72);
    linear_plain<float, bf16>(9, 7, 45);
    for (int gap : {0, 64}) {
        heads<bf16, bf16, 1, 2, 2>(3, 4, 40, 128, gap, false);
        heads<__half, float, 8, 2, 4>(70, 2, 33, 512, gap, false);
        heads<bf16, bf16, 1, 2, 8>(5, 3, 136, 128, gap, true);
        heads<__half, __half, 4, 2, 4>(37, 2, 64, 192, gap, true);
        heads<bf16, float, 2, 2, 1>(9, 1, 8, 16, gap, true);
    }
    rope<bf16, 192, 64, 8, false, true>(3, 2, 64, 40);
    rope<float, 64, 64, 4, false, false>(3, 4, 0, 1);
    rope<__half, 96, 32, 2, true, true>(4, 1, 2, 4);
    rope<bf16, 21, 6, 1, true, true>(3, 2, 5, 1);
    rope<bf16, 21, 6, 1, false, false>(3, 2, 5, 1);
    rope<float, 128, 64, 4, true, false>(2, 3, 4, 40);
    linear_then<1, 4, 4, 2, 1, false>(5, 41, 200);
    linear_then<1, 4, 4, 2, 1, true>(5, 42, 200);
    linear_then<2, 2, 2, 1, 4, true>(13, 66, 600);
    linear_then<1, 2, 2, 1, 2, false>(3, 40, 264);
    mla_query<bf16, 1, 8, 64, true>(3, 2, 72, 128, 0);
    mla_query<__half, 4, 4, 32, false>(37, 3, 64, 64, 8);
    mla_query<bf16, 2, 2, 16, true>(9, 1, 8, 48, 16);
    mla_store<bf16, 512, 64, 4, 1, true>(6, 8);
    index_store<bf16, bf16, 128, 64, false>(6, 8);
    index_store<float, float, 200, 200, true>(5, 0);
    index_store<__half, float, 50, 6, false>(6, 3);
    gqa_store<bf16, 128, 2, false, true>(5, 9, 2, 8);
    argmax<float, 4, 1>(3, 500, 96);
    argmax<bf16, 8, 8>(4, 4096, 64);
    argmax<__half, 1, 4>(3, 333, 32);
    gqa_store<float, 96, 1, true, false>(5, 6, 1, 3);
    gqa_store<__half, 48, 1, false, true>(4, 4, 1, 0);
    mla_store<float, 768, 32, 1, 0, false>(6, 3);
    mla_store<__half, 1024, 64, 8, 1, false>(6, 16);
    add_rmsnorm<bf16, 8, 1>(3, 520);
    add_rmsnorm<bf16, 2, 4>(2, 250);
    add_rmsnorm<float, 1, 0>(2, 77);
    for (bool wild : {false, true})
        for (int t : {1, 4, 5, 20, 67}) {
            experts<bf16, 1, 4, 8, 2, 3, 4>({t, 3, 5, 72, 24, wild});
            experts<__half, 2, 3, 8, 1, 4, 4>({t, 4, 9, 40, 72, wild});
        }
    experts<bf16, 1, 4, 4, 2, 3, 2>({6, 8, 300, 16, 8, false});
    for (bool wild : {false, true}) { /* runs that begin and end inside of a group, and warps without one */
        experts<bf16, 1, 3, 8, 1, 4, 4>({1, 8, 12, 200, 40, wild});
        experts<bf16, 1, 3, 8, 1, 3, 11, 1>({1, 6, 12, 40, 328, wild});
        experts<bf16, 1, 3, 8, 2, 2, 5, 2>({2, 3, 7, 40, 200, wild});
        experts<__half, 1, 3, 8, 1, 3, 7, 4>({3, 4, 5, 40, 136, wild});
        experts<bf16, 2, 2, 8, 1, 2, 12, 16>({40, 3, 5, 40, 136, wild});
    }
    experts_plain({5, 3, 4, 19, 7, true});
    for (int odd : {0, 1, 2}) {
        route<bf16, 12, 32, STEM_SCORE_SIGMOID, true, false, true>("sigmoid", 5, 384, 8, 1, 0, true, odd);
        route<float, 8, 16, STEM_SCORE_SOFTMAX, true, true, true>("softmax", 5, 256, 6, 8, 3, false, odd);
        route<float, 8, 8, STEM_SCORE_SIGMOID, true, true, true, 32>("sigmoid", 5, 256, 8, 8, 4, true, odd);
        route<float, 8, 16, STEM_SCORE_SOFTMAX, true, true, true, 8>("softmax", 5, 240, 6, 30, 7, false, odd);
        route<bf16, 3, 8, STEM_SCORE_NONE, false, true, false, 16>("none", 5, 80, 4, 5, 2, false, odd);
        route<bf16, 1, 4, STEM_SCORE_NONE, true, true, true, 1>("none", 5, 9, 2, 9, 3, false, odd);
        route<__half, 2, 8, STEM_SCORE_NONE, false, true, false>("none", 5, 60, 4, 4, 2, false, odd);
        route<float, 32, 16, STEM_SCORE_SIGMOID, false, false, true>("sigmoid", 2, 1000, 32, 1, 0, true, odd);
        route<float, 1, 32, STEM_SCORE_SOFTMAX, false, false, true>("softmax", 3, 8, 8, 1, 0, true, odd);
        route<float, 1, 0, STEM_SCORE_SOFTMAX, false, false, true>("softmax", 3, 8, 8, 1, 0, true, odd);
        route<float, 2, 0, STEM_SCORE_SIGMOID, true, false, true>("sigmoid", 4, 61, 6, 1, 0, false, odd);
        route<bf16, 4, 0, STEM_SCORE_SOFTMAX, true, false, true>("softmax", 3, 128, 32, 1, 0, true, odd);
        route<float, 4, 0, STEM_SCORE_NONE, false, false, true>("none", 3, 100, 7, 1, 0, true, odd);
    }
    printf("device code: %d of %d checks failed\n", failures, checks);
    return failures != 0;
}
