/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_RMSNORM_H
#define STEM_OPS_RMSNORM_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_rmsnorm;
void stem_rmsnorm_reference(const struct stem_concrete *c, void *const *data);

#endif
