/* SPDX-License-Identifier: Apache-2.0 */
#include "base/directive.h"

#include <ctype.h>
#include <string.h>

struct stem_directives stem_directives_of(const char *text, size_t len)
{
    return (struct stem_directives){.at = text, .end = text + len};
}

void stem_directives_free(struct stem_directives *d)
{
    stem_out_free(&d->word);
    stem_out_free(&d->name);
}

/* Behind the continuations at p: a backslash and the end of the line, between which compilers allow blanks. */
static const char *joined(const char *p, const char *end)
{
    while (p < end && *p == '\\') {
        const char *q = p + 1;
        while (q < end && strchr(" \t\r\v\f", *q) && *q)
            q++;
        if (q == end || *q != '\n')
            break;
        p = q + 1;
    }
    return p;
}

/* The character at d->at, 0 at the end, and the one behind it. */
static char here(struct stem_directives *d)
{
    d->at = joined(d->at, d->end);
    return (char)(d->at < d->end ? *d->at : 0);
}

static char behind(struct stem_directives *d)
{
    const char *p = here(d) ? joined(d->at + 1, d->end) : d->end;
    return (char)(p < d->end ? *p : 0);
}

static void skip(struct stem_directives *d, int n)
{
    while (n-- > 0 && here(d))
        d->at++;
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Comments at d->at: true if there was one. That of a line ends before the line does. */
static bool skip_comment(struct stem_directives *d)
{
    if (here(d) != '/' || (behind(d) != '/' && behind(d) != '*'))
        return false;
    bool line = behind(d) == '/';
    skip(d, 2);
    while (here(d) && !(line ? here(d) == '\n' : here(d) == '*' && behind(d) == '/'))
        skip(d, 1);
    skip(d, line ? 0 : 2);
    return true;
}

/* Up to the closing quote or, without one, the end of the line. */
static void skip_quoted(struct stem_directives *d, char quote)
{
    for (skip(d, 1); here(d) && here(d) != quote && here(d) != '\n';)
        skip(d, here(d) == '\\' ? 2 : 1);
    skip(d, here(d) == quote);
}

/* R"mark( ... )mark": no escapes, no continuations. */
static void skip_raw(struct stem_directives *d)
{
    const char *mark = d->at + 1, *open = memchr(mark, '(', (size_t)(d->end - mark));
    size_t n = open ? (size_t)(open - mark) : 0;
    if (!open || n > 16) {
        skip_quoted(d, '"');
        return;
    }
    for (const char *p = open + 1; p < d->end; p++)
        if (*p == ')' && (size_t)(d->end - p) > n + 1 && !memcmp(p + 1, mark, n) && p[n + 1] == '"') {
            d->at = p + n + 2;
            return;
        }
    d->at = d->end;
}

/* A name or a number, whose quotes between digits begin no constant; then the string that it is a prefix of. */
static void skip_word(struct stem_directives *d)
{
    bool number = isdigit((unsigned char)here(d)) != 0;
    char last = 0;
    while (in_word(here(d)) || (number && here(d) == '\'' && in_word(behind(d)))) {
        last = here(d);
        skip(d, 1);
    }
    if (!number && last == 'R' && here(d) == '"')
        skip_raw(d);
}

static void skip_blanks(struct stem_directives *d)
{
    while (skip_comment(d) || (here(d) && strchr(" \t\r\v\f", here(d))))
        if (here(d) && strchr(" \t\r\v\f", here(d)))
            skip(d, 1);
}

static void read_word(struct stem_directives *d, struct stem_out *o)
{
    stem_out_free(o);
    *o = (struct stem_out){0};
    skip_blanks(d);
    for (; in_word(here(d)); skip(d, 1))
        stem_out_char(o, here(d));
}

/* # or its other spelling at d->at, the first of a line. */
static void read_directive(struct stem_directives *d)
{
    d->begin = d->at;
    d->middle = true;
    skip(d, here(d) == '#' ? 1 : 2);
    read_word(d, &d->word);
    read_word(d, &d->name);
}

bool stem_directive_next(struct stem_directives *d)
{
    while (here(d)) {
        skip_blanks(d);
        char c = here(d);
        if (c == '\n') {
            d->middle = false;
            skip(d, 1);
            continue;
        }
        if (!d->middle && (c == '#' || (c == '%' && behind(d) == ':'))) {
            read_directive(d);
            return true;
        }
        d->middle |= c != 0;
        if (c == '"' || c == '\'')
            skip_quoted(d, c);
        else if (in_word(c))
            skip_word(d);
        else
            skip(d, 1);
    }
    return false;
}
