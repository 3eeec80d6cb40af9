/* SPDX-License-Identifier: Apache-2.0
 *
 * A text through the front end, for tests.
 */
#ifndef STEM_TESTS_FRONT_H
#define STEM_TESTS_FRONT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/front.h"
#include "sema/sema.h"

struct front {
    struct stem_arena *arena;
    struct stem_strtab *strings;
    struct stem_diags *diags;
    struct stem_ast *ast;
    struct stem_module *module;
    struct stem_program *program;
    struct stem_out errors; /* what would be printed */
};

/* Goes as far as there are no errors. */
static inline void front_run(struct front *f, const char *path, const char *text, size_t len,
                             const struct stem_binding *bindings, uint32_t n)
{
    *f = (struct front){.arena = stem_arena_new(), .strings = stem_strtab_new(), .diags = stem_diags_new(0)};
    struct stem_source *source = stem_source_new(f->arena, path, text, len);
    stem_diags_set_source(f->diags, source);
    f->ast = stem_parse(f->arena, f->strings, source, f->diags);
    if (!stem_diags_errors(f->diags))
        f->module = stem_check(f->arena, f->strings, f->ast, NULL, 0, f->diags);
    if (!stem_diags_errors(f->diags))
        f->program = stem_expand(f->module, bindings, n, f->diags);
    stem_diags_print(f->diags, (struct stem_diag_style){.no_warnings = true}, &f->errors);
}

static inline void front_done(struct front *f)
{
    stem_program_free(f->program);
    stem_module_free(f->module);
    stem_out_free(&f->errors);
    stem_diags_free(f->diags);
    stem_strtab_free(f->strings);
    stem_arena_free(f->arena);
}

/* A file of the source tree, malloc'd; NULL if it cannot be read. */
static inline char *front_read(const char *name, size_t *len)
{
    char path[4096];
    const char *top = getenv("SRCDIR");
    snprintf(path, sizeof path, "%s/%s", top ? top : ".", name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    *len = fread(text, 1, (size_t)size, file);
    text[*len] = '\0';
    fclose(file);
    return text;
}

static const char *const front_examples[] = {"examples/dual_stream_moe.stem", "examples/dsa_indexer.stem",
                                             "examples/inline_kernel.stem", "examples/piecewise.stem",
                                             "examples/qkv_three_streams.stem"};
#define FRONT_N_EXAMPLES (sizeof front_examples / sizeof *front_examples)

#endif
