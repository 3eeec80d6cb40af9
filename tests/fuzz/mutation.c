/* SPDX-License-Identifier: Apache-2.0
 *
 * Random changes of a text, see mutation.h.
 */
#include "mutation.h"

#include <string.h>

static uint64_t state = 0x9e3779b97f4a7c15u;

/* xorshift64* (Vigna) */
uint32_t mutation_below(uint32_t n)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * 0x2545f4914f6cdd1du) >> 33) % n;
}

size_t mutation(char *text, size_t len, size_t room, const char *const *words, size_t n_words)
{
    char stretch[40], byte = (char)mutation_below(256);
    size_t at = mutation_below((uint32_t)len + 1), cut = mutation_below(4) ? mutation_below(6) : mutation_below(60);
    const char *word = words[mutation_below((uint32_t)n_words)];
    size_t add = *word ? strlen(word) : 1;
    if (mutation_below(3) == 0) {
        word = &byte;
        add = mutation_below(2);
    } else if (mutation_below(5) == 0 && len > 80) {
        add = 1 + mutation_below(39);
        memcpy(stretch, text + mutation_below((uint32_t)(len - 40)), add);
        word = stretch;
    }
    cut = at + cut > len ? len - at : cut;
    if (len - cut + add > room)
        return len;
    memmove(text + at + add, text + at + cut, len - at - cut);
    memcpy(text + at, word, add);
    return len - cut + add;
}
