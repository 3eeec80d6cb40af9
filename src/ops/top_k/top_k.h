/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_TOP_K_H
#define STEM_OPS_TOP_K_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_top_k;
void stem_top_k_reference(const struct stem_concrete *c, void *const *data);

#endif
