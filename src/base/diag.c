/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/vec.h"

struct record {
    struct stem_diag d;
    STEM_VEC(struct stem_label) labels;
    STEM_VEC(const char *) help;
};

struct stem_diags {
    struct stem_arena *arena;
    const struct stem_source *source;
    STEM_VEC(struct record) records;
    uint32_t errors, max_errors;
    bool muted; /* the record added last was dropped: so are its labels and help */
};

struct stem_diags *stem_diags_new(uint32_t max_errors)
{
    struct stem_diags *q = stem_xmalloc(sizeof *q);
    memset(q, 0, sizeof *q);
    q->arena = stem_arena_new();
    q->max_errors = max_errors ? max_errors : 20;
    return q;
}

void stem_diags_free(struct stem_diags *q)
{
    if (!q)
        return;
    for (uint32_t i = 0; i < q->records.len; i++) {
        stem_vec_free(&q->records.at[i].labels);
        stem_vec_free(&q->records.at[i].help);
    }
    stem_vec_free(&q->records);
    stem_arena_free(q->arena);
    free(q);
}

void stem_diags_set_source(struct stem_diags *q, const struct stem_source *s)
{
    q->source = s;
}

const struct stem_source *stem_diags_source(const struct stem_diags *q)
{
    return q->source;
}

static bool repeated(const struct stem_diags *q, enum stem_diag_id id, struct stem_span at)
{
    if (at.begin == UINT32_MAX)
        return false;
    for (uint32_t i = 0; i < q->records.len; i++) {
        const struct stem_diag *d = &q->records.at[i].d;
        if (d->id == id && d->severity == STEM_ERROR && d->span.begin == at.begin && d->span.end == at.end)
            return true;
    }
    return false;
}

static void add(struct stem_diags *q, struct stem_diag d, const char *fmt, va_list ap)
{
    q->muted = false;
    if (d.severity == STEM_ERROR) {
        if (repeated(q, d.id, d.span)) {
            q->muted = true;
            return;
        }
        if (++q->errors > q->max_errors) {
            q->muted = true;
            return;
        }
    }
    d.text = stem_arena_vprintf(q->arena, fmt, ap);
    stem_vec_push(&q->records, (struct record){.d = d});
}

void stem_error(struct stem_diags *q, enum stem_diag_id id, struct stem_span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(q, (struct stem_diag){.id = id, .severity = STEM_ERROR, .span = at}, fmt, ap);
    va_end(ap);
}

void stem_warning(struct stem_diags *q, enum stem_diag_id id, struct stem_span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(q, (struct stem_diag){.id = id, .severity = STEM_WARNING, .span = at}, fmt, ap);
    va_end(ap);
}

void stem_remark(struct stem_diags *q, const char *pass, struct stem_span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(q, (struct stem_diag){.severity = STEM_REMARK, .pass = pass, .span = at}, fmt, ap);
    va_end(ap);
}

void stem_diag_label(struct stem_diags *q, struct stem_span at, const char *fmt, ...)
{
    if (q->muted || !q->records.len)
        return;
    va_list ap;
    va_start(ap, fmt);
    const char *text = stem_arena_vprintf(q->arena, fmt, ap);
    va_end(ap);
    stem_vec_push(&stem_vec_last(&q->records).labels, (struct stem_label){at, text});
}

void stem_diag_help(struct stem_diags *q, const char *fmt, ...)
{
    if (q->muted || !q->records.len)
        return;
    va_list ap;
    va_start(ap, fmt);
    const char *text = stem_arena_vprintf(q->arena, fmt, ap);
    va_end(ap);
    stem_vec_push(&stem_vec_last(&q->records).help, text);
}

uint32_t stem_diags_errors(const struct stem_diags *q)
{
    return q->errors;
}

uint32_t stem_diags_count(const struct stem_diags *q)
{
    return q->records.len;
}

const struct stem_diag *stem_diags_get(const struct stem_diags *q, uint32_t i)
{
    struct record *r = &q->records.at[i];
    r->d.labels = r->labels.at;
    r->d.n_labels = r->labels.len;
    r->d.help = r->help.at;
    r->d.n_help = r->help.len;
    return &r->d;
}

/* ---- printing ---- */

struct colors {
    const char *bold, *red, *yellow, *cyan, *off;
};

static struct colors palette(bool on)
{
    return on ? (struct colors){"\033[1m", "\033[1;31m", "\033[1;35m", "\033[1;36m", "\033[0m"}
              : (struct colors){"", "", "", "", ""};
}

static bool nowhere(struct stem_span at)
{
    return at.begin == UINT32_MAX;
}

/* How many bytes the character at i has; 0 if it is no UTF-8, or a control character. */
static uint32_t character(const char *line, uint32_t i, uint32_t end)
{
    unsigned char c = (unsigned char)line[i];
    uint32_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if ((c < 0x20 && c != '\t') || c == 0x7f || n > end - i)
        return 0;
    for (uint32_t k = 1; k < n; k++)
        if (((unsigned char)line[i + k] & 0xc0) != 0x80)
            return 0;
    return c == 0xc2 && (unsigned char)line[i + 1] < 0xa0 ? 0 : n;
}

/* Byte i belongs to a character that began before it, and so has no column of its own. */
static bool continues(const char *line, uint32_t begin, uint32_t i, uint32_t end)
{
    for (uint32_t k = 1; k < 4 && i >= begin + k; k++) {
        uint32_t n = character(line, i - k, end);
        if (n)
            return n > k;
    }
    return false;
}

/* The line, then carets under the span (to the end of its first line). Control bytes, and what is no UTF-8, would spoil
 * the terminal and the alignment, so each is shown as one '?'; tabs are kept on both lines. */
static void print_snippet(const struct stem_source *s, struct stem_span at, const char *color, const char *off,
                          struct stem_out *o)
{
    struct stem_place p = stem_source_place(s, at.begin);
    uint32_t len;
    const char *line = stem_source_line(s, p.line, &len);
    uint32_t from = p.column > 160 ? p.column - 80 : 1; /* very long lines: a window */
    uint32_t to = len < from + 200 ? len : from + 200;
    stem_out_printf(o, "%5u | ", p.line);
    for (uint32_t i = from - 1; i < to; i++)
        stem_out_char(o, character(line, i, to) || continues(line, from - 1, i, to) ? line[i] : '?');
    stem_out_str(o, "\n      | ");
    uint32_t width = at.end > at.begin ? at.end - at.begin : 1, column = p.column;
    for (uint32_t i = from; i < column; i++)
        if (i > to || !continues(line, from - 1, i - 1, to)) /* one column for each UTF-8 character */
            stem_out_char(o, i <= len && line[i - 1] == '\t' ? '\t' : ' ');
    stem_out_str(o, color);
    stem_out_char(o, '^');
    for (uint32_t i = 1; i < width && column + i <= to; i++)
        if (!continues(line, from - 1, column + i - 1, to))
            stem_out_char(o, '~');
    stem_out_str(o, off);
    stem_out_char(o, '\n');
}

static void print_place(const struct stem_source *s, struct stem_span at, struct stem_out *o)
{
    if (nowhere(at) || !s) {
        stem_out_printf(o, "%s: ", s ? s->path : "mainstem");
        return;
    }
    struct stem_place p = stem_source_place(s, at.begin);
    stem_out_printf(o, "%s:%u:%u: ", s->path, p.line, p.column);
}

static void print_record(const struct stem_source *s, const struct stem_diag *d, struct colors c, struct stem_out *o)
{
    static const char *const word[] = {"remark", "warning", "error"};
    const char *color = d->severity == STEM_ERROR ? c.red : d->severity == STEM_WARNING ? c.yellow : c.cyan;
    stem_out_str(o, c.bold);
    print_place(s, d->span, o);
    stem_out_printf(o, "%s%s: %s%s%s", color, word[d->severity], c.off, c.bold, d->text);
    if (d->severity == STEM_REMARK)
        stem_out_printf(o, "%s [%s]\n", c.off, d->pass);
    else
        stem_out_printf(o, "%s [STEM%04u]\n", c.off, (unsigned)d->id);
    if (s && !nowhere(d->span))
        print_snippet(s, d->span, color, c.off, o);
    for (uint32_t i = 0; i < d->n_labels; i++) {
        print_place(s, d->labels[i].span, o);
        stem_out_printf(o, "%snote: %s%s\n", c.cyan, c.off, d->labels[i].text);
        if (s && !nowhere(d->labels[i].span))
            print_snippet(s, d->labels[i].span, c.cyan, c.off, o);
    }
    for (uint32_t i = 0; i < d->n_help; i++)
        stem_out_printf(o, "      = help: %s\n", d->help[i]);
}

static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
        size_t len = strcspn(p, ",");
        if ((len == n && !strncmp(p, name, n)) || (len == 3 && !strncmp(p, "all", 3)))
            return true;
    }
    return false;
}

void stem_diags_print(const struct stem_diags *q, struct stem_diag_style style, struct stem_out *o)
{
    struct colors c = palette(style.color);
    for (uint32_t i = 0; i < q->records.len; i++) {
        const struct stem_diag *d = stem_diags_get(q, i);
        if (d->severity == STEM_REMARK ? !listed(style.remarks, d->pass)
                                       : d->severity == STEM_WARNING && style.no_warnings)
            continue;
        print_record(q->source, d, c, o);
    }
    if (q->errors > q->max_errors)
        stem_out_printf(o, "%u further errors are not shown\n", q->errors - q->max_errors);
}

/* ---- the registry ---- */

static const struct {
    uint32_t number;
    const char *title, *explanation;
} registry[] = {
#define STEM_DIAG(number, name, title, explanation) {number, title, explanation},
#include "base/diag.def"
#undef STEM_DIAG
};

static const uint32_t numbers[] = {
#define STEM_DIAG(number, name, title, explanation) number,
#include "base/diag.def"
#undef STEM_DIAG
};

const char *stem_diag_title(uint32_t number)
{
    for (size_t i = 0; i < sizeof registry / sizeof *registry; i++)
        if (registry[i].number == number)
            return registry[i].title;
    return NULL;
}

const char *stem_diag_explanation(uint32_t number)
{
    for (size_t i = 0; i < sizeof registry / sizeof *registry; i++)
        if (registry[i].number == number)
            return registry[i].explanation;
    return NULL;
}

uint32_t stem_diag_numbers(const uint32_t **out)
{
    *out = numbers;
    return sizeof numbers / sizeof *numbers;
}
