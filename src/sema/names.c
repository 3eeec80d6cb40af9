/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of weights in checkpoints: `weight gate: bf16[E, H] = "model.layers.{l + 3}.mlp.gate.weight";`. What stands in
 * braces is a number of constants and of the enclosing instances' indices, or {*} or {* + n}, or a list {a,b}; the
 * numbers are put in here, the rest is the plan's (stem_weight_source).
 */
#include "sema/names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct scanner {
    const struct stem_eval *e;
    const char *text; /* between the braces */
    size_t len, at;
    uint32_t begin; /* of the text in the source */
    uint32_t depth;
    bool failed;
};

static struct stem_span here(const struct scanner *s, size_t from)
{
    return (struct stem_span){s->begin + (uint32_t)from, s->begin + (uint32_t)s->at};
}

static char next(struct scanner *s)
{
    while (s->at < s->len && s->text[s->at] == ' ')
        s->at++;
    return s->at < s->len ? s->text[s->at] : '\0';
}

static struct stem_x *make(struct scanner *s, enum stem_x_kind kind, size_t from)
{
    struct stem_x *x = STEM_NEW(s->e->m->arena, struct stem_x);
    x->kind = kind;
    x->depth = 1;
    x->span = here(s, from);
    return x;
}

static struct stem_x *fail(struct scanner *s)
{
    if (!s->failed)
        stem_error(s->e->diags, STEM_E_WEIGHT_NAME,
                   (struct stem_span){s->begin + (uint32_t)s->at, s->begin + (uint32_t)s->at + 1},
                   "braces hold a number of constants and indices, a list {a,b}, or {*}");
    s->failed = true;
    return make(s, STEM_X_ERROR, s->at);
}

static struct stem_x *sum(struct scanner *s);

static struct stem_x *primary(struct scanner *s)
{
    char c = next(s);
    size_t from = s->at;
    if (++s->depth > 50)
        return fail(s);
    if (c == '(') {
        s->at++;
        struct stem_x *x = sum(s);
        if (next(s) != ')')
            return fail(s);
        s->at++;
        s->depth--;
        return x;
    }
    while (s->at < s->len && (isalnum((unsigned char)s->text[s->at]) || s->text[s->at] == '_'))
        s->at++;
    s->depth--;
    if (s->at == from)
        return fail(s);
    struct stem_x *x = make(s, isdigit((unsigned char)c) ? STEM_X_INT : STEM_X_NAME, from);
    if (x->kind == STEM_X_INT) {
        for (size_t i = from; i < s->at; i++)
            if (!isdigit((unsigned char)s->text[i]) || i - from > 15)
                return fail(s);
            else
                x->i = x->i * 10 + (s->text[i] - '0');
    } else {
        char *name = stem_arena_strndup(s->e->m->arena, s->text + from, s->at - from);
        x->id = (struct stem_ident){stem_intern(s->e->m->strings, name), x->span};
    }
    return x;
}

static struct stem_x *binary(struct scanner *s, enum stem_x_op op, struct stem_x *a, struct stem_x *b)
{
    struct stem_x *x = make(s, STEM_X_BINARY, s->at);
    x->span = stem_span_join(a->span, b->span);
    x->op = op;
    x->a = a;
    x->b = b;
    return x;
}

static struct stem_x *product(struct scanner *s)
{
    struct stem_x *x = primary(s);
    for (char c; !s->failed && ((c = next(s)) == '*' || c == '/' || c == '%');) {
        s->at++;
        x = binary(s, c == '*' ? STEM_X_MUL : c == '/' ? STEM_X_DIV : STEM_X_MOD, x, primary(s));
    }
    return x;
}

static struct stem_x *sum(struct scanner *s)
{
    struct stem_x *x = product(s);
    for (char c; !s->failed && ((c = next(s)) == '+' || c == '-');) {
        s->at++;
        x = binary(s, c == '+' ? STEM_X_ADD : STEM_X_SUB, x, product(s));
    }
    return x;
}

/* What is left of the braces as a number; indices that are not known yet count as 0. */
static bool number(struct scanner *s, int64_t *n)
{
    struct stem_x *x = sum(s);
    *n = 0;
    if (!s->failed && next(s))
        fail(s);
    if (s->failed)
        return false;
    struct stem_eval e = *s->e;
    e.of_indices = true;
    struct stem_dim d = stem_eval_int(&e, x);
    if (!d.n && x->kind == STEM_X_NAME && stem_global_find(s->e->m, x->id.name).kind == STEM_G_NONE)
        stem_diag_help(s->e->diags, "`layer NAME[%s](...)` names the index that its instances have",
                       stem_name(s->e->m, x->id.name));
    if (!d.n)
        return false;
    if (stem_dim_value(s->e->dims, d, n) && *n < 0) {
        stem_error(s->e->diags, STEM_E_WEIGHT_NAME, x->span, "the number is %" PRId64 ", and names have none below 0", *n);
        return false;
    }
    return true;
}

static bool braces(const struct stem_eval *e, const char *text, size_t len, uint32_t begin, struct stem_out *out)
{
    struct scanner s = {.e = e, .text = text, .len = len, .begin = begin};
    int64_t n = 0;
    if (memchr(text, ',', len)) {
        stem_out_printf(out, "{%.*s}", (int)len, text);
        return true;
    }
    bool star = next(&s) == '*';
    if (star) {
        s.at++;
        if (next(&s) == '+') {
            s.at++;
            if (!number(&s, &n))
                return false;
        } else if (next(&s)) {
            fail(&s);
            return false;
        }
        stem_out_printf(out, n ? "{*+%" PRId64 "}" : "{*}", n);
        return true;
    }
    if (!number(&s, &n))
        return false;
    stem_out_printf(out, "%" PRId64, n);
    return true;
}

const char *stem_weight_names(const struct stem_eval *e, const struct stem_ast_param *p, const struct stem_type *t,
                              const int64_t *dim)
{
    struct stem_out out = {0};
    struct stem_plan_buffer b = {.kind = STEM_BUFFER_WEIGHT, .rank = t->rank};
    bool ok = true;
    for (const char *at = p->from; *at && ok; at++) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if (!end) {
            stem_out_char(&out, *at);
            continue;
        }
        ok = braces(e, at + 1, (size_t)(end - at - 1), p->from_span.begin + 2 + (uint32_t)(at - p->from), &out);
        at = end;
    }
    const char *from = ok ? stem_arena_strdup(e->m->arena, stem_out_text(&out)) : NULL;
    stem_out_free(&out);
    if (!ok)
        return NULL;
    b.from = from;
    memcpy(b.dim, dim, sizeof b.dim);
    const char *wrong = stem_weight_fault(&b);
    if (!wrong)
        return from;
    stem_error(e->diags, STEM_E_WEIGHT_NAME, p->from_span, "no name of tensors: %s", wrong);
    return NULL;
}
