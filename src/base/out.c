/* SPDX-License-Identifier: Apache-2.0 */
#include "base/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/width.h"

static void reserve(struct stem_out *o, size_t more)
{
    if (o->len + more + 1 <= o->cap)
        return;
    o->cap = o->len + more + 1 > 2 * o->cap ? o->len + more + 1 : 2 * o->cap;
    o->text = stem_xrealloc(o->text, o->cap);
}

void stem_out_bytes(struct stem_out *o, const char *s, size_t n)
{
    reserve(o, n);
    memcpy(o->text + o->len, s, n);
    o->len += n;
    o->text[o->len] = '\0';
}

void stem_out_str(struct stem_out *o, const char *s)
{
    stem_out_bytes(o, s, strlen(s));
}

void stem_out_char(struct stem_out *o, char c)
{
    stem_out_bytes(o, &c, 1);
}

void stem_out_plain(struct stem_out *o, const char *s)
{
    for (uint32_t n; *s; s += n ? n : 1) {
        n = stem_character(s, (uint32_t)strnlen(s, 4));
        stem_out_bytes(o, n ? s : "?", n ? n : 1);
    }
}

void stem_out_vprintf(struct stem_out *o, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    reserve(o, (size_t)n);
    vsnprintf(o->text + o->len, (size_t)n + 1, fmt, ap);
    o->len += (size_t)n;
}

void stem_out_printf(struct stem_out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    stem_out_vprintf(o, fmt, ap);
    va_end(ap);
}

const char *stem_out_text(struct stem_out *o)
{
    reserve(o, 0);
    o->text[o->len] = '\0';
    return o->text;
}

void stem_out_free(struct stem_out *o)
{
    free(o->text);
    *o = (struct stem_out){0};
}
