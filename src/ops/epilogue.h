/* SPDX-License-Identifier: Apache-2.0
 *
 * Epilogues: an op with def->epilogue may put each element of its result through a pointwise expression (expr.h)
 * before it is stored, with further operands. Only the fuse pass makes these; nothing in the language does.
 *
 *     then       the expression, NULL: none. i0 is the element as the op alone would have stored it; with `halves` it
 *                is that of the first half of the last dim, i1 that of the second; then come the operands after
 *                def->params
 *     then_of    element type of the result of the op alone
 *     then_type  element type of what is stored
 *     halves     "1": the result's last dim is half as long
 *
 * A further operand is contiguous and has the result's shape, or one that broadcasts along all but the last dim. Type
 * rule, cost and reference of the op know nothing of all this: they see the op alone.
 */
#ifndef STEM_OPS_EPILOGUE_H
#define STEM_OPS_EPILOGUE_H

#include "ops/op.h"
#include "ops/pointwise/expr.h"

struct stem_epilogue {
    struct stem_expr expr;
    enum stem_dtype of, type;
    bool pair;      /* halves */
    uint32_t first; /* input of the expression that the first further operand is */
};

/* False if the op has none; for well-formed attributes only. */
bool stem_epilogue_get(const struct stem_op_def *def, const struct stem_attr *attrs, struct stem_epilogue *e);
/* How a further operand meets a result: element for element, or one for each place of the last dim; or not at all. */
enum stem_meets { STEM_MEETS_ALL, STEM_MEETS_LAST, STEM_MEETS_NOT };
enum stem_meets stem_epilogue_meets(const struct stem_tensor *more, const struct stem_tensor *result);
/* The type rule, after that of the op: c->out[0] becomes what is stored. */
bool stem_epilogue_infer(struct stem_infer *c, const struct stem_op_def *def);

/* The op alone, as cost and reference see it; `tensor` has room for STEM_MAX_OPERANDS. The result has no buffer. */
void stem_epilogue_base(const struct stem_concrete *c, const struct stem_epilogue *e, struct stem_tensor *tensor,
                        struct stem_concrete *base);
/* Cost and reference of any op, with its epilogue if it has one. */
void stem_op_cost(const struct stem_concrete *c, struct stem_cost *cost);
void stem_op_reference(const struct stem_concrete *c, void *const *data);

/* How a kernel stores (stem_store_plain in stream.cuh). Kernel parameters are the op's own inputs, `params`, the result. */
struct stem_store {
    bool pair;
    const char *name;   /* for the kernel's name: "", or "_" and a hash of everything below */
    const char *params; /* "", or "const __nv_bfloat16 *e0, " and so on */
    const char *make;   /* an expression: the functor, from e0.., y and `columns` */
};
/* `define` gets what must stand before the kernel; `kernel` is the kernel's name without the store's, `columns` the name
 * of what says how long the last dim of the op alone is. */
void stem_epilogue_store(const struct stem_concrete *c, const char *kernel, const char *columns,
                         struct stem_arena *arena, struct stem_store *s, const char **define);

#endif
