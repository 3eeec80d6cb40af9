/* SPDX-License-Identifier: Apache-2.0
 *
 * The device code of norm_linear, run by the emulator, against its C reference and against rmsnorm and linear one after the
 * other; twice with another order of threads.
 */
#include "emulate/emulate.h"

#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "linear/norm_linear.cuh"

#include "emulate/check.h"

/* Rows of x `k * step + gap` apart, elements `step` apart, norm of type W. */
template <class E, class W, class O> struct sample {
    int m, n, k, gap, step, columns;
    array<E> x, w;
    array<W> norm;
    array<O> want, y[2];
    array<bf16> more; /* of the epilogue */
    array<float> last;
    float eps = 0.0625f;

    sample(int m, int n, int k, int gap, int step, bool pair)
        : m(m), n(n), k(k), gap(gap), step(step), columns(pair ? n / 2 : n), x((size_t)m * (k * step + gap), 1),
          w((size_t)n * k, 1), norm(k, 2), want((size_t)m * columns), y{array<O>(want.n), array<O>(want.n)},
          more(want.n, 1), last(columns, 1)
    {
    }
    long long distance() const
    {
        return (long long)k * step + gap;
    }
    void finish(reference &r, bool then)
    {
        if (then)
            r.set("then", columns < n ? "i0 i1 mul i2 add as:bf16 i3 add" : "i0 i1 add as:bf16 i2 add")
                .set("then_of", "bf16")
                .set("then_type", "bf16")
                .set("halves", columns < n ? "1" : (const char *)nullptr);
    }
    void check(const char *what, bool then)
    {
        reference r("norm_linear"), first("rmsnorm"), second("linear");
        array<E> normal((size_t)m * k);
        r.set("eps", eps).set("out", stem_dtype_name(type_of((O *)0)));
        second.set("out", stem_dtype_name(type_of((O *)0)));
        first.set("eps", eps);
        r.operand(x.data(), {m, k}).operand(norm.data(), {k}).operand(w.data(), {n, k});
        r.tensor[0].stride[0] = distance();
        r.tensor[0].stride[1] = step;
        first.operand(x.data(), {m, k}).operand(norm.data(), {k}).operand(normal.data(), {m, k});
        first.tensor[0] = r.tensor[0];
        first.run(1);
        second.operand(normal.data(), {m, k}).operand(w.data(), {n, k});
        if (then) {
            second.absent().absent().absent();
            for (reference *each : {&r, &second})
                each->operand(more.data(), {m, columns}).operand(last.data(), {columns});
        }
        finish(r, then);
        finish(second, then);
        r.operand(want.data(), {m, columns}).run(1);
        compare(what, y[0], want, y[1], bound_of((O *)0));
        second.operand(want.data(), {m, columns}).run(1);
        compare(what, y[0], want, y[1], type_of((E *)0) == STEM_F32 ? 1e-5 : 6e-3); /* both round what is multiplied */
    }
};

template <class E, class O, int NT, int STAGES, int KP, int G, int CL, bool PAIR = false, bool THEN = PAIR, bool EARLY = true,
          int ROWS = 8, bool WHOLE = false>
static void stream(int m, int n, int k, int gap = 0)
{
    int each = (PAIR ? 8 : 16) * G;
    sample<E, E, O> s(m, n, k, gap, 1, PAIR);
    unsigned warps = KP * G, items = (s.columns + each - 1) / each, blocks = items > 3 && !WHOLE ? 3 : items;
    size_t smem = warps * (STAGES * (stem_stage_bytes<1, NT, ROWS> + 128) + 8 * NT * STEM_TILE_LD * 4) +
                  (CL > 1 ? G * 8 * NT * 17 * 4 + 16 : 0);
    for (array<O> &out : s.y)
        emu_launch({blocks * CL, (unsigned)(m + 8 * NT - 1) / (8 * NT), 1}, 32 * warps, CL, smem, [&] {
            auto run = [&](const auto &store) {
                stem_norm_linear_to<E, NT, STAGES, KP, G, CL, EARLY, PAIR, ROWS, WHOLE>(s.x.data(), s.distance(), s.norm.data(),
                                                                                        s.w.data(), store, m, n, k, s.eps);
            };
            if constexpr (THEN)
                run(add_store<PAIR>{s.more.data(), s.last.data(), out.data(), s.columns});
            else
                run(stem_store_plain<O>{out.data(), n});
        });
    char what[128];
    snprintf(what, sizeof what, "norm_linear %dx%dx%d gap %d nt%d r%d s%d kp%d g%d cl%d", m, n, k, gap, NT, ROWS, STAGES, KP,
             G, CL);
    s.check(what, THEN);
}

template <class E, class W, class O, bool PAIR = false> static void plain(int m, int n, int k, int gap, int step)
{
    sample<E, W, O> s(m, n, k, gap, step, PAIR);
    for (array<O> &out : s.y)
        emu_launch({(unsigned)(s.columns + 3) / 4, (unsigned)(m + 7) / 8, 1}, 128, 1, 0, [&] {
            auto run = [&](const auto &store) {
                stem_norm_linear_plain_to<E, W, PAIR>(s.x.data(), stem_rows_apart{s.distance()}, s.step, s.norm.data(),
                                                      s.w.data(), store, m, n, k, s.eps);
            };
            if constexpr (PAIR)
                run(add_store<true>{s.more.data(), s.last.data(), out.data(), s.columns});
            else
                run(stem_store_plain<O>{out.data(), n});
        });
    char what[128];
    snprintf(what, sizeof what, "norm_linear plain %dx%dx%d gap %d step %d", m, n, k, gap, step);
    s.check(what, PAIR);
}

int main()
{
    setvbuf(stdout, nullptr, _IOLBF, 0);
    for (int m = 1; m <= 8; m++) {
        stream<bf16, bf16, 1, 4, 8, 1, 1>(m, 41, 520);
        stream<bf16, float, 1, 2, 2, 1, 4>(m, 40, 1096, m % 2 * 24);
    }
    stream<__half, __half, 1, 3, 4, 2, 1>(3, 100, 136, 64);
    stream<bf16, float, 1, 5, 1, 2, 1>(2, 70, 192);
    stream<bf16, bf16, 2, 3, 4, 1, 2>(11, 33, 600, 8);
    stream<bf16, float, 8, 2, 2, 1, 1>(64, 17, 200);
    stream<bf16, bf16, 4, 2, 2, 2, 2>(70, 40, 264); /* three tiles of rows, the last one short */
    stream<bf16, bf16, 1, 4, 4, 2, 2, true>(4, 66, 600, 8);
    stream<bf16, bf16, 2, 3, 8, 1, 1, true>(13, 42, 200);
    stream<bf16, bf16, 1, 4, 4, 2, 2, false, true>(5, 41, 200);
    stream<bf16, bf16, 1, 3, 8, 1, 1, false, false, false>(5, 33, 40); /* fewer pieces of k than warps; nothing before the wait */
    plain<float, float, bf16>(9, 7, 45, 3, 1);
    plain<bf16, float, bf16>(3, 9, 77, 1, 2);
    plain<bf16, bf16, float>(8, 5, 250, 6, 1);
    plain<__half, __half, __half>(2, 6, 72, 0, 1);
    plain<bf16, float, bf16, true>(11, 10, 96, 0, 1);
    stream<bf16, float, 1, 2, 8, 1, 8, false, false, true, 1>(1, 50, 7168);
    stream<bf16, bf16, 1, 1, 4, 2, 2, true, true, true, 2>(2, 66, 1032, 8);
    stream<bf16, bf16, 1, 3, 4, 1, 1, false, false, false, 4>(4, 33, 600);
    stream<bf16, float, 1, 2, 8, 1, 8, false, false, true, 1, true>(1, 50, 7168);
    stream<bf16, bf16, 1, 3, 4, 1, 2, true, true, true, 4, true>(4, 130, 1400, 8);
    stream<bf16, bf16, 1, 2, 8, 1, 1, false, false, false, 8, true>(6, 60, 1024);
    printf("device code: %d of %d checks failed\n", failures, checks);
    return failures != 0;
}
