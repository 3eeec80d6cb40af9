/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/strided.h"

#include <string.h>

#include "ops/rule.h"

/* Stride of operand `t` along the result's dim i of rank `rank`. */
static int64_t stride_along(const struct stem_tensor *t, uint32_t i, uint32_t rank, int64_t size)
{
    if (i + t->rank < rank)
        return 0;
    uint32_t k = i + t->rank - rank;
    return t->dim[k] == 1 && size != 1 ? 0 : t->stride[k];
}

/* Whether dims a and b (the next inner one) can be walked as one. */
static bool mergeable(const struct stem_walk *w, uint32_t a, uint32_t b)
{
    for (uint32_t k = 0; k < w->n; k++)
        if (w->stride[k][a] != w->stride[k][b] * w->dim[b])
            return false;
    return true;
}

static void move_dim(struct stem_walk *w, uint32_t to, uint32_t from)
{
    w->dim[to] = w->dim[from];
    for (uint32_t k = 0; k < w->n; k++)
        w->stride[k][to] = w->stride[k][from];
}

void stem_walk_init(struct stem_walk *w, const struct stem_tensor *operand, uint32_t n)
{
    const struct stem_tensor *result = &operand[n - 1];
    *w = (struct stem_walk){.n = n, .elements = stem_tensor_elements(result)};
    uint32_t out = 0;
    for (uint32_t i = 0; i < result->rank; i++) {
        if (i && result->dim[i] == 1) /* an outermost 1 stays: kernels are shared over its size */
            continue;
        w->dim[out] = result->dim[i];
        for (uint32_t k = 0; k < n; k++)
            w->stride[k][out] = stride_along(&operand[k], i, result->rank, result->dim[i]);
        if (out && mergeable(w, out - 1, out)) {
            int64_t size = w->dim[out - 1] * w->dim[out];
            move_dim(w, out - 1, out);
            w->dim[out - 1] = size;
        } else {
            out++;
        }
    }
    if (out == 0) {
        w->dim[out++] = 1;
        for (uint32_t k = 0; k < n; k++)
            w->stride[k][0] = 1;
    }
    w->rank = out;
}

int64_t stem_walk_offset(const struct stem_walk *w, uint32_t i, uint64_t row)
{
    int64_t offset = 0;
    for (uint32_t d = w->rank - 1; d-- > 0;) {
        offset += (int64_t)(row % (uint64_t)w->dim[d]) * w->stride[i][d];
        row /= (uint64_t)w->dim[d];
    }
    return offset;
}

uint32_t stem_walk_width(const struct stem_walk *w, const struct stem_tensor *operand, uint32_t most)
{
    uint32_t last = w->rank - 1, width = stem_vector_width((uint64_t)w->dim[last], most);
    for (uint32_t k = 0; k < w->n; k++) {
        uint32_t bytes = stem_dtype_bits(operand[k].dtype) / 8;
        if (w->stride[k][last] > 1)
            return 1;
        if (w->stride[k][last] == 0)
            continue;
        while (width > 1 && operand[k].offset % (width * bytes))
            width /= 2;
        for (uint32_t d = 0; d < last; d++)
            width = stem_vector_width((uint64_t)w->stride[k][d], width);
    }
    return width;
}

bool stem_walk_wide(const struct stem_walk *w)
{
    const uint64_t limit = UINT64_C(1) << 30;
    for (uint32_t k = 0; k < w->n; k++) {
        uint64_t last = 0;
        for (uint32_t d = 0; d < w->rank; d++)
            last += (uint64_t)(w->dim[d] - 1) * (uint64_t)w->stride[k][d];
        if (last >= limit)
            return true;
    }
    return w->elements >= limit;
}

/* Whether tensor k is walked exactly as the result is. */
static bool like_result(const struct stem_walk *w, uint32_t k)
{
    return !memcmp(w->stride[k], w->stride[w->n - 1], w->rank * sizeof w->stride[k][0]);
}

void stem_walk_print(const struct stem_walk *w, const char *index, struct stem_out *o)
{
    bool coordinates = false;
    for (uint32_t k = 0; k + 1 < w->n; k++)
        coordinates |= !like_result(w, k);
    if (coordinates) {
        stem_out_printf(o, "    %s d0 = e;\n", index);
        for (uint32_t d = w->rank; --d > 0;)
            stem_out_printf(o, "    %s d%u = d0 %% %lld;\n    d0 /= %lld;\n", index, d, (long long)w->dim[d],
                            (long long)w->dim[d]);
    }
    for (uint32_t k = 0; k + 1 < w->n; k++) {
        stem_out_printf(o, "    %s o%u = ", index, k);
        const char *plus = "";
        if (like_result(w, k)) {
            stem_out_str(o, "e");
            plus = " + ";
        }
        for (uint32_t d = 0; d < w->rank && !like_result(w, k); d++) {
            if (!w->stride[k][d])
                continue;
            stem_out_printf(o, "%sd%u", plus, d);
            if (w->stride[k][d] != 1)
                stem_out_printf(o, " * %lld", (long long)w->stride[k][d]);
            plus = " + ";
        }
        stem_out_str(o, *plus ? ";\n" : "0;\n");
    }
}
