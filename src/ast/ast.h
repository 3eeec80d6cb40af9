/* SPDX-License-Identifier: Apache-2.0
 *
 * The syntax tree of a .stem file: what was written, before names mean anything. Nodes live in the arena that the
 * parser was given, and lists are chained through `next`. A tree is built once and then only read. After syntax
 * errors it holds what could be understood, with STEM_X_ERROR where an expression could not.
 */
#ifndef STEM_AST_AST_H
#define STEM_AST_AST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/out.h"
#include "base/source.h"
#include "base/str.h"

/* Expressions and blocks nest at most this deep; the parser reports what goes deeper (STEM1102), so a recursive
 * walk over a tree is safe. */
#define STEM_AST_MAX_DEPTH 200

/* A name and where it stands. name.n == 0: there is none. */
struct stem_ident {
    struct stem_sym name;
    struct stem_span span;
};

enum stem_x_kind {
    STEM_X_ERROR,  /* reported by the parser */
    STEM_X_INT,    /* i */
    STEM_X_FLOAT,  /* f, as written: `text` */
    STEM_X_NAME,   /* id */
    STEM_X_UNARY,  /* op a */
    STEM_X_BINARY, /* a op b */
    STEM_X_CALL,   /* id[index](args) */
    STEM_X_SLICE,  /* a[subs] */
    STEM_X_VIEW,   /* view(a, [shape]) */
};

/* X(enum suffix, spelling, precedence: larger binds tighter) */
#define STEM_X_OPS(X)  \
    X(OR, "||", 1)     \
    X(AND, "&&", 2)    \
    X(EQ, "==", 3)     \
    X(NE, "!=", 3)     \
    X(LT, "<", 4)      \
    X(LE, "<=", 4)     \
    X(GT, ">", 4)      \
    X(GE, ">=", 4)     \
    X(ADD, "+", 5)     \
    X(SUB, "-", 5)     \
    X(MUL, "*", 6)     \
    X(DIV, "/", 6)     \
    X(MOD, "%", 6)     \
    X(NEG, "-", 7)     \
    X(NOT, "!", 7)

enum stem_x_op {
#define X(suffix, text, precedence) STEM_X_##suffix,
    STEM_X_OPS(X)
#undef X
};
const char *stem_x_op_text(enum stem_x_op op);

/* As written at a call or in a signature. */
enum stem_ast_mode {
    STEM_AST_NONE, /* nothing written: in */
    STEM_AST_IN,
    STEM_AST_OUT,
    STEM_AST_INOUT,
    STEM_AST_CONSUME,
    STEM_AST_RELEASE,
    STEM_AST_WORKSPACE,
};
/* "" for NONE. */
const char *stem_ast_mode_text(enum stem_ast_mode m);

struct stem_arg {
    struct stem_arg *next;
    enum stem_ast_mode mode;
    struct stem_ident attr; /* `attr = value`; no name: an operand */
    struct stem_x *value;
    struct stem_span span;
};

/* One subscript: `i`, `:`, `low:`, `:high`, `low:high`. */
struct stem_sub {
    struct stem_sub *next;
    bool range;
    struct stem_x *low, *high; /* NULL where left out; an index is in low */
    struct stem_span span;
};

struct stem_x {
    struct stem_x *next; /* in a list */
    enum stem_x_kind kind;
    enum stem_x_op op;
    uint32_t depth; /* of the tree below, this node included */
    struct stem_span span;
    struct stem_ident id;
    int64_t i;
    double f;
    const char *text;
    struct stem_x *a, *b;
    struct stem_sub *subs;    /* SLICE; CALL: the instance index, NULL for none */
    struct stem_arg *args;    /* CALL */
    struct stem_x *shape;  /* VIEW */
};

struct stem_ast_type {
    struct stem_ident dtype;
    struct stem_x *dims; /* NULL: a scalar tensor */
    struct stem_span span;
};

/* A parameter, a result, a scalar parameter of a kernel, a weight or a state. */
struct stem_ast_param {
    struct stem_ast_param *next;
    enum stem_ast_mode mode;
    struct stem_ident id; /* results of layers may have no name */
    struct stem_ast_type type;
    struct stem_x *value; /* default of a scalar; of a workspace: 0, cleared before each use */
    const char *from;     /* of a weight: the tensors of a checkpoint, NULL: not said */
    struct stem_span from_span;
    struct stem_span span;
};

struct stem_ast_target {
    struct stem_ast_target *next;
    struct stem_ident id; /* "_": dropped */
};

/* Modifiers of a binding or of a region. */
struct stem_mods {
    struct stem_ident on;       /* stream */
    struct stem_ident resource;
    struct stem_ast_target *after, *after_last; /* a list and its end */
    struct stem_x *priority;
    struct stem_span span; /* empty if there are none */
};

enum stem_stmt_kind {
    STEM_S_BIND,   /* targets = expr mods;  or  call mods; */
    STEM_S_RETURN, /* exprs */
    STEM_S_WEIGHT, /* decl */
    STEM_S_STATE,  /* decl */
    STEM_S_REGION, /* mods { body } */
    STEM_S_WHEN,   /* when (expr) { body } else { other } */
    STEM_S_REPEAT, /* repeat expr as index { body } */
    STEM_S_BREAK,
    STEM_S_EAGER, /* eager { body } */
};

struct stem_stmt {
    struct stem_stmt *next;
    enum stem_stmt_kind kind;
    uint32_t depth;
    struct stem_span span;
    struct stem_span head; /* the keyword, or the binding's targets */
    struct stem_ast_target *targets;
    struct stem_x *expr; /* RETURN: a list */
    struct stem_mods mods;
    struct stem_ast_param *decl;
    struct stem_ident index;
    struct stem_stmt *body, *other;
    bool has_else;
};

enum stem_item_kind {
    STEM_I_CONST,
    STEM_I_DIM,
    STEM_I_LAYER,
    STEM_I_MODEL,
    STEM_I_KERNEL,
    STEM_I_EXTERN,
};

struct stem_item {
    struct stem_item *next;
    enum stem_item_kind kind;
    struct stem_ident id;
    struct stem_span span;
    struct stem_x *value;     /* CONST; DIM: the default or NULL */
    struct stem_x *low, *high; /* DIM */
    struct stem_ast_target *indices; /* LAYER: names of the parts of an instance's index */
    struct stem_ast_param *params;
    struct stem_ast_param *results; /* LAYER, MODEL */
    struct stem_stmt *body;
    struct stem_span end; /* the closing brace of the body */
    /* KERNEL, EXTERN */
    struct stem_ast_param *scalars;
    struct stem_x *grid, *block, *smem;
    bool waits;
    struct stem_span code; /* between the double braces */
    const char *library;   /* NULL: registered through the API */
    struct stem_span library_span;
};

struct stem_ast {
    const struct stem_source *source;
    struct stem_ident module;
    struct stem_item *items;
};

/* Prints text that parses to the same tree (spans aside): one form for each construct, comments are gone. The tree
 * must come from a parse without errors. */
void stem_ast_print(const struct stem_ast *ast, const struct stem_strtab *strings, struct stem_out *o);
/* One expression, for messages and tests. */
void stem_x_print(const struct stem_x *x, const struct stem_strtab *strings, struct stem_out *o);

#endif
