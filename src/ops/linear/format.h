/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats of weights, for linear and experts: type rules, names in device code, references. What each format
 * computes is defined in docs/kernels.md, "Formats".
 */
#ifndef STEM_OPS_FORMAT_H
#define STEM_OPS_FORMAT_H

#include "ops/op.h"

/* Columns that share a scale, and rows (f8e4m3 only). */
enum { STEM_F8_BLOCK = 128, STEM_NVFP4_GROUP = 16, STEM_INT4_GROUP = 32 };

/* Whether weights of this type have scales of their own. */
bool stem_format_scaled(enum stem_dtype weight);

/* Where a weight and what belongs to it are among an op's operands. `what` names it in messages: "w", "w13". */
struct stem_format_operands {
    const char *op, *what, *scale_name, *tensor_name;
    uint32_t x, weight, scale, tensor;
    uint32_t halves; /* 2: the rows are two matrices, one after the other, whose scales are counted apart */
    uint32_t per;    /* scales of whole tensors for each expert; a weight of rank 2 has one in all */
    uint32_t x_scale; /* scales of an x in f8e4m3 (quantize_f8) */
};
/* The weight is of x's type, or of a format that goes with it, and its scales have their types and shapes. Reports
 * faults. The weight's rank has been checked. */
bool stem_format_check(struct stem_infer *c, const struct stem_format_operands *o);

/* Operand i of a concrete op, NULL if it is absent. */
const struct stem_tensor *stem_format_operand(const struct stem_concrete *c, uint32_t i);
/* x as device code takes it: its parameter's type, and the argument, in which the scales of an x in f8e4m3 are operand i. */
const char *stem_format_x_type(const struct stem_concrete *c);
const char *stem_format_x(const struct stem_concrete *c, uint32_t i, struct stem_arena *a);
/* Bytes of `rows` rows of `k` weights with their scales. */
uint64_t stem_format_bytes(enum stem_dtype weight, int64_t rows, int64_t k);
/* Name of the format's struct in formats.cuh: "stem_nvfp4". */
const char *stem_format_name(enum stem_dtype weight);
/* Whether tokens in fixed point pay (fixed.cuh) if a row of weights meets one or two, and the name of the format's struct then. */
bool stem_format_fixed(enum stem_dtype weight, const struct stem_target *t);
const char *stem_format_fixed_name(enum stem_dtype weight);
/* Shared memory of such a token's columns of a chunk, and of what precedes all tokens. */
enum { STEM_FIXED_BYTES = 544, STEM_FIXED_ZEROS = 64 };
/* Shared memory of one stage of 16 * mt rows, and of a token's columns of one chunk (packed_stream.cuh). */
uint32_t stem_format_stage_bytes(enum stem_dtype weight, uint32_t mt);
uint32_t stem_format_token_bytes(enum stem_dtype weight);
/* Blocks of so many warps on a multiprocessor that registers are to leave room for. */
uint32_t stem_format_blocks(uint32_t mt, uint32_t nt, uint32_t warps);
/* `const void *p5, const void *p6, `: kernel parameters for the op's own operands from `first` on, present or absent,
 * which stand before those of its epilogue; and what they add to the kernel's name. */
const char *stem_format_rest(const struct stem_concrete *c, uint32_t first, struct stem_arena *a);
const char *stem_format_tag(const struct stem_concrete *c, uint32_t first, struct stem_arena *a);

/* ---- references ---- */

/* Rows of x, as the products read them: f8e4m3 quantises each 128 columns. */
struct stem_ref_rows {
    float *v; /* [rows][k] */
    float *s; /* [rows][blocks of 128]; NULL for the other formats */
    int64_t k;
};
/* scale: of an x in f8e4m3, which is quantised already; else not looked at. */
void stem_ref_rows_make(struct stem_ref_rows *r, enum stem_dtype weight, enum stem_dtype type, const void *data,
                        const void *scale, int64_t rows, int64_t k);
void stem_ref_rows_free(struct stem_ref_rows *r);

/* One row of a weight, and how to come by it. */
struct stem_ref_weight {
    enum stem_dtype type;
    const void *w, *scale;
    int64_t k;
    float *v, *s; /* of the row: [k]; f8e4m3: [blocks] */
};
void stem_ref_weight_make(struct stem_ref_weight *w, enum stem_dtype type, const void *data, const void *scale,
                          int64_t k);
void stem_ref_weight_free(struct stem_ref_weight *w);
/* `row` counts rows of w; `block_row` rows of f8e4m3's scales. */
void stem_ref_weight_row(struct stem_ref_weight *w, int64_t row, int64_t block_row);
/* Sum over k, in f32, without the scale of the whole tensor. */
float stem_ref_product(const struct stem_ref_rows *x, int64_t row, const struct stem_ref_weight *w);

#endif
