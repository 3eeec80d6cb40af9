/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem relane -- COMMAND`: runs an unmodified program whose graphs get fewer lanes.
 */
#include "cli/inject.h"

enum { OPT_MEASURE = 2000 };

static const struct argp_option options[] = {
    {"measure", OPT_MEASURE, 0, 0, "Count the streams that kernels really ran on (CUPTI; slows replays)", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stem_cli_inject *i = state->input;
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = i; return 0;
    case OPT_MEASURE: i->mode = "relane,measure"; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&stem_cli_inject_argp, 0, 0, 0}, {0}};
static const struct argp argp = {options, parse, "-- COMMAND [ARG...]",
                                 "Runs COMMAND with a library in it that adds redundant edges to each CUDA graph "
                                 "while it is instantiated, so that the driver gives it fewer lanes. Only edges that "
                                 "follow from those there are; the program and its results stay the same. Prints a table of "
                                 "its graphs at the end, on standard error.",
                                 children, 0, 0};

int stem_cmd_relane(int argc, char **argv)
{
    struct stem_cli_inject i = {.mode = "relane", .relane = true};
    stem_cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &i);
    return stem_cli_inject_run(&i);
}
