/* SPDX-License-Identifier: Apache-2.0
 *
 * The device code of linear and experts with weights in 8 and 4 bits, run by the emulator, against the ops' C
 * references; twice with another order of threads, for equal bits.
 */
#include "emulate/emulate.h"
#include "emulate/formats.h"
#include "emulate/wgmma.h"

#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "experts/groups.cuh"
#include "experts/experts.cuh"
#include "experts/one.cuh"
#include "linear/formats.cuh"
#include "linear/packed_stream.cuh"
#include "linear/fixed.cuh"
#include "linear/linear_packed.cuh"
#include "linear/linear_even.cuh"
#include "linear/wgmma.cuh"
#include "linear/linear_wide.cuh"
#include "experts/experts_down_wide.cuh"
#include "experts/one_wide.cuh"
#include "quantize_f8/quantize_f8.cuh"
#include "rmsnorm/rmsnorm.cuh"
#include "rmsnorm/rmsnorm_quantize.cuh"
#include "experts/group_stream.cuh"
#include "experts/experts_packed.cuh"
#include "experts/one_packed.cuh"
#include "experts/down_slots.cuh"
#include "experts/experts_packed_plain.cuh"

static void put(unsigned char &p, float v)
{
    p = (unsigned char)v;
}
#include "emulate/check.h"

/* Rows of k weights with their scales; `lines` rows of f8e4m3's scales. */
template <class F> struct coded {
    array<unsigned char> w;
    array<float> f8;
    array<unsigned char> small; /* nvfp4's scales, or int4's as bytes */
    array<float> whole;
    coded(int64_t rows, int64_t lines, int64_t k, size_t wholes)
        : w(rows * k), f8(lines * ((k + 127) / 128)), small(rows * k / 8 + 16), whole(wholes)
    {
        constexpr bool is_f8 = std::is_same<F, stem_f8>::value, is_nvfp4 = std::is_same<F, stem_nvfp4>::value;
        for (size_t i = 0; i < w.n; i++)
            w.data()[i] = is_f8 ? stem_float_to_e4m3(uniform() * 448) : (unsigned char)(seed = seed * 6364136223846793005ull + 1, seed >> 40);
        for (size_t i = 0; i < f8.n; i++)
            f8.data()[i] = (1.5f + uniform()) / 448 / sqrtf((float)k);
        for (size_t i = 0; i < small.n; i++)
            small.data()[i] = is_nvfp4 ? stem_float_to_e4m3((uniform() + 1) * (i % 5 ? 100 : 0.02f)) : 0;
        for (size_t i = 0; i < small.n / 2 && !is_nvfp4; i++)
            ((uint16_t *)small.data())[i] = stem_float_to_bf16((1.5f + uniform()) / 8 / sqrtf((float)k));
        for (size_t i = 0; i < wholes; i++)
            whole.data()[i] = (1.5f + uniform()) / 300 / sqrtf((float)k);
    }
    const void *scale()
    {
        return F::SCALES ? (const void *)small.data() : f8.data();
    }
    const float *tensor()
    {
        return std::is_same<F, stem_nvfp4>::value ? whole.data() : nullptr;
    }
};
template <class F> enum stem_dtype format_type()
{
    return std::is_same<F, stem_f8>::value ? STEM_F8E4M3 : std::is_same<F, stem_nvfp4>::value ? STEM_NVFP4 : STEM_INT4;
}

/* The weight, its scales and that of the tensor as operands weight, scale, whole of `r`, which come in this order. */
template <class F>
static void add_scales(reference &r, coded<F> &c, std::vector<int64_t> dim, int64_t lines, std::vector<int64_t> whole)
{
    enum stem_dtype type = format_type<F>();
    dim[dim.size() - 2] = type == STEM_F8E4M3 ? lines : dim[dim.size() - 2];
    int64_t &k = dim.back();
    k = type == STEM_F8E4M3 ? (k + 127) / 128 : k / (type == STEM_NVFP4 ? 16 : 32);
    r.raw(type == STEM_F8E4M3 ? STEM_F32 : type == STEM_NVFP4 ? STEM_F8E4M3 : STEM_BF16, c.scale(), dim);
    if (type == STEM_NVFP4)
        r.raw(STEM_F32, c.tensor(), whole);
    else
        r.absent();
}

static void same(const char *what, const void *got, const void *want, size_t bytes)
{
    bool good = memcmp(got, want, bytes) == 0;
    checks++;
    failures += !good;
    if (!good)
        printf("FAIL %s: bits differ\n", what);
}

/* Rows of x as quantize_f8 makes them. */
struct quantised {
    array<unsigned char> code;
    array<float> scale;
    quantised(array<bf16> &x, int64_t rows, int64_t k) : code(rows * k), scale(rows * ((k + 127) / 128))
    {
        emu_launch({(unsigned)(scale.n + 1) / 2, 1, 1}, 64, 1, 0, [&] {
            if (k % 4)
                stem_quantize_f8<bf16, 1>(x.data(), code.data(), scale.data(), rows, k);
            else
                stem_quantize_f8<bf16, 4>(x.data(), code.data(), scale.data(), rows, k);
        });
        array<unsigned char> want(rows * k);
        array<float> want_scale(scale.n);
        reference r("quantize_f8");
        r.operand(x.data(), {rows, k}).raw(STEM_F8E4M3, want.data(), {rows, k}).operand(want_scale.data(), {rows, (k + 127) / 128}).run(2);
        same("codes of quantize_f8", code.data(), want.data(), want.n);
        same("scales of quantize_f8", scale.data(), want_scale.data(), 4 * scale.n);
    }
    stem_f8_rows rows()
    {
        return {code.data(), scale.data()};
    }
};

template <class F, bool PAIR, class Rows, class Store>
static void plain_packed(const Rows &x, coded<F> &c, const Store &store, int m, int n, int k)
{
    int columns = PAIR ? n / 2 : n;
    emu_launch({(unsigned)(columns + 3) / 4, (unsigned)(m + 7) / 8, 1}, 128, 1, 0, [&] {
        stem_linear_packed_plain<F, PAIR>(x, c.w.data(), c.scale(), c.tensor(), store, m, n, k);
    });
}
/* each: tiles of a round. */
/* G: F, or its form in fixed point. */
template <class F, class G, int MT, int NT, int STAGES, int WARPS, int CLUSTER, bool PAIR>
static void linear_even(int m, int n, int k, int clusters, int each, int most = G::TOKENS * NT)
{
    int columns = PAIR ? n / 2 : n, chunks = (k + F::CHUNK - 1) / F::CHUNK, count = m < most ? m : most;
    array<bf16> x(m * k, 1), want(m * columns), y[2] = {array<bf16>(m * columns), array<bf16>(m * columns)},
        more(m * columns, 1), plain(m * columns);
    array<float> last(columns, 1);
    coded<F> c(n, (n + 127) / 128, k, 1);
    reference r("linear");
    r.set("then", PAIR ? "i0 i1 mul i2 add as:bf16 i3 add" : "i0 i1 add as:bf16 i2 add").set("then_of", "bf16")
        .set("then_type", "bf16").set("halves", PAIR ? "1" : nullptr).operand(x.data(), {m, k});
    r.raw(format_type<F>(), c.w.data(), {n, k});
    add_scales(r, c, {n, k}, (n + 127) / 128, {1});
    r.absent().operand(more.data(), {m, columns}).operand(last.data(), {columns}).operand(want.data(), {m, columns}).run(1);
    size_t kept = ((chunks + CLUSTER - 1) / CLUSTER * count * stem_even_room<G>::BYTES + stem_even_room<G>::ZEROS + 15) / 16 * 16;
    size_t smem = WARPS * STAGES * stem_even_stage_bytes<G, MT> + kept +
                  ((each + WARPS - 1) * stem_even_slot_floats<MT> + (CLUSTER > 1 ? each * 16 * MT : 0)) * count * 4 +
                  (CLUSTER - 1) * count * (PAIR ? 32 : 16) + 16;
    for (array<bf16> &out : y)
        emu_launch({(unsigned)(clusters * CLUSTER), (unsigned)((m + most - 1) / most), 1}, 32 * WARPS, CLUSTER,
                   smem, [&] {
                       stem_linear_even<G, MT, NT, STAGES, WARPS, CLUSTER, true, PAIR>(
                           x.data(), c.w.data(), c.scale(), c.tensor(),
                           add_store<PAIR>{more.data(), last.data(), out.data(), columns}, m, n, k, most, each);
                   });
    if constexpr (std::is_same<F, stem_f8>::value) {
        quantised q(x, m, k);
        array<bf16> coded_y(m * columns);
        emu_launch({(unsigned)(clusters * CLUSTER), (unsigned)((m + most - 1) / most), 1}, 32 * WARPS, CLUSTER, smem, [&] {
            stem_linear_even<F, MT, NT, STAGES, WARPS, CLUSTER, true, PAIR>(
                q.rows(), c.w.data(), c.scale(), (const void *)nullptr,
                add_store<PAIR>{more.data(), last.data(), coded_y.data(), columns}, m, n, k, most, each);
        });
        same("linear of rows that are quantised", coded_y.data(), y[0].data(), 2 * coded_y.n);
        plain_packed<F, PAIR>(q.rows(), c, add_store<PAIR>{more.data(), last.data(), plain.data(), columns}, m, n, k);
        compare("linear of rows that are quantised, plain", plain, want, plain, 4e-3);
    }
    plain_packed<F, PAIR>(x.data(), c, add_store<PAIR>{more.data(), last.data(), plain.data(), columns}, m, n, k);
    compare("linear of a format, plain", plain, want, plain, 4e-3);
    char what[128];
    snprintf(what, sizeof what, "even %s%s %dx%dx%d mt%d nt%d warps%d cl%d each%d pair%d",
             stem_dtype_name(format_type<F>()), G::TOKENS == 1 ? " fixed" : "", m, n, k, MT, NT, WARPS, CLUSTER, each, PAIR);
    compare(what, y[0], want, y[1], 4e-3);
}

/* f8e4m3 by wgmma, of x that is quantised, or not, with the same bits; and what is in its place without wgmma. */
template <int NT, int STAGES, int GROUPS, int CLUSTER, bool PAIR> static void linear_wide(int m, int n, int k)
{
    int columns = PAIR ? n / 2 : n, rows = PAIR ? 32 : 64, most = m < 8 * NT ? m : 8 * NT;
    array<bf16> x(m * k, 1), want(m * columns), y[2] = {array<bf16>(m * columns), array<bf16>(m * columns)}, more(m * columns, 1),
        coded_y(m * columns), plain(m * columns);
    array<float> last(columns, 1);
    coded<stem_f8> c(n, (n + 127) / 128, k, 1);
    quantised q(x, m, k);
    reference r("linear");
    r.set("then", PAIR ? "i0 i1 mul i2 add as:bf16 i3 add" : "i0 i1 add as:bf16 i2 add").set("then_of", "bf16")
        .set("then_type", "bf16").set("halves", PAIR ? "1" : nullptr).operand(x.data(), {m, k});
    r.raw(STEM_F8E4M3, c.w.data(), {n, k});
    add_scales(r, c, {n, k}, (n + 127) / 128, {1});
    r.absent().operand(more.data(), {m, columns}).operand(last.data(), {columns}).operand(want.data(), {m, columns}).run(1);
    int each = (most * rows / 4 + CLUSTER - 1) / CLUSTER * 4;
    size_t ring = (STAGES * (stem_wide_stage_bytes<NT> + 4 * stem_wide_scales<NT>) + 1023) / 1024 * 1024;
    size_t smem = 1024 + GROUPS * ring + (CLUSTER > 1 ? each * (PAIR ? 2 : 1) * CLUSTER * 4 + 16 : 0);
    auto launch = [&](const auto &from, array<bf16> &to) {
        emu_launch({(unsigned)((columns + rows - 1) / rows * CLUSTER), (unsigned)((m + 8 * NT - 1) / (8 * NT)), 1}, 128 * GROUPS,
                   CLUSTER, smem, [&] {
                       stem_linear_wide<NT, STAGES, GROUPS, CLUSTER, true, PAIR>(
                           from, c.w.data(), c.scale(), add_store<PAIR>{more.data(), last.data(), to.data(), columns}, m, n, k);
                   });
    };
    for (array<bf16> &out : y)
        launch((const bf16 *)x.data(), out);
    launch(q.rows(), coded_y);
    same("linear by wgmma of rows that are quantised", coded_y.data(), y[0].data(), 2 * coded_y.n);
    emu_launch({2, 2, 1}, 128, 1, 0, [&] {
        stem_linear_packed_plain<stem_f8, PAIR>(q.rows(), c.w.data(), c.scale(), (const void *)nullptr,
                                                add_store<PAIR>{more.data(), last.data(), plain.data(), columns}, m, n, k);
    });
    compare("linear in place of wgmma", plain, want, plain, 4e-3);
    char what[128];
    snprintf(what, sizeof what, "wide %dx%dx%d nt%d stages%d groups%d cl%d pair%d", m, n, k, NT, STAGES, GROUPS, CLUSTER, PAIR);
    compare(what, y[0], want, y[1], 4e-3);
}

/* experts_down by wgmma, of h as it is and quantised, with the same bits, against `want`. */
static void down_wide(const mixture &d, int tile, int tiles, const bf16 *h, const int *ids, const float *weight, coded<stem_f8> &w2,
                      array<bf16> &want)
{
    constexpr int STAGES = 3, GROUPS = 2;
    const int height = 40, H = d.hidden;
    array<bf16> x(d.tokens * d.k * d.inter), y[2] = {array<bf16>(d.tokens * H), array<bf16>(d.tokens * H)};
    memcpy((void *)x.data(), h, 2 * x.n);
    quantised q(x, d.tokens * d.k, d.inter);
    size_t smem = 1024 + GROUPS * (STAGES * (9216 + 64) + tile * STEM_WIDE_LD * 4) + tile * d.k * 4;
    auto launch = [&](const auto &from, array<bf16> &to) {
        emu_launch({(unsigned)((H + height - 1) / height), (unsigned)tiles, 1}, 128 * GROUPS, 1, smem, [&] {
            stem_experts_down_wide<STAGES, GROUPS, true>(from, ids, weight, w2.w.data(), w2.scale(), stem_store_plain<bf16>{to.data(), H},
                                                         d.tokens, d.k, d.experts, H, d.inter, tile, height);
        });
    };
    launch((const bf16 *)x.data(), y[0]);
    launch(q.rows(), y[1]);
    compare("experts_down by wgmma", y[0], want, y[1], 4e-3);
}

/* experts_up of a single token by wgmma, of x as it is and quantised, with the same bits; and what is in its place without wgmma. */
template <int GROUPS, int STAGES> static void up_wide(mixture d, int blocks)
{
    int64_t K = d.k, X = d.experts, H = d.hidden, I = d.inter, ib = (I + 127) / 128;
    int pairs = d.k * d.inter / 8, octets = 2 * ((pairs + blocks - 1) / blocks);
    array<bf16> x(H, 1), want(K * I, 1), h[4] = {array<bf16>(K * I), array<bf16>(K * I), array<bf16>(K * I), array<bf16>(K * I)};
    coded<stem_f8> w13(X * 2 * I, X * 2 * ib, H, X * 2);
    array<int> ids = choose(d);
    quantised q(x, 1, H);
    for (array<bf16> &to : h)
        memcpy((void *)to.data(), want.data(), 2 * to.n);
    reference up("experts_up");
    up.operand(x.data(), {1, H}).operand(ids.data(), {1, K}).raw(STEM_F8E4M3, w13.w.data(), {X, 2 * I, H});
    add_scales(up, w13, {X, 2 * I, H}, 2 * ib, {X, 2});
    up.operand(want.data(), {1, K, I}).run(1);
    size_t smem = 1024 + GROUPS * STAGES * (8192 + 32) + H + H / 32 + GROUPS * octets * 32;
    auto launch = [&](const auto &from, array<bf16> &to) {
        emu_launch({(unsigned)blocks, 1, 1}, 128 * GROUPS, 1, smem, [&] {
            stem_experts_up_one_wide<GROUPS, STAGES, STEM_ACT_SILU>(from, ids.data(), w13.w.data(), w13.scale(), to.data(), d.k,
                                                                    d.experts, d.hidden, d.inter, octets);
        });
    };
    launch((const bf16 *)x.data(), h[0]);
    launch((const bf16 *)x.data(), h[1]);
    launch(q.rows(), h[2]);
    emu_launch({2, 1, 1}, 128 * GROUPS, 1, 0, [&] {
        stem_experts_up_packed_plain<stem_f8, bf16, STEM_ACT_SILU>(q.rows(), ids.data(), w13.w.data(), w13.scale(), (const void *)nullptr,
                                                                   h[3].data(), 1, d.k, d.experts, d.hidden, d.inter);
    });
    char what[128];
    snprintf(what, sizeof what, "experts_up of a token by wgmma k%d e%d %dx%d groups%d stages%d blocks%d%s", d.k, d.experts, d.hidden,
             d.inter, GROUPS, STAGES, blocks, d.wild ? " wild" : "");
    same("experts_up of a token by wgmma, of x that is quantised", h[2].data(), h[0].data(), 2 * h[2].n);
    if (d.wild) /* rows of choices without a place are not written */
        return;
    compare(what, h[0], want, h[1], 4e-3);
    compare("experts_up in place of wgmma", h[3], want, h[3], 4e-3);
}

/* G: F, or its form in fixed point; ROOM: tokens of a group. */
template <class F, class G, int ROOM, int MT, int STAGES, int WARPS, int DMT, int DSTAGES, int DWARPS>
static void experts_in(mixture d)
{
    int64_t T = d.tokens, K = d.k, X = d.experts, H = d.hidden, I = d.inter, ib = (I + 127) / 128, hb = (H + 127) / 128;
    int tile = T < 64 ? d.tokens : 64, tiles = (d.tokens + tile - 1) / tile;
    array<bf16> x(T * H, 1), h_want(T * K * I), want(T * H), h[2] = {array<bf16>(T * K * I), array<bf16>(T * K * I)};
    array<bf16> y[2] = {array<bf16>(T * H), array<bf16>(T * H)}, h_plain(T * K * I), plain(T * H);
    coded<F> w13(X * 2 * I, X * 2 * ib, H, X * 2), w2(X * H, X * hb, I, X);
    array<float> scale(T * K, 1);
    array<int> ids = choose(d);
    reference up("experts_up"), down("experts_down");
    up.operand(x.data(), {T, H}).operand(ids.data(), {T, K}).raw(format_type<F>(), w13.w.data(), {X, 2 * I, H});
    add_scales(up, w13, {X, 2 * I, H}, 2 * ib, {X, 2});
    up.operand(h_want.data(), {T, K, I}).run(1);
    down.operand(h_want.data(), {T, K, I}).operand(ids.data(), {T, K}).operand(scale.data(), {T, K})
        .raw(format_type<F>(), w2.w.data(), {X, H, I});
    add_scales(down, w2, {X, H, I}, hb, {X});
    down.operand(want.data(), {T, H}).run(1);
    constexpr int NT = (ROOM + G::TOKENS - 1) / G::TOKENS, ONE = G::TOKENS == 1 ? 1 : NT;
    constexpr bool KEEP = ROOM < 16, ALONE = KEEP; /* a token alone has kernels of its own */
    const int height = 16 * DMT - (G::TOKENS == 1 ? 4 : 0);
    typedef stem_up_packed_tokens<G, NT, KEEP, const bf16 *> held;
    size_t up_smem = WARPS * (STAGES * stem_packed_stage_bytes<G, MT> + 2 * ROOM * (16 * MT + 4) * 4) +
                     (H + G::CHUNK - 1) / G::CHUNK * ROOM * held::BYTES + held::ZEROS + 16;
    size_t down_smem = DWARPS * (stem_down_ring_bytes<G, DMT, DSTAGES, ROOM> + tile * (16 * DMT + 4) * 4) + tile * K * 4;
    for (int i = 0; i < 2; i++) {
        emu_launch({3, (unsigned)tiles, 1}, 32 * WARPS, 1, up_smem, [&] {
            if (T == 1 && ALONE && i)
                stem_experts_up_packed<G, MT, ONE, STAGES, WARPS, STEM_ACT_SILU, KEEP, ALONE>(
                    x.data(), ids.data(), w13.w.data(), w13.scale(), w13.tensor(), h[i].data(), d.tokens, d.k, d.experts,
                    d.hidden, d.inter, tile, 1);
            else
                stem_experts_up_packed<G, MT, NT, STAGES, WARPS, STEM_ACT_SILU, KEEP, false>(
                    x.data(), ids.data(), w13.w.data(), w13.scale(), w13.tensor(), h[i].data(), d.tokens, d.k, d.experts,
                    d.hidden, d.inter, tile, ROOM);
        });
        emu_launch({(unsigned)((H + height - 1) / height), (unsigned)tiles, 1}, 32 * DWARPS, 1, down_smem, [&] {
            stem_store_plain<bf16> store = {y[i].data(), H};
            if (T == 1 && ALONE && i)
                stem_experts_down_packed<G, DMT, DSTAGES, DWARPS, 1, true, ALONE>(
                    h_want.data(), ids.data(), scale.data(), w2.w.data(), w2.scale(), w2.tensor(), store, d.tokens, d.k,
                    d.experts, d.hidden, d.inter, tile, height);
            else
                stem_experts_down_packed<G, DMT, DSTAGES, DWARPS, ROOM, true, false>(
                    h_want.data(), ids.data(), scale.data(), w2.w.data(), w2.scale(), w2.tensor(), store, d.tokens, d.k,
                    d.experts, d.hidden, d.inter, tile, height);
        });
    }
    if constexpr (F::SCALES != 0) { /* a slot for each product */
        constexpr int SLOTS = G::TOKENS == 1 ? ROOM : 8;
        array<bf16> slots[2] = {array<bf16>(T * H), array<bf16>(T * H)};
        for (array<bf16> &to : slots)
            emu_launch({(unsigned)((H + height - 1) / height + 1) / 2, (unsigned)tiles, 1}, 32 * DWARPS, 1,
                       DWARPS * stem_slots_ring_bytes<G, DMT, DSTAGES, SLOTS> + tile * K * (16 * DMT + 5) * 4, [&] {
                stem_store_plain<bf16> store = {to.data(), H};
                stem_experts_down_slots<G, DMT, DSTAGES, DWARPS, SLOTS, 2, true>(h_want.data(), ids.data(), scale.data(), w2.w.data(),
                                                                             w2.scale(), w2.tensor(), store, d.tokens, d.k, d.experts,
                                                                             d.hidden, d.inter, tile, height);
            });
        compare("experts with slots, down", slots[0], want, slots[1], 4e-3);
    }
    if constexpr (G::TOKENS == 1)
        if (T == 1 && !d.wild) { /* each item in a block that holds all of it */
            constexpr int ALL = 2; /* stages */
            array<bf16> whole[2] = {array<bf16>(K * I), array<bf16>(K * I)};
            for (array<bf16> &to : whole)
                emu_launch({(unsigned)(K * ((I + 8 * MT - 1) / (8 * MT))), 1, 1}, 32 * WARPS, 1,
                           WARPS * stem_one_packed_bytes<G, MT, ALL>, [&] {
                    stem_experts_up_packed_one<G, MT, ALL, WARPS, STEM_ACT_SILU>(x.data(), ids.data(), w13.w.data(), w13.scale(),
                                                                                 w13.tensor(), to.data(), d.k, d.experts,
                                                                                 d.hidden, d.inter);
                });
            compare("experts of a token, whole items, up", whole[0], h_want, whole[1], 4e-3);
        }
    if constexpr (std::is_same<F, stem_f8>::value) {
        quantised q(x, T, H);
        array<bf16> coded_h(T * K * I);
        memcpy((void *)coded_h.data(), h[0].data(), 2 * coded_h.n); /* rows of pairs without an expert are not written */
        emu_launch({3, (unsigned)tiles, 1}, 32 * WARPS, 1, up_smem, [&] {
            if (T == 1 && ALONE)
                stem_experts_up_packed<F, MT, NT, STAGES, WARPS, STEM_ACT_SILU, KEEP, ALONE>(
                    q.rows(), ids.data(), w13.w.data(), w13.scale(), w13.tensor(), coded_h.data(), d.tokens, d.k, d.experts,
                    d.hidden, d.inter, tile, 1);
            else
                stem_experts_up_packed<F, MT, NT, STAGES, WARPS, STEM_ACT_SILU, KEEP, false>(
                    q.rows(), ids.data(), w13.w.data(), w13.scale(), w13.tensor(), coded_h.data(), d.tokens, d.k, d.experts,
                    d.hidden, d.inter, tile, ROOM);
        });
        same("experts of rows that are quantised", coded_h.data(), h[0].data(), 2 * coded_h.n);
        emu_launch({(unsigned)(I + 3) / 4, (unsigned)(T * K), 1}, 128, 1, 0, [&] {
            stem_experts_up_packed_plain<F, bf16, STEM_ACT_SILU>(q.rows(), ids.data(), w13.w.data(), w13.scale(), w13.tensor(),
                                                                 h_plain.data(), d.tokens, d.k, d.experts, d.hidden, d.inter);
        });
        if (!d.wild)
            compare("experts of rows that are quantised, up plain", h_plain, h_want, h_plain, 4e-3);
        down_wide(d, tile, tiles, h_want.data(), ids.data(), scale.data(), w2, want);
    }
    emu_launch({(unsigned)(I + 3) / 4, (unsigned)(T * K), 1}, 128, 1, 0, [&] {
        stem_experts_up_packed_plain<F, bf16, STEM_ACT_SILU>(x.data(), ids.data(), w13.w.data(), w13.scale(), w13.tensor(),
                                                             h_plain.data(), d.tokens, d.k, d.experts, d.hidden, d.inter);
    });
    emu_launch({(unsigned)(H + 3) / 4, (unsigned)T, 1}, 128, 1, 0, [&] {
        stem_experts_down_packed_plain<F>(h_want.data(), ids.data(), scale.data(), w2.w.data(), w2.scale(), w2.tensor(),
                                          stem_store_plain<bf16>{plain.data(), H}, d.tokens, d.k, d.experts, d.hidden,
                                          d.inter);
    });
    char what[128];
    snprintf(what, sizeof what, "experts %s t%d k%d e%d %dx%d mt%d nt%d%s%s", stem_dtype_name(format_type<F>()), d.tokens,
             d.k, d.experts, d.hidden, d.inter, MT, NT, d.wild ? " wild" : "", G::TOKENS == 1 ? " fixed" : "");
    if (!d.wild) { /* rows of pairs without an expert are not written */
        compare(what, h[0], h_want, h[1], 4e-3);
        compare("experts of a format, up plain", h_plain, h_want, h_plain, 4e-3);
        compare("experts of a format, down plain", plain, want, plain, 4e-3);
    }
    compare(what, y[0], want, y[1], 4e-3);
}

template <class F> static void evenly()
{
    constexpr int K = F::CHUNK;
    linear_even<F, F, 1, 1, 4, 2, 1, false>(5, 41, 5 * K, 2, 2);
    linear_even<F, F, 1, 1, 3, 3, 2, false>(1, 100, 3 * K, 1, 4);
    linear_even<F, F, 2, 2, 2, 3, 4, false>(13, 140, 5 * K, 2, 2);
    linear_even<F, F, 1, 2, 3, 4, 1, true>(16, 80, 2 * K, 2, 1); /* more warps than chunks */
    linear_even<F, F, 2, 1, 3, 2, 2, true>(9, 272, 4 * K, 3, 3);
    linear_even<F, F, 1, 4, 2, 3, 1, false>(30, 64, 2 * K, 1, 3);
}

template <class F, class G> static void evenly_fixed()
{
    constexpr int K = F::CHUNK;
    linear_even<F, G, 1, 1, 3, 3, 2, false>(1, 100, 3 * K, 1, 4);
    linear_even<F, G, 2, 4, 2, 3, 1, true>(3, 80, 5 * K, 2, 2);
    linear_even<F, G, 1, 2, 2, 4, 2, true>(5, 272, 2 * K, 2, 3); /* tiles of 2 tokens */
}

template <class F, class G, int FEW> static void formats()
{
    constexpr int K = F::CHUNK;
    experts_in<F, G, FEW, 1, 4, 2, 2, 3, 2>({5, 3, 5, K, K, false});
    experts_in<F, G, FEW, 1, 3, 2, 1, 3, 2>({1, 6, 8, 3 * K, 2 * K, false});
    experts_in<F, G, FEW, 1, 2, 2, 1, 2, 2>({1, 8, 7, K, K, true});
    experts_in<F, G, FEW, 1, 3, 2, 2, 2, 2>({11, 2, 4, 2 * K, K, false}); /* experts with several groups */
}
template <class F> static void formats_of_many()
{
    experts_in<F, F, 16, 2, 3, 2, 1, 4, 2>({12, 3, 3, F::CHUNK, F::CHUNK, true});
}

/* rmsnorm_quantize against rmsnorm and quantize_f8, all on the device. WHOLE as in the lowering. */
template <int V, int KEPT, bool WHOLE> static void norm_quantize(int rows, int n, int threads)
{
    array<bf16> x(rows * n, 3), w(n, 1), y(rows * n), kept(rows * n);
    int blocks = (n + 127) / 128;
    array<unsigned char> code[2] = {array<unsigned char>(rows * n), array<unsigned char>(rows * n)};
    array<float> scale[2] = {array<float>(rows * blocks), array<float>(rows * blocks)};
    emu_launch({(unsigned)rows, 1, 1}, (unsigned)threads, 1, 0, [&] {
        stem_rmsnorm<bf16, bf16, V, KEPT>(x.data() + blockIdx.x * n, w.data(), y.data() + blockIdx.x * n, n, 1, 1e-6f);
    });
    quantised q(y, rows, n);
    emu_launch({(unsigned)rows, 1, 1}, (unsigned)threads, 1, 0, [&] {
        stem_rmsnorm_quantize<bf16, bf16, V, KEPT, WHOLE, false>(x.data() + blockIdx.x * n, w.data(), nullptr,
                                                                 code[0].data() + blockIdx.x * n,
                                                                 scale[0].data() + blockIdx.x * blocks, n, 1, 1e-6f);
    });
    emu_launch({(unsigned)rows, 1, 1}, (unsigned)threads, 1, 0, [&] {
        stem_rmsnorm_quantize<bf16, bf16, V, KEPT, WHOLE, true>(x.data() + blockIdx.x * n, w.data(), kept.data() + blockIdx.x * n,
                                                                code[1].data() + blockIdx.x * n,
                                                                scale[1].data() + blockIdx.x * blocks, n, 1, 1e-6f);
    });
    for (int i = 0; i < 2; i++) {
        same("codes of rmsnorm_quantize", code[i].data(), q.code.data(), code[i].n);
        same("scales of rmsnorm_quantize", scale[i].data(), q.scale.data(), 4 * scale[i].n);
    }
    same("what rmsnorm_quantize keeps", kept.data(), y.data(), 2 * y.n);
}

int main()
{
    setvbuf(stdout, nullptr, _IOLBF, 0);
    evenly<stem_f8>();
    evenly<stem_nvfp4>();
    evenly<stem_int4>();
    evenly_fixed<stem_nvfp4, stem_nvfp4_fixed>();
    evenly_fixed<stem_int4, stem_int4_fixed>();
    linear_even<stem_f8, stem_f8, 1, 1, 3, 2, 2, false>(3, 140, 272, 1, 9, 2); /* tiles of 2 tokens */
    linear_wide<1, 3, 1, 1, false>(1, 64, 512);
    linear_wide<1, 2, 2, 3, false>(5, 100, 5 * 128);
    linear_wide<2, 3, 2, 2, true>(16, 224, 400);
    linear_wide<2, 2, 1, 3, true>(11, 96, 3 * 128);
    linear_wide<4, 2, 1, 1, false>(37, 72, 272); /* two tiles of tokens */
    linear_wide<8, 2, 1, 2, false>(61, 70, 256);
    formats<stem_f8, stem_f8, 2>();
    formats<stem_nvfp4, stem_nvfp4, 2>();
    formats<stem_int4, stem_int4, 2>();
    up_wide<4, 2>({1, 6, 8, 1024, 256, false}, 50);
    up_wide<2, 3>({1, 8, 7, 2048, 128, true}, 7);
    up_wide<1, 4>({1, 3, 4, 2048, 24, false}, 100);
    formats_of_many<stem_f8>();
    formats_of_many<stem_nvfp4>();
    formats_of_many<stem_int4>();
    experts_in<stem_f8, stem_f8, 2, 1, 4, 2, 2, 3, 2>({5, 3, 5, 144, 144, false});
    formats<stem_nvfp4, stem_nvfp4_fixed, 2>();
    formats<stem_int4, stem_int4_fixed, 2>();
    experts_in<stem_nvfp4, stem_nvfp4_fixed, 4, 2, 3, 2, 2, 2, 3>({9, 3, 4, 512, 256, true});
    experts_in<stem_int4, stem_int4_fixed, 4, 2, 3, 2, 2, 2, 3>({9, 3, 4, 512, 256, true});
    norm_quantize<8, 1, true>(3, 520, 96);
    norm_quantize<8, 2, true>(2, 1000, 64);
    norm_quantize<4, 1, false>(2, 300, 96);
    norm_quantize<8, 0, false>(1, 1024, 32);
    printf("device code of formats: %d of %d checks failed\n", failures, checks);
    return failures != 0;
}
