/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdlib.h>

#include "ir/type.h"

/* ---- a small reader of expressions, so that tests can be written as text ---- */

struct reader {
    const char *s;
    struct stem_strtab *strings;
    struct stem_dims *dims;
};

static struct stem_dim sum(struct reader *r);

static struct stem_dim atom(struct reader *r)
{
    if (!strncmp(r->s, "min(", 4) || !strncmp(r->s, "max(", 4)) {
        enum stem_dim_op op = r->s[1] == 'i' ? STEM_DIM_MIN : STEM_DIM_MAX;
        r->s += 4;
        struct stem_dim a = sum(r);
        r->s++; /* comma */
        struct stem_dim b = sum(r);
        r->s++;
        return stem_dim_op(r->dims, op, a, b);
    }
    if (*r->s == '(') {
        r->s++;
        struct stem_dim a = sum(r);
        r->s++;
        return a;
    }
    if (*r->s >= 'A' && *r->s <= 'Z') {
        struct stem_sym name = stem_intern_n(r->strings, r->s++, 1);
        return stem_dim_symbol(r->dims, name, 1, 64);
    }
    char *end;
    long long v = strtoll(r->s, &end, 10);
    r->s = end;
    return stem_dim_const(r->dims, v);
}

static struct stem_dim product(struct reader *r)
{
    struct stem_dim a = atom(r);
    while (*r->s == '*' || *r->s == '/' || *r->s == '%') {
        char c = *r->s++;
        a = stem_dim_op(r->dims, c == '*' ? STEM_DIM_MUL : c == '/' ? STEM_DIM_DIV : STEM_DIM_MOD, a, atom(r));
    }
    return a;
}

static struct stem_dim sum(struct reader *r)
{
    struct stem_dim a = product(r);
    while (*r->s == '+' || *r->s == '-') {
        char c = *r->s++;
        a = stem_dim_op(r->dims, c == '+' ? STEM_DIM_ADD : STEM_DIM_SUB, a, product(r));
    }
    return a;
}

static struct stem_dim parse(struct stem_strtab *t, struct stem_dims *d, const char *s)
{
    char text[256];
    size_t n = 0;
    for (; *s && n + 1 < sizeof text; s++)
        if (*s != ' ')
            text[n++] = *s;
    text[n] = '\0';
    struct reader r = {text, t, d};
    return sum(&r);
}

/* ---- tests ---- */

/* Symbols are in 1..64. */
static const struct {
    const char *a, *b;
} equal[] = {
    {"T*2 + T", "3*T"},
    {"(4*T) / 4", "T"},
    {"T + T - T", "T"},
    {"(T + U) * (T - U)", "T*T - U*U"},
    {"T * U * T", "T*T*U"},
    {"T - T", "0"},
    {"(8*T + 4) / 4", "2*T + 1"},
    {"(8*T + 5) / 4", "2*T + 1"},
    {"(3*T) / 2", "T + T/2"},
    {"(T/4) / 8", "T / 32"},
    {"(T/4 + 3) / 8", "(T + 12) / 32"},
    {"(2*(T/3)) / 4", "T / 6"},
    {"(6*T + 2) / 4", "T + (T + 1)/2"},
    {"T / 100", "0"},
    {"T % 100", "T"},
    {"(T + 4) % 4", "T % 4"},
    {"(6*T) % 4", "2 * (T % 2)"},
    {"(T*U) / U", "T"},
    {"(T*U + 2*U) / U", "T + 2"},
    {"T / T", "1"},
    {"(T*U) % T", "0"},
    {"min(T, 64)", "T"},
    {"max(T, 64)", "64"},
    {"max(T, 1)", "T"},
    {"min(T, U)", "min(U, T)"},
    {"min(T + 3, U + 3)", "min(T, U) + 3"},
    {"max(4*T, 4*U)", "4 * max(U, T)"},
    {"min(T, T + 1)", "T"},
    {"max(T, T)", "T"},
    {"-7 / 2", "0 - 4"},
    {"(0 - 7) % 4", "1"},
    {"7 % (0 - 4)", "0 - 1"},
    {"T / (0 - 4)", "(0 - T) / 4"},
    {"(T + 15) / 16 * 16 - (T + 15) / 16 * 16", "0"},
};

static const struct {
    const char *a, *b;
} different[] = {
    {"T", "U"},
    {"T", "64"},
    {"T / 2", "T"},
    {"T % 4", "T"},
    {"min(T, U)", "T"},
    {"T / 2 * 2", "T"},
    {"min(T, 8)", "max(T, 8)"},
    {"T*T", "2*T"},
};

static void normal_forms(void)
{
    struct stem_strtab *t = stem_strtab_new();
    struct stem_dims *d = stem_dims_new();
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
        bool same = stem_dim_same(parse(t, d, equal[i].a), parse(t, d, equal[i].b));
        if (!same)
            fprintf(stderr, "\n%s should be %s\n", equal[i].a, equal[i].b);
        CU_ASSERT(same);
    }
    for (size_t i = 0; i < sizeof different / sizeof *different; i++)
        CU_ASSERT(!stem_dim_same(parse(t, d, different[i].a), parse(t, d, different[i].b)));
    stem_dims_free(d);
    stem_strtab_free(t);
}

static const struct {
    const char *expression, *printed;
} print[] = {
    {"T", "T"},
    {"0", "0"},
    {"0 - 7", "-7"},
    {"1 + 2*T", "2*T + 1"},
    {"T - 1", "T - 1"},
    {"4 - T", "-T + 4"},
    {"T*T*U", "T*T*U"},
    {"(T + 3)/4", "(T + 3)/4"},
    {"T/4*4", "4*(T/4)"},
    {"T/4 + U", "(T/4) + U"},
    {"T % 4", "T%4"},
    {"T / U", "T/U"},
    {"T / (U + 1)", "T/(U + 1)"},
    {"2*T/3", "2*T/3"},
    {"min(T, 2*U)", "min(T, 2*U)"},
    {"max(T + 1, U/2)", "max(T + 1, U/2)"},
    {"1/0", "?"},
};

static void printing(void)
{
    for (size_t i = 0; i < sizeof print / sizeof *print; i++) {
        struct stem_strtab *t = stem_strtab_new(); /* order of appearance decides the order of terms */
        struct stem_dims *d = stem_dims_new();
        struct stem_out o = {0};
        struct stem_dim a = parse(t, d, print[i].expression);
        stem_dim_print(d, t, a, &o);
        UNIT_SAME_TEXT(stem_out_text(&o), print[i].printed);
        if (a.n) /* what is printed reads back as the same */
            CU_ASSERT(stem_dim_same(a, parse(t, d, stem_out_text(&o))));
        stem_out_free(&o);
        stem_dims_free(d);
        stem_strtab_free(t);
    }
}

static void limits(void)
{
    struct stem_strtab *t = stem_strtab_new();
    struct stem_dims *d = stem_dims_new();
    static const char *const bad[] = {"9223372036854775807 + 1",
                                      "9223372036854775807 * 2",
                                      "1 / 0",
                                      "T % 0",
                                      "(1 / 0) * 0",
                                      "T * 9223372036854775807 * 3",
                                      "min(1 / 0, 3)",
                                      "0 - 9223372036854775807 - 2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT_EQUAL(parse(t, d, bad[i]).n, 0);
    /* Growth stops at BAD instead of exploding. */
    struct stem_dim x = parse(t, d, "A+B+C+D+E+F+G+H"), y = x;
    for (int i = 0; i < 40; i++)
        y = stem_dim_op(d, STEM_DIM_MUL, y, x);
    CU_ASSERT_EQUAL(y.n, 0);
    y = parse(t, d, "A");
    for (int i = 0; i < 100; i++) { /* each step writes its operand twice */
        struct stem_dim p = stem_dim_op(d, STEM_DIM_ADD, y, parse(t, d, "B")),
                        q = stem_dim_op(d, STEM_DIM_MUL, y, parse(t, d, "C"));
        y = stem_dim_op(d, STEM_DIM_DIV, p, q);
    }
    CU_ASSERT_EQUAL(y.n, 0);
    int64_t v, low, high;
    CU_ASSERT(stem_dim_value(d, parse(t, d, "3*T - T*3 + 5"), &v) && v == 5);
    CU_ASSERT(!stem_dim_value(d, parse(t, d, "T"), &v));
    CU_ASSERT(!stem_dim_value(d, STEM_DIM_BAD, &v));
    stem_dim_bounds(d, parse(t, d, "2*T - U"), &low, &high);
    CU_ASSERT_EQUAL(low, -62);
    CU_ASSERT_EQUAL(high, 127);
    stem_dim_bounds(d, STEM_DIM_BAD, &low, &high);
    CU_ASSERT_EQUAL(low, INT64_MIN);
    struct stem_sym name = stem_intern(t, "T");
    CU_ASSERT(!stem_dim_eval(d, parse(t, d, "T + U"), &name, &high, 1, &v)); /* U has no value */
    CU_ASSERT(!stem_dim_same(STEM_DIM_BAD, STEM_DIM_BAD));
    /* the first bounds stay */
    stem_dim_bounds(d, stem_dim_symbol(d, name, 5, 6), &low, &high);
    CU_ASSERT_EQUAL(low, 1);
    stem_dims_free(d);
    stem_strtab_free(t);
}

/* ---- random expressions against plain evaluation ---- */

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

enum { BINDINGS = 6, SYMBOLS = 3 };

/* An expression with its value for each binding, computed without the normal form. */
struct example {
    struct stem_dim d;
    int64_t value[BINDINGS];
    bool has[BINDINGS];
};

static bool fold(enum stem_dim_op op, int64_t a, int64_t b, int64_t *v)
{
    switch (op) {
    case STEM_DIM_ADD:
        return !__builtin_add_overflow(a, b, v);
    case STEM_DIM_SUB:
        return !__builtin_sub_overflow(a, b, v);
    case STEM_DIM_MUL:
        return !__builtin_mul_overflow(a, b, v);
    case STEM_DIM_MIN:
        *v = a < b ? a : b;
        return true;
    case STEM_DIM_MAX:
        *v = a > b ? a : b;
        return true;
    default:
        break;
    }
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    int64_t q = a / b;
    if (a % b && ((a < 0) != (b < 0)))
        q--;
    *v = op == STEM_DIM_DIV ? q : a - q * b;
    return true;
}

static void random_expressions(void)
{
    static const char *const names[SYMBOLS] = {"T", "U", "V"};
    static const int64_t low[SYMBOLS] = {1, 0, -5}, high[SYMBOLS] = {64, 9, 5};
    enum { COUNT = 400 };
    for (uint64_t round = 1; round <= 40; round++) {
        struct stem_strtab *t = stem_strtab_new();
        struct stem_dims *d = stem_dims_new();
        static struct example x[COUNT];
        struct stem_sym sym[SYMBOLS];
        int64_t bound[BINDINGS][SYMBOLS];
        seed = round;
        for (int s = 0; s < SYMBOLS; s++)
            sym[s] = stem_intern(t, names[s]);
        for (int k = 0; k < BINDINGS; k++)
            for (int s = 0; s < SYMBOLS; s++)
                bound[k][s] = low[s] + random_below((uint32_t)(high[s] - low[s] + 1));
        for (uint32_t i = 0; i < COUNT; i++) {
            if (i < SYMBOLS + 5) {
                bool symbol = i < SYMBOLS;
                int64_t c = (int64_t)random_below(20) - 8;
                x[i].d = symbol ? stem_dim_symbol(d, sym[i], low[i], high[i]) : stem_dim_const(d, c);
                for (int k = 0; k < BINDINGS; k++) {
                    x[i].value[k] = symbol ? bound[k][i] : c;
                    x[i].has[k] = true;
                }
                continue;
            }
            enum stem_dim_op op = (enum stem_dim_op)random_below(7);
            const struct example *a = &x[random_below(i)], *b = &x[random_below(i)];
            x[i].d = stem_dim_op(d, op, a->d, b->d);
            if (!x[i].d.n) { /* out of range or too large: start a new chain */
                x[i] = x[random_below(SYMBOLS)];
                continue;
            }
            for (int k = 0; k < BINDINGS; k++)
                x[i].has[k] = a->has[k] && b->has[k] && fold(op, a->value[k], b->value[k], &x[i].value[k]);
        }
        for (uint32_t i = 0; i < COUNT; i++)
            for (int k = 0; k < BINDINGS; k++) {
                int64_t v, lo, hi;
                if (!x[i].has[k] || !stem_dim_eval(d, x[i].d, sym, bound[k], SYMBOLS, &v))
                    continue;
                stem_dim_bounds(d, x[i].d, &lo, &hi);
                CU_ASSERT_EQUAL_FATAL(v, x[i].value[k]); /* so equal numbers are equal values, too */
                CU_ASSERT_FATAL(lo <= v && v <= hi);
            }
        stem_dims_free(d);
        stem_strtab_free(t);
    }
}

static void types(void)
{
    struct stem_strtab *t = stem_strtab_new();
    struct stem_dims *d = stem_dims_new();
    struct stem_type a = {.dtype = STEM_BF16, .rank = 2, .dim = {parse(t, d, "T"), parse(t, d, "7168")}}, b = a;
    struct stem_out o = {0};
    stem_type_print(d, t, &a, &o);
    UNIT_SAME_TEXT(stem_out_text(&o), "bf16[T, 7168]");
    CU_ASSERT(stem_type_same(&a, &b));
    b.dim[1] = parse(t, d, "T");
    CU_ASSERT(!stem_type_same(&a, &b));
    stem_out_free(&o);
    stem_dims_free(d);
    stem_strtab_free(t);
}

UNIT_MAIN("dim", {"equal expressions are one", normal_forms}, {"printing", printing}, {"limits", limits},
          {"random expressions keep their value", random_expressions}, {"types", types})
