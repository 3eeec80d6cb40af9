/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_QUANTIZE_F8_H
#define STEM_OPS_QUANTIZE_F8_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_quantize_f8;
void stem_quantize_f8_reference(const struct stem_concrete *c, void *const *data);
/* Of rows of n floats: their codes, and the scales of each 128 columns. */
void stem_ref_quantize_f8(const float *row, uint64_t n, void *code, int64_t first, float *scale);
/* The types of codes and scales for x. */
void stem_quantize_f8_types(struct stem_infer *c, const struct stem_type *x, struct stem_type *code, struct stem_type *scale);

#endif
