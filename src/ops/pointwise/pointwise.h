/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_POINTWISE_H
#define STEM_OPS_POINTWISE_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_pointwise;
void stem_pointwise_lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                          struct stem_lowered *l);
void stem_pointwise_reference(const struct stem_concrete *c, void *const *data);

#endif
