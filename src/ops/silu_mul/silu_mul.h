/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_SILU_MUL_H
#define STEM_OPS_SILU_MUL_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_silu_mul;
void stem_silu_mul_reference(const struct stem_concrete *c, void *const *data);

#endif
