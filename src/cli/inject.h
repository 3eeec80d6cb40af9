/* SPDX-License-Identifier: Apache-2.0
 *
 * What `mainstem relane` and `mainstem audit` share: running a command with the injection library (src/inject) in its
 * environment (inject.c), and printing what the library reported (inject_table.c).
 */
#ifndef STEM_CLI_INJECT_H
#define STEM_CLI_INJECT_H

#include "cli/cli.h"

struct stem_cli_inject {
    const char *mode;   /* MAINSTEM_INJECT: "relane", "audit,measure", ... */
    const char *report; /* --report, or NULL */
    const char *max_nodes;
    bool relane, quiet;
    char **command; /* NULL-terminated */
};

/* Runs the command, then prints the table to stderr and writes the report. Returns the command's exit status; 128 + n
 * if signal n ended it, 127 if there is no such command, 126 if it cannot be executed. */
int stem_cli_inject_run(const struct stem_cli_inject *i);

/* Reads what the processes of the command left in `dir`. */
void stem_cli_inject_finish(const struct stem_cli_inject *i, const char *dir, int status);

/* Options that both commands take; their input is a struct stem_cli_inject. */
extern const struct argp stem_cli_inject_argp;

#endif
