/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_POINTWISE_H
#define STEM_OPS_POINTWISE_H

#include "ops/op.h"
#include "ops/pointwise/expr.h"

extern const struct stem_op_def stem_op_pointwise;
void stem_pointwise_lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                          struct stem_lowered *l);
/* Device statements that compute the expression: float t0 .. from the inputs, float a0 ..; the last is the value. */
void stem_pointwise_print(const struct stem_expr *e, struct stem_out *o);
/* That, and then `target` = the value as a `result`. `whole` is stem_expr_whole's answer, `raw` the input that it names, NULL
 * if that is no integer. */
void stem_pointwise_print_store(const struct stem_expr *e, uint32_t whole, const char *raw, enum stem_dtype result,
                                const char *target, struct stem_out *o);
/* The same on the host, of `count` places from element `to` of y; arguments as of stem_expr_eval. `whole` names no input. */
void stem_pointwise_finish(const struct stem_expr *e, uint32_t whole, const float *const *in, uint32_t count,
                           float *scratch, float *out, enum stem_dtype result, void *y, int64_t to);
void stem_pointwise_reference(const struct stem_concrete *c, void *const *data);

#endif
