/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "pass/pass.h"

enum { BYTES = 1024 };

struct reader {
    struct flow *f;
    struct stem_builder b;
    const char *at;
    struct stem_target target;
    STEM_VEC(struct stem_sym) names; /* of values, with their ids */
    STEM_VEC(struct stem_value_id) values;
};

static _Noreturn void wrong(const struct reader *r, const char *what)
{
    fprintf(stderr, "flow: %s at '%.40s'\n", what, r->at);
    abort();
}

static void blanks(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\t')
        r->at++;
}

static bool take(struct reader *r, const char *word)
{
    blanks(r);
    size_t n = strlen(word);
    if (strncmp(r->at, word, n))
        return false;
    r->at += n;
    return true;
}

static struct stem_sym name(struct reader *r)
{
    blanks(r);
    const char *begin = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '\'')
        r->at++;
    if (r->at == begin)
        wrong(r, "a name expected");
    return stem_intern_n(r->f->strings, begin, (size_t)(r->at - begin));
}

static uint64_t number(struct reader *r)
{
    blanks(r);
    char *end;
    uint64_t n = strtoull(r->at, &end, 10);
    if (end == r->at)
        wrong(r, "a number expected");
    r->at = end;
    return n;
}

static uint32_t find(const struct reader *r, struct stem_sym s)
{
    for (uint32_t i = r->names.len; i-- > 0;)
        if (stem_sym_eq(r->names.at[i], s))
            return r->values.at[i].n;
    return STEM_NONE;
}

static struct stem_value_id value(struct reader *r)
{
    uint32_t v = find(r, name(r));
    if (v == STEM_NONE)
        wrong(r, "an unknown value before");
    return (struct stem_value_id){v};
}

static void bind(struct reader *r, struct stem_sym s, struct stem_value_id v)
{
    stem_vec_push(&r->names, s);
    stem_vec_push(&r->values, v);
}

static struct stem_value_id buffer(struct reader *r, enum stem_buffer_kind kind, struct stem_sym s)
{
    int64_t bytes = take(r, ":") ? (int64_t)number(r) : BYTES;
    struct stem_value_id v = stem_build_buffer(&r->b, kind, s, STEM_U8, 1, &bytes);
    bind(r, s, v);
    return v;
}

static bool declaration(struct reader *r)
{
    static const struct {
        const char *word;
        enum stem_buffer_kind kind;
    } kinds[] = {{"input ", STEM_BUFFER_INPUT},
                 {"weight ", STEM_BUFFER_WEIGHT},
                 {"state ", STEM_BUFFER_STATE},
                 {"output ", STEM_BUFFER_OUTPUT}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (take(r, kinds[i].word)) {
            buffer(r, kinds[i].kind, name(r));
            return true;
        }
    if (!take(r, "view "))
        return false;
    struct stem_sym s = name(r);
    if (!take(r, "="))
        wrong(r, "'=' expected");
    struct stem_value_id base = value(r);
    uint64_t offset = number(r);
    int64_t bytes = (int64_t)number(r), one = 1;
    bind(r, s, stem_build_view(&r->b, base, s, offset, 1, &bytes, &one));
    return true;
}

struct op {
    struct stem_input in[STEM_MAX_OPERANDS];
    struct stem_sym next[STEM_MAX_OPERANDS]; /* INOUT: name of the new version */
    uint32_t n, n_after;
    struct stem_op_id after[8];
    double us, bytes;
};

static void operands(struct reader *r, struct op *op, enum stem_mode mode)
{
    do {
        struct stem_input *in = &op->in[op->n];
        *in = (struct stem_input){STEM_NO_VALUE, mode, STEM_NOWHERE};
        if (mode == STEM_MODE_OUT) {
            struct stem_sym s = name(r);
            uint32_t v = find(r, s);
            bool given =
                v != STEM_NONE &&
                stem_buffer_at(r->f->program, (struct stem_buffer_id){r->f->program->values.at[v].tensor.buffer})
                        ->kind == STEM_BUFFER_OUTPUT;
            in->value = given ? (struct stem_value_id){v} : buffer(r, STEM_BUFFER_TEMP, s);
        } else {
            in->value = value(r);
        }
        if (mode == STEM_MODE_INOUT) {
            if (!take(r, ">"))
                wrong(r, "'>' expected");
            op->next[op->n] = name(r);
        }
        op->n++;
    } while (take(r, ","));
    if (!take(r, "}"))
        wrong(r, "'}' expected");
}

static bool field(struct reader *r, struct op *op)
{
    static const struct {
        const char *word;
        enum stem_mode mode;
    } modes[] = {{"R{", STEM_MODE_IN},
                 {"W{", STEM_MODE_OUT},
                 {"inout{", STEM_MODE_INOUT},
                 {"consume{", STEM_MODE_CONSUME},
                 {"release{", STEM_MODE_RELEASE}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (take(r, modes[i].word)) {
            operands(r, op, modes[i].mode);
            return true;
        }
    if (take(r, "after{")) {
        do
            op->after[op->n_after++] = flow_op(r->f, stem_sym_str(r->f->strings, name(r)));
        while (take(r, ","));
        return take(r, "}");
    }
    if (take(r, "res{")) {
        r->b.resource = name(r);
        return take(r, "}");
    }
    if (take(r, "us=")) {
        op->us = (double)number(r);
        return true;
    }
    if (take(r, "bytes=")) {
        op->bytes = (double)number(r);
        return true;
    }
    return false;
}

static void pin(struct reader *r)
{
    r->b.pin = STEM_NO_STREAM;
    if (*r->at != '@')
        return;
    r->at++;
    struct stem_sym s = name(r);
    const char *text = stem_sym_str(r->f->strings, s);
    r->b.pin.n = *text == 'M' ? 0 : (uint32_t)(*text - 'A') + 1;
    while (r->f->program->streams.len <= r->b.pin.n) {
        char letter[2] = {(char)('A' + (int)r->f->program->streams.len - 1), 0};
        stem_vec_push(&r->f->program->streams, (struct stem_stream_decl){stem_intern(r->f->strings, letter), 0});
    }
}

static void statement(struct reader *r)
{
    struct stem_program *p = r->f->program;
    struct op op = {.us = 2};
    r->b.name = name(r);
    pin(r);
    r->b.resource = (struct stem_sym){0};
    while (field(r, &op))
        ;
    r->b.after = op.after;
    r->b.n_after = op.n_after;
    struct stem_value_id results[STEM_MAX_OPERANDS];
    stem_vec_push(&p->decls, (struct stem_decl){.class = STEM_OP_EXTERN, .name = r->b.name, .span = STEM_NOWHERE});
    struct stem_op_id id = stem_build_call(&r->b, p->decls.len - 1, op.in, op.n, NULL, 0, NULL, NULL, 0, results);
    for (uint32_t i = 0; i < op.n; i++)
        if (op.in[i].mode == STEM_MODE_INOUT)
            bind(r, op.next[i], results[i]);
    struct stem_op *o = stem_op_at(p, id);
    o->cost = (struct stem_cost){.bytes_read = (uint64_t)op.bytes,
                                 .flops = (uint64_t)(op.us * 1e-6 * r->target.flops),
                                 .blocks = r->target.n_sms};
    if (op.bytes > 0)
        o->cost.flops = 0;
    else
        o->cost.blocks = r->target.n_sms / 8; /* so that two of them fit beside each other */
    o->cost.flops /= op.bytes > 0 ? 1 : 8;
}

struct flow flow_empty(void)
{
    struct flow f = {stem_strtab_new(), stem_dims_new(), stem_diags_new(0), NULL};
    f.program = stem_program_new(f.strings, NULL);
    return f;
}

struct flow flow_new(const char *text)
{
    struct flow f = flow_empty();
    struct reader r = {.f = &f, .at = text, .target = stem_options_default().target};
    r.b = stem_builder_new(f.program, f.dims, f.diags);
    for (;;) {
        blanks(&r);
        if (!*r.at)
            break;
        if (*r.at == ';' || *r.at == '\n') {
            r.at++;
        } else if (take(&r, "|")) {
            stem_vec_push(&f.program->segments, (struct stem_segment){.span = STEM_NOWHERE});
            r.b.segment++;
        } else if (!declaration(&r)) {
            statement(&r);
        }
    }
    stem_vec_free(&r.names);
    stem_vec_free(&r.values);
    return f;
}

void flow_free(struct flow *f)
{
    stem_program_free(f->program);
    stem_diags_free(f->diags);
    stem_dims_free(f->dims);
    stem_strtab_free(f->strings);
}

struct stem_op_id flow_op(const struct flow *f, const char *text)
{
    for (uint32_t i = 0; i < f->program->ops.len; i++)
        if (!strcmp(stem_sym_str(f->strings, f->program->ops.at[i].name), text))
            return (struct stem_op_id){i};
    fprintf(stderr, "flow: no op '%s'\n", text);
    abort();
}
