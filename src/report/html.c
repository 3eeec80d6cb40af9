/* SPDX-License-Identifier: Apache-2.0
 *
 * The page: template, style, scripts and data in one file that needs nothing else.
 */
#include <string.h>

#include "report/files.h"
#include "report/report.h"

static const char *file(const char *name)
{
    for (const struct stem_report_file *f = stem_report_files; f->name; f++)
        if (!strcmp(f->name, name))
            return f->text;
    return "";
}

static void put_escaped(const char *s, struct stem_out *o)
{
    for (; *s; s++)
        switch (*s) {
        case '<':
            stem_out_str(o, "&lt;");
            break;
        case '>':
            stem_out_str(o, "&gt;");
            break;
        case '&':
            stem_out_str(o, "&amp;");
            break;
        case '"':
            stem_out_str(o, "&quot;");
            break;
        default:
            stem_out_char(o, *s);
        }
}

/* All scripts in the order in which scripts/embed.sh got them. */
static void put_scripts(struct stem_out *o)
{
    for (const struct stem_report_file *f = stem_report_files; f->name; f++) {
        size_t n = strlen(f->name);
        if (n > 3 && !strcmp(f->name + n - 3, ".js"))
            stem_out_str(o, f->text);
    }
}

/* The template has {{title}}, {{style}}, {{data}} and {{script}}. */
void stem_report_html(const struct stem_report *r, struct stem_out *o)
{
    const char *t = file("page.html");
    for (const char *mark; (mark = strstr(t, "{{")); t = strstr(mark, "}}") + 2) {
        stem_out_bytes(o, t, (size_t)(mark - t));
        switch (mark[2]) {
        case 't':
            put_escaped(r->plan->name, o);
            break;
        case 'd':
            stem_report_json(r, o);
            break;
        default:
            if (!strncmp(mark, "{{style", 7))
                stem_out_str(o, file("page.css"));
            else
                put_scripts(o);
        }
    }
    stem_out_str(o, t);
}
