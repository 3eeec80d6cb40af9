/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem explain STEM1203`: the registry's explanation of a diagnostic.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/diag.h"

struct args {
    const char *id;
    bool all;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    switch (key) {
    case 'a':
        a->all = true;
        return 0;
    case ARGP_KEY_ARG:
        if (a->id)
            stem_cli_usage(state, "one id at a time");
        a->id = arg;
        return 0;
    case ARGP_KEY_END:
        if (!a->id && !a->all)
            stem_cli_usage(state, "which diagnostic? for example STEM1001, or --all for a list");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {{"all", 'a', 0, 0, "List every id with its title", 0}, {0}};
static const struct argp argp = {options, parse, "ID", "Says what a diagnostic means and how to mend it.", 0, 0, 0};

/* Paragraphs are filled anew; indented lines are programs and stand as they are. */
static void print_filled(const char *text)
{
    enum { WIDTH = 96 };
    size_t column = 0;
    while (*text) {
        size_t line = strcspn(text, "\n");
        if (line == 0 || *text == ' ') {
            printf("%s%.*s\n", column ? "\n" : "", (int)line, text);
            column = 0;
        }
        for (const char *end = text + line, *word = text; line && *text != ' ' && word < end;) {
            size_t n = strcspn(word, " \n");
            n = n > (size_t)(end - word) ? (size_t)(end - word) : n;
            bool fits = column + 1 + n <= WIDTH;
            printf("%s%.*s", !column ? "" : fits ? " " : "\n", (int)n, word);
            column = column && fits ? column + 1 + n : n;
            word += n + (word + n < end);
        }
        text += line + (text[line] == '\n');
    }
    if (column)
        putchar('\n');
}

int stem_cmd_explain(int argc, char **argv)
{
    struct args a = {0};
    stem_cli_parse(&argp, argc, argv, 0, &a);
    if (a.all) {
        const uint32_t *ids;
        uint32_t n = stem_diag_numbers(&ids);
        for (uint32_t i = 0; i < n; i++)
            printf("STEM%04u  %s\n", ids[i], stem_diag_title(ids[i]));
        return STEM_EXIT_OK;
    }
    const char *digits = !strncasecmp(a.id, "STEM", 4) ? a.id + 4 : a.id;
    char *end;
    unsigned long number = strtoul(digits, &end, 10);
    const char *title = *digits && !*end && number < 10000 ? stem_diag_title((uint32_t)number) : NULL;
    if (!title) {
        stem_cli_error("no diagnostic is called '%s'; `mainstem explain --all` lists them", a.id);
        return STEM_EXIT_USAGE;
    }
    printf("STEM%04lu: %s\n\n", number, title);
    print_filled(stem_diag_explanation((uint32_t)number));
    return STEM_EXIT_OK;
}
