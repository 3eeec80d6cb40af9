/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_GQA_STORE_H
#define STEM_OPS_GQA_STORE_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_gqa_store;
void stem_gqa_store_reference(const struct stem_concrete *c, void *const *data);

#endif
