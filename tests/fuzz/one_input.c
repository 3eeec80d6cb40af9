/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold for every text, shared by the libFuzzer target and the test that mutates the examples.
 */
#include "one_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/front.h"
#include "sema/sema.h"

static _Noreturn void broken(const char *what, const char *detail)
{
    fprintf(stderr, "broken promise: %s\n%s\n", what, detail);
    abort();
}

/* The printed tree of a text, malloc'd; NULL if it has errors. */
static char *print_again(const char *text, size_t len)
{
    struct stem_arena *arena = stem_arena_new();
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_diags *diags = stem_diags_new(0);
    struct stem_source *source = stem_source_new(arena, "again", text, len);
    struct stem_out o = {0};
    char *copy = NULL;
    struct stem_ast *ast = stem_parse(arena, strings, source, diags);
    if (!stem_diags_errors(diags)) {
        stem_ast_print(ast, strings, &o);
        copy = strdup(stem_out_text(&o));
    }
    stem_out_free(&o);
    stem_diags_free(diags);
    stem_strtab_free(strings);
    stem_arena_free(arena);
    return copy;
}

/* A CUDA body may contain NULs, which end a C string: such a text is not printed again. */
static void print_and_read(const struct stem_ast *ast, const struct stem_strtab *strings)
{
    struct stem_out o = {0};
    stem_ast_print(ast, strings, &o);
    char *again = print_again(stem_out_text(&o), o.len);
    if (!again)
        broken("a printed tree does not parse", stem_out_text(&o));
    if (strlen(again) == o.len && strcmp(again, stem_out_text(&o)))
        broken("a printed tree prints differently", again);
    free(again);
    stem_out_free(&o);
}

/* So many ops that a run takes too long say nothing more than fewer. */
static bool small(const struct stem_source *s)
{
    return !strstr(s->text, "00000");
}

static bool expand(const struct stem_module *m, const struct stem_strtab *strings, struct stem_diags *diags)
{
    const struct stem_dim_info *dim;
    struct stem_binding bindings[8];
    uint32_t n = stem_module_dims(m, &dim), bound = 0;
    for (uint32_t i = 0; i < n && i < 8; i++) {
        if (!dim[i].has_default)
            bindings[bound++] = (struct stem_binding){stem_sym_str(strings, dim[i].name), dim[i].low};
    }
    struct stem_program *p = stem_expand(m, bindings, bound, diags);
    if (p && stem_program_check(p))
        broken("a malformed program", stem_program_check(p));
    bool good = p != NULL;
    if (!good && !stem_diags_errors(diags))
        broken("no program and no error", "");
    stem_program_free(p);
    return good;
}

bool stem_fuzz_front(const char *text, size_t len)
{
    struct stem_arena *arena = stem_arena_new();
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_diags *diags = stem_diags_new(0);
    struct stem_source *source = stem_source_new(arena, "fuzz", text, len);
    struct stem_out o = {0};
    bool good = false;
    stem_diags_set_source(diags, source);
    struct stem_ast *ast = stem_parse(arena, strings, source, diags);
    if (!stem_diags_errors(diags)) {
        print_and_read(ast, strings);
        struct stem_module *m = stem_check(arena, strings, ast, NULL, 0, diags);
        if (!stem_diags_errors(diags) && small(source))
            good = expand(m, strings, diags);
        stem_module_free(m);
    }
    stem_diags_print(diags, (struct stem_diag_style){.remarks = "all"}, &o);
    stem_out_free(&o);
    stem_diags_free(diags);
    stem_strtab_free(strings);
    stem_arena_free(arena);
    return good;
}
