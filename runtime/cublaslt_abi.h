/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of cuBLASLt (12 and 13, 64 bit) that matrix products use: entry points, two structs, a few numbers. A test
 * compares all of it with <cublasLt.h> where a toolkit is found. Each function returns a cublasStatus_t as int unless
 * it says otherwise; descriptors are opaque.
 */
#ifndef STEM_RUNTIME_CUBLASLT_ABI_H
#define STEM_RUNTIME_CUBLASLT_ABI_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

enum {
    STEM_BLAS_R_32F = 0, /* cudaDataType */
    STEM_BLAS_R_16F = 2,
    STEM_BLAS_R_16BF = 14,
    STEM_BLAS_COMPUTE_32F = 68,
    STEM_BLAS_OP_T = 1,
    STEM_BLAS_DESC_TRANSA = 3,
    STEM_BLAS_PREF_MAX_WORKSPACE = 1, /* uint64_t */
    STEM_BLAS_PREF_ALIGN_A = 5,       /* uint32_t, bytes; B, C and D follow */
};

struct stem_blas_algo {
    uint64_t data[8];
};

struct stem_blas_heuristic {
    struct stem_blas_algo algo;
    size_t workspace; /* bytes that it needs */
    int state;        /* 0: the rest is valid */
    float waves;
    int reserved[4];
};

/* X(member, exported symbol, result, parameters) */
#define STEM_CUBLASLT_CALLS(X)                                                                                       \
    X(version, cublasLtGetVersion, size_t, (void))                                                                   \
    X(status_name, cublasLtGetStatusName, const char *, (int status))                                                \
    X(create, cublasLtCreate, int, (void **handle))                                                                  \
    X(destroy, cublasLtDestroy, int, (void *handle))                                                                 \
    X(desc_create, cublasLtMatmulDescCreate, int, (void **desc, int compute_type, int scale_type))                   \
    X(desc_set, cublasLtMatmulDescSetAttribute, int, (void *desc, int attribute, const void *value, size_t bytes))   \
    X(desc_destroy, cublasLtMatmulDescDestroy, int, (void *desc))                                                    \
    X(layout_create, cublasLtMatrixLayoutCreate, int,                                                                \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride))                                    \
    X(layout_destroy, cublasLtMatrixLayoutDestroy, int, (void *layout))                                              \
    X(pref_create, cublasLtMatmulPreferenceCreate, int, (void **preference))                                         \
    X(pref_set, cublasLtMatmulPreferenceSetAttribute, int,                                                           \
      (void *preference, int attribute, const void *value, size_t bytes))                                            \
    X(pref_destroy, cublasLtMatmulPreferenceDestroy, int, (void *preference))                                        \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic, int,                                                                \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,                   \
       struct stem_blas_heuristic *results, int *n))                                                                 \
    X(matmul, cublasLtMatmul, int,                                                                                   \
      (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,    \
       const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const struct stem_blas_algo *algo,  \
       void *workspace, size_t workspace_bytes, struct CUstream_st *stream))

#endif
