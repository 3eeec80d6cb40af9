/* SPDX-License-Identifier: Apache-2.0
 *
 * Expands the templates of emitted host code.
 */
#include "emit/host_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "emit/part.h"

struct expansion {
    struct stem_out *o;
    const struct stem_host_word *words;
    unsigned depth, off; /* open conditions; the outermost that does not hold, 0: none */
};

static const char *lookup(const struct expansion *x, const char *word, size_t len)
{
    for (const struct stem_host_word *w = x->words; w->word; w++)
        if (strlen(w->word) == len && !memcmp(w->word, word, len))
            return w->text;
    stem_emit_bug("a template has the unknown word '%.*s'", (int)len, word);
}

/* `word` is between two @; true if it was a directive. */
static bool directive(struct expansion *x, const char *word, size_t len)
{
    if (len > 3 && !memcmp(word, "if ", 3)) {
        x->depth++;
        if (!x->off && !lookup(x, word + 3, len - 3))
            x->off = x->depth;
    } else if (len == 4 && !memcmp(word, "else", 4)) {
        if (!x->off || x->off == x->depth)
            x->off = x->off ? 0 : x->depth;
    } else if (len == 3 && !memcmp(word, "end", 3)) {
        if (x->off == x->depth)
            x->off = 0;
        x->depth--;
    } else {
        return false;
    }
    return true;
}

void stem_host_expand(struct stem_out *o, const char *text, const struct stem_host_word *words)
{
    struct expansion x = {.o = o, .words = words};
    const char *line = text;
    while (*text) {
        size_t plain = strcspn(text, "@");
        if (!x.off)
            stem_out_bytes(o, text, plain);
        for (const char *p = text; p < text + plain; p++)
            if (*p == '\n')
                line = p + 1;
        text += plain;
        if (!*text)
            break;
        size_t len = strcspn(text + 1, "@\n");
        if (text[len + 1] != '@')
            stem_emit_bug("a template has a stray '@'");
        bool whole_line = text == line && text[len + 2] == '\n';
        if (directive(&x, text + 1, len)) {
            text += whole_line;
            line = whole_line ? text + len + 2 : line;
        } else if (!len && !x.off) {
            stem_out_char(o, '@');
        } else if (len && !x.off) {
            const char *value = lookup(&x, text + 1, len);
            stem_out_str(o, value ? value : "");
        }
        text += len + 2;
    }
}

void stem_host_string(struct stem_out *o, const char *s)
{
    stem_out_char(o, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < ' ' || c > '~')
            stem_out_printf(o, "\\%03o", c);
        else if (c == '"' || c == '\\' || c == '?')
            stem_out_printf(o, "\\%c", c);
        else
            stem_out_char(o, (char)c);
    }
    stem_out_char(o, '"');
}

/* No comment may begin or end in it, and no line. */
void stem_host_comment(struct stem_out *o, const char *s)
{
    for (char last = 0; *s; last = *s++) {
        bool edge = (*s == '/' && last == '*') || (*s == '*' && last == '/');
        if (edge)
            stem_out_char(o, ' ');
        stem_out_char(o, (unsigned char)*s < ' ' ? ' ' : *s);
    }
}
