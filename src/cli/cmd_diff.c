/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem diff A B`: what changed from one plan to another. Each is a plan (.json), or a program that is compiled.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "report/report.h"

struct diff_args {
    struct stem_cli_compile compile, to; /* to: of B, with the options of --to as well */
    const char *path[2], *out;
    char **to_words;
    uint32_t n, n_to;
};

enum { OPT_TO = 0x400 };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Write an HTML page too, with numbers, schedules and issue orders beside each other",
     11},
    {"to", OPT_TO, "OPTION", 0,
     "Compile B with this option as well; may be given several times. With one FILE, B is the same file", 11},
    {0}};
static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct diff_args *d = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &d->compile;
        d->compile.args.path = ""; /* the child need not ask for a file */
        return 0;
    case 'o':
        d->out = arg;
        return 0;
    case OPT_TO:
        if (*arg != '-' || !arg[1] || !strcmp(arg, "--")) /* it would be taken for a file, or for nothing */
            stem_cli_usage(state, "--to takes an option, dashes and value included, such as --to=--matmul=own, not '%s'", arg);
        d->to_words = stem_xrealloc(d->to_words, (d->n_to + 2) * sizeof *d->to_words);
        d->to_words[d->n_to++] = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (d->n == 2)
            stem_cli_usage(state, "two files, not more");
        d->path[d->n++] = arg;
        stem_cli_reads(arg);
        return 0;
    case ARGP_KEY_END:
        if (d->n == 1 && d->n_to)
            d->path[d->n++] = d->path[0];
        if (d->n < 2)
            stem_cli_usage(state, d->n ? "with what? A second file, or --to=OPTION" : "which two plans?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options,
                                 parse,
                                 "A B\nFILE --to=OPTION",
                                 "Says what changed from plan A to plan B. Each is a plan (NAME.plan.json) or a .stem "
                                 "file, which is compiled with the options "
                                 "given. Exit status 0: the plans do the same; 4: they differ.",
                                 children,
                                 0,
                                 0};

/* One side: what it was made from lives as long as its plan. */
struct side {
    struct stem_plan *read;
    struct stem_compiled *compiled;
};

static const struct stem_plan *plan_of(const struct side *s)
{
    return s->compiled ? s->compiled->plan : s->read;
}

static void read_plan(const char *path, struct stem_arena *a, struct side *s, int *status)
{
    const char *why = NULL;
    char *error = NULL;
    struct stem_source *text = stem_source_read(a, path, &why);
    s->read = text ? stem_plan_from_json(text->text, text->len, &error) : NULL;
    if (!text) {
        stem_cli_error("%s", why);
        *status = STEM_EXIT_WORLD;
    } else if (!s->read) {
        stem_cli_error("%s: %s", path, error);
        *status = STEM_EXIT_INPUT;
    }
    free(error);
}

static bool open_side(const char *path, struct stem_cli_compile *c, struct stem_arena *a, struct side *s, int *status)
{
    if (stem_cli_is_plan(path)) {
        read_plan(path, a, s, status);
    } else {
        c->args.path = path;
        c->args.text = NULL;
        s->compiled = stem_cli_compile(c, status);
        if (s->compiled && !s->compiled->plan) {
            stem_cli_error("there is no plan of '%s' after --stop-after or --passes", path);
            *status = STEM_EXIT_USAGE;
        }
    }
    return plan_of(s) != NULL;
}

static void close_side(struct side *s)
{
    stem_plan_free(s->read);
    stem_compiled_free(s->compiled);
}

/* "model.stem --pdl=off" */
static const char *title_of(const struct diff_args *d, uint32_t side, struct stem_arena *a)
{
    const char *title = d->path[side];
    for (uint32_t i = 0; side && i < d->n_to; i++)
        title = stem_arena_printf(a, "%s %s", title, d->to_words[i]);
    return title;
}

static bool write_page(const struct diff_args *d, const struct stem_plan *a, const struct stem_plan *b,
                       struct stem_arena *arena)
{
    struct stem_out o = {0};
    stem_plan_diff_html(a, title_of(d, 0, arena), b, title_of(d, 1, arena), &o);
    bool fine = stem_cli_write(d->out, stem_out_text(&o), o.len);
    stem_out_free(&o);
    return fine;
}

static int compare(const struct diff_args *d, const struct stem_plan *a, const struct stem_plan *b,
                   struct stem_arena *arena)
{
    struct stem_out o = {0};
    int status = stem_plan_diff(a, b, &o) ? STEM_EXIT_DIFFER : STEM_EXIT_OK;
    fputs(status ? stem_out_text(&o) : "the plans do the same\n", stdout);
    stem_out_free(&o);
    return d->out && !write_page(d, a, b, arena) ? STEM_EXIT_WORLD : status;
}

/* The options of the whole command, then those of --to, on a structure of their own: lists are not shared. */
static void parse_to(struct diff_args *d, int argc, char **argv)
{
    char **words = stem_xmalloc((size_t)(argc + (int)d->n_to + 1) * sizeof *words);
    struct diff_args again = {0};
    int n = 0;
    for (int i = 0; i < argc; i++)
        words[n++] = argv[i];
    for (uint32_t i = 0; i < d->n_to; i++)
        words[n++] = d->to_words[i];
    words[n] = NULL;
    stem_cli_compile_init(&again.compile);
    stem_cli_parse(&argp, n, words, 0, &again);
    d->to = again.compile;
    free(again.to_words);
    free(words);
}

int stem_cmd_diff(int argc, char **argv)
{
    struct diff_args d = {0};
    stem_cli_compile_init(&d.compile);
    stem_cli_parse(&argp, argc, argv, 0, &d);
    parse_to(&d, argc, argv);
    struct stem_arena *arena = stem_arena_new();
    struct side a = {0}, b = {0};
    int status = STEM_EXIT_OK;
    if (d.n_to && stem_cli_is_plan(d.path[1])) {
        stem_cli_error("--to is for programs: '%s' is compiled already", d.path[1]);
        status = STEM_EXIT_USAGE;
    } else if (stem_cli_is_plan(d.path[0]) && stem_cli_is_plan(d.path[1]) && (d.compile.args.path = d.path[0], !stem_cli_takes_plan(&d.compile))) {
        status = STEM_EXIT_USAGE;
    } else if (open_side(d.path[0], &d.compile, arena, &a, &status) &&
               open_side(d.path[1], &d.to, arena, &b, &status)) {
        status = compare(&d, plan_of(&a), plan_of(&b), arena);
    }
    close_side(&a);
    close_side(&b);
    stem_cli_compile_free(&d.compile);
    stem_cli_compile_free(&d.to);
    free(d.to_words);
    stem_arena_free(arena);
    return status;
}
