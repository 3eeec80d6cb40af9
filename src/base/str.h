/* SPDX-License-Identifier: Apache-2.0
 *
 * Interned strings. A symbol is a small number; two equal strings in one table have the same symbol, numbered
 * by first appearance, so nothing depends on addresses or hash order. Not thread-safe: one table, one thread.
 */
#ifndef STEM_BASE_STR_H
#define STEM_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stem_sym {
    uint32_t n; /* 0: no symbol (the empty string) */
};

struct stem_strtab;

struct stem_strtab *stem_strtab_new(void);
void stem_strtab_free(struct stem_strtab *t);

struct stem_sym stem_intern(struct stem_strtab *t, const char *s);
struct stem_sym stem_intern_n(struct stem_strtab *t, const char *s, size_t n);
struct stem_sym stem_intern_printf(struct stem_strtab *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* NUL-terminated, lives as long as the table. */
const char *stem_sym_str(const struct stem_strtab *t, struct stem_sym s);

static inline bool stem_sym_eq(struct stem_sym a, struct stem_sym b)
{
    return a.n == b.n;
}

/* Number of single-character edits (insert, delete, replace, swap of neighbours) between two strings, at most
 * `limit` + 1. Used for "did you mean". (Damerau's restricted edit distance.) */
uint32_t stem_edit_distance(const char *a, const char *b, uint32_t limit);
/* The candidate nearest to `word`, if it is near enough to be a slip; else NULL. First of equals wins. */
const char *stem_nearest(const char *word, const char *const *candidates, size_t n);

#endif
