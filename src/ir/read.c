/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the textual form of a program (docs/ir.md). One function for each statement; the first fault ends the
 * reading. What is read is then checked as a whole, so a program that was read is as sound as one that was built.
 */
#include "ir/read.h"

#include <math.h>
#include <string.h>

/* ---- pieces ---- */

bool stem_ir_is(const struct stem_ir_reader *r, const char *text)
{
    return (r->l.token == STEM_IR_WORD || r->l.token == STEM_IR_MARK) && !strcmp(r->l.text, text);
}

bool stem_ir_accept(struct stem_ir_reader *r, const char *text)
{
    bool is = stem_ir_is(r, text);
    if (is)
        stem_ir_next(&r->l);
    return is;
}

void stem_ir_expect(struct stem_ir_reader *r, const char *text)
{
    if (!stem_ir_accept(r, text))
        stem_ir_fail(&r->l, STEM_E_IR_SYNTAX, "'%s' expected here", text);
}

const char *stem_ir_string(struct stem_ir_reader *r)
{
    const char *text = r->l.text;
    if (r->l.token != STEM_IR_STRING) {
        stem_ir_fail(&r->l, STEM_E_IR_SYNTAX, "a string expected here");
        return "";
    }
    stem_ir_next(&r->l);
    return text;
}

struct stem_sym stem_ir_sym(struct stem_ir_reader *r)
{
    return stem_intern(r->p->strings, stem_ir_string(r));
}

int64_t stem_ir_int(struct stem_ir_reader *r, int64_t low, int64_t high)
{
    int64_t i = r->l.i;
    if (r->l.token != STEM_IR_INT) {
        stem_ir_fail(&r->l, STEM_E_IR_SYNTAX, "an integer expected here");
        return low;
    }
    if (i < low || i > high) {
        stem_ir_fail(&r->l, STEM_E_IR_RANGE, "%lld is not in %lld..%lld", (long long)i, (long long)low,
                     (long long)high);
        return low;
    }
    stem_ir_next(&r->l);
    return i;
}

double stem_ir_float(struct stem_ir_reader *r)
{
    double f = r->l.f;
    if (stem_ir_accept(r, "inf"))
        return INFINITY;
    if (stem_ir_accept(r, "nan"))
        return NAN;
    if (r->l.token != STEM_IR_FLOAT && r->l.token != STEM_IR_INT) {
        stem_ir_fail(&r->l, STEM_E_IR_SYNTAX, "a number expected here");
        return 0;
    }
    stem_ir_next(&r->l);
    return f;
}

uint32_t stem_ir_word(struct stem_ir_reader *r, const char *const *words, const char *what)
{
    uint32_t n = 0;
    for (; words[n]; n++)
        if (r->l.token == STEM_IR_WORD && !strcmp(r->l.text, words[n])) {
            stem_ir_next(&r->l);
            return n;
        }
    const char *near = r->l.token == STEM_IR_WORD ? stem_nearest(r->l.text, words, n) : NULL;
    bool first = !r->l.failed;
    stem_ir_fail(&r->l, STEM_E_IR_SYNTAX, "%s expected here", what);
    if (near && first)
        stem_diag_help(r->l.diags, "did you mean '%s'?", near);
    return 0;
}

/* The number behind the letter of "v12"; UINT32_MAX if the token in hand is not of that form. */
static uint32_t number_of(const struct stem_ir_reader *r, char letter)
{
    const char *s = r->l.text;
    uint64_t n = 0;
    if (r->l.token != STEM_IR_WORD || s[0] != letter || !s[1] || (s[1] == '0' && s[2]))
        return UINT32_MAX;
    for (s++; *s; s++) {
        if (*s < '0' || *s > '9' || n > UINT32_MAX / 10)
            return UINT32_MAX;
        n = n * 10 + (uint64_t)(*s - '0');
    }
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

bool stem_ir_at_id(const struct stem_ir_reader *r, char letter)
{
    return number_of(r, letter) != UINT32_MAX;
}

uint32_t stem_ir_id(struct stem_ir_reader *r, char letter, uint32_t limit)
{
    uint32_t n = number_of(r, letter);
    if (n == UINT32_MAX) {
        stem_ir_fail(&r->l, STEM_E_IR_SYNTAX, "%c and a number expected here", letter);
        return 0;
    }
    if (n >= limit) {
        stem_ir_fail(&r->l, STEM_E_IR_UNKNOWN, "%s does not exist (yet)", r->l.text);
        return 0;
    }
    stem_ir_next(&r->l);
    return n;
}

void stem_ir_new_id(struct stem_ir_reader *r, char letter, uint32_t next)
{
    uint32_t n = number_of(r, letter);
    if (n != next)
        stem_ir_fail(&r->l, n == UINT32_MAX ? STEM_E_IR_SYNTAX : STEM_E_IR_NUMBERING, "%c%u expected here", letter,
                     next);
    stem_ir_next(&r->l);
}

static uint32_t sizes(struct stem_ir_reader *r, int64_t *n, int64_t low, int64_t high)
{
    uint32_t rank = 0;
    stem_ir_expect(r, "[");
    while (!stem_ir_is(r, "]") && !r->l.failed) {
        if (rank)
            stem_ir_expect(r, ",");
        if (rank == STEM_MAX_RANK)
            stem_ir_fail(&r->l, STEM_E_IR_RANGE, "more than %d sizes", STEM_MAX_RANK);
        else
            n[rank++] = stem_ir_int(r, low, high);
    }
    stem_ir_expect(r, "]");
    return rank;
}

static bool type(struct stem_ir_reader *r, struct stem_tensor *t)
{
    int64_t dim[STEM_MAX_RANK];
    struct stem_span at = r->l.span;
    enum stem_dtype dtype = stem_dtype_from_name(r->l.token == STEM_IR_WORD ? r->l.text : "");
    if (dtype == STEM_N_DTYPES)
        stem_ir_fail(&r->l, STEM_E_IR_SYNTAX, "an element type expected here");
    stem_ir_next(&r->l);
    uint32_t rank = sizes(r, dim, 1, INT64_C(1) << 48);
    if (!r->l.failed && !stem_tensor_init(t, dtype, rank, dim))
        stem_ir_fail_at(&r->l, STEM_E_IR_RANGE, at, "a tensor of 2^48 elements or more");
    return !r->l.failed;
}

/* ---- statements of the head ---- */

static void read_state(struct stem_ir_reader *r)
{
    while (!stem_ir_is(r, ";") && !r->l.failed)
        r->p->state |= 1u << stem_ir_word(r, stem_ir_fact, "a fact");
}

static void read_dim(struct stem_ir_reader *r)
{
    struct stem_sym name = stem_ir_sym(r);
    stem_ir_expect(r, "=");
    int64_t value = stem_ir_int(r, INT64_MIN, INT64_MAX);
    stem_vec_push(&r->p->dim_names, name);
    stem_vec_push(&r->p->dim_values, value);
}

/* A new program has main already: its statement replaces it. */
static void read_stream(struct stem_ir_reader *r)
{
    if (r->n_streams == STEM_MAX_STREAMS)
        stem_ir_fail(&r->l, STEM_E_IR_RANGE, "more than %d streams", STEM_MAX_STREAMS);
    stem_ir_new_id(r, 's', r->n_streams);
    struct stem_stream_decl s = {.name = stem_ir_sym(r)};
    if (stem_ir_accept(r, "priority"))
        s.priority = (int32_t)stem_ir_int(r, INT32_MIN, INT32_MAX);
    if (r->n_streams++ == 0)
        r->p->streams.at[0] = s;
    else
        stem_vec_push(&r->p->streams, s);
}

static void read_segment(struct stem_ir_reader *r)
{
    struct stem_segment g = {.span = r->l.span};
    stem_ir_new_id(r, 'g', r->n_segments);
    g.eager = stem_ir_accept(r, "eager");
    if (r->n_segments++ == 0)
        r->p->segments.at[0] = g;
    else
        stem_vec_push(&r->p->segments, g);
}

static void read_layer(struct stem_ir_reader *r)
{
    stem_ir_new_id(r, 'l', r->p->layers.len);
    struct stem_sym name = stem_ir_sym(r);
    stem_vec_push(&r->p->layers, name);
}

static void read_decl(struct stem_ir_reader *r, enum stem_op_class class)
{
    struct stem_decl d = {.class = class, .span = r->l.span};
    stem_ir_new_id(r, 'd', r->p->decls.len);
    d.name = stem_ir_sym(r);
    d.waits = stem_ir_accept(r, "waits");
    if (stem_ir_accept(r, "params"))
        d.params = stem_arena_strdup(r->p->arena, stem_ir_string(r));
    if (stem_ir_accept(r, "library"))
        d.library = stem_arena_strdup(r->p->arena, stem_ir_string(r));
    if (stem_ir_accept(r, "body")) {
        d.body_span = r->l.span;
        d.body = stem_arena_strdup(r->p->arena, stem_ir_string(r));
    }
    stem_vec_push(&r->p->decls, d);
}

/* ---- buffers and values ---- */

static void read_buffer(struct stem_ir_reader *r)
{
    struct stem_buffer b = {.align = 256, .span = r->l.span};
    stem_ir_new_id(r, 'b', r->p->buffers.len);
    b.kind = (enum stem_buffer_kind)stem_ir_word(r, stem_ir_buffer_kind, "temp, input, output, weight or state");
    b.name = stem_ir_sym(r);
    if (!type(r, &b.shape))
        return;
    b.shape.buffer = r->p->buffers.len;
    b.bytes = stem_tensor_extent(&b.shape);
    if (stem_ir_accept(r, "align"))
        b.align = (uint32_t)stem_ir_int(r, 1, 1 << 20);
    if (stem_ir_accept(r, "offset"))
        b.offset = (uint64_t)stem_ir_int(r, 0, INT64_MAX);
    b.inout = b.kind == STEM_BUFFER_INPUT && stem_ir_accept(r, "inout");
    if (b.kind == STEM_BUFFER_WEIGHT && stem_ir_accept(r, "from"))
        b.from = stem_arena_strdup(r->p->arena, stem_ir_string(r));
    stem_vec_push(&r->p->buffers, b);
}

/* The base of a value may come later in the text, so what follows from it is set at the end of reading. */
static void read_value(struct stem_ir_reader *r)
{
    struct stem_value v = {.def = STEM_NO_OP, .base = STEM_NO_VALUE, .span = r->l.span};
    struct stem_tensor t;
    int64_t stride[STEM_MAX_RANK];
    stem_ir_new_id(r, 'v', r->p->values.len);
    v.name = stem_ir_sym(r);
    uint32_t buffer = stem_ir_id(r, 'b', r->p->buffers.len);
    if (r->l.failed)
        return;
    v.tensor = r->p->buffers.at[buffer].shape;
    if (r->l.token == STEM_IR_WORD && stem_dtype_from_name(r->l.text) != STEM_N_DTYPES && type(r, &t))
        v.tensor = t;
    v.tensor.buffer = buffer;
    if (stem_ir_accept(r, "offset"))
        v.tensor.offset = (uint64_t)stem_ir_int(r, 0, INT64_MAX);
    if (stem_ir_accept(r, "stride")) {
        if (sizes(r, stride, 0, INT64_C(1) << 48) != v.tensor.rank)
            stem_ir_fail(&r->l, STEM_E_IR_RANGE, "one stride for each size expected");
        else
            memcpy(v.tensor.stride, stride, v.tensor.rank * sizeof *stride);
    }
    if (stem_ir_is(r, "view") || stem_ir_is(r, "next")) {
        v.version = stem_ir_is(r, "next"); /* for now: steps above the base */
        stem_ir_next(&r->l);
        v.base.n = stem_ir_id(r, 'v', UINT32_MAX);
    }
    stem_vec_push(&r->p->values, v);
}

/* Replaces each value's step above its base by its version. A circle of bases would never reach version 0. */
static void set_versions(struct stem_ir_reader *r)
{
    struct stem_program *p = r->p;
    STEM_VEC(uint32_t) path = {0};
    struct stem_bitset done = stem_bitset_new(p->arena, p->values.len);
    for (uint32_t i = 0; i < p->values.len && !r->l.failed; i++) {
        uint32_t v = i, version = 0;
        while (v != STEM_NONE && !stem_bitset_has(&done, v) && path.len <= p->values.len) {
            stem_vec_push(&path, v);
            uint32_t base = p->values.at[v].base.n;
            if (base != STEM_NONE && base >= p->values.len) {
                stem_ir_fail_at(&r->l, STEM_E_IR_UNKNOWN, p->values.at[v].span, "v%u does not exist", base);
                break;
            }
            v = base;
        }
        if (path.len > p->values.len)
            stem_ir_fail_at(&r->l, STEM_E_IR_FAULT, p->values.at[i].span, "v%u is its own base", i);
        if (r->l.failed)
            break;
        version = v == STEM_NONE ? 0 : p->values.at[v].version;
        while (path.len) {
            struct stem_value *x = &p->values.at[stem_vec_pop(&path)];
            version += x->version;
            x->version = version;
            stem_bitset_add(&done, (uint32_t)(x - p->values.at));
        }
    }
    stem_vec_free(&path);
}

/* ---- all ---- */

static void statement(struct stem_ir_reader *r)
{
    static const char *const words[] = {"state",  "dim",   "stream", "segment", "layer", "kernel", "extern",
                                        "buffer", "value", "op",     "dep",     "order", "wait",   "use",
                                        "events", "slab",  "lanes",  "estimate", "programmatic", "shares", NULL};
    uint32_t w = stem_ir_word(r, words, "a statement");
    if (r->l.failed)
        return;
    switch (w) {
    case 0: read_state(r); break;
    case 1: read_dim(r); break;
    case 2: read_stream(r); break;
    case 3: read_segment(r); break;
    case 4: read_layer(r); break;
    case 5: read_decl(r, STEM_OP_KERNEL); break;
    case 6: read_decl(r, STEM_OP_EXTERN); break;
    case 7: read_buffer(r); break;
    case 8: read_value(r); break;
    case 9: stem_ir_read_op(r); break;
    default: stem_ir_read_schedule(r, words[w]);
    }
    stem_ir_expect(r, ";");
}

struct stem_program *stem_program_read(struct stem_strtab *strings, const struct stem_source *s,
                                       struct stem_diags *diags)
{
    struct stem_arena *scratch = stem_arena_new();
    struct stem_ir_reader r = {.l = {.source = s, .diags = diags, .arena = scratch},
                               .p = stem_program_new(strings, NULL)};
    struct stem_program *p = r.p;
    stem_ir_next(&r.l);
    stem_ir_expect(&r, "program");
    p->name = stem_ir_sym(&r);
    stem_ir_expect(&r, ";");
    while (r.l.token != STEM_IR_END && !r.l.failed)
        statement(&r);
    if (!r.l.failed)
        set_versions(&r);
    if (!r.l.failed)
        stem_ir_finish_schedule(&r);
    const char *fault = r.l.failed ? NULL : stem_program_check(p);
    if (fault)
        stem_ir_fail_at(&r.l, STEM_E_IR_FAULT, STEM_NOWHERE, "not a sound program: %s", fault);
    if (!r.l.failed)
        for (uint32_t i = 0; i < p->ops.len; i++)
            if (!p->ops.at[i].dead)
                stem_op_set_cost(p, &p->ops.at[i]);
    stem_vec_free(&r.uses);
    stem_arena_free(scratch);
    if (r.l.failed) {
        stem_program_free(p);
        return NULL;
    }
    return p;
}
