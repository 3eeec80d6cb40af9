/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking a file: global names, constants, dims, signatures, then bodies.
 */
#include "sema/module.h"

#include <inttypes.h>
#include <string.h>

#include "sema/callees.h"
#include "sema/check.h"

static void set_global(struct stem_module *m, struct stem_sym name, struct stem_global g)
{
    while (m->globals.len <= name.n)
        stem_vec_push(&m->globals, (struct stem_global){STEM_G_NONE, 0});
    m->globals.at[name.n] = g;
}

static struct stem_span global_span(const struct stem_module *m, struct stem_global g)
{
    if (g.kind == STEM_G_CONST)
        return m->consts.at[g.index].item->id.span;
    return g.kind == STEM_G_DIM ? m->dim_infos.at[g.index].span : m->callables.at[g.index].item->id.span;
}

/* The name is free for a new global; reports if not. */
static bool free_global(struct stem_module *m, const struct stem_item *it)
{
    const char *text = stem_name(m, it->id.name), *what = NULL;
    struct stem_global g = stem_global_find(m, it->id.name);
    if (g.kind != STEM_G_NONE) {
        stem_error(m->diags, STEM_E_REDEFINED, it->id.span, "'%s' is defined twice", text);
        stem_diag_label(m->diags, global_span(m, g), "first defined here");
        return false;
    }
    if (stem_dtype_from_name(text) != STEM_N_DTYPES)
        what = "an element type";
    else if (stem_op_find(text))
        what = "an op";
    else if (stem_pointwise_arity(text) || stem_is_number_function(text))
        what = "a function";
    else if (!strcmp(text, "_"))
        what = "the name for what is not wanted";
    if (!what)
        return true;
    stem_error(m->diags, STEM_E_REDEFINED, it->id.span, "'%s' is %s: choose another name", text, what);
    return false;
}

static void collect(struct stem_module *m)
{
    for (const struct stem_item *it = m->ast->items; it; it = it->next) {
        struct stem_global g;
        bool fine = free_global(m, it);
        if (it->kind == STEM_I_CONST) {
            g = (struct stem_global){STEM_G_CONST, m->consts.len};
            stem_vec_push(&m->consts, (struct stem_module_const){.item = it});
        } else if (it->kind == STEM_I_DIM) {
            g = (struct stem_global){STEM_G_DIM, m->dim_infos.len};
            stem_vec_push(&m->dim_infos, (struct stem_dim_info){.name = it->id.name, .span = it->id.span});
        } else {
            g = (struct stem_global){STEM_G_CALLABLE, m->callables.len};
            stem_vec_push(&m->callables, (struct stem_callable){.item = it});
        }
        if (fine)
            set_global(m, it->id.name, g);
    }
}

/* ---- dims ---- */

static bool plain_int(struct stem_module *m, const struct stem_x *x, int64_t *i)
{
    struct stem_eval e = {.m = m, .dims = m->dims, .diags = m->diags};
    struct stem_dim d = stem_eval_int(&e, x);
    return d.n && stem_dim_value(m->dims, d, i);
}

static void check_dim(struct stem_module *m, const struct stem_item *it, struct stem_dim_info *d)
{
    d->low = d->high = 1;
    int64_t low, high;
    bool fine = plain_int(m, it->low, &low);
    fine &= plain_int(m, it->high, &high);
    if (fine && (low < 1 || high < low || high >= STEM_MAX_BYTES)) {
        stem_error(m->diags, STEM_E_BAD_RANGE, stem_span_join(it->low->span, it->high->span),
                   "a range must be 1 <= low <= high < 2^40, and this is %" PRId64 "..%" PRId64, low, high);
        fine = false;
    }
    if (fine) {
        d->low = low;
        d->high = high;
    }
    if (!it->value || !plain_int(m, it->value, &d->value))
        return;
    d->has_default = true;
    if (fine && (d->value < d->low || d->value > d->high))
        stem_error(m->diags, STEM_E_BAD_RANGE, it->value->span,
                   "the default %" PRId64 " is not in %" PRId64 "..%" PRId64, d->value, d->low, d->high);
}

static void check_dims(struct stem_module *m)
{
    uint32_t i = 0;
    for (const struct stem_item *it = m->ast->items; it; it = it->next) {
        if (it->kind != STEM_I_DIM)
            continue;
        struct stem_dim_info *d = &m->dim_infos.at[i++];
        check_dim(m, it, d);
        stem_vec_push(&m->dim_symbols, stem_dim_symbol(m->dims, d->name, d->low, d->high));
    }
}

/* ---- the entry ---- */

static void find_model(struct stem_module *m)
{
    uint32_t layer = STEM_NONE, n_layers = 0;
    m->model = STEM_NONE;
    for (uint32_t i = 0; i < m->callables.len; i++) {
        const struct stem_item *it = m->callables.at[i].item;
        if (it->kind == STEM_I_LAYER) {
            layer = i;
            n_layers++;
        }
        if (it->kind != STEM_I_MODEL)
            continue;
        if (m->model != STEM_NONE) {
            stem_error(m->diags, STEM_E_REDEFINED, it->id.span, "a file has one model");
            stem_diag_label(m->diags, m->callables.at[m->model].item->id.span, "the first one");
        } else {
            m->model = i;
        }
    }
    if (m->model == STEM_NONE && n_layers == 1)
        m->model = layer;
    if (m->model == STEM_NONE && n_layers)
        stem_error(m->diags, STEM_E_NO_MODEL, STEM_NOWHERE, "no model, and %u layers: which one is the program?",
                   n_layers);
    else if (m->model == STEM_NONE)
        stem_error(m->diags, STEM_E_NO_MODEL, STEM_NOWHERE, "no model and no layer: there is no program");
}

struct stem_module *stem_check(struct stem_arena *arena, struct stem_strtab *strings, const struct stem_ast *ast,
                               const struct stem_override *overrides, uint32_t n_overrides, struct stem_diags *diags)
{
    struct stem_module *m = STEM_NEW(arena, struct stem_module);
    m->arena = arena;
    m->strings = strings;
    m->ast = ast;
    m->diags = diags;
    m->dims = stem_dims_new();
    stem_vec_push(&m->streams, (struct stem_stream_decl){.name = stem_intern(strings, "main")});
    collect(m);
    stem_eval_consts(m, overrides, n_overrides);
    check_dims(m);
    find_model(m);
    uint32_t n_decls = 0;
    for (uint32_t i = 0; i < m->callables.len; i++) {
        struct stem_callable *f = &m->callables.at[i];
        stem_check_signature(m, f);
        f->decl = f->item->kind == STEM_I_KERNEL || f->item->kind == STEM_I_EXTERN ? n_decls++ : STEM_NONE;
    }
    stem_visit_callees_first(m, stem_check_body);
    return m;
}

void stem_module_free(struct stem_module *m)
{
    if (!m)
        return;
    stem_dims_free(m->dims);
    stem_vec_free(&m->globals);
    stem_vec_free(&m->consts);
    stem_vec_free(&m->dim_infos);
    stem_vec_free(&m->dim_symbols);
    stem_vec_free(&m->callables);
    stem_vec_free(&m->streams);
}

uint32_t stem_module_dims(const struct stem_module *m, const struct stem_dim_info **dims)
{
    *dims = m->dim_infos.at;
    return m->dim_infos.len;
}
