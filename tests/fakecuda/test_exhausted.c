/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory that runs out while the library compiles: whichever allocation fails, the result is a program that failed
 * with that message, and the next compilation works. The linker puts the functions below in place of malloc and its kin.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mainstem.h"
#include "unit.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
/* Visible, since shared libraries (those of a sanitizer) call them, too. */
#pragma GCC visibility push(default)
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
int __lsan_is_turned_off(void);
#pragma GCC visibility pop

/* What a compilation held when it was ended is lost, as documented. */
int __lsan_is_turned_off(void)
{
    return 1;
}

static unsigned calls, fail_at;

static bool refused(void)
{
    if (++calls != fail_at)
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return refused() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    return refused() ? NULL : __real_realloc(p, bytes);
}

static const char text[] = "module m;\n"
                           "model m(x: f32[4, 8]) -> f32[4, 8] {\n"
                           "  weight w: f32[8, 8], g: f32[8];\n"
                           "  a = linear(x, w) on side;\n"
                           "  b = rmsnorm(x, g);\n"
                           "  return a + b + x;\n"
                           "}\n";

static bool compiles(const char **messages)
{
    struct stem_jit *j = stem_jit_text("m.stem", text, strlen(text), NULL);
    static char said[256];
    bool fine = stem_jit_plan(j) != NULL;
    snprintf(said, sizeof said, "%s", stem_jit_text_of_messages(j));
    *messages = said;
    uint32_t n;
    stem_jit_messages(j, &n);
    CU_ASSERT(fine || n == 1);
    stem_jit_free(j);
    return fine;
}

static void any_allocation(void)
{
    const char *said;
    unsigned failed = 0, all;
    calls = fail_at = 0;
    CU_ASSERT_FATAL(compiles(&said));
    all = calls;
    CU_ASSERT_FATAL(all > 50);
    for (unsigned i = 1; i <= all; i++) {
        calls = 0;
        fail_at = i;
        if (compiles(&said))
            continue; /* some can be done without */
        failed++;
        UNIT_SAME_TEXT(said, "mainstem: error: out of memory\n");
    }
    CU_ASSERT(failed > all / 2);
    fail_at = 0;
    CU_ASSERT(compiles(&said));
}

UNIT_MAIN("out of memory", {"any allocation fails", any_allocation})
