/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_RMSNORM_H
#define STEM_OPS_RMSNORM_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_rmsnorm, stem_op_add_rmsnorm, stem_op_rmsnorm_quantize, stem_op_rmsnorm_quantize_keep;
void stem_rmsnorm_reference(const struct stem_concrete *c, void *const *data);

/* How a row is cut: chunks of `width` elements, `kept` of them in a thread's registers (0: it is read twice). */
enum { STEM_NORM_MAX_THREADS = 1024 };
struct stem_norm_shape {
    uint32_t width, threads, kept, rows;
};
/* Of x, the weight and y. */
struct stem_norm_shape stem_norm_shape(const struct stem_tensor *xwy);
/* Prints statements that set o0 to where row `row` of x begins. */
void stem_norm_print_row(const struct stem_tensor *x, const char *row, struct stem_out *o);

#endif
