/* SPDX-License-Identifier: Apache-2.0
 *
 * Initialisation, the one device, its primary context, modules, functions, launches and copies.
 */
#include "config.h" /* _GNU_SOURCE: dladdr */

#include "core.h"

#include <dlfcn.h>

/* ---- init and errors ---- */

FC_API CUresult cuInit(unsigned flags)
{
    FC_ENTER_AS(FC_NEED_NOTHING, "cuInit", "%u", flags);
    fc.inited = fc.inited || !flags;
    return fc_leave(flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

FC_API CUresult cuDriverGetVersion(int *version)
{
    FC_ENTER_AS(FC_NEED_NOTHING, "cuDriverGetVersion", "%s", "");
    if (version)
        *version = fc.driver_version;
    return fc_leave(version ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "invalid kernel image"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {CUDA_ERROR_LOSSY_QUERY, "CUDA_ERROR_LOSSY_QUERY", "the result would lose edge data"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted when capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier error in capture"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "would merge two captures"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture began in another stream"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "forked work is not joined"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency on uncaptured work"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "implicit dependency on legacy stream"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "event was last recorded in a capture"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "capture of another thread"},
    {CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "update not performed"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult error_text(CUresult error, const char **out, bool name)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == error)
            *out = name ? errors[i].name : errors[i].text;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* These two cannot fail on their own account: not counted. */
FC_API CUresult cuGetErrorName(CUresult error, const char **out)
{
    return error_text(error, out, true);
}

FC_API CUresult cuGetErrorString(CUresult error, const char **out)
{
    return error_text(error, out, false);
}

/* The newest version of an entry point that the stand-in has. */
FC_API CUresult cuGetProcAddress_v2(const char *symbol, void **fn, int version, uint64_t flags, int *found)
{
    FC_ENTER_AS(FC_NEED_NOTHING, "cuGetProcAddress", "%s %d %u", symbol ? symbol : "", version, (unsigned)flags);
    if (!symbol || !fn)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    static const char *const suffix[] = {"_v4", "_v3", "_v2", ""};
    Dl_info self;
    void *lib = dladdr((void *)(uintptr_t)&cuInit, &self) ? dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    *fn = NULL;
    for (size_t i = 0; lib && !*fn && i < 4; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", symbol, suffix[i]);
        *fn = dlsym(lib, name);
    }
    if (lib)
        dlclose(lib);
    if (found)
        *found = *fn ? 0 : 1;
    return fc_leave(*fn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

FC_API CUresult cuGetProcAddress(const char *symbol, void **fn, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, fn, version, flags, NULL);
}

/* ---- device ---- */

FC_API CUresult cuDeviceGetCount(int *n)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuDeviceGetCount", "%s", "");
    if (n)
        *n = 1;
    return fc_leave(n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FC_API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuDeviceGet", "%d", ordinal);
    if (!device)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *device = 0;
    return fc_leave(ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS);
}

FC_API CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuDeviceGetName", "%d", device);
    if (!name || len <= 0 || device)
        return fc_leave(device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)len, "stand-in driver");
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuDeviceTotalMem", "%d", device);
    if (!bytes || device)
        return fc_leave(device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    *bytes = fc.memory_limit;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    const struct {
        int attribute, value;
    } table[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, fc.arch / 10},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, fc.arch % 10},
        {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    };
    FC_ENTER_AS(FC_NEED_INIT, "cuDeviceGetAttribute", "%d %d", attribute, device);
    if (!value || device)
        return fc_leave(device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].attribute == attribute) {
            *value = table[i].value;
            return fc_leave(CUDA_SUCCESS);
        }
    *value = 0;
    return fc_leave(CUDA_SUCCESS);
}

/* ---- contexts ---- */

FC_API CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuDevicePrimaryCtxRetain", "%d", device);
    if (!ctx || device)
        return fc_leave(device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
    if (!fc.primary_refs++)
        fc.primary = fc_new(FC_CONTEXT, sizeof *fc.primary, NULL);
    *ctx = (CUcontext)fc.primary;
    return fc_leave(CUDA_SUCCESS);
}

static CUresult release(CUdevice device)
{
    if (device || !fc.primary_refs)
        return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_CONTEXT;
    if (--fc.primary_refs)
        return CUDA_SUCCESS;
    fc_sync_all();
    fc_kill(fc.primary);
    fc.primary = NULL;
    return CUDA_SUCCESS;
}

FC_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    FC_ENTER_RELEASE_AS(FC_NEED_INIT, "cuDevicePrimaryCtxRelease", "%d", device);
    FC_LEAVE_RELEASE(release(device));
}

FC_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuDevicePrimaryCtxGetState", "%d", device);
    if (!flags || !active || device)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = 0;
    *active = fc.primary_refs > 0;
    return fc_leave(CUDA_SUCCESS);
}

static CUresult push(struct fc_thread *t, CUcontext ctx)
{
    if (ctx && !fc_get(ctx, FC_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (t->depth == sizeof t->current / sizeof t->current[0])
        return CUDA_ERROR_INVALID_VALUE;
    t->current[t->depth++] = (struct fc_object *)ctx;
    return CUDA_SUCCESS;
}

FC_API CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuCtxPushCurrent", "%s", fc_str(ctx, FC_CONTEXT));
    return fc_leave(ctx ? push(fc_thread(), ctx) : CUDA_ERROR_INVALID_CONTEXT);
}

FC_API CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
    FC_ENTER_RELEASE_AS(FC_NEED_INIT, "cuCtxPopCurrent", "%s", "");
    struct fc_thread *t = fc_thread();
    if (!t->depth)
        FC_LEAVE_RELEASE(CUDA_ERROR_INVALID_CONTEXT);
    struct fc_object *o = t->current[--t->depth];
    if (ctx)
        *ctx = (CUcontext)o;
    FC_LEAVE_RELEASE(CUDA_SUCCESS);
}

FC_API CUresult cuCtxSetCurrent(CUcontext ctx)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuCtxSetCurrent", "%s", fc_str(ctx, FC_CONTEXT));
    struct fc_thread *t = fc_thread();
    if (ctx && !fc_get(ctx, FC_CONTEXT))
        return fc_leave(CUDA_ERROR_INVALID_CONTEXT);
    t->depth -= t->depth > 0;
    return fc_leave(ctx ? push(t, ctx) : CUDA_SUCCESS);
}

FC_API CUresult cuCtxGetCurrent(CUcontext *ctx)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuCtxGetCurrent", "%s", "");
    const struct fc_thread *t = fc_thread();
    if (!ctx)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *ctx = t->depth ? (CUcontext)t->current[t->depth - 1] : NULL;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuCtxGetDevice(CUdevice *device)
{
    FC_ENTER("cuCtxGetDevice", "%s", "");
    if (device)
        *device = 0;
    return fc_leave(device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FC_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    FC_ENTER("cuCtxGetStreamPriorityRange", "%s", "");
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuCtxSynchronize(void)
{
    FC_ENTER_RELEASE("cuCtxSynchronize", "%s", "");
    CUresult err = fc_gate_context();
    if (!err)
        fc_sync_all();
    FC_LEAVE_RELEASE(err ? err : fc.sticky);
}
