/* SPDX-License-Identifier: Apache-2.0
 *
 * Meaning: names, types, modes, and from there to a program.
 *
 *     ast = stem_parse(...);
 *     module = stem_check(arena, strings, ast, overrides, n, diags);
 *     if (!stem_diags_errors(diags))
 *         program = stem_expand(module, bindings, n, diags);
 *
 * Checking is symbolic over the dims and done once for each layer, however often it is called. Expanding binds the
 * dims, unrolls `repeat`, resolves `when` and expands the layers in place; it can be done any number of times.
 */
#ifndef STEM_SEMA_SEMA_H
#define STEM_SEMA_SEMA_H

#include "ast/ast.h"
#include "ir/ir.h"

struct stem_module;

/* -D NAME=VALUE */
struct stem_override {
    const char *name, *value;
};

/* Never NULL; usable only if no error was reported (10xx to 12xx). Everything lives in `arena` except what
 * stem_module_free releases; `ast` and `strings` must outlive the module. */
struct stem_module *stem_check(struct stem_arena *arena, struct stem_strtab *strings, const struct stem_ast *ast,
                               const struct stem_override *overrides, uint32_t n_overrides, struct stem_diags *diags);
void stem_module_free(struct stem_module *m);

struct stem_dim_info {
    struct stem_sym name;
    int64_t low, high;
    bool has_default;
    int64_t value; /* the default */
    struct stem_span span;
};
/* The dims in text order. */
uint32_t stem_module_dims(const struct stem_module *m, const struct stem_dim_info **dims);

struct stem_binding {
    const char *name;
    int64_t value;
};
/* The program for these values of the dims; a dim that is not bound takes its default. NULL after errors (13xx, or
 * of a type rule that only concrete sizes break). The caller frees the program. Linear in the number of ops. The same
 * module gives the same external buffers in the same order for all bindings. */
struct stem_program *stem_expand(const struct stem_module *m, const struct stem_binding *bindings, uint32_t n,
                                 struct stem_diags *diags);

#endif
