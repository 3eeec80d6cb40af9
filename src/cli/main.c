/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem COMMAND ...`: finds the command and hands over.
 */
#include "cli/cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/str.h"
#include "config.h"

static const struct stem_command commands[] = {
#define COMMAND(name, blurb) {#name, blurb, stem_cmd_##name},
#include "cli/commands.def"
#undef COMMAND
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *f)
{
    fputs("Usage: mainstem COMMAND [OPTION...] FILE\n"
          "Compiler and scheduler for multi-stream CUDA kernels.\n\nCommands:\n",
          f);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].blurb);
    fputs("\n`mainstem COMMAND --help` lists a command's options.\n"
          "Exit status: 0 fine, 1 the input is at fault, 2 the command line is at fault,\n"
          "3 something outside failed (file, GPU, NVRTC), 4 results are not what they should be.\n",
          f);
}

/* What was printed so far is kept: it is right as far as it goes. */
static void out_of_memory(const char *what)
{
    stem_cli_error("%s", what);
    exit(STEM_EXIT_WORLD);
}

static int unknown(const char *word)
{
    const char *names[N_COMMANDS];
    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = stem_nearest(word, names, N_COMMANDS);
    size_t len = strlen(word);
    if (*word == '-')
        stem_cli_error("a command comes before the option '%s'; `mainstem --help` lists them", word);
    else if (near)
        stem_cli_error("unknown command '%s'; did you mean '%s'?", word, near);
    else if (len > 5 && !strcmp(word + len - 5, ".stem"))
        stem_cli_error("'%s' is a file, a command comes first: mainstem compile %s", word, word);
    else
        stem_cli_error("unknown command '%s'; `mainstem --help` lists them", word);
    return STEM_EXIT_USAGE;
}

static bool said; /* that standard output cannot be written */

static int close_output(int status)
{
    if (!fflush(stdout) && !ferror(stdout))
        return status;
    stem_cli_error("cannot write to standard output");
    said = true;
    return STEM_EXIT_WORLD;
}

/* For what ends the program itself, as --help does. */
static void at_exit(void)
{
    if (!said && (fflush(stdout) || ferror(stdout))) {
        stem_cli_error("cannot write to standard output");
        _exit(STEM_EXIT_WORLD);
    }
}

int main(int argc, char **argv)
{
    atexit(at_exit);
    argp_err_exit_status = STEM_EXIT_USAGE;
    stem_on_out_of_memory(out_of_memory);
    json_set_alloc_funcs(stem_xmalloc, free);
    if (argc < 2) {
        help(stderr);
        return STEM_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help(stdout);
        return close_output(STEM_EXIT_OK);
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        puts("mainstem " PACKAGE_VERSION);
        return close_output(STEM_EXIT_OK);
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name))
            continue;
        char name[32];
        snprintf(name, sizeof name, "mainstem %s", commands[i].name);
        argv[1] = name; /* what usage messages call the program */
        if (argc > 2 && !strcmp(argv[2], "-h"))
            argv[2] = "--help";
        return close_output(commands[i].run(argc - 1, argv + 1));
    }
    return unknown(argv[1]);
}
