/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_LINEAR_H
#define STEM_OPS_LINEAR_H

#include "ops/op.h"

extern const struct stem_op_def stem_op_linear, stem_op_norm_linear;
void stem_linear_reference(const struct stem_concrete *c, void *const *data);
void stem_norm_linear_lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                            struct stem_lowered *l);

/* How the tensor-core kernel is cut: nt groups of 8 tokens, `rows` of each group that a stage has room for, warps of a
 * block = kparts * groups, blocks of a cluster, and how many blocks a multiprocessor is to have at once; `whole`: the rings
 * hold everything. m rows of x, n of w; `more` is how many more a stage has, 0 but for norm_linear; `shares` as in
 * ops/op.h. */
struct stem_linear_shape {
    uint32_t nt, rows, stages, kparts, groups, cluster, smem, per_sm;
    bool whole;
};
struct stem_linear_shape stem_linear_shape(int64_t m, int64_t n, int64_t k, uint32_t more, bool shares,
                                           const struct stem_target *t);

/* Rest of the lowering, for weights with scales; scalars and headers are set. */
void stem_linear_lower_packed(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                              struct stem_lowered *l);

/* ---- shared by the ops that stream weights (stream.cuh) ---- */

/* C++ name of a dtype in device code, and its short name in identifiers: "__nv_bfloat16", "bf16". */
const char *stem_stream_type(enum stem_dtype t);
bool stem_stream_is_float(enum stem_dtype t);
/* Whether the tensor-core path takes rows of `k` elements of these operands: 16-bit floats, whole 16-byte pieces. */
bool stem_stream_fits(const struct stem_tensor *a, const struct stem_tensor *b, int64_t k);
/* Shared memory that a block of this architecture may have, and that a multiprocessor has, in bytes. */
uint32_t stem_stream_block_smem(const struct stem_target *t);
uint32_t stem_stream_sm_smem(const struct stem_target *t);
/* Dynamic shared memory of `warps` rings and tiles (stem_stage_bytes, STEM_TILE_LD in stream.cuh). */
uint32_t stem_stream_ring_bytes(uint32_t mt, uint32_t nt, uint32_t stages, uint32_t warps);
uint32_t stem_stream_tile_bytes(uint32_t nt, uint32_t warps);

/* Sum of a[i] * b[i] in f32, in 16 interleaved parts: the reference's order, chosen so that compilers vectorise it.
 */
float stem_ref_dot(const float *a, const float *b, int64_t n);
/* malloc that aborts; references have no way to report. */
void *stem_ref_alloc(size_t bytes);

#endif
