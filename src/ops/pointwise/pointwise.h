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
void stem_pointwise_reference(const struct stem_concrete *c, void *const *data);

#endif
