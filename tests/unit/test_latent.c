/* SPDX-License-Identifier: Apache-2.0
 *
 * References of rope, heads_linear, mla_query, mla_store and index_store against computations of their own.
 */
#include "op_run.h"

static const enum stem_dtype floats[] = {STEM_F32, STEM_F16, STEM_BF16};

/* By its definition, in long double, for both orders of pairs, both places, and YaRN as its authors' code has it. */
static void rope(void)
{
    for (int k = 0; k < 16; k++) {
        bool interleaved = k & 1, first = k & 2, yarn = k & 4;
        enum stem_dtype type = k & 8 ? STEM_BF16 : STEM_F32;
        enum { T = 3, H = 2, D = 40, N = 32 };
        struct run r;
        begin(&r, "rope");
        operand(&r, type, 3, (int64_t[]){T, H, D});
        operand(&r, STEM_I32, 1, (int64_t[]){T});
        operand(&r, type, 3, (int64_t[]){T, H, D});
        memcpy(r.data[1], (int32_t[]){0, 5, 131071}, 12);
        ((struct stem_attr *)stem_op_attr(r.def, r.attrs, "size"))->i = N;
        ((struct stem_attr *)stem_op_attr(r.def, r.attrs, "interleaved"))->i = interleaved;
        ((struct stem_attr *)stem_op_attr(r.def, r.attrs, "at"))->text = first ? "first" : "last";
        ((struct stem_attr *)stem_op_attr(r.def, r.attrs, "factor"))->f = yarn ? 40 : 1;
        ((struct stem_attr *)stem_op_attr(r.def, r.attrs, "mscale_all"))->f = 0.5;
        execute(&r);
        long double pi = acosl(-1), log_base = logl(10000);
        long double low = floorl(N * logl(4096 / (32 * 2 * pi)) / (2 * log_base)),
                    high = ceill(N * logl(4096 / (2 * pi)) / (2 * log_base));
        long double amplitude = yarn ? (0.1L * logl(40) + 1) / (0.05L * logl(40) + 1) : 1;
        for (int row = 0; row < T * H; row++)
            for (int i = 0; i < D; i++) {
                int start = first ? 0 : D - N, j = i - start, pair, other;
                float x = at(&r, 0, row * D + i);
                if (j < 0 || j >= N) {
                    CU_ASSERT_EQUAL(at(&r, 2, row * D + i), x);
                    continue;
                }
                pair = interleaved ? j / 2 : j % (N / 2);
                other = interleaved ? j ^ 1 : (j + N / 2) % N;
                bool upper = interleaved ? j & 1 : j >= N / 2;
                long double f = expl(-2.0L * pair / N * log_base), keep = 1 - (pair - low) / (high - low);
                keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
                if (yarn)
                    f = f / 40 * (1 - keep) + f * keep;
                long double angle = f * ((int32_t *)r.data[1])[row / H], y = at(&r, 0, row * D + start + other);
                double want = (double)(amplitude * (x * cosl(angle) + (upper ? y : -y) * sinl(angle)));
                CU_ASSERT(fabs(at(&r, 2, row * D + i) - want) <=
                          (type == STEM_F32 ? 1e-6 : 0x1p-8) * (fabs(want) + 1e-2));
            }
        finish(&r);
    }
}

static void heads_linear(void)
{
    enum { T = 3, H = 2, N = 5, K = 21, GAP = 3 };
    for (int k = 0; k < 6; k++) {
        bool flip = k & 1;
        int rows = flip ? K : N, row = flip ? N : K;
        struct run r;
        begin(&r, "heads_linear");
        r.attrs[0].i = flip;
        operand(&r, floats[k / 2], 3, (int64_t[]){T, H, K + GAP});
        operand(&r, floats[k / 2], 3, (int64_t[]){H, rows + GAP, row});
        operand(&r, STEM_F32, 3, (int64_t[]){T, H, N});
        r.t[0].dim[2] = K; /* slices */
        r.t[1].dim[1] = rows;
        execute(&r);
        for (int t = 0; t < T; t++)
            for (int h = 0; h < H; h++)
                for (int n = 0; n < N; n++) {
                    double want = 0;
                    for (int i = 0; i < K; i++)
                        want += (double)at(&r, 0, (t * H + h) * (K + GAP) + i) *
                                at(&r, 1, (h * (rows + GAP) + (flip ? i : n)) * row + (flip ? n : i));
                    CU_ASSERT(fabs(at(&r, 2, (t * H + h) * N + n) - want) <= 1e-5 * K);
                }
        finish(&r);
    }
}

static void set(struct run *r, const char *name, int64_t i, double f)
{
    struct stem_attr *a = (struct stem_attr *)stem_op_attr(r->def, r->attrs, name);
    a->i = i;
    a->f = f;
}

/* What surrounds latent attention is its parts, beside each other. */
static void mla(void)
{
    enum { T = 3, H = 2, K = 12, R = 8, L = 20, SLOTS = 6 };
    struct run r, part;
    int32_t pos[T] = {0, 9, 1000}, slot[T] = {4, SLOTS, 1};
    begin(&r, "mla_query");
    operand(&r, STEM_F32, 3, (int64_t[]){T, H, K + R});
    operand(&r, STEM_F32, 3, (int64_t[]){H, K, L});
    operand(&r, STEM_I32, 1, (int64_t[]){T});
    operand(&r, STEM_F32, 3, (int64_t[]){T, H, L + R});
    memcpy(r.data[2], pos, sizeof pos);
    set(&r, "factor", 0, 4);
    execute(&r);
    for (int rope = 0; rope < 2; rope++) {
        begin(&part, rope ? "rope" : "heads_linear");
        part.t[0] = r.t[0], part.data[0] = r.data[0];
        part.t[1] = r.t[1 + rope], part.data[1] = r.data[1 + rope];
        part.n = 2;
        part.t[0].dim[2] = rope ? R : K;
        if (rope)
            part.data[0] = (float *)r.data[0] + K;
        set(&part, rope ? "factor" : "transposed", 1, 4);
        operand(&part, STEM_F32, 3, (int64_t[]){T, H, rope ? R : L});
        execute(&part);
        for (int row = 0; row < T * H; row++)
            for (int i = 0; i < (rope ? R : L); i++)
                CU_ASSERT_EQUAL(at(&r, 3, row * (L + R) + (rope ? L : 0) + i),
                                at(&part, 2, row * (rope ? R : L) + i));
        free(part.data[2]);
    }
    finish(&r);

    begin(&r, "mla_store");
    operand(&r, STEM_F32, 3, (int64_t[]){2, SLOTS / 2, L + R});
    operand(&r, STEM_F32, 2, (int64_t[]){T, L + R});
    operand(&r, STEM_F32, 1, (int64_t[]){L});
    operand(&r, STEM_I32, 1, (int64_t[]){T});
    operand(&r, STEM_I32, 1, (int64_t[]){T});
    memcpy(r.data[3], pos, sizeof pos);
    memcpy(r.data[4], slot, sizeof slot);
    float before[SLOTS * (L + R)];
    memcpy(before, r.data[0], sizeof before);
    struct stem_concrete c = {.def = r.def, .operand = r.t, .n_in = 5, .attrs = r.attrs, .n_attrs = r.def->n_attrs};
    r.def->reference(&c, r.data);
    begin(&part, "rope");
    part.t[0] = r.t[1], part.data[0] = (float *)r.data[1] + L;
    part.t[1] = r.t[3], part.data[1] = r.data[3];
    part.n = 2;
    part.t[0].dim[1] = R;
    operand(&part, STEM_F32, 2, (int64_t[]){T, R});
    execute(&part);
    for (int s = 0; s < SLOTS; s++) {
        int t = s == 4 ? 0 : s == 1 ? 2 : -1;
        double sum = 0;
        for (int i = 0; i < L && t >= 0; i++)
            sum += (double)at(&r, 1, t * (L + R) + i) * at(&r, 1, t * (L + R) + i);
        for (int i = 0; i < L + R; i++) {
            float got = at(&r, 0, s * (L + R) + i);
            if (t < 0)
                CU_ASSERT_EQUAL(got, before[s * (L + R) + i]);
            if (t >= 0 && i < L)
                CU_ASSERT(near(got, at(&r, 1, t * (L + R) + i) / sqrt(sum / L + 1e-6) * at(&r, 2, i), STEM_F32));
            if (t >= 0 && i >= L)
                CU_ASSERT_EQUAL(got, at(&part, 2, t * R + i - L));
        }
    }
    free(part.data[2]);
    finish(&r);
}

/* index_store against its definition, then rope of what was rounded; slots outside are skipped. */
static void index_store(void)
{
    enum { T = 4, D = 40, N = 16, SLOTS = 6 };
    static const int32_t pos[T] = {3, 70, 0, 9}, slot[T] = {4, SLOTS, 1, -1};
    for (int k = 0; k < 3; k++) {
        enum stem_dtype type = floats[k];
        struct run r, turned;
        begin(&r, "index_store");
        operand(&r, type, 3, (int64_t[]){2, SLOTS / 2, D});
        operand(&r, type, 2, (int64_t[]){T, D});
        operand(&r, type, 1, (int64_t[]){D});
        operand(&r, type, 1, (int64_t[]){D});
        operand(&r, STEM_I32, 1, (int64_t[]){T});
        operand(&r, STEM_I32, 1, (int64_t[]){T});
        memcpy(r.data[4], pos, sizeof pos);
        memcpy(r.data[5], slot, sizeof slot);
        ((struct stem_attr *)stem_op_attr(r.def, r.attrs, "size"))->i = N;
        ((struct stem_attr *)stem_op_attr(r.def, r.attrs, "eps"))->f = 0.25;
        float before[SLOTS * D];
        for (int i = 0; i < SLOTS * D; i++)
            before[i] = at(&r, 0, i);
        struct stem_concrete c = {.def = r.def, .operand = r.t, .n_in = 6, .attrs = r.attrs, .n_attrs = r.def->n_attrs};
        r.def->reference(&c, r.data);
        begin(&turned, "rope");
        operand(&turned, type, 2, (int64_t[]){T, D});
        operand(&turned, STEM_I32, 1, (int64_t[]){T});
        operand(&turned, type, 2, (int64_t[]){T, D});
        memcpy(turned.data[1], pos, sizeof pos);
        ((struct stem_attr *)stem_op_attr(turned.def, turned.attrs, "size"))->i = N;
        ((struct stem_attr *)stem_op_attr(turned.def, turned.attrs, "at"))->text = "first";
        for (int t = 0; t < T; t++) {
            double mean = 0, square = 0;
            for (int i = 0; i < D; i++) {
                mean += at(&r, 1, t * D + i);
                square += (double)at(&r, 1, t * D + i) * at(&r, 1, t * D + i);
            }
            mean /= D;
            double deviation = sqrt(square / D - mean * mean + 0.25);
            for (int i = 0; i < D; i++)
                stem_ref_store(type, turned.data[0], t * D + i,
                               (float)((at(&r, 1, t * D + i) - mean) / deviation * at(&r, 2, i) + at(&r, 3, i)));
        }
        execute(&turned);
        for (int s = 0; s < SLOTS; s++)
            for (int i = 0; i < D; i++) {
                int t = s == 4 ? 0 : s == 1 ? 2 : -1;
                double want = t < 0 ? before[s * D + i] : at(&turned, 2, t * D + i);
                CU_ASSERT(fabs(at(&r, 0, s * D + i) - want) <= (type == STEM_F32 ? 1e-5 : 0x1p-7) * (fabs(want) + 1));
            }
        finish(&r);
        finish(&turned);
    }
}

UNIT_MAIN("latent", {"rope", rope}, {"heads_linear", heads_linear}, {"mla", mla}, {"index_store", index_store})
