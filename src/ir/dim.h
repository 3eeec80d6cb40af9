/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbolic integers: the sizes of tensors. An expression over `dim` symbols is kept in one normal form (a polynomial
 * with interned monomials; quotients, remainders, min and max that do not simplify are atoms), so two sizes are
 * known to be equal exactly if their ids are equal. Constants are folded; overflow of 64 bits gives STEM_DIM_BAD.
 */
#ifndef STEM_IR_DIM_H
#define STEM_IR_DIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/out.h"
#include "base/str.h"

struct stem_dim {
    uint32_t n; /* 0: bad */
};
#define STEM_DIM_BAD ((struct stem_dim){0})

struct stem_dims;

struct stem_dims *stem_dims_new(void);
void stem_dims_free(struct stem_dims *d);

struct stem_dim stem_dim_const(struct stem_dims *d, int64_t value);
/* A symbol in low..high; the same name gives the same symbol (the first bounds stay). */
struct stem_dim stem_dim_symbol(struct stem_dims *d, struct stem_sym name, int64_t low, int64_t high);
enum stem_dim_op { STEM_DIM_ADD, STEM_DIM_SUB, STEM_DIM_MUL, STEM_DIM_DIV, STEM_DIM_MOD, STEM_DIM_MIN, STEM_DIM_MAX };
/* Division rounds down, the remainder has the divisor's sign; division by constant zero is BAD; BAD is contagious. */
struct stem_dim stem_dim_op(struct stem_dims *d, enum stem_dim_op op, struct stem_dim a, struct stem_dim b);

static inline bool stem_dim_same(struct stem_dim a, struct stem_dim b)
{
    return a.n == b.n && a.n;
}
/* True if the dim is a constant; *value is then set. */
bool stem_dim_value(const struct stem_dims *d, struct stem_dim a, int64_t *value);
/* Replaces symbols by values (value[i] for name[i]); false if a symbol has none, or on overflow or division by 0. */
bool stem_dim_eval(const struct stem_dims *d, struct stem_dim a, const struct stem_sym *name, const int64_t *value,
                   uint32_t n, int64_t *result);
/* Interval that surely holds the value (from the symbols' bounds); saturates. */
void stem_dim_bounds(const struct stem_dims *d, struct stem_dim a, int64_t *low, int64_t *high);
void stem_dim_print(const struct stem_dims *d, const struct stem_strtab *strings, struct stem_dim a,
                    struct stem_out *o);

#endif
