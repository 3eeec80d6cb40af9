/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference of attention_heads: those of its two ops, one after the other.
 */
#include <stdlib.h>

#include "ops/attention/attention.h"
#include "ops/attention_heads/attention_heads.h"
#include "ops/heads_linear/heads_linear.h"
#include "ops/linear/linear.h"
#include "ops/ref.h"

void stem_attention_heads_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *acc = &c->operand[0], *w = &c->operand[3], *y = &c->operand[4];
    struct stem_tensor sum = {.dtype = w->dtype, .rank = 3, .dim = {y->dim[0], y->dim[1], acc->dim[2]}};
    sum.stride[2] = 1;
    sum.stride[1] = sum.dim[2];
    sum.stride[0] = sum.dim[1] * sum.dim[2];
    struct stem_tensor combine[] = {*acc, c->operand[1], c->operand[2], sum}, heads[] = {sum, *w, *y};
    struct stem_attr attrs[STEM_MAX_ATTRS];
    void *x = stem_ref_alloc(stem_tensor_extent(&sum));
    /* its own attributes are the first ones of this op, in the same order */
    struct stem_concrete first = {.def = &stem_op_attention_combine, .operand = combine, .n_in = 3, .n_out = 1,
                                  .attrs = c->attrs, .n_attrs = stem_op_attention_combine.n_attrs};
    stem_attention_combine_reference(&first, (void *const[]){data[0], data[1], data[2], x});
    stem_op_attr_defaults(&stem_op_heads_linear, attrs);
    struct stem_concrete second = {.def = &stem_op_heads_linear, .operand = heads, .n_in = 2, .n_out = 1, .attrs = attrs,
                                   .n_attrs = stem_op_heads_linear.n_attrs};
    stem_heads_linear_reference(&second, (void *const[]){x, data[3], data[4]});
    free(x);
}
