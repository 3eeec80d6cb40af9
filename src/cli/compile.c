/* SPDX-License-Identifier: Apache-2.0
 *
 * Running the pipeline for a command: printing after steps, times, diagnostics.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ast/ast.h"
#include "base/source.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "costs/costs.h"
#include "pass/order.h"
#include "runtime/cublaslt.h"

struct observer {
    const struct stem_cli_compile *c;
    struct {
        const char *name;
        double seconds;
    } time[32];
    uint32_t n;
};

static bool wanted(const struct stem_cli_compile *c, const char *step)
{
    return c->print_after && (!strcmp(c->print_after, "all") || !strcmp(c->print_after, step));
}

/* `comment` begins one in what is printed, so that it reads back. */
static void print_text(const char *comment, const char *step, struct stem_out *o)
{
    printf("%s after %s\n%s", comment, step, stem_out_text(o));
    stem_out_free(o);
}

static void after_pass(void *user, const struct stem_pass *pass, const struct stem_program *p, double seconds)
{
    struct observer *w = user;
    uint32_t i = 0;
    while (i < w->n && w->time[i].name != pass->name)
        i++;
    if (i < 32) {
        w->n = i == w->n ? i + 1 : w->n;
        w->time[i].name = pass->name;
        w->time[i].seconds += seconds;
    }
    if (wanted(w->c, pass->name)) {
        struct stem_out o = {0};
        stem_program_print(p, &o);
        if (p->state & STEM_FACT_ORDER)
            stem_schedule_print(p, &o);
        print_text("#", pass->name, &o);
    }
}

static void expanded(void *user, const struct stem_program *p)
{
    struct observer *w = user;
    if (wanted(w->c, "expand")) {
        struct stem_out o = {0};
        stem_program_print(p, &o);
        print_text("#", "expand", &o);
    }
}

/* The AST is printed last of all steps that print: the pipeline hands it out only at its end. */
static void print_front(const struct stem_cli_compile *c, const struct stem_compiled *r)
{
    struct stem_out o = {0};
    if (r->ast && wanted(c, "parse")) {
        stem_ast_print(r->ast, r->strings, &o);
        print_text("//", "parse", &o);
    }
}

static void print_times(const struct stem_compiled *r, const struct observer *w)
{
    const struct stem_phase_times *t = &r->times;
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    fprintf(stderr, "%-12s %9.3f ms\n%-12s %9.3f ms\n%-12s %9.3f ms\n", "parse", t->parse * 1e3, "check", t->check * 1e3,
            "expand", t->expand * 1e3);
    for (uint32_t i = 0; i < w->n; i++)
        fprintf(stderr, "  %-10s %9.3f ms\n", w->time[i].name, w->time[i].seconds * 1e3);
    fprintf(stderr, "%-12s %9.3f ms\n%-12s %9.3f ms\n%-12s %9.3f ms\n", "passes", t->passes * 1e3, "plan", t->plan * 1e3,
            "verify", t->verify * 1e3);
    fprintf(stderr, "%-12s %9.3f ms, peak memory %.1f MiB\n", "all",
            (t->parse + t->check + t->expand + t->passes + t->plan + t->verify) * 1e3, (double)u.ru_maxrss / 1024);
}

/* Only for who asks for them by name: there is one for each op. */
static void order_remarks(const struct stem_cli_compile *c, const struct stem_compiled *r)
{
    for (const char *at = c->remarks; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == 5 && !strncmp(at, "order", 5))
            for (uint32_t i = 0; i < r->n_programs; i++)
                stem_order_remarks(r->programs[i], r->diags);
}

/* For a program that is to run here: left the choice, it does without a library that is not there. */
static struct stem_compiled *compile(struct stem_cli_compile *c)
{
    struct stem_compiled *r = stem_pipeline(&c->args);
    if (!c->gpu || c->args.options.matmul != STEM_MATMUL_AUTO || !r->plan || !stem_plan_has_matmul(r->plan) ||
        stem_cublaslt_present())
        return r;
    static bool said; /* a command may compile several schedules */
    if (!said)
        fputs("mainstem: note: cuBLASLt is faster for some products here, but cannot be found (MAINSTEM_CUBLASLT, MAINSTEM_CUDA): "
              "our own kernels do them\n", stderr);
    said = true;
    c->args.options.matmul = STEM_MATMUL_OWN;
    stem_compiled_free(r);
    return stem_pipeline(&c->args);
}

/* The first bytes of a file that can be read twice, blanks left out. */
static void begin_of(const char *path, char *text, size_t size)
{
    struct stat s;
    int c;
    size_t n = 0;
    FILE *f = strcmp(path, "-") && !stat(path, &s) && S_ISREG(s.st_mode) ? fopen(path, "rb") : NULL;
    while (f && n + 1 < size && (c = fgetc(f)) != EOF)
        if (n || !strchr(" \t\r\n", c))
            text[n++] = (char)c;
    if (f)
        fclose(f);
    text[n] = '\0';
}

bool stem_cli_is_plan(const char *path)
{
    static const char word[] = "{\"mainstem_plan\"";
    char begin[sizeof word];
    size_t len = strlen(path);
    if (len > 5 && !strcmp(path + len - 5, ".json"))
        return true;
    begin_of(path, begin, sizeof begin);
    return !strcmp(begin, word);
}

static bool is_drawing(const char *path)
{
    char begin[sizeof "digraph"];
    begin_of(path, begin, sizeof begin);
    return !strcmp(begin, "digraph");
}

/* Standard input and pipes can be read once, and a command may compile its program several times and show its lines. */
static bool is_read_once(const char *path)
{
    struct stat s;
    return !strcmp(path, "-") || (!stat(path, &s) && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode));
}

const struct stem_source *stem_cli_source(struct stem_arena *a, const char *path, const char **why)
{
    static struct stem_arena *kept; /* to the end of the process */
    static STEM_VEC(const struct stem_source *) texts;
    const char *name = strcmp(path, "-") ? path : "<stdin>";
    for (uint32_t i = 0; i < texts.len; i++)
        if (!strcmp(texts.at[i]->path, name))
            return texts.at[i];
    if (!is_read_once(path))
        return stem_source_read(a, path, why);
    if (!kept)
        kept = stem_arena_new();
    const struct stem_source *text = stem_source_read(kept, path, why);
    if (text)
        stem_vec_push(&texts, text);
    return text;
}

static void take_what_is_read_once(struct stem_compile_args *a)
{
    const char *why;
    const struct stem_source *text = !a->text && is_read_once(a->path) ? stem_cli_source(NULL, a->path, &why) : NULL;
    if (!text)
        return; /* the compiler reads the file; or fails in the same way, and says so */
    a->path = text->path;
    a->text = text->text;
    a->len = text->len;
}

struct stem_compiled *stem_cli_compile(struct stem_cli_compile *c, int *status)
{
    take_what_is_read_once(&c->args);
    if (is_drawing(c->args.path)) {
        stem_cli_error("'%s' is a graph in DOT: 'mainstem lanes' reads it", c->args.path);
        *status = STEM_EXIT_USAGE;
        return NULL;
    }
    if (stem_cli_is_plan(c->args.path)) {
        stem_cli_error("'%s' looks like a plan; verify, lanes, report and diff read plans, this command a .stem file",
                       c->args.path);
        *status = STEM_EXIT_USAGE;
        return NULL;
    }
    struct observer w = {.c = c};
    struct stem_pass_hooks hooks = {.after = after_pass, .user = &w, .check_each = c->verify_each};
    c->args.defines = (const char *const *)c->defines;
    c->args.dims = (const char *const *)c->dims;
    c->args.hooks = &hooks;
    c->args.expanded = expanded;
    c->args.user = &w;
    struct stem_costs *costs;
    if (!stem_cli_costs_load(c, &costs, status))
        return NULL;
    struct stem_compiled *r = compile(c);
    c->args.options.costs = NULL;
    stem_costs_free(costs);
    print_front(c, r);
    order_remarks(c, r);
    if (c->explain_streams)
        stem_cli_explain_streams(r, &c->args.options);
    if (c->time_passes)
        print_times(r, &w);
    struct stem_out o = {0};
    struct stem_diag_style style = {.color = c->color < 0 ? isatty(STDERR_FILENO) : c->color,
                                    .remarks = c->remarks,
                                    .no_warnings = c->no_warnings};
    stem_diags_print(r->diags, style, &o);
    fflush(stdout);
    fputs(stem_out_text(&o), stderr);
    stem_out_free(&o);
    *status = STEM_EXIT_OK;
    if (r->world_error) {
        stem_cli_error("%s", r->world_error);
        *status = STEM_EXIT_WORLD;
    } else if (stem_diags_errors(r->diags)) {
        *status = STEM_EXIT_INPUT;
        for (uint32_t i = 0; i < stem_diags_count(r->diags); i++)
            if (stem_diags_get(r->diags, i)->id == STEM_E_BAD_OPTION || stem_diags_get(r->diags, i)->id == STEM_E_UNKNOWN_PASS)
                *status = STEM_EXIT_USAGE;
    } else {
        return r;
    }
    stem_compiled_free(r);
    return NULL;
}

bool stem_cli_whole(const struct stem_cli_compile *c)
{
    if (!c->args.stop_after && !c->args.passes)
        return true;
    stem_cli_error("%s leaves no plan: it is for 'mainstem compile'", c->args.passes ? "--passes" : "--stop-after");
    return false;
}

void stem_cli_no_plan(const struct stem_cli_compile *c, const char *so)
{
    const char *passes = c->args.stop_after ? NULL : c->args.passes;
    stem_cli_error("there is no plan after --%s=%s: %s", passes ? "passes" : "stop-after", passes ? passes : c->args.stop_after, so);
}

bool stem_cli_takes(const struct stem_cli_compile *c, const char *const *names, const char *why)
{
    for (uint32_t i = 0; i < c->n_given; i++)
        for (const char *const *name = names; *name; name++)
            if (!strcmp(*name, c->given[i])) {
                stem_cli_error("--%s: %s", *name, why);
                return false;
            }
    return true;
}

bool stem_cli_takes_plan(const struct stem_cli_compile *c)
{
    for (uint32_t i = 0; i < c->n_given; i++)
        if (strcmp(c->given[i], "color") && strcmp(c->given[i], "no-warnings") && strcmp(c->given[i], "max-errors")) {
            stem_cli_error("--%s is for programs: '%s' is compiled already", c->given[i], c->args.path);
            return false;
        }
    return true;
}

bool stem_cli_compiles(const struct stem_cli_compile *c, int *status)
{
    struct stem_cli_compile quiet = *c;
    quiet.remarks = quiet.print_after = NULL;
    quiet.no_warnings = true;
    quiet.time_passes = quiet.explain_streams = false;
    struct stem_compiled *r = stem_cli_compile(&quiet, status);
    stem_compiled_free(r);
    return r != NULL;
}

struct stem_compiled *stem_cli_compile_single(const struct stem_cli_compile *c, int *status)
{
    struct stem_cli_compile single = *c;
    single.args.options.one_stream = true;
    single.args.options.memory_budget = 0;
    single.args.options.max_lanes = 0;
    single.remarks = single.print_after = NULL;
    single.no_warnings = true;
    single.time_passes = single.explain_streams = false;
    return stem_cli_compile(&single, status);
}
