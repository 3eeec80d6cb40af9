/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem lanes FILE`: the lanes that the driver will give to a graph, why, and which redundant edges need fewer.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/report.h"

enum { OPT_DOT = 1000, OPT_HTML, OPT_DRIVER, OPT_ALL };

struct lanes_args {
    const char *path, *dot, *html;
    const struct stem_lane_driver *driver;
    bool all;
};

static const struct argp_option options[] = {
    {"dot", OPT_DOT, "OUT", 0, "write the graphs as DOT, lanes as colours", 0},
    {"html", OPT_HTML, "OUT", 0, "write a page that draws the graphs, lanes as columns", 0},
    {"driver", OPT_DRIVER, "NAME", 0, "model of this driver (default: the newest)", 0},
    {"all", OPT_ALL, 0, 0, "list every opened lane and every edge, not the first 20", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct lanes_args *l = state->input;
    switch (key) {
    case OPT_DOT: l->dot = arg; return 0;
    case OPT_HTML: l->html = arg; return 0;
    case OPT_ALL: l->all = true; return 0;
    case OPT_DRIVER:
        l->driver = stem_lane_driver_find(arg);
        if (!l->driver)
            stem_cli_usage(state, "there is no model of driver '%s'", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (l->path)
            stem_cli_usage(state, "one file at a time ('%s' and '%s')", l->path, arg);
        l->path = arg;
        stem_cli_reads(arg);
        return 0;
    case ARGP_KEY_END:
        if (!l->path)
            stem_cli_usage(state, "which file?");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse, "FILE",
                                 "Predicts the internal streams (lanes) that the driver gives to the nodes of a graph. "
                                 "FILE is DOT as cudaGraphDebugDotPrint writes it, a plan (NAME.plan.json), or lines of "
                                 "graphs. The prediction is a model: docs/lanes.md says how exact it is.",
                                 0, 0, 0};

/* Graphs of all variants of a plan, which must outlive them. */
static struct stem_plan *read_plan(const struct stem_source *text, struct stem_arena *a, struct stem_lane_cases *out)
{
    char *error = NULL;
    struct stem_plan *plan = stem_plan_from_json(text->text, text->len, &error);
    if (!plan) {
        stem_cli_error("%s: %s", text->path, error);
        free(error);
        return NULL;
    }
    uint32_t len = 0;
    struct stem_lane_cases *each = STEM_NEW_ARRAY(a, struct stem_lane_cases, plan->n_variants);
    for (uint32_t i = 0; i < plan->n_variants; i++) {
        stem_lane_from_variant(&plan->variants[i], a, &each[i]);
        len += each[i].len;
    }
    struct stem_lane_case *all = STEM_NEW_ARRAY(a, struct stem_lane_case, len);
    for (uint32_t i = 0; i < plan->n_variants; i++)
        for (uint32_t k = 0; k < each[i].len; k++) {
            all[out->len] = each[i].at[k];
            if (plan->n_variants > 1)
                all[out->len].label = stem_arena_printf(a, "variant %u, %s", i, each[i].at[k].label);
            out->len++;
        }
    out->at = all;
    return plan;
}

static bool read_graphs(const struct stem_source *text, struct stem_arena *a, struct stem_lane_cases *out)
{
    struct stem_diags *diags = stem_diags_new(0);
    stem_diags_set_source(diags, text);
    bool good = stem_lane_read(text, a, diags, out);
    if (stem_diags_count(diags)) {
        struct stem_out o = {0};
        stem_diags_print(diags, (struct stem_diag_style){.color = isatty(STDERR_FILENO)}, &o);
        fputs(stem_out_text(&o), stderr);
        stem_out_free(&o);
    }
    stem_diags_free(diags);
    return good;
}

static int write_out(const char *path, struct stem_out *o)
{
    const char *text = stem_out_text(o);
    bool good = stem_cli_write(path, text, o->len);
    stem_out_free(o);
    return good ? STEM_EXIT_OK : STEM_EXIT_WORLD;
}

static int report(const struct lanes_args *l, const struct stem_lane_cases *cases, struct stem_arena *a)
{
    struct stem_lane_report *r = STEM_NEW_ARRAY(a, struct stem_lane_report, cases->len);
    struct stem_out text = {0}, drawing = {0};
    int status = STEM_EXIT_OK;
    for (uint32_t i = 0; i < cases->len; i++) {
        if (!stem_lanes_report(l->driver, &cases->at[i], NULL, a, &r[i])) {
            stem_cli_error("%s: %s is no graph: it has a cycle", l->path, cases->at[i].label);
            stem_out_free(&text);
            return STEM_EXIT_INPUT;
        }
        stem_lanes_report_text(&r[i], l->all ? 0 : 20, &text);
    }
    fputs(stem_out_text(&text), stdout);
    stem_out_free(&text);
    for (uint32_t i = 0; l->dot && i < cases->len; i++)
        stem_lanes_report_dot(&r[i], &drawing);
    if (l->dot)
        status = write_out(l->dot, &drawing);
    if (l->html && status == STEM_EXIT_OK) {
        struct stem_out page = {0};
        stem_lanes_report_html(r, cases->len, &page);
        status = write_out(l->html, &page);
    }
    return status;
}

int stem_cmd_lanes(int argc, char **argv)
{
    struct lanes_args l = {0};
    stem_cli_parse(&argp, argc, argv, 0, &l);
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_cases cases = {0};
    struct stem_plan *plan = NULL;
    const char *why = NULL;
    int status = STEM_EXIT_INPUT;
    struct stem_source *text = stem_source_read(a, l.path, &why);
    bool json = stem_cli_is_plan(l.path);
    if (!text) {
        stem_cli_error("%s", why);
        status = STEM_EXIT_WORLD;
    } else if (json ? (plan = read_plan(text, a, &cases)) != NULL : read_graphs(text, a, &cases)) {
        status = report(&l, &cases, a);
    }
    stem_plan_free(plan);
    stem_arena_free(a);
    return status;
}
