/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_TESTS_ONE_INPUT_H
#define STEM_TESTS_ONE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes one text through the front end and aborts if a promise is broken. True if it was a program. */
bool stem_fuzz_front(const char *text, size_t len);
/* The same for the textual IR, a plan in JSON, and a graph (DOT or lines). */
bool stem_fuzz_ir(const char *text, size_t len);
bool stem_fuzz_plan(const char *text, size_t len);
bool stem_fuzz_graph(const char *text, size_t len);
/* And for a table of costs. */
bool stem_fuzz_costs(const char *text, size_t len);

#endif
