/* SPDX-License-Identifier: Apache-2.0
 *
 * Expanding: what its parts share. Private to src/sema/. The module was checked without errors, so here every name
 * resolves; what can still go wrong depends on concrete sizes, and sets `failed`.
 */
#ifndef STEM_SEMA_EXPAND_H
#define STEM_SEMA_EXPAND_H

#include "sema/module.h"

struct stem_bound {
    struct stem_sym name;
    struct stem_value_id value;
};

/* Who has the name of an external buffer. */
struct stem_taken {
    const char *what; /* "input"; NULL: nobody */
    struct stem_span span;
};

struct stem_expander {
    struct stem_module *m;
    struct stem_program *p;
    struct stem_builder b;
    struct stem_diags *diags;
    struct stem_eval eval; /* dims are numbers here */
    struct stem_indices indices;
    struct stem_dim *dim_value;
    STEM_VEC(struct stem_bound) names;
    uint32_t frame;                          /* names of the layer that is being expanded begin here */
    uint32_t callable;                       /* that layer */
    struct stem_sym path;                    /* its instance, "block[1].moe[3]"; 0: the model */
    STEM_VEC(struct stem_value_id) external; /* by symbol number: first value of a weight or state */
    STEM_VEC(bool) seen;                     /* by symbol number: an instance whose externals exist */
    STEM_VEC(struct stem_taken) taken;       /* by symbol number */
    STEM_VEC(struct stem_value_id) latest;   /* by buffer number: latest version of an external buffer */
    STEM_VEC(struct stem_value_id) lender;   /* by value number: see stem_expand_borrows */
    STEM_VEC(struct stem_op_id) after;
    const struct stem_x *returned; /* the expressions of `return`, NULL: not yet */
    uint32_t segment_begin;        /* first op of the segment */
    uint32_t steps;
    bool failed;
};

/* Counts a step of work; false, with a report, once there were too many. */
bool stem_expand_step(struct stem_expander *x, struct stem_span at);
/* Reports too many ops, or statements. */
void stem_expand_too_many(struct stem_expander *x, struct stem_span at, bool ops);
/* False, with a report, if there will be too many for certain (count.c). */
bool stem_expand_fits(struct stem_expander *x);
/* "path.name", or "name" in the model. */
struct stem_sym stem_expand_path(struct stem_expander *x, struct stem_sym path, const char *name);
/* Path of the instance that a call names. */
struct stem_sym stem_expand_instance(struct stem_expander *x, const struct stem_eval *e, const struct stem_x *call);

/* Numbers the names that several ops have (unique.c). */
void stem_expand_unique(struct stem_program *p);

/* ---- external buffers (external.c) ---- */

/* Makes inputs, outputs, weights and states, in an order that is the same for all values of the dims. `outputs`: room
 * for the model's results. */
void stem_expand_externals(struct stem_expander *x, struct stem_value_id *outputs);

/* ---- values (expand_expr.c) ---- */

struct stem_value_id stem_expand_value(struct stem_expander *x, const struct stem_x *e);
struct stem_value_id stem_expand_lookup(struct stem_expander *x, struct stem_sym name);
void stem_expand_set(struct stem_expander *x, struct stem_sym name, struct stem_value_id v);

/* ---- calls (expand_call.c) ---- */

struct stem_called {
    struct stem_value_id v[2 * STEM_MAX_LAYER_PARAMS]; /* in place ones first */
    const struct stem_x *inout[STEM_MAX_LAYER_PARAMS];
    uint32_t n, n_inout;
};
void stem_expand_call(struct stem_expander *x, const struct stem_x *e, struct stem_called *r);
/* An operand within an op: what is computed for it is named after the op. */
struct stem_value_id stem_expand_operand(struct stem_expander *x, const struct stem_x *e);
/* A cast to the type that a tensor has already is a new value, and computes nothing: it borrows the memory of the old
 * one as long as it is only read. Whoever writes it in place, or consumes it, does so to a copy. */
bool stem_expand_borrows(const struct stem_expander *x, struct stem_value_id v);
/* Where to read `v`: of one that borrows its memory the value that was cast. */
struct stem_value_id stem_expand_to_read(const struct stem_expander *x, struct stem_value_id v);
/* `v`, or a copy of it without gaps. */
struct stem_value_id stem_expand_contiguous(struct stem_expander *x, struct stem_value_id v);
struct stem_value_id stem_expand_pointwise(struct stem_expander *x, const struct stem_x *e);
/* The whole of `old`'s tensor, in the version that `v` (a part of it, or all) belongs to. */
struct stem_value_id stem_expand_whole(struct stem_expander *x, struct stem_value_id old, struct stem_value_id v);
void stem_expand_declare_calls(struct stem_expander *x);

/* ---- statements (expand.c) ---- */

void stem_expand_body(struct stem_expander *x, const struct stem_stmt *s);

#endif
