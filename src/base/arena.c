/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <obstack.h>
#include <setjmp.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stem_arena {
    struct obstack stack;
    size_t bytes;
    struct stem_arena *next, **link; /* in the list of the work that is tried; link NULL: made outside any */
    bool begun;
};

struct try {
    jmp_buf back;
    struct stem_arena *arenas;
    struct try *outer;
};

static __thread struct try *trying;
static void (*on_out_of_memory)(const char *what);

_Noreturn static void give_up(const char *what)
{
    if (trying)
        longjmp(trying->back, 1);
    if (on_out_of_memory)
        on_out_of_memory(what);
    fprintf(stderr, "mainstem: %s\n", what);
    abort();
}

void stem_out_of_memory(void)
{
    give_up("out of memory");
}

void stem_on_out_of_memory(void (*handler)(const char *what))
{
    on_out_of_memory = handler;
}

/* Arenas that outlive the work belong to whoever tries around it. */
static void hand_out(struct try *t)
{
    struct stem_arena *next;
    for (struct stem_arena *a = t->arenas; a; a = next) {
        next = a->next;
        a->link = t->outer ? &t->outer->arenas : NULL;
        if (!t->outer)
            continue;
        a->next = t->outer->arenas;
        if (a->next)
            a->next->link = &a->next;
        t->outer->arenas = a;
    }
}

bool stem_arena_try(void (*work)(void *user), void *user)
{
    struct try here = {.outer = trying};
    trying = &here;
    bool done = !setjmp(here.back);
    if (done) {
        work(user);
        hand_out(trying);
    } else {
        while (trying->arenas)
            stem_arena_free(trying->arenas);
    }
    trying = trying->outer;
    return done;
}

void *stem_xmalloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        stem_out_of_memory();
    return p;
}

void *stem_xrealloc(void *p, size_t bytes)
{
    void *moved = realloc(p, bytes ? bytes : 1);
    if (!moved)
        stem_out_of_memory();
    return moved;
}

/* obstack calls these two by name; the failure path is ours because the library's global handler is shared. */
#define obstack_chunk_alloc stem_xmalloc
#define obstack_chunk_free free

/* obstack's macros align by arithmetic on a null pointer, which the sanitizer reports. */
#define OBSTACK_ARITHMETIC __attribute__((no_sanitize("pointer-overflow")))

struct stem_arena *stem_arena_new(void)
{
    struct stem_arena *a = stem_xmalloc(sizeof *a);
    *a = (struct stem_arena){.next = trying ? trying->arenas : NULL, .link = trying ? &trying->arenas : NULL};
    if (a->next)
        a->next->link = &a->next;
    if (trying)
        trying->arenas = a;
    obstack_specify_allocation(&a->stack, 16 * 1024, 16, obstack_chunk_alloc, obstack_chunk_free);
    a->begun = true;
    return a;
}

void stem_arena_free(struct stem_arena *a)
{
    if (!a)
        return;
    if (a->link) {
        *a->link = a->next;
        if (a->next)
            a->next->link = a->link;
    }
    if (a->begun)
        obstack_free(&a->stack, NULL);
    free(a);
}

OBSTACK_ARITHMETIC void *stem_arena_alloc(struct stem_arena *a, size_t bytes)
{
    /* obstack's own size type is int in older glibc: refuse what it would truncate. */
    if (bytes > INT32_MAX / 2)
        give_up("out of memory: one allocation of more than 1 GiB");
    void *p = obstack_alloc(&a->stack, (int)(bytes ? bytes : 1));
    memset(p, 0, bytes);
    a->bytes += bytes;
    return p;
}

void *stem_arena_dup(struct stem_arena *a, const void *data, size_t bytes)
{
    void *p = stem_arena_alloc(a, bytes);
    if (bytes)
        memcpy(p, data, bytes);
    return p;
}

char *stem_arena_strndup(struct stem_arena *a, const char *s, size_t n)
{
    char *p = stem_arena_alloc(a, n + 1);
    memcpy(p, s, n);
    return p;
}

char *stem_arena_strdup(struct stem_arena *a, const char *s)
{
    return stem_arena_strndup(a, s, strlen(s));
}

char *stem_arena_vprintf(struct stem_arena *a, const char *fmt, va_list ap)
{
    char small[1024]; /* most texts are formatted once */
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(small, sizeof small, fmt, again);
    va_end(again);
    char *p = stem_arena_alloc(a, (size_t)n + 1);
    if ((size_t)n < sizeof small)
        memcpy(p, small, (size_t)n + 1);
    else
        vsnprintf(p, (size_t)n + 1, fmt, ap);
    return p;
}

char *stem_arena_printf(struct stem_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = stem_arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

size_t stem_arena_bytes(const struct stem_arena *a)
{
    return a->bytes;
}
