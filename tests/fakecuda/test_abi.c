/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in has every entry point that the runtime loads, and agrees with cuda.h where there is one.
 */
#include "config.h"

#include <dlfcn.h>

#include "runtime/cublaslt_abi.h"
#include "unit.h"

#define U(member) member
#include "abi_facts.h"

static void entry_points(void)
{
    static const char *const symbols[] = {
#define X(member, symbol, params) #symbol,
#include "runtime/driver.def"
#undef X
        "nvrtcGetErrorString", "nvrtcVersion",           "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs",
        "nvrtcCreateProgram",  "nvrtcDestroyProgram",    "nvrtcCompileProgram",       "nvrtcGetCUBINSize",
        "nvrtcGetCUBIN",       "nvrtcGetProgramLogSize", "nvrtcGetProgramLog",
#define X(member, symbol, result, params) #symbol,
        STEM_CUBLASLT_CALLS(X)
#undef X
    };
    void *lib = dlopen(STAND_IN, RTLD_NOW | RTLD_LOCAL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(lib);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        bool there = dlsym(lib, symbols[i]) != NULL;
        CU_ASSERT(there);
        if (!there)
            fprintf(stderr, "\nthe stand-in lacks %s\n", symbols[i]);
    }
    CU_ASSERT_PTR_NULL(dlsym(lib, "fc_begin")); /* its inside is hidden */
    dlclose(lib);
}

#if defined HAVE_CUDA_H && __has_include(<cublasLt.h>)
#include <cublasLt.h>

static void cublaslt(void)
{
    static const struct {
        const char *what;
        long long ours, theirs;
    } facts[] = {
        {"algorithm", sizeof(struct stem_blas_algo), sizeof(cublasLtMatmulAlgo_t)},
        {"heuristic", sizeof(struct stem_blas_heuristic), sizeof(cublasLtMatmulHeuristicResult_t)},
        {"heuristic.workspace", offsetof(struct stem_blas_heuristic, workspace),
         offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize)},
        {"heuristic.state", offsetof(struct stem_blas_heuristic, state), offsetof(cublasLtMatmulHeuristicResult_t, state)},
        {"status", sizeof(int), sizeof(cublasStatus_t)},
        {"data type", sizeof(int), sizeof(cudaDataType)},
        {"compute type", sizeof(int), sizeof(cublasComputeType_t)},
        {"bf16", STEM_BLAS_R_16BF, CUDA_R_16BF},
        {"f16", STEM_BLAS_R_16F, CUDA_R_16F},
        {"f32", STEM_BLAS_R_32F, CUDA_R_32F},
        {"f32 sums", STEM_BLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F},
        {"transposed", STEM_BLAS_OP_T, CUBLAS_OP_T},
        {"attribute transa", STEM_BLAS_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA},
        {"preference workspace", STEM_BLAS_PREF_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES},
        {"preference alignment of A", STEM_BLAS_PREF_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES},
        {"preference alignment of D", STEM_BLAS_PREF_ALIGN_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        CU_ASSERT_EQUAL(facts[i].ours, facts[i].theirs);
        if (facts[i].ours != facts[i].theirs)
            fprintf(stderr, "\n%s: %lld, but %lld in cublasLt.h\n", facts[i].what, facts[i].ours, facts[i].theirs);
    }
}
#else
static void cublaslt(void)
{
    CU_ASSERT(true); /* there is nothing to compare with */
}
#endif

#ifdef HAVE_CUDA_H
extern const struct abi_fact abi_ours[], abi_cuda[];

static void layouts(void)
{
    for (size_t i = 0; abi_ours[i].what || abi_cuda[i].what; i++) {
        CU_ASSERT_EQUAL_FATAL(!abi_ours[i].what, !abi_cuda[i].what);
        bool same = abi_ours[i].value == abi_cuda[i].value;
        CU_ASSERT(same);
        if (!same)
            fprintf(stderr, "\n%s: %lld, but %lld in cuda.h\n", abi_ours[i].what, abi_ours[i].value,
                    abi_cuda[i].value);
    }
}

UNIT_MAIN("stand-in: interface", {"entry points", entry_points}, {"layouts and values", layouts},
          {"cuBLASLt", cublaslt})
#else
UNIT_MAIN("stand-in: interface", {"entry points", entry_points}, {"cuBLASLt", cublaslt})
#endif
