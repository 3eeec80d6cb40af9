/* SPDX-License-Identifier: Apache-2.0
 *
 * A short, deterministic fuzz run for `make check`: the examples with bytes and words changed, by a fixed seed. The
 * libFuzzer target does the same for hours.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"
#include "one_input.h"

#define ROUNDS 400 /* for each example */

static uint64_t state = 0x9e3779b97f4a7c15u;

/* xorshift64* (Vigna) */
static uint32_t random_below(uint32_t n)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * 0x2545f4914f6cdd1du) >> 33) % n;
}

static const char *const words[] = {
    "layer", "model", "kernel", "extern", "weight", "state", "on main {", "after x", "when (T < 4) {", "} else {",
    "repeat 3 as i {", "priority 1", "resource r", "break;", "eager {", "return", "in", "inout", "consume", "release",
    "out", "workspace", "{{", "}}", "{", "}", "(", ")", "[", "]", ";", ",", ":", "=", "->", "..", "+", "-", "*", "/",
    "%", "<", "&&", "!", "0", "1", "9223372036854775807", "1e308", "0.5", "T", "x", "hidden", "f32", "bf16", "nvfp4",
    "i32", "exp", "linear", "rmsnorm", "route", "zero", "view(", "_", "\"", "/*", "//", "'", "\0", "\xff", "\r\n",
};

/* Replaces, removes or inserts; returns the new length. */
static size_t mutate(char *text, size_t len, size_t room)
{
    size_t at = random_below((uint32_t)len + 1), cut = random_below(4) ? random_below(6) : random_below(60);
    const char *word = words[random_below(sizeof words / sizeof *words)];
    size_t add = *word ? strlen(word) : 1;
    char byte = (char)random_below(256);
    if (random_below(3) == 0) {
        word = &byte;
        add = random_below(2);
    } else if (random_below(5) == 0 && len > 80) { /* a stretch of the text itself */
        static char copy[40];
        add = 1 + random_below(39);
        memcpy(copy, text + random_below((uint32_t)(len - 40)), add);
        word = copy;
    }
    cut = at + cut > len ? len - at : cut;
    if (len - cut + add > room)
        return len;
    memmove(text + at + add, text + at + cut, len - at - cut);
    memcpy(text + at, word, add);
    return len - cut + add;
}

int main(void)
{
    unsigned good = 0, total = 0;
    for (size_t i = 0; i < FRONT_N_EXAMPLES; i++) {
        size_t len = 0;
        char *text = front_read(front_examples[i], &len);
        if (!text || len < 100) {
            fprintf(stderr, "cannot read %s\n", front_examples[i]);
            return 99;
        }
        char *copy = malloc(len + 4096);
        for (int round = 0; round < ROUNDS; round++) {
            size_t n = len;
            memcpy(copy, text, len);
            for (uint32_t k = 1 + random_below(6); k > 0; k--)
                n = mutate(copy, n, len + 4096);
            good += stem_fuzz_front(copy, n);
            total++;
        }
        free(copy);
        free(text);
    }
    printf("%u texts, %u of them programs\n", total, good);
    return good == 0 || good == total; /* else the mutations show nothing */
}
