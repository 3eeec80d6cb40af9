/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples in the explanations of 10xx to 13xx: each line that says "wrong" or "warns" gives the diagnostic that it explains,
 * and each that says what is right gives none. They are a few words, so this table has the rest of a program for them.
 */
#include "front.h"
#include "unit.h"

#define END "\nreturn zero(f32[4]); }\n"
#define MODEL(params, body) "model m(" params ") -> f32[4] {\n" body, END
#define TOP(before) before, "\nmodel m(q: f32[4]) -> f32[4] { return q + 1.0; }\n"
#define ROUTE "logits: bf16[4, 16], bias: f32[16]"
#define T_IS "dim T in 1..64 = 4;\n"
#define F "layer f(x: f32[4]) -> f32[4] { return x + 1.0; }\n"
#define G "kernel f(inout x: f32[4]) grid(1) block(4) {{ }}\nkernel g(inout x: f32[4]) grid(1) block(4) {{ }}\n"
#define TWO "kernel f(inout x: f32[4], inout y: f32[4]) grid(1) block(4) {{ }}\n"

/* The program around line `line` (from 0) of those that are marked; -1: around each that has no row of its own before. `dots` stands for
 * the text's "...". */
static const struct row {
    unsigned id;
    int line;
    const char *before, *after, *dots;
} rows[] = {
    {1001, -1, MODEL("a: f32[4], b: f32[4]", ""), ""},
    {1002, -1, TOP(""), ""},
    {1003, -1, TOP(""), ""},
    {1004, -1, TOP(""), ""},
    {1005, -1, TOP(""), ""},
    {1101, -1, MODEL("hidden: f32[4, 8], norm: f32[8]", ""), ""},
    {1102, -1, F MODEL("x: f32[4], y: f32[4], z: f32[4]", "a = x + 2.0;\n"), ""},
    {1103, -1, F "layer moe(x: f32[4]) -> f32[4] { weight w: f32[4]; return x * w; }\n" MODEL("x: f32[4]", ""), ""},
    {1104, -1, F MODEL("y: f32[4]", ""), ""},
    {1201, -1, MODEL("hidden: f32[4, 8], norm: f32[8]", ""), ""},
    {1202, 1, F "layer g(x: f32[4]) -> f32[4] { return x * 2.0; }\n" MODEL("x: f32[4]", ""), ""},
    {1202, 2, "", "", "return z * 2.0;"},
    {1202, 3, "", "", "return z * 2.0;"},
    {1202, -1, TOP(""), ""},
    {1203, -1, MODEL("x: f32[4, 8], w: f32[8]", ""), ""},
    {1204, -1, MODEL("", ""), ""},
    {1205, -1, MODEL(ROUTE, ""), ""},
    {1206, -1, "layer f(x: f32[4], y: f32[4]) -> f32[4] { return x + y; }\n" MODEL("x: f32[4]", ""), ""},
    {1207, -1, MODEL(ROUTE, ""), ""},
    {1208, -1, "layer f(x: bf16[4]) -> bf16[4] { return x + x; }\n" MODEL("x: f32[4]", ""), ""},
    {1209, -1, T_IS MODEL("x: f32[T, 4], w: f32[T, 5]", ""), ""},
    {1210, -1, MODEL("x: f32[8, 4, 2]", ""), ""},
    {1211, -1, "kernel store(inout cache: f32[4], in k: f32[4]) grid(1) block(1) {{ }}\n" MODEL("k: f32[4]", "cache = k + 1.0;\n"), ""},
    {1212, -1, TOP("layer g(release x: bf16[4]) -> bf16[4] { return x + x; }\n"), "return y;"},
    {1213, -1, TOP("kernel add_one(inout x: f32[4]) grid(1) block(1) {{ }}\n"), ""},
    {1214, 1, TOP("const HIDDEN = 4;\n"), ""},
    {1214, -1, "const HIDDEN = 4;\n" MODEL("x: f32[4]", ""), ""},
    {1215, 0, TOP(T_IS), ""},
    {1215, -1, "const HIDDEN = 4;\n" MODEL("", ""), ""},
    {1216, -1, MODEL("x: f32[4]", ""), ""},
    {1218, -1, "model m(" ROUTE ") -> f32[4] {\n", "\nreturn scale[:, 0]; }\n", ""},
    {1219, -1, MODEL(ROUTE, "_, _ = "), ""},
    {1220, -1, MODEL(ROUTE, ""), ""},
    {1223, -1, "const N = 4;\n" T_IS MODEL("x: f32[T, N]", ""), ""},
    {1224, -1, T_IS MODEL("x: f32[T, 1024]", ""), ""},
    {1225, -1, TOP(""), ""},
    {1227, -1, "const A = 4, B = 4;\n" MODEL("", ""), ""},
    {1228, -1, MODEL("", "weight w: bf16[8, 4]; x = zero(bf16[2, 4]);\n"), ""},
    {1229, -1, TOP(""), ""},
    {1230, -1, T_IS "model m(x: f32[4]) -> f32[4] {\n", "\nreturn y + 1.0; }\n", ""},
    {1233, -1, TOP(""), ""},
    {1240, -1, MODEL("ids: i32[4], x: f32[4]", ""), ""},
    {1250, -1, MODEL("x: f32[4, 8], norm: f32[8]", ""), ""},
    {1251, -1, T_IS MODEL("x: bf16[T, 64], norm: f16[64]", ""), ""},
    {1252, -1, T_IS MODEL("table: bf16[64, 8], ids: i32[T, 1]", ""), ""},
    {1253, -1, T_IS MODEL("x: bf16[T, 7168], norm: bf16[4096]", ""), ""},
    {1254, -1, MODEL("x: f32[4, 8], norm: f32[8]", ""), ""},
    {1261, -1, "layer moe[l](x: f32[4]) -> f32[4] { return x + 1.0; }\n" MODEL("x: f32[4]", ""), ""},
    {1262, -1, TOP("const N = 4;\n"), "grid(1) block(1) {{ }}"},
    {1263, -1, TOP("kernel k(in x: f32[4], out y: f32[4]) grid(1) block(4) waits\n"), ""},
    {1264, -1, "kernel add(inout s: f32[4], in x: f32[4]) grid(1) block(4) {{ }}\n" MODEL("x: f32[4]", "state s: f32[4]; y = s + x;\n"), ""},
    {1265, -1, "kernel k(in x: f32[4], out y: f32[4]) grid(1) block(4) {{\n", "\n}}\nmodel m(q: f32[4]) -> f32[4] { return q + 1.0; }\n", ""},
    {1266, -1, "const H = 128;\n" MODEL("x: f32[4, 8], w: f32[8]", ""), ""},
    {1308, -1, G MODEL("", "state s: f32[4];\n"), ""},
    {1309, 1, TWO MODEL("q: f32[8]", "x = q + 1.0;\n"), ""},
    {1309, 2, TWO MODEL("q: f32[8]", "x = q + 1.0;\n"), ""},
    {1309, -1, TWO MODEL("q: f32[4]", "x = q + 1.0;\n"), ""},
};

static const struct row *row_of(unsigned id, int line)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].id == id && (rows[i].line == line || rows[i].line < 0))
            return &rows[i];
    return NULL;
}

/* `text` of `len` bytes, its dots replaced, in the program of the row. */
static void put_together(const struct row *r, const char *text, size_t len, struct stem_out *o)
{
    stem_out_str(o, r->before);
    for (size_t i = 0; i < len;) {
        bool dots = len - i >= 3 && !strncmp(text + i, "...", 3);
        if (dots)
            stem_out_str(o, r->dots);
        else
            stem_out_char(o, text[i]);
        i += dots ? 3 : 1;
    }
    stem_out_str(o, r->after);
}

static void example(unsigned id, int line, const char *text, size_t len, bool wrong)
{
    const struct row *r = row_of(id, line);
    struct front f;
    struct stem_out o = {0};
    bool said = false;
    if (!r) {
        fprintf(stderr, "\nSTEM%u: its examples have no row here\n", id);
        CU_ASSERT(r != NULL);
        return;
    }
    put_together(r, text, len, &o);
    front_run(&f, "t", stem_out_text(&o), o.len, NULL, 0);
    for (uint32_t i = 0; i < stem_diags_count(f.diags); i++)
        said |= (unsigned)stem_diags_get(f.diags, i)->id == id;
    bool fine = wrong ? said : !said && !stem_diags_errors(f.diags);
    if (!fine)
        fprintf(stderr, "\nSTEM%u, %s:\n%s\n%s", id, wrong ? "not said of what is wrong" : "what is right is not", stem_out_text(&o),
                stem_out_text(&f.errors));
    CU_ASSERT(fine);
    front_done(&f);
    stem_out_free(&o);
}

/* The lines of an explanation that are code and say what they are. */
static void explanation(unsigned id)
{
    static const char *const marks[] = {"// right", "// does not", "// the same", "// wrong", "// warns"};
    int n = 0;
    for (const char *s = stem_diag_explanation(id); *s; s += strcspn(s, "\n"), s += *s == '\n') {
        size_t len = strcspn(s, "\n");
        if (strncmp(s, "    ", 4))
            continue;
        for (size_t m = 0; m < sizeof marks / sizeof *marks; m++) {
            const char *mark = strstr(s, marks[m]);
            if (!mark || mark >= s + len)
                continue;
            example(id, n++, s, (size_t)(mark - s), m == 3 || m == 4);
            break;
        }
    }
}

static void examples(void)
{
    const uint32_t *numbers;
    uint32_t n = stem_diag_numbers(&numbers);
    for (uint32_t i = 0; i < n && numbers[i] < 2000; i++)
        if (numbers[i] != STEM_E_UNKNOWN_CONST && numbers[i] != STEM_E_OP_MODE) /* a command line; said as STEM1211 by the checker */
            explanation(numbers[i]);
}

UNIT_MAIN("explain", {"examples of the explanations", examples})
