/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers for C references: elements of any type as f32. Loading is exact except that i32 and i64 round to nearest
 * even; storing rounds to nearest even. f8e4m3 saturates at 448 and keeps NaN; integers round to nearest even and
 * saturate, NaN gives 0: as the device's conversions do. nvfp4 and int4 have no conversion of single elements and abort.
 */
#ifndef STEM_OPS_REF_H
#define STEM_OPS_REF_H

#include "ops/op.h"

float stem_f16_to_float(uint16_t bits);
uint16_t stem_float_to_f16(float x);
float stem_bf16_to_float(uint16_t bits);
uint16_t stem_float_to_bf16(float x); /* NaN: 0x7fff, as the device */
float stem_e4m3_to_float(uint8_t bits);
uint8_t stem_float_to_e4m3(float x);

/* x as it reads back after having been stored as `t`. */
float stem_ref_round(enum stem_dtype t, float x);

/* Element `i` (counted in elements from `data`) of an array of type t. */
float stem_ref_load(enum stem_dtype t, const void *data, int64_t i);
void stem_ref_store(enum stem_dtype t, void *data, int64_t i, float x);
/* i32, i64 and u8 exactly; x clamped to the type's range. */
int64_t stem_ref_load_int(enum stem_dtype t, const void *data, int64_t i);
void stem_ref_store_int(enum stem_dtype t, void *data, int64_t i, int64_t x);

/* `count` elements, `stride` elements apart, as f32; and back (stride 1). */
void stem_ref_load_row(enum stem_dtype t, const void *data, int64_t first, int64_t stride, uint32_t count,
                       float *out);
void stem_ref_store_row(enum stem_dtype t, void *data, int64_t first, uint32_t count, const float *in);

/* Offset in elements of row `row`, where the rows of a tensor are all but its last dimension. A tensor of rank 0 has
 * one row of one element. */
int64_t stem_ref_row_offset(const struct stem_tensor *t, uint64_t row);
uint64_t stem_ref_rows(const struct stem_tensor *t);

#endif
