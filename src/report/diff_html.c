/* SPDX-License-Identifier: Apache-2.0
 *
 * Two plans beside each other: what changed in words, then for each specialisation the numbers, both schedules as
 * text, and both issue orders, op by op, with what repeats shown once and what is the same folded away.
 */
#include <math.h>

#include "report/diff.h"

enum { LONG_RUN = 8 }; /* ops without a difference that are folded away */

static void put_escaped(const char *s, struct stem_out *o)
{
    for (; *s; s++)
        if (*s == '<')
            stem_out_str(o, "&lt;");
        else if (*s == '&')
            stem_out_str(o, "&amp;");
        else
            stem_out_char(o, *s);
}

static const char style[] =
    ":root{color-scheme:light dark;--line:#8886;--dim:#808890;--gone:#e5534b33;--new:#2da44e33;--moved:#d4a72c33}"
    "body{font:14px/1.45 system-ui,sans-serif;margin:20px 28px}h1{font-size:22px;margin:0}"
    "h2{font-size:17px;margin:26px 0 8px}h3{font-size:14px;margin:18px 0 6px;overflow-wrap:anywhere}"
    "p{margin:2px 0 12px;color:var(--dim);overflow-wrap:anywhere}"
    "pre{font:12.5px/1.3 ui-monospace,\"DejaVu Sans Mono\",monospace;overflow-x:auto;"
    "border:1px solid var(--line);border-radius:8px;padding:10px 14px;margin:0}"
    ".two{display:grid;grid-template-columns:repeat(auto-fit,minmax(520px,1fr));gap:12px 18px}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "td,th{padding:3px 16px 3px 0;text-align:right;border-bottom:1px solid var(--line);font-weight:400}"
    "td:first-child,th:first-child{text-align:left}th{color:var(--dim)}tr.d td{font-weight:600}"
    ".ops{border:1px solid var(--line);border-radius:8px;padding:6px 10px;font-size:13px;overflow-x:auto}"
    ".r{display:grid;grid-template-columns:46px minmax(150px,1fr) 74px 46px minmax(150px,1fr) 74px "
    "minmax(160px,1.2fr);"
    "gap:0 8px;padding:1px 4px;overflow-wrap:anywhere;min-width:860px}"
    ".r span:nth-child(3n+1){color:var(--dim);text-align:right;font-variant-numeric:tabular-nums}"
    ".r span:nth-child(7){text-align:left;color:inherit}.r span:nth-child(3n){color:var(--dim)}"
    ".gone{background:var(--gone)}.new{background:var(--new)}.moved,.changed{background:var(--moved)}"
    ".t{font-weight:600;padding:5px 4px 2px}.times{border-left:3px solid var(--line);padding-left:6px;margin:4px 0}"
    "summary{color:var(--dim);cursor:pointer;padding:1px 4px}.head{color:var(--dim);border-bottom:1px solid "
    "var(--line)}"
    "@media print{body{margin:0;font-size:11px}.ops{overflow:visible}*{-webkit-print-color-adjust:exact;"
    "print-color-adjust:exact}}";

/* ---- numbers ---- */

static void put_number(const char *what, double a, double b, const char *unit, struct stem_out *o)
{
    bool same = fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
    int digits = unit[0] && unit[1] == 'u';
    stem_out_printf(o, "<tr%s><td>%s<td>%.*f%s<td>%.*f%s<td>", same ? "" : " class=\"d\"", what, digits, a, unit,
                    digits, b, unit);
    if (same)
        stem_out_str(o, "the same");
    else if (!*unit)
        stem_out_printf(o, "%+.0f", b - a);
    else if (a > 0)
        stem_out_printf(o, "%+.1f %%", 100 * (b / a - 1));
    stem_out_char(o, '\n');
}

static void put_numbers(const struct stem_plan_variant *a, const struct stem_plan_variant *b, struct stem_out *o)
{
    stem_out_str(o, "<table>\n<tr><th><th>A<th>B<th>\n");
    put_number("ops", a->n_ops, b->n_ops, "", o);
    put_number("events", a->n_events, b->n_events, "", o);
    put_number("lanes predicted", a->lanes, b->lanes, "", o);
    put_number("edges of the graph", a->n_edges, b->n_edges, "", o);
    put_number("slab", (double)a->slab_bytes, (double)b->slab_bytes, " bytes", o);
    bool both = a->schedule_us > 0 && b->schedule_us > 0; /* with what forks and overlap cost */
    put_number("estimate", both ? a->schedule_us : a->critical_path_us, both ? b->schedule_us : b->critical_path_us, " us", o);
    put_number("on one stream", a->total_us, b->total_us, " us", o);
    put_number("floor by bytes", a->floor_us, b->floor_us, " us", o);
    stem_out_str(o, "</table>\n");
}

/* ---- the schedules as text ---- */

static void put_schedule(const struct stem_plan *p, const struct stem_plan_variant *v, const char *title,
                         struct stem_out *o)
{
    struct stem_out text = {0};
    stem_out_str(o, "<section><h3>");
    put_escaped(title, o);
    stem_out_str(o, "</h3>\n<pre>");
    stem_schedule_text(p, v, (struct stem_text_style){.width = 84}, &text);
    put_escaped(stem_out_text(&text), o);
    stem_out_str(o, "</pre></section>\n");
    stem_out_free(&text);
}

/* ---- the issue orders ---- */

enum mark { SAME, CHANGED, REMOVED, ADDED, LEFT, CAME };

struct row {
    uint32_t a, b; /* STEM_NONE: nothing on that side */
    enum mark mark;
    const char *phrase;
};

struct phrases {
    struct stem_arena *arena;
    const char *text;
};

static void add_phrase(void *user, const char *phrase)
{
    struct phrases *p = user;
    p->text = stem_arena_printf(p->arena, "%s%s%s", p->text, *p->text ? "; " : "", phrase);
}

static struct row pair_of(const struct stem_diff_pair *d, uint32_t i, uint32_t k, struct stem_arena *a)
{
    struct phrases p = {a, ""};
    stem_diff_op(d, i, k, a, add_phrase, &p);
    return (struct row){i, k, *p.text ? CHANGED : SAME, p.text};
}

static const char *moved_by(uint32_t from, uint32_t to, const char *words, struct stem_arena *a)
{
    return stem_arena_printf(a, "%s %u %s", words, from < to ? to - from : from - to,
                             from < to ? "later" : "earlier");
}

/* Ops that keep their order stand beside each other; what was moved stands where it was and where it is. */
static struct row *align(const struct stem_diff_pair *d, struct stem_arena *a, uint32_t *n)
{
    uint32_t i = 0, k = 0;
    struct row *rows = STEM_NEW_ARRAY(a, struct row, d->a.v->n_ops + d->b.v->n_ops + 1);
    for (*n = 0; i < d->a.v->n_ops || k < d->b.v->n_ops; ++*n) {
        uint32_t to = i < d->a.v->n_ops ? stem_diff_other(&d->a, &d->b, i) : STEM_NONE;
        uint32_t from = k < d->b.v->n_ops ? stem_diff_other(&d->b, &d->a, k) : STEM_NONE;
        if (i < d->a.v->n_ops && to == STEM_NONE)
            rows[*n] = (struct row){i++, STEM_NONE, REMOVED, "removed"};
        else if (i < d->a.v->n_ops && d->moved[to])
            rows[*n] = (struct row){i, STEM_NONE, LEFT, moved_by(i, to, "now issued", a)}, i++;
        else if (k < d->b.v->n_ops && from == STEM_NONE)
            rows[*n] = (struct row){STEM_NONE, k++, ADDED, "added"};
        else if (k < d->b.v->n_ops && d->moved[k])
            rows[*n] = (struct row){STEM_NONE, k, CAME, moved_by(k, from, "was issued", a)}, k++;
        else
            rows[*n] = pair_of(d, i++, k++, a);
    }
    return rows;
}

static void put_side(const struct stem_diff_side *s, uint32_t op, struct stem_out *o)
{
    if (op == STEM_NONE) {
        stem_out_str(o, "<span></span><span></span><span></span>");
        return;
    }
    stem_out_printf(o, "<span>%u</span><span>", op + 1);
    put_escaped(s->v->ops[op].name, o);
    stem_out_str(o, "</span><span>");
    put_escaped(s->p->streams[s->v->ops[op].stream], o);
    stem_out_str(o, "</span>");
}

static void put_row(const struct stem_diff_pair *d, const struct row *r, struct stem_out *o)
{
    static const char *const class[] = {"", " changed", " gone", " new", " moved", " moved"};
    stem_out_printf(o, "<div class=\"r%s\">", class[r->mark]);
    put_side(&d->a, r->a, o);
    put_side(&d->b, r->b, o);
    stem_out_str(o, "<span>");
    put_escaped(r->phrase, o);
    stem_out_str(o, "</span></div>\n");
}

static void put_rows(const struct stem_diff_pair *d, const struct row *rows, uint32_t n, struct stem_out *o)
{
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && rows[end].mark == SAME; end++)
            ;
        bool fold = end - i > LONG_RUN;
        if (fold)
            stem_out_printf(o, "<details><summary>%u ops without a difference, from ", end - i);
        if (fold) {
            put_escaped(d->a.v->ops[rows[i].a].name, o);
            stem_out_str(o, " to ");
            put_escaped(d->a.v->ops[rows[end - 1].a].name, o);
            stem_out_str(o, "</summary>\n");
        }
        for (uint32_t k = i; k < end; k++)
            put_row(d, &rows[k], o);
        if (fold)
            stem_out_str(o, "</details>\n");
        if (end < n && rows[end].mark != SAME)
            put_row(d, &rows[end++], o);
    }
}

static uint32_t *classes(const struct stem_diff_pair *d, const struct row *rows, uint32_t n, struct stem_arena *a)
{
    struct stem_strtab *t = stem_strtab_new();
    uint32_t *class = STEM_NEW_ARRAY(a, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const struct stem_plan_op *x = rows[i].a == STEM_NONE ? NULL : &d->a.v->ops[rows[i].a];
        const struct stem_plan_op *y = rows[i].b == STEM_NONE ? NULL : &d->b.v->ops[rows[i].b];
        class[i] = stem_intern_printf(t, "%d|%s|%u|%s|%u|%s", (int)rows[i].mark,
                                      x ? stem_name_pattern(x->name, a) : "", x ? x->stream : 0,
                                      y ? stem_name_pattern(y->name, a) : "", y ? y->stream : 0, rows[i].phrase)
                       .n;
    }
    stem_strtab_free(t);
    return class;
}

static void put_orders(const struct stem_diff_pair *d, struct stem_arena *a, struct stem_out *o)
{
    uint32_t n;
    struct row *rows = align(d, a, &n);
    struct stem_folds folds;
    stem_folds_of(classes(d, rows, n, a), n, a, &folds);
    stem_out_str(
        o, "<h3>Issue order</h3>\n<div class=\"ops\">\n<div class=\"r head\"><span></span><span>A</span><span>stream"
           "</span><span></span><span>B</span><span>stream</span><span></span></div>\n");
    for (uint32_t i = 0; i < folds.len; i++) {
        const struct stem_fold *f = &folds.at[i];
        if (f->count > 1)
            stem_out_printf(o, "<div class=\"times\"><div class=\"t\">%u times:</div>\n", f->count);
        put_rows(d, rows + f->first, f->period, o);
        if (f->count > 1)
            stem_out_str(o, "</div>\n");
    }
    stem_out_str(o, "</div>\n");
}

/* ---- the page ---- */

static void put_variant(struct stem_diff_pair *d, const char *const title[2], struct stem_out *o)
{
    struct stem_arena *a = stem_arena_new();
    const char *dims = stem_diff_dims(d->a.p, d->a.v, a);
    stem_diff_pair(d, a);
    if (*dims) {
        stem_out_str(o, "<h2>");
        put_escaped(dims, o);
        stem_out_str(o, "</h2>\n");
    }
    put_numbers(d->a.v, d->b.v, o);
    stem_out_str(o, "<div class=\"two\">\n");
    put_schedule(d->a.p, d->a.v, title[0], o);
    put_schedule(d->b.p, d->b.v, title[1], o);
    stem_out_str(o, "</div>\n");
    put_orders(d, a, o);
    stem_arena_free(a);
}

void stem_plan_diff_html(const struct stem_plan *a, const char *a_title, const struct stem_plan *b,
                         const char *b_title, struct stem_out *o)
{
    struct stem_out words = {0};
    const char *const title[2] = {a_title, b_title};
    uint32_t n = stem_plan_diff(a, b, &words);
    stem_out_printf(
        o,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "img-src data:\">\n<link rel=\"icon\" href=\"data:,\"><title>Two plans</title>\n<style>\n%s\n"
        "</style></head><body>\n<h1>What changed</h1>\n<p>from A: ",
        style);
    put_escaped(a_title, o);
    stem_out_str(o, "<br>to B: ");
    put_escaped(b_title, o);
    stem_out_str(o, "</p>\n<pre>");
    put_escaped(n ? stem_out_text(&words) : "the plans do the same", o);
    stem_out_str(o, "</pre>\n");
    for (uint32_t k = 0; k < a->n_variants; k++) {
        uint32_t m = stem_diff_variant(a, b, k);
        struct stem_diff_pair d = {.a = {.p = a, .v = &a->variants[k]},
                                   .b = {.p = b, .v = m == STEM_NONE ? NULL : &b->variants[m]}};
        if (m != STEM_NONE)
            put_variant(&d, title, o);
    }
    stem_out_str(o, "</body></html>\n");
    stem_out_free(&words);
}
