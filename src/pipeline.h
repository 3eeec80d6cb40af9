/* SPDX-License-Identifier: Apache-2.0
 *
 * From text to plan on one page: source -> AST -> checked module -> one program for each binding of the dims -> passes
 * -> plan -> verified. Everything that a step made stays readable in the result.
 */
#ifndef STEM_PIPELINE_H
#define STEM_PIPELINE_H

#include "base/diag.h"
#include "base/source.h"
#include "base/str.h"
#include "ir/ir.h"
#include "pass/pass.h"
#include "runtime/plan.h"

struct stem_compile_args {
    const char *path;       /* file, "-" for standard input; or, with `text`, only a name for messages */
    const char *text;       /* NULL: read `path` */
    size_t len;
    bool from_ir;           /* the text is a program (textual IR), not .stem */
    const char *const *defines; /* "NAME=VALUE": overrides of consts */
    uint32_t n_defines;
    const char *const *dims; /* "T=1,4,16,64": specialisations; a dim not named takes its upper bound */
    uint32_t n_dims;
    struct stem_options options;
    const char *passes;     /* comma-separated, NULL: all */
    const char *stop_after; /* "parse", "check", or a pass; NULL: go on to the plan */
    bool no_verify;
    const struct stem_pass_hooks *hooks; /* may be NULL */
    void (*expanded)(void *user, const struct stem_program *p); /* each program before the passes; may be NULL */
    void *user;
    uint32_t max_errors;    /* 0: 20 */
};

struct stem_phase_times {
    double parse, check, expand, passes, plan, verify; /* seconds */
};

struct stem_compiled {
    struct stem_arena *arena;
    struct stem_strtab *strings;
    struct stem_diags *diags;
    const struct stem_source *source; /* NULL if it could not be read */
    const char *world_error;          /* set if something outside failed (file not readable) */
    struct stem_ast *ast;
    struct stem_module *module;
    struct stem_program **programs; /* one for each specialisation */
    uint32_t n_programs;
    struct stem_plan *plan; /* NULL if stopped early or after errors */
    struct stem_phase_times times;
};

/* Never NULL. It failed if stem_diags_errors(diags) or world_error; what was made until then is there. */
struct stem_compiled *stem_pipeline(const struct stem_compile_args *args);
void stem_compiled_free(struct stem_compiled *c);

#endif
