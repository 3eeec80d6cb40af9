/* SPDX-License-Identifier: Apache-2.0
 *
 * The normal form of sizes, shared by dim.c (interning, questions, printing) and dim_op.c (arithmetic). Nobody else
 * includes this.
 */
#ifndef STEM_IR_DIM_IMPL_H
#define STEM_IR_DIM_IMPL_H

#include "base/arena.h"
#include "base/vec.h"
#include "ir/dim.h"

#define uthash_malloc(n) stem_xmalloc(n)
#include <uthash.h>

#define STEM_DIM_NEW UINT32_MAX
/* Larger expressions are BAD: they keep every question cheap and recursion shallow, and no shape comes near. */
#define STEM_DIM_MAX_TERMS 256
#define STEM_DIM_MAX_WEIGHT 2048
#define STEM_DIM_MAX_POWER 16

/* Hashed as bytes: no padding anywhere. */
struct stem_factor {
    uint32_t atom, power;
};

struct stem_term {
    int64_t coefficient; /* never 0 */
    uint32_t monomial, zero;
};

enum { STEM_ATOM_SYMBOL = 100 }; /* other kinds are enum stem_dim_op: DIV, MOD, MIN, MAX */

struct stem_atom_key {
    uint32_t kind;
    uint32_t a, b; /* symbol: its stem_sym; else the two polynomials */
};

struct stem_interval {
    int64_t low, high;
};

struct stem_atom {
    struct stem_atom_key key;
    struct stem_interval bounds;
    uint32_t weight; /* size of the expression when written out */
};

struct stem_monomial {
    const struct stem_factor *factor; /* sorted by atom */
    uint32_t n, weight;
    struct stem_interval bounds;
};

struct stem_poly {
    const struct stem_term *term; /* sorted by monomial */
    uint32_t n, weight;
    struct stem_interval bounds;
};

struct stem_dim_entry {
    uint32_t n;
    UT_hash_handle hh;
};

struct stem_dims {
    struct stem_arena *arena;
    STEM_VEC(struct stem_poly) polys;
    STEM_VEC(struct stem_monomial) monomials;
    STEM_VEC(struct stem_atom) atoms;
    struct stem_dim_entry *poly_by_terms, *monomial_by_factors, *atom_by_key;
};

/* Interned; the input is copied. A polynomial that is too large is BAD. */
uint32_t stem_dim_monomial(struct stem_dims *d, const struct stem_factor *factor, uint32_t n);
struct stem_dim stem_dim_poly(struct stem_dims *d, const struct stem_term *term, uint32_t n);
struct stem_dim stem_dim_atom(struct stem_dims *d, struct stem_atom_key key, struct stem_interval bounds);
struct stem_interval stem_interval_mul(struct stem_interval a, struct stem_interval b);
/* The operation on numbers; false on overflow or division by 0. */
bool stem_dim_fold(enum stem_dim_op op, int64_t a, int64_t b, int64_t *result);

#endif
