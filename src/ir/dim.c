/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbolic integers in normal form. A size is a polynomial: a list of terms, each an integer times a monomial, sorted
 * by monomial; a monomial is a sorted product of powers of atoms; an atom is a symbol, or a quotient, remainder, min
 * or max that could not be rewritten. All three are interned, so equal ones have equal numbers. The rewriting rules
 * are in dim_op.c.
 */
#include "ir/dim_impl.h"

#include <stdlib.h>
#include <string.h>

struct stem_dims *stem_dims_new(void)
{
    struct stem_dims *d = stem_xmalloc(sizeof *d);
    memset(d, 0, sizeof *d);
    d->arena = stem_arena_new();
    stem_vec_push(&d->polys, (struct stem_poly){0}); /* number 0 is BAD */
    stem_dim_monomial(d, NULL, 0);                   /* monomial 0 is 1 */
    return d;
}

void stem_dims_free(struct stem_dims *d)
{
    if (!d)
        return;
    HASH_CLEAR(hh, d->poly_by_terms);
    HASH_CLEAR(hh, d->monomial_by_factors);
    HASH_CLEAR(hh, d->atom_by_key);
    stem_vec_free(&d->polys);
    stem_vec_free(&d->monomials);
    stem_vec_free(&d->atoms);
    stem_arena_free(d->arena);
    free(d);
}

/* ---- intervals; saturating, and sound because a value that leaves 64 bits has no value at all ---- */

static int64_t clamp(__int128 v)
{
    return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

struct stem_interval stem_interval_mul(struct stem_interval a, struct stem_interval b)
{
    __int128 p[4] = {(__int128)a.low * b.low, (__int128)a.low * b.high, (__int128)a.high * b.low,
                     (__int128)a.high * b.high};
    __int128 low = p[0], high = p[0];
    for (int i = 1; i < 4; i++) {
        low = p[i] < low ? p[i] : low;
        high = p[i] > high ? p[i] : high;
    }
    return (struct stem_interval){clamp(low), clamp(high)};
}

static struct stem_interval interval_add(struct stem_interval a, struct stem_interval b)
{
    return (struct stem_interval){clamp((__int128)a.low + b.low), clamp((__int128)a.high + b.high)};
}

/* ---- interning ---- */

/* The number of the entry with this key in `table`, or STEM_DIM_NEW. */
static uint32_t lookup(struct stem_dim_entry *table, const void *key, size_t bytes)
{
    struct stem_dim_entry *e = NULL;
    HASH_FIND(hh, table, key, bytes, e);
    return e ? e->n : STEM_DIM_NEW;
}

static void *remember(struct stem_dims *d, struct stem_dim_entry **table, const void *key, size_t bytes, uint32_t n)
{
    struct stem_dim_entry *e = STEM_NEW(d->arena, struct stem_dim_entry);
    void *copy = stem_arena_dup(d->arena, bytes ? key : "", bytes ? bytes : 1);
    e->n = n;
    HASH_ADD_KEYPTR(hh, *table, copy, bytes, e);
    return copy;
}

uint32_t stem_dim_monomial(struct stem_dims *d, const struct stem_factor *factor, uint32_t n)
{
    size_t bytes = n * sizeof *factor;
    uint32_t found = lookup(d->monomial_by_factors, n ? (const void *)factor : "", bytes);
    if (found != STEM_DIM_NEW)
        return found;
    struct stem_monomial m = {.n = n, .bounds = {1, 1}};
    for (uint32_t i = 0; i < n; i++) {
        const struct stem_atom *a = &d->atoms.at[factor[i].atom];
        for (uint32_t k = 0; k < factor[i].power; k++)
            m.bounds = stem_interval_mul(m.bounds, a->bounds);
        m.weight += a->weight * factor[i].power;
    }
    m.factor = remember(d, &d->monomial_by_factors, factor, bytes, d->monomials.len);
    stem_vec_push(&d->monomials, m);
    return d->monomials.len - 1;
}

struct stem_dim stem_dim_poly(struct stem_dims *d, const struct stem_term *term, uint32_t n)
{
    size_t bytes = n * sizeof *term;
    uint32_t found = lookup(d->poly_by_terms, n ? (const void *)term : "", bytes);
    if (found != STEM_DIM_NEW)
        return (struct stem_dim){found};
    struct stem_poly p = {.n = n, .weight = n};
    for (uint32_t i = 0; i < n; i++) {
        const struct stem_monomial *m = &d->monomials.at[term[i].monomial];
        struct stem_interval c = {term[i].coefficient, term[i].coefficient};
        p.bounds = interval_add(p.bounds, stem_interval_mul(c, m->bounds));
        p.weight += m->weight;
    }
    if (n > STEM_DIM_MAX_TERMS || p.weight > STEM_DIM_MAX_WEIGHT)
        return STEM_DIM_BAD;
    p.term = remember(d, &d->poly_by_terms, term, bytes, d->polys.len);
    stem_vec_push(&d->polys, p);
    return (struct stem_dim){d->polys.len - 1};
}

struct stem_dim stem_dim_atom(struct stem_dims *d, struct stem_atom_key key, struct stem_interval bounds)
{
    uint32_t n = lookup(d->atom_by_key, &key, sizeof key);
    if (n == STEM_DIM_NEW) {
        struct stem_atom a = {.key = key, .bounds = bounds, .weight = 1};
        if (key.kind != STEM_ATOM_SYMBOL)
            a.weight += d->polys.at[key.a].weight + d->polys.at[key.b].weight;
        n = d->atoms.len;
        remember(d, &d->atom_by_key, &key, sizeof key, n);
        stem_vec_push(&d->atoms, a);
    }
    struct stem_factor f = {n, 1};
    struct stem_term t = {1, stem_dim_monomial(d, &f, 1), 0};
    return stem_dim_poly(d, &t, 1);
}

struct stem_dim stem_dim_const(struct stem_dims *d, int64_t value)
{
    struct stem_term t = {value, 0, 0};
    return stem_dim_poly(d, &t, value != 0);
}

struct stem_dim stem_dim_symbol(struct stem_dims *d, struct stem_sym name, int64_t low, int64_t high)
{
    struct stem_atom_key key = {STEM_ATOM_SYMBOL, name.n, 0};
    return stem_dim_atom(d, key, (struct stem_interval){low, high});
}

/* ---- questions ---- */

bool stem_dim_value(const struct stem_dims *d, struct stem_dim a, int64_t *value)
{
    const struct stem_poly *p = &d->polys.at[a.n];
    if (!a.n || p->n > 1 || (p->n == 1 && p->term[0].monomial != 0))
        return false;
    *value = p->n ? p->term[0].coefficient : 0;
    return true;
}

void stem_dim_bounds(const struct stem_dims *d, struct stem_dim a, int64_t *low, int64_t *high)
{
    struct stem_interval all = {INT64_MIN, INT64_MAX};
    struct stem_interval i = a.n ? d->polys.at[a.n].bounds : all;
    *low = i.low;
    *high = i.high;
}

struct binding {
    const struct stem_sym *name;
    const int64_t *value;
    uint32_t n;
};

static bool eval_atom(const struct stem_dims *d, uint32_t atom, const struct binding *b, int64_t *result);

static bool eval_poly(const struct stem_dims *d, uint32_t poly, const struct binding *b, int64_t *result)
{
    const struct stem_poly *p = &d->polys.at[poly];
    int64_t sum = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct stem_monomial *m = &d->monomials.at[p->term[i].monomial];
        int64_t product = p->term[i].coefficient, v;
        for (uint32_t j = 0; j < m->n; j++) {
            if (!eval_atom(d, m->factor[j].atom, b, &v))
                return false;
            for (uint32_t k = 0; k < m->factor[j].power; k++)
                if (__builtin_mul_overflow(product, v, &product))
                    return false;
        }
        if (__builtin_add_overflow(sum, product, &sum))
            return false;
    }
    *result = sum;
    return true;
}

static bool eval_atom(const struct stem_dims *d, uint32_t atom, const struct binding *b, int64_t *result)
{
    const struct stem_atom_key *k = &d->atoms.at[atom].key;
    if (k->kind == STEM_ATOM_SYMBOL) {
        for (uint32_t i = 0; i < b->n; i++)
            if (b->name[i].n == k->a) {
                *result = b->value[i];
                return true;
            }
        return false;
    }
    int64_t x, y;
    return eval_poly(d, k->a, b, &x) && eval_poly(d, k->b, b, &y) &&
           stem_dim_fold((enum stem_dim_op)k->kind, x, y, result);
}

bool stem_dim_eval(const struct stem_dims *d, struct stem_dim a, const struct stem_sym *name, const int64_t *value,
                   uint32_t n, int64_t *result)
{
    struct binding b = {name, value, n};
    return a.n && eval_poly(d, a.n, &b, result);
}

/* ---- printing ---- */

/* How tightly the place binds where a polynomial is printed. */
enum place { IN_SUM, IN_QUOTIENT_LEFT, IN_QUOTIENT_RIGHT };

static void print_poly(const struct stem_dims *d, const struct stem_strtab *s, uint32_t poly, enum place place,
                       struct stem_out *o);

static void print_atom(const struct stem_dims *d, const struct stem_strtab *s, uint32_t atom, bool alone,
                       struct stem_out *o)
{
    const struct stem_atom_key *k = &d->atoms.at[atom].key;
    if (k->kind == STEM_ATOM_SYMBOL) {
        stem_out_str(o, stem_sym_str(s, (struct stem_sym){k->a}));
    } else if (k->kind == STEM_DIM_MIN || k->kind == STEM_DIM_MAX) {
        stem_out_str(o, k->kind == STEM_DIM_MIN ? "min(" : "max(");
        print_poly(d, s, k->a, IN_SUM, o);
        stem_out_str(o, ", ");
        print_poly(d, s, k->b, IN_SUM, o);
        stem_out_char(o, ')');
    } else {
        stem_out_str(o, alone ? "" : "(");
        print_poly(d, s, k->a, IN_QUOTIENT_LEFT, o);
        stem_out_char(o, k->kind == STEM_DIM_DIV ? '/' : '%');
        print_poly(d, s, k->b, IN_QUOTIENT_RIGHT, o);
        stem_out_str(o, alone ? "" : ")");
    }
}

static void print_term(const struct stem_dims *d, const struct stem_strtab *s, uint64_t magnitude, uint32_t monomial,
                       bool alone, struct stem_out *o)
{
    const struct stem_monomial *m = &d->monomials.at[monomial];
    bool product = magnitude != 1 || m->n > 1 || (m->n == 1 && m->factor[0].power > 1);
    const char *times = "";
    if (magnitude != 1 || !m->n) {
        stem_out_printf(o, "%llu", (unsigned long long)magnitude);
        times = "*";
    }
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t k = 0; k < m->factor[i].power; k++) {
            stem_out_str(o, times);
            print_atom(d, s, m->factor[i].atom, alone && !product, o);
            times = "*";
        }
}

/* The constant comes last: "2*T + 1". */
static void print_poly(const struct stem_dims *d, const struct stem_strtab *s, uint32_t poly, enum place place,
                       struct stem_out *o)
{
    const struct stem_poly *p = &d->polys.at[poly];
    if (!p->n) {
        stem_out_char(o, '0');
        return;
    }
    const struct stem_monomial *m = &d->monomials.at[p->term[0].monomial];
    bool simple = p->n == 1 && (place == IN_QUOTIENT_LEFT || m->n == 0 ||
                                (m->n == 1 && m->factor[0].power == 1 && p->term[0].coefficient == 1));
    bool bare = place == IN_SUM || (simple && p->term[0].coefficient > 0);
    uint32_t first = p->term[0].monomial == 0 && p->n > 1; /* skips the constant, which sorts first */
    stem_out_str(o, bare ? "" : "(");
    for (uint32_t i = 0; i < p->n; i++) {
        const struct stem_term *t = &p->term[(first + i) % p->n];
        bool minus = t->coefficient < 0;
        stem_out_str(o, i ? minus ? " - " : " + " : minus ? "-" : "");
        uint64_t magnitude = minus ? 0 - (uint64_t)t->coefficient : (uint64_t)t->coefficient;
        print_term(d, s, magnitude, t->monomial, place == IN_SUM && p->n == 1 && !minus, o);
    }
    stem_out_str(o, bare ? "" : ")");
}

void stem_dim_print(const struct stem_dims *d, const struct stem_strtab *strings, struct stem_dim a,
                    struct stem_out *o)
{
    if (!a.n)
        stem_out_char(o, '?');
    else
        print_poly(d, strings, a.n, IN_SUM, o);
}
