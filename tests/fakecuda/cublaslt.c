/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for cuBLASLt, in the same shared object as the driver, which it calls as the library does. Its algorithms
 * are what fakecuda_cublaslt says: a digit is a chain of so many kernels, of which the first sums into the workspace and the
 * last, launched programmatically, brings the result to its place; 'm' clears the workspace first, with a memset; 'x' fails
 * when it is called. The kernels are executed by the runner.
 */
#include "core.h"

#include "runtime/cublaslt_abi.h"

#define X(member, symbol, result, params) result symbol params;
STEM_CUBLASLT_CALLS(X)
#undef X

enum { NOT_SUPPORTED = 15, INVALID = 7, FAILED = 13 };

struct blas { /* a handle, or a descriptor */
    struct fc_object o;
    CUmodule module;
    CUfunction kernel[2];
    uint64_t rows, columns;
    int64_t type;
    size_t workspace;
    bool transposed;
};

static char algorithms[16] = "21";

void fakecuda_cublaslt(const char *list)
{
    fc_lock();
    snprintf(algorithms, sizeof algorithms, "%s", list);
    fc_unlock();
}

FC_API size_t cublasLtGetVersion(void)
{
    return 130000;
}

FC_API const char *cublasLtGetStatusName(int status)
{
    return status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : status == INVALID ? "CUBLAS_STATUS_INVALID_VALUE"
                                                                                         : "CUBLAS_STATUS_EXECUTION_FAILED";
}

static int new_object(void **out)
{
    *out = fc_new(FC_BLAS, sizeof(struct blas), NULL);
    return 0;
}

static int make_handle(void **out)
{
    static const size_t sizes[] = {8, 8, 8, 8, 4, 4, 4, 4, 4};
    static const char *const names[] = {"cublaslt_sum", "cublaslt_end"};
    struct blas b = {0};
    if (cuModuleLoadData(&b.module, "fakecubin"))
        return FAILED;
    for (int i = 0; i < 2; i++) {
        fakecuda_define_kernel(names[i], sizeof sizes / sizeof *sizes, sizes);
        fakecuda_kernel_waits(names[i], true);
        if (cuModuleGetFunction(&b.kernel[i], b.module, names[i])) {
            cuModuleUnload(b.module);
            return FAILED;
        }
    }
    new_object(out);
    struct blas *h = *out;
    h->module = b.module;
    memcpy(h->kernel, b.kernel, sizeof b.kernel);
    return 0;
}

FC_API int cublasLtCreate(void **handle)
{
    FC_ENTER("cublasLtCreate", "%s", "");
    return fc_leave((CUresult)(handle ? make_handle(handle) : INVALID));
}

FC_API int cublasLtDestroy(void *handle)
{
    FC_ENTER_RELEASE("cublasLtDestroy", "%s", fc_str(handle, FC_BLAS));
    struct blas *h = fc_get(handle, FC_BLAS);
    if (h) {
        fakecuda_own(true);
        cuModuleUnload(h->module);
        fakecuda_own(false);
        fc_kill(h);
    }
    FC_LEAVE_RELEASE(h ? CUDA_SUCCESS : (CUresult)INVALID);
}

#define CREATE(name, ...)                                                                                            \
    FC_API int name(void **out, ##__VA_ARGS__)                                                                       \
    {                                                                                                                \
        FC_ENTER(#name, "%s", "");                                                                                   \
        return fc_leave((CUresult)new_object(out));                                                                  \
    }
#define DESTROY(name)                                                                                                \
    FC_API int name(void *object)                                                                                    \
    {                                                                                                                \
        FC_ENTER_RELEASE(#name, "%s", fc_str(object, FC_BLAS));                                                      \
        struct blas *b = fc_get(object, FC_BLAS);                                                                    \
        if (b)                                                                                                       \
            fc_kill(b);                                                                                              \
        FC_LEAVE_RELEASE(b ? CUDA_SUCCESS : (CUresult)INVALID);                                                      \
    }

CREATE(cublasLtMatmulPreferenceCreate)
DESTROY(cublasLtMatmulPreferenceDestroy)
DESTROY(cublasLtMatmulDescDestroy)
DESTROY(cublasLtMatrixLayoutDestroy)

FC_API int cublasLtMatmulDescCreate(void **out, int compute, int scale)
{
    FC_ENTER("cublasLtMatmulDescCreate", "%d %d", compute, scale);
    return fc_leave((CUresult)(compute == STEM_BLAS_COMPUTE_32F && scale == STEM_BLAS_R_32F ? new_object(out) : INVALID));
}

FC_API int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes)
{
    FC_ENTER("cublasLtMatmulDescSetAttribute", "%s %d", fc_str(desc, FC_BLAS), attribute);
    struct blas *b = fc_get(desc, FC_BLAS);
    if (!b || attribute != STEM_BLAS_DESC_TRANSA || bytes != sizeof(int32_t))
        return fc_leave((CUresult)INVALID);
    b->transposed = *(const int32_t *)value == STEM_BLAS_OP_T;
    return fc_leave(CUDA_SUCCESS);
}

FC_API int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    FC_ENTER("cublasLtMatrixLayoutCreate", "%d %llu %llu", type, (unsigned long long)rows, (unsigned long long)columns);
    if (stride != (int64_t)rows)
        return fc_leave((CUresult)INVALID);
    new_object(out);
    struct blas *b = *out;
    b->type = type;
    b->rows = rows;
    b->columns = columns;
    return fc_leave(CUDA_SUCCESS);
}

FC_API int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes)
{
    FC_ENTER("cublasLtMatmulPreferenceSetAttribute", "%s %d", fc_str(preference, FC_BLAS), attribute);
    struct blas *b = fc_get(preference, FC_BLAS);
    bool workspace = attribute == STEM_BLAS_PREF_MAX_WORKSPACE;
    if (!b || bytes != (workspace ? sizeof(uint64_t) : sizeof(uint32_t)))
        return fc_leave((CUresult)INVALID);
    if (workspace)
        b->workspace = *(const uint64_t *)value;
    return fc_leave(CUDA_SUCCESS);
}

FC_API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                                          int wanted, struct stem_blas_heuristic *results, int *n)
{
    FC_ENTER("cublasLtMatmulAlgoGetHeuristic", "%s %d", fc_str(handle, FC_BLAS), wanted);
    const void *all[] = {handle, desc, a, b, c, d, preference};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!fc_get(all[i], FC_BLAS))
            return fc_leave((CUresult)INVALID);
    if (!algorithms[0])
        return fc_leave((CUresult)NOT_SUPPORTED);
    *n = 0;
    for (const char *at = algorithms; *at && *n < wanted; at++)
        results[(*n)++] = (struct stem_blas_heuristic){.algo = {{(unsigned char)*at}}, .state = *at == '0' ? NOT_SUPPORTED : 0};
    return fc_leave(CUDA_SUCCESS);
}

static int launch(const struct blas *h, bool last, bool programmatic, void **params, CUstream stream)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 384, .blockDimY = 1, .blockDimZ = 1,
                             .hStream = stream, .attrs = &early, .numAttrs = programmatic && fc.arch >= 90};
    return cuLaunchKernelEx(&config, h->kernel[last], params, NULL) ? FAILED : 0;
}

FC_API int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
                          void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                          const struct stem_blas_algo *algo, void *workspace, size_t bytes, struct CUstream_st *stream)
{
    FC_ENTER("cublasLtMatmul", "%s %s", fc_str(handle, FC_BLAS), fc_str(stream, FC_STREAM));
    const struct blas *h = fc_get(handle, FC_BLAS), *op = fc_get(desc, FC_BLAS), *w = fc_get(a_layout, FC_BLAS),
                      *x = fc_get(b_layout, FC_BLAS), *y = fc_get(d_layout, FC_BLAS);
    int m = x ? (int)x->columns : 0, n = w ? (int)w->columns : 0, k = w ? (int)w->rows : 0;
    bool fine = h && op && w && x && y && op->transposed && *(const float *)alpha == 1 && *(const float *)beta == 0 && c == d &&
                c_layout == d_layout && x->rows == w->rows && y->rows == w->columns && y->columns == x->columns;
    if (!fine)
        return fc_leave((CUresult)INVALID);
    int in = (int)w->type, out = (int)y->type, kernels = (int)algo->data[0] - '0', code = 0;
    if (algo->data[0] == 'x')
        return fc_leave((CUresult)FAILED);
    if (algo->data[0] == 'm') {
        kernels = 1;
        code = cuMemsetD8Async((CUdeviceptr)(uintptr_t)workspace, 0, bytes, stream) ? FAILED : 0;
    }
    void *target = kernels > 1 ? workspace : d;
    for (int i = 0; i < kernels && !code; i++) {
        bool last = i && i + 1 == kernels;
        void *to = last ? d : target;
        void *params[] = {&b, &a, &to, &workspace, &m, &n, &k, &in, &out};
        code = launch(h, last, i > 0, params, stream);
    }
    return fc_leave((CUresult)code);
}
