/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode attention over a paged cache: what gqa_attention and mla_attention share. Both are composites of
 * attention_part, whose blocks share out all cached positions of all tokens evenly, and attention_combine.
 */
#ifndef STEM_OPS_ATTENTION_H
#define STEM_OPS_ATTENTION_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_gqa_attention, stem_op_mla_attention, stem_op_attention_part,
    stem_op_attention_combine, stem_op_mla_store_part;
void stem_attention_part_reference(const struct stem_concrete *c, void *const *data);
void stem_mla_store_part_reference(const struct stem_concrete *c, void *const *data);
/* Whether attention_part and the mla_store that it reads the cache of have a kernel for both on the target. */
bool stem_mla_store_part_fits(const struct stem_concrete *part, const struct stem_concrete *store,
                              const struct stem_target *t);
/* What attention_part takes, and mla_store_part before what is its own. */
enum { STEM_N_PART_ATTRS = 5 };
#define STEM_PART_ATTRS                                       \
    {"rows", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},       \
        {"parts", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},  \
        {"unit", STEM_ATTR_TYPE_INT, false, 64, NULL, NULL},  \
        {"latent", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL}, \
        {"scale", STEM_ATTR_TYPE_FLOAT, false, 1, NULL, NULL}
/* What attention_combine takes, and attention_heads before what is its own; dtype is the sum's. */
enum { STEM_N_COMBINE_PARAMS = 3, STEM_N_COMBINE_ATTRS = 7 };
#define STEM_COMBINE_PARAMS \
    {"acc", STEM_MODE_IN, false, false}, {"ml", STEM_MODE_IN, false, false}, {"lens", STEM_MODE_IN, false, false}
#define STEM_COMBINE_ATTRS                                    \
    {"heads", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},      \
        {"groups", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL}, \
        {"parts", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},  \
        {"unit", STEM_ATTR_TYPE_INT, false, 64, NULL, NULL},  \
        {"most", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},   \
        {"sparse", STEM_ATTR_TYPE_INT, false, 0, NULL, NULL}, \
        {"dtype", STEM_ATTR_TYPE_DTYPE, true, 0, NULL, NULL}

void stem_attention_combine_reference(const struct stem_concrete *c, void *const *data);

enum {
    STEM_GQA_UNIT = 64, /* cached positions that are the unit of the division: what a block takes at once */
    STEM_MLA_UNIT = 32,
    STEM_GQA_PARTS = 264, /* blocks: two, or one, for each multiprocessor of an H200 */
    STEM_MLA_PARTS = 132,
    STEM_MLA_ROWS = 128 /* heads of mla_attention that are one item, at most; more than 64 are two blocks' (mla_part.cuh) */
};

/* One call. An *item* is a token and a group of `rows` query heads that read the same keys: a key head's queries, or
 * a block of MLA's heads. Items are numbered token * groups + group; token t has ceil(n / unit) units of positions,
 * where n is lens[t] clamped to 0..most, or the number of indices. */
struct stem_attention_sizes {
    int64_t tokens, heads, rows, groups, kv_heads, width, latent; /* width of keys; of values */
    int64_t pages, page, max_pages, indices;                      /* indices 0: none, all positions */
    int64_t unit, parts, most;
};
struct stem_attention_sizes stem_attention_sizes_of(const struct stem_concrete *c);

/* Units that a block gets at most, if all tables are full. */
int64_t stem_attention_block_units(const struct stem_attention_sizes *s);

/* How the sum of the shares is cut: warps for each output, shares that a warp loads at once, columns of an output. The
 * order of the sum follows from it, so whoever adds up shares asks here. */
struct stem_attention_cut {
    uint32_t warps, batch, slice;
};
struct stem_attention_cut stem_attention_cut_of(int64_t tokens, int64_t groups, int64_t parts, int64_t latent);

/* How the work is divided: block b of `parts` has units U*b/parts .. U*(b+1)/parts - 1 of all U, in order of items,
 * and writes slot b + i for each item i from first[b] to first[b + 1] (empty ones too, so that all slots are
 * written): slots = parts + items - 1. first[b] is the item of the block's first unit. */
struct stem_attention_share {
    int64_t *start; /* items + 1: number of units before each item */
    int64_t *first; /* parts + 1 */
};
struct stem_attention_share stem_attention_share_out(const struct stem_attention_sizes *s, const int32_t *lens);
void stem_attention_share_free(struct stem_attention_share *share);

/* Operands table[T, P] and lens[T] of an op with T tokens (dim 0 of operand 0), and of a cache of rank `rank`.
 * Reports as WHAT: .. and returns false. */
bool stem_attention_check_paged(struct stem_infer *c, uint32_t cache, uint32_t rank, uint32_t table, uint32_t lens,
                                const char *what);
/* Scalars of every lowering of attention_part: tokens, heads, pages, max_pages, indices, parts, scale. */
void stem_attention_scalars(const struct stem_attention_sizes *s, double scale, struct stem_lowered *l);

/* Blocks for each part, and rows of each; latents. */
struct stem_mla_split {
    uint32_t halves, rows;
};
struct stem_mla_split stem_mla_split_of(int64_t rows);

/* How the kernel for latents is cut: positions of a tile, warps that share out the width, stages (0: too wide). whole: of a
 * kernel that adds new rows itself; a block's share is never more than its stages hold. */
struct stem_mla_shape {
    uint32_t tile, wk, stages, smem;
    bool whole, split;
};
struct stem_mla_shape stem_mla_shape_of(const struct stem_attention_sizes *s, const struct stem_target *t, bool adds);
/* Whether the kernel takes these operands (of attention_part). */
bool stem_mla_takes(const struct stem_concrete *c, const struct stem_attention_sizes *s);
/* Whether attention over many heads is a kernel of its own there (mla_wgmma.cuh). */
bool stem_mla_wide(const struct stem_concrete *c, const struct stem_attention_sizes *s, const struct stem_target *t);

/* The tensor-core kernels: false if the operands are not theirs. Set kernel, code, headers, block, smem. */
bool stem_attention_lower_gqa(const struct stem_concrete *c, const struct stem_attention_sizes *s,
                              const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l);
bool stem_attention_lower_mla(const struct stem_concrete *c, const struct stem_attention_sizes *s,
                              const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l);
bool stem_attention_lower_mla_wgmma(const struct stem_concrete *c, const struct stem_attention_sizes *s,
                                    const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l);

#endif
