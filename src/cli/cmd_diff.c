/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem diff A.json B.json`: what changed from one plan to another.
 */
#include "cli/cli.h"

#include <stdlib.h>

#include "report/report.h"

struct diff_args {
    const char *path[2], *out;
    uint32_t n;
};

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Write an HTML page too, with the schedules beside each other", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct diff_args *d = state->input;
    switch (key) {
    case 'o':
        d->out = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (d->n == 2)
            argp_error(state, "two plans, not more");
        d->path[d->n++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (d->n < 2)
            argp_error(state, "which two plans?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "A.json B.json",
    "Says what changed from plan A to plan B. Exit status 0: the plans do the same; 4: they differ.",
    0,
    0,
    0};

static struct stem_plan *read_plan(const char *path, struct stem_arena *a, int *status)
{
    const char *why = NULL;
    char *error = NULL;
    struct stem_source *text = stem_source_read(a, path, &why);
    struct stem_plan *plan = text ? stem_plan_from_json(text->text, text->len, &error) : NULL;
    if (!text) {
        stem_cli_error("%s", why);
        *status = STEM_EXIT_WORLD;
    } else if (!plan) {
        stem_cli_error("%s: %s", path, error);
        *status = STEM_EXIT_INPUT;
    }
    free(error);
    return plan;
}

static bool write_page(const struct diff_args *d, const struct stem_plan *a, const struct stem_plan *b)
{
    struct stem_out o = {0};
    stem_plan_diff_html(a, d->path[0], b, d->path[1], &o);
    bool fine = stem_cli_write(d->out, stem_out_text(&o), o.len);
    stem_out_free(&o);
    return fine;
}

int stem_cmd_diff(int argc, char **argv)
{
    struct diff_args d = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &d);
    struct stem_arena *arena = stem_arena_new();
    int status = STEM_EXIT_OK;
    struct stem_plan *a = read_plan(d.path[0], arena, &status);
    struct stem_plan *b = a ? read_plan(d.path[1], arena, &status) : NULL;
    if (a && b) {
        struct stem_out o = {0};
        if (stem_plan_diff(a, b, &o))
            status = STEM_EXIT_DIFFER;
        fputs(status ? stem_out_text(&o) : "the plans do the same\n", stdout);
        stem_out_free(&o);
        if (d.out && !write_page(&d, a, b))
            status = STEM_EXIT_WORLD;
    }
    stem_plan_free(a);
    stem_plan_free(b);
    stem_arena_free(arena);
    return status;
}
