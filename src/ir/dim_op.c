/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic on sizes. Sums, differences and products are polynomial arithmetic. Quotients and remainders by a
 * positive constant c use floor((c*q + r)/c) = q + floor(r/c) for each coefficient, so that r's coefficients lie in
 * 0..c-1; what remains after the bounds have been asked becomes an atom.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/dim_impl.h"

bool stem_dim_fold(enum stem_dim_op op, int64_t a, int64_t b, int64_t *result)
{
    switch (op) {
    case STEM_DIM_ADD:
        return !__builtin_add_overflow(a, b, result);
    case STEM_DIM_SUB:
        return !__builtin_sub_overflow(a, b, result);
    case STEM_DIM_MUL:
        return !__builtin_mul_overflow(a, b, result);
    case STEM_DIM_DIV:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *result = a / b - (a % b != 0 && (a < 0) != (b < 0));
        return true;
    case STEM_DIM_MOD:
        if (b == 0)
            return false;
        *result = b == -1 ? 0 : a % b;
        if (*result != 0 && (*result < 0) != (b < 0))
            *result += b;
        return true;
    case STEM_DIM_MIN:
        *result = a < b ? a : b;
        return true;
    case STEM_DIM_MAX:
        *result = a > b ? a : b;
        return true;
    }
    abort();
}

static int compare_terms(const void *a, const void *b)
{
    const struct stem_term *x = a, *y = b;
    return x->monomial < y->monomial ? -1 : x->monomial > y->monomial;
}

/* Sorts, joins equal monomials, drops zeros. */
static struct stem_dim normal(struct stem_dims *d, struct stem_term *term, uint32_t n)
{
    if (n)
        qsort(term, n, sizeof *term, compare_terms);
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (m && term[m - 1].monomial == term[i].monomial) {
            if (__builtin_add_overflow(term[m - 1].coefficient, term[i].coefficient, &term[m - 1].coefficient))
                return STEM_DIM_BAD;
        } else {
            term[m++] = term[i];
        }
        if (i + 1 == n || term[i + 1].monomial != term[i].monomial)
            m -= term[m - 1].coefficient == 0;
    }
    return stem_dim_poly(d, term, m);
}

/* x*a + y*b */
static struct stem_dim combine(struct stem_dims *d, struct stem_dim a, int64_t x, struct stem_dim b, int64_t y)
{
    struct stem_term term[2 * STEM_DIM_MAX_TERMS];
    const struct stem_poly p[2] = {d->polys.at[a.n], d->polys.at[b.n]};
    const int64_t factor[2] = {x, y};
    uint32_t n = 0;
    if (!a.n || !b.n)
        return STEM_DIM_BAD;
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < p[k].n; i++, n++) {
            term[n] = p[k].term[i];
            if (__builtin_mul_overflow(term[n].coefficient, factor[k], &term[n].coefficient))
                return STEM_DIM_BAD;
        }
    return normal(d, term, n);
}

/* Product of two monomials; STEM_DIM_NEW if it is too large. */
static uint32_t times(struct stem_dims *d, uint32_t a, uint32_t b)
{
    struct stem_monomial x = d->monomials.at[a], y = d->monomials.at[b];
    struct stem_factor f[2 * STEM_DIM_MAX_POWER];
    uint32_t n = 0, i = 0, j = 0, degree = 0;
    while (i < x.n || j < y.n) {
        if (n == 2 * STEM_DIM_MAX_POWER)
            return STEM_DIM_NEW;
        if (j == y.n || (i < x.n && x.factor[i].atom < y.factor[j].atom)) {
            f[n] = x.factor[i++];
        } else if (i == x.n || y.factor[j].atom < x.factor[i].atom) {
            f[n] = y.factor[j++];
        } else {
            f[n] = (struct stem_factor){x.factor[i].atom, x.factor[i].power + y.factor[j].power};
            i++, j++;
        }
        degree += f[n++].power;
    }
    return degree > STEM_DIM_MAX_POWER ? STEM_DIM_NEW : stem_dim_monomial(d, f, n);
}

static struct stem_dim multiply(struct stem_dims *d, struct stem_dim a, struct stem_dim b)
{
    struct stem_poly x = d->polys.at[a.n], y = d->polys.at[b.n];
    if (x.n * y.n > 4 * STEM_DIM_MAX_TERMS)
        return STEM_DIM_BAD;
    struct stem_term term[4 * STEM_DIM_MAX_TERMS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < x.n; i++)
        for (uint32_t j = 0; j < y.n; j++, n++) {
            term[n] = (struct stem_term){0, times(d, x.term[i].monomial, y.term[j].monomial), 0};
            if (term[n].monomial == STEM_DIM_NEW ||
                __builtin_mul_overflow(x.term[i].coefficient, y.term[j].coefficient, &term[n].coefficient))
                return STEM_DIM_BAD;
        }
    return normal(d, term, n);
}

static int64_t constant_term(const struct stem_dims *d, struct stem_dim a)
{
    const struct stem_poly *p = &d->polys.at[a.n];
    return p->n && p->term[0].monomial == 0 ? p->term[0].coefficient : 0;
}

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* Greatest common divisor of `g` and all coefficients; the constant's too if asked for. */
static uint64_t content(const struct stem_dims *d, struct stem_dim a, uint64_t g, bool with_constant)
{
    const struct stem_poly *p = &d->polys.at[a.n];
    for (uint32_t i = 0; i < p->n; i++)
        if (with_constant || p->term[i].monomial)
            g = gcd(g, magnitude(p->term[i].coefficient));
    return g;
}

/* a = c*q + r, each coefficient of r in 0..c-1; c > 0. */
static void split(struct stem_dims *d, struct stem_dim a, int64_t c, struct stem_dim *q, struct stem_dim *r)
{
    struct stem_poly p = d->polys.at[a.n];
    struct stem_term quotient[STEM_DIM_MAX_TERMS], rest[STEM_DIM_MAX_TERMS];
    uint32_t nq = 0, nr = 0;
    for (uint32_t i = 0; i < p.n; i++) {
        int64_t x = 0, y = 0;
        stem_dim_fold(STEM_DIM_DIV, p.term[i].coefficient, c, &x);
        stem_dim_fold(STEM_DIM_MOD, p.term[i].coefficient, c, &y);
        quotient[nq] = (struct stem_term){x, p.term[i].monomial, 0};
        nq += x != 0;
        rest[nr] = (struct stem_term){y, p.term[i].monomial, 0};
        nr += y != 0;
    }
    *q = stem_dim_poly(d, quotient, nq);
    *r = stem_dim_poly(d, rest, nr);
}

/* Each coefficient divided by g, rounded down (only the constant can have a remainder). */
static struct stem_dim shrink(struct stem_dims *d, struct stem_dim a, int64_t g)
{
    struct stem_dim q, r;
    split(d, a, g, &q, &r);
    return q;
}

static bool within(const struct stem_dims *d, struct stem_dim a, int64_t low, int64_t high)
{
    struct stem_interval i = d->polys.at[a.n].bounds;
    return a.n && i.low >= low && i.high <= high;
}

static bool never_zero(const struct stem_dims *d, struct stem_dim a)
{
    return within(d, a, 1, INT64_MAX) || within(d, a, INT64_MIN, -1);
}

static struct stem_interval quotient_bounds(const struct stem_dims *d, struct stem_dim a, int64_t c)
{
    struct stem_interval i = d->polys.at[a.n].bounds;
    stem_dim_fold(STEM_DIM_DIV, i.low, c, &i.low);
    stem_dim_fold(STEM_DIM_DIV, i.high, c, &i.high);
    return i;
}

/* floor((x/a + k)/c) = floor((x + a*k)/(a*c)): true if r is such a quotient plus a constant. */
static bool nested(struct stem_dims *d, struct stem_dim r, int64_t c, struct stem_dim *x, int64_t *by)
{
    const struct stem_poly *p = &d->polys.at[r.n];
    const struct stem_term *t = &p->term[p->n ? p->n - 1 : 0];
    int64_t k = constant_term(d, r), a, ak;
    if (p->n != 1u + (k != 0) || t->coefficient != 1)
        return false;
    const struct stem_monomial *m = &d->monomials.at[t->monomial];
    if (m->n != 1 || m->factor[0].power != 1)
        return false;
    struct stem_atom_key key = d->atoms.at[m->factor[0].atom].key;
    if (key.kind != STEM_DIM_DIV || !stem_dim_value(d, (struct stem_dim){key.b}, &a) || a <= 0 ||
        __builtin_mul_overflow(a, c, by) || __builtin_mul_overflow(a, k, &ak))
        return false;
    *x = combine(d, (struct stem_dim){key.a}, 1, stem_dim_const(d, ak), 1);
    return x->n != 0;
}

static struct stem_dim divide_const(struct stem_dims *d, struct stem_dim a, int64_t c)
{
    struct stem_dim q, r, x;
    int64_t by;
    if (c < 0) {
        if (c == INT64_MIN)
            return STEM_DIM_BAD;
        return divide_const(d, combine(d, a, -1, stem_dim_const(d, 0), 1), -c);
    }
    if (!a.n || c == 0)
        return STEM_DIM_BAD;
    split(d, a, c, &q, &r);
    if (within(d, r, 0, c - 1))
        return q;
    int64_t g = (int64_t)content(d, r, (uint64_t)c, false);
    if (g > 1)
        return combine(d, q, 1, divide_const(d, shrink(d, r, g), c / g), 1);
    if (nested(d, r, c, &x, &by))
        return combine(d, q, 1, divide_const(d, x, by), 1);
    struct stem_atom_key key = {STEM_DIM_DIV, r.n, stem_dim_const(d, c).n};
    return combine(d, q, 1, stem_dim_atom(d, key, quotient_bounds(d, r, c)), 1);
}

static struct stem_dim remainder_const(struct stem_dims *d, struct stem_dim a, int64_t c)
{
    struct stem_dim q, r, zero = stem_dim_const(d, 0);
    if (c < 0) {
        if (c == INT64_MIN)
            return STEM_DIM_BAD;
        return combine(d, remainder_const(d, combine(d, a, -1, zero, 1), -c), -1, zero, 1);
    }
    if (!a.n || c == 0)
        return STEM_DIM_BAD;
    split(d, a, c, &q, &r);
    if (within(d, r, 0, c - 1))
        return r;
    int64_t g = (int64_t)content(d, r, (uint64_t)c, true); /* (g*x) mod (g*c) = g*(x mod c) */
    r = shrink(d, r, g);
    c /= g;
    struct stem_atom_key key = {STEM_DIM_MOD, r.n, stem_dim_const(d, c).n};
    return combine(d, stem_dim_atom(d, key, (struct stem_interval){0, c - 1}), g, zero, 1);
}

/* x / y for monomials, STEM_DIM_NEW if it does not come out even. */
static uint32_t over(struct stem_dims *d, uint32_t a, uint32_t b)
{
    struct stem_monomial x = d->monomials.at[a], y = d->monomials.at[b];
    struct stem_factor f[2 * STEM_DIM_MAX_POWER];
    uint32_t n = 0, j = 0;
    for (uint32_t i = 0; i < x.n; i++) {
        f[n] = x.factor[i];
        if (j < y.n && y.factor[j].atom == f[n].atom) {
            if (y.factor[j].power > f[n].power)
                return STEM_DIM_NEW;
            f[n].power -= y.factor[j++].power;
        }
        n += f[n].power != 0;
    }
    return j == y.n ? stem_dim_monomial(d, f, n) : STEM_DIM_NEW;
}

/* a / b where b is one term that divides every term of a; BAD if not so. */
static struct stem_dim divide_exactly(struct stem_dims *d, struct stem_dim a, struct stem_dim b)
{
    struct stem_poly x = d->polys.at[a.n], y = d->polys.at[b.n];
    struct stem_term term[STEM_DIM_MAX_TERMS];
    if (y.n != 1)
        return STEM_DIM_BAD;
    for (uint32_t i = 0; i < x.n; i++) {
        int64_t rest = 0;
        stem_dim_fold(STEM_DIM_MOD, x.term[i].coefficient, y.term[0].coefficient, &rest);
        term[i] = (struct stem_term){0, over(d, x.term[i].monomial, y.term[0].monomial), 0};
        if (rest || term[i].monomial == STEM_DIM_NEW ||
            !stem_dim_fold(STEM_DIM_DIV, x.term[i].coefficient, y.term[0].coefficient, &term[i].coefficient))
            return STEM_DIM_BAD;
    }
    return normal(d, term, x.n);
}

static struct stem_dim divide(struct stem_dims *d, struct stem_dim a, struct stem_dim b)
{
    if (never_zero(d, b)) {
        struct stem_dim q = a.n == b.n ? stem_dim_const(d, 1) : divide_exactly(d, a, b);
        if (q.n)
            return q;
        if (within(d, a, 0, 0))
            return a;
    }
    /* |a/b| is at most |a| for |b| >= 1; rounding down adds one below. */
    struct stem_interval i = d->polys.at[a.n].bounds;
    int64_t most = i.low == INT64_MIN ? INT64_MAX : i.high > -i.low ? i.high : -i.low;
    if (within(d, a, 0, INT64_MAX) && within(d, b, 0, INT64_MAX))
        i = (struct stem_interval){0, most};
    else
        i = (struct stem_interval){most == INT64_MAX ? INT64_MIN : -most - 1, most};
    return stem_dim_atom(d, (struct stem_atom_key){STEM_DIM_DIV, a.n, b.n}, i);
}

static struct stem_dim rest(struct stem_dims *d, struct stem_dim a, struct stem_dim b)
{
    if (never_zero(d, b) && (a.n == b.n || divide_exactly(d, a, b).n))
        return stem_dim_const(d, 0);
    struct stem_interval i = d->polys.at[b.n].bounds;
    i.low = i.low < 0 ? i.low + 1 : 0;
    i.high = i.high > 0 ? i.high - 1 : 0;
    return stem_dim_atom(d, (struct stem_atom_key){STEM_DIM_MOD, a.n, b.n}, i);
}

/* min or max; common constants and factors are taken out: min(4*T + 4, 12) = 4*min(T, 2) + 4. */
static struct stem_dim extremum(struct stem_dims *d, enum stem_dim_op op, struct stem_dim a, struct stem_dim b)
{
    struct stem_dim difference = combine(d, a, 1, b, -1), one = stem_dim_const(d, 1);
    if (within(d, difference, 0, INT64_MAX))
        return op == STEM_DIM_MAX ? a : b;
    if (within(d, difference, INT64_MIN, 0))
        return op == STEM_DIM_MAX ? b : a;
    int64_t ka = constant_term(d, a), kb = constant_term(d, b), k = ka < kb ? ka : kb;
    if (k == INT64_MIN)
        return STEM_DIM_BAD;
    struct stem_dim x = combine(d, a, 1, one, -k), y = combine(d, b, 1, one, -k);
    uint64_t common = content(d, y, content(d, x, 0, true), true);
    if (!x.n || !y.n || common > INT64_MAX)
        return STEM_DIM_BAD;
    int64_t g = common ? (int64_t)common : 1;
    x = shrink(d, x, g);
    y = shrink(d, y, g);
    struct stem_interval i = d->polys.at[x.n].bounds, j = d->polys.at[y.n].bounds;
    stem_dim_fold(op, i.low, j.low, &i.low);
    stem_dim_fold(op, i.high, j.high, &i.high);
    struct stem_atom_key key = {op, x.n < y.n ? x.n : y.n, x.n < y.n ? y.n : x.n};
    return combine(d, stem_dim_atom(d, key, i), g, one, k);
}

struct stem_dim stem_dim_op(struct stem_dims *d, enum stem_dim_op op, struct stem_dim a, struct stem_dim b)
{
    int64_t x, y, v;
    if (!a.n || !b.n)
        return STEM_DIM_BAD;
    bool constant = stem_dim_value(d, b, &y);
    if (constant && stem_dim_value(d, a, &x))
        return stem_dim_fold(op, x, y, &v) ? stem_dim_const(d, v) : STEM_DIM_BAD;
    switch (op) {
    case STEM_DIM_ADD:
        return combine(d, a, 1, b, 1);
    case STEM_DIM_SUB:
        return combine(d, a, 1, b, -1);
    case STEM_DIM_MUL:
        return multiply(d, a, b);
    case STEM_DIM_DIV:
        return constant ? divide_const(d, a, y) : divide(d, a, b);
    case STEM_DIM_MOD:
        return constant ? remainder_const(d, a, y) : rest(d, a, b);
    case STEM_DIM_MIN:
    case STEM_DIM_MAX:
        return extremum(d, op, a, b);
    }
    abort();
}
