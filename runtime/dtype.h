/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types, shared by the compiler and the runtime.
 */
#ifndef STEM_RUNTIME_DTYPE_H
#define STEM_RUNTIME_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* X(enum suffix, name in the language, bits per element) */
#define STEM_DTYPES(X)     \
    X(F32, "f32", 32)      \
    X(F16, "f16", 16)      \
    X(BF16, "bf16", 16)    \
    X(F8E4M3, "f8e4m3", 8) \
    X(NVFP4, "nvfp4", 4)   \
    X(I32, "i32", 32)      \
    X(I64, "i64", 64)      \
    X(U8, "u8", 8)         \
    X(INT4, "int4", 4)

enum stem_dtype {
#define X(suffix, name, bits) STEM_##suffix,
    STEM_DTYPES(X)
#undef X
    STEM_N_DTYPES
};

const char *stem_dtype_name(enum stem_dtype t);
/* Bits per element without scales. */
uint32_t stem_dtype_bits(enum stem_dtype t);
/* Two elements in a byte, the first in its low half: such elements have no address, and no value without a scale. */
static inline bool stem_dtype_packed(enum stem_dtype t)
{
    return t == STEM_NVFP4 || t == STEM_INT4;
}
/* STEM_N_DTYPES for an unknown name. */
enum stem_dtype stem_dtype_from_name(const char *name);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
