/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a checkpoint that make up a weight, as pieces to be copied.
 */
#ifndef STEM_RUNTIME_WEIGHTS_H
#define STEM_RUNTIME_WEIGHTS_H

#include "mainstem_rt.h"

/* `rows` runs of `bytes` that are `pitch` apart in the file and lie side by side in the buffer. */
struct stem_weight_piece {
    const void *from;
    uint64_t to; /* from the start of the buffer */
    uint64_t bytes, rows, pitch;
};

struct stem_weight {
    struct stem_weight_piece *pieces; /* they fill the buffer, without gaps */
    uint32_t n;                       /* 0: the weight is not in the file */
};

/* By the weight's own name, else by its `from`. Part of a weight is an error, with `strict` none of it is, too. */
enum stem_status stem_weight_find(const struct stem_safetensors *f, const struct stem_plan_buffer *b, bool strict,
                                  struct stem_weight *w, struct stem_rt_error *err);
void stem_weight_free(struct stem_weight *w);
uint64_t stem_weight_piece_bytes(const struct stem_weight_piece *p);
/* Its bytes, side by side. */
void stem_weight_piece_copy(const struct stem_weight_piece *p, void *to);

#endif
