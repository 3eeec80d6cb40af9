/* SPDX-License-Identifier: Apache-2.0 */
#include "base/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

struct stem_source *stem_source_new(struct stem_arena *a, const char *path, const char *text, size_t len)
{
    if (len >= (size_t)1 << 29)
        return NULL;
    struct stem_source *s = STEM_NEW(a, struct stem_source);
    s->path = stem_arena_strdup(a, path);
    s->text = stem_arena_strndup(a, text, len);
    s->len = (uint32_t)len;

    STEM_VEC(uint32_t) lines = {0};
    stem_vec_push(&lines, 0);
    for (uint32_t i = 0; i < s->len; i++)
        if (s->text[i] == '\n')
            stem_vec_push(&lines, i + 1);
    s->line_begin = stem_arena_dup(a, lines.at, lines.len * sizeof *lines.at);
    s->n_lines = lines.len;
    stem_vec_free(&lines);
    return s;
}

struct stem_source *stem_source_read(struct stem_arena *a, const char *path, const char **why)
{
    STEM_VEC(char) text = {0};
    struct stem_source *s = NULL;
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    if (!f) {
        *why = stem_arena_printf(a, "cannot open '%s': %s", path, strerror(errno));
        return NULL;
    }
    for (size_t got = 1; got > 0 && text.len < UINT32_C(1) << 29;) {
        stem_vec_reserve(&text, text.len + 65536);
        got = fread(text.at + text.len, 1, 65536, f);
        text.len += (uint32_t)got;
    }
    if (ferror(f)) {
        *why = stem_arena_printf(a, "cannot read '%s': %s", path, strerror(errno));
    } else {
        s = stem_source_new(a, strcmp(path, "-") ? path : "<stdin>", text.at ? text.at : "", text.len);
        if (!s)
            *why = stem_arena_printf(a, "'%s' is too large (limit 512 MiB)", path);
    }
    if (f != stdin)
        fclose(f);
    stem_vec_free(&text);
    return s;
}

struct stem_place stem_source_place(const struct stem_source *s, uint32_t offset)
{
    uint32_t low = 0, high = s->n_lines;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (s->line_begin[mid] <= offset)
            low = mid;
        else
            high = mid;
    }
    return (struct stem_place){low + 1, offset - s->line_begin[low] + 1};
}

const char *stem_source_line(const struct stem_source *s, uint32_t line, uint32_t *len)
{
    uint32_t begin = s->line_begin[line - 1];
    uint32_t end = line < s->n_lines ? s->line_begin[line] - 1 : s->len;
    if (end > begin && s->text[end - 1] == '\r')
        end--;
    *len = end - begin;
    return s->text + begin;
}
