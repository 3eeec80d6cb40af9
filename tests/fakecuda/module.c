/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules, functions, launches, copies and sets.
 */
#include "core.h"

static void module_dispose(void *self)
{
    struct fc_module *m = self;
    FC_FREE(&m->functions);
}

/* A cubin (ELF) or what the stand-in's own compiler makes; which kernels are in it is not looked at. */
static bool image_ok(const void *image)
{
    return image && (memcmp(image,
                            "\x7f"
                            "ELF",
                            4) == 0 ||
                     memcmp(image, "fakecubin", 9) == 0);
}

/* What the stand-in's compiler makes says what it was made for; it runs on that and on later minor versions. */
static bool arch_ok(const char *image)
{
    int sm = 0;
    return sscanf(image, "fakecubin sm_%d\n", &sm) != 1 || (sm / 10 == fc.arch / 10 && sm <= fc.arch);
}

static CUresult load(CUmodule *out, const void *image)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult err = fc_gate_unsafe();
    if (err)
        return err;
    if (!image_ok(image))
        return CUDA_ERROR_INVALID_IMAGE;
    if (!arch_ok(image))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *out = (CUmodule)fc_new(FC_MODULE, sizeof(struct fc_module), module_dispose);
    return CUDA_SUCCESS;
}

FC_API CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    FC_ENTER("cuModuleLoadData", "%s", "");
    return fc_leave(load(out, image));
}

FC_API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options, void **values)
{
    FC_ENTER("cuModuleLoadDataEx", "%u", n);
    return fc_leave(n && (!options || !values) ? CUDA_ERROR_INVALID_VALUE : load(out, image));
}

static CUresult unload(struct fc_module *m)
{
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult err = fc_gate_unsafe();
    if (err)
        return err;
    if (fc_pending_module(m))
        fakecuda_fault("module#%u is unloaded while a kernel of it is pending", m->o.id);
    for (size_t i = 0; i < m->functions.len; i++)
        fc_kill(m->functions.at[i]);
    fc_kill(m);
    return CUDA_SUCCESS;
}

FC_API CUresult cuModuleUnload(CUmodule module)
{
    FC_ENTER_RELEASE("cuModuleUnload", "%s", fc_str(module, FC_MODULE));
    FC_LEAVE_RELEASE(unload(fc_get(module, FC_MODULE)));
}

static CUresult get_function(CUfunction *out, struct fc_module *m, const char *name)
{
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    struct fc_kernel *k = fc_kernel_find(name);
    if (!k)
        return CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; i < m->functions.len; i++)
        if (m->functions.at[i]->kernel == k) {
            *out = (CUfunction)m->functions.at[i];
            return CUDA_SUCCESS;
        }
    struct fc_function *f = fc_new(FC_FUNCTION, sizeof *f, NULL);
    f->module = m;
    f->kernel = k;
    FC_PUSH(&m->functions, f);
    *out = (CUfunction)f;
    return CUDA_SUCCESS;
}

FC_API CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    FC_ENTER("cuModuleGetFunction", "%s %s", fc_str(module, FC_MODULE), name ? name : "");
    return fc_leave(get_function(out, fc_get(module, FC_MODULE), name));
}

FC_API CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    FC_ENTER("cuFuncSetAttribute", "%s %d %d", fc_str(function, FC_FUNCTION), attribute, value);
    struct fc_function *f = fc_get(function, FC_FUNCTION);
    if (!f)
        return fc_leave(CUDA_ERROR_INVALID_HANDLE);
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT && (value < -1 || value > 100))
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    if ((value < 0 && attribute != CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) ||
        (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value > 227 << 10))
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        f->max_smem = (uint32_t)value;
    return fc_leave(CUDA_SUCCESS);
}

/* Loading lazily may need what a capture forbids. */
FC_API CUresult cuFuncLoad(CUfunction function)
{
    FC_ENTER("cuFuncLoad", "%s", fc_str(function, FC_FUNCTION));
    if (!fc_get(function, FC_FUNCTION))
        return fc_leave(CUDA_ERROR_INVALID_HANDLE);
    return fc_leave(fc_gate_unsafe());
}

FC_API CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    FC_ENTER("cuFuncGetAttribute", "%s %d", fc_str(function, FC_FUNCTION), attribute);
    const struct fc_function *f = fc_get(function, FC_FUNCTION);
    if (!f || !value)
        return fc_leave(f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? (int)f->max_smem : attribute ? 0 : FC_STATIC_SMEM;
    return fc_leave(CUDA_SUCCESS);
}

/* ---- launches ---- */

static CUresult launch(struct fc_launch *l, struct fc_stream *s, void **params, void **extra)
{
    if (!l->function || !s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult err = fc_gate_stream(s);
    if (!err)
        err = fc_launch_check(l, params, extra);
    if (err)
        return err;
    fc_launch_params(l, params);
    struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .u.launch = *l};
    return fc_issue(s, &w, NULL);
}

static const char *kernel_name(CUfunction function)
{
    const struct fc_function *f = fc_get(function, FC_FUNCTION);
    return f ? f->kernel->name : "?";
}

FC_API CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned smem, CUstream stream, void **params, void **extra)
{
    FC_ENTER("cuLaunchKernel", "%s %s", kernel_name(function), fc_str(stream, FC_STREAM));
    struct fc_stream *s = fc_stream_get(stream);
    struct fc_launch l = {.function = fc_get(function, FC_FUNCTION),
                          .grid = {gx, gy, gz},
                          .block = {bx, by, bz},
                          .smem = smem,
                          .priority = s ? s->priority : 0};
    return fc_leave(launch(&l, s, params, extra));
}

static CUresult attributes(struct fc_launch *l, const CUlaunchConfig *c)
{
    if (c->numAttrs && !c->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttribute *a = &c->attrs[i];
        switch (a->id) {
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            l->programmatic = a->value.programmaticStreamSerializationAllowed != 0;
            if (fc.arch < 90)
                return CUDA_ERROR_NOT_SUPPORTED;
            break;
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            l->priority = a->value.priority;
            break;
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            break;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

FC_API CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra)
{
    FC_ENTER("cuLaunchKernelEx", "%s %s", kernel_name(function), c ? fc_str(c->hStream, FC_STREAM) : "");
    if (!c)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    struct fc_stream *s = fc_stream_get(c->hStream);
    struct fc_launch l = {.function = fc_get(function, FC_FUNCTION),
                          .grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                          .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                          .smem = c->sharedMemBytes,
                          .priority = s ? s->priority : 0};
    CUresult err = attributes(&l, c);
    return fc_leave(err ? err : launch(&l, s, params, extra));
}

/* ---- copies and sets ---- */

static CUDA_MEMCPY3D linear(unsigned dst_type, uintptr_t dst, unsigned src_type, uintptr_t src, size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = src_type,
                           .srcHost = (const void *)src,
                           .srcDevice = src,
                           .srcPitch = bytes,
                           .dstMemoryType = dst_type,
                           .dstHost = (void *)dst,
                           .dstDevice = dst,
                           .dstPitch = bytes,
                           .WidthInBytes = bytes,
                           .Height = 1,
                           .Depth = 1};
}

/* A synchronous call is work in the legacy stream, and a potentially unsafe one. */
static CUresult issue_sync(struct fc_work *w)
{
    CUresult err = fc_gate_unsafe();
    if (!err)
        err = fc_issue(fc_legacy(), w, NULL);
    return err ? err : fc_sync_stream(fc_legacy());
}

static CUresult copy(CUDA_MEMCPY3D p, struct fc_stream *s, bool sync)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!p.WidthInBytes)
        return CUDA_SUCCESS;
    if (!p.srcHost || !p.dstHost)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult err = fc_copy_check(&p);
    if (err)
        return err;
    struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .u.copy = {p, true}};
    return sync ? issue_sync(&w) : fc_issue(s, &w, NULL);
}

enum { HOST = CU_MEMORYTYPE_HOST, DEVICE = CU_MEMORYTYPE_DEVICE, ANY = CU_MEMORYTYPE_UNIFIED };

FC_API CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
    FC_ENTER("cuMemcpyHtoD", "%s %zu", fc_ptr(dst), bytes);
    return fc_leave(copy(linear(DEVICE, dst, HOST, (uintptr_t)src, bytes), fc_legacy(), true));
}

FC_API CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
    FC_ENTER("cuMemcpyDtoH", "%s %zu", fc_ptr(src), bytes);
    return fc_leave(copy(linear(HOST, (uintptr_t)dst, DEVICE, src, bytes), fc_legacy(), true));
}

FC_API CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    FC_ENTER("cuMemcpyDtoD", "%s %s %zu", fc_ptr(dst), fc_ptr(src), bytes);
    return fc_leave(copy(linear(DEVICE, dst, DEVICE, src, bytes), fc_legacy(), true));
}

FC_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    FC_ENTER("cuMemcpy", "%s %s %zu", fc_ptr(dst), fc_ptr(src), bytes);
    return fc_leave(copy(linear(ANY, dst, ANY, src, bytes), fc_legacy(), true));
}

FC_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    FC_ENTER("cuMemcpyHtoDAsync", "%s %zu %s", fc_ptr(dst), bytes, fc_str(stream, FC_STREAM));
    return fc_leave(copy(linear(DEVICE, dst, HOST, (uintptr_t)src, bytes), fc_stream_get(stream), false));
}

FC_API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    FC_ENTER("cuMemcpyDtoHAsync", "%s %zu %s", fc_ptr(src), bytes, fc_str(stream, FC_STREAM));
    return fc_leave(copy(linear(HOST, (uintptr_t)dst, DEVICE, src, bytes), fc_stream_get(stream), false));
}

FC_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    FC_ENTER("cuMemcpyDtoDAsync", "%s %s %zu %s", fc_ptr(dst), fc_ptr(src), bytes, fc_str(stream, FC_STREAM));
    return fc_leave(copy(linear(DEVICE, dst, DEVICE, src, bytes), fc_stream_get(stream), false));
}

FC_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    FC_ENTER("cuMemcpyAsync", "%s %s %zu %s", fc_ptr(dst), fc_ptr(src), bytes, fc_str(stream, FC_STREAM));
    return fc_leave(copy(linear(ANY, dst, ANY, src, bytes), fc_stream_get(stream), false));
}

static CUresult set(CUdeviceptr dst, unsigned value, unsigned size, size_t n, struct fc_stream *s, bool sync)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!n)
        return CUDA_SUCCESS;
    if (!dst || dst % size)
        return CUDA_ERROR_INVALID_VALUE;
    struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .u.set = {dst, n * size, value, size, n, 1}};
    return sync ? issue_sync(&w) : fc_issue(s, &w, NULL);
}

FC_API CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
    FC_ENTER("cuMemsetD8", "%s %u %zu", fc_ptr(dst), value, n);
    return fc_leave(set(dst, value, 1, n, fc_legacy(), true));
}

FC_API CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t n)
{
    FC_ENTER("cuMemsetD32", "%s %u %zu", fc_ptr(dst), value, n);
    return fc_leave(set(dst, value, 4, n, fc_legacy(), true));
}

FC_API CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
    FC_ENTER("cuMemsetD8Async", "%s %u %zu %s", fc_ptr(dst), value, n, fc_str(stream, FC_STREAM));
    return fc_leave(set(dst, value, 1, n, fc_stream_get(stream), false));
}

FC_API CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
    FC_ENTER("cuMemsetD16Async", "%s %u %zu %s", fc_ptr(dst), value, n, fc_str(stream, FC_STREAM));
    return fc_leave(set(dst, value, 2, n, fc_stream_get(stream), false));
}

FC_API CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream)
{
    FC_ENTER("cuMemsetD32Async", "%s %u %zu %s", fc_ptr(dst), value, n, fc_str(stream, FC_STREAM));
    return fc_leave(set(dst, value, 4, n, fc_stream_get(stream), false));
}
