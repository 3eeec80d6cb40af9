/* SPDX-License-Identifier: Apache-2.0
 *
 * References against small independent computations; conversions against their definition; walking strided operands;
 * what pointwise ops are lowered to.
 */
#include "unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "op_run.h"

#include "ir/build.h"
#include "ops/ref.h"
#include "ops/rule.h"
#include "ops/strided.h"

/* ---- conversions ---- */

static float f16(uint32_t bits)
{
    return stem_f16_to_float((uint16_t)bits);
}
static float bf16(uint32_t bits)
{
    return stem_bf16_to_float((uint16_t)bits);
}
static float e4m3(uint32_t bits)
{
    return stem_e4m3_to_float((uint8_t)bits);
}
static uint32_t to_f16(float x)
{
    return stem_float_to_f16(x);
}
static uint32_t to_bf16(float x)
{
    return stem_float_to_bf16(x);
}
static uint32_t to_e4m3(float x)
{
    return stem_float_to_e4m3(x);
}

static const struct {
    const char *name;
    float (*load)(uint32_t bits);
    uint32_t (*store)(float x);
    uint32_t sign, largest; /* bits of -0, and of the largest finite number */
    float tiny, most;       /* the smallest and the largest number, from the format's definition */
    uint32_t beyond;        /* what 2 * most becomes */
} formats[] = {
    {"f16", f16, to_f16, 0x8000, 0x7bff, 0x1p-24f, 65504, 0x7c00},
    {"bf16", bf16, to_bf16, 0x8000, 0x7f7f, 0x1p-133f, 0x1.fep127f, 0x7f80},
    {"e4m3", e4m3, to_e4m3, 0x80, 0x7e, 0x1p-9f, 448, 0x7e},
};

/* Numbers ascend with their bits, so neighbours are b and b + 1; halfway between them the even one wins. */
static void conversions(void)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        uint32_t sign = formats[i].sign;
        CU_ASSERT_EQUAL(formats[i].load(1), formats[i].tiny);
        CU_ASSERT_EQUAL(formats[i].load(formats[i].largest), formats[i].most);
        for (uint32_t b = 0; b <= formats[i].largest; b++) {
            float x = formats[i].load(b), y = formats[i].load(b + 1);
            CU_ASSERT_FATAL(formats[i].store(x) == b && formats[i].store(-x) == (b | sign));
            CU_ASSERT_FATAL(formats[i].load(b | sign) == -x);
            if (b == formats[i].largest)
                continue;
            float half = x + (y - x) / 2;
            CU_ASSERT_FATAL(x < half && half < y);
            CU_ASSERT_FATAL(formats[i].store(half) == b + (b & 1));
            CU_ASSERT_FATAL(formats[i].store(nextafterf(half, 0)) == b);
            CU_ASSERT_FATAL(formats[i].store(nextafterf(half, INFINITY)) == b + 1);
            CU_ASSERT_FATAL(formats[i].store(-half) == (sign | (b + (b & 1))));
        }
        CU_ASSERT(isnan(formats[i].load(formats[i].store(NAN))));
        CU_ASSERT_EQUAL(formats[i].store(2 * formats[i].most), formats[i].beyond);
        CU_ASSERT_EQUAL(formats[i].store(-INFINITY), (formats[i].beyond | sign));
        CU_ASSERT_EQUAL(formats[i].store(0), 0);
    }
    CU_ASSERT_EQUAL(to_f16(65519.9f), 0x7bff); /* below halfway to 65536 */
    CU_ASSERT_EQUAL(to_f16(65520.0f), 0x7c00);
    CU_ASSERT_EQUAL(to_bf16(0x1.fffffep127f), 0x7f80);
    CU_ASSERT(isinf(f16(0x7c00)) && isinf(bf16(0xff80)) && isnan(f16(0x7c01)) && isnan(e4m3(0xff)));
}

static const struct {
    float x;
    enum stem_dtype t;
    int64_t stored;
} integers[] = {
    {0.5f, STEM_I32, 0},
    {1.5f, STEM_I32, 2},
    {-2.5f, STEM_I32, -2},
    {-2.6f, STEM_I32, -3},
    {3e9f, STEM_I32, INT32_MAX},
    {-3e9f, STEM_I32, INT32_MIN},
    {NAN, STEM_I32, 0},
    {1e19f, STEM_I64, INT64_MAX},
    {-1e19f, STEM_I64, INT64_MIN},
    {1e15f, STEM_I64, 999999986991104},
    {NAN, STEM_I64, 0},
    {INFINITY, STEM_U8, 255},
    {-1, STEM_U8, 0},
    {254.5f, STEM_U8, 254},
    {NAN, STEM_U8, 0},
};

static void integer_conversions(void)
{
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        int64_t memory[1] = {0};
        stem_ref_store(integers[i].t, memory, 0, integers[i].x);
        CU_ASSERT_EQUAL(stem_ref_load_int(integers[i].t, memory, 0), integers[i].stored);
    }
    CU_ASSERT_EQUAL(stem_ref_round(STEM_BF16, 1.00390625f), 1.0f);
    CU_ASSERT_EQUAL(stem_ref_round(STEM_F32, 0.1f), 0.1f);
}

/* ---- references ---- */

static const enum stem_dtype floats[] = {STEM_F32, STEM_F16, STEM_BF16};

static void rmsnorm(void)
{
    enum { ROW = 80 }; /* x is a slice of 70 of each 80 */
    for (int k = 0; k < 3; k++) {
        struct run r;
        begin(&r, "rmsnorm");
        operand(&r, floats[k], 3, (int64_t[]){2, 3, ROW});
        operand(&r, k == 1 ? STEM_F32 : floats[k], 1, (int64_t[]){70});
        operand(&r, floats[k], 3, (int64_t[]){2, 3, 70});
        r.t[0].dim[2] = 70;
        r.attrs[0].f = 0.5;
        execute(&r);
        for (int row = 0; row < 6; row++) {
            double sum = 0;
            for (int i = 0; i < 70; i++)
                sum += (double)at(&r, 0, row * ROW + i) * at(&r, 0, row * ROW + i);
            for (int i = 0; i < 70; i++)
                CU_ASSERT(near(at(&r, 2, row * 70 + i), at(&r, 0, row * ROW + i) / sqrt(sum / 70 + 0.5) * at(&r, 1, i),
                               floats[k]));
        }
        finish(&r);
    }
}

static void silu_mul(void)
{
    for (int k = 0; k < 3; k++) {
        struct run r;
        begin(&r, "silu_mul");
        operand(&r, floats[k], 2, (int64_t[]){3, 14});
        operand(&r, floats[k], 2, (int64_t[]){3, 7});
        execute(&r);
        for (int row = 0; row < 3; row++)
            for (int i = 0; i < 7; i++) {
                double g = at(&r, 0, row * 14 + i), u = at(&r, 0, row * 14 + 7 + i);
                CU_ASSERT(near(at(&r, 1, row * 7 + i), g / (1 + exp(-g)) * u, floats[k]));
            }
        finish(&r);
    }
}

static void embed(void)
{
    struct run r;
    begin(&r, "embed");
    operand(&r, STEM_I64, 1, (int64_t[]){4});
    operand(&r, STEM_BF16, 2, (int64_t[]){5, 3});
    operand(&r, STEM_BF16, 2, (int64_t[]){4, 3});
    memcpy(r.data[0], (int64_t[]){4, 0, -1, 5}, 32);
    execute(&r);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(at(&r, 2, i), at(&r, 1, 12 + i));
        CU_ASSERT_EQUAL(at(&r, 2, 3 + i), at(&r, 1, i));
        CU_ASSERT_EQUAL(at(&r, 2, 6 + i), 0); /* ids that are not in the table */
        CU_ASSERT_EQUAL(at(&r, 2, 9 + i), 0);
    }
    finish(&r);
}

static void argmax(void)
{
    static const struct {
        float x[4];
        int32_t index;
    } rows[] = {{{1, 3, 2, 3}, 1},          {{-1, -1, -1, -1}, 0}, {{-0.0f, 0.0f, -1, 0}, 0},
                {{1, INFINITY, NAN, 5}, 2}, {{NAN, 9, NAN, 9}, 0}, {{-INFINITY, -3, -4, -5}, 1}};
    enum { N = sizeof rows / sizeof *rows };
    struct run r;
    begin(&r, "argmax");
    operand(&r, STEM_F32, 2, (int64_t[]){N, 4});
    operand(&r, STEM_I32, 1, (int64_t[]){N});
    for (int i = 0; i < N; i++)
        memcpy((float *)r.data[0] + 4 * i, rows[i].x, sizeof rows[i].x);
    execute(&r);
    for (int i = 0; i < N; i++)
        CU_ASSERT_EQUAL(((int32_t *)r.data[1])[i], rows[i].index);
    finish(&r);
}

static void zero(void)
{
    struct run r;
    begin(&r, "zero");
    operand(&r, STEM_F32, 1, (int64_t[]){5});
    struct stem_concrete c = {.def = r.def, .operand = r.t, .n_out = 1, .attrs = r.attrs, .n_attrs = 7};
    r.def->reference(&c, r.data);
    for (int i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(at(&r, 0, i), 0);
    finish(&r);
}

/* ---- walking strided operands: random shapes against the plain definition ---- */

/* Offset of element `index` of the result in operand t, by numpy's rule. */
static int64_t offset_of(const struct stem_tensor *t, const struct stem_tensor *result, uint64_t index)
{
    int64_t offset = 0;
    for (uint32_t i = result->rank; i-- > 0;) {
        int64_t c = (int64_t)(index % (uint64_t)result->dim[i]);
        index /= (uint64_t)result->dim[i];
        if (i + t->rank >= result->rank) {
            uint32_t k = i + t->rank - result->rank;
            offset += t->dim[k] == 1 ? 0 : c * t->stride[k];
        }
    }
    return offset;
}

/* An operand of the result's shape, some dims broadcast, some leading ones left out, its other dims permuted in
 * memory and with gaps. */
static struct stem_tensor random_operand(const struct stem_tensor *result, int64_t *extent)
{
    struct stem_tensor t = {.dtype = STEM_F32, .rank = random_below(result->rank + 1)};
    uint32_t order[STEM_MAX_RANK] = {0};
    int64_t step = 1 + random_below(8) / 6;
    for (uint32_t i = 0; i < t.rank; i++) {
        t.dim[i] = random_below(4) ? result->dim[i + result->rank - t.rank] : 1;
        order[i] = i;
    }
    if (random_below(3) == 0)
        for (uint32_t i = t.rank; i > 1; i--) {
            uint32_t k = random_below(i), swap = order[i - 1];
            order[i - 1] = order[k];
            order[k] = swap;
        }
    for (uint32_t i = t.rank; i-- > 0;) {
        t.stride[order[i]] = step;
        step = step * t.dim[order[i]] + random_below(6) / 5 * 4;
    }
    *extent = step + 1;
    return t;
}

static void strided_operands(void)
{
    for (int round = 0; round < 400; round++) {
        struct run r;
        begin(&r, round % 4 ? "pointwise" : "copy");
        uint32_t inputs = round % 4 ? 2 : 1;
        int64_t dim[STEM_MAX_RANK], extent;
        uint32_t rank = random_below(5);
        for (uint32_t i = 0; i < rank; i++)
            dim[i] = random_below(5) ? 1 + random_below(6) : 1;
        struct stem_tensor result;
        CU_ASSERT_FATAL(stem_tensor_init(&result, STEM_F32, rank, dim));
        for (uint32_t i = 0; i < inputs; i++) {
            struct stem_tensor t = random_operand(&result, &extent);
            while (inputs == 1 && (t.rank != rank || memcmp(t.dim, dim, rank * sizeof *dim)))
                t = random_operand(&result, &extent);
            operand(&r, STEM_F32, 1, &extent);
            r.t[i] = t;
        }
        operand(&r, STEM_F32, rank, dim);
        if (inputs == 2) {
            r.attrs[0].text = "i0 i1 sub";
            r.attrs[1].text = "f32";
        }
        execute(&r);
        for (uint64_t i = 0; i < stem_tensor_elements(&result); i++) {
            float want = at(&r, 0, offset_of(&r.t[0], &result, i));
            if (inputs == 2)
                want -= at(&r, 1, offset_of(&r.t[1], &result, i));
            CU_ASSERT_EQUAL(at(&r, inputs, (int64_t)i), want);
        }
        finish(&r);
    }
}

/* ---- lowering ---- */

struct shape {
    enum stem_dtype t;
    uint32_t rank;
    int64_t dim[3];
    int64_t stride[3]; /* all 0: contiguous */
    uint64_t offset;
};

#define PLAIN(t, rank, ...)                                                                                          \
    {                                                                                                                \
        t, rank, {__VA_ARGS__}, {0, 0, 0}, 0                                                                         \
    }
#define VIEW(t, rows, cols, row_stride, col_stride, offset)                                                          \
    {                                                                                                                \
        t, 2, {rows, cols, 0}, {row_stride, col_stride, 0}, offset                                                   \
    }

static struct stem_lowered lowered(struct stem_arena *a, const char *expr, const struct shape *s, uint32_t n)
{
    struct stem_tensor t[4];
    struct stem_attr attrs[2] = {{.name = "expr", .kind = STEM_ATTR_TEXT, .text = expr},
                                 {.name = "dtype", .kind = STEM_ATTR_TEXT, .text = stem_dtype_name(s[n - 1].t)}};
    struct stem_concrete c = {
        .def = stem_op_find("pointwise"), .operand = t, .n_in = n - 1, .n_out = 1, .attrs = attrs, .n_attrs = 2};
    struct stem_lowered l = {0};
    struct stem_target target = {.sm = 90, .n_sms = 132};
    for (uint32_t i = 0; i < n; i++) {
        CU_ASSERT_FATAL(stem_tensor_init(&t[i], s[i].t, s[i].rank, s[i].dim));
        t[i].offset = s[i].offset;
        if (s[i].stride[0] || s[i].stride[1])
            memcpy(t[i].stride, s[i].stride, sizeof s[i].stride);
    }
    c.def->lower(&c, &target, a, &l);
    return l;
}

/* Elements that a thread makes: from the grid's size, so from what will be launched. */
static const struct {
    const char *what;
    struct shape s[3];
    uint32_t width;
} widths[] = {
    {"16 bytes of bf16",
     {PLAIN(STEM_BF16, 2, 4, 1024), PLAIN(STEM_BF16, 2, 4, 1024), PLAIN(STEM_BF16, 2, 4, 1024)},
     8},
    {"f32", {PLAIN(STEM_F32, 2, 4, 1024), PLAIN(STEM_F32, 2, 4, 1024), PLAIN(STEM_F32, 2, 4, 1024)}, 4},
    {"mixed: by the smaller type",
     {PLAIN(STEM_F32, 2, 4, 1024), PLAIN(STEM_BF16, 2, 4, 1024), PLAIN(STEM_BF16, 2, 4, 1024)},
     8},
    {"a row for all", {PLAIN(STEM_BF16, 2, 4, 1024), PLAIN(STEM_BF16, 1, 1024), PLAIN(STEM_BF16, 2, 4, 1024)}, 8},
    {"one for each row", {PLAIN(STEM_BF16, 2, 4, 1024), PLAIN(STEM_BF16, 2, 4, 1), PLAIN(STEM_BF16, 2, 4, 1024)}, 8},
    {"a slice of columns",
     {VIEW(STEM_BF16, 4, 512, 1024, 1, 1024), PLAIN(STEM_BF16, 2, 4, 512), PLAIN(STEM_BF16, 2, 4, 512)},
     8},
    {"a slice that begins at an odd column",
     {VIEW(STEM_BF16, 4, 512, 1024, 1, 2), PLAIN(STEM_BF16, 2, 4, 512), PLAIN(STEM_BF16, 2, 4, 512)},
     1},
    {"a slice that begins at a column of 4",
     {VIEW(STEM_BF16, 4, 512, 1024, 1, 8), PLAIN(STEM_BF16, 2, 4, 512), PLAIN(STEM_BF16, 2, 4, 512)},
     4},
    {"rows of odd length, merged",
     {PLAIN(STEM_BF16, 2, 4, 6), PLAIN(STEM_BF16, 2, 4, 6), PLAIN(STEM_BF16, 2, 4, 6)},
     8},
    {"rows of odd length, not merged",
     {PLAIN(STEM_BF16, 2, 4, 6), PLAIN(STEM_BF16, 1, 6), PLAIN(STEM_BF16, 2, 4, 6)},
     2},
    {"transposed", {VIEW(STEM_BF16, 64, 64, 1, 64, 0), PLAIN(STEM_BF16, 2, 64, 64), PLAIN(STEM_BF16, 2, 64, 64)}, 1},
};

static void vector_widths(void)
{
    struct stem_arena *a = stem_arena_new();
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct stem_lowered l = lowered(a, "i0 i1 add", widths[i].s, 3);
        char needle[64];
        snprintf(needle, sizeof needle, "threadIdx.x) * %u;", widths[i].width);
        if (!strstr(l.code, needle))
            fprintf(stderr, "\n%s: %s", widths[i].what, l.code);
        CU_ASSERT(strstr(l.code, needle) != NULL);
        uint64_t threads = (uint64_t)l.grid[0] * l.block[0], n = (uint64_t)l.scalars[0].i;
        CU_ASSERT(threads * widths[i].width >= n && (threads - l.block[0]) * widths[i].width < n);
        CU_ASSERT(l.waits && strstr(l.code, "stem_wait();") < strstr(l.code, "stem_load"));
    }
    stem_arena_free(a);
}

/* One kernel for every number of tokens: the same name and code. */
static void kernels_are_shared(void)
{
    struct stem_arena *a = stem_arena_new();
    const char *first[2] = {NULL, NULL};
    for (int64_t t = 1; t <= 64; t *= 4) {
        struct shape plain[3] = {PLAIN(STEM_BF16, 2, t, 1024), PLAIN(STEM_BF16, 2, t, 1024),
                                 PLAIN(STEM_BF16, 2, t, 1024)};
        struct shape rows[3] = {PLAIN(STEM_BF16, 2, t, 1024), PLAIN(STEM_BF16, 1, 1024),
                                PLAIN(STEM_BF16, 2, t, 1024)};
        struct stem_lowered l[2] = {lowered(a, "i0 i1 add", plain, 3), lowered(a, "i0 i1 add", rows, 3)};
        for (int k = 0; k < 2; k++) {
            first[k] = first[k] ? first[k] : l[k].code;
            UNIT_SAME_TEXT(l[k].code, first[k]);
        }
    }
    struct shape other[3] = {PLAIN(STEM_F16, 2, 4, 1024), PLAIN(STEM_BF16, 2, 4, 1024), PLAIN(STEM_BF16, 2, 4, 1024)};
    CU_ASSERT(strcmp(lowered(a, "i0 i1 add", other, 3).code, first[0]) != 0);
    struct shape large[2] = {PLAIN(STEM_BF16, 2, 300000, 7168), PLAIN(STEM_BF16, 2, 300000, 7168)};
    struct stem_lowered l = lowered(a, "i0 neg", large, 2);
    CU_ASSERT_EQUAL(l.scalars[0].kind, STEM_SCALAR_I64);
    CU_ASSERT(strstr(l.code, "unsigned long long n") != NULL);
    stem_arena_free(a);
}

/* Casts between integer types: exact, also next to each other, and clamped; f32 has 24 bits. */
static const struct {
    const char *expr;
    enum stem_dtype from, to;
    int64_t x, y;
    const char *device; /* what the kernel stores */
} casts[] = {
    {"i0 as:i64", STEM_I32, STEM_I64, 16777217, 16777217, "r.at[k] = stem_clamp<long long>::from(stem_clamp<long long>::from(v0.at[k]));"},
    {"i0 as:i64", STEM_I32, STEM_I64, INT32_MAX, INT32_MAX, "stem_clamp<long long>::from(v0.at[k])"},
    {"i0 as:i64", STEM_I32, STEM_I64, INT32_MIN, INT32_MIN, "stem_clamp<long long>::from(v0.at[k])"},
    {"i0 as:i32", STEM_I64, STEM_I32, -2147483647, -2147483647, "stem_clamp<int>::from(v0.at[k])"},
    {"i0 as:i32", STEM_I64, STEM_I32, INT64_MAX, INT32_MAX, "stem_clamp<int>::from(v0.at[k])"},
    {"i0 as:i32", STEM_I64, STEM_I32, -2147483649, INT32_MIN, "stem_clamp<int>::from(v0.at[k])"},
    {"i0 as:u8", STEM_I64, STEM_U8, 256, 255, "stem_clamp<unsigned char>::from(v0.at[k])"},
    {"i0 as:u8", STEM_I32, STEM_U8, -1, 0, "stem_clamp<unsigned char>::from(v0.at[k])"},
    {"i0 as:i32 as:i64", STEM_I64, STEM_I64, INT64_MIN, INT32_MIN, "stem_clamp<int>::from(v0.at[k])"},
    {"i0", STEM_I64, STEM_I32, 16777217, 16777217, "r.at[k] = stem_clamp<int>::from(v0.at[k]);"},
    {"i0 as:i32 as:i64", STEM_F32, STEM_I64, INT64_MAX, INT32_MAX,
     "r.at[k] = stem_clamp<long long>::from(stem_clamp<long long>::from(stem_round<int>::from(t0)));"},
    /* what f32 does as well is done in f32, as it was */
    {"i0 as:i32", STEM_F32, STEM_I32, 8388609, 8388609, "r.at[k] = stem_round<int>::from(t1);"},
    {"i0 c:1 add as:i32", STEM_I32, STEM_I32, 1 << 23, (1 << 23) + 1, "r.at[k] = stem_round<int>::from(t3);"},
    {"i0 as:i64", STEM_I32, STEM_F32, 16777217, 16777216, "r.at[k] = stem_round<float>::from(t1);"},
    /* through f32 if that is asked for */
    {"i0 as:f32", STEM_I32, STEM_I32, 16777217, 16777216, "r.at[k] = stem_round<int>::from(t1);"},
    {"i0 as:f32", STEM_I64, STEM_I64, 16777217, 16777216, "r.at[k] = stem_round<long long>::from(t1);"},
    {"i0 as:f32 as:i32", STEM_I64, STEM_I64, 16777217, 16777216, "stem_clamp<long long>::from(stem_round<int>::from(t1))"},
    {"i0 as:i32 as:f32", STEM_I64, STEM_I64, 16777217, 16777216, "r.at[k] = stem_round<long long>::from(t2);"},
};

static void integer_casts(void)
{
    struct stem_arena *a = stem_arena_new();
    const int64_t dim[2] = {2, 3}, one[2] = {2, 1};
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
        for (int wide = 0; wide < 2; wide++) {
            struct run r;
            begin(&r, "pointwise");
            operand(&r, casts[i].from, 2, wide ? one : dim);
            operand(&r, casts[i].to, 2, dim);
            r.attrs[0].text = casts[i].expr;
            r.attrs[1].text = stem_dtype_name(casts[i].to);
            for (int k = 0; k < (wide ? 2 : 6); k++)
                if (casts[i].from == STEM_F32)
                    stem_ref_store(STEM_F32, r.data[0], k, (float)casts[i].x);
                else
                    stem_ref_store_int(casts[i].from, r.data[0], k, casts[i].x);
            execute(&r);
            for (int k = 0; k < 6; k++) {
                int64_t y = casts[i].to == STEM_F32 ? (int64_t)at(&r, 1, k) : stem_ref_load_int(casts[i].to, r.data[1], k);
                if (y != casts[i].y)
                    fprintf(stderr, "\n%s of %" PRId64 " = %" PRId64, casts[i].expr, casts[i].x, y);
                CU_ASSERT_EQUAL(y, casts[i].y);
            }
            finish(&r);
            struct shape s[2] = {PLAIN(casts[i].from, 2, 4, 32), PLAIN(casts[i].to, 2, 4, 32)};
            struct shape broadcast[2] = {PLAIN(casts[i].from, 2, 4, 1), PLAIN(casts[i].to, 2, 4, 32)};
            const char *code = lowered(a, casts[i].expr, s, 2).code;
            if (!strstr(code, casts[i].device))
                fprintf(stderr, "\n%s", code);
            CU_ASSERT(strstr(code, casts[i].device) != NULL);
            CU_ASSERT_EQUAL(!strstr(lowered(a, casts[i].expr, broadcast, 2).code, "from(w0)"), !strstr(code, "from(v0.at"));
        }
    stem_arena_free(a);
}

UNIT_MAIN("ops", {"conversions", conversions}, {"integer conversions", integer_conversions}, {"rmsnorm", rmsnorm},
          {"silu_mul", silu_mul}, {"embed", embed}, {"argmax", argmax}, {"zero", zero},
          {"strided operands", strided_operands}, {"vector widths", vector_widths},
          {"kernels are shared", kernels_are_shared}, {"integer casts", integer_casts})
