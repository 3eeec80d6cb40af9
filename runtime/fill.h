/* SPDX-License-Identifier: Apache-2.0
 *
 * Deterministic contents of external buffers, the same bits on every device. Element i of a buffer is a function of
 * (seed, name, i) and of the rule that follows from the buffer's kind, type and shape:
 *   weights of rank >= 2: uniform in +-sqrt(3 / last dim), so that a product keeps its variance
 *   weights of rank 0, 1: uniform in [0.5, 1.5), as gains are; those with "bias" in the last part of their name uniform
 *                         in [-0.05, 0.05), so that a router's choice depends on its scores
 *   inputs:               uniform in [-1, 1)
 *   nvfp4 of any kind:    uniform in [-6, 6), the range of its codes; element 2j is the low half of byte j
 *   int4 of any kind:     codes 1 .. 15 alike, 8 (zero) twice as often. A mean that is not zero would give all rows of a
 *                         product a part in common, which layer after layer makes larger until all tokens are alike
 *   f8e4m3 weights of rank >= 2: uniform in [-448, 448)
 *   weights with "scale" in the last part of their name: uniform in [0.5, 1.5) times what lets a product with the weight
 *                         that they scale keep its variance: for f32 (of f8e4m3 weights, 128 columns each) sqrt(3 /
 *                         (128 * last dim)) / 448, for bf16 (of int4, 32 columns) sqrt(3 / (32 * last dim)) / 8; 1 for
 *                         f8e4m3 (of nvfp4); with "scale_2", a whole tensor's, 1/256
 *   integer inputs:       element i is i, so that slots and token ids are distinct; u8 wraps. If the ops say which values
 *                         make sense, low..high: high - i * s mod n, n how many these are, s about 0.62 n without a
 *                         factor in common: distinct as long as possible, and spread over all
 *   state, temporaries, outputs, other integers: zero
 * rounded to the type. Bytes beyond the elements are zero. C11, no dependence but libm's sqrt.
 */
#ifndef STEM_RUNTIME_FILL_H
#define STEM_RUNTIME_FILL_H

#include <math.h>
#include <string.h>

#include "plan.h"

#define STEM_FILL_FN static inline
#define STEM_FILL_CODE(...) __VA_ARGS__
#include "fill_code.h"
#undef STEM_FILL_CODE

/* FNV-1a over the name, then the seed mixed in. */
static inline unsigned long long stem_fill_key(const char *name, uint64_t seed)
{
    unsigned long long h = 0xcbf29ce484222325ull;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
    return h ^ (seed * 0x9E3779B97F4A7C15ull);
}

static inline uint64_t stem_fill_elements(const struct stem_plan_buffer *b)
{
    struct stem_tensor t = {.dtype = b->dtype, .rank = b->rank};
    memcpy(t.dim, b->dim, sizeof t.dim);
    uint64_t n = stem_tensor_elements(&t), bits = stem_dtype_bits(b->dtype);
    uint64_t room = b->bytes / bits * 8 + b->bytes % bits * 8 / bits;
    return n < room ? n : room; /* never past the buffer's end, whatever its dims say */
}

static inline bool stem_fill_is_called(const struct stem_plan_buffer *b, const char *what)
{
    const char *dot = strrchr(b->name, '.');
    return b->kind == STEM_BUFFER_WEIGHT && strstr(dot ? dot : b->name, what);
}

/* Centre of a scale's values. */
static inline float stem_fill_scale(const struct stem_plan_buffer *b)
{
    double last = b->rank && b->rank <= STEM_MAX_RANK && b->dim[b->rank - 1] > 0 ? (double)b->dim[b->rank - 1] : 1;
    if (stem_fill_is_called(b, "scale_2"))
        return 1.0f / 256;
    return (float)(b->dtype == STEM_F32    ? sqrt(3.0 / (128 * last)) / 448
                   : b->dtype == STEM_BF16 ? sqrt(3.0 / (32 * last)) / 8
                                           : 1);
}

static inline struct stem_fill_rule stem_fill_rule(const struct stem_plan_buffer *b, uint64_t seed)
{
    static const struct {
        int mantissa, bias;
        unsigned largest;
    } form[STEM_N_DTYPES] = {
        [STEM_F32] = {23, 127, 0},    [STEM_F16] = {10, 15, 0x7bff}, [STEM_BF16] = {7, 127, 0x7f7f},
        [STEM_F8E4M3] = {3, 7, 0x7e}, [STEM_NVFP4] = {1, 1, 7},      [STEM_INT4] = {0, 0, 15},
    };
    struct stem_fill_rule r = {
        .key = stem_fill_key(b->name, seed),
        .scale = 1,
        .bits = (int)stem_dtype_bits(b->dtype),
        .mantissa = form[b->dtype].mantissa,
        .bias = form[b->dtype].bias,
        .largest = form[b->dtype].largest,
    };
    bool real = r.mantissa != 0;
    if (real && (b->kind == STEM_BUFFER_WEIGHT || b->kind == STEM_BUFFER_INPUT))
        r.mode = b->kind == STEM_BUFFER_WEIGHT && b->rank < 2 ? 2 : 1;
    if (b->kind == STEM_BUFFER_WEIGHT && b->rank >= 2 && b->rank <= STEM_MAX_RANK && b->dim[b->rank - 1] > 0)
        r.scale = (float)sqrt(3.0 / (double)b->dim[b->rank - 1]);
    if (r.mode == 1 && b->dtype == STEM_F8E4M3 && b->kind == STEM_BUFFER_WEIGHT)
        r.scale = 448;
    if (r.mode && stem_fill_is_called(b, "scale")) {
        r.mode = 2;
        r.scale = stem_fill_scale(b);
    } else if (r.mode == 2 && stem_fill_is_called(b, "bias")) {
        r.mode = 1;
        r.scale = 0.05f;
    }
    if (b->dtype == STEM_NVFP4) {
        r.mode = r.mode ? 1 : 0;
        r.scale = 6;
    }
    if (b->dtype == STEM_INT4)
        r.mode = b->kind == STEM_BUFFER_WEIGHT || b->kind == STEM_BUFFER_INPUT ? 3 : 0;
    return r;
}

/* Integer inputs are counted, on the host: they are small. */
static inline bool stem_fill_counts(const struct stem_plan_buffer *b)
{
    return b->kind == STEM_BUFFER_INPUT &&
           (b->dtype == STEM_I32 || b->dtype == STEM_I64 || b->dtype == STEM_U8);
}

/* 0: the buffer has no range. */
static inline uint64_t stem_fill_step(const struct stem_plan_buffer *b)
{
    if ((b->low == 0 && b->high == 0) || b->high < b->low || b->high > INT32_MAX || b->low < INT32_MIN)
        return 0;
    uint64_t n = (uint64_t)(b->high - b->low) + 1, step = n * 618 / 1000 + 1;
    for (;; step--) {
        uint64_t x = n, y = step;
        while (y) {
            uint64_t rest = x % y;
            x = y;
            y = rest;
        }
        if (x == 1)
            return step;
    }
}

static inline void stem_fill_count(const struct stem_plan_buffer *b, void *data)
{
    uint64_t n = stem_fill_elements(b), step = stem_fill_step(b), range = (uint64_t)b->high - (uint64_t)b->low + 1, at = 0;
    for (uint64_t i = 0; i < n; i++) {
        int64_t v = step ? b->high - (int64_t)at : (int64_t)i;
        at = step ? (at + step) % range : 0;
        if (b->dtype == STEM_I64)
            ((int64_t *)data)[i] = v;
        else if (b->dtype == STEM_I32)
            ((int32_t *)data)[i] = (int32_t)v;
        else
            ((uint8_t *)data)[i] = (uint8_t)v;
    }
}

/* Fills b->bytes bytes of host memory. */
static inline void stem_fill_host(const struct stem_plan_buffer *b, uint64_t seed, void *data)
{
    struct stem_fill_rule r = stem_fill_rule(b, seed);
    memset(data, 0, b->bytes);
    if (stem_fill_counts(b)) {
        stem_fill_count(b, data);
        return;
    }
    uint64_t n = r.mode ? stem_fill_elements(b) : 0;
    for (uint64_t i = 0; i < n; i++) {
        unsigned code = stem_fill_element(&r, i);
        if (r.bits == 32)
            ((uint32_t *)data)[i] = code;
        else if (r.bits == 16)
            ((uint16_t *)data)[i] = (uint16_t)code;
        else if (r.bits == 8)
            ((uint8_t *)data)[i] = (uint8_t)code;
        else
            ((uint8_t *)data)[i / 2] |= (uint8_t)(code << (i % 2 * 4));
    }
}

#endif
