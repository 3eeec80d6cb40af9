/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_MATMUL_H
#define STEM_OPS_MATMUL_H

#include "ops/op.h"

/* Bytes that cuBLASLt may use while it multiplies: with more it chose no faster kernels for any shape that was tried. */
#define STEM_MATMUL_WORKSPACE ((int64_t)4 << 20)

extern const struct stem_op_def stem_op_matmul;

/* Whether cuBLASLt can do what `linear` does with these operands (x, w, whatever follows, y); else *why says what is
 * in the way. */
bool stem_matmul_can(const struct stem_concrete *linear, const char **why);

#endif
