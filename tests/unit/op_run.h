/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of references: an op on memory of its own, filled with random numbers.
 */
#ifndef STEM_TESTS_OP_RUN_H
#define STEM_TESTS_OP_RUN_H

#include <math.h>
#include <stdlib.h>

#include "ir/build.h"
#include "ops/epilogue.h"
#include "ops/ref.h"
#include "unit.h"

static uint64_t seed = 7;

static inline uint32_t random_below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

static inline float random_float(void)
{
    return ((float)random_below(20001) - 10000.0f) / 2500.0f;
}

/* An op on memory of its own: operands filled with random numbers of their types. */
struct run {
    const struct stem_op_def *def;
    struct stem_attr attrs[STEM_MAX_ATTRS];
    struct stem_tensor t[STEM_MAX_OPERANDS];
    void *data[STEM_MAX_OPERANDS];
    uint32_t n;
};

static inline void begin(struct run *r, const char *op)
{
    memset(r, 0, sizeof *r);
    r->def = stem_op_find(op);
    stem_op_attr_defaults(r->def, r->attrs);
}

static inline void operand(struct run *r, enum stem_dtype t, uint32_t rank, const int64_t *dim)
{
    CU_ASSERT_FATAL(stem_tensor_init(&r->t[r->n], t, rank, dim));
    r->t[r->n].buffer = r->n;
    uint64_t n = stem_tensor_elements(&r->t[r->n]);
    r->data[r->n] = stem_xmalloc(n * 8 + 8);
    for (uint64_t i = 0; i < n; i++)
        stem_ref_store(t, r->data[r->n], (int64_t)i, random_float());
    r->n++;
}

static inline float at(const struct run *r, uint32_t k, int64_t i)
{
    return stem_ref_load(r->t[k].dtype, r->data[k], i);
}

/* Calls the reference; the last operands are the results. */
static inline void execute_for(struct run *r, uint32_t n_out)
{
    struct stem_concrete c = {.def = r->def, .operand = r->t, .n_in = r->n - n_out, .n_out = n_out, .attrs = r->attrs,
                              .n_attrs = r->def->n_attrs};
    stem_op_reference(&c, r->data);
}

static inline void execute(struct run *r)
{
    execute_for(r, 1);
}

static inline void finish(struct run *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        free(r->data[i]);
}

static inline bool near(float a, double b, enum stem_dtype t)
{
    double eps = t == STEM_BF16 ? 0x1p-8 : t == STEM_F16 ? 0x1p-11 : 1e-6;
    return fabs(a - b) <= eps * fabs(b) + 1e-30;
}

#endif
