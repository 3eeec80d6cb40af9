/* SPDX-License-Identifier: Apache-2.0
 *
 * zero: a tensor of zeros, as a memset node. It reads nothing, so its type comes from attributes: the dtype and the
 * sizes d0, d1, ...; the language writes it as a type, `zero(f32[T, 64])`.
 */
#include "ops/zero/zero.h"

#include <stdio.h>

static const char *const size_name[STEM_MAX_RANK] = {"d0", "d1", "d2", "d3", "d4", "d5"};

static bool infer(struct stem_infer *c)
{
    struct stem_type *t = &c->out[0];
    *t = (struct stem_type){.dtype = stem_dtype_from_name(stem_op_attr(&stem_op_zero, c->attrs, "dtype")->text)};
    for (uint32_t i = 0; i < STEM_MAX_RANK; i++) {
        int64_t n = stem_op_attr(&stem_op_zero, c->attrs, size_name[i])->i;
        if (n < 0)
            break;
        t->dim[t->rank++] = stem_dim_const(c->dims, n);
    }
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t bytes = stem_tensor_extent(&c->operand[0]);
    *cost = (struct stem_cost){.bytes_written = bytes, .blocks = 1 + (uint32_t)(bytes >> 16)};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    (void)c, (void)t, (void)arena;
    *l = (struct stem_lowered){.work = STEM_WORK_MEMSET};
}

const struct stem_op_def stem_op_zero = {
    .name = "zero",
    .blurb = "a tensor of zeros (a memset)",
    .attrs = {{"dtype", STEM_ATTR_TYPE_DTYPE, true, 0, NULL, NULL},
              {"d0", STEM_ATTR_TYPE_INT, false, -1, NULL, NULL},
              {"d1", STEM_ATTR_TYPE_INT, false, -1, NULL, NULL},
              {"d2", STEM_ATTR_TYPE_INT, false, -1, NULL, NULL},
              {"d3", STEM_ATTR_TYPE_INT, false, -1, NULL, NULL},
              {"d4", STEM_ATTR_TYPE_INT, false, -1, NULL, NULL},
              {"d5", STEM_ATTR_TYPE_INT, false, -1, NULL, NULL}},
    .n_attrs = 7,
    .results = {"y"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_zero_reference,
};
