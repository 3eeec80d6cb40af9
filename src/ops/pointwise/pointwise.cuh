/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of pointwise expressions. Every operation is rounded by itself (the _rn intrinsics are never
 * contracted), so an expression gives the same bits whether it is computed in one kernel or in several.
 */
#ifndef STEM_OPS_POINTWISE_CUH
#define STEM_OPS_POINTWISE_CUH

__device__ __forceinline__ float stem_fn_add(float x, float y) { return __fadd_rn(x, y); }
__device__ __forceinline__ float stem_fn_sub(float x, float y) { return __fsub_rn(x, y); }
__device__ __forceinline__ float stem_fn_mul(float x, float y) { return __fmul_rn(x, y); }
__device__ __forceinline__ float stem_fn_div(float x, float y) { return __fdiv_rn(x, y); }
/* NaN wins. */
__device__ __forceinline__ float stem_fn_min(float x, float y) { return x < y || x != x ? x : y; }
__device__ __forceinline__ float stem_fn_max(float x, float y) { return x > y || x != x ? x : y; }

__device__ __forceinline__ float stem_fn_neg(float x) { return -x; }
__device__ __forceinline__ float stem_fn_abs(float x) { return fabsf(x); }
__device__ __forceinline__ float stem_fn_relu(float x) { return x > 0.0f || x != x ? x : 0.0f; }
__device__ __forceinline__ float stem_fn_sqrt(float x) { return __fsqrt_rn(x); }
__device__ __forceinline__ float stem_fn_rsqrt(float x) { return __frsqrt_rn(x); }
__device__ __forceinline__ float stem_fn_exp(float x) { return expf(x); }
__device__ __forceinline__ float stem_fn_log(float x) { return logf(x); }
__device__ __forceinline__ float stem_fn_tanh(float x) { return tanhf(x); }
__device__ __forceinline__ float stem_fn_sigmoid(float x) { return __fdiv_rn(1.0f, __fadd_rn(1.0f, expf(-x))); }
__device__ __forceinline__ float stem_fn_silu(float x) { return __fdiv_rn(x, __fadd_rn(1.0f, expf(-x))); }

__device__ __forceinline__ float stem_fn_gelu(float x)
{
    return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, erff(__fmul_rn(x, 0.707106781f))));
}

__device__ __forceinline__ float stem_fn_gelu_tanh(float x)
{
    float cube = __fmul_rn(__fmul_rn(__fmul_rn(0.044715f, x), x), x);
    return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, tanhf(__fmul_rn(0.797884561f, __fadd_rn(x, cube)))));
}

#endif
