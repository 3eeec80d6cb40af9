/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the front end alone: parses (and checks, and expands) a file and prints the tree or the program. Diagnostics
 * go to stderr, and their presence is exit status 1.
 */
#include <stdio.h>
#include <string.h>

#include "grammar/front.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct stem_arena *arena = stem_arena_new();
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_diags *diags = stem_diags_new(0);
    const char *why;
    struct stem_source *source = stem_source_read(arena, argv[2], &why);
    if (!source) {
        fprintf(stderr, "%s\n", why);
        return 2;
    }
    stem_diags_set_source(diags, source);
    struct stem_ast *ast = stem_parse(arena, strings, source, diags);
    struct stem_out o = {0}, e = {0};
    if (!stem_diags_errors(diags) && !strcmp(argv[1], "ast"))
        stem_ast_print(ast, strings, &o);
    stem_diags_print(diags, (struct stem_diag_style){0}, &e);
    fputs(stem_out_text(&e), stderr);
    fputs(stem_out_text(&o), stdout);
    int status = stem_diags_errors(diags) ? 1 : 0;
    stem_out_free(&o);
    stem_out_free(&e);
    stem_diags_free(diags);
    stem_strtab_free(strings);
    stem_arena_free(arena);
    return status;
}
