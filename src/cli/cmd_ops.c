/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem ops [NAME...]`: signatures of the built-in operations, from their definitions.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "ops/op.h"

static error_t parse(int key, char *arg, struct argp_state *state)
{
    const char **only = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (*only)
        stem_cli_usage(state, "one operation at a time");
    *only = arg;
    return 0;
}

static const struct argp argp = {0, parse, "[NAME]", "Lists the operations of the language.", 0, 0, 0};

static void print_default(const struct stem_attr_def *a)
{
    if (a->required)
        return;
    if (a->type == STEM_ATTR_TYPE_BOOL)
        printf(" = %s", a->number != 0 ? "true" : "false");
    else if (a->type == STEM_ATTR_TYPE_WORD || a->type == STEM_ATTR_TYPE_DTYPE)
        printf(" = %s", a->word ? a->word : "(default)");
    else if (a->word) /* a number that depends on the operands */
        printf(" = %s", a->word);
    else
        printf(" = %g", a->number);
}

static void print_op(const struct stem_op_def *d)
{
    static const char *const mode[] = {"", "", "inout ", "consume ", "release "};
    printf("%s(", d->name);
    for (uint32_t i = 0; i < d->n_params; i++)
        printf("%s%s%s%s", i ? ", " : "", mode[d->params[i].mode], d->params[i].name,
               d->params[i].optional ? "?" : d->variadic && i + 1 == d->n_params ? "..." : "");
    for (uint32_t i = 0; i < d->n_attrs; i++) {
        if (d->attrs[i].type == STEM_ATTR_TYPE_EXPR)
            continue;
        printf("%s%s", i ? ", " : "; ", d->attrs[i].name);
        print_default(&d->attrs[i]);
        for (const char *const *w = d->attrs[i].words; w && *w; w++)
            printf("%s%s", w == d->attrs[i].words ? " {" : "|", *w);
        if (d->attrs[i].words)
            putchar('}');
    }
    fputs(") ->", stdout);
    const char *comma = "";
    for (uint32_t i = 0; i < d->n_params; i++) /* what is written in place is a result, too */
        if (d->params[i].mode == STEM_MODE_INOUT) {
            printf("%s %s", comma, d->params[i].name);
            comma = ",";
        }
    for (uint32_t i = 0; i < 4 && d->results[i]; i++, comma = ",")
        printf("%s %s", comma, d->results[i]);
    printf("\n    %s\n", d->blurb);
}

int stem_cmd_ops(int argc, char **argv)
{
    const char *only = NULL;
    stem_cli_parse(&argp, argc, argv, 0, &only);
    uint32_t n;
    const struct stem_op_def *const *all = stem_op_all(&n);
    const char *names[256];
    uint32_t n_names = 0;
    bool found = false;
    for (uint32_t i = 0; i < n; i++) {
        bool hidden = all[i]->internal && strcmp(all[i]->name, "zero");
        if (hidden && !only)
            continue;
        if (!hidden && n_names < 256)
            names[n_names++] = all[i]->name;
        if (only && strcmp(only, all[i]->name))
            continue;
        if (hidden)
            printf("made by the compiler, not called by this name:\n");
        if (strcmp(all[i]->name, "zero"))
            print_op(all[i]);
        else /* its type is its argument */
            printf("zero(DTYPE[SIZE, ...]) -> y\n    %s\n", all[i]->blurb);
        found = true;
    }
    if (found)
        return STEM_EXIT_OK;
    const char *near = stem_nearest(only, names, n_names);
    stem_cli_error("no operation is called '%s'%s%s%s", only, near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
    return STEM_EXIT_USAGE;
}
