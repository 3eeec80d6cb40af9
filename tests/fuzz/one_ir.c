/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold for every text that is read as a program, and for every program that was read: it prints to a text
 * that reads and prints the same, and the passes, emission and the verifier take it or say why not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emit/emit.h"
#include "one_input.h"
#include "verify/verify.h"

static _Noreturn void broken(const char *what, const char *detail)
{
    fprintf(stderr, "broken promise: %s\n%s\n", what, detail);
    abort();
}

static void print_and_read(const struct stem_program *p)
{
    struct stem_arena *arena = stem_arena_new();
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_diags *diags = stem_diags_new(0);
    struct stem_out first = {0}, second = {0};
    stem_program_print(p, &first);
    struct stem_source *source = stem_source_new(arena, "again", stem_out_text(&first), first.len);
    struct stem_program *again = stem_program_read(strings, source, diags);
    if (!again)
        broken("a printed program does not read", stem_out_text(&first));
    stem_program_print(again, &second);
    if (strcmp(stem_out_text(&first), stem_out_text(&second)) != 0)
        broken("a printed program prints differently", stem_out_text(&second));
    stem_program_free(again);
    stem_out_free(&first);
    stem_out_free(&second);
    stem_diags_free(diags);
    stem_strtab_free(strings);
    stem_arena_free(arena);
}

/* An output that nobody writes is a fault that only the verifier sees: its verdict may be either. */
static void compile(struct stem_program *p, struct stem_diags *diags)
{
    struct stem_options options = stem_options_default();
    struct stem_pass_hooks hooks = {.check_each = true};
    if (!stem_pass_run_all(p, diags, &options, NULL, NULL, &hooks)) {
        if (!stem_diags_errors(diags))
            broken("a pass failed without an error", "");
        return;
    }
    struct stem_plan *plan = stem_emit_plan((const struct stem_program *const[]){p}, 1, &options, diags);
    if (!plan && !stem_diags_errors(diags))
        broken("no plan and no error", "");
    if (plan)
        stem_verify(plan, diags);
    stem_plan_free(plan);
}

bool stem_fuzz_ir(const char *text, size_t len)
{
    struct stem_arena *arena = stem_arena_new();
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_diags *diags = stem_diags_new(0);
    struct stem_source *source = stem_source_new(arena, "fuzz", text, len);
    struct stem_out o = {0};
    stem_diags_set_source(diags, source);
    struct stem_program *p = stem_program_read(strings, source, diags);
    bool good = p != NULL;
    if (good == (stem_diags_errors(diags) != 0))
        broken("the verdict is not what the diagnostics say", text);
    if (p) {
        print_and_read(p);
        compile(p, diags);
    }
    stem_diags_print(diags, (struct stem_diag_style){.remarks = "all"}, &o);
    stem_out_free(&o);
    stem_program_free(p);
    stem_diags_free(diags);
    stem_strtab_free(strings);
    stem_arena_free(arena);
    return good;
}
