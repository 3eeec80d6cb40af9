/* SPDX-License-Identifier: Apache-2.0
 *
 * Two forms are read: NVRTC's "FILE(LINE): error: TEXT", followed by the line, indented by two, and a line with a caret; and
 * "FILE:LINE:COLUMN: error: TEXT" of gcc and clang. What is about other files (the text around the kernel) is left out.
 */
#define _GNU_SOURCE
#include "cli/kernel_error.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/out.h"
#include "cli/cli.h"

struct found {
    const char *path, *text;
    int path_len, text_len;
    const char *shown;     /* the line as the compiler has it; NULL: not shown */
    uint32_t line, column; /* column 0: the whole line */
    bool note;             /* that belongs to the error before */
};

static bool starts(const char *s, const char *word)
{
    return !strncmp(s, word, strlen(word));
}

/* "error: TEXT" or "note: TEXT", up to the end of the line. */
static bool set_text(struct found *f, const char *s)
{
    const char *word = starts(s, "fatal error: ") ? "fatal error: " : starts(s, "error: ") ? "error: " : "note: ";
    if (!starts(s, word))
        return false;
    f->note = *word == 'n';
    f->text = s + strlen(word);
    f->text_len = (int)strcspn(f->text, "\n");
    return true;
}

static const char *next_line(const char *s)
{
    s += strcspn(s, "\n");
    return s + (*s == '\n');
}

/* Column of the caret that stands below the line which NVRTC repeats; 0: there is none. */
static uint32_t caret(const char *line)
{
    const char *below = next_line(next_line(line)), *at = below;
    while (*at == ' ' || *at == '\t')
        at++;
    return *at == '^' && at - below >= 2 ? (uint32_t)(at - below) - 1 : 0;
}

/* The message may have words of ours before the place, "unit: FILE(3): error: ...". */
static bool read_nvrtc(const char *line, struct found *f)
{
    const char *end = line + strcspn(line, "\n"), *close = strstr(line, "): "), *number = close;
    while (number && number > line && isdigit((unsigned char)number[-1]))
        number--;
    if (!close || close > end || number == close || number - 1 <= line || number[-1] != '(' || !set_text(f, close + 3))
        return false;
    const char *path = number - 1;
    while (path > line && !(path[-1] == ' ' && path - 1 > line && path[-2] == ':'))
        path--;
    f->path = path;
    f->path_len = (int)(number - 1 - path);
    f->line = (uint32_t)strtoul(number, NULL, 10);
    f->column = caret(line);
    f->shown = f->column ? next_line(line) + 2 : NULL;
    return true;
}

static bool read_others(const char *line, const char *source, struct found *f)
{
    size_t len = strlen(source);
    char *after;
    if (!starts(line, source) || line[len] != ':')
        return false;
    f->path = line;
    f->path_len = (int)len;
    f->line = (uint32_t)strtoul(line + len + 1, &after, 10);
    f->column = *after == ':' ? (uint32_t)strtoul(after + 1, &after, 10) : 0;
    return f->line && starts(after, ": ") && set_text(f, after + 2);
}

/* Whether NVRTC shows this line. That of `{{` has blanks up to there in the unit, and `}}` ends what it has. */
static bool shows(const char *shown, const char *line, uint32_t len)
{
    size_t n = strcspn(shown, "\n"), blanks = strspn(shown, " ");
    if (n == len && !strncmp(shown, line, len))
        return true;
    return n <= len && memmem(line, blanks < len ? blanks : len, "{{", 2) && !strncmp(shown + blanks, line + blanks, n - blanks);
}

static struct stem_span span_of(const struct stem_source *s, const struct found *f)
{
    uint32_t len, first, end;
    const char *line = stem_source_line(s, f->line, &len);
    uint32_t begin = (uint32_t)(line - s->text);
    for (first = 0; first < len && isspace((unsigned char)line[first]);)
        first++;
    bool other = f->column && f->shown && !shows(f->shown, line, len);
    if (!f->column || f->column > len + 1 || other)
        return (struct stem_span){begin + first, begin + len};
    first = f->column - 1;
    for (end = first; end < len && (isalnum((unsigned char)line[end]) || line[end] == '_');)
        end++;
    return (struct stem_span){begin + first, begin + (end > first ? end : first + 1)};
}

bool stem_cli_kernel_error(const char *said, const char *source, const char *by)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_out shown = {0}; /* `source` as the #line directives have it */
    if (source)
        stem_out_plain(&shown, source);
    struct stem_diags *q = stem_diags_new(0);
    const struct stem_source *text = NULL;
    bool error = false; /* that a note could belong to */
    for (const char *line = said, *why; *line; line = next_line(line)) {
        struct found f = {0};
        if (!(source ? read_others(line, stem_out_text(&shown), &f) : read_nvrtc(line, &f)))
            continue;
        if (!text) {
            text = stem_cli_source(a, source ? source : stem_arena_strndup(a, f.path, (size_t)f.path_len), &why);
            stem_diags_set_source(q, text);
        }
        bool same = text && (source || ((size_t)f.path_len == strlen(text->path) && !memcmp(f.path, text->path, (size_t)f.path_len)));
        bool here = same && f.line <= text->n_lines;
        if (here && f.note && error)
            stem_diag_label(q, span_of(text, &f), "%.*s", f.text_len, f.text);
        if (!f.note)
            error = here;
        if (here && !f.note)
            stem_error(q, STEM_E_NONE, span_of(text, &f), "%s does not compile this inline kernel: %.*s", by, f.text_len, f.text);
    }
    struct stem_out o = {0};
    stem_diags_print(q, (struct stem_diag_style){0}, &o);
    fputs(stem_out_text(&o), stderr);
    bool any = stem_diags_errors(q) > 0;
    stem_out_free(&o);
    stem_out_free(&shown);
    stem_diags_free(q);
    stem_arena_free(a);
    return any;
}
