/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking several tensors of one (broadcast) shape at once, on the host and in generated device code. The result
 * is contiguous; each operand has its own strides, 0 where it is broadcast. Dims that all operands cross alike are
 * merged, so that most walks have one or two dims left.
 *
 * Device code walks in chunks of `width` elements of the last dim. Sizes and strides of all dims but the outermost
 * size are constants in the code, so one kernel serves every size of the outermost dim, which is where tokens are.
 */
#ifndef STEM_OPS_STRIDED_H
#define STEM_OPS_STRIDED_H

#include "ops/op.h"

struct stem_walk {
    uint32_t rank; /* at least 1 */
    int64_t dim[STEM_MAX_RANK];
    uint32_t n;                                       /* tensors: the operands, then the result */
    int64_t stride[STEM_MAX_OPERANDS][STEM_MAX_RANK]; /* in elements */
    uint64_t elements;
};

/* operand[n - 1] is the contiguous result; the others broadcast to its shape by numpy's rule. */
void stem_walk_init(struct stem_walk *w, const struct stem_tensor *operand, uint32_t n);
/* Offset in elements of tensor i at the start of row `row` (a row runs along the last dim). */
int64_t stem_walk_offset(const struct stem_walk *w, uint32_t i, uint64_t row);

/* Elements of a chunk, a power of two up to `most`: what the last size, the strides, and the tensors' offsets within
 * their buffers (which are aligned to 256 bytes) allow. */
uint32_t stem_walk_width(const struct stem_walk *w, const struct stem_tensor *operand, uint32_t most);
/* True if offsets need 64 bits. */
bool stem_walk_wide(const struct stem_walk *w);
/* Prints device statements that set `o0`, `o1`, .. to the offsets of each operand's elements for the element number
 * `e` (a variable of type `index`), the result excepted: its offset is e. */
void stem_walk_print(const struct stem_walk *w, const char *index, struct stem_out *o);

#endif
