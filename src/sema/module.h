/* SPDX-License-Identifier: Apache-2.0
 *
 * What checking learns and expanding uses. Private to src/sema/.
 */
#ifndef STEM_SEMA_MODULE_H
#define STEM_SEMA_MODULE_H

#include "base/vec.h"
#include "ir/build.h"
#include "ir/dim.h"
#include "sema/sema.h"

#define STEM_MAX_BYTES (INT64_C(1) << 40) /* of one tensor */
#define STEM_MAX_OPS 2000000u
#define STEM_MAX_STEPS 20000000u /* statements executed while expanding */
#define STEM_MAX_COUNT 1000000   /* of a repeat */
#define STEM_MAX_CALL_DEPTH 600  /* blocks, expressions and layer calls within each other */
#define STEM_MAX_CONST_DEPTH 50 /* constants used before their definition, within each other */
#define STEM_MAX_ARGS 100       /* of one call */
#define STEM_MAX_NAMES 16384    /* bound in one layer at a time */
#define STEM_MAX_LAYER_PARAMS 64 /* parameters and results of a layer, each */

/* A number in a constant expression. */
enum stem_num_kind { STEM_NUM_BAD, STEM_NUM_INT, STEM_NUM_FLOAT, STEM_NUM_BOOL };
struct stem_num {
    enum stem_num_kind kind;
    struct stem_dim i; /* INT */
    double f;          /* FLOAT, if `known` */
    bool known;        /* FLOAT: false if it depends on a dim that is not bound */
    int truth;         /* BOOL: 0, 1, or -1 if it depends on a dim that is not bound */
};

/* A repeat index in scope. */
struct stem_index {
    struct stem_sym name;
    struct stem_dim value;
};
struct stem_indices {
    STEM_VEC(struct stem_index) v;
};

struct stem_checker; /* check.h */

/* Where a constant expression is evaluated. */
struct stem_eval {
    struct stem_module *m;
    struct stem_dims *dims;
    struct stem_diags *diags;
    const struct stem_dim *dim_value;   /* of each of m->dims; NULL: none may be used */
    const struct stem_indices *indices; /* NULL: none */
    const struct stem_checker *checker; /* to know tensors from misspelt names; NULL: none are known */
    bool of_indices;                    /* only indices are suggested for a misspelt name: in names of weights */
};

enum stem_global_kind { STEM_G_NONE, STEM_G_CONST, STEM_G_DIM, STEM_G_CALLABLE };
struct stem_global {
    enum stem_global_kind kind;
    uint32_t index;
};

struct stem_module_const {
    const struct stem_item *item;
    enum { STEM_TODO, STEM_DOING, STEM_DONE } state;
    struct stem_num value;
    const char *override;
    const struct stem_x *rounding; /* of an integer: a division that rounds down; NULL: none */
};

/* Whose memory a value is in; ordered from what a body may do most with to least. */
enum stem_root_kind { STEM_ROOT_TEMP, STEM_ROOT_STATE, STEM_ROOT_PARAM, STEM_ROOT_WEIGHT };
struct stem_root {
    enum stem_root_kind kind;
    uint32_t index; /* PARAM: which */
};

/* A layer, model, kernel or extern function. */
struct stem_callable {
    const struct stem_item *item;
    int state;                                  /* STEM_TODO, ... */
    struct stem_type *param_type, *result_type; /* symbolic */
    uint32_t n_params, n_results;
    struct stem_root *result_root;        /* layers: in whose memory each result is, seen from the body */
    const struct stem_stmt *segment_stmt; /* the first break or eager in it or in what it calls; NULL: none */
    uint32_t depth;                       /* of layer calls below */
    uint32_t n_scalars;
    uint32_t decl; /* KERNEL, EXTERN: number of its declaration in a program */
};

struct stem_module {
    struct stem_arena *arena;
    struct stem_strtab *strings;
    const struct stem_ast *ast;
    struct stem_diags *diags;
    struct stem_dims *dims;               /* symbolic */
    STEM_VEC(struct stem_global) globals; /* by symbol number */
    STEM_VEC(struct stem_module_const) consts;
    STEM_VEC(struct stem_dim_info) dim_infos;
    STEM_VEC(struct stem_dim) dim_symbols;
    STEM_VEC(struct stem_callable) callables;
    STEM_VEC(struct stem_stream_decl) streams; /* by first appearance in the text; main is 0 */
    uint32_t model;                            /* callable; STEM_NONE: none */
    bool many_streams;                         /* there are more than may be, and it was said */
    uint32_t const_depth;                      /* of constants that are being evaluated for each other */
};

struct stem_global stem_global_find(const struct stem_module *m, struct stem_sym name);
const char *stem_name(const struct stem_module *m, struct stem_sym s);

/* ---- numbers (const.c) ---- */

/* Reports what is wrong and returns BAD. */
struct stem_num stem_eval(const struct stem_eval *e, const struct stem_x *x);
/* An integer, possibly symbolic; BAD (n == 0) after a report. */
struct stem_dim stem_eval_int(const struct stem_eval *e, const struct stem_x *x);
/* A number as a plain one: true if INT and constant (as f, too), or a known FLOAT. */
bool stem_num_plain(const struct stem_dims *dims, struct stem_num n, bool *is_int, int64_t *i, double *f);
/* Whether f, the value of x, is a number in f32, too; false after a report. */
bool stem_num_fits_f32(const struct stem_eval *e, const struct stem_x *x, double f);
/* The expression consists of numbers only; names that nothing defines do not count as numbers. */
bool stem_is_const(const struct stem_eval *e, const struct stem_x *x);
/* min, sqrt, ...: a function of numbers. */
bool stem_is_number_function(const char *name);
void stem_eval_consts(struct stem_module *m, const struct stem_override *overrides, uint32_t n);
/* The dtype that other systems call so; NULL: none. */
const char *stem_usual_dtype(const char *text);
bool stem_suggest(struct stem_diags *diags, const char *word, const char *const *candidates, uint32_t n);

/* ---- divisions of whole numbers that round (rounding.c) ---- */

/* The first one in x, whose value is an integer; NULL: none. */
const struct stem_x *stem_rounding(const struct stem_eval *e, const struct stem_x *x);
/* Warns of those in x, a number that is used as a float, or a condition. */
void stem_warn_rounding(const struct stem_eval *e, const struct stem_x *x);
void stem_warn_rounding_condition(const struct stem_eval *e, const struct stem_x *x);

/* ---- types (type.c) ---- */

/* Evaluates a written type; false after a report. Checks rank, positive sizes, and bytes at the largest dims. */
bool stem_eval_type(const struct stem_eval *e, const struct stem_ast_type *t, struct stem_type *type);
/* A type written as an expression, as in zero(f32[T, 64]). */
bool stem_eval_type_expr(const struct stem_eval *e, const struct stem_x *x, struct stem_type *type);
/* Rank, sizes and bytes are possible; else reports at `at`. */
bool stem_type_possible(const struct stem_eval *e, const struct stem_type *t, struct stem_span at);
/* The dims of a type as numbers; false if one is not a constant. */
bool stem_type_dims(const struct stem_dims *d, const struct stem_type *t, int64_t *dim);
/* `bf16[T, 64]` in the module's arena. */
const char *stem_type_text(const struct stem_eval *e, const struct stem_type *t);

/* ---- pointwise expressions (pointwise.c) ---- */

/* Arithmetic on tensors, a pointwise function of one, or a cast of one. */
bool stem_is_pointwise(const struct stem_eval *e, const struct stem_x *x);
/* Number of operands of a pointwise function, 0 if there is none of that name. */
uint32_t stem_pointwise_arity(const char *name);

/* The postfix text of the maximal pointwise expression at x, and its leaves in order of appearance (each name once).
 */
struct stem_pointwise {
    struct stem_out text;
    const struct stem_x *leaf[STEM_MAX_OPERANDS];
    enum stem_dtype leaf_dtype[STEM_MAX_OPERANDS];
    uint32_t n;
    enum stem_dtype dtype; /* of the result */
};
/* `leaf_dtype` evaluates a leaf (number `i`) and returns its dtype; STEM_N_DTYPES: it is bad, reported. */
bool stem_pointwise_build(const struct stem_eval *e, const struct stem_x *x,
                          enum stem_dtype (*leaf)(void *user, const struct stem_x *x, uint32_t i), void *user,
                          struct stem_pointwise *pw);

#endif
