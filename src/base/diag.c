/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/vec.h"
#include "base/width.h"

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

bool stem_diags_said(const struct stem_diags *q, enum stem_diag_id id, struct stem_span at)
{
    for (uint32_t i = 0; i < q->records.len; i++) {
        const struct stem_diag *d = &q->records.at[i].d;
        if (d->id == id && d->span.begin == at.begin && d->span.end == at.end)
            return true;
    }
    return false;
}

/* What is said, of which the middle is left out where an argument (a name, say) is longer than anybody reads. */
static const char *vsay(struct stem_diags *q, const char *fmt, va_list ap)
{
    enum { HEAD = 1500, TAIL = 300 };
    const char *text = stem_arena_vprintf(q->arena, fmt, ap);
    size_t len = strlen(text), head = HEAD, tail = len - TAIL;
    if (len <= HEAD + TAIL + 60)
        return text;
    while (head && ((unsigned char)text[head] & 0xc0) == 0x80) /* not within a character */
        head--;
    while (((unsigned char)text[tail] & 0xc0) == 0x80)
        tail++;
    return stem_arena_printf(q->arena, "%.*s ... (%zu bytes) ... %s", (int)head, text, tail - head, text + tail);
}

static void add(struct stem_diags *q, struct stem_diag d, const char *fmt, va_list ap)
{
    q->muted = false;
    if (d.severity == STEM_ERROR) {
        if (d.span.begin != UINT32_MAX && stem_diags_said(q, d.id, d.span)) {
            q->muted = true;
            return;
        }
        if (++q->errors > q->max_errors) {
            q->muted = true;
            return;
        }
    }
    d.text = vsay(q, fmt, ap);
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
    const char *text = vsay(q, fmt, ap);
    va_end(ap);
    stem_vec_push(&stem_vec_last(&q->records).labels, (struct stem_label){at, text});
}

void stem_diag_help(struct stem_diags *q, const char *fmt, ...)
{
    if (q->muted || !q->records.len)
        return;
    va_list ap;
    va_start(ap, fmt);
    const char *text = vsay(q, fmt, ap);
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

static void repeat(struct stem_out *o, char c, uint32_t n)
{
    while (n-- > 0)
        stem_out_char(o, c);
}

/* Prints what begins at s at this column of the terminal; returns its bytes, *columns how many columns it took. Tabs become
 * spaces; what is no character, and would spoil the terminal and the alignment, one '?' for each byte. */
static uint32_t print_character(const char *s, uint32_t left, uint32_t column, uint32_t *columns, struct stem_out *o)
{
    uint32_t n = stem_character(s, left);
    *columns = n == 0 ? 1 : *s == '\t' ? 8 - column % 8 : stem_width(stem_code_point(s, n));
    if (n == 0)
        stem_out_char(o, '?');
    else if (*s == '\t')
        repeat(o, ' ', *columns);
    else
        stem_out_bytes(o, s, n);
    return n ? n : 1;
}

/* The line, then carets under the span (to the end of its first line). */
static void print_snippet(const struct stem_source *s, struct stem_span at, const char *color, const char *off,
                          struct stem_out *o)
{
    struct stem_place p = stem_source_place(s, at.begin);
    uint32_t len, begin = p.column - 1, end = begin + (at.end > at.begin ? at.end - at.begin : 1);
    const char *line = stem_source_line(s, p.line, &len);
    uint32_t from = begin >= 160 ? begin - 80 : 0; /* very long lines: a window */
    while (from > 0 && begin - from < 84 && from < len && ((unsigned char)line[from] & 0xc0) == 0x80)
        from--; /* to the start of a character */
    uint32_t to = len < from + 201 ? len : from + 201, column = 0, before = 0, under = 0, columns;
    char number[16];
    int gutter = snprintf(number, sizeof number, "%5u", p.line);
    stem_out_printf(o, "%s | ", number);
    for (uint32_t i = from; i < to; column += columns) {
        bool is_before = i < begin, is_under = !is_before && i < end;
        i += print_character(line + i, len - i, column, &columns, o);
        before += is_before ? columns : 0;
        under += is_under ? columns : 0;
    }
    stem_out_printf(o, "\n%*s | ", gutter, "");
    repeat(o, ' ', before);
    stem_out_str(o, color);
    stem_out_char(o, '^');
    repeat(o, '~', under > 1 ? under - 1 : 0);
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
    stem_out_printf(o, "%s%s: %s%s", color, word[d->severity], c.off, c.bold);
    stem_out_plain(o, d->text); /* names out of a plan may be anything */
    if (d->severity == STEM_REMARK)
        stem_out_printf(o, "%s [%s]\n", c.off, d->pass);
    else if (d->id != STEM_E_NONE)
        stem_out_printf(o, "%s [STEM%04u]\n", c.off, (unsigned)d->id);
    else
        stem_out_printf(o, "%s\n", c.off);
    if (s && !nowhere(d->span))
        print_snippet(s, d->span, color, c.off, o);
    for (uint32_t i = 0; i < d->n_labels; i++) {
        print_place(s, d->labels[i].span, o);
        stem_out_printf(o, "%snote: %s", c.cyan, c.off);
        stem_out_plain(o, d->labels[i].text);
        stem_out_char(o, '\n');
        if (s && !nowhere(d->labels[i].span))
            print_snippet(s, d->labels[i].span, c.cyan, c.off, o);
    }
    for (uint32_t i = 0; i < d->n_help; i++) {
        stem_out_str(o, "      = help: ");
        stem_out_plain(o, d->help[i]);
        stem_out_char(o, '\n');
    }
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
