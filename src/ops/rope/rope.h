/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_OPS_ROPE_H
#define STEM_OPS_ROPE_H

#include "ops/op.h"

#define STEM_ROPE_MAX 1024 /* rotated elements of a head */

/* The attributes of everything that rotates, for an op's table; they mean what rope.c says. */
#define STEM_ROPE_ATTRS                                                                                              \
    {"base", STEM_ATTR_TYPE_FLOAT, false, 10000, NULL, NULL},                                                        \
        {"factor", STEM_ATTR_TYPE_FLOAT, false, 1, NULL, NULL},                                                      \
        {"original", STEM_ATTR_TYPE_INT, false, 4096, NULL, NULL},                                                   \
        {"beta_fast", STEM_ATTR_TYPE_FLOAT, false, 32, NULL, NULL},                                                  \
        {"beta_slow", STEM_ATTR_TYPE_FLOAT, false, 1, NULL, NULL},                                                   \
        {"mscale", STEM_ATTR_TYPE_FLOAT, false, 1, NULL, NULL},                                                      \
        {"mscale_all", STEM_ATTR_TYPE_FLOAT, false, 0, NULL, NULL},                                                  \
    {                                                                                                                \
        "interleaved", STEM_ATTR_TYPE_BOOL, false, 0, NULL, NULL                                                     \
    }
enum { STEM_ROPE_N_ATTRS = 8 };

extern const struct stem_op_def stem_op_rope;
void stem_rope_reference(const struct stem_concrete *c, void *const *data);

/* Checks the attributes of STEM_ROPE_ATTRS; reports and returns false. `op` is the op's name. */
bool stem_rope_attrs_fine(struct stem_infer *c, const struct stem_op_def *def);
/* Turns (whole circles) for each position of pairs 0 .. n / 2 - 1 of n rotated elements; the amplitude that the
 * result is multiplied with. */
double stem_rope_turns(const struct stem_op_def *def, const struct stem_attr *attrs, uint32_t n, double *turns);
/* Rotates row[0 .. n - 1] in place, n / 2 pairs. */
void stem_rope_rotate(float *row, uint32_t n, int64_t position, const double *turns, double amplitude,
                      bool interleaved);
/* The table of turns as device code: `static __device__ const double NAME[n / 2] = {...};`, newline and all. */
const char *stem_rope_table(struct stem_arena *arena, const char *name, const double *turns, uint32_t n);

#endif
