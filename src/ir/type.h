/* SPDX-License-Identifier: Apache-2.0
 *
 * Types of values: an element type and a shape. In a specialised program every dim is a constant.
 */
#ifndef STEM_IR_TYPE_H
#define STEM_IR_TYPE_H

#include "ir/dim.h"
#include "runtime/plan.h"

struct stem_type {
    enum stem_dtype dtype;
    uint32_t rank; /* 0: a scalar tensor of one element */
    struct stem_dim dim[STEM_MAX_RANK];
};

static inline bool stem_type_same(const struct stem_type *a, const struct stem_type *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = stem_dim_same(a->dim[i], b->dim[i]);
    return same;
}

/* `bf16[T, 7168]` */
void stem_type_print(const struct stem_dims *d, const struct stem_strtab *strings, const struct stem_type *t,
                     struct stem_out *o);

#endif
