/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowerings that a program keeps: each op has the one that its own definition makes, ops share one exactly where nothing that
 * a lowering may look at differs.
 */
#include "unit.h"

#include <stdlib.h>

#include "ir/ir.h"
#include "pipeline.h"

static struct stem_compiled *compile(struct stem_compile_args a)
{
    a.options = stem_options_default();
    struct stem_compiled *c = stem_pipeline(&a);
    if (stem_diags_errors(c->diags) || c->world_error) {
        struct stem_out out = {0};
        stem_diags_print(c->diags, (struct stem_diag_style){0}, &out);
        fprintf(stderr, "%s: %s%s", a.path, c->world_error ? c->world_error : "", stem_out_text(&out));
        abort();
    }
    return c;
}

static bool same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && !strcmp(a, b));
}

static bool same_scalars(const struct stem_lowered *a, const struct stem_lowered *b)
{
    bool same = a->n_scalars == b->n_scalars;
    for (uint32_t i = 0; same && i < a->n_scalars; i++)
        same = a->scalars[i].kind == b->scalars[i].kind && a->scalars[i].i == b->scalars[i].i;
    return same;
}

static bool same(const struct stem_lowered *a, const struct stem_lowered *b)
{
    bool same = a->work == b->work && same_text(a->kernel, b->kernel) && same_text(a->code, b->code) && a->smem == b->smem &&
                !memcmp(a->grid, b->grid, sizeof a->grid) && !memcmp(a->block, b->block, sizeof a->block) &&
                a->waits == b->waits && a->early == b->early && a->ahead == b->ahead && a->memset_value == b->memset_value &&
                same_scalars(a, b);
    for (int i = 0; i < STEM_MAX_HEADERS; i++)
        same &= same_text(a->headers[i], b->headers[i]);
    return same;
}

/* Every op of the program is lowered as its definition does it; returns how many lowerings that took. */
static uint32_t as_defined(const struct stem_program *p, const struct stem_target *t)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        if (op->dead || op->class != STEM_OP_BUILTIN || !op->def->lower)
            continue;
        struct stem_arena *a = stem_arena_new();
        struct stem_tensor tensor[2 * STEM_MAX_OPERANDS];
        struct stem_concrete c;
        struct stem_lowered own = {0};
        stem_op_concrete(p, op, tensor, &c);
        op->def->lower(&c, t, a, &own);
        const struct stem_lowering *kept = stem_op_lower(p, op, t);
        if (!same(&own, &kept->l)) {
            fprintf(stderr, "%s (%s) is not lowered as its definition does it\n", stem_sym_str(p->strings, op->name), op->def->name);
            CU_FAIL("another lowering");
        }
        most = kept->number + 1 > most ? kept->number + 1 : most;
        stem_arena_free(a);
    }
    return most;
}

static void examples(void)
{
    static const char *const names[] = {"dsa_indexer", "dual_stream_moe", "gqa_decode", "qkv_three_streams", "models/deepseek_v2_lite",
                                        "models/deepseek_v32_rank", "models/kimi_k25_rank", "models/qwen3_30b_a3b"};
    const char *top = getenv("SRCDIR") ? getenv("SRCDIR") : ".";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/examples/%s.stem", top, names[i]);
        struct stem_compiled *c = compile((struct stem_compile_args){.path = path});
        struct stem_target t = stem_options_default().target;
        uint32_t n = as_defined(c->programs[0], &t);
        CU_ASSERT(n && n < 100); /* whatever the number of layers */
        t.sm = 100;
        t.n_sms = 148;
        CU_ASSERT(as_defined(c->programs[0], &t) > n);
        stem_compiled_free(c);
    }
}

static const char layers[] = "module m;\n"
                             "layer l(x: bf16[4, 512], y: bf16[4, 512]) -> bf16[4, 4] {\n"
                             "  weight n: bf16[512], w: bf16[512, 512];\n"
                             "  a = linear(rmsnorm(x, n, eps = 1e-5), w);\n"
                             "  b = linear(rmsnorm(y, n, eps = 1e-6), w);\n"
                             "  return linear(a, b);\n"
                             "}\n"
                             "model m(x: bf16[4, 512], y: bf16[4, 512]) -> bf16[4, 4] {\n"
                             "  z = l[0](x, y);\n"
                             "  repeat 3 as i { z = l[i](x, y); }\n"
                             "  return z;\n"
                             "}\n";

/* What makes two ops different: one that changes something of `op` has another lowering than it had. */
static void differ(void)
{
    struct stem_compiled *c =
        compile((struct stem_compile_args){.path = "t.stem", .text = layers, .len = strlen(layers), .stop_after = "expand"});
    struct stem_program *p = c->programs[0];
    struct stem_target t = stem_options_default().target;
    CU_ASSERT_EQUAL(as_defined(p, &t), 4); /* two eps; a product by a weight and one by a temporary; three layers have the same */
    struct stem_op *norm = &p->ops.at[0], *linear = &p->ops.at[1];
    CU_ASSERT_EQUAL(stem_op_lower(p, norm, &t)->number, 0);
    CU_ASSERT_EQUAL(stem_op_lower(p, linear, &t)->number, 1);
    linear->shares = true;
    CU_ASSERT_EQUAL(stem_op_lower(p, linear, &t)->number, 4);
    stem_value_at(p, linear->operands[0].value)->tensor.offset = 2;
    CU_ASSERT_EQUAL(stem_op_lower(p, linear, &t)->number, 5);
    stem_value_at(p, linear->operands[0].value)->tensor.stride[0] = 1024;
    CU_ASSERT_EQUAL(stem_op_lower(p, linear, &t)->number, 6);
    p->buffers.at[stem_value_at(p, linear->operands[1].value)->tensor.buffer].kind = STEM_BUFFER_INPUT;
    CU_ASSERT_EQUAL(stem_op_lower(p, linear, &t)->number, 7);
    t.n_sms--;
    CU_ASSERT_EQUAL(stem_op_lower(p, linear, &t)->number, 8);
    stem_compiled_free(c);
}

/* More different ones than are kept: those of before are made again, and are the same. */
static void many(void)
{
    static const char norm_only[] = "module m;\nmodel m(x: bf16[4, 512]) -> bf16[4, 512] {\n"
                                    "  weight n: bf16[512];\n  return rmsnorm(x, n);\n}\n";
    struct stem_compiled *c = compile(
        (struct stem_compile_args){.path = "t.stem", .text = norm_only, .len = strlen(norm_only), .stop_after = "expand"});
    struct stem_program *p = c->programs[0];
    struct stem_target t = stem_options_default().target;
    struct stem_op *norm = &p->ops.at[0];
    struct stem_attr *attrs = (struct stem_attr *)norm->attrs;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 10000; i++) {
            attrs[0].f = 1e-6 * i;
            struct stem_lowered l = stem_op_lower(p, norm, &t)->l;
            CU_ASSERT_FATAL(l.scalars[0].f == attrs[0].f || l.scalars[l.n_scalars - 1].f == attrs[0].f);
        }
    stem_compiled_free(c);
}

UNIT_MAIN("lowerings", {"as defined", examples}, {"what makes a difference", differ}, {"more than are kept", many})
