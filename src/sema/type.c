/* SPDX-License-Identifier: Apache-2.0
 *
 * Written types and their limits.
 */
#include <inttypes.h>

#include <string.h>

#include "sema/module.h"

const char *stem_type_text(const struct stem_eval *e, const struct stem_type *t)
{
    struct stem_out o = {0};
    stem_type_print(e->dims, e->m->strings, t, &o);
    const char *text = stem_arena_strdup(e->m->arena, stem_out_text(&o));
    stem_out_free(&o);
    return text;
}

bool stem_type_dims(const struct stem_dims *d, const struct stem_type *t, int64_t *dim)
{
    for (uint32_t i = 0; i < t->rank; i++)
        if (!stem_dim_value(d, t->dim[i], &dim[i]))
            return false;
    return true;
}

const char *stem_usual_dtype(const char *text)
{
    static const char *const table[][2] = {
        {"float", "f32"},    {"float32", "f32"},    {"fp32", "f32"},           
        {"bfloat16", "bf16"}, {"float16", "f16"}, {"half", "f16"}, {"fp16", "f16"},  {"float8_e4m3fn", "f8e4m3"}, {"fp8", "f8e4m3"},   {"e4m3", "f8e4m3"},
        {"fp4", "nvfp4"},    {"int", "i32"},        {"int32", "i32"},          {"int64", "i64"},    {"long", "i64"},
        {"uint8", "u8"},     {"byte", "u8"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i][0], text))
            return table[i][1];
    return NULL;
}

/* Types of other systems that there are not: a name that resembles theirs is none. */
static bool is_missing(const char *text)
{
    static const char *const words[] = {"f64", "float64", "double", "i8",   "int8",    "i16",   "int16", "u16",
                                        "u32", "u64",     "uint16", "uint32", "uint64", "short", "char",  "bool"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], text))
            return true;
    return false;
}

static void list_dtypes(struct stem_diags *q, const char *const *names)
{
    struct stem_out o = {0};
    for (int i = 0; i < STEM_N_DTYPES; i++)
        stem_out_printf(&o, "%s%s", i == 0 ? "" : i + 1 == STEM_N_DTYPES ? " and " : ", ", names[i]);
    stem_diag_help(q, "there are %s", stem_out_text(&o));
    stem_out_free(&o);
}

static bool known_dtype(const struct stem_eval *e, struct stem_ident id, enum stem_dtype *dtype)
{
    const char *text = stem_name(e->m, id.name), *names[STEM_N_DTYPES];
    *dtype = stem_dtype_from_name(text);
    if (*dtype != STEM_N_DTYPES)
        return true;
    for (int i = 0; i < STEM_N_DTYPES; i++)
        names[i] = stem_dtype_name((enum stem_dtype)i);
    stem_error(e->diags, STEM_E_UNKNOWN_DTYPE, id.span, "unknown element type '%s'", text);
    if (stem_usual_dtype(text))
        stem_diag_help(e->diags, "it is called '%s' here", stem_usual_dtype(text));
    else if (is_missing(text) || !stem_suggest(e->diags, text, names, STEM_N_DTYPES))
        list_dtypes(e->diags, names);
    return false;
}

bool stem_type_possible(const struct stem_eval *e, const struct stem_type *t, struct stem_span at)
{
    int64_t bits = stem_dtype_bits(t->dtype), limit = STEM_MAX_BYTES * 8;
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t low, high;
        stem_dim_bounds(e->dims, t->dim[i], &low, &high);
        if (!t->dim[i].n)
            return false; /* reported where it was computed */
        if (low < 1) {
            stem_error(e->diags, STEM_E_BAD_SIZE, at, "size %u of %s can be %" PRId64 "; it must be at least 1",
                       i + 1, stem_type_text(e, t), low);
            return false;
        }
        if (__builtin_mul_overflow(bits, high, &bits) || bits > limit) {
            stem_error(e->diags, STEM_E_BAD_SIZE, at, "%s can have more than 2^40 bytes", stem_type_text(e, t));
            return false;
        }
    }
    return true;
}

static bool add_dim(const struct stem_eval *e, const struct stem_x *x, struct stem_type *type)
{
    if (type->rank == STEM_MAX_RANK) {
        stem_error(e->diags, STEM_E_RANK, x->span, "a tensor has at most %d sizes", STEM_MAX_RANK);
        return false;
    }
    struct stem_dim d = stem_eval_int(e, x);
    type->dim[type->rank++] = d;
    return d.n != 0;
}

bool stem_eval_type(const struct stem_eval *e, const struct stem_ast_type *t, struct stem_type *type)
{
    *type = (struct stem_type){0};
    bool fine = known_dtype(e, t->dtype, &type->dtype);
    for (const struct stem_x *x = t->dims; x; x = x->next) {
        if (type->rank == STEM_MAX_RANK)
            return add_dim(e, x, type);
        fine &= add_dim(e, x, type);
    }
    return fine && stem_type_possible(e, type, t->span);
}

bool stem_eval_type_expr(const struct stem_eval *e, const struct stem_x *x, struct stem_type *type)
{
    const struct stem_x *name = x->kind == STEM_X_SLICE ? x->a : x;
    *type = (struct stem_type){0};
    if (name->kind != STEM_X_NAME) {
        if (name->kind != STEM_X_ERROR)
            stem_error(e->diags, STEM_E_UNKNOWN_DTYPE, x->span, "a type is needed here, such as f32[4, 64]");
        return false;
    }
    bool fine = known_dtype(e, name->id, &type->dtype);
    for (const struct stem_sub *s = x->kind == STEM_X_SLICE ? x->subs : NULL; s; s = s->next) {
        if (s->range) {
            stem_error(e->diags, STEM_E_NOT_A_CONST, s->span, "a type has sizes, not ranges");
            return false;
        }
        if (!add_dim(e, s->low, type))
            return false;
    }
    return fine && stem_type_possible(e, type, x->span);
}
