/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "front.h"

/* ---- the tree ---- */

static char *printed(const char *text, size_t len)
{
    struct stem_arena *arena = stem_arena_new();
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_diags *diags = stem_diags_new(0);
    struct stem_source *source = stem_source_new(arena, "t", text, len);
    struct stem_out o = {0};
    stem_diags_set_source(diags, source);
    struct stem_ast *ast = stem_parse(arena, strings, source, diags);
    if (stem_diags_errors(diags))
        stem_diags_print(diags, (struct stem_diag_style){0}, &o);
    else
        stem_ast_print(ast, strings, &o);
    char *copy = strdup(stem_out_text(&o));
    stem_out_free(&o);
    stem_diags_free(diags);
    stem_strtab_free(strings);
    stem_arena_free(arena);
    return copy;
}

/* What is printed parses to a tree that prints the same. */
static void print_and_read(void)
{
    for (size_t i = 0; i < FRONT_N_EXAMPLES; i++) {
        size_t len = 0;
        char *text = front_read(front_examples[i], &len);
        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        char *once = printed(text, len), *twice = printed(once, strlen(once));
        CU_ASSERT_PTR_NULL(strstr(once, "error:"));
        UNIT_SAME_TEXT(twice, once);
        free(text);
        free(once);
        free(twice);
    }
}

static void tree_forms(void)
{
    static const struct {
        const char *text, *print;
    } cases[] = {
        {"const a = 1+2*3-(4-5)%6/(7*8);", "const a = 1 + 2 * 3 - (4 - 5) % 6 / (7 * 8);\n"},
        {"const a = -(1+2)*-3, b = - -1;", "const a = -(1 + 2) * -3;\nconst b = --1;\n"},
        {"const a = 0x10, b = 1_000, c = 1_0.5e-3;", "const a = 16;\nconst b = 1000;\nconst c = 10.5e-3;\n"},
        {"dim T in 1..64, S in 2..3=2;", "dim T in 1..64;\ndim S in 2..3 = 2;\n"},
        {"module out; extern grid(inout block: u8; as: i32) from \"a\\\"b\\\\\";",
         "module out;\nextern grid(inout block: u8; as: i32) from \"a\\\"b\\\\\";\n"},
        {"kernel k(in x:f32,out out:f32,workspace w:u8[4]=0) block(1) waits grid(2,3) smem(4) {{ \"}}\" '}' /*}}*/ {{}} }}",
         "kernel k(in x: f32, out out: f32, workspace w: u8[4] = 0) grid(2, 3) block(1) smem(4) waits "
         "{{ \"}}\" '}' /*}}*/ {{}} }}\n"},
        {"layer f[l,e]() { weight w: f32[2]=\"a.{l}.\\\"\", v: f32; }",
         "layer f[l, e]() {\n  weight w: f32[2] = \"a.{l}.\\\"\", v: f32;\n}\n"},
        {"layer f(release x: f32[2]) -> (a: f32, b: f32) { weight w: f32, v: f32; state s: f32; return x, w; }",
         "layer f(release x: f32[2]) -> (a: f32, b: f32) {\n  weight w: f32, v: f32;\n  state s: f32;\n  return x, w;\n}\n"},
        {"layer f() { a, _ = g[1, i+1](x[0:2, :, a:, :b, 3], inout y, k = v,) on s after p, q priority -1 resource r; }",
         "layer f() {\n  a, _ = g[1, i + 1](x[0:2, :, a:, :b, 3], inout y, k = v) on s after p, q priority -1 "
         "resource r;\n}\n"},
        {"model m() { when (a<1&&!(b==2)||c) { } else when (d) { break; } else { eager { } } repeat 3 { f(); } }",
         "model m() {\n  when (a < 1 && !(b == 2) || c) {\n  } else {\n    when (d) {\n      break;\n    } else {\n"
         "      eager {\n      }\n    }\n  }\n  repeat 3 {\n    f();\n  }\n}\n"},
        {"model m() { after a { on s { x = view(f(y), [1, 2])[0]; } } }",
         "model m() {\n  after a {\n    on s {\n      x = view(f(y), [1, 2])[0];\n    }\n  }\n}\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *once = printed(cases[i].text, strlen(cases[i].text)), *twice = printed(once, strlen(once));
        UNIT_SAME_TEXT(once, cases[i].print);
        UNIT_SAME_TEXT(twice, once);
        free(once);
        free(twice);
    }
}

static void large_source(void)
{
    struct front f;
    size_t len = STEM_MAX_SOURCE + 1;
    char *text = malloc(len);
    memset(text, ' ', len);
    front_run(&f, "t", text, len, NULL, 0);
    CU_ASSERT_EQUAL(stem_diags_errors(f.diags), 1);
    CU_ASSERT_EQUAL(stem_diags_get(f.diags, 0)->id, STEM_E_FILE_TOO_BIG);
    front_done(&f);
    free(text);
}

/* 20,000 names: one error, and no quadratic search that would take minutes. */
static void large_layer(void)
{
    struct front f;
    struct stem_out o = {0};
    stem_out_str(&o, "model m(x: f32[1]) -> f32[1] {\n");
    for (int i = 0; i < 20000; i++)
        stem_out_printf(&o, "y%d = exp(x);", i);
    stem_out_str(&o, "return x; }\n");
    front_run(&f, "t", stem_out_text(&o), o.len, NULL, 0);
    CU_ASSERT(stem_diags_errors(f.diags) > 0);
    CU_ASSERT_EQUAL(stem_diags_get(f.diags, 0)->id, STEM_E_TOO_MANY_NAMES);
    front_done(&f);
    stem_out_free(&o);
}

/* ---- documents and examples ---- */

static void check_text(const char *name, const char *text, size_t len)
{
    struct front f;
    front_run(&f, name, text, len, NULL, 0);
    UNIT_SAME_TEXT(stem_out_text(&f.errors), "");
    CU_ASSERT_PTR_NOT_NULL(f.program);
    if (f.program)
        CU_ASSERT_PTR_NULL(stem_program_check(f.program));
    front_done(&f);
}

static void examples(void)
{
    for (size_t i = 0; i < FRONT_N_EXAMPLES; i++) {
        size_t len = 0;
        char *text = front_read(front_examples[i], &len);
        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        check_text(front_examples[i], text, len);
        free(text);
    }
}

/* Every block that is marked as a program and not as a wrong one. */
static void check_document(const char *name, int at_least)
{
    size_t len = 0;
    char *text = front_read(name, &len);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    int n = 0;
    for (char *p = text; (p = strstr(p, "```stem\n")) != NULL; n++) {
        p += 8;
        char *end = strstr(p, "```");
        CU_ASSERT_PTR_NOT_NULL_FATAL(end);
        check_text(name, p, (size_t)(end - p));
        p = end + 3;
    }
    CU_ASSERT(n >= at_least);
    free(text);
}

static void documents(void)
{
    check_document("docs/language.md", 5);
    check_document("docs/tutorial.md", 5);
}

/* ---- expanding ---- */

/* One line for each op: name, pin, priority, segment, layer. */
static char *op_lines(const struct stem_program *p)
{
    struct stem_out o = {0};
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        stem_out_printf(&o, "%s %s", stem_sym_str(p->strings, op->name),
                        op->def ? op->def->name : stem_sym_str(p->strings, p->decls.at[op->decl].name));
        if (op->def && !strcmp(op->def->name, "pointwise"))
            stem_out_printf(&o, " \"%s\"", stem_op_attr(op->def, op->attrs, "expr")->text);
        if (op->pin.n != STEM_NONE)
            stem_out_printf(&o, " on %s", stem_sym_str(p->strings, p->streams.at[op->pin.n].name));
        if (op->priority)
            stem_out_printf(&o, " priority %d", op->priority);
        if (op->resource.n)
            stem_out_printf(&o, " resource %s", stem_sym_str(p->strings, op->resource));
        for (uint32_t k = 0; k < op->n_after; k++)
            stem_out_printf(&o, " after o%u", op->after[k].n);
        if (op->segment)
            stem_out_printf(&o, " segment %u%s", op->segment, p->segments.at[op->segment].eager ? " eager" : "");
        if (op->layer != STEM_NONE)
            stem_out_printf(&o, " in %s", stem_sym_str(p->strings, p->layers.at[op->layer]));
        stem_out_char(&o, '\n');
    }
    char *text = strdup(stem_out_text(&o));
    stem_out_free(&o);
    return text;
}

#define MODEL(body) "const N = 8; dim T in 1..64 = 4;\nmodel m(x: f32[T, N]) -> f32[T, N] { " body " }\n"
#define LAYER "layer f(x: f32[T, N]) -> f32[T, N] { weight w: f32[N]; on a { y = exp(x); } return y * w; }\n"

static void expanding(void)
{
    static const struct {
        const char *text, *ops;
    } cases[] = {
        /* pointwise expressions are one op each, constants are folded, casts round */
        {MODEL("return x * (2 + 1) - -x / max(x, 0.5);"), "out pointwise \"i0 c:3 mul i0 neg i0 c:0.5 max div sub\"\n"},
        {MODEL("y = bf16(silu(x)); return f32(y) + x;"),
         "y pointwise \"i0 silu as:bf16\"\nout pointwise \"i0 as:f32 i1 add\"\n"},
        {MODEL("return f32(x * N * T);"), "out pointwise \"i0 c:8 mul c:4 mul as:f32\"\n"},
        /* casts to the same type are nothing, and an input that is returned is copied */
        {MODEL("return f32(x);"), "out copy\n"},
        {MODEL("repeat 0 { x = exp(x); } return x;"), "out copy\n"},
        /* regions */
        {MODEL("on a priority 3 { y = exp(x); on b { z = exp(y); } } return z;"),
         "y pointwise \"i0 exp\" on a priority 3\nz pointwise \"i0 exp\" on b priority 3\n"},
        {MODEL("y = exp(x); z = exp(x) after y resource r; after z { u = exp(x) after y; } _ = z; return u;"),
         "y pointwise \"i0 exp\"\nz pointwise \"i0 exp\" resource r after o0\n"
         "u pointwise \"i0 exp\" after o1 after o0\n"},
        /* when: by constants, by dims, by the index */
        {MODEL("when (N > 8) { y = exp(x); } else when (T >= 4 && N == 8) { y = log(x); } else { y = abs(x); } return y;"),
         "y pointwise \"i0 log\"\n"},
        {MODEL("repeat 3 as i { when (i % 2 == 0) { x = exp(x); } else { x = log(x); } } return x;"),
         "x[0] pointwise \"i0 exp\"\nx[1] pointwise \"i0 log\"\nx[2] pointwise \"i0 exp\"\n"},
        /* segments; none is empty */
        {MODEL("break; eager { x = exp(x); } break; x = log(x); break; break; x = abs(x); break; return x;"),
         "x[0] pointwise \"i0 exp\"\n"
         "x[1] pointwise \"i0 log\" segment 1\nx[2] pointwise \"i0 abs\" segment 2\n"},
        {MODEL("x = exp(x); eager { x = log(x); } x = abs(x); return x;"),
         "x[0] pointwise \"i0 exp\"\nx[1] pointwise \"i0 log\" segment 1 eager\nx[2] pointwise \"i0 abs\" segment 2\n"},
        /* layers: instances, pins that hold inside */
        {LAYER MODEL("on b { repeat 2 as i { x = f[i, 1 - i](x); } } return x;"),
         "f[0,1].y pointwise \"i0 exp\" on a in f[0,1]\nf[0,1].out pointwise \"i0 i1 mul\" on b in f[0,1]\n"
         "f[1,0].y pointwise \"i0 exp\" on a in f[1,0]\nf[1,0].out pointwise \"i0 i1 mul\" on b in f[1,0]\n"},
        /* one instance twice: its ops are numbered */
        {LAYER MODEL("repeat 2 { x = f[3](x); } return x;"),
         "f[3].y[0] pointwise \"i0 exp\" on a in f[3]\nf[3].out[0] pointwise \"i0 i1 mul\" in f[3]\n"
         "f[3].y[1] pointwise \"i0 exp\" on a in f[3]\nf[3].out[1] pointwise \"i0 i1 mul\" in f[3]\n"},
        /* three names each */
        {"layer g(x: f32[T, N]) -> (a: f32[T, N], b: f32[T, N], c: f32[T, N]) { return exp(x), log(x), abs(x); }\n" MODEL(
             "a, b, c = g(x); y = a * b - c after a, b, c; return y;"),
         "g.a pointwise \"i0 exp\" in g\ng.b pointwise \"i0 log\" in g\ng.c pointwise \"i0 abs\" in g\n"
         "y pointwise \"i0 i1 mul i2 sub\" after o0 after o1 after o2\n"},
        /* slices with gaps are copied for a kernel; whole rows are not */
        {"kernel k(in x: f32[T, 4], out y: f32[T, 4]) grid(1) block(1) {{ }}\n" MODEL(
             "y = k(x[:, 0:4]); return x * y[:, 0:1];"),
         "y.copy copy\ny k\nout pointwise \"i0 i1 mul\"\n"},
        {"kernel k(in x: f32[1, N], out y: f32[1, N]) grid(1) block(1) {{ }}\n" MODEL("return x * k(x[0:1, :]);"),
         "out.k k\nout pointwise \"i0 i1 mul\"\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct front f;
        front_run(&f, "t", cases[i].text, strlen(cases[i].text), NULL, 0);
        UNIT_SAME_TEXT(stem_out_text(&f.errors), "");
        if (f.program) {
            char *ops = op_lines(f.program);
            UNIT_SAME_TEXT(ops, cases[i].ops);
            CU_ASSERT_PTR_NULL(stem_program_check(f.program));
            free(ops);
        }
        front_done(&f);
    }
}

/* External buffers do not depend on the dims, whatever branch they choose. */
static void same_externals(void)
{
    static const char text[] =
        "const N = 8; dim T in 1..64;\n" LAYER
        "layer g(x: f32[T, N]) -> f32[T, N] { weight v: f32[N]; state s: f32[N]; return x + v + s; }\n"
        "model m(x: f32[T, N]) -> (a: f32[T, N], b: f32[T, N]) {\n"
        "  when (T < 8) { y = f[0](x); } else { y = g[7](x); }\n"
        "  repeat 2 as i { y = f[i](y); }\n"
        "  return x, y; }\n";
    static const char expected[] = "1 x\n2 a\n2 b\n3 f[0].w\n3 g[7].v\n4 g[7].s\n3 f[1].w\n";
    for (int64_t t = 4; t <= 64; t *= 4) {
        struct front f;
        struct stem_binding binding = {"T", t};
        struct stem_out o = {0};
        front_run(&f, "t", text, sizeof text - 1, &binding, 1);
        UNIT_SAME_TEXT(stem_out_text(&f.errors), "");
        for (uint32_t i = 0; f.program && i < f.program->buffers.len; i++)
            if (f.program->buffers.at[i].kind != STEM_BUFFER_TEMP)
                stem_out_printf(&o, "%d %s\n", (int)f.program->buffers.at[i].kind,
                                stem_sym_str(f.strings, f.program->buffers.at[i].name));
        UNIT_SAME_TEXT(stem_out_text(&o), expected);
        stem_out_free(&o);
        front_done(&f);
    }
}

/* A view that splits the sizes of a slice is the same memory, gaps and all. */
static void split_slices(void)
{
    static const char text[] = MODEL("y = view(x[:, 2:6], [T, 1, 2, 2]); return x + y[:, 0, 1, 0:1];");
    struct front f;
    bool seen = false;
    front_run(&f, "t", text, sizeof text - 1, NULL, 0);
    UNIT_SAME_TEXT(stem_out_text(&f.errors), "");
    for (uint32_t i = 0; f.program && i < f.program->values.len; i++) {
        const struct stem_tensor *t = &f.program->values.at[i].tensor;
        if (t->rank != 4)
            continue;
        seen = true;
        CU_ASSERT(t->offset == 8 && t->stride[0] == 8 && t->stride[2] == 2 && t->stride[3] == 1);
    }
    CU_ASSERT(seen);
    front_done(&f);
}

/* Ten thousand layers: every op is there, and the buffers are what they must be. */
static void many_layers(void)
{
    static const char text[] = LAYER MODEL("repeat 10000 as i { x = f[i % 16](x); } return x;");
    struct front f;
    front_run(&f, "t", text, sizeof text - 1, NULL, 0);
    UNIT_SAME_TEXT(stem_out_text(&f.errors), "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f.program);
    CU_ASSERT_EQUAL(f.program->ops.len, 20000);
    CU_ASSERT_EQUAL(f.program->layers.len, 10000);
    CU_ASSERT_EQUAL(f.program->buffers.len, 1 + 1 + 16 + 20000);
    front_done(&f);
}

UNIT_MAIN("front", {"printing and reading trees", print_and_read}, {"forms of the tree", tree_forms},
          {"a source that is too large", large_source}, {"a layer that is too large", large_layer}, {"examples", examples},
          {"the documents", documents}, {"expanding", expanding},
          {"external buffers", same_externals}, {"many layers", many_layers},
          {"split slices", split_slices})
