/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of an open checkpoint: its files, and their tensors by name.
 */
#ifndef STEM_RUNTIME_CHECKPOINT_H
#define STEM_RUNTIME_CHECKPOINT_H

#include <jansson.h>

#include "mainstem_rt.h"

struct stem_shard {
    char *path;
    uint8_t *map;
    uint64_t bytes, data; /* data: where tensors begin */
    json_t *header;       /* owns names and dtypes */
};

struct stem_safetensors {
    char *path; /* as it was opened */
    struct stem_shard *shards;
    uint32_t n_shards;
    json_t *index; /* of a checkpoint that has one */
    struct stem_safetensor *tensors; /* by name, each once */
    uint32_t n;
};

/* Which files `path` stands for: itself; those of a directory; those that an index names. */
enum stem_status stem_checkpoint_shards(struct stem_safetensors *f, struct stem_rt_error *err);
/* After all were read and sorted: no name twice, and all that the index promises is where it says. */
enum stem_status stem_checkpoint_settle(struct stem_safetensors *f, struct stem_rt_error *err);
/* Several as one, for a weight whose tensors lie in more than one: of a name that is in several, the last one's tensor. What
 * they hold is borrowed, so they are closed later. NULL: out of memory. */
struct stem_safetensors *stem_safetensors_join(struct stem_safetensors *const *file, uint32_t n);
void stem_safetensors_part(struct stem_safetensors *joined);
/* The file that a tensor is in. */
const struct stem_shard *stem_safetensors_shard(const struct stem_safetensors *f, const struct stem_safetensor *t);
/* Bits per element of a dtype of the format; 0: unknown. */
uint64_t stem_safetensors_bits(const char *dtype);

#endif
