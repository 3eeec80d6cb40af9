/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens of the textual IR. The reader asks for the next token and keeps one in hand.
 */
#ifndef STEM_IR_LEX_H
#define STEM_IR_LEX_H

#include "ir/ir.h"

enum stem_ir_token {
    STEM_IR_END,
    STEM_IR_WORD,   /* letters, digits, _; starts with a letter or _ */
    STEM_IR_INT,    /* may be negative */
    STEM_IR_FLOAT,  /* has a point or an exponent, or is -inf; inf and nan are words */
    STEM_IR_STRING, /* adjacent ones are one */
    STEM_IR_MARK,   /* one of ; , = ( ) [ ] { } or -> */
    STEM_IR_BAD,
};

struct stem_ir_lexer {
    const struct stem_source *source;
    struct stem_diags *diags;
    struct stem_arena *arena; /* for strings */
    uint32_t at;              /* next byte */
    bool failed;              /* an error was reported: everything ends */

    /* the token in hand */
    enum stem_ir_token token;
    struct stem_span span;
    const char *text; /* WORD, STRING, MARK: NUL-terminated */
    int64_t i;
    double f;
};

void stem_ir_next(struct stem_ir_lexer *l);
/* Reports at the token in hand, unless an error was reported before. */
void stem_ir_fail(struct stem_ir_lexer *l, enum stem_diag_id id, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void stem_ir_fail_at(struct stem_ir_lexer *l, enum stem_diag_id id, struct stem_span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
