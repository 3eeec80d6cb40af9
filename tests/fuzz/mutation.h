/* SPDX-License-Identifier: Apache-2.0
 *
 * Random changes of a text, the same in every run.
 */
#ifndef STEM_TESTS_MUTATION_H
#define STEM_TESTS_MUTATION_H

#include <stddef.h>
#include <stdint.h>

uint32_t mutation_below(uint32_t n);
/* Replaces, removes or inserts bytes, one of the words, or a stretch of the text itself; returns the new length. */
size_t mutation(char *text, size_t len, size_t room, const char *const *words, size_t n_words);

#endif
