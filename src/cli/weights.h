/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights from .safetensors files (a JSON header, then raw tensors), by name.
 */
#ifndef STEM_CLI_WEIGHTS_H
#define STEM_CLI_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/plan.h"

struct stem_weights;

/* Opens and checks all files; NULL after an error message. Tensors of later files win. */
struct stem_weights *stem_weights_open(const char *const *paths, uint32_t n);
void stem_weights_close(struct stem_weights *w); /* NULL is fine */
/* Copies the tensor called b->name to `to` (b->bytes bytes). No such tensor: true, *found false. One of another shape or
 * dtype: false after an error message. */
bool stem_weights_load(const struct stem_weights *w, const struct stem_plan_buffer *b, void *to, bool *found);

#endif
