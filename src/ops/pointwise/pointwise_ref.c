/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/pointwise/expr.h"
#include "ops/pointwise/pointwise.h"
#include "ops/ref.h"
#include "ops/strided.h"

enum { CHUNK = 256 };

/* The value x through the casts behind the node `whole`, into element `to` of y. */
static void cast(const struct stem_expr *e, uint32_t whole, int64_t x, enum stem_dtype result, void *y, int64_t to)
{
    int64_t one[1];
    for (uint32_t n = whole + 1; n < e->n; n++) {
        stem_ref_store_int(e->node[n].as, one, 0, x);
        x = stem_ref_load_int(e->node[n].as, one, 0);
    }
    stem_ref_store_int(result, y, to, x);
}

void stem_pointwise_finish(const struct stem_expr *e, uint32_t whole, const float *const *in, uint32_t count,
                           float *scratch, float *out, enum stem_dtype result, void *y, int64_t to)
{
    struct stem_expr value = *e;
    if (whole == UINT32_MAX) {
        stem_expr_eval(e, in, count, scratch, out);
        stem_ref_store_row(result, y, to, count, out);
        return;
    }
    value.n = whole + 1;
    stem_expr_eval(&value, in, count, scratch, out);
    for (uint32_t i = 0; i < count; i++) {
        int64_t one[1];
        enum stem_dtype first = e->node[whole + 1].as; /* there is one: a float is rounded by it */
        stem_ref_store(first, one, 0, out[i]);
        cast(e, whole + 1, stem_ref_load_int(first, one, 0), result, y, to + i);
    }
}

void stem_pointwise_reference(const struct stem_concrete *c, void *const *data)
{
    struct stem_walk w;
    struct stem_expr e;
    const char *why;
    uint32_t n = c->n_in;
    enum stem_dtype type[STEM_MAX_OPERANDS];
    const float *in[STEM_MAX_OPERANDS];
    float *memory = stem_xmalloc((STEM_MAX_OPERANDS + STEM_EXPR_MAX_NODES) * CHUNK * sizeof *memory);
    float *out = memory + (STEM_MAX_OPERANDS - 1) * CHUNK, *scratch = memory + STEM_MAX_OPERANDS * CHUNK;
    if (!stem_expr_parse(&e, stem_op_attr(c->def, c->attrs, "expr")->text, &why))
        abort();
    for (uint32_t i = 0; i <= n; i++)
        type[i] = c->operand[i].dtype;
    uint32_t whole = stem_expr_whole(&e, type, type[n]);
    bool raw = whole != UINT32_MAX && stem_expr_whole_input(&e, type, whole);
    stem_walk_init(&w, c->operand, n + 1);
    uint64_t length = (uint64_t)w.dim[w.rank - 1];
    for (uint64_t row = 0; row < w.elements / length; row++)
        for (uint64_t col = 0; col < length; col += CHUNK) {
            uint32_t count = length - col < CHUNK ? (uint32_t)(length - col) : CHUNK;
            int64_t to = (int64_t)(row * length + col);
            for (uint32_t i = 0; i < n; i++) {
                int64_t step = w.stride[i][w.rank - 1], first = stem_walk_offset(&w, i, row) + (int64_t)col * step;
                in[i] = memory + i * CHUNK;
                stem_ref_load_row(type[i], data[i], first, step, count, memory + i * CHUNK);
                for (uint32_t k = 0; raw && i == e.node[whole].input && k < count; k++)
                    cast(&e, whole, stem_ref_load_int(type[i], data[i], first + k * step), type[n], data[n], to + k);
            }
            if (!raw)
                stem_pointwise_finish(&e, whole, in, count, scratch, out, type[n], data[n], to);
        }
    free(memory);
}
