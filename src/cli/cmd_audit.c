/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem audit -- COMMAND`: runs an unmodified program and counts its graphs and their lanes.
 */
#include "cli/inject.h"

enum { OPT_NO_MEASURE = 2000 };

static const struct argp_option options[] = {
    {"no-measure", OPT_NO_MEASURE, 0, 0, "Do not watch kernels: lanes are predicted, not measured", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stem_cli_inject *i = state->input;
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = i; return 0;
    case OPT_NO_MEASURE: i->mode = "audit"; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&stem_cli_inject_argp, 0, 0, 0}, {0}};
static const struct argp argp = {options, parse, "-- COMMAND [ARG...]",
                                 "Runs COMMAND and reports its CUDA graphs: nodes, edges, lanes predicted and "
                                 "measured (CUPTI), the lanes that `mainstem relane` would leave, time in instantiation, "
                                 "replays. Nothing is changed. The table is printed at the end, on standard error.",
                                 children, 0, 0};

int stem_cmd_audit(int argc, char **argv)
{
    struct stem_cli_inject i = {.mode = "audit,measure"};
    stem_cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &i);
    return stem_cli_inject_run(&i);
}
