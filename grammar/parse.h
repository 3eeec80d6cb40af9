/* SPDX-License-Identifier: Apache-2.0
 *
 * What scanner, parser and the tree constructors share. Private to grammar/.
 */
#ifndef STEM_GRAMMAR_PARSE_H
#define STEM_GRAMMAR_PARSE_H

#include "grammar/front.h"

struct stem_parse {
    struct stem_arena *arena;
    struct stem_strtab *strings;
    const struct stem_source *source;
    struct stem_diags *diags;
    struct stem_ast *ast;
    void *scanner;
    uint32_t pos;               /* of the scanner: offset behind the last token */
    uint32_t mark;              /* where the comment, string or body that is being scanned began */
    uint32_t braces;            /* open ones within a body */
    uint32_t raw, raw_len;      /* a body's raw string: its quote, and how long its mark is */
    struct stem_out string;     /* string constant under construction */
    struct stem_ident last_name; /* if the token before the last one was a name: it, for "did you mean" */
    struct stem_ident this_name;
    uint32_t last_end, this_end; /* where those two tokens end */
    uint32_t bad_end;           /* behind the last byte that starts no token */
    uint32_t quiet_end;         /* bytes before it that start no token were complained about */
    uint32_t open_end;          /* behind the last string without an end */
    uint32_t error_end;         /* behind the last unexpected token */
    uint32_t seen, begin;       /* scanned for statements so far; where the last one began */
    bool branch;                /* the last unexpected token was in an `if` or a `when` */
    bool deep;                  /* too deep was reported: once is enough */
};

/* A list under construction. */
#define STEM_LIST(T)    \
    struct T##_list {   \
        struct T *head; \
        struct T *tail; \
    }
STEM_LIST(stem_x);
STEM_LIST(stem_arg);
STEM_LIST(stem_sub);
STEM_LIST(stem_ast_target);
STEM_LIST(stem_ast_param);
STEM_LIST(stem_stmt);
STEM_LIST(stem_item);

/* Appends a node, or a chain of them, or nothing (NULL). */
#define STEM_APPEND(list, node)                       \
    do {                                              \
        if (!(node))                                  \
            break;                                    \
        if ((list)->tail)                             \
            (list)->tail->next = (node);              \
        else                                          \
            (list)->head = (node);                    \
        (list)->tail = (node);                        \
        while ((list)->tail->next)                    \
            (list)->tail = (list)->tail->next;        \
    } while (0)

/* The clauses behind a kernel's parameters. */
struct stem_clauses {
    struct stem_x *grid, *block, *smem;
    bool waits;
};

/* What could have stood where something else does. */
struct stem_could {
    bool name; /* and no expression */
    bool expr, item, colon, bracket, range;
};

/* ---- help (foreign.c) ---- */

/* A help line if what stands at `at` or before it is from another language. */
bool stem_parse_foreign(struct stem_parse *p, struct stem_span at, struct stem_could could);
/* The token at `at` is unexpected because of something that was reported. */
bool stem_parse_said(struct stem_parse *p, struct stem_span at);
/* A byte that starts no token. */
void stem_parse_bad_byte(struct stem_parse *p, const char *text, struct stem_span at);

/* ---- constructors (make.c) ---- */

struct stem_x *stem_make_expr(struct stem_parse *p, enum stem_x_kind kind, struct stem_span at);
struct stem_x *stem_make_name(struct stem_parse *p, struct stem_ident id);
struct stem_x *stem_make_unary(struct stem_parse *p, enum stem_x_op op, struct stem_x *a, struct stem_span at);
struct stem_x *stem_make_binary(struct stem_parse *p, enum stem_x_op op, struct stem_x *a, struct stem_x *b);
struct stem_x *stem_make_call(struct stem_parse *p, struct stem_x *callee, struct stem_arg *args,
                                 struct stem_span at);
struct stem_x *stem_make_slice(struct stem_parse *p, struct stem_x *a, struct stem_sub *subs,
                                  struct stem_span at);
struct stem_x *stem_make_view(struct stem_parse *p, struct stem_x *a, struct stem_x *shape,
                                 struct stem_span at);
struct stem_arg *stem_make_arg(struct stem_parse *p, enum stem_ast_mode mode, struct stem_ident attr,
                               struct stem_x *value, struct stem_span at);
struct stem_sub *stem_make_sub(struct stem_parse *p, bool range, struct stem_x *low, struct stem_x *high,
                               struct stem_span at);
struct stem_ast_target *stem_make_target(struct stem_parse *p, struct stem_ident id);
struct stem_ast_param *stem_make_param(struct stem_parse *p, enum stem_ast_mode mode, struct stem_ident id,
                                       struct stem_ast_type type, struct stem_x *value, struct stem_span at);
/* A weight with the tensors of a checkpoint that make it up. */
struct stem_ast_param *stem_make_weight(struct stem_parse *p, struct stem_ident id, struct stem_ast_type type,
                                        const char *from, struct stem_span from_span, struct stem_span at);
struct stem_stmt *stem_make_decl(struct stem_parse *p, enum stem_stmt_kind kind, struct stem_span head,
                                 struct stem_ast_param *decl, struct stem_span at);
struct stem_stmt *stem_make_stmt(struct stem_parse *p, enum stem_stmt_kind kind, struct stem_span head,
                                 struct stem_span at);
struct stem_stmt *stem_make_block_stmt(struct stem_parse *p, enum stem_stmt_kind kind, struct stem_span head,
                                       struct stem_stmt *body, struct stem_stmt *other, struct stem_span at);
/* A binding, or with targets NULL a call for its effect (anything else is reported). */
struct stem_stmt *stem_make_bind(struct stem_parse *p, struct stem_ast_target *targets, struct stem_x *x,
                                 struct stem_mods mods, struct stem_span at);
struct stem_item *stem_make_item(struct stem_parse *p, enum stem_item_kind kind, struct stem_ident id,
                                 struct stem_span at);
/* The module line; `first`: no declaration came before it. */
void stem_set_module(struct stem_parse *p, struct stem_ident id, bool first, struct stem_span at);
struct stem_mods stem_merge_mods(struct stem_parse *p, struct stem_mods a, struct stem_mods b);
struct stem_clauses stem_merge_clauses(struct stem_parse *p, struct stem_clauses a, struct stem_clauses b,
                                       struct stem_span at);

/* ---- scanner (lexer.l) ---- */

bool stem_scan_open(struct stem_parse *p);
void stem_scan_close(struct stem_parse *p);

#endif
