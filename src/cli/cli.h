/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: one file for each subcommand (cmd_NAME.c), a table of them in commands.def, options that several
 * share in common.c. Only this folder prints and exits.
 */
#ifndef STEM_CLI_CLI_H
#define STEM_CLI_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pipeline.h"

/* Documented in docs/cli.md and in the man page. */
enum stem_exit {
    STEM_EXIT_OK = 0,
    STEM_EXIT_INPUT = 1,  /* the input is at fault: diagnostics were printed */
    STEM_EXIT_USAGE = 2,  /* the command line is at fault */
    STEM_EXIT_WORLD = 3,  /* a file, the GPU, NVRTC, memory: something outside failed */
    STEM_EXIT_DIFFER = 4, /* it ran, but results, lanes or counts are not what they should be */
};

struct stem_command {
    const char *name, *blurb;
    int (*run)(int argc, char **argv); /* argv[0] is "mainstem NAME" */
};

#define COMMAND(name, blurb) int stem_cmd_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

/* ---- options that every command that compiles takes (common.c) ---- */

struct stem_cli_compile {
    struct stem_compile_args args;
    const char *remarks;
    const char *print_after;
    const char *costs;  /* file; NULL: the default one if it is there; "none" */
    const char *gpu;    /* name of the device that is compiled for; NULL: any of the architecture */
    bool time_passes, verify_each, list_passes, no_warnings, explain_streams;
    int color; /* -1: if stderr is a terminal */
    char **defines, **dims;
    const char *given[32]; /* long names of the options that were given, each once */
    uint32_t n_given;
};

extern const struct argp stem_cli_compile_argp; /* its input is a struct stem_cli_compile */
/* Leaves these of its options out of this command's --help: it refuses them, or has its own of that name. */
void stem_cli_hide(const char *const *names);

void stem_cli_compile_init(struct stem_cli_compile *c);
void stem_cli_compile_free(struct stem_cli_compile *c);
/* Compiles and prints diagnostics to stderr. NULL if there were errors, with *status the exit status. */
struct stem_compiled *stem_cli_compile(struct stem_cli_compile *c, int *status);
/* A source text as stem_source_read has it, but what can be read once, standard input or a pipe, is kept for the next call. */
const struct stem_source *stem_cli_source(struct stem_arena *a, const char *path, const char **why);
/* The error for a program without a plan: which option is why, and `so`, what comes of it. */
void stem_cli_no_plan(const struct stem_cli_compile *c, const char *so);
/* For a command that needs what the passes make: false after an error message if options leave some of them out. */
bool stem_cli_whole(const struct stem_cli_compile *c);
/* For what an option would have no effect on: false after an error message if one of `names` (NULL-terminated) was given. */
bool stem_cli_takes(const struct stem_cli_compile *c, const char *const *names, const char *why);
/* Whether a file is a plan: by its name, NAME.json, or because it begins as one. */
bool stem_cli_is_plan(const char *path);
/* The same for a plan, which is compiled already: what is about messages is left. */
bool stem_cli_takes_plan(const struct stem_cli_compile *c);
/* For a command that found no GPU: compiles all the same, since faults of the input and of the command line come first. False
 * if there were some, with *status the exit status. */
bool stem_cli_compiles(const struct stem_cli_compile *c, int *status);
/* The same once more with everything on main and nothing printed but errors: the reference that results are held against. */
struct stem_compiled *stem_cli_compile_single(const struct stem_cli_compile *c, int *status);

/* ---- the table of measured costs (costs.c) ---- */

struct stem_costs;
/* $MAINSTEM_COSTS, else costs.json in the directory of cached kernels; malloc'd. */
char *stem_cli_costs_path(void);
/* For a compilation: reads what c->costs says into *costs (NULL: none) and sets the options. False after an error. */
bool stem_cli_costs_load(struct stem_cli_compile *c, struct stem_costs **costs, int *status);
/* NULL after an error message, with *status the exit status; empty if the file may be missing and is. */
struct stem_costs *stem_cli_costs_read(const char *path, bool may_be_missing, int *status);

/* --explain-streams (explain_streams.c). */
void stem_cli_explain_streams(const struct stem_compiled *c, const struct stem_options *o);

/* Position of `arg` in a NULL-terminated list; a usage error that names them, or the nearest, if it is not there. */
int stem_cli_word(struct argp_state *state, const char *arg, const char *what, const char *const *words);

/* argp_parse, with mistakes in options told by this program. */
void stem_cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);
/* A mistake in the command line: says it and how to get help, and ends the program with STEM_EXIT_USAGE. */
_Noreturn void stem_cli_usage(const struct argp_state *state, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "mainstem: error: ..." on stderr. */
void stem_cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Writes a whole file, atomically (by rename); false after an error message. */
bool stem_cli_write(const char *path, const void *data, size_t len);
/* Notes a file that the command reads: stem_cli_write and stem_cli_can_write refuse it, under whatever name. */
void stem_cli_reads(const char *path);
/* For what is written after a long run: false after the same message as stem_cli_write's would be, if that is bound to fail. */
bool stem_cli_can_write(const char *path);
/* A directory in one that exists, unless it is there already; false after an error message. */
bool stem_cli_make_directory(const char *path);
/* `1234567` as "1.18 MiB". Static buffers, eight in turn: for use within one printf. */
const char *stem_cli_bytes(uint64_t bytes);
const char *stem_cli_count(uint64_t n); /* "1 234 567" */

/* ---- a progress bar, only on a terminal and only for what takes over a second (progress.c) ---- */

struct stem_progress {
    const char *what;
    double started, drawn;
    bool enabled, visible;
};

struct stem_progress stem_progress_start(const char *what);
void stem_progress_step(struct stem_progress *p, uint64_t done, uint64_t total);
void stem_progress_end(struct stem_progress *p);

/* For one long call without steps, such as NVRTC: the seconds it has taken so far, drawn by a thread. NULL in a pipe, and
 * fine to end. */
struct stem_busy;
struct stem_busy *stem_busy_start(const char *what);
void stem_busy_end(struct stem_busy *b);

#endif
