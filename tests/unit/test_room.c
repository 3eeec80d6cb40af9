/* SPDX-License-Identifier: Apache-2.0
 *
 * The room pass: which products take half of the shared memory, and that it changes nothing else.
 */
#include "unit.h"

#include "flow.h"
#include "ir/build.h"
#include "pass/pass.h"

struct products {
    struct flow f;
    struct stem_builder b;
};

static struct products products_new(void)
{
    struct products t = {.f = flow_empty()};
    t.b = stem_builder_new(t.f.program, t.f.dims, t.f.diags);
    stem_vec_push(&t.f.program->streams, (struct stem_stream_decl){stem_intern(t.f.strings, "side"), 0});
    return t;
}

static struct stem_value_id buffer(struct products *t, enum stem_buffer_kind kind, const char *name, int64_t m, int64_t n)
{
    const int64_t dim[] = {m, n};
    return stem_build_buffer(&t->b, kind, stem_intern(t->f.strings, name), STEM_BF16, 2, dim);
}

static struct stem_value_id linear(struct products *t, const char *name, uint32_t stream, struct stem_value_id x,
                                   struct stem_value_id w)
{
    const struct stem_value_id in[] = {x, w};
    t->b.pin.n = stream;
    t->b.name = stem_intern(t->f.strings, name);
    return stem_build_simple(&t->b, "linear", in, 2, NULL, 0);
}

/* On side `up` and `down`, two products of a short expert, and behind them, if it is to be, `more` of down's result or, if it
 * joins, of that of `other`; this is on main, of n rows, beside the two or behind them. */
enum more { NOTHING, MORE, JOINS };
static struct products chain_of(int64_t tokens, int64_t n, bool behind, enum more more)
{
    struct products t = products_new();
    struct stem_value_id x = buffer(&t, STEM_BUFFER_INPUT, "x", tokens, 2048), w1 = buffer(&t, STEM_BUFFER_WEIGHT, "w1", 2816, 2048),
                         w2 = buffer(&t, STEM_BUFFER_WEIGHT, "w2", 2048, 2816), w3 = buffer(&t, STEM_BUFFER_WEIGHT, "w3", n, 2048);
    struct stem_value_id w4 = buffer(&t, STEM_BUFFER_WEIGHT, "w4", 64, more == JOINS ? n : 2048);
    struct stem_value_id down = linear(&t, "down", 1, linear(&t, "up", 1, x, w1), w2);
    struct stem_value_id other = linear(&t, "other", 0, behind ? down : x, w3);
    if (more != NOTHING)
        linear(&t, "more", 1, more == JOINS ? other : down, w4);
    return t;
}

static struct products products_of(int64_t tokens, int64_t n, bool behind)
{
    return chain_of(tokens, n, behind, NOTHING);
}

static void run(struct products *t, bool one_stream)
{
    struct stem_options options = stem_options_default();
    options.matmul = STEM_MATMUL_OWN;
    options.one_stream = one_stream;
    CU_ASSERT(stem_pass_run_all(t->f.program, t->f.diags, &options, NULL, NULL, &(struct stem_pass_hooks){.check_each = true}));
}

/* Names of the ops that share. */
static void check_sharing(struct products t, bool one_stream, const char *expected)
{
    struct stem_out o = {0};
    run(&t, one_stream);
    for (uint32_t i = 0; i < t.f.program->ops.len; i++)
        if (t.f.program->ops.at[i].shares)
            stem_out_printf(&o, "%s ", stem_sym_str(t.f.strings, t.f.program->ops.at[i].name));
    UNIT_SAME_TEXT(stem_out_text(&o), expected);
    stem_out_free(&o);
    flow_free(&t.f);
}

static void who(void)
{
    check_sharing(products_of(1, 100000, false), false, "up "); /* nothing comes behind `down` that could find room */
    check_sharing(products_of(8, 100000, false), false, "up ");
    check_sharing(chain_of(1, 100000, false, MORE), false, "up down ");
    check_sharing(chain_of(1, 100000, false, JOINS), false, "up down ");
    check_sharing(chain_of(1, 16000, false, JOINS), false, "up "); /* `down` is to end before `other` */
    check_sharing(products_of(1, 2560, false), false, ""); /* who takes longer need not */
    check_sharing(products_of(1, 100000, true), false, "");      /* nothing is beside anything */
    check_sharing(products_of(1, 100000, false), true, "");
    check_sharing(products_of(64, 100000, false), false, ""); /* half is too little for its smallest rings */
}

static struct stem_lowered lowered(const struct products *t, const char *name, bool shares, struct stem_arena *a)
{
    struct stem_options options = stem_options_default();
    struct stem_tensor tensor[2 * STEM_MAX_OPERANDS];
    struct stem_concrete c;
    struct stem_lowered l = {0};
    const struct stem_op *op = stem_op_at(t->f.program, flow_op(&t->f, name));
    stem_op_concrete(t->f.program, op, tensor, &c);
    c.shares = shares;
    op->def->lower(&c, &options.target, a, &l);
    return l;
}

/* The name of a kernel says how its sums are cut; "_s4", the stages of its rings, and "a", if they hold all, play no part in that. */
static void without_stages(const char *kernel, char *out, size_t size)
{
    snprintf(out, size, "%s", kernel);
    for (char *s = out; (s = strstr(s, "_s")); s++)
        if (s[2] >= '0' && s[2] <= '9') {
            s[2] = '0';
            if (s[3] == 'a')
                memmove(s + 3, s + 4, strlen(s + 4) + 1);
        }
}

static void launches(void)
{
    struct products t = products_of(1, 100000, false);
    struct stem_arena *a = stem_arena_new();
    uint32_t together = 0;
    run(&t, false);
    for (uint32_t i = 0; i < 2; i++) {
        const char *name = i ? "down" : "up";
        struct stem_lowered all = lowered(&t, name, false, a), half = lowered(&t, name, true, a);
        char x[160], y[160];
        without_stages(all.kernel, x, sizeof x);
        without_stages(half.kernel, y, sizeof y);
        UNIT_SAME_TEXT(y, x);
        CU_ASSERT(half.smem < all.smem);
        CU_ASSERT(half.block[0] == all.block[0]);
        together += (half.grid[0] + 131) / 132 * (half.smem + 1024);
    }
    CU_ASSERT(together <= 228 << 10); /* every block of both is there at once */
    stem_arena_free(a);
    flow_free(&t.f);
}

/* What was decided is in the program's text, and read from it. */
static void text(void)
{
    struct products t = chain_of(1, 100000, false, MORE);
    struct stem_out first = {0}, second = {0};
    run(&t, false);
    stem_program_print(t.f.program, &first);
    CU_ASSERT(strstr(stem_out_text(&first), "\nshares o0, o1;\n") != NULL);
    struct stem_arena *a = stem_arena_new();
    struct stem_source *s = stem_source_new(a, "program", stem_out_text(&first), first.len);
    struct stem_program *again = stem_program_read(t.f.strings, s, t.f.diags);
    CU_ASSERT_FATAL(again != NULL);
    stem_program_print(again, &second);
    UNIT_SAME_TEXT(stem_out_text(&second), stem_out_text(&first));
    stem_program_free(again);
    stem_arena_free(a);
    stem_out_free(&first);
    stem_out_free(&second);
    flow_free(&t.f);
}

UNIT_MAIN("room", {"who shares", who}, {"launches", launches}, {"as text", text})
