/* SPDX-License-Identifier: Apache-2.0
 *
 *   source ──> AST ──> module ──> program ──> scheduled program ──> plan ──> verified plan
 *       stem_parse  stem_check  stem_expand  stem_pass_run_all  stem_emit_plan  stem_verify
 */
#include "pipeline.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ast/ast.h"
#include "base/vec.h"
#include "emit/emit.h"
#include "grammar/front.h"
#include "pass/pdl.h"
#include "sema/sema.h"
#include "verify/verify.h"

enum { MAX_VALUES = 64 }; /* of one dim; specialisations are their products, at most MAX_VARIANTS */
enum { MAX_VARIANTS = 256, MAX_DIMS = 16 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Adds the time since *since to *phase. */
static void lap(double *since, double *phase)
{
    double t = now();
    *phase += t - *since;
    *since = t;
}

static bool stops(const struct stem_compile_args *a, const char *step)
{
    return a->stop_after && !strcmp(a->stop_after, step);
}

static bool failed(const struct stem_compiled *c)
{
    return stem_diags_errors(c->diags) > 0 || c->world_error;
}

static void read_source(struct stem_compiled *c, const struct stem_compile_args *a)
{
    if (a->text)
        c->source = stem_source_new(c->arena, a->path, a->text, a->len);
    else
        c->source = stem_source_read(c->arena, a->path, &c->world_error);
    if (!c->source && !c->world_error)
        c->world_error = "the text is too large (limit 512 MiB)";
    stem_diags_set_source(c->diags, c->source);
}

/* ---- "NAME=VALUE" and "T=1,4,16" ---- */

/* Copies the part before '=' into the arena; NULL with an error if there is none. */
static const char *split(struct stem_compiled *c, const char *arg, const char *option, const char **value)
{
    const char *eq = strchr(arg, '=');
    if (eq && eq > arg && eq[1]) {
        *value = eq + 1;
        return stem_arena_strndup(c->arena, arg, (size_t)(eq - arg));
    }
    stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "%s '%s' is not of the form NAME=VALUE", option, arg);
    return NULL;
}

/* Digits with underscores between them, which are numbers in a source, without them; else the text as it is. */
static const char *plain_number(struct stem_compiled *c, const char *text)
{
    char *plain = stem_arena_strndup(c->arena, text, strlen(text)), *to = plain;
    for (const char *s = text; *s; s++)
        if (*s != '_' || s == text || !isdigit((unsigned char)s[-1]) || !isdigit((unsigned char)s[1]))
            *to++ = *s;
    *to = '\0';
    return plain;
}

static struct stem_override *overrides(struct stem_compiled *c, const struct stem_compile_args *a)
{
    struct stem_override *o = STEM_NEW_ARRAY(c->arena, struct stem_override, a->n_defines + 1);
    for (uint32_t i = 0; i < a->n_defines; i++) {
        if (!(o[i].name = split(c, a->defines[i], "-D", &o[i].value)))
            return NULL;
        o[i].value = plain_number(c, o[i].value);
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(o[k].name, o[i].name)) {
                stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "-D '%s': %s has a value already, %s", a->defines[i], o[i].name,
                           o[k].value);
                return NULL;
            }
    }
    return o;
}

struct dim_values {
    const char *name;
    int64_t value[MAX_VALUES];
    uint32_t n;
};

static bool parse_values(struct stem_compiled *c, const char *list, const char *arg, struct dim_values *d)
{
    d->n = 0;
    for (const char *p = list;; p++) {
        char *end;
        errno = 0;
        long long v = strtoll(p, &end, 10);
        if (errno || end == p || (*end && *end != ',')) {
            stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "--dim '%s': sizes are integers of 64 bits, separated by commas",
                       arg);
            return false;
        }
        for (uint32_t i = 0; i < d->n; i++)
            if (d->value[i] == v) {
                stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "--dim '%s': %lld is there twice", arg, v);
                return false;
            }
        if (d->n == MAX_VALUES) {
            stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "--dim '%s': more than %d sizes", arg,
                       (int)MAX_VALUES);
            return false;
        }
        d->value[d->n++] = v;
        if (!*end)
            return true;
        p = end;
    }
}

/* The sizes of every dim: from the command line, or its default, or its upper bound; those for unknown dims are passed on, so
 * that stem_expand reports them with what the file has. */
static bool collect_dims(struct stem_compiled *c, const struct stem_compile_args *a, struct dim_values *dims, uint32_t *n)
{
    const struct stem_dim_info *info;
    uint32_t n_info = stem_module_dims(c->module, &info);
    *n = 0;
    if (a->n_dims + n_info > MAX_DIMS) {
        stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "more than %d dims", (int)MAX_DIMS);
        return false;
    }
    for (uint32_t i = 0; i < a->n_dims; i++) {
        const char *list;
        struct dim_values d = {.name = split(c, a->dims[i], "--dim", &list)};
        if (!d.name || !parse_values(c, plain_number(c, list), a->dims[i], &d))
            return false;
        for (uint32_t j = 0; j < *n; j++)
            if (!strcmp(dims[j].name, d.name)) {
                stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "--dim '%s': %s has sizes already; several are one list, --dim %s=1,2",
                           a->dims[i], d.name, d.name);
                return false;
            }
        dims[(*n)++] = d;
    }
    for (uint32_t i = 0; i < n_info; i++) {
        const char *name = stem_sym_str(c->strings, info[i].name);
        bool given = false;
        for (uint32_t j = 0; j < a->n_dims; j++)
            given |= !strcmp(dims[j].name, name);
        if (!given)
            dims[(*n)++] = (struct dim_values){name, {info[i].has_default ? info[i].value : info[i].high}, 1};
    }
    return true;
}

/* ---- programs ---- */

static void add_program(struct stem_compiled *c, struct stem_program *p)
{
    c->programs = stem_xrealloc(c->programs, (c->n_programs + 1) * sizeof(struct stem_program *));
    c->programs[c->n_programs++] = p;
}

/* After an error about a dim that the file does not have: if it is a const, say how that gets a value. */
static void suggest_define(struct stem_compiled *c, const struct stem_compile_args *a)
{
    for (uint32_t i = 0; i < a->n_dims; i++)
        for (const struct stem_item *item = c->ast->items; item; item = item->next) {
            const char *name = item->kind == STEM_I_CONST ? stem_sym_str(c->strings, item->id.name) : "";
            size_t n = strlen(name);
            if (n && !strncmp(a->dims[i], name, n) && a->dims[i][n] == '=')
                stem_diag_help(c->diags, "'%s' is a const: -D %s overrides it", name, a->dims[i]);
        }
}

/* One program for each combination of sizes; the first dim varies slowest. */
static void expand_all(struct stem_compiled *c, const struct stem_compile_args *a)
{
    struct dim_values *dims = STEM_NEW_ARRAY(c->arena, struct dim_values, MAX_DIMS);
    uint32_t n_dims;
    uint64_t total = 1;
    if (!collect_dims(c, a, dims, &n_dims))
        return;
    for (uint32_t i = 0; i < n_dims && total <= MAX_VARIANTS; i++)
        total *= dims[i].n;
    if (total > MAX_VARIANTS) {
        stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "more than %d specialisations", (int)MAX_VARIANTS);
        return;
    }
    for (uint64_t k = 0; k < total && !failed(c); k++) {
        struct stem_binding b[MAX_DIMS];
        uint64_t rest = k;
        for (uint32_t i = n_dims; i-- > 0; rest /= dims[i].n)
            b[i] = (struct stem_binding){dims[i].name, dims[i].value[rest % dims[i].n]};
        struct stem_program *p = stem_expand(c->module, b, n_dims, c->diags);
        if (!p && stem_diags_said(c->diags, STEM_E_UNKNOWN_DIM, STEM_NOWHERE))
            suggest_define(c, a);
        if (p)
            add_program(c, p);
    }
}

static void make_programs(struct stem_compiled *c, const struct stem_compile_args *a, double *t)
{
    if (a->from_ir && (a->n_defines || a->n_dims)) {
        stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "%s is for .stem files: a program in IR has its sizes already",
                   a->n_defines ? "-D" : "--dim");
        return;
    }
    if (a->from_ir) {
        struct stem_program *p = stem_program_read(c->strings, c->source, c->diags);
        if (p)
            add_program(c, p);
        lap(t, &c->times.parse);
        return;
    }
    c->ast = stem_parse(c->arena, c->strings, c->source, c->diags);
    lap(t, &c->times.parse);
    if (failed(c) || stops(a, "parse"))
        return;
    struct stem_override *o = overrides(c, a);
    if (!o)
        return;
    c->module = stem_check(c->arena, c->strings, c->ast, o, a->n_defines, c->diags);
    lap(t, &c->times.check);
    if (failed(c) || stops(a, "check"))
        return;
    expand_all(c, a);
    lap(t, &c->times.expand);
}

struct stem_compiled *stem_pipeline(const struct stem_compile_args *a)
{
    struct stem_compiled *c = stem_xmalloc(sizeof *c);
    memset(c, 0, sizeof *c);
    c->arena = stem_arena_new();
    c->strings = stem_strtab_new();
    c->diags = stem_diags_new(a->max_errors);
    double t = now();

    if (a->options.pdl == STEM_PDL_ON && a->options.target.sm < STEM_PDL_SM) {
        stem_error(c->diags, STEM_E_BAD_OPTION, STEM_NOWHERE, "pdl is on, but sm_%u has no programmatic launches: they need sm_%d",
                   a->options.target.sm, STEM_PDL_SM);
        stem_diag_help(c->diags, "auto launches as usual there");
    }
    read_source(c, a);
    if (failed(c))
        return c;
    make_programs(c, a, &t);
    for (uint32_t i = 0; a->expanded && i < c->n_programs; i++)
        a->expanded(a->user, c->programs[i]);
    if (failed(c) || !c->n_programs || stops(a, "expand"))
        return c;
    for (uint32_t i = 0; i < c->n_programs; i++)
        if (!stem_pass_run_all(c->programs[i], c->diags, &a->options, a->passes, a->stop_after, a->hooks))
            break;
    lap(&t, &c->times.passes);
    if (failed(c) || a->stop_after || a->passes)
        return c;
    c->plan = stem_emit_plan((const struct stem_program *const *)c->programs, c->n_programs, &a->options, c->diags);
    lap(&t, &c->times.plan);
    if (c->plan && !a->no_verify)
        stem_verify(c->plan, c->diags);
    lap(&t, &c->times.verify);
    return c;
}

void stem_compiled_free(struct stem_compiled *c)
{
    if (!c)
        return;
    stem_plan_free(c->plan);
    for (uint32_t i = 0; i < c->n_programs; i++)
        stem_program_free(c->programs[i]);
    free(c->programs);
    if (c->module)
        stem_module_free(c->module);
    stem_diags_free(c->diags);
    stem_strtab_free(c->strings);
    stem_arena_free(c->arena);
    free(c);
}
