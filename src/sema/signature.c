/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures: parameters, results, modes, and how a kernel is launched.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/directive.h"
#include "sema/check.h"

static struct stem_eval symbolic(struct stem_module *m)
{
    return (struct stem_eval){.m = m, .dims = m->dims, .diags = m->diags, .dim_value = m->dim_symbols.at};
}

static uint32_t count(const struct stem_ast_param *p)
{
    uint32_t n = 0;
    for (; p; p = p->next)
        n++;
    return n;
}

/* Types of a list; a bad one has dtype STEM_N_DTYPES. */
static struct stem_type *types(struct stem_module *m, const struct stem_ast_param *p, uint32_t n)
{
    struct stem_eval e = symbolic(m);
    struct stem_type *t = STEM_NEW_ARRAY(m->arena, struct stem_type, n);
    for (uint32_t i = 0; i < n; i++, p = p->next)
        if (!stem_eval_type(&e, &p->type, &t[i]))
            t[i].dtype = STEM_N_DTYPES;
    return t;
}

static void bad_mode(struct stem_module *m, const struct stem_ast_param *p, const char *where)
{
    stem_error(m->diags, STEM_E_BAD_SIGNATURE, p->span, "'%s' cannot be a mode in %s", stem_ast_mode_text(p->mode),
               where);
}

/* Before anything that compares each with each. */
static bool too_many(struct stem_module *m, const struct stem_callable *f, uint32_t limit)
{
    if (f->n_params <= limit && f->n_results <= limit && f->n_scalars <= limit)
        return false;
    stem_error(m->diags, STEM_E_TOO_MANY_OPERANDS, f->item->id.span, "more than %u parameters or results", limit);
    return true;
}

static void layer_params(struct stem_module *m, const struct stem_callable *f)
{
    bool model = f->item->kind == STEM_I_MODEL || f - m->callables.at == m->model;
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next) {
        bool fine = p->mode == STEM_AST_NONE || p->mode == STEM_AST_IN || p->mode == STEM_AST_INOUT;
        if (!fine && (model || (p->mode != STEM_AST_CONSUME && p->mode != STEM_AST_RELEASE)))
            bad_mode(m, p, model ? "a model" : "a layer");
        if (p->value)
            stem_error(m->diags, STEM_E_BAD_SIGNATURE, p->value->span, "a parameter has no default");
    }
    for (const struct stem_ast_param *p = f->item->results; p; p = p->next)
        for (const struct stem_ast_param *q = f->item->results; q != p; q = q->next)
            if (stem_sym_eq(p->id.name, q->id.name))
                stem_error(m->diags, STEM_E_REDEFINED, p->id.span, "two results '%s'", stem_name(m, p->id.name));
}

/* ---- kernels and extern functions ---- */

static void workspace(struct stem_module *m, const struct stem_ast_param *p)
{
    if (p->value && (p->value->kind != STEM_X_INT || p->value->i != 0))
        stem_error(m->diags, STEM_E_BAD_SIGNATURE, p->value->span, "a workspace can only be cleared: = 0");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, *(const char *const *)b);
}

/* What a C++17 parameter cannot be called, in the order of strcmp. */
static bool cxx_keyword(const char *name)
{
    static const char *const words[] = {
        "alignas",   "alignof",  "and",      "and_eq",    "asm",          "auto",          "bitand",
        "bitor",     "bool",     "break",    "case",      "catch",        "char",          "char16_t",
        "char32_t",  "class",    "compl",    "const",     "const_cast",   "constexpr",     "continue",
        "decltype",  "default",  "delete",   "do",        "double",       "dynamic_cast",  "else",
        "enum",      "explicit", "export",   "extern",    "false",        "float",         "for",
        "friend",    "goto",     "if",       "inline",    "int",          "long",          "mutable",
        "namespace", "new",      "noexcept", "not",       "not_eq",       "nullptr",       "operator",
        "or",        "or_eq",    "private",  "protected", "public",       "register",      "reinterpret_cast",
        "return",    "short",    "signed",   "sizeof",    "static",       "static_assert", "static_cast",
        "struct",    "switch",   "template", "this",      "thread_local", "throw",         "true",
        "try",       "typedef",  "typeid",   "typename",  "typeof",       "union",         "unsigned",
        "using",     "virtual",  "void",     "volatile",  "wchar_t",      "while",         "xor",
        "xor_eq",
    };
    return bsearch(name, words, sizeof words / sizeof *words, sizeof *words, by_text);
}

/* Macros of the headers that every kernel is compiled with: a parameter of that name would vanish. Which ones CUDA's headers have
 * changes with their version, what they begin with does not. */
static bool is_macro(const char *name)
{
    static const char *const begin[] = {"CUDA", "CU_", "NV_", "STEM_"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (!strncmp(name, begin[i], strlen(begin[i])))
            return true;
    if (!strncmp(name, "cuda", 4) && isupper((unsigned char)name[4]))
        return true;
    static const char *const words[] = {"EOF", "FLT_MAX", "FLT_MIN", "HUGE_VAL", "INFINITY", "INT_MAX", "INT_MIN", "NAN", "NULL"};
    return bsearch(name, words, sizeof words / sizeof *words, sizeof *words, by_text);
}

/* Operands and scalars are parameters of the CUDA C function that a body becomes. */
static void kernel_names(struct stem_module *m, const struct stem_ast_param *p)
{
    for (; p; p = p->next) {
        const char *name = stem_name(m, p->id.name);
        if (cxx_keyword(name))
            stem_error(m->diags, STEM_E_KERNEL_NAME, p->id.span,
                       "'%s' is a keyword of CUDA C++, which the body is written in", name);
        else if (is_macro(name))
            stem_error(m->diags, STEM_E_KERNEL_NAME, p->id.span,
                       "'%s' is, or may be, a macro where the body is compiled: give it another name", name);
        else if (!strncmp(name, "__", 2) || (name[0] == '_' && isupper((unsigned char)name[1])))
            stem_error(m->diags, STEM_E_KERNEL_NAME, p->id.span,
                       "'%s' begins with %s, as CUDA C++'s own names do", name,
                       name[1] == '_' ? "two underscores" : "an underscore and a capital");
    }
}

/* True if the body has one of the words outside of comments; in a string, too, since that is what asm takes. */
static bool body_has(const char *s, size_t len, const char *const *words, size_t n)
{
    const char *end = s + len;
    while (s < end) {
        if (*s == '/' && end - s > 1 && s[1] == '/') {
            const char *line = memchr(s, '\n', (size_t)(end - s));
            s = line ? line : end;
        } else if (*s == '/' && end - s > 1 && s[1] == '*') {
            for (s += 2; s < end && !(*s == '*' && end - s > 1 && s[1] == '/');)
                s++;
        }
        for (size_t i = 0; i < n && s < end; i++)
            if ((size_t)(end - s) >= strlen(words[i]) && !memcmp(s, words[i], strlen(words[i])))
                return true;
        s += s < end;
    }
    return false;
}

/* `waits` lets the kernel start before its predecessor has ended: without a wait in its code that is a race. */
static void kernel_waits(struct stem_module *m, const struct stem_item *it)
{
    static const char *const words[] = {"stem_wait", "griddepcontrol.wait", "cudaGridDependencySynchronize"};
    const char *body = m->ast->source->text + it->code.begin;
    if (!it->waits || body_has(body, it->code.end - it->code.begin, words, sizeof words / sizeof *words))
        return;
    stem_error(m->diags, STEM_E_NO_WAIT, it->id.span, "'%s' says `waits`, and nothing in its body waits",
               stem_name(m, it->id.name));
    stem_diag_help(m->diags, "call stem_wait() before the first access to an operand, or take `waits` away");
}

/* Macros of what every kernel is compiled with: the kernels behind this one, ours among them, need them as they are. */
static bool keeps(const char *name)
{
    return !strncmp(name, "STEM_", 5) || !strcmp(name, "NULL") || !strcmp(name, "assert");
}

/* A body is a text by itself: it leaves macros and conditions as it found them. */
static void kernel_directives(struct stem_module *m, const struct stem_item *it)
{
    struct stem_directives d = stem_directives_of(m->ast->source->text + it->code.begin, it->code.end - it->code.begin);
    const char *open = NULL; /* the outermost condition */
    uint32_t depth = 0;
    while (stem_directive_next(&d)) {
        const char *word = stem_out_text(&d.word), *name = stem_out_text(&d.name);
        uint32_t begin = (uint32_t)(d.begin - m->ast->source->text), end = (uint32_t)(d.at - m->ast->source->text);
        if ((!strcmp(word, "define") || !strcmp(word, "undef")) && keeps(name))
            stem_error(m->diags, STEM_E_KERNEL_MACRO, (struct stem_span){begin, end},
                       "'%s' is a macro that all kernels are compiled with: a body leaves it as it is", name);
        if (!strncmp(word, "if", 2) && !depth++)
            open = d.begin;
        bool more = !strncmp(word, "el", 2), ends = !strcmp(word, "endif");
        if ((more || ends) && !depth)
            stem_error(m->diags, STEM_E_KERNEL_MACRO, (struct stem_span){begin, end}, "#%s without an #if in this body", word);
        depth -= ends && depth;
    }
    if (depth) {
        uint32_t begin = (uint32_t)(open - m->ast->source->text);
        stem_error(m->diags, STEM_E_KERNEL_MACRO, (struct stem_span){begin, begin + 1}, "this condition has no #endif in this body");
    }
    stem_directives_free(&d);
}

static void call_params(struct stem_module *m, const struct stem_callable *f)
{
    bool kernel = f->item->kind == STEM_I_KERNEL, writes = false;
    const char *where = kernel ? "a kernel" : "an extern function";
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next) {
        if (p->mode == STEM_AST_RELEASE)
            bad_mode(m, p, where);
        if (p->mode == STEM_AST_WORKSPACE)
            workspace(m, p);
        else if (p->value)
            stem_error(m->diags, STEM_E_BAD_SIGNATURE, p->value->span, "an operand has no default");
        writes |= p->mode == STEM_AST_OUT || p->mode == STEM_AST_INOUT;
        for (const struct stem_ast_param *q = f->item->params; q != p; q = q->next)
            if (stem_sym_eq(p->id.name, q->id.name))
                stem_error(m->diags, STEM_E_REDEFINED, p->id.span, "two parameters '%s'", stem_name(m, p->id.name));
    }
    if (kernel && !writes)
        stem_error(m->diags, STEM_E_BAD_SIGNATURE, f->item->id.span,
                   "'%s' writes no operand: it has no `out` or `inout`", stem_name(m, f->item->id.name));
    uint32_t n = f->n_params; /* an in place operand counts as an input and as a result */
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next)
        n += p->mode == STEM_AST_INOUT || (p->mode == STEM_AST_WORKSPACE && p->value);
    if (n > STEM_MAX_OPERANDS)
        stem_error(m->diags, STEM_E_TOO_MANY_OPERANDS, f->item->id.span,
                   "%u operands; there can be %d (an in place one counts twice)", n, STEM_MAX_OPERANDS);
}

void stem_check_scalar(const struct stem_eval *e, const struct stem_ast_param *p, const struct stem_x *x)
{
    const char *name = stem_name(e->m, p->id.name), *type = stem_name(e->m, p->type.dtype.name);
    struct stem_num n = stem_eval(e, x);
    if (n.kind == STEM_NUM_BAD)
        return;
    bool real = !strcmp(type, "f32");
    if (n.kind == STEM_NUM_BOOL || (n.kind == STEM_NUM_FLOAT && !real)) {
        stem_error(e->diags, STEM_E_BAD_ATTR, x->span, "'%s' is %s", name, real ? "an f32" : "an integer");
        return;
    }
    if (n.kind == STEM_NUM_FLOAT && n.known && !stem_num_fits_f32(e, x, n.f))
        return;
    if (real)
        stem_warn_rounding(e, x);
    int64_t low, high;
    stem_dim_bounds(e->dims, n.i, &low, &high);
    if (n.kind == STEM_NUM_INT && !strcmp(type, "i32") && (low < INT32_MIN || high > INT32_MAX))
        stem_error(e->diags, STEM_E_BAD_ATTR, x->span, "'%s' is an i32, and the value can be %" PRId64, name,
                   high > INT32_MAX ? high : low);
}

static void scalars(struct stem_module *m, struct stem_callable *f)
{
    struct stem_eval e = symbolic(m);
    if (f->n_scalars > STEM_MAX_OPERANDS)
        stem_error(m->diags, STEM_E_TOO_MANY_OPERANDS, f->item->id.span, "%u scalars; there can be %d", f->n_scalars,
                   STEM_MAX_OPERANDS);
    for (const struct stem_ast_param *p = f->item->scalars; p; p = p->next) {
        const char *type = stem_name(m, p->type.dtype.name);
        if (p->mode != STEM_AST_NONE && p->mode != STEM_AST_IN)
            bad_mode(m, p, "a scalar");
        if (p->type.dims || (strcmp(type, "f32") && strcmp(type, "i32") && strcmp(type, "i64")))
            stem_error(m->diags, STEM_E_BAD_SIGNATURE, p->type.span, "a scalar is an f32, an i32 or an i64");
        else if (p->value)
            stem_check_scalar(&e, p, p->value);
        for (const struct stem_ast_param *q = f->item->params; q; q = q->next)
            if (stem_sym_eq(p->id.name, q->id.name))
                stem_error(m->diags, STEM_E_REDEFINED, p->id.span, "two parameters '%s'", stem_name(m, p->id.name));
        for (const struct stem_ast_param *q = f->item->scalars; q != p; q = q->next)
            if (stem_sym_eq(p->id.name, q->id.name))
                stem_error(m->diags, STEM_E_REDEFINED, p->id.span, "two parameters '%s'", stem_name(m, p->id.name));
    }
}

/* Sizes of a clause against their limits, one by one and as a product. */
static void clause(struct stem_module *m, const struct stem_callable *f, const char *word, const struct stem_x *x,
                   const int64_t *limit, int64_t product)
{
    struct stem_eval e = symbolic(m);
    uint32_t n = 0;
    int64_t total = 1, low, high;
    if (!x)
        stem_error(m->diags, STEM_E_BAD_LAUNCH, f->item->id.span, "'%s' has no %s(...)",
                   stem_name(m, f->item->id.name), word);
    for (; x; x = x->next, n++) {
        if (n == 3) {
            stem_error(m->diags, STEM_E_BAD_LAUNCH, x->span, "%s has at most 3 sizes", word);
            return;
        }
        struct stem_dim d = stem_eval_int(&e, x);
        if (!d.n)
            continue;
        stem_dim_bounds(m->dims, d, &low, &high);
        if (low < 1 || high > limit[n])
            stem_error(m->diags, STEM_E_BAD_LAUNCH, x->span,
                       "size %u of %s can be %" PRId64 "; it lies in 1..%" PRId64, n + 1, word, low < 1 ? low : high,
                       limit[n]);
        else if (__builtin_mul_overflow(total, high, &total) || total > product)
            stem_error(m->diags, STEM_E_BAD_LAUNCH, x->span, "a %s can have more than %" PRId64 " threads", word,
                       product);
    }
}

static void launch(struct stem_module *m, const struct stem_callable *f)
{
    static const int64_t grid[] = {INT32_MAX, 65535, 65535}, block[] = {1024, 1024, 64};
    clause(m, f, "grid", f->item->grid, grid, INT64_MAX);
    clause(m, f, "block", f->item->block, block, 1024);
    if (!f->item->smem)
        return;
    struct stem_eval e = symbolic(m);
    int64_t low, high;
    struct stem_dim d = stem_eval_int(&e, f->item->smem);
    if (!d.n)
        return;
    stem_dim_bounds(m->dims, d, &low, &high);
    if (low < 0 || high > 227 * 1024)
        stem_error(m->diags, STEM_E_BAD_LAUNCH, f->item->smem->span,
                   "smem can be %" PRId64 " bytes; it lies in 0..%d", low < 0 ? low : high, 227 * 1024);
}

/* Names of an instance's index: numbers, as constants are, so they hide none. */
static void indices(struct stem_module *m, const struct stem_item *it)
{
    for (const struct stem_ast_target *t = it->indices; t; t = t->next) {
        struct stem_global g = stem_global_find(m, t->id.name);
        bool twice = false;
        for (const struct stem_ast_target *u = it->indices; u != t; u = u->next)
            twice = twice || stem_sym_eq(u->id.name, t->id.name);
        if (twice)
            stem_error(m->diags, STEM_E_REDEFINED, t->id.span, "two parts of the index are '%s'",
                       stem_name(m, t->id.name));
        else if (g.kind == STEM_G_CONST || g.kind == STEM_G_DIM)
            stem_error(m->diags, STEM_E_REDEFINED, t->id.span, "'%s' is a %s; a part of an index needs another name",
                       stem_name(m, t->id.name), g.kind == STEM_G_CONST ? "const" : "dim");
    }
}

void stem_check_signature(struct stem_module *m, struct stem_callable *f)
{
    const struct stem_item *it = f->item;
    indices(m, it);
    f->n_params = count(it->params);
    f->param_type = types(m, it->params, f->n_params);
    if (it->kind == STEM_I_LAYER || it->kind == STEM_I_MODEL) {
        f->n_results = count(it->results);
        f->result_type = types(m, it->results, f->n_results);
        f->result_root = STEM_NEW_ARRAY(m->arena, struct stem_root, f->n_results);
        if (!too_many(m, f, STEM_MAX_LAYER_PARAMS))
            layer_params(m, f);
        return;
    }
    f->result_type = STEM_NEW_ARRAY(m->arena, struct stem_type, f->n_params);
    uint32_t i = 0;
    for (const struct stem_ast_param *p = it->params; p; p = p->next, i++)
        if (p->mode == STEM_AST_OUT)
            f->result_type[f->n_results++] = f->param_type[i];
    f->n_scalars = count(it->scalars);
    if (too_many(m, f, STEM_MAX_LAYER_PARAMS))
        return;
    call_params(m, f);
    scalars(m, f);
    if (it->kind == STEM_I_KERNEL) {
        kernel_names(m, it->params);
        kernel_names(m, it->scalars);
        kernel_waits(m, it);
        kernel_directives(m, it);
        launch(m, f);
    }
}
