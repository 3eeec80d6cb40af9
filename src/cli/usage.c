/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a command line, said as everything else is. argp's parser would say it in the C library's words, so options
 * are looked at before it sees them.
 */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { MAX_OPTIONS = 128 };

struct known {
    const struct argp_option *at[MAX_OPTIONS];
    uint32_t n;
    const char *command; /* "mainstem run" */
};

static _Noreturn void usage(const char *command, const char *fmt, va_list ap)
{
    fputs("mainstem: error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n      = help: `%s --help` lists what it takes\n", command);
    exit(STEM_EXIT_USAGE);
}

void stem_cli_usage(const struct argp_state *state, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    usage(state->name, fmt, ap);
}

static _Noreturn void wrong(const struct known *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void wrong(const struct known *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    usage(k->command, fmt, ap);
}

static void collect(struct known *k, const struct argp *a)
{
    for (const struct argp_option *o = a->options; o && (o->name || o->key || o->doc); o++)
        if (o->name && k->n < MAX_OPTIONS)
            k->at[k->n++] = o;
    for (const struct argp_child *c = a->children; c && c->argp; c++)
        collect(k, c->argp);
}

/* ---- --NAME, --NAME=VALUE ---- */

static _Noreturn void unknown(const struct known *k, const char *dashes, const char *name, size_t len)
{
    const char *names[MAX_OPTIONS];
    char word[64];
    for (uint32_t i = 0; i < k->n; i++)
        names[i] = k->at[i]->name;
    snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), name);
    const char *near = stem_nearest(word, names, k->n);
    bool defines = false;
    for (uint32_t i = 0; i < k->n; i++)
        defines |= !strcmp(names[i], "define");
    if (defines && !strcmp(word, "const"))
        wrong(k, "unknown option '%s%s'; did you mean '-D NAME=VALUE'?", dashes, word);
    wrong(k, "unknown option '%s%s'%s%s%s", dashes, word, near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}

/* As getopt has it: a name that begins no other one may be cut short. */
static const struct argp_option *find_long(const struct known *k, const char *name, size_t len)
{
    const struct argp_option *found = NULL, *other = NULL;
    for (uint32_t i = 0; i < k->n; i++) {
        if (strncmp(k->at[i]->name, name, len))
            continue;
        if (strlen(k->at[i]->name) == len)
            return k->at[i];
        other = found;
        found = k->at[i];
        if (other)
            break;
    }
    if (!found)
        unknown(k, "--", name, len);
    if (other)
        wrong(k, "'--%.*s' may be --%s or --%s", (int)len, name, other->name, found->name);
    return found;
}

/* Whether the option in `word` takes the next word, which is `next`, as its value. */
static bool check_long(const struct known *k, const char *word, const char *next)
{
    const char *name = word + 2, *value = strchr(name, '=');
    const struct argp_option *o = find_long(k, name, value ? (size_t)(value - name) : strlen(name));
    if (value && !o->arg)
        wrong(k, "--%s takes no value, and '%s' was given", o->name, value + 1);
    if (value || !o->arg || o->flags & OPTION_ARG_OPTIONAL)
        return false;
    if (!next)
        wrong(k, "--%s needs a value: --%s=%s", o->name, o->name, o->arg);
    return true;
}

/* ---- -x, -xVALUE, -xyz ---- */

static bool check_short(const struct known *k, const char *word, const char *next)
{
    for (const char *c = word + 1; *c; c++) {
        uint32_t i = 0;
        while (i < k->n && k->at[i]->key != *c)
            i++;
        if (i == k->n)
            unknown(k, "-", word + 1, strcspn(word + 1, "="));
        const struct argp_option *o = k->at[i];
        if (!o->arg)
            continue;
        if (!c[1] && !next)
            wrong(k, "-%c needs a value: -%c %s", *c, *c, o->arg);
        return !c[1];
    }
    return false;
}

static void check(const struct known *k, int argc, char **argv, bool in_order)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(word, "--") || !strcmp(word, "--help") || !strcmp(word, "--usage") || !strcmp(word, "-?"))
            return;
        if (*word != '-' || !word[1]) {
            if (in_order)
                return; /* the rest belongs to the command that it names */
            continue;
        }
        i += word[1] == '-' ? check_long(k, word, next) : check_short(k, word, next);
    }
}

void stem_cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
    static const struct argp_option own[] = {{"help", '?', 0, 0, 0, 0}, {"usage", -3, 0, 0, 0, 0}}; /* argp's */
    struct known k = {{&own[0], &own[1]}, 2, argv[0]};
    collect(&k, argp);
    check(&k, argc, argv, flags & ARGP_IN_ORDER || getenv("POSIXLY_CORRECT"));
    argp_parse(argp, argc, argv, flags, NULL, input);
}
