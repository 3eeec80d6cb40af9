/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem report FILE`: one HTML page that shows a schedule.
 */
#include "cli/cli.h"

#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "report/report.h"

extern char **environ;

struct report_args {
    struct stem_cli_compile compile;
    const char *out, *trace;
    bool open;
};

enum { OPT_OPEN = 0x400, OPT_TRACE };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Where to write the page (default NAME.html)", 11},
    {"trace", OPT_TRACE, "FILE", 0, "Measured times and lanes: a trace in Chrome's JSON format, as run --profile writes it",
     11},
    {"open", OPT_OPEN, 0, 0, "Open the page with xdg-open", 11},
    {0}};
static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct report_args *r = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &r->compile;
        return 0;
    case 'o':
        r->out = arg;
        return 0;
    case OPT_TRACE:
        r->trace = arg;
        stem_cli_reads(arg);
        return 0;
    case OPT_OPEN:
        r->open = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "FILE",
    "Writes one HTML page that shows the schedule, the graph, the memory, numbers and the source. FILE is a "
    ".stem file, or a plan (NAME.plan.json), of which less is known.",
    children,
    0,
    0};

static bool open_page(const char *path)
{
    char *argv[] = {"xdg-open", (char *)path, NULL};
    pid_t child;
    int status;
    if (!posix_spawnp(&child, argv[0], NULL, NULL, argv, environ) && waitpid(child, &status, 0) == child &&
        WIFEXITED(status) && !WEXITSTATUS(status))
        return true;
    stem_cli_error("xdg-open could not open '%s'", path);
    return false;
}

/* Specialisations without an event keep their estimates; at least one must have them. */
static const struct stem_timeline **read_trace(const char *path, const struct stem_plan *p, struct stem_arena *a, int *status)
{
    const char *why = NULL, *first = NULL;
    struct stem_source *text = stem_source_read(a, path, &why);
    const struct stem_timeline **all = STEM_NEW_ARRAY(a, const struct stem_timeline *, p->n_variants);
    bool any = false;
    if (!text) {
        stem_cli_error("%s", why);
        return NULL;
    }
    for (uint32_t k = 0; k < p->n_variants; k++) {
        struct stem_timeline *t = STEM_NEW(a, struct stem_timeline);
        if (stem_timeline_trace(p, &p->variants[k], text->text, text->len, a, t, &why)) {
            all[k] = t;
            any = true;
        } else if (!first) {
            first = why;
        }
    }
    if (!any) {
        stem_cli_error("%s: %s", path, first);
        *status = STEM_EXIT_INPUT;
    }
    return any ? all : NULL;
}

static int write_page(const struct report_args *args, struct stem_report *r)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_out page = {0};
    const char *path = args->out ? args->out : stem_arena_printf(a, "%s.html", r->plan->name);
    int status = STEM_EXIT_WORLD;
    if (args->trace && !(r->measured = read_trace(args->trace, r->plan, a, &status)))
        goto done;
    stem_report_html(r, &page);
    if (!stem_cli_write(path, stem_out_text(&page), page.len))
        goto done;
    printf("%s: %s\n", path, stem_cli_bytes(page.len));
    status = args->open && !open_page(path) ? STEM_EXIT_WORLD : STEM_EXIT_OK;
done:
    stem_out_free(&page);
    stem_arena_free(a);
    return status;
}

static int report_json(const struct report_args *args)
{
    struct stem_arena *arena = stem_arena_new();
    const char *why = NULL;
    char *error = NULL;
    int status = STEM_EXIT_WORLD;
    struct stem_source *text = stem_source_read(arena, args->compile.args.path, &why);
    struct stem_plan *plan = text ? stem_plan_from_json(text->text, text->len, &error) : NULL;
    if (!text) {
        stem_cli_error("%s", why);
    } else if (!plan) {
        stem_cli_error("%s: %s", text->path, error);
        status = STEM_EXIT_INPUT;
    } else {
        struct stem_report r = {.plan = plan,
                                .source = plan->source ? stem_cli_source(arena, plan->source, &why) : NULL};
        status = write_page(args, &r);
    }
    free(error);
    stem_plan_free(plan);
    stem_arena_free(arena);
    return status;
}

int stem_cmd_report(int argc, char **argv)
{
    static const char *const order[] = {"main-first", "in program order", "side-first"};
    struct report_args args = {0};
    stem_cli_compile_init(&args.compile);
    stem_cli_parse(&argp, argc, argv, 0, &args);
    int status;
    if (stem_cli_is_plan(args.compile.args.path)) {
        status = stem_cli_takes_plan(&args.compile) ? report_json(&args) : STEM_EXIT_USAGE;
    } else {
        struct stem_compiled *c = stem_cli_compile(&args.compile, &status);
        if (c && c->plan) {
            struct stem_report r = {.plan = c->plan,
                                    .programs = (const struct stem_program *const *)c->programs,
                                    .source = c->source,
                                    .diags = c->diags,
                                    .order = order[args.compile.args.options.order]};
            status = write_page(&args, &r);
        } else if (c) {
            stem_cli_error("there is no plan to report on after --stop-after or --passes");
            status = STEM_EXIT_USAGE;
        }
        stem_compiled_free(c);
    }
    stem_cli_compile_free(&args.compile);
    return status;
}
