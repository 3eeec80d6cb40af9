/* SPDX-License-Identifier: Apache-2.0
 *
 * Pointwise expressions: reading, computing, fusing.
 */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "ops/pointwise/expr.h"
#include "ops/ref.h"

static uint64_t seed = 7;

static uint32_t random_below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

static float random_float(void)
{
    return ((float)random_below(20001) - 10000.0f) / 2500.0f;
}

static const struct {
    const char *text;
    float in[3], value;
} values[] = {
    {"i0", {3}, 3},
    {"c:0.1", {0}, 0.1f},
    {"i0 i1 sub", {3, 5}, -2},
    {"i0 i1 i2 mul add", {1, 2, 3}, 7},
    {"i0 i1 div", {1, 3}, 1.0f / 3.0f},
    {"i0 neg abs", {-3}, 3},
    {"i0 relu", {-3}, 0},
    {"i0 i1 min", {2, -1}, -1},
    {"i0 i1 max", {2, -1}, 2},
    {"i0 i1 max", {NAN, 1}, NAN},
    {"i0 i1 max", {1, NAN}, NAN},
    {"i0 i1 min", {1, NAN}, NAN},
    {"i0 relu", {NAN}, NAN},
    {"i0 sqrt", {2}, 1.41421354f},
    {"i0 rsqrt", {4}, 0.5f},
    {"i0 exp", {1}, 2.71828175f},
    {"i0 log", {10}, 2.30258512f},
    {"i0 tanh", {0.5f}, 0.46211717f},
    {"i0 sigmoid", {0}, 0.5f},
    {"i0 silu", {1}, 0.731058578f},
    {"i0 silu", {-200}, -0.0f},
    {"i0 gelu", {1}, 0.841344746f},
    {"i0 gelu_tanh", {1}, 0.841192f},
    {"i0 as:bf16", {1.01f}, 1.0078125f},
    {"i0 as:f32", {1.01f}, 1.01f},
    {"i0 as:i32 as:f8e4m3", {449.6f}, 448},
};

static void expressions(void)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct stem_expr e;
        const char *why;
        float scratch[STEM_EXPR_MAX_NODES], out;
        const float *in[3] = {&values[i].in[0], &values[i].in[1], &values[i].in[2]};
        CU_ASSERT_FATAL(stem_expr_parse(&e, values[i].text, &why));
        stem_expr_eval(&e, in, 1, scratch, &out);
        bool same =
            isnan(values[i].value) ? isnan(out) : fabsf(out - values[i].value) <= 2e-7f * fabsf(values[i].value);
        if (!same)
            fprintf(stderr, "\n%s = %.9g, not %.9g\n", values[i].text, out, values[i].value);
        CU_ASSERT(same);
    }
}

static const struct {
    const char *text, *why;
} no_expressions[] = {
    {"", "it is empty"},
    {"i0 i1", "more than one value is left over"},
    {"add", "an operation without arguments"},
    {"i0 add", "an operation without arguments"},
    {"as:bf16", "an operation without arguments"},
    {"i0 as:nvfp4", "an unknown token, or too many"},
    {"i0 as:f12", "an unknown token, or too many"},
    {"i0 sin", "an unknown token, or too many"},
    {"i15", "an unknown token, or too many"},
    {"i01", "an unknown token, or too many"},
    {"i-1", "an unknown token, or too many"},
    {"c:", "an unknown token, or too many"},
    {"c:1x", "an unknown token, or too many"},
    {" i0", "a token that is too long, or blanks where none belong"},
    {"i0 ", "a token that is too long, or blanks where none belong"},
    {"i0  neg", "a token that is too long, or blanks where none belong"},
    {"i0 nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnneg", "a token that is too long, or blanks where none belong"},
};

static void bad_expressions(void)
{
    struct stem_expr e;
    const char *why;
    for (size_t i = 0; i < sizeof no_expressions / sizeof *no_expressions; i++) {
        CU_ASSERT(!stem_expr_parse(&e, no_expressions[i].text, &why));
        UNIT_SAME_TEXT(why, no_expressions[i].why);
    }
    char text[STEM_EXPR_MAX_NODES * 4 + 8] = "i0";
    for (int i = 1; i < STEM_EXPR_MAX_NODES; i++)
        strcat(text, " neg");
    CU_ASSERT(stem_expr_parse(&e, text, &why));
    strcat(text, " neg");
    CU_ASSERT(!stem_expr_parse(&e, text, &why));
}

static const struct {
    const char *consumer;
    uint32_t consumer_map[3], which;
    const char *producer;
    uint32_t producer_map[2];
    enum stem_dtype stored;
    const char *fused;
} fusions[] = {
    {"i0 i1 add", {0, 1}, 1, "i0 silu", {1}, STEM_BF16, "i0 i1 silu as:bf16 add"},
    {"i0 i1 add", {0, 1}, 1, "i0 silu", {1}, STEM_F32, "i0 i1 silu add"},
    {"i0 i1 add", {0, 2}, 0, "i0 i1 mul", {0, 1}, STEM_F16, "i0 i1 mul as:f16 i2 add"},
    {"i0 i0 mul", {0}, 0, "i0 c:0.5 mul", {3}, STEM_BF16, "i3 c:0.5 mul as:bf16 i3 c:0.5 mul as:bf16 mul"},
    {"i2 i0 sub", {5, 9, 4}, 1, "i0", {7}, STEM_I32, "i4 i5 sub"},
    {"i0 as:i32", {0}, 0, "i0 as:f32", {2}, STEM_F32, "i2 as:f32 as:i32"}, /* of an integer that is rounded on the way */
    {"i0 as:i32", {0}, 0, "i0 c:1 add as:f32", {2}, STEM_F32, "i2 c:1 add as:i32"},
};

static void fusing(void)
{
    struct stem_arena *a = stem_arena_new();
    for (size_t i = 0; i < sizeof fusions / sizeof *fusions; i++) {
        const char *text = stem_expr_compose(a, fusions[i].consumer, fusions[i].consumer_map, fusions[i].which,
                                             fusions[i].producer, fusions[i].producer_map, fusions[i].stored);
        UNIT_SAME_TEXT(text ? text : "(none)", fusions[i].fused);
    }
    /* Doubling again and again stops before the text explodes. */
    const char *text = "i0 i0 add";
    int n = 0;
    for (; text && n < 100; n++)
        text = stem_expr_compose(a, "i0 i0 add", (uint32_t[]){0}, 0, text, (uint32_t[]){0}, STEM_F32);
    CU_ASSERT(n < 10);
    UNIT_SAME_TEXT(stem_expr_rename(a, "i0 i1 sub", (uint32_t[]){1, 0}), "i1 i0 sub");
    stem_arena_free(a);
}

/* Random expressions: fused in one, and computed one after the other with a store between, the same bits. */
static void fusing_changes_no_bit(void)
{
    static const enum stem_dtype stored[] = {STEM_F32, STEM_BF16, STEM_F16, STEM_F8E4M3, STEM_I32};
    struct stem_arena *a = stem_arena_new();
    for (int round = 0; round < 500; round++) {
        struct stem_expr e[2] = {{.n = 0}}, both;
        const char *text[2], *why;
        for (int k = 0; k < 2; k++) {
            uint32_t node[8], n = 0;
            struct stem_out o = {0};
            node[n++] = stem_expr_input(&e[k], 0);
            node[n++] = stem_expr_input(&e[k], 1);
            node[n++] = stem_expr_const(&e[k], random_float());
            while (n < 8) {
                enum stem_expr_fn fn = (enum stem_expr_fn)random_below(STEM_N_FN);
                uint32_t last = node[n - 1], other = node[random_below(n)];
                node[n++] = stem_expr_call(&e[k], fn, last, other);
            }
            stem_expr_print(&e[k], &o);
            text[k] = stem_arena_strdup(a, stem_out_text(&o));
            stem_out_free(&o);
        }
        enum stem_dtype t = stored[random_below(5)];
        const char *fused = stem_expr_compose(a, text[1], (uint32_t[]){0, 1}, 0, text[0], (uint32_t[]){1, 0}, t);
        if (!fused)
            continue;
        CU_ASSERT_FATAL(stem_expr_parse(&both, fused, &why));
        float x = random_float(), y = random_float(), scratch[2 * STEM_EXPR_MAX_NODES], mid, two, one;
        stem_expr_eval(&e[0], (const float *[]){&y, &x}, 1, scratch, &mid);
        mid = stem_ref_round(t, mid);
        stem_expr_eval(&e[1], (const float *[]){&mid, &y}, 1, scratch, &two);
        stem_expr_eval(&both, (const float *[]){&x, &y}, 1, scratch, &one);
        CU_ASSERT((isnan(one) && isnan(two)) || !memcmp(&one, &two, sizeof one));
    }
    stem_arena_free(a);
}

UNIT_MAIN("expr", {"values", expressions}, {"what is no expression", bad_expressions}, {"fusing", fusing},
          {"fusing changes no bit", fusing_changes_no_bit})
