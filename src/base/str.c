/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arena.h"
#include "base/vec.h"

/* Open addressing, at most half full. The hash beside the symbol saves the look at the text of all but a few others: a deep
 * model has a hundred thousand names, and that look is what takes time. */
struct slot {
    uint32_t hash, n; /* n 0: free */
};

struct text {
    const char *at;
    size_t len;
};

struct stem_strtab {
    struct stem_arena *arena;
    struct slot *slot;
    uint32_t mask; /* slots less one */
    STEM_VEC(struct text) text;
};

enum { FIRST_SLOTS = 64 };

static struct slot *new_slots(uint32_t n)
{
    struct slot *s = stem_xmalloc(n * sizeof *s);
    return memset(s, 0, n * sizeof *s);
}

struct stem_strtab *stem_strtab_new(void)
{
    struct stem_strtab *t = stem_xmalloc(sizeof *t);
    memset(t, 0, sizeof *t);
    t->arena = stem_arena_new();
    t->slot = new_slots(FIRST_SLOTS);
    t->mask = FIRST_SLOTS - 1;
    stem_vec_push(&t->text, (struct text){"", 0});
    return t;
}

void stem_strtab_free(struct stem_strtab *t)
{
    if (!t)
        return;
    free(t->slot);
    stem_vec_free(&t->text);
    stem_arena_free(t->arena);
    free(t);
}

static void grow(struct stem_strtab *t)
{
    uint32_t old = t->mask + 1;
    struct slot *slot = new_slots(2 * old);
    t->mask = 2 * old - 1;
    for (uint32_t k = 0; k < old; k++) {
        uint32_t i = t->slot[k].hash & t->mask;
        while (slot[i].n)
            i = (i + 1) & t->mask;
        slot[i] = t->slot[k];
    }
    free(t->slot);
    t->slot = slot;
}

struct stem_sym stem_intern_n(struct stem_strtab *t, const char *s, size_t n)
{
    if (n == 0)
        return (struct stem_sym){0};
    uint32_t hash = (uint32_t)XXH3_64bits(s, n), i = hash & t->mask;
    for (; t->slot[i].n; i = (i + 1) & t->mask) {
        const struct text *text = &t->text.at[t->slot[i].n];
        if (t->slot[i].hash == hash && text->len == n && !memcmp(text->at, s, n))
            return (struct stem_sym){t->slot[i].n};
    }
    t->slot[i] = (struct slot){hash, t->text.len};
    stem_vec_push(&t->text, (struct text){stem_arena_strndup(t->arena, s, n), n});
    if (t->text.len > t->mask / 2)
        grow(t);
    return (struct stem_sym){t->text.len - 1};
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
    return t->text.at[s.n].at;
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
