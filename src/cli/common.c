/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that every compiling command shares, and how their results are reported.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/width.h"

enum {
    OPT_DIM = 0x100,
    OPT_ORDER,
    OPT_INPLACE,
    OPT_MAX_STREAMS,
    OPT_ONE_STREAM,
    OPT_STREAMS,
    OPT_COSTS,
    OPT_EXPLAIN_STREAMS,
    OPT_MAX_LANES,
    OPT_LANE_REPAIR,
    OPT_BUDGET,
    OPT_NO_FUSE,
    OPT_PDL,
    OPT_MATMUL,
    OPT_FROM,
    OPT_PASSES,
    OPT_STOP,
    OPT_PRINT_AFTER,
    OPT_VERIFY_EACH,
    OPT_NO_VERIFY,
    OPT_TIME,
    OPT_REMARKS,
    OPT_LIST,
    OPT_COLOR,
    OPT_ARCH,
    OPT_NO_WARN,
    OPT_MAX_ERRORS,
};

static struct argp_option options[] = {
    {"define", 'D', "NAME=VALUE", 0, "Override a const", 1},
    {"dim", OPT_DIM, "NAME=N,...", 0, "Specialise for these sizes (default: the dim's own default, else its upper bound)", 1},
    {"arch", OPT_ARCH, "sm_XX", 0, "GPU that launches are shaped for: sm_80, sm_90, sm_100, sm_120 (default sm_90)", 1},
    {"order", OPT_ORDER, "WAY", 0, "Issue order: main-first (default), program, side-first", 2},
    {"max-streams", OPT_MAX_STREAMS, "N", 0, "Streams for ops without a pin, main included (default 2)", 2},
    {"streams", OPT_STREAMS, "WHO", 0, "Who chooses streams: pins (default: what the file says; the compiler where it says nothing), auto", 2},
    {"one-stream", OPT_ONE_STREAM, 0, 0, "Everything on main: the reference schedule", 2},
    {"costs", OPT_COSTS, "FILE", 0, "Measured costs (mainstem tune); none: the model alone (default: $MAINSTEM_COSTS, else costs.json beside the cached kernels, if it is there)", 2},
    {"explain-streams", OPT_EXPLAIN_STREAMS, 0, 0, "Print what each fork gains and costs, those that were not taken too", 4},
    {"max-lanes", OPT_MAX_LANES, "N", 0, "Fail if more lanes are predicted", 2},
    {"lane-repair", OPT_LANE_REPAIR, "WHEN", 0,
     "Add waits that only save lanes: auto (default: main-first, or for --max-lanes), always, never", 2},
    {"inplace", OPT_INPLACE, "WAY", 0, "In place against a concurrent reader: auto (default), wait, copy", 2},
    {"memory-budget", OPT_BUDGET, "BYTES", 0, "Largest slab; buys bytes with extra edges (suffixes K, M, G)", 2},
    {"no-fuse", OPT_NO_FUSE, 0, 0, "Do not fuse pointwise chains", 2},
    {"pdl", OPT_PDL, "WHEN", 0, "Launch kernels before their predecessor has completed: auto (default: on from sm_90), on, off", 2},
    {"matmul", OPT_MATMUL, "BY", 0, "Who multiplies in bf16 and f16: auto (default: cuBLASLt where it is faster), own, cublaslt", 2},
    {"from", OPT_FROM, "KIND", 0, "What FILE is: stem (default), ir", 3},
    {"passes", OPT_PASSES, "LIST", 0, "Run only these passes", 3},
    {"stop-after", OPT_STOP, "STEP", 0, "Stop after parse, check, expand or a pass", 3},
    {"print-after", OPT_PRINT_AFTER, "STEP", 0, "Print what parse (AST), expand or a pass left, or all", 3},
    {"verify-each", OPT_VERIFY_EACH, 0, 0, "Check the program after every pass", 3},
    {"no-verify", OPT_NO_VERIFY, 0, 0, "Do not verify the plan", 3},
    {"time-passes", OPT_TIME, 0, 0, "Print how long each step took, and peak memory", 3},
    {"list-passes", OPT_LIST, 0, 0, "List the passes and exit", 3},
    {"remarks", OPT_REMARKS, "LIST", OPTION_ARG_OPTIONAL, "Print the decisions of these passes, or all", 4},
    {"no-warnings", OPT_NO_WARN, 0, 0, "Print errors only", 4},
    {"max-errors", OPT_MAX_ERRORS, "N", 0, "Stop printing after N errors (default 20)", 4},
    {"color", OPT_COLOR, "WHEN", 0, "always, never, auto (default)", 4},
    {0}};

void stem_cli_hide(const char *const *names)
{
    for (struct argp_option *o = options; o->name; o++)
        for (const char *const *name = names; *name; name++)
            if (!strcmp(o->name, *name))
                o->flags |= OPTION_HIDDEN;
}

/* Names out of a plan may be anything; what another compiler says has lines. Allocates nothing: memory may be what ran out. */
void stem_cli_error(const char *fmt, ...)
{
    char text[16384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fputs("mainstem: error: ", stderr);
    for (uint32_t n, at = 0; text[at]; at += n ? n : 1) {
        n = text[at] == '\n' ? 1 : stem_character(text + at, (uint32_t)strnlen(text + at, 4));
        fwrite(n ? text + at : "?", 1, n ? n : 1, stderr);
    }
    fputc('\n', stderr);
}

static uint64_t number(struct argp_state *state, const char *arg, const char *what, uint64_t low, uint64_t high)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(arg, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift)
        end++;
    if (errno || end == arg || *end || *arg == '-' || n > UINT64_MAX >> shift || (n <<= shift) < low || n > high)
        stem_cli_usage(state, "%s takes a number from %llu to %llu, not '%s'%s", what, (unsigned long long)low,
                   (unsigned long long)high, arg, high > UINT32_MAX ? " (suffixes K, M, G)" : "");
    return n;
}

/* The word that is meant: a slip of it, or all but what it begins with, as in '90' for sm_90. */
static const char *nearest_or_end(const char *arg, const char *const *words, size_t n)
{
    const char *const *found = NULL;
    for (size_t i = 0; *arg && i < n; i++) {
        const char *end = strrchr(words[i], '_');
        if (end && !strcmp(end + 1, arg))
            found = &words[i];
    }
    return found ? *found : stem_nearest(arg, words, n);
}

/* Position of `arg` in a NULL-terminated list of words. */
int stem_cli_word(struct argp_state *state, const char *arg, const char *what, const char *const *words)
{
    size_t n = 0;
    for (; words[n]; n++)
        if (!strcmp(arg, words[n]))
            return (int)n;
    char all[256] = "";
    for (size_t i = 0, len = 0; i < n && len < sizeof all; i++)
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", words[i]);
    const char *near = nearest_or_end(arg, words, n);
    stem_cli_usage(state, "%s does not know '%s'%s%s%s", what, arg, near ? "; did you mean '" : "; it takes ", near ? near : all,
               near ? "'?" : "");
    return 0;
}

static char **append(char **list, uint32_t *n, char *item)
{
    list = stem_xrealloc(list, (*n + 1) * sizeof *list);
    list[(*n)++] = item;
    return list;
}

static void check_step(struct argp_state *state, const char *what, const char *name)
{
    if (!strcmp(name, "parse") || !strcmp(name, "check") || !strcmp(name, "expand") || stem_pass_find(name))
        return;
    const char *names[64] = {"parse", "check", "expand"};
    uint32_t n, len = 3;
    const struct stem_pass *const *all = stem_pass_all(&n);
    for (uint32_t i = 0; i < n && len < 64; i++)
        names[len++] = all[i]->name;
    const char *near = stem_nearest(name, names, len);
    stem_cli_usage(state, "%s: no pass is called '%s'%s%s%s (--list-passes lists them)", what, name,
               near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Every name of a comma-separated list must be a pass, or "all". */
static void check_list(struct argp_state *state, const char *what, const char *list)
{
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
        char one[64];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(p, ","), p);
        if (strcmp(one, "all"))
            check_step(state, what, one);
    }
}

static error_t parse_schedule(int key, char *arg, struct argp_state *state, struct stem_options *o)
{
    static const char *const orders[] = {"main-first", "program", "side-first", NULL};
    static const char *const ways[] = {"auto", "wait", "copy", NULL};
    static const char *const repairs[] = {"auto", "always", "never", NULL};
    static const char *const archs[] = {"sm_80", "sm_90", "sm_100", "sm_120", NULL};
    static const char *const who[] = {"pins", "auto", NULL};
    static const char *const pdls[] = {"auto", "on", "off", NULL};
    static const char *const matmuls[] = {"auto", "own", "cublaslt", NULL};
    static const uint32_t sm[] = {80, 90, 100, 120};
    switch (key) {
    case OPT_ARCH: o->target.sm = sm[stem_cli_word(state, arg, "--arch", archs)]; return 0;
    case OPT_ORDER: o->order = (enum stem_order)stem_cli_word(state, arg, "--order", orders); return 0;
    case OPT_INPLACE: o->inplace = (enum stem_inplace)stem_cli_word(state, arg, "--inplace", ways); return 0;
    case OPT_MAX_STREAMS:
        o->max_streams = (uint32_t)number(state, arg, "--max-streams", 1, STEM_MAX_STREAMS);
        return 0;
    case OPT_STREAMS: o->ignore_pins = stem_cli_word(state, arg, "--streams", who) == 1; return 0;
    case OPT_ONE_STREAM: o->one_stream = true; return 0;
    case OPT_MAX_LANES: o->max_lanes = (uint32_t)number(state, arg, "--max-lanes", 1, UINT32_MAX - 1); return 0;
    case OPT_LANE_REPAIR:
        o->lane_repair = (enum stem_lane_repairs)stem_cli_word(state, arg, "--lane-repair", repairs);
        return 0;
    case OPT_BUDGET: o->memory_budget = number(state, arg, "--memory-budget", 1, UINT64_MAX - 1); return 0;
    case OPT_NO_FUSE: o->no_fuse = true; return 0;
    case OPT_PDL: o->pdl = (enum stem_pdl)stem_cli_word(state, arg, "--pdl", pdls); return 0;
    case OPT_MATMUL: o->matmul = (enum stem_matmul_by)stem_cli_word(state, arg, "--matmul", matmuls); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_steps(int key, char *arg, struct argp_state *state, struct stem_cli_compile *c)
{
    static const char *const kinds[] = {"stem", "ir", NULL};
    static const char *const when[] = {"never", "always", "auto", NULL};
    switch (key) {
    case OPT_FROM: c->args.from_ir = stem_cli_word(state, arg, "--from", kinds) == 1; return 0;
    case OPT_PASSES: /* STEM2003 names one that does not exist */
        if (!arg[strspn(arg, ",")])
            stem_cli_usage(state, "--passes wants at least one (--list-passes lists them)");
        c->args.passes = arg;
        return 0;
    case OPT_STOP:
        check_step(state, "--stop-after", arg);
        c->args.stop_after = arg;
        return 0;
    case OPT_PRINT_AFTER:
        if (strcmp(arg, "all"))
            check_step(state, "--print-after", arg);
        c->print_after = arg;
        return 0;
    case OPT_VERIFY_EACH: c->verify_each = true; return 0;
    case OPT_NO_VERIFY: c->args.no_verify = true; return 0;
    case OPT_TIME: c->time_passes = true; return 0;
    case OPT_COSTS:
        c->costs = arg;
        stem_cli_reads(arg);
        return 0;
    case OPT_EXPLAIN_STREAMS: c->explain_streams = true; return 0;
    case OPT_LIST: c->list_passes = true; return 0;
    case OPT_REMARKS:
        if (arg)
            check_list(state, "--remarks", arg);
        c->remarks = arg ? arg : "all";
        return 0;
    case OPT_NO_WARN: c->no_warnings = true; return 0;
    case OPT_MAX_ERRORS: c->args.max_errors = (uint32_t)number(state, arg, "--max-errors", 1, 100000); return 0;
    case OPT_COLOR: c->color = stem_cli_word(state, arg, "--color", when) == 2 ? -1 : !strcmp(arg, "always"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void list_passes(void)
{
    uint32_t n;
    const struct stem_pass *const *all = stem_pass_all(&n);
    printf("%-10s %s\n%-10s %s\n%-10s %s\n", "parse", "text to AST (always runs: not for --passes)", "check",
           "names, types, shapes, operand modes (always runs)", "expand",
           "specialise dims, unroll repeats, resolve when (always runs)");
    for (uint32_t i = 0; i < n; i++)
        printf("%-10s %s\n", all[i]->name, all[i]->blurb);
}

static void remember(struct stem_cli_compile *c, int key)
{
    const struct argp_option *o = options;
    while (o->name && o->key != key)
        o++;
    for (uint32_t i = 0; i < c->n_given; i++)
        if (o->name == c->given[i])
            return;
    if (o->name && c->n_given < sizeof c->given / sizeof *c->given)
        c->given[c->n_given++] = o->name;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stem_cli_compile *c = state->input;
    remember(c, key);
    error_t e = parse_schedule(key, arg, state, &c->args.options);
    if (e == ARGP_ERR_UNKNOWN)
        e = parse_steps(key, arg, state, c);
    if (e != ARGP_ERR_UNKNOWN)
        return e;
    switch (key) {
    case 'D': c->defines = append(c->defines, &c->args.n_defines, arg); return 0;
    case OPT_DIM: c->dims = append(c->dims, &c->args.n_dims, arg); return 0;
    case ARGP_KEY_ARG:
        if (c->args.path)
            stem_cli_usage(state, "one file at a time ('%s' and '%s')", c->args.path, arg);
        c->args.path = arg;
        stem_cli_reads(arg);
        return 0;
    case ARGP_KEY_END:
        if (c->list_passes) {
            list_passes();
            exit(STEM_EXIT_OK);
        }
        if (!c->args.path)
            stem_cli_usage(state, "which file? (- for standard input)");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp stem_cli_compile_argp = {options, parse, 0, 0, 0, 0, 0};

void stem_cli_compile_init(struct stem_cli_compile *c)
{
    *c = (struct stem_cli_compile){.color = -1};
    c->args.options = stem_options_default();
}

void stem_cli_compile_free(struct stem_cli_compile *c)
{
    free(c->defines);
    free(c->dims);
}

static const char *const suffix[] = {"B", "KiB", "MiB", "GiB", "TiB"};

const char *stem_cli_bytes(uint64_t bytes)
{
    static char text[8][32];
    static unsigned turn;
    char *s = text[turn++ % 8];
    double n = (double)bytes;
    int i = 0;
    for (; n >= 1024 && i < 4; i++)
        n /= 1024;
    snprintf(s, 32, i ? "%.2f %s" : "%.0f %s", n, suffix[i]);
    return s;
}

const char *stem_cli_count(uint64_t n)
{
    static char text[8][32];
    static unsigned turn;
    char *s = text[turn++ % 8] + 31;
    *s = '\0';
    for (int digits = 0; n || !digits; digits++, n /= 10) {
        if (digits && digits % 3 == 0)
            *--s = ' ';
        *--s = (char)('0' + n % 10);
    }
    return s;
}
