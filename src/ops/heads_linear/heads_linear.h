/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_HEADS_LINEAR_H
#define STEM_OPS_HEADS_LINEAR_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_heads_linear;
void stem_heads_linear_reference(const struct stem_concrete *c, void *const *data);

#endif
