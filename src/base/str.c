/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define uthash_malloc(n) stem_xmalloc(n)
#include "base/arena.h"
#include "base/vec.h"
#include <uthash.h>

struct entry {
    const char *text;
    uint32_t n;
    UT_hash_handle hh;
};

struct stem_strtab {
    struct stem_arena *arena;
    struct entry *by_text;
    STEM_VEC(const char *) text;
};

struct stem_strtab *stem_strtab_new(void)
{
    struct stem_strtab *t = stem_xmalloc(sizeof *t);
    memset(t, 0, sizeof *t);
    t->arena = stem_arena_new();
    stem_vec_push(&t->text, "");
    return t;
}

void stem_strtab_free(struct stem_strtab *t)
{
    if (!t)
        return;
    HASH_CLEAR(hh, t->by_text);
    stem_vec_free(&t->text);
    stem_arena_free(t->arena);
    free(t);
}

struct stem_sym stem_intern_n(struct stem_strtab *t, const char *s, size_t n)
{
    if (n == 0)
        return (struct stem_sym){0};
    struct entry *e = NULL;
    HASH_FIND(hh, t->by_text, s, n, e);
    if (!e) {
        e = STEM_NEW(t->arena, struct entry);
        e->text = stem_arena_strndup(t->arena, s, n);
        e->n = t->text.len;
        stem_vec_push(&t->text, e->text);
        HASH_ADD_KEYPTR(hh, t->by_text, e->text, n, e);
    }
    return (struct stem_sym){e->n};
}

struct stem_sym stem_intern(struct stem_strtab *t, const char *s)
{
    return stem_intern_n(t, s, strlen(s));
}

struct stem_sym stem_intern_printf(struct stem_strtab *t, const char *fmt, ...)
{
    char small[256], *p = small;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if ((size_t)n >= sizeof small) {
        p = stem_xmalloc((size_t)n + 1);
        va_start(ap, fmt);
        vsnprintf(p, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    struct stem_sym s = stem_intern_n(t, p, (size_t)n);
    if (p != small)
        free(p);
    return s;
}

const char *stem_sym_str(const struct stem_strtab *t, struct stem_sym s)
{
    return t->text.at[s.n];
}

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t m = a < b ? a : b;
    return m < c ? m : c;
}

uint32_t stem_edit_distance(const char *a, const char *b, uint32_t limit)
{
    enum { MAX = 64 };
    size_t na = strlen(a), nb = strlen(b);
    if (na >= MAX || nb >= MAX)
        return strcmp(a, b) ? limit + 1 : 0;
    uint32_t row[3][MAX + 1];
    for (uint32_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        uint32_t *now = row[i % 3], *up = row[(i - 1) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            now[j] = min3(up[j] + 1, now[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < now[j])
                now[j] = up2[j - 2] + 1;
        }
    }
    uint32_t d = row[na % 3][nb];
    return d > limit ? limit + 1 : d;
}

const char *stem_nearest(const char *word, const char *const *candidates, size_t n)
{
    /* A slip changes about a third of a word at most; of one letter nothing is left then. */
    uint32_t best = word[0] && !word[1] ? 1 : (uint32_t)(strlen(word) + 2) / 3 + 1;
    const char *found = NULL;
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(word, candidates[i]))
            return candidates[i]; /* of short words all are near; the one in other capitals is meant */
    for (size_t i = 0; i < n; i++) {
        uint32_t d = stem_edit_distance(word, candidates[i], best);
        size_t longer = strlen(word) > strlen(candidates[i]) ? strlen(word) : strlen(candidates[i]);
        if (d < best && 2 * d < longer) { /* more than half is common */
            best = d;
            found = candidates[i];
        }
    }
    return found;
}
