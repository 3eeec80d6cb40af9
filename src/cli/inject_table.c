/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of the injection library, one for each process of the command that used CUDA: read, printed as a table,
 * written as one file.
 */
#include "cli/inject.h"

#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/lanes.h"

#define MAX_ROWS 40

static int64_t of(const json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

static const char *text_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

static json_t *read_reports(const char *dir)
{
    json_t *all = json_array();
    char pattern[PATH_MAX + 16];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.json", dir);
    if (!glob(pattern, 0, NULL, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            json_t *one = json_load_file(found.gl_pathv[i], 0, NULL);
            if (one)
                json_array_append_new(all, one);
        }
        globfree(&found);
    }
    return all;
}

/* ---- one row ---- */

static void unknown_kinds(const json_t *g, struct stem_out *o)
{
    const char *comma = ": ";
    for (uint32_t k = 0; STEM_LANE_KINDS[k]; k++) {
        if (STEM_RELANE_KINDS >> k & 1)
            continue;
        const char letter[] = {STEM_LANE_KINDS[k], '\0'};
        int64_t n = of(json_object_get(g, "kinds"), letter);
        if (n) {
            stem_out_printf(o, "%s%" PRId64 " %s node%s", comma, n, stem_lane_kind_name(k), n == 1 ? "" : "s");
            comma = ", ";
        }
    }
    if (*comma == ':')
        stem_out_printf(o, ": edges of an unknown type");
}

static void note(const json_t *g, bool relane, struct stem_out *o)
{
    const char *status = text_of(g, "status"), *trust = text_of(g, "trust");
    if (!strcmp(status, "done"))
        stem_out_printf(o, relane ? "relaned" : "could be relaned");
    else if (!strcmp(status, "nothing"))
        stem_out_printf(o, "nothing to gain");
    else if (!strcmp(status, "large"))
        stem_out_printf(o, "left alone: too large");
    else if (!strcmp(status, "failed"))
        stem_out_printf(o, "left alone: error %" PRId64, of(g, "error"));
    else if (!strcmp(status, "spoiled"))
        stem_out_printf(o, "relaned in part: error %" PRId64, of(g, "error"));
    else {
        stem_out_printf(o, "left alone");
        unknown_kinds(g, o);
    }
    if ((!strcmp(status, "done") || !strcmp(status, "nothing")) && strcmp(trust, "exact"))
        stem_out_printf(o, "; prediction: %s", trust);
    if (of(g, "failed"))
        stem_out_printf(o, "; %" PRId64 " not instantiated", of(g, "failed"));
    if (of(g, "updates"))
        stem_out_printf(o, "; %" PRId64 " updates", of(g, "updates"));
    if (of(g, "updates_failed"))
        stem_out_printf(o, ", %" PRId64 " refused", of(g, "updates_failed"));
    if (of(g, "edges_left"))
        stem_out_printf(o, "; %" PRId64 " edges not taken back", of(g, "edges_left"));
}

/* A number, or "-" where there is none. */
static void cell(struct stem_out *o, int width, bool known, int64_t n)
{
    if (known)
        stem_out_printf(o, " %*" PRId64, width, n);
    else
        stem_out_printf(o, " %*s", width, "-");
}

static void row(const json_t *g, bool relane, struct stem_out *o)
{
    int64_t done = of(g, "graphs") - of(g, "failed"), predicted = of(g, "lanes_before");
    cell(o, 6, true, of(g, "graphs"));
    cell(o, 7, true, of(g, "nodes"));
    cell(o, 7, true, of(g, "edges"));
    cell(o, 6, true, of(g, "edges_added"));
    cell(o, 7, predicted > 0, predicted);
    cell(o, 6, predicted > 0, of(g, "lanes_after"));
    cell(o, 6, predicted > 0, of(g, "lanes_bound"));
    cell(o, 9, of(g, "replays_measured") > 0, of(g, "lanes_measured"));
    cell(o, 8, true, of(g, "replays"));
    stem_out_printf(o, " %8.3f %8.3f  ", done > 0 ? (double)of(g, "instantiate_ns") / 1e6 / (double)done : 0.0,
                    (double)of(g, "own_ns") / 1e6 / (double)(of(g, "graphs") + of(g, "updates")));
    note(g, relane, o);
    stem_out_printf(o, "\n");
}

/* ---- the table ---- */

static void process(const json_t *p, bool relane, struct stem_out *o)
{
    const json_t *graphs = json_object_get(p, "graphs");
    const char *error = text_of(p, "error");
    size_t n = json_array_size(graphs);
    stem_out_printf(o, "mainstem: process %" PRId64 ", driver %s", of(p, "pid"),
                    *text_of(p, "driver") ? text_of(p, "driver") : "unknown");
    if (!json_is_true(json_object_get(p, "model_fits")))
        stem_out_printf(o, " (the model was measured on another: predictions are a guess)");
    if (*error) {
        stem_out_printf(o, "\n  nothing was %s: %s\n", relane ? "relaned" : "counted", error);
        return;
    }
    stem_out_printf(o, n ? "\n" : ": no graphs\n");
    if (!n)
        return;
    stem_out_printf(o, "%7s %7s %7s %6s %7s %6s %6s %9s %8s %8s %8s\n", "", "", "", "edges", "lanes", "", "", "lanes",
                    "", "inst.", "own");
    stem_out_printf(o, "%7s %7s %7s %6s %7s %6s %6s %9s %8s %8s %8s\n", "graphs", "nodes", "edges", "added", "before",
                    relane ? "after" : "could", "bound", "measured", "replays", "ms each", "ms each");
    for (size_t i = 0; i < n && i < MAX_ROWS; i++)
        row(json_array_get(graphs, i), relane, o);
    if (n > MAX_ROWS)
        stem_out_printf(o, "  ... and %zu more kinds of graphs (--report has all)\n", n - MAX_ROWS);
}

static void write_report(const struct stem_cli_inject *i, json_t *processes, int status)
{
    json_t *command = json_array();
    for (char **word = i->command; *word; word++)
        json_array_append_new(command, json_stringn_nocheck(*word, strlen(*word)));
    json_t *whole = json_pack("{s:s, s:o, s:i, s:O}", "format", "mainstem-inject-report-1", "command", command,
                              "exit_status", status, "processes", processes);
    char *text = whole ? json_dumps(whole, JSON_INDENT(2)) : NULL;
    if (text)
        stem_cli_write(i->report, text, strlen(text));
    else
        stem_cli_error("no memory for the report, or the command is not UTF-8");
    free(text);
    json_decref(whole);
}

void stem_cli_inject_finish(const struct stem_cli_inject *i, const char *dir, int status)
{
    json_t *all = read_reports(dir);
    struct stem_out o = {0};
    for (size_t k = 0; k < json_array_size(all); k++)
        process(json_array_get(all, k), i->relane, &o);
    if (!json_array_size(all))
        stem_out_printf(&o, "mainstem: no report: the command did not use CUDA\n");
    if (!i->quiet)
        fputs(stem_out_text(&o), stderr);
    stem_out_free(&o);
    if (i->report)
        write_report(i, all, status);
    json_decref(all);
}
