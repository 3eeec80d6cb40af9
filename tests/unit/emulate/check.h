/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of device code have in common: arrays of random numbers, calls of C references, comparison. After
 * common.cuh, whose conversions it uses.
 */
#ifndef STEM_TESTS_EMULATE_CHECK_H
#define STEM_TESTS_EMULATE_CHECK_H

extern "C" {
#include "ops/epilogue.h"
}

typedef __nv_bfloat16 bf16;

[[maybe_unused]] static int failures, checks;

/* ---- arrays, and calling references ---- */

static uint64_t seed = 7;
static float uniform()
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(int32_t)(seed >> 32) / 2147483648.0f;
}
static void put(float &p, float v)
{
    p = v;
}
static void put(int &p, float v)
{
    p = (int)v;
}
static void put(bf16 &p, float v)
{
    p = __float2bfloat16_rn(v);
}
static void put(__half &p, float v)
{
    p = __float2half_rn(v);
}
template <class E> struct alignas(16) piece {
    E at[16 / sizeof(E)];
};
/* 16-byte aligned, as buffers are. */
template <class E> struct array {
    std::vector<piece<E>> pieces;
    size_t n;
    explicit array(size_t count, float amplitude = 0) : pieces(count * sizeof(E) / 16 + 1), n(count)
    {
        memset((void *)data(), 0xff, count * sizeof(E));
        for (size_t i = 0; amplitude != 0 && i < count; i++)
            put(data()[i], uniform() * amplitude);
    }
    E *data() { return (E *)pieces.data(); }
};
static enum stem_dtype type_of(const float *)
{
    return STEM_F32;
}
static enum stem_dtype type_of(const bf16 *)
{
    return STEM_BF16;
}
static enum stem_dtype type_of(const __half *)
{
    return STEM_F16;
}
static enum stem_dtype type_of(const int *)
{
    return STEM_I32;
}

struct reference {
    const struct stem_op_def *def;
    struct stem_tensor tensor[STEM_MAX_OPERANDS] = {};
    void *data[STEM_MAX_OPERANDS] = {};
    struct stem_attr attrs[STEM_MAX_ATTRS];
    uint32_t n = 0;
    explicit reference(const char *op) : def(stem_op_find(op)) { stem_op_attr_defaults(def, attrs); }
    template <class E> reference &operand(E *p, std::vector<int64_t> dim)
    {
        struct stem_tensor &t = tensor[n];
        t.dtype = type_of(p);
        t.rank = (uint32_t)dim.size();
        int64_t stride = 1;
        for (size_t i = dim.size(); i-- > 0; stride *= dim[i]) {
            t.dim[i] = dim[i];
            t.stride[i] = stride;
        }
        data[n++] = (void *)p;
        return *this;
    }
    /* Of a type that has no C++ type here. */
    reference &raw(enum stem_dtype type, const void *p, std::vector<int64_t> dim)
    {
        operand((int *)p, dim);
        tensor[n - 1].dtype = type;
        return *this;
    }
    reference &absent()
    {
        tensor[n].rank = tensor[n].buffer = STEM_NONE;
        data[n++] = nullptr;
        return *this;
    }
    reference &set(const char *name, double v)
    {
        struct stem_attr *a = (struct stem_attr *)stem_op_attr(def, attrs, name);
        a->f = v;
        a->i = (int64_t)v;
        return *this;
    }
    reference &set(const char *name, const char *v)
    {
        ((struct stem_attr *)stem_op_attr(def, attrs, name))->text = v;
        return *this;
    }
    void run(uint32_t n_out)
    {
        struct stem_concrete c = {def, tensor, n - n_out, n_out, attrs, def->n_attrs};
        stem_op_reference(&c, data);
    }
};

template <class E> static void compare(const char *what, array<E> &got, array<E> &want, array<E> &again, double bound)
{
    double d = 0, s = 0;
    for (size_t i = 0; i < got.n; i++) {
        double a = stem_float(got.data()[i]), b = stem_float(want.data()[i]);
        if (a == b && b - b != 0) /* the same infinity */
            continue;
        d += (a - b) * (a - b);
        s += b * b;
    }
    double error = sqrt(d / (s + 1e-30));
    bool same = memcmp(got.data(), again.data(), got.n * sizeof(E)) == 0, good = same && error < bound;
    checks++;
    failures += !good;
    if (!good)
        printf("FAIL %s: error %.3g%s\n", what, error, same ? "" : ", bits differ");
}
template <class E> static double bound_of(const E *)
{
    return type_of((const E *)0) == STEM_F32 ? 1e-5 : 4e-3;
}

/* ---- what several kernels are tested with ---- */

/* What a lowering makes of "i0 i1 add as:bf16 i2 add", and with PAIR of "i0 i1 mul i2 add as:bf16 i3 add". */
template <bool PAIR> struct add_store {
    const bf16 *e0;
    const float *e1;
    bf16 *y;
    long long n;
    void operator()(int row, int column, float v, float u) const
    {
        float a = stem_float(stem_round<bf16>::from(v)), b = stem_float(stem_round<bf16>::from(u));
        float t = (PAIR ? a * b : a) + stem_float(e0[row * n + column]);
        y[row * n + column] = stem_round<bf16>::from(stem_float(stem_round<bf16>::from(t)) + e1[column]);
    }
};

struct mixture {
    int tokens, k, experts, hidden, inter;
    bool wild; /* ids out of range and repeated */
};

[[maybe_unused]] static array<int> choose(const mixture &d)
{
    array<int> ids((size_t)d.tokens * d.k);
    for (int t = 0; t < d.tokens; t++)
        for (int j = 0; j < d.k; j++) {
            int *row = ids.data() + t * d.k, id;
            bool taken;
            do {
                id = (int)((uniform() + 1) / 2 * (float)d.experts) % d.experts;
                taken = false;
                for (int q = 0; q < j; q++)
                    taken |= row[q] == id;
            } while (taken && !d.wild);
            row[j] = d.wild && uniform() > 0.7f ? (uniform() > 0 ? d.experts : -1) : id;
        }
    return ids;
}

#endif
