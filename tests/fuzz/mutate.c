/* SPDX-License-Identifier: Apache-2.0
 *
 * A short, deterministic fuzz run for `make check`: the examples with bytes and words changed, by a fixed seed. The
 * libFuzzer target does the same for hours.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"
#include "mutation.h"
#include "one_input.h"

#define ROUNDS 400 /* for each example */

static const char *const words[] = {
    "layer",
    "model",
    "kernel",
    "extern",
    "weight",
    "state",
    "on main {",
    "after x",
    "when (T < 4) {",
    "} else {",
    "repeat 3 as i {",
    "priority 1",
    "resource r",
    "break;",
    "eager {",
    "return",
    "in",
    "inout",
    "consume",
    "release",
    "out",
    "workspace",
    "{{",
    "}}",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    ":",
    "=",
    "->",
    "..",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<",
    "&&",
    "!",
    "0",
    "1",
    "9223372036854775807",
    "1e308",
    "0.5",
    "T",
    "x",
    "hidden",
    "f32",
    "bf16",
    "nvfp4",
    "int4",
    "i32",
    "exp",
    "linear",
    "rmsnorm",
    "route",
    "zero",
    "view(",
    "_",
    "\"",
    "/*",
    "//",
    "'",
    "\0",
    "\xff",
    "\r\n",
};

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
            for (uint32_t k = 1 + mutation_below(6); k > 0; k--)
                n = mutation(copy, n, len + 4096, words, sizeof words / sizeof *words);
            good += stem_fuzz_front(copy, n);
            total++;
        }
        free(copy);
        free(text);
    }
    printf("%u texts, %u of them programs\n", total, good);
    return good == 0 || good == total; /* else the mutations show nothing */
}
