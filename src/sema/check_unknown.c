/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of something that there is not: what may have been meant.
 */
#include <string.h>

#include "sema/check.h"

/* What other systems call something that is here under a name which does not resemble it. */
static const char *foreign_op(const char *name)
{
    static const char *const known[][2] = {
        {"reshape", "view(x, [T, 8, 128]) gives the same memory other sizes"},
        {"flatten", "view(x, [T, 1024]) gives the same memory other sizes"},
        {"matmul", "linear(x, w) multiplies x by the transposed w"},
        {"mm", "linear(x, w) multiplies x by the transposed w"},
        {"gemm", "linear(x, w) multiplies x by the transposed w"},
        {"swiglu", "silu_mul(x) multiplies silu of the first half by the second"},
        {"moe", "experts(x, ids, scale, w13, w2) are the routed experts, and route chooses them"},
        {"attention", "gqa_attention and mla_attention read a paged cache; `mainstem ops` lists all"},
        {"sdpa", "gqa_attention and mla_attention read a paged cache; `mainstem ops` lists all"},
        {"softmax", "gqa_attention, mla_attention and route have their softmax within; any other is a kernel"},
        {"slice", "x[:, 0:64] is a part of x"},
        {"split", "x[:, 0:64] is a part of x"},
        {"chunk", "x[:, 0:64] is a part of x"},
        {"concat", "nothing joins tensors: a kernel with `inout` writes a part, or one weight holds both"},
        {"cat", "nothing joins tensors: a kernel with `inout` writes a part, or one weight holds both"},
        {"transpose", "linear(x, w) multiplies by the transposed w; any other transposition is a kernel"},
        {"sum", "rmsnorm, linear and argmax go along the last size; any other reduction is a kernel"},
        {"mean", "rmsnorm, linear and argmax go along the last size; any other reduction is a kernel"},
        {"layernorm", "rmsnorm(x, w) normalises; any other normalisation is a kernel"},
        {"pow", "there is no power: x * x, or exp(y * log(x))"},
        {"all_reduce", "what talks to other GPUs is an extern function: `extern all_reduce(inout x: ...) from \"lib.so\"`"},
        {"print", "`mainstem run` prints outputs and states: return the value"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i][0], name))
            return known[i][1];
    return NULL;
}

void stem_check_unknown(struct stem_checker *c, const struct stem_x *x)
{
    STEM_VEC(const char *) list = {0};
    uint32_t n;
    const struct stem_op_def *const *ops = stem_op_all(&n);
    const char *text = stem_name(c->m, x->id.name);
    for (uint32_t i = 0; i < n; i++)
        if (!ops[i]->internal)
            stem_vec_push(&list, ops[i]->name);
    for (uint32_t i = 0; i < c->m->callables.len; i++)
        if (c->m->callables.at[i].item->kind != STEM_I_MODEL)
            stem_vec_push(&list, stem_name(c->m, c->m->callables.at[i].item->id.name));
    for (int i = 0; i < STEM_N_DTYPES; i++)
        stem_vec_push(&list, stem_dtype_name((enum stem_dtype)i));
    static const char *const pointwise[] = {"silu", "gelu", "gelu_tanh", "sigmoid", "exp", "log", "relu",
                                            "tanh", "sqrt", "rsqrt",     "min",     "max", "abs", "zero"};
    for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
        stem_vec_push(&list, pointwise[i]);
    stem_error(c->m->diags, STEM_E_UNKNOWN_OP, x->id.span, "there is no op, layer or kernel '%s'", text);
    const char *dtype = stem_usual_dtype(text);
    if (dtype && !stem_dtype_packed(stem_dtype_from_name(dtype)))
        stem_diag_help(c->m->diags, "%s(x) converts x", dtype);
    else if (foreign_op(text))
        stem_diag_help(c->m->diags, "%s", foreign_op(text));
    else
        stem_suggest(c->m->diags, text, list.at, list.len);
    stem_vec_free(&list);
}
