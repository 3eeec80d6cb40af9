/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/bitset.h"
#include "base/diag.h"
#include "base/directive.h"
#include "base/str.h"
#include "base/vec.h"

static void arenas(void)
{
    struct stem_arena *a = stem_arena_new();
    for (int i = 0; i < 1000; i++) {
        unsigned char *p = stem_arena_alloc(a, (size_t)i);
        CU_ASSERT_EQUAL((uintptr_t)p % 16, 0);
        for (int j = 0; j < i; j++) {
            CU_ASSERT_EQUAL_FATAL(p[j], 0);
            p[j] = 0xff;
        }
    }
    UNIT_SAME_TEXT(stem_arena_printf(a, "%d-%s", 7, "x"), "7-x");
    stem_arena_free(a);
    stem_arena_free(NULL);
}

static void symbols(void)
{
    struct stem_strtab *t = stem_strtab_new();
    struct stem_sym a = stem_intern(t, "alpha"), b = stem_intern(t, "beta");
    CU_ASSERT(!stem_sym_eq(a, b));
    CU_ASSERT(stem_sym_eq(a, stem_intern_n(t, "alphabet", 5)));
    CU_ASSERT_EQUAL(stem_intern(t, "").n, 0);
    for (int i = 0; i < 5000; i++)
        stem_intern_printf(t, "s%d", i);
    UNIT_SAME_TEXT(stem_sym_str(t, b), "beta");
    UNIT_SAME_TEXT(stem_sym_str(t, stem_intern(t, "s4999")), "s4999");
    for (int i = 0; i < 5000; i++)
        CU_ASSERT_EQUAL_FATAL(stem_intern_printf(t, "s%d", i).n, 3 + (uint32_t)i);
    CU_ASSERT_EQUAL(stem_intern(t, "beta").n, b.n);
    struct stem_sym bytes = stem_intern_n(t, "a\0b", 3), others = stem_intern_n(t, "a\0c", 3); /* emitters intern bytes, too */
    CU_ASSERT(!stem_sym_eq(bytes, others) && !stem_sym_eq(bytes, stem_intern(t, "a")));
    CU_ASSERT(stem_sym_eq(bytes, stem_intern_n(t, "a\0b", 3)) && !memcmp(stem_sym_str(t, bytes), "a\0b", 4));
    stem_strtab_free(t);
}

static void nearest_word(void)
{
    static const char *const words[] = {"rmsnorm", "linear", "route", "experts"};
    UNIT_SAME_TEXT(stem_nearest("linera", words, 4), "linear");
    UNIT_SAME_TEXT(stem_nearest("rms_norm", words, 4), "rmsnorm");
    CU_ASSERT_PTR_NULL(stem_nearest("banana", words, 4));
    static const char *const letters[] = {"N", "x", "T"};
    UNIT_SAME_TEXT(stem_nearest("t", letters, 3), "T");
    CU_ASSERT_PTR_NULL(stem_nearest("y", letters, 3));
    CU_ASSERT_PTR_NULL(stem_nearest("xy", letters, 3)); /* of two letters one is half */
    CU_ASSERT_EQUAL(stem_edit_distance("ab", "ba", 3), 1);
    CU_ASSERT_EQUAL(stem_edit_distance("kitten", "sitting", 9), 3);
}

static void vectors_and_bitsets(void)
{
    STEM_VEC(int) v = {0};
    for (int i = 0; i < 1000; i++)
        stem_vec_push(&v, i);
    CU_ASSERT_EQUAL(v.len, 1000);
    CU_ASSERT_EQUAL(v.at[999], 999);
    CU_ASSERT_EQUAL(stem_vec_pop(&v), 999);
    stem_vec_free(&v);

    struct stem_arena *a = stem_arena_new();
    struct stem_bitset s = stem_bitset_new(a, 130), t = stem_bitset_new(a, 130);
    stem_bitset_add(&s, 129);
    CU_ASSERT(stem_bitset_union(&t, &s));
    CU_ASSERT(!stem_bitset_union(&t, &s));
    CU_ASSERT(stem_bitset_has(&t, 129));
    stem_bitset_remove(&t, 129);
    CU_ASSERT(!stem_bitset_has(&t, 129));
    stem_arena_free(a);
}

static void places(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_source *s = stem_source_new(a, "f", "ab\r\n\ncd", 7);
    CU_ASSERT_EQUAL(s->n_lines, 3);
    struct stem_place p = stem_source_place(s, 6);
    CU_ASSERT_EQUAL(p.line, 3);
    CU_ASSERT_EQUAL(p.column, 2);
    uint32_t len;
    stem_source_line(s, 1, &len);
    CU_ASSERT_EQUAL(len, 2);
    p = stem_source_place(s, 7);
    CU_ASSERT_EQUAL(p.column, 3);
    const char *why = NULL;
    CU_ASSERT_PTR_NULL(stem_source_read(a, "/no/such/file", &why));
    UNIT_SAME_TEXT(why, "cannot open '/no/such/file': No such file or directory");
    stem_arena_free(a);
}

static void carets(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_diags *q = stem_diags_new(2);
    struct stem_source *s = stem_source_new(a, "m.stem", "\tx = \xc3\xa4 lin(y);\n", 16);
    stem_diags_set_source(q, s);
    stem_error(q, (enum stem_diag_id)1203, (struct stem_span){8, 11}, "unknown op '%s'", "lin");
    stem_diag_label(q, (struct stem_span){1, 2}, "for this");
    stem_diag_help(q, "did you mean 'linear'?");
    stem_error(q, (enum stem_diag_id)1203, (struct stem_span){8, 11}, "again");
    stem_remark(q, "streams", STEM_NOWHERE, "hidden unless asked for");
    struct stem_out o = {0};
    stem_diags_print(q, (struct stem_diag_style){0}, &o);
    UNIT_SAME_TEXT(stem_out_text(&o), "m.stem:1:9: error: unknown op 'lin' [STEM1203]\n"
                                      "    1 |         x = \xc3\xa4 lin(y);\n"
                                      "      |               ^~~\n"
                                      "m.stem:1:2: note: for this\n"
                                      "    1 |         x = \xc3\xa4 lin(y);\n"
                                      "      |         ^\n"
                                      "      = help: did you mean 'linear'?\n");
    CU_ASSERT_EQUAL(stem_diags_errors(q), 1);
    for (int i = 0; i < 3; i++)
        stem_error(q, (enum stem_diag_id)1203, STEM_NOWHERE, "%d", i);
    CU_ASSERT_EQUAL(stem_diags_errors(q), 4);
    CU_ASSERT_EQUAL(stem_diags_count(q), 3);
    stem_out_free(&o);
    stem_diags_free(q);
    stem_arena_free(a);
}

/* What is printed of the span that "lin" is in the text: two lines. */
static const char *snippet(const char *text, uint32_t blank_lines)
{
    static struct stem_out o;
    struct stem_arena *a = stem_arena_new();
    struct stem_diags *q = stem_diags_new(2);
    struct stem_out all = {0};
    for (uint32_t i = 0; i < blank_lines; i++)
        stem_out_char(&all, '\n');
    stem_out_str(&all, text);
    struct stem_source *s = stem_source_new(a, "m", stem_out_text(&all), all.len);
    uint32_t at = (uint32_t)(strstr(stem_out_text(&all), "lin") - stem_out_text(&all));
    stem_diags_set_source(q, s);
    stem_error(q, (enum stem_diag_id)1203, (struct stem_span){at, at + 3}, "x");
    stem_out_free(&o);
    o = (struct stem_out){0};
    stem_diags_print(q, (struct stem_diag_style){0}, &o);
    stem_out_free(&all);
    stem_diags_free(q);
    stem_arena_free(a);
    return strchr(stem_out_text(&o), '\n') + 1;
}

static void columns(void)
{
    static const struct {
        const char *text, *shown, *under;
    } rows[] = {
        {"lin", "lin", ""},
        {"\xe6\xbc\xa2\xe5\xad\x97 lin", "\xe6\xbc\xa2\xe5\xad\x97 lin", "     "},           /* two wide ones */
        {"e\xcc\x81 lin", "e\xcc\x81 lin", "  "},                                               /* a combining accent */
        {"\xf0\x9f\x98\x80 lin", "\xf0\x9f\x98\x80 lin", "   "},                               /* beyond 16 bits */
        {"a\tlin", "a       lin", "        "},
        {"\xe6\xbc\xa2\tlin", "\xe6\xbc\xa2      lin", "        "},                             /* a tab behind a wide one */
        {"\xe2\x80\xaelin", "???lin", "   "},                                                    /* would turn the line */
        {"\xff\x1b[lin", "??[lin", "   "},
        {"\xc2\x85lin", "??lin", "  "},
    };
    struct stem_out want = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stem_out_free(&want);
        want = (struct stem_out){0};
        stem_out_printf(&want, "    1 | %s\n      | %s^~~\n", rows[i].shown, rows[i].under);
        UNIT_SAME_TEXT(snippet(rows[i].text, 0), stem_out_text(&want));
    }
    stem_out_free(&want);
    UNIT_SAME_TEXT(snippet("lin", 123455), "123456 | lin\n       | ^~~\n"); /* a number wider than the margin */
}

/* What is a directive, and what only looks like one. */
static void directives(void)
{
    static const struct {
        const char *text, *found;
    } t[] = {
        {"", ""},
        {"#define K 3", "define K;"},
        {"int i; # define K 3", ""},
        {"  /* a */ # /* b */ define /* c */ K(x) x\n#undef K\n", "define K;undef K;"},
        {"/*\n#define A\n*/ #define B\n", "define B;"},
        {"// \"\n#define A\n", "define A;"},
        {"// more \\\n#define A\n#define B\n", "define B;"},
        {"#de\\\nfine A\\ \r\nB 1\\\n#define C\n#define D", "define AB;define D;"},
        {"s = \"/*\";\n#define A\nc = '\"';\n#define B\nd = '\\'';\n#define C\n", "define A;define B;define C;"},
        {"s = \"\\\\\";\n#define A\n\"open\n#define B\n", "define A;define B;"},
        {"n = 1'000'000 + 0x'ff; c = '/*';\n#define A\n*/\n", "define A;"},
        {"s = R\"(\"\n#define A\n)\";\n#define B\ns = u8R\"x()\" /*)x\";\n#define C\n", "define B;define C;"},
        {"%:define A\n%: ifdef A\n#\n#if A\n#endif\n", "define A;ifdef A; ;if A;endif ;"},
        {"#define \303\251$ 1\n#include <a/*b.h>\n*/\n#define", "define \303\251$;include ;define ;"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        struct stem_directives d = stem_directives_of(t[i].text, strlen(t[i].text));
        struct stem_out o = {0};
        while (stem_directive_next(&d))
            stem_out_printf(&o, "%s %s;", stem_out_text(&d.word), stem_out_text(&d.name));
        UNIT_SAME_TEXT(stem_out_text(&o), t[i].found);
        stem_out_free(&o);
        stem_directives_free(&d);
    }
}

UNIT_MAIN("base", {"arenas", arenas}, {"symbols", symbols}, {"nearest word", nearest_word},
          {"vectors and bitsets", vectors_and_bitsets}, {"places", places}, {"carets", carets},
          {"columns of a terminal", columns}, {"directives", directives})
