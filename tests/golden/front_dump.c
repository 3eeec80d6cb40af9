/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the front end alone: front_dump ast|check|ir FILE [-D NAME=VALUE] [-d DIM=VALUE]... prints the tree, nothing,
 * or the program. Diagnostics go to stderr; errors give exit status 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/front.h"
#include "sema/sema.h"

#define MAX_ARGS 32

struct args {
    const char *mode, *path;
    struct stem_override override[MAX_ARGS];
    struct stem_binding binding[MAX_ARGS];
    uint32_t n_overrides, n_bindings;
};

static int read_args(struct args *a, int argc, char **argv)
{
    *a = (struct args){.mode = argc > 1 ? argv[1] : "", .path = argc > 2 ? argv[2] : ""};
    if (argc < 3 || argc > MAX_ARGS)
        return 0;
    for (int i = 3; i + 1 < argc; i += 2) {
        char *eq = strchr(argv[i + 1], '=');
        if (!eq)
            return 0;
        *eq = '\0';
        if (!strcmp(argv[i], "-D"))
            a->override[a->n_overrides++] = (struct stem_override){argv[i + 1], eq + 1};
        else
            a->binding[a->n_bindings++] = (struct stem_binding){argv[i + 1], strtoll(eq + 1, NULL, 10)};
    }
    return 1;
}

static void run(const struct args *a, struct stem_arena *arena, struct stem_strtab *strings,
                const struct stem_source *source, struct stem_diags *diags, struct stem_out *o)
{
    struct stem_ast *ast = stem_parse(arena, strings, source, diags);
    if (stem_diags_errors(diags))
        return;
    if (!strcmp(a->mode, "ast")) {
        stem_ast_print(ast, strings, o);
        return;
    }
    struct stem_module *m = stem_check(arena, strings, ast, a->override, a->n_overrides, diags);
    if (!stem_diags_errors(diags) && strcmp(a->mode, "check")) {
        struct stem_program *p = stem_expand(m, a->binding, a->n_bindings, diags);
        const char *fault = p ? stem_program_check(p) : NULL;
        if (fault)
            stem_out_printf(o, "fault: %s\n", fault);
        if (p && !strcmp(a->mode, "ir"))
            stem_program_print(p, o);
        stem_program_free(p);
    }
    stem_module_free(m);
}

int main(int argc, char **argv)
{
    struct args a;
    if (!read_args(&a, argc, argv)) {
        fputs("usage: front_dump ast|check|expand|ir FILE [-D NAME=VALUE] [-d DIM=VALUE]...\n", stderr);
        return 2;
    }
    struct stem_arena *arena = stem_arena_new();
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_diags *diags = stem_diags_new(0);
    const char *why;
    struct stem_source *source = stem_source_read(arena, a.path, &why);
    struct stem_out o = {0}, e = {0};
    int status = 2;
    if (source) {
        stem_diags_set_source(diags, source);
        run(&a, arena, strings, source, diags, &o);
        stem_diags_print(diags, (struct stem_diag_style){0}, &e);
        status = stem_diags_errors(diags) || !strncmp(stem_out_text(&o), "fault", 5);
    } else {
        stem_out_printf(&e, "%s\n", why);
    }
    fputs(stem_out_text(&e), stderr);
    fputs(stem_out_text(&o), stdout);
    stem_out_free(&o);
    stem_out_free(&e);
    stem_diags_free(diags);
    stem_strtab_free(strings);
    stem_arena_free(arena);
    return status;
}
