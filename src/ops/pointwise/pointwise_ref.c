/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/pointwise/expr.h"
#include "ops/pointwise/pointwise.h"
#include "ops/ref.h"
#include "ops/strided.h"

enum { CHUNK = 256 };

void stem_pointwise_reference(const struct stem_concrete *c, void *const *data)
{
    struct stem_walk w;
    struct stem_expr e;
    const char *why;
    uint32_t n = c->n_in;
    const float *in[STEM_MAX_OPERANDS];
    float *memory = stem_xmalloc((STEM_MAX_OPERANDS + STEM_EXPR_MAX_NODES) * CHUNK * sizeof *memory);
    float *out = memory + (STEM_MAX_OPERANDS - 1) * CHUNK, *scratch = memory + STEM_MAX_OPERANDS * CHUNK;
    if (!stem_expr_parse(&e, stem_op_attr(c->def, c->attrs, "expr")->text, &why))
        abort();
    stem_walk_init(&w, c->operand, n + 1);
    uint64_t length = (uint64_t)w.dim[w.rank - 1];
    for (uint64_t row = 0; row < w.elements / length; row++)
        for (uint64_t col = 0; col < length; col += CHUNK) {
            uint32_t count = length - col < CHUNK ? (uint32_t)(length - col) : CHUNK;
            for (uint32_t i = 0; i < n; i++) {
                int64_t step = w.stride[i][w.rank - 1];
                in[i] = memory + i * CHUNK;
                stem_ref_load_row(c->operand[i].dtype, data[i], stem_walk_offset(&w, i, row) + (int64_t)col * step,
                                  step, count, memory + i * CHUNK);
            }
            stem_expr_eval(&e, in, count, scratch, out);
            stem_ref_store_row(c->operand[n].dtype, data[n], (int64_t)(row * length + col), count, out);
        }
    free(memory);
}
