/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/format.h"

#include <stdlib.h>

#include "ops/quantize_f8/quantize_f8.h"

bool stem_format_scaled(enum stem_dtype weight)
{
    return weight == STEM_F8E4M3 || stem_dtype_packed(weight);
}

static uint32_t group_of(enum stem_dtype weight)
{
    return weight == STEM_F8E4M3 ? STEM_F8_BLOCK : weight == STEM_NVFP4 ? STEM_NVFP4_GROUP : STEM_INT4_GROUP;
}

static enum stem_dtype scale_type(enum stem_dtype weight)
{
    return weight == STEM_F8E4M3 ? STEM_F32 : weight == STEM_NVFP4 ? STEM_F8E4M3 : STEM_BF16;
}

static struct stem_dim divided(struct stem_dims *d, struct stem_dim a, int64_t by, bool up)
{
    struct stem_dim n = stem_dim_const(d, by);
    if (up)
        a = stem_dim_op(d, STEM_DIM_ADD, a, stem_dim_const(d, by - 1));
    return stem_dim_op(d, STEM_DIM_DIV, a, n);
}

static bool absent(const struct stem_infer *c, uint32_t i)
{
    return i >= c->n_in || c->in[i].dtype == STEM_N_DTYPES;
}

static void say_type(struct stem_infer *c, const struct stem_type *t, struct stem_out *o)
{
    stem_type_print(c->dims, c->strings, t, o);
}

/* Operand i is of type `need`, or absent if that is NULL. */
static bool wants(struct stem_infer *c, const struct stem_format_operands *o, uint32_t i, const char *name,
                  const struct stem_type *need)
{
    const char *weight = stem_dtype_name(c->in[o->weight].dtype);
    struct stem_out text = {0};
    bool missing = absent(c, i);
    if (!need) {
        if (!missing)
            stem_error(c->diags, STEM_E_OP_ARITY, c->operand_span[i], "%s: %s of type %s has no %s", o->op, o->what,
                       weight, name);
        return missing;
    }
    if (!missing && stem_type_same(&c->in[i], need))
        return true;
    say_type(c, need, &text);
    if (missing) {
        stem_error(c->diags, STEM_E_OP_ARITY, c->operand_span[o->weight], "%s: %s of type %s needs a %s, %s", o->op,
                   o->what, weight, name, stem_out_text(&text));
    } else {
        stem_out_str(&text, ", not ");
        say_type(c, &c->in[i], &text);
        stem_error(c->diags, c->in[i].dtype != need->dtype ? STEM_E_OP_DTYPE : STEM_E_OP_SHAPE, c->operand_span[i],
                   "%s: the %s of this %s %s is %s", o->op, name, weight, o->what, stem_out_text(&text));
    }
    stem_out_free(&text);
    return false;
}

static struct stem_type scale_of(struct stem_infer *c, const struct stem_format_operands *o)
{
    const struct stem_type *w = &c->in[o->weight];
    struct stem_type s = *w;
    struct stem_dim n = w->dim[w->rank - 2], halves = stem_dim_const(c->dims, o->halves);
    s.dtype = scale_type(w->dtype);
    s.dim[w->rank - 1] = divided(c->dims, w->dim[w->rank - 1], group_of(w->dtype), w->dtype == STEM_F8E4M3);
    if (w->dtype == STEM_F8E4M3) {
        struct stem_dim one = divided(c->dims, divided(c->dims, n, o->halves, false), STEM_F8_BLOCK, true);
        s.dim[w->rank - 2] = stem_dim_op(c->dims, STEM_DIM_MUL, halves, one);
    }
    return s;
}

/* x in f8e4m3 has scales, f32[.., ceil_div(K, 128)], any other none. */
static bool x_scale_fits(struct stem_infer *c, const struct stem_format_operands *o)
{
    const struct stem_type *x = &c->in[o->x];
    struct stem_type code, need;
    if (x->dtype != STEM_F8E4M3 && absent(c, o->x_scale))
        return true;
    if (x->dtype != STEM_F8E4M3) {
        stem_error(c->diags, STEM_E_OP_ARITY, c->operand_span[o->x_scale], "%s: only an x of type f8e4m3 has an x_scale, not one of %s",
                   o->op, stem_dtype_name(x->dtype));
        return false;
    }
    stem_quantize_f8_types(c, x, &code, &need);
    if (!absent(c, o->x_scale) && stem_type_same(&c->in[o->x_scale], &need))
        return true;
    struct stem_out text = {0};
    say_type(c, &need, &text);
    bool missing = absent(c, o->x_scale);
    if (!missing) {
        stem_out_str(&text, ", not ");
        say_type(c, &c->in[o->x_scale], &text);
    }
    stem_error(c->diags, missing ? STEM_E_OP_ARITY : c->in[o->x_scale].dtype != STEM_F32 ? STEM_E_OP_DTYPE : STEM_E_OP_SHAPE,
               c->operand_span[missing ? o->x : o->x_scale], "%s: an x of type f8e4m3 has an x_scale, %s (quantize_f8 makes both)",
               o->op, stem_out_text(&text));
    stem_out_free(&text);
    return false;
}

bool stem_format_check(struct stem_infer *c, const struct stem_format_operands *o)
{
    const struct stem_type *x = &c->in[o->x], *w = &c->in[o->weight];
    if (!stem_format_scaled(w->dtype)) {
        if (w->dtype != x->dtype) {
            stem_error(c->diags, STEM_E_OP_DTYPE, c->operand_span[o->weight],
                       "%s needs x and %s of one element type, not %s and %s", o->op, o->what,
                       stem_dtype_name(x->dtype), stem_dtype_name(w->dtype));
            return false;
        }
        return wants(c, o, o->scale, o->scale_name, NULL) && wants(c, o, o->tensor, o->tensor_name, NULL) && x_scale_fits(c, o);
    }
    bool coded = x->dtype == STEM_F8E4M3 && w->dtype == STEM_F8E4M3;
    if (x->dtype != STEM_BF16 && !coded) {
        stem_error(c->diags, STEM_E_OP_DTYPE, c->operand_span[o->x],
                   "%s: weights of type %s need x of type bf16%s, not %s", o->op, stem_dtype_name(w->dtype),
                   w->dtype == STEM_F8E4M3 ? " or, with its scales, f8e4m3" : "", stem_dtype_name(x->dtype));
        return false;
    }
    struct stem_type scale = scale_of(c, o), whole = {.dtype = STEM_F32, .rank = 1};
    struct stem_dim group = stem_dim_const(c->dims, group_of(w->dtype)), k = w->dim[w->rank - 1];
    if (w->dtype != STEM_F8E4M3 &&
        !stem_dim_same(stem_dim_op(c->dims, STEM_DIM_MUL, scale.dim[w->rank - 1], group), k)) {
        stem_error(c->diags, STEM_E_OP_SHAPE, c->operand_span[o->weight],
                   "%s: the columns of an %s %s are a multiple of %u, which share a scale", o->op,
                   stem_dtype_name(w->dtype), o->what, group_of(w->dtype));
        return false;
    }
    whole.dim[0] = w->rank == 2 ? stem_dim_const(c->dims, 1) : w->dim[0];
    if (w->rank > 2 && o->per > 1) {
        whole.rank = 2;
        whole.dim[1] = stem_dim_const(c->dims, o->per);
    }
    return wants(c, o, o->scale, o->scale_name, &scale) &&
           wants(c, o, o->tensor, o->tensor_name, w->dtype == STEM_NVFP4 ? &whole : NULL) && x_scale_fits(c, o);
}

const struct stem_tensor *stem_format_operand(const struct stem_concrete *c, uint32_t i)
{
    return i < c->n_in && c->operand[i].rank != STEM_NONE ? &c->operand[i] : NULL;
}

const char *stem_format_x_type(const struct stem_concrete *c)
{
    return c->operand[0].dtype == STEM_F8E4M3 ? "const void" : "const __nv_bfloat16";
}

const char *stem_format_x(const struct stem_concrete *c, uint32_t i, struct stem_arena *a)
{
    return c->operand[0].dtype == STEM_F8E4M3
               ? stem_arena_printf(a, "stem_f8_rows{(const unsigned char *)x, (const float *)p%u}", i)
               : "x";
}

uint64_t stem_format_bytes(enum stem_dtype weight, int64_t rows, int64_t k)
{
    uint64_t bytes = (uint64_t)(rows * k) * stem_dtype_bits(weight) / 8;
    if (!stem_format_scaled(weight))
        return bytes;
    uint64_t groups = (uint64_t)(k + group_of(weight) - 1) / group_of(weight);
    uint64_t lines = weight == STEM_F8E4M3 ? (uint64_t)(rows + STEM_F8_BLOCK - 1) / STEM_F8_BLOCK : (uint64_t)rows;
    return bytes + groups * lines * stem_dtype_bits(scale_type(weight)) / 8;
}

const char *stem_format_name(enum stem_dtype weight)
{
    return weight == STEM_F8E4M3 ? "stem_f8" : weight == STEM_NVFP4 ? "stem_nvfp4" : "stem_int4";
}

bool stem_format_fixed(enum stem_dtype weight, const struct stem_target *t)
{
    return stem_dtype_packed(weight) && t->sm == 90; /* where it was measured */
}

const char *stem_format_fixed_name(enum stem_dtype weight)
{
    return weight == STEM_NVFP4 ? "stem_nvfp4_fixed" : "stem_int4_fixed";
}

uint32_t stem_format_stage_bytes(enum stem_dtype weight, uint32_t mt)
{
    return 16 * mt * (128 + (weight == STEM_F8E4M3 ? 0 : 16));
}

uint32_t stem_format_token_bytes(enum stem_dtype weight)
{
    return weight == STEM_F8E4M3 ? 2 * 64 + 4 : 8 * 64;
}

uint32_t stem_format_blocks(uint32_t mt, uint32_t nt, uint32_t warps)
{
    uint32_t most = mt * nt == 1 ? 24 : mt * nt == 2 ? 16 : mt * nt == 4 ? 12 : 8; /* warps; 85 to 255 registers */
    return most / warps > 0 ? most / warps : 1;
}

/* Further operands are the epilogue's. */
static uint32_t own(const struct stem_concrete *c)
{
    return c->n_in < c->def->n_params ? c->n_in : c->def->n_params;
}

const char *stem_format_rest(const struct stem_concrete *c, uint32_t first, struct stem_arena *a)
{
    const char *text = "";
    for (uint32_t i = first; i < own(c); i++)
        text = stem_arena_printf(a, "%sconst void *p%u, ", text, i);
    return text;
}

const char *stem_format_tag(const struct stem_concrete *c, uint32_t first, struct stem_arena *a)
{
    return own(c) > first ? stem_arena_printf(a, "_o%u", own(c)) : "";
}
