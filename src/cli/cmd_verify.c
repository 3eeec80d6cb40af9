/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem verify FILE`: judges the plan of a .stem file, or a plan in JSON that anybody wrote.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verify/verify.h"

static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const refused[] = {"passes", "stop-after", NULL};
    (void)arg;
    if (key == ARGP_KEY_INIT) {
        stem_cli_hide(refused);
        state->child_inputs[0] = state->input;
    }
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {0,
                                 parse,
                                 "FILE",
                                 "Checks a plan for races, early reuse, early frees and missing joins. FILE is a "
                                 ".stem file, or a plan (NAME.plan.json).",
                                 children,
                                 0,
                                 0};

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

static int verify_plan(const struct stem_plan *plan, const char *path, const struct stem_source *source, int color)
{
    struct stem_diags *diags = stem_diags_new(0);
    stem_diags_set_source(diags, source);
    bool safe = stem_verify(plan, diags);
    struct stem_out o = {0};
    stem_diags_print(diags, (struct stem_diag_style){.color = color < 0 ? isatty(STDERR_FILENO) : color}, &o);
    fputs(stem_out_text(&o), stderr);
    stem_out_free(&o);
    stem_diags_free(diags);
    if (!plan->n_variants) {
        stem_cli_error("%s: the plan has no variant: there is nothing to verify", path);
        return STEM_EXIT_INPUT;
    }
    for (uint32_t i = 0; safe && i < plan->n_variants; i++) {
        const struct stem_plan_variant *v = &plan->variants[i];
        printf("%s: ", path);
        for (uint32_t k = 0; plan->n_variants > 1 && k < plan->n_dims; k++)
            printf("%s=%lld%s", plan->dims[k], (long long)v->dim[k], k + 1 < plan->n_dims ? ", " : ": ");
        printf("safe: %u op%s, %u edge%s, %u event%s on %u stream%s, slab %s\n", v->n_ops, plural(v->n_ops),
               v->n_edges, plural(v->n_edges), v->n_events, plural(v->n_events), plan->n_streams,
               plural(plan->n_streams), stem_cli_bytes(v->slab_bytes));
    }
    return safe ? STEM_EXIT_OK : STEM_EXIT_INPUT;
}

static int verify_json(const char *path, int color)
{
    struct stem_arena *arena = stem_arena_new();
    const char *why = NULL;
    int status = STEM_EXIT_WORLD;
    struct stem_source *text = stem_source_read(arena, path, &why);
    if (!text) {
        stem_cli_error("%s", why);
        goto done;
    }
    char *error = NULL;
    struct stem_plan *plan = stem_plan_from_json(text->text, text->len, &error);
    if (!plan) {
        stem_cli_error("%s: %s", path, error);
        free(error);
        status = STEM_EXIT_INPUT;
        goto done;
    }
    /* Carets point into the .stem file if it is still where the plan says. */
    const struct stem_source *source = plan->source ? stem_cli_source(arena, plan->source, &why) : NULL;
    status = verify_plan(plan, path, source, color);
    stem_plan_free(plan);
done:
    stem_arena_free(arena);
    return status;
}

int stem_cmd_verify(int argc, char **argv)
{
    struct stem_cli_compile c;
    stem_cli_compile_init(&c);
    stem_cli_parse(&argp, argc, argv, 0, &c);
    int status = STEM_EXIT_USAGE;
    if (!stem_cli_whole(&c)) {
        /* said already */
    } else if (c.args.no_verify) {
        stem_cli_error("--no-verify: here the verdict is the output; it is for 'mainstem compile'");
    } else if (stem_cli_is_plan(c.args.path)) {
        status = stem_cli_takes_plan(&c) ? verify_json(c.args.path, c.color) : STEM_EXIT_USAGE;
    } else {
        c.args.no_verify = true; /* here the verifier's verdict is the output */
        struct stem_compiled *r = stem_cli_compile(&c, &status);
        if (r && r->plan)
            status = verify_plan(r->plan, c.args.path, r->source, c.color);
        stem_compiled_free(r);
    }
    stem_cli_compile_free(&c);
    return status;
}
