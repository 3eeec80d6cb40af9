/* SPDX-License-Identifier: Apache-2.0
 *
 * What type rules and lowerings of ops have in common.
 */
#ifndef STEM_OPS_RULE_H
#define STEM_OPS_RULE_H

#include "ops/op.h"

/* Reports a fault of operand i as "TEXT; the operand is TYPE" and returns false. */
bool stem_rule_fail(struct stem_infer *c, enum stem_diag_id id, uint32_t i, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports a fault of an attribute, with what it is, and returns false. */
bool stem_rule_attr(struct stem_infer *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The op's attribute eps is a number from 0 on. */
bool stem_rule_eps(struct stem_infer *c, const struct stem_op_def *def);
/* Operand i is f32, f16 or bf16; `what` names it: "rmsnorm: x". */
bool stem_rule_float(struct stem_infer *c, uint32_t i, const char *what);
/* A dim as text in a static-sized buffer, for messages. */
struct stem_dim_text {
    char s[64];
};
struct stem_dim_text stem_rule_dim(const struct stem_infer *c, struct stem_dim d);

/* C++ type of an element in device code: "__nv_bfloat16". NULL for nvfp4 and int4, whose elements have no address. */
const char *stem_c_type(enum stem_dtype t);
/* Unsigned C++ type of `bytes` bytes, for moving bits. */
const char *stem_c_bits(uint32_t bytes);

/* A kernel's name from its code, the same for the same code: "stem_pw_" and a hash. */
const char *stem_kernel_name(struct stem_arena *arena, const char *prefix, const char *code, size_t len);

/* Largest power of two that divides n and is at most `most` (a power of two). n 0: most. */
uint32_t stem_vector_width(uint64_t n, uint32_t most);

#endif
