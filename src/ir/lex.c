/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first fault is reported; the reader sees no tokens after it. */
static void fail(struct stem_ir_lexer *l, enum stem_diag_id id, struct stem_span at, const char *fmt, va_list ap)
{
    if (l->failed)
        return;
    struct stem_out o = {0};
    stem_out_vprintf(&o, fmt, ap);
    stem_error(l->diags, id, at, "%s", stem_out_text(&o));
    stem_out_free(&o);
    l->failed = true;
    l->token = STEM_IR_BAD;
    l->text = "";
}

void stem_ir_fail_at(struct stem_ir_lexer *l, enum stem_diag_id id, struct stem_span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(l, id, at, fmt, ap);
    va_end(ap);
}

void stem_ir_fail(struct stem_ir_lexer *l, enum stem_diag_id id, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(l, id, l->span, fmt, ap);
    va_end(ap);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

/* Past the end every byte is NUL, and so is the source's last. */
static char peek(const struct stem_ir_lexer *l, uint32_t ahead)
{
    return l->at + ahead < l->source->len ? l->source->text[l->at + ahead] : '\0';
}

static void skip_blanks(struct stem_ir_lexer *l)
{
    for (;;) {
        char c = peek(l, 0);
        if (c == '#')
            while (l->at < l->source->len && peek(l, 0) != '\n')
                l->at++;
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            l->at++;
        else
            return;
    }
}

static void end_token(struct stem_ir_lexer *l, enum stem_ir_token token)
{
    l->token = token;
    l->span.end = l->at;
    l->text = stem_arena_strndup(l->arena, l->source->text + l->span.begin, l->at - l->span.begin);
}

static void number(struct stem_ir_lexer *l)
{
    bool is_float = false;
    l->at += peek(l, 0) == '-';
    if (peek(l, 0) == 'i') { /* -inf */
        while (is_word(peek(l, 0)))
            l->at++;
        end_token(l, STEM_IR_FLOAT);
        l->f = -1.0 / 0.0;
        if (strcmp(l->text, "-inf"))
            stem_ir_fail(l, STEM_E_IR_TOKEN, "'%s' is no number", l->text);
        return;
    }
    for (;; l->at++) {
        char c = peek(l, 0), before = l->at ? l->source->text[l->at - 1] : ' ';
        if (is_digit(c))
            continue;
        bool sign = (c == '-' || c == '+') && (before == 'e' || before == 'E');
        if (c != '.' && c != 'e' && c != 'E' && !sign)
            break;
        is_float = true;
    }
    end_token(l, is_float ? STEM_IR_FLOAT : STEM_IR_INT);
    char *end;
    errno = 0;
    if (is_float) {
        l->f = strtod(l->text, &end);
        errno = 0; /* an underflow is a number, too */
    } else {
        l->i = strtoll(l->text, &end, 10);
        l->f = (double)l->i;
    }
    if (*end || end == l->text || errno || is_word(peek(l, 0)))
        stem_ir_fail(l, STEM_E_IR_TOKEN, "'%.60s' is no number", l->text);
}

static int hex(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One string after its opening quote, appended to o. */
static bool string_part(struct stem_ir_lexer *l, struct stem_out *o)
{
    for (; l->at < l->source->len; l->at++) {
        char c = peek(l, 0);
        if (c == '"') {
            l->at++;
            return true;
        }
        if (c == '\n' || c == '\0')
            return false;
        if (c == '\\') {
            c = peek(l, 1);
            l->at++;
            if (c == 'n') {
                c = '\n';
            } else if (c == 'x') {
                int high = hex(peek(l, 1)), low = high < 0 ? -1 : hex(peek(l, 2));
                if (low < 0 || high + low == 0)
                    return false;
                c = (char)(high * 16 + low);
                l->at += 2;
            } else if (c != '"' && c != '\\') {
                return false;
            }
        }
        stem_out_char(o, c);
    }
    return false;
}

static void string(struct stem_ir_lexer *l)
{
    struct stem_out o = {0};
    uint32_t end = l->at;
    bool fine = true;
    while (fine && peek(l, 0) == '"') {
        l->at++;
        fine = string_part(l, &o);
        end = l->at;
        skip_blanks(l);
    }
    l->at = end;
    end_token(l, STEM_IR_STRING);
    l->text = stem_arena_strdup(l->arena, stem_out_text(&o));
    stem_out_free(&o);
    if (!fine)
        stem_ir_fail(l, STEM_E_IR_TOKEN, "a string without an end, or an unknown escape in it");
}

void stem_ir_next(struct stem_ir_lexer *l)
{
    if (l->failed)
        return;
    skip_blanks(l);
    l->span = (struct stem_span){l->at, l->at};
    char c = peek(l, 0);
    if (l->at >= l->source->len) {
        end_token(l, STEM_IR_END);
    } else if (c == '-' && peek(l, 1) == '>') {
        l->at += 2;
        end_token(l, STEM_IR_MARK);
    } else if (is_digit(c) || c == '-') {
        number(l);
    } else if (is_word(c)) {
        while (is_word(peek(l, 0)))
            l->at++;
        end_token(l, STEM_IR_WORD);
    } else if (c == '"') {
        string(l);
    } else if (c && strchr(";,=()[]{}", c)) {
        l->at++;
        end_token(l, STEM_IR_MARK);
    } else {
        l->at++;
        end_token(l, STEM_IR_BAD);
        stem_ir_fail(l, STEM_E_IR_TOKEN, "a byte that starts no token");
    }
}
