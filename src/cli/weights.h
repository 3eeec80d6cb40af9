/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights and inputs from .safetensors files and checkpoints of several of them, by name; results into one file.
 */
#ifndef STEM_CLI_WEIGHTS_H
#define STEM_CLI_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/plan.h"

struct stem_weights;

/* Opens and checks all files; NULL after an error message. Tensors of later files win. `paths` must stay, and so must `source`,
 * where the program declares what they hold (NULL: unknown). */
struct stem_weights *stem_weights_open(const char *const *paths, uint32_t n, const char *source);
void stem_weights_close(struct stem_weights *w); /* NULL is fine */
/* Copies a weight to `to` (b->bytes bytes; NULL: only checks): the tensor of its name, or those that the program says. None of them: true,
 * *found false. Of another shape or dtype, a part of them, or none though the program says which: false after an error
 * message. */
bool stem_weights_load(const struct stem_weights *w, const struct stem_plan_buffer *b, void *to, bool *found);
/* Of --input: true if one of the files has an input or a state of the variant, after a warning of what is none of the
 * program's; else false after an error message. */
bool stem_weights_fit(const struct stem_weights *w, const struct stem_plan_variant *v);
/* Of --weights: true if the files have a weight of the variant, after a note of those that they lack; else, and if one does
 * not fit, false after an error message. */
bool stem_weights_cover(const struct stem_weights *w, const struct stem_plan_variant *v);

struct stem_results;
/* What a launch left behind, as one .safetensors file; packed elements as bytes. False after an error message. */
bool stem_weights_save(const struct stem_plan_variant *v, const struct stem_results *r, const char *path);

#endif
