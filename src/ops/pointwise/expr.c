/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pointwise/expr.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ref.h"

static const char *const fn_name[STEM_N_FN] = {
    "neg", "abs", "relu", "sqrt", "rsqrt", "exp", "log", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh",
    "add", "sub", "mul", "div", "min", "max"};

const char *stem_expr_fn_name(enum stem_expr_fn fn)
{
    return fn_name[fn];
}

enum stem_expr_fn stem_expr_fn_find(const char *name)
{
    int i = 0;
    while (i < STEM_N_FN && strcmp(fn_name[i], name))
        i++;
    return (enum stem_expr_fn)i;
}

/* ---- building ---- */

static uint32_t push(struct stem_expr *e, struct stem_expr_node node)
{
    if (e->n == STEM_EXPR_MAX_NODES)
        return UINT32_MAX;
    e->node[e->n] = node;
    return e->n++;
}

uint32_t stem_expr_input(struct stem_expr *e, uint32_t input)
{
    if (input >= STEM_EXPR_MAX_INPUTS)
        return UINT32_MAX;
    if (e->n_inputs < input + 1)
        e->n_inputs = input + 1;
    return push(e, (struct stem_expr_node){.kind = STEM_EXPR_INPUT, .input = input});
}

uint32_t stem_expr_const(struct stem_expr *e, float value)
{
    return push(e, (struct stem_expr_node){.kind = STEM_EXPR_CONST, .constant = value});
}

static bool integer(enum stem_dtype t)
{
    return t == STEM_I32 || t == STEM_I64 || t == STEM_U8;
}

uint32_t stem_expr_as(struct stem_expr *e, enum stem_dtype as, uint32_t a)
{
    if (a == UINT32_MAX)
        return a;
    const struct stem_expr_node *x = &e->node[a];
    bool may_be_integer = x->kind == STEM_EXPR_INPUT || (x->kind == STEM_EXPR_AS && integer(x->as));
    if (as == STEM_F32 && !may_be_integer)
        return a;
    return push(e, (struct stem_expr_node){.kind = STEM_EXPR_AS, .as = as, .a = a});
}

uint32_t stem_expr_call(struct stem_expr *e, enum stem_expr_fn fn, uint32_t a, uint32_t b)
{
    bool binary = stem_expr_fn_binary(fn);
    if (a == UINT32_MAX || (binary && b == UINT32_MAX))
        return UINT32_MAX;
    return push(e, (struct stem_expr_node){.kind = binary ? STEM_EXPR_BINARY : STEM_EXPR_UNARY, .fn = fn, .a = a,
                                           .b = binary ? b : 0});
}

/* ---- text ---- */

/* Whether as:f32 means something before the rest of a text: arithmetic takes an integer as f32 anyway. */
static bool rounds(const char *rest)
{
    return !*rest || !strncmp(rest, " as:i", 5) || !strncmp(rest, " as:u", 5);
}

static bool parse_token(struct stem_expr *e, const char *s, const char *rest, uint32_t *stack, uint32_t *depth, const char **why)
{
    uint32_t n = UINT32_MAX;
    char *end = (char *)s;
    enum stem_expr_fn fn = stem_expr_fn_find(s);
    uint32_t needs = fn == STEM_N_FN ? !strncmp(s, "as:", 3) : stem_expr_fn_binary(fn) ? 2 : 1;
    *why = "an operation without arguments";
    if (*depth < needs)
        return false;
    *why = "an unknown token, or too many";
    *depth -= needs;
    uint32_t *arg = stack + *depth;
    if (fn != STEM_N_FN) {
        n = stem_expr_call(e, fn, arg[0], needs == 2 ? arg[1] : 0);
    } else if (needs) {
        enum stem_dtype as = stem_dtype_from_name(s + 3);
        if (as == STEM_F32 && !rounds(rest))
            n = arg[0];
        else if (as != STEM_N_DTYPES && !stem_dtype_packed(as))
            n = stem_expr_as(e, as, arg[0]);
    } else if (!strncmp(s, "c:", 2)) {
        float f = strtof(s + 2, &end);
        if (s[2] != ' ' && end > s + 2 && !*end)
            n = stem_expr_const(e, f);
    } else if (s[0] == 'i' && s[1] >= '0' && s[1] <= '9') {
        unsigned long i = strtoul(s + 1, &end, 10);
        if (!*end && i < STEM_EXPR_MAX_INPUTS && (s[1] != '0' || !s[2]))
            n = stem_expr_input(e, (uint32_t)i);
    }
    if (n == UINT32_MAX)
        return false;
    stack[(*depth)++] = n;
    return true;
}

bool stem_expr_parse(struct stem_expr *e, const char *text, const char **why)
{
    uint32_t stack[STEM_EXPR_MAX_NODES + 1], depth = 0;
    memset(e, 0, sizeof *e);
    for (const char *s = text; *s;) {
        char token[32];
        size_t len = strcspn(s, " ");
        *why = "a token that is too long, or blanks where none belong";
        if (len == 0 || len >= sizeof token || (s[len] && !s[len + 1]))
            return false;
        memcpy(token, s, len);
        token[len] = '\0';
        if (!parse_token(e, token, s + len, stack, &depth, why))
            return false;
        s += len + (s[len] == ' ');
    }
    *why = depth ? "more than one value is left over" : "it is empty";
    return depth == 1;
}

static void print_node(const struct stem_expr *e, uint32_t n, struct stem_out *o)
{
    const struct stem_expr_node *x = &e->node[n];
    switch (x->kind) {
    case STEM_EXPR_INPUT:
        stem_out_printf(o, "i%u", x->input);
        return;
    case STEM_EXPR_CONST:
        stem_out_printf(o, "c:%.9g", x->constant);
        return;
    case STEM_EXPR_UNARY:
    case STEM_EXPR_BINARY:
        print_node(e, x->a, o);
        if (x->kind == STEM_EXPR_BINARY) {
            stem_out_char(o, ' ');
            print_node(e, x->b, o);
        }
        stem_out_printf(o, " %s", fn_name[x->fn]);
        return;
    case STEM_EXPR_AS:
        print_node(e, x->a, o);
        stem_out_printf(o, " as:%s", stem_dtype_name(x->as));
    }
}

void stem_expr_print(const struct stem_expr *e, struct stem_out *o)
{
    print_node(e, e->n - 1, o);
}

/* ---- fusing ---- */

/* Appends `from` to `to` with inputs renamed; input `which` becomes the node `with`. */
static uint32_t graft(struct stem_expr *to, const struct stem_expr *from, const uint32_t *map, uint32_t which,
                      uint32_t with)
{
    uint32_t at[STEM_EXPR_MAX_NODES] = {0};
    for (uint32_t i = 0; i < from->n; i++) {
        const struct stem_expr_node *x = &from->node[i];
        if (x->kind == STEM_EXPR_INPUT)
            at[i] = x->input == which ? with : stem_expr_input(to, map[x->input]);
        else if (x->kind == STEM_EXPR_CONST)
            at[i] = stem_expr_const(to, x->constant);
        else if (x->kind == STEM_EXPR_AS)
            at[i] = stem_expr_as(to, x->as, at[x->a]);
        else
            at[i] = stem_expr_call(to, x->fn, at[x->a], at[x->b]);
        if (at[i] == UINT32_MAX)
            return UINT32_MAX;
    }
    return at[from->n - 1];
}

/* An argument used twice is written out twice and may not fit. */
const char *stem_expr_text(struct stem_arena *a, const struct stem_expr *e)
{
    struct stem_out o = {0};
    struct stem_expr again;
    const char *why, *text = NULL;
    stem_expr_print(e, &o);
    if (stem_expr_parse(&again, stem_out_text(&o), &why))
        text = stem_arena_strdup(a, stem_out_text(&o));
    stem_out_free(&o);
    return text;
}

/* Nodes of e when written out, at most a little over the limit. */
static uint32_t written_size(const struct stem_expr *e)
{
    uint32_t size[STEM_EXPR_MAX_NODES];
    for (uint32_t i = 0; i < e->n; i++) {
        const struct stem_expr_node *x = &e->node[i];
        bool leaf = x->kind == STEM_EXPR_INPUT || x->kind == STEM_EXPR_CONST;
        size[i] = 1 + (leaf ? 0 : size[x->a]) + (x->kind == STEM_EXPR_BINARY ? size[x->b] : 0);
        if (size[i] > STEM_EXPR_MAX_NODES)
            size[i] = STEM_EXPR_MAX_NODES + 1;
    }
    return size[e->n - 1];
}

/* Whether input i, an f32 in memory, is cast to an integer as it is: by a node, or by the store. */
static bool casts(const struct stem_expr *e, uint32_t i)
{
    for (uint32_t n = 0; n < e->n; n++) {
        const struct stem_expr_node *x = &e->node[n];
        bool cast = x->kind == STEM_EXPR_AS && integer(x->as), last = n + 1 == e->n;
        const struct stem_expr_node *taken = cast ? &e->node[x->a] : last ? x : NULL;
        if (taken && taken->kind == STEM_EXPR_INPUT && taken->input == i)
            return true;
    }
    return false;
}

bool stem_expr_fuse(struct stem_expr *both, const struct stem_expr *consumer, const uint32_t *consumer_map,
                    uint32_t which, const struct stem_expr *producer, const uint32_t *producer_map,
                    enum stem_dtype stored)
{
    both->n = both->n_inputs = 0;
    uint32_t value = graft(both, producer, producer_map, UINT32_MAX, 0);
    if (stored != STEM_F32 || casts(consumer, which))
        value = stem_expr_as(both, stored, value);
    else if (value != UINT32_MAX && both->node[value].kind == STEM_EXPR_AS && both->node[value].as == STEM_F32)
        value = both->node[value].a;
    return value != UINT32_MAX && graft(both, consumer, consumer_map, which, value) != UINT32_MAX &&
           written_size(both) <= STEM_EXPR_MAX_NODES;
}

const char *stem_expr_compose(struct stem_arena *a, const char *consumer, const uint32_t *consumer_map,
                              uint32_t which, const char *producer, const uint32_t *producer_map,
                              enum stem_dtype stored)
{
    struct stem_expr c, p, both;
    const char *why;
    if (!stem_expr_parse(&c, consumer, &why) || !stem_expr_parse(&p, producer, &why) ||
        !stem_expr_fuse(&both, &c, consumer_map, which, &p, producer_map, stored))
        return NULL;
    return stem_expr_text(a, &both);
}

const char *stem_expr_rename(struct stem_arena *a, const char *text, const uint32_t *map)
{
    struct stem_expr e, renamed = {0};
    const char *why;
    if (!stem_expr_parse(&e, text, &why) || graft(&renamed, &e, map, UINT32_MAX, 0) == UINT32_MAX)
        return NULL;
    return stem_expr_text(a, &renamed);
}

/* ---- integers ---- */

bool stem_expr_whole_input(const struct stem_expr *e, const enum stem_dtype *in, uint32_t whole)
{
    return in && e->node[whole].kind == STEM_EXPR_INPUT && integer(in[e->node[whole].input]);
}

uint32_t stem_expr_whole(const struct stem_expr *e, const enum stem_dtype *in, enum stem_dtype result)
{
    uint32_t n = e->n - 1;
    bool other = false;
    for (; integer(result) && e->node[n].kind == STEM_EXPR_AS && integer(e->node[n].as); n = e->node[n].a)
        other |= e->node[n].as != result;
    return integer(result) && (other || stem_expr_whole_input(e, in, n)) ? n : UINT32_MAX;
}

/* ---- evaluating: one node over all places, then the next, so that the loops vectorise ---- */

static void eval_unary(enum stem_expr_fn fn, const float *a, uint32_t n, float *y)
{
#define EACH(value)                     \
    for (uint32_t i = 0; i < n; i++) {  \
        float x = a[i];                 \
        y[i] = (value);                 \
    }                                   \
    break
    switch (fn) {
    case STEM_FN_NEG: EACH(-x);
    case STEM_FN_ABS: EACH(fabsf(x));
    case STEM_FN_RELU: EACH(x > 0.0f || isnan(x) ? x : 0.0f);
    case STEM_FN_SQRT: EACH(sqrtf(x));
    case STEM_FN_RSQRT: EACH((float)(1.0 / sqrt((double)x)));
    case STEM_FN_EXP: EACH(expf(x));
    case STEM_FN_LOG: EACH(logf(x));
    case STEM_FN_TANH: EACH(tanhf(x));
    case STEM_FN_SIGMOID: EACH(1.0f / (1.0f + expf(-x)));
    case STEM_FN_SILU: EACH(x / (1.0f + expf(-x)));
    case STEM_FN_GELU: EACH(0.5f * x * (1.0f + erff(x * 0.707106781f)));
    case STEM_FN_GELU_TANH: EACH(0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x))));
    default: abort();
    }
#undef EACH
}

static void eval_binary(enum stem_expr_fn fn, const float *a, const float *b, uint32_t n, float *y)
{
#define EACH(value)                    \
    for (uint32_t i = 0; i < n; i++)   \
        y[i] = (value);                \
    break
    switch (fn) {
    case STEM_FN_ADD: EACH(a[i] + b[i]);
    case STEM_FN_SUB: EACH(a[i] - b[i]);
    case STEM_FN_MUL: EACH(a[i] * b[i]);
    case STEM_FN_DIV: EACH(a[i] / b[i]);
    /* NaN wins, as on the device (min.NaN); of -0 and +0 either. */
    case STEM_FN_MIN: EACH(a[i] < b[i] || isnan(a[i]) ? a[i] : b[i]);
    case STEM_FN_MAX: EACH(a[i] > b[i] || isnan(a[i]) ? a[i] : b[i]);
    default: abort();
    }
#undef EACH
}

void stem_expr_eval(const struct stem_expr *e, const float *const *in, uint32_t count, float *scratch, float *out)
{
    const float *at[STEM_EXPR_MAX_NODES];
    for (uint32_t n = 0; n < e->n; n++) {
        const struct stem_expr_node *x = &e->node[n];
        float *y = n + 1 == e->n ? out : scratch + (size_t)n * count;
        at[n] = y;
        switch (x->kind) {
        case STEM_EXPR_INPUT:
            at[n] = in[x->input];
            break;
        case STEM_EXPR_CONST:
            for (uint32_t i = 0; i < count; i++)
                y[i] = x->constant;
            break;
        case STEM_EXPR_UNARY:
            eval_unary(x->fn, at[x->a], count, y);
            break;
        case STEM_EXPR_BINARY:
            eval_binary(x->fn, at[x->a], at[x->b], count, y);
            break;
        case STEM_EXPR_AS:
            for (uint32_t i = 0; i < count; i++)
                y[i] = stem_ref_round(x->as, at[x->a][i]);
            break;
        }
    }
    if (at[e->n - 1] != out)
        memcpy(out, at[e->n - 1], count * sizeof *out);
}
