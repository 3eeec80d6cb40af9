/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem emit FILE -o DIR`: C sources that another project compiles in.
 */
#include "cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/device.h"
#include "emit/host.h"
#include "runtime/cublaslt.h"
#include "runtime/mainstem_rt.h"

enum { MAX_ARCHS = 16, OPT_EMBED = 0x400, OPT_NAME, OPT_ARCHS };

struct emit {
    struct stem_cli_compile compile;
    struct stem_host_options o;
    const char *dir;
    uint32_t sm[MAX_ARCHS], n_sm; /* ascending */
    struct stem_cubin cubin[MAX_ARCHS];
    struct stem_host_cubin image[MAX_ARCHS];
};

static const struct argp_option options[] = {
    {"output", 'o', "DIR", 0, "Where NAME.h, NAME.c, NAME.cu, NAME.mk, NAME.mainstem.cmake, CMakeLists.txt and the kernels go", 11},
    {"embed", OPT_EMBED, "WHAT", 0,
     "Kernels as cubin (default: NAME_cubin.c), source (NAME_source.c, compiled by NVRTC when a program is created), none "
     "(the host program passes what nvcc made of NAME.cu)",
     11},
    {"arch", OPT_ARCHS, "sm_XX,...", 0,
     "GPUs that cubins are made for, sm_80 or later; launches are shaped for the lowest (default sm_90). Takes a list, and may be repeated", 11},
    {"name", OPT_NAME, "NAME", 0, "Prefix of every identifier and file (default: the module's name)", 11},
    {0}};
static const struct argp_child children[] = {{&stem_cli_compile_argp, 0, 0, 0}, {0}};

static void add_arch(struct emit *e, struct argp_state *state, uint32_t sm)
{
    uint32_t i = e->n_sm;
    for (uint32_t k = 0; k < e->n_sm; k++)
        if (e->sm[k] == sm)
            return;
    if (e->n_sm == MAX_ARCHS)
        stem_cli_usage(state, "--arch takes %d architectures at most", MAX_ARCHS);
    for (; i > 0 && e->sm[i - 1] > sm; i--)
        e->sm[i] = e->sm[i - 1];
    e->sm[i] = sm;
    e->n_sm++;
}

/* The nearest of those that launches can be shaped for. */
static unsigned long shaped_for(unsigned long sm)
{
    return sm >= 120 ? 120 : sm >= 100 ? 100 : sm >= 90 ? 90 : 80;
}

static void parse_archs(struct emit *e, struct argp_state *state, const char *list)
{
    for (const char *p = list;; p++) {
        char *end = NULL;
        size_t len = strcspn(p, ",");
        unsigned long sm = strncmp(p, "sm_", 3) == 0 ? strtoul(p + 3, &end, 10) : 0;
        if (end != p + len || sm > 999)
            stem_cli_usage(state, "--arch takes names like sm_90, separated by commas, not '%.*s'", (int)len, p);
        if (sm < 80)
            stem_cli_usage(state, "--arch takes sm_80 or later, not '%.*s'", (int)len, p);
        add_arch(e, state, (uint32_t)sm);
        p += len;
        if (!*p)
            break;
    }
    e->compile.args.options.target.sm = (uint32_t)shaped_for(e->sm[0]);
}

static enum stem_host_embed parse_embed(struct argp_state *state, const char *arg)
{
    static const char *const words[] = {"none", "cubin", "source"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(arg, words[i]))
            return (enum stem_host_embed)i;
    stem_cli_usage(state, "--embed knows cubin, source and none, not '%s'", arg);
    return STEM_HOST_NONE;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const own[] = {"arch", NULL};
    struct emit *e = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &e->compile; stem_cli_hide(own); return 0;
    case 'o': e->dir = arg; return 0;
    case OPT_EMBED: e->o.embed = parse_embed(state, arg); return 0;
    case OPT_ARCHS: parse_archs(e, state, arg); return 0;
    case OPT_NAME:
        if (!stem_host_name_ok(arg))
            stem_cli_usage(state, "--name takes a letter, then letters, digits and _ (64 at most), not '%s'", arg);
        if (stem_host_name_taken(arg))
            stem_cli_usage(state, "--name cannot be '%s': %s", arg, stem_host_name_taken(arg));
        e->o.name = arg;
        return 0;
    case ARGP_KEY_END:
        if (!e->dir)
            stem_cli_usage(state, "-o DIR is missing");
        if (e->n_sm > 1 && e->o.embed != STEM_HOST_CUBIN)
            stem_cli_usage(state, "several architectures need --embed=cubin");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse, "FILE", "Writes a .stem file as C sources for another project.", children, 0, 0};

static int compile_one(struct emit *e, struct stem_compiler *compiler, const struct stem_plan *plan, uint32_t sm)
{
    char unit[256];
    struct stem_rt_error err;
    struct stem_cubin *c = &e->cubin[e->o.n_cubins];
    snprintf(unit, sizeof unit, "%s.cu", plan->name);
    if (stem_compile(compiler, plan->cuda, unit, sm, NULL, 0, c, &err) != STEM_OK) {
        int status = stem_cli_compile_error(&err, c->log);
        if (err.status == STEM_E_NO_NVRTC)
            fputs("  --embed=source and --embed=none need no NVRTC here\n", stderr);
        return err.status == STEM_E_ARCH ? STEM_EXIT_INPUT : status;
    }
    e->image[e->o.n_cubins++] = (struct stem_host_cubin){.sm = sm, .data = c->data, .bytes = c->bytes};
    return STEM_EXIT_OK;
}

static int compile_kernels(struct emit *e, const struct stem_plan *plan)
{
    struct stem_compiler *compiler = NULL;
    struct stem_compiler_options o = {.log = stem_cli_log()};
    struct stem_rt_error err;
    int status = STEM_EXIT_OK;
    if (!e->n_sm) {
        e->sm[0] = plan->sm;
        e->n_sm = 1;
    }
    if (stem_compiler_open(&o, &compiler, &err) != STEM_OK) {
        stem_cli_error("%s", err.message);
        return STEM_EXIT_WORLD;
    }
    for (uint32_t i = 0; i < e->n_sm && plan->n_kernels && !status; i++)
        status = compile_one(e, compiler, plan, e->sm[i]);
    e->o.cubins = e->image;
    stem_compiler_close(compiler);
    return status;
}

static int write_files(const struct emit *e, struct stem_host_files *files)
{
    char path[PATH_MAX];
    if (!stem_cli_make_directory(e->dir))
        return STEM_EXIT_WORLD;
    for (uint32_t i = 0; i < files->n; i++) {
        if ((size_t)snprintf(path, sizeof path, "%s/%s", e->dir, files->at[i].name) >= sizeof path) {
            stem_cli_error("the path '%s/%s' is too long", e->dir, files->at[i].name);
            return STEM_EXIT_WORLD;
        }
        if (!stem_cli_write(path, stem_out_text(&files->at[i].text), files->at[i].text.len))
            return STEM_EXIT_WORLD;
    }
    return STEM_EXIT_OK;
}

static int emit(struct emit *e, const struct stem_plan *plan)
{
    struct stem_host_files files = {0};
    const char *why = NULL;
    int status = e->o.embed == STEM_HOST_CUBIN ? compile_kernels(e, plan) : STEM_EXIT_OK;
    if (!status && !stem_emit_host(plan, &e->o, &files, &why)) {
        stem_cli_error("%s cannot be written as C: %s", plan->name, why);
        if (!e->o.name && (!stem_host_name_ok(plan->name) || stem_host_name_taken(plan->name)))
            fputs("  --name=NAME gives another one\n", stderr);
        status = STEM_EXIT_INPUT;
    }
    if (!status)
        status = write_files(e, &files);
    if (!status && stem_plan_has_matmul(plan))
        fputs("mainstem: note: the program will load cuBLASLt when it is created, for products that it does faster; --matmul=own "
              "does without\n", stderr);
    stem_host_files_free(&files);
    for (uint32_t i = 0; i < MAX_ARCHS; i++)
        stem_cubin_free(&e->cubin[i]);
    return status;
}

int stem_cmd_emit(int argc, char **argv)
{
    struct emit e = {.o = {.embed = STEM_HOST_CUBIN}};
    stem_cli_compile_init(&e.compile);
    stem_cli_parse(&argp, argc, argv, 0, &e);
    int status;
    struct stem_compiled *r = stem_cli_compile(&e.compile, &status);
    if (r && r->plan) {
        status = emit(&e, r->plan);
    } else if (r) {
        stem_cli_no_plan(&e.compile, "nothing was written");
        status = STEM_EXIT_USAGE;
    }
    stem_compiled_free(r);
    stem_cli_compile_free(&e.compile);
    return status;
}
