/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs that emitted code is tested with: every example at a small size, and one with a function of the caller.
 */
#ifndef TESTS_EMIT_PROGRAMS_H
#define TESTS_EMIT_PROGRAMS_H

#define EXTERN_TEXT                                                                                                    \
    "module with_extern;\n"                                                                                            \
    "const N = 64;\n"                                                                                                  \
    "dim T in 1..4 = 4;\n"                                                                                             \
    "extern clear(in x: f32[T, N], out y: f32[T, N]; factor: i32 = 7);\n"                                              \
    "model m(x: f32[T, N]) -> f32[T, N] {\n"                                                                           \
    "  a = silu(x);\n"                                                                                                 \
    "  b = clear(a) on side;\n"                                                                                        \
    "  c = silu(a * 2.0);\n"                                                                                           \
    "  return c + b;\n"                                                                                                \
    "}\n"

#define TWO_DIMS_TEXT                                                                                                  \
    "module two_dims;\n"                                                                                               \
    "const N = 64;\n"                                                                                                  \
    "dim B in 1..4 = 2;\n"                                                                                             \
    "dim T in 1..8 = 4;\n"                                                                                             \
    "model m(x: f32[B, T, N], y: f32[T, N]) -> (o: f32[B, T, N], q: f32[T, N]) {\n"                                    \
    "  weight w: f32[N];\n"                                                                                            \
    "  a = rmsnorm(x, w);\n"                                                                                           \
    "  b = silu(x) on side;\n"                                                                                         \
    "  q = silu(y) on side;\n"                                                                                         \
    "  return a + b, q;\n"                                                                                             \
    "}\n"

#define PRODUCTS_TEXT                                                                                                  \
    "module products;\n"                                                                                               \
    "const N = 64;\n"                                                                                                  \
    "dim T in 1..4 = 4;\n"                                                                                             \
    "model m(x: bf16[T, N]) -> (y: bf16[T, N], g: f32[T, 16]) {\n"                                                     \
    "  weight w1: bf16[2 * N, N];\n"                                                                                   \
    "  weight w2: bf16[N, N];\n"                                                                                       \
    "  weight wg: bf16[16, N];\n"                                                                                      \
    "  a = silu_mul(linear(x, w1));\n"                                                                                 \
    "  g = linear(x, wg, out = f32) on side;\n"                                                                        \
    "  return linear(a, w2) + linear(x, w2), g;\n"                                                                     \
    "}\n"

#define PROGRAMS                                                                                                       \
    {.name = "dual_stream_moe",                                                                                        \
     .defines = {"HIDDEN=256", "EXPERTS=16", "INTER=64", "LAYERS=3", "SETS=2"},                                        \
     .dims = {"T=4,1"}},                                                                                               \
        {.name = "dsa_indexer",                                                                                        \
         .defines = {"HIDDEN=256", "QRANK=128", "HEADS=2", "SLOTS=64", "LAYERS=2"},                                    \
         .dims = {"T=2,4"}},                                                                                           \
        {.name = "qkv_three_streams", .defines = {"HIDDEN=128", "LAYERS=3"}, .dims = {"T=1,4"}, .source = true},       \
        {.name = "inline_kernel", .defines = {"N=256"}, .dims = {"T=4"}},                                              \
        {.name = "piecewise", .defines = {"HIDDEN=128", "VOCAB=64"}, .dims = {"T=1,4"}},                               \
        {.name = "with_extern", .text = EXTERN_TEXT, .dims = {"T=2,4"}, .extern_name = "clear"},                       \
        {.name = "products", .text = PRODUCTS_TEXT, .dims = {"T=1,4"}, .matmul = STEM_MATMUL_CUBLASLT},                 \
        {.name = "two_dims", .text = TWO_DIMS_TEXT, .dims = {"B=1,3", "T=2,4"}},

#endif
