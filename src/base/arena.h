/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by lifetime. An arena hands out zeroed memory that is freed all at once; whoever allocates takes the
 * arena as a parameter, so that a signature says how long its result lives. Built on obstack. An arena belongs
 * to one thread at a time. Running out of host memory aborts with a message: the compiler cannot go on, and the
 * runtime library (runtime/) does not use arenas. Code that works inside somebody else's program runs in
 * stem_arena_try, which returns instead.
 */
#ifndef STEM_BASE_ARENA_H
#define STEM_BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct stem_arena;

struct stem_arena *stem_arena_new(void);
void stem_arena_free(struct stem_arena *a); /* NULL is fine */

/* Zeroed, aligned to 16 bytes, lives as long as the arena. */
void *stem_arena_alloc(struct stem_arena *a, size_t bytes);
void *stem_arena_dup(struct stem_arena *a, const void *data, size_t bytes);
char *stem_arena_strndup(struct stem_arena *a, const char *s, size_t n);
char *stem_arena_strdup(struct stem_arena *a, const char *s);
char *stem_arena_printf(struct stem_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *stem_arena_vprintf(struct stem_arena *a, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Runs work(user). False if host memory ran out meanwhile: `work` ended there, and every arena that it had made and not
 * freed yet is freed. What it held by other means is lost, so work that is tried keeps to arenas. May be nested; each
 * thread tries on its own. */
bool stem_arena_try(void (*work)(void *user), void *user);

/* Bytes handed out so far. */
size_t stem_arena_bytes(const struct stem_arena *a);

#define STEM_NEW(arena, T) ((T *)stem_arena_alloc((arena), sizeof(T)))
#define STEM_NEW_ARRAY(arena, T, n) ((T *)stem_arena_alloc((arena), sizeof(T) * (size_t)(n)))

/* Memory has run out: ends the work that is tried; else calls the handler, which must not return; else aborts. */
void stem_out_of_memory(void) __attribute__((noreturn));
/* For a program, before it starts threads. NULL, the default: none. */
void stem_on_out_of_memory(void (*handler)(const char *what));

/* malloc family for things that no arena owns; where memory runs out, stem_out_of_memory. */
void *stem_xmalloc(size_t bytes);
void *stem_xrealloc(void *p, size_t bytes);

#endif
