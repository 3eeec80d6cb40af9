/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_COPY_H
#define STEM_OPS_COPY_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_copy;
void stem_copy_reference(const struct stem_concrete *c, void *const *data);
/* The operand and the result as tensors of whole bytes: pairs of elements of 4 bits become u8. */
void stem_copy_bytes(const struct stem_concrete *c, struct stem_tensor *t);

#endif
