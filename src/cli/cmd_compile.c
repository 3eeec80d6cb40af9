/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem compile FILE`: the summary and the schedule; with -o DIR, the plan, the CUDA C and the cubin, or what other tools draw.
 */
#include "cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/device.h"
#include "cli/summary.h"
#include "report/report.h"
#include "runtime/mainstem_rt.h"

struct compile {
    struct stem_cli_compile compile;
    const char *dir;
    uint32_t emit; /* a bit for each of kinds; 0: the default */
    bool quiet, no_schedule, ascii;
};

enum { OPT_EMIT = 0x400, OPT_NO_SCHEDULE, OPT_ASCII };

static const struct argp_option options[] = {
    {"output", 'o', "DIR", 0, "Write NAME.plan.json, NAME.cu and NAME.sm_XX.cubin into DIR", 11},
    {"emit", OPT_EMIT, "LIST", 0, "With -o: only these of plan, cuda, cubin (the default), dot, trace. May be repeated", 11},
    {"no-schedule", OPT_NO_SCHEDULE, 0, 0, "No drawing of the schedule after the summary", 11},
    {"ascii", OPT_ASCII, 0, 0, "Draw the schedule in ASCII (default where the locale is not UTF-8)", 11},
    {"quiet", 'q', 0, 0, "No summary and no schedule", 11},
    {0}};
static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

enum { PLAN = 1, CUDA = 2, CUBIN = 4, DOT = 8, TRACE = 16 };

static uint32_t parse_emit(struct argp_state *state, const char *list)
{
    static const char *const kinds[] = {"plan", "cuda", "cubin", "dot", "trace"};
    uint32_t all = 0;
    for (const char *p = list;; p++) {
        size_t len = strcspn(p, ","), i = 0;
        while (i < sizeof kinds / sizeof *kinds && (strlen(kinds[i]) != len || strncmp(p, kinds[i], len)))
            i++;
        if (i == sizeof kinds / sizeof *kinds)
            stem_cli_usage(state, "--emit knows plan, cuda, cubin, dot and trace, not '%.*s'", (int)len, p);
        all |= 1U << i;
        p += len;
        if (!*p)
            return all;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct compile *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &c->compile; return 0;
    case 'o': c->dir = arg; return 0;
    case 'q': c->quiet = true; return 0;
    case OPT_NO_SCHEDULE: c->no_schedule = true; return 0;
    case OPT_ASCII: c->ascii = true; return 0;
    case OPT_EMIT: c->emit |= parse_emit(state, arg); return 0;
    case ARGP_KEY_END:
        if (c->emit && !c->dir)
            stem_cli_usage(state, "--emit needs -o DIR");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse, "FILE", "Compiles a .stem file and prints what was scheduled.", children, 0, 0};

static bool path_in(const char *dir, const char *name, const char *suffix, char *path)
{
    if ((size_t)snprintf(path, PATH_MAX, "%s/%s%s", dir, name, suffix) < PATH_MAX)
        return true;
    stem_cli_error("the path '%s/%s%s' is too long", dir, name, suffix);
    return false;
}

static bool write_plan(const struct stem_plan *plan, const char *dir)
{
    char path[PATH_MAX], *json = stem_plan_to_json(plan);
    if (!json)
        stem_out_of_memory();
    bool fine = path_in(dir, plan->name, ".plan.json", path) && stem_cli_write(path, json, strlen(json));
    free(json);
    return fine;
}

static int write_cubin(const struct stem_plan *plan, const char *dir)
{
    char path[PATH_MAX], suffix[32], unit[256];
    struct stem_compiler *compiler = NULL;
    struct stem_compiler_options o = {.log = stem_cli_log()};
    struct stem_cubin cubin = {0};
    struct stem_rt_error err;
    snprintf(suffix, sizeof suffix, ".sm_%u.cubin", plan->sm);
    snprintf(unit, sizeof unit, "%s.cu", plan->name);
    if (!path_in(dir, plan->name, suffix, path))
        return STEM_EXIT_WORLD;
    int status = STEM_EXIT_OK;
    struct stem_busy *busy = stem_busy_start("compiling kernels with NVRTC");
    bool compiled = stem_compiler_open(&o, &compiler, &err) == STEM_OK &&
                    stem_compile(compiler, plan->cuda, unit, plan->sm, NULL, 0, &cubin, &err) == STEM_OK;
    stem_busy_end(busy);
    if (!compiled) {
        status = stem_cli_compile_error(&err, cubin.log);
        status = err.status == STEM_E_ARCH ? STEM_EXIT_INPUT : status;
        if (err.status == STEM_E_NO_NVRTC)
            fputs("  --emit=plan,cuda writes what needs no NVRTC\n", stderr);
    } else if (!stem_cli_write(path, cubin.data, cubin.bytes)) {
        status = STEM_EXIT_WORLD;
    }
    stem_cubin_free(&cubin);
    stem_compiler_close(compiler);
    return status;
}

static bool write_drawing(const struct stem_plan *plan, const char *dir, const char *suffix,
                          void (*draw)(const struct stem_plan *p, struct stem_out *o))
{
    char path[PATH_MAX];
    struct stem_out o = {0};
    draw(plan, &o);
    bool fine = path_in(dir, plan->name, suffix, path) && stem_cli_write(path, stem_out_text(&o), o.len);
    stem_out_free(&o);
    return fine;
}

static int write_files(const struct compile *c, const struct stem_plan *plan)
{
    uint32_t emit = c->emit ? c->emit : PLAN | CUDA | CUBIN;
    char path[PATH_MAX];
    if (!stem_cli_make_directory(c->dir))
        return STEM_EXIT_WORLD;
    if ((emit & PLAN) && !write_plan(plan, c->dir))
        return STEM_EXIT_WORLD;
    if ((emit & CUDA) && (!path_in(c->dir, plan->name, ".cu", path) ||
                                 !stem_cli_write(path, plan->cuda, strlen(plan->cuda))))
        return STEM_EXIT_WORLD;
    if ((emit & DOT) && !write_drawing(plan, c->dir, ".dot", stem_schedule_dot))
        return STEM_EXIT_WORLD;
    if ((emit & TRACE) && !write_drawing(plan, c->dir, ".trace.json", stem_schedule_trace))
        return STEM_EXIT_WORLD;
    return emit & CUBIN ? write_cubin(plan, c->dir) : STEM_EXIT_OK;
}

int stem_cmd_compile(int argc, char **argv)
{
    struct compile c = {0};
    stem_cli_compile_init(&c.compile);
    stem_cli_parse(&argp, argc, argv, 0, &c);
    int status;
    struct stem_compiled *r = stem_cli_compile(&c.compile, &status);
    if (r && r->plan) {
        if (!c.quiet)
            stem_summary_print(r);
        if (!c.quiet && !c.no_schedule)
            stem_summary_schedule(r->plan, c.ascii);
        if (c.dir)
            status = write_files(&c, r->plan);
    } else if (r && c.dir) {
        stem_cli_no_plan(&c.compile, "nothing was written");
        status = STEM_EXIT_USAGE;
    }
    stem_compiled_free(r);
    stem_cli_compile_free(&c.compile);
    return status;
}
