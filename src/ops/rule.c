/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

bool stem_rule_fail(struct stem_infer *c, enum stem_diag_id id, uint32_t i, const char *fmt, ...)
{
    struct stem_out o = {0};
    va_list ap;
    va_start(ap, fmt);
    stem_out_vprintf(&o, fmt, ap);
    va_end(ap);
    stem_out_str(&o, "; the operand is ");
    stem_type_print(c->dims, c->strings, &c->in[i], &o);
    stem_error(c->diags, id, c->operand_span[i], "%s", stem_out_text(&o));
    stem_out_free(&o);
    return false;
}

bool stem_rule_attr(struct stem_infer *c, const char *fmt, ...)
{
    struct stem_out o = {0};
    va_list ap;
    va_start(ap, fmt);
    stem_out_vprintf(&o, fmt, ap);
    va_end(ap);
    stem_error(c->diags, STEM_E_OP_ATTR, c->span, "%s", stem_out_text(&o));
    stem_out_free(&o);
    return false;
}

bool stem_rule_eps(struct stem_infer *c, const struct stem_op_def *def)
{
    double eps = stem_op_attr(def, c->attrs, "eps")->f;
    return (eps >= 0 && eps < 1e30) || stem_rule_attr(c, "%s: eps = %g must not be negative", def->name, eps);
}

bool stem_rule_float(struct stem_infer *c, uint32_t i, const char *what)
{
    enum stem_dtype t = c->in[i].dtype;
    if (t == STEM_F32 || t == STEM_F16 || t == STEM_BF16)
        return true;
    return stem_rule_fail(c, STEM_E_OP_DTYPE, i, "%s must be f32, f16 or bf16", what);
}

struct stem_dim_text stem_rule_dim(const struct stem_infer *c, struct stem_dim d)
{
    struct stem_dim_text t;
    struct stem_out o = {0};
    stem_dim_print(c->dims, c->strings, d, &o);
    snprintf(t.s, sizeof t.s, "%s", stem_out_text(&o));
    stem_out_free(&o);
    return t;
}

const char *stem_c_type(enum stem_dtype t)
{
    switch (t) {
    case STEM_F32:
        return "float";
    case STEM_F16:
        return "__half";
    case STEM_BF16:
        return "__nv_bfloat16";
    case STEM_F8E4M3:
        return "__nv_fp8_e4m3";
    case STEM_I32:
        return "int";
    case STEM_I64:
        return "long long";
    case STEM_U8:
        return "unsigned char";
    default:
        return NULL;
    }
}

const char *stem_c_bits(uint32_t bytes)
{
    switch (bytes) {
    case 1:
        return "unsigned char";
    case 2:
        return "unsigned short";
    case 4:
        return "unsigned int";
    case 8:
        return "unsigned long long";
    default:
        abort();
    }
}

const char *stem_kernel_name(struct stem_arena *arena, const char *prefix, const char *code, size_t len)
{
    return stem_arena_printf(arena, "%s%016llx", prefix, (unsigned long long)XXH64(code, len, 0));
}

uint32_t stem_vector_width(uint64_t n, uint32_t most)
{
    while (most > 1 && n % most)
        most /= 2;
    return most;
}
