/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel_error.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/source.h"
#include "cli/cli.h"

struct place {
    const char *path, *text;
    int path_len, text_len;
    uint32_t line;
};

static void set_text(struct place *p, const char *text)
{
    p->text = text;
    p->text_len = (int)strcspn(text, "\n");
}

/* "...: FILE(LINE): error: TEXT" */
static bool place_of_nvrtc(const char *said, struct place *p)
{
    static const char word[] = "): error: ";
    const char *error = strstr(said, word), *number = error;
    while (number && number > said && isdigit((unsigned char)number[-1]))
        number--;
    if (!number || number == error || number - 1 <= said || number[-1] != '(')
        return false;
    const char *end = number - 1, *path = end;
    while (path > said && path[-1] != '\n' && !(path[-1] == ' ' && path - 1 > said && path[-2] == ':'))
        path--;
    *p = (struct place){.path = path, .path_len = (int)(end - path), .line = (uint32_t)strtoul(number, NULL, 10)};
    set_text(p, error + sizeof word - 1);
    return true;
}

/* "FILE:LINE:COLUMN: error: TEXT" on one of the lines */
static bool place_of_others(const char *said, const char *source, struct place *p)
{
    size_t len = strlen(source);
    for (const char *s = said; (s = strstr(s, source)); s += len) {
        static const char word[] = "error: ";
        char *after;
        unsigned long line = s[len] == ':' ? strtoul(s + len + 1, &after, 10) : 0;
        const char *error = line ? strstr(after, word) : NULL;
        if (!error || error > s + strcspn(s, "\n"))
            continue;
        *p = (struct place){.path = s, .path_len = (int)len, .line = (uint32_t)line};
        set_text(p, error + sizeof word - 1);
        return true;
    }
    return false;
}

bool stem_cli_kernel_error(const char *said, const char *source, const char *by)
{
    struct place p = {0};
    const char *why;
    if (!(source ? place_of_others(said, source, &p) : place_of_nvrtc(said, &p)))
        return false;
    fprintf(stderr, "%.*s:%u: error: %s does not compile this inline kernel: %.*s\n", p.path_len, p.path, p.line, by, p.text_len, p.text);
    struct stem_arena *a = stem_arena_new();
    struct stem_source *text = stem_source_read(a, stem_arena_strndup(a, p.path, (size_t)p.path_len), &why);
    if (text && p.line <= text->n_lines) {
        uint32_t len;
        const char *line = stem_source_line(text, p.line, &len);
        fprintf(stderr, "%5u | %.*s\n", p.line, (int)len, line);
    }
    stem_arena_free(a);
    return true;
}
