/* SPDX-License-Identifier: Apache-2.0
 *
 * Two plans beside each other: what changed in words, then both schedules as text.
 */
#include "report/report.h"

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

static void put_schedules(const struct stem_plan *p, const char *title, struct stem_out *o)
{
    stem_out_str(o, "<section><h2>");
    put_escaped(title, o);
    stem_out_str(o, "</h2>\n");
    for (uint32_t i = 0; i < p->n_variants; i++) {
        const struct stem_plan_variant *v = &p->variants[i];
        struct stem_out text = {0};
        if (i && stem_schedule_same(&p->variants[i - 1], v))
            continue;
        for (uint32_t d = 0; d < p->n_dims; d++)
            stem_out_printf(&text, "%s=%lld ", p->dims[d], (long long)v->dim[d]);
        stem_out_printf(&text, "%u ops, %u lanes, %u events, slab %llu bytes, %.1f us\n", v->n_ops, v->lanes,
                        v->n_events, (unsigned long long)v->slab_bytes, v->critical_path_us);
        stem_schedule_text(p, v, (struct stem_text_style){.width = 84}, &text);
        stem_out_str(o, "<pre>");
        put_escaped(stem_out_text(&text), o);
        stem_out_str(o, "</pre>\n");
        stem_out_free(&text);
    }
    stem_out_str(o, "</section>\n");
}

void stem_plan_diff_html(const struct stem_plan *a, const char *a_title, const struct stem_plan *b,
                         const char *b_title, struct stem_out *o)
{
    struct stem_out words = {0};
    uint32_t n = stem_plan_diff(a, b, &words);
    stem_out_str(
        o, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
           "img-src data:\">\n<link rel=\"icon\" href=\"data:,\"><title>Two plans</title>\n<style>\n"
           ":root{color-scheme:light dark}body{font:14px/1.45 system-ui,sans-serif;margin:20px 28px}"
           "h1{font-size:22px}h2{font-size:15px;overflow-wrap:anywhere}"
           "pre{font:12.5px/1.3 ui-monospace,\"DejaVu Sans Mono\",monospace;overflow-x:auto;"
           "border:1px solid #8886;border-radius:8px;padding:10px 14px}"
           ".two{display:grid;grid-template-columns:repeat(auto-fit,minmax(560px,1fr));gap:18px}\n"
           "</style></head><body>\n<h1>What changed</h1>\n<pre>");
    put_escaped(n ? stem_out_text(&words) : "the plans do the same", o);
    stem_out_str(o, "</pre>\n<div class=\"two\">\n");
    put_schedules(a, a_title, o);
    put_schedules(b, b_title, o);
    stem_out_str(o, "</div>\n</body></html>\n");
    stem_out_free(&words);
}
