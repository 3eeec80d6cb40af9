/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking the body of one layer. Private to src/sema/.
 */
#ifndef STEM_SEMA_CHECK_H
#define STEM_SEMA_CHECK_H

#include "sema/module.h"

/* A tensor while checking: its symbolic type and whose memory it is. */
struct stem_sval {
    bool bad; /* something was reported about it: keep quiet */
    struct stem_type type;
    struct stem_root root;
    bool computed; /* an op computes it (or may: a parameter) */
    bool slice;    /* a part of its buffer: may have gaps */
};

struct stem_checked_name {
    struct stem_sym name;
    struct stem_sval v;
    struct stem_span span;
    bool used;
    bool conflict; /* two branches bound it to different types */
    bool carried;  /* stands for what a `repeat` carries on, too, bound at `from` */
    struct stem_span from;
};

/* A name that is out of scope: for "bound here, inside of a repeat". */
struct stem_gone {
    struct stem_sym name;
    struct stem_span span;
    const char *where;
};

/* A state of the layer, its number in roots. */
struct stem_checked_state {
    struct stem_ident id;
    bool written;
};

/* Roots of states that are not known, or not this layer's. */
#define STEM_STATE_ANY UINT32_MAX
#define STEM_STATE_FOREIGN (UINT32_MAX - 1)

/* What a name of a `repeat` is at the end of an iteration, and so at the start of the next, beyond what it was before
 * the loop. */
struct stem_carry {
    const struct stem_stmt *loop;
    struct stem_sym name;
    struct stem_root root;
    bool slice;
    struct stem_span from;
};
struct stem_carries {
    STEM_VEC(struct stem_carry) v;
};

struct stem_checker {
    struct stem_module *m;
    struct stem_eval eval;
    struct stem_indices indices;
    uint32_t callable; /* whose body this is */
    STEM_VEC(struct stem_checked_name) names;
    STEM_VEC(struct stem_gone) gone;
    STEM_VEC(struct stem_checked_state) states;
    struct stem_carries carries;
    bool learnt;              /* something was added to them */
    uint32_t repeats, eagers; /* around the statement */
    const struct stem_stmt *loop; /* the innermost `repeat`; NULL: none */
    uint32_t loop_names;          /* names that were bound before it */
    bool dim_branch;          /* within a `when` that a dim decides */
    bool returned;
    bool skipped; /* a branch that these consts do not take: not checked */
    bool many_names; /* there are more than may be, and it was said */
};

bool stem_checker_knows(const struct stem_checker *c, struct stem_sym name);
/* Whose memory a parameter is, where it is used as if it were somebody else's. */
void stem_check_label_param(struct stem_checker *c, const struct stem_ast_param *p);
/* Help lines for an unknown name; false: there are none. */
bool stem_suggest_name(const struct stem_eval *e, const char *word);
/* Reports that nothing has the name of the call x, and what may have been meant. */
void stem_check_unknown(struct stem_checker *c, const struct stem_x *x);
/* The memory of `root` is written, or may be by others. */
void stem_checker_wrote(struct stem_checker *c, struct stem_root root);
struct stem_checked_name *stem_checker_find(struct stem_checker *c, struct stem_sym name);
void stem_checker_bind(struct stem_checker *c, struct stem_sym name, struct stem_sval v, struct stem_span span);

/* ---- statements (check.c) ---- */

void stem_check_statements(struct stem_checker *c, const struct stem_stmt *s, bool top);
void stem_checker_warn_unused(struct stem_checker *c, const struct stem_checked_name *n);
/* A value's name may not be one of a const, dim or index: sizes and tensors never hide each other. */
bool stem_checker_free_name(struct stem_checker *c, struct stem_ident id);

/* ---- branches and loops (check_flow.c) ---- */

void stem_check_when(struct stem_checker *c, const struct stem_stmt *s);
void stem_check_repeat(struct stem_checker *c, const struct stem_stmt *s);
/* Labels the report just made about x with the binding that a loop carries to it, if one does. */
void stem_check_label_carried(struct stem_checker *c, const struct stem_x *x);

/* ---- expressions (check_expr.c) ---- */

/* One tensor. Reports and returns a bad value if it is none. */
struct stem_sval stem_check_expr(struct stem_checker *c, const struct stem_x *x);
/* Type of a pointwise expression from its leaves' values (by numpy's broadcasting); false after a report. */
bool stem_pointwise_type(const struct stem_eval *e, const struct stem_pointwise *pw, const struct stem_sval *v,
                         struct stem_span at, struct stem_type *r);

/* A call as a whole: its results (room for STEM_MAX_LAYER_PARAMS), in place ones first. */
struct stem_results {
    struct stem_sval v[2 * STEM_MAX_LAYER_PARAMS];
    uint32_t n, n_inout;
    const struct stem_x *inout[STEM_MAX_LAYER_PARAMS]; /* the operand of each in place result */
    bool bad;
};

/* ---- calls (check_call.c) ---- */

void stem_check_call(struct stem_checker *c, const struct stem_x *x, struct stem_results *r);
/* The name at the bottom of slices and views; NULL: none. */
const struct stem_x *stem_base_name(const struct stem_x *x);
bool stem_same_type(struct stem_checker *c, const struct stem_type *have, const struct stem_type *need,
                    struct stem_span at, const char *what);

/* ---- help for calls (check_given.c), for the error that was reported last ---- */

void stem_check_list_attrs(struct stem_checker *c, const struct stem_op_def *def);
/* A rule speaks of one operand; which sizes do not fit is seen from all of them. */
void stem_check_show_operands(struct stem_checker *c, const struct stem_op_def *def, const struct stem_type *in, uint32_t n);
void stem_check_list_scalars(struct stem_checker *c, const struct stem_callable *f);
/* The operand p was perhaps meant to be a scalar. */
void stem_check_label_scalar(struct stem_checker *c, const struct stem_callable *f, const struct stem_ast_param *p);
/* The call x has another number of operands than the `need` of its callee. */
void stem_check_help_scalars(struct stem_checker *c, const struct stem_callable *f, const struct stem_x *x, uint32_t have,
                             uint32_t need);

/* ---- signatures (signature.c), bodies (check.c) ---- */

/* A scalar argument or default fits its parameter; reports if not. */
void stem_check_scalar(const struct stem_eval *e, const struct stem_ast_param *p, const struct stem_x *x);
void stem_check_signature(struct stem_module *m, struct stem_callable *f);
void stem_check_body(struct stem_module *m, uint32_t callable);

#endif
