/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in driver's streams, events, memory, modules and injected failures.
 */
#include "lib.h"

#include <pthread.h>
#include <stdlib.h>

enum { SEEDS = 40 };

/* Work in one stream keeps its order whatever the seed. */
static void one_stream_is_in_order(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lib l = lib_open();
        fakecuda_seed(seed);
        CUstream s = lib_stream();
        CUdeviceptr p = lib_ints(2);
        OK(lib_set(l.set, p, 3, s));
        OK(lib_set(l.set, p + 4, 5, s));
        OK(lib_add(l.add, p, p + 4, s));
        OK(lib_add(l.add, p, p, s));
        CU_ASSERT_EQUAL(fakecuda_counts().pending, 4);
        OK(cuStreamSynchronize(s));
        CU_ASSERT_EQUAL(lib_peek(p), 16);
        OK(cuStreamDestroy_v2(s));
        OK(cuMemFree_v2(p));
        lib_close(&l);
    }
}

/* Two streams that write one cell: with an event always the same result, without it both results occur. */
static unsigned race(bool with_event)
{
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lib l = lib_open();
        fakecuda_seed(seed);
        CUstream a = lib_stream(), b = lib_stream();
        CUevent e = lib_event();
        CUdeviceptr p = lib_ints(1);
        OK(lib_set(l.set, p, 1, a));
        OK(cuEventRecord(e, a));
        if (with_event)
            OK(cuStreamWaitEvent(b, e, 0));
        OK(lib_set(l.set, p, 2, b));
        OK(cuCtxSynchronize());
        seen |= (unsigned)lib_peek(p);
        OK(cuStreamDestroy_v2(a));
        OK(cuStreamDestroy_v2(b));
        OK(cuEventDestroy_v2(e));
        OK(cuMemFree_v2(p));
        lib_close(&l);
    }
    return seen;
}

static void events_order_streams(void)
{
    CU_ASSERT_EQUAL(race(true), 2);
    CU_ASSERT_EQUAL(race(false), 3);
}

/* The legacy stream orders blocking streams; a non-blocking one is left alone. */
static void legacy_stream(void)
{
    static const struct {
        unsigned flags, seen;
    } rows[] = {{CU_STREAM_DEFAULT, 2}, {CU_STREAM_NON_BLOCKING, 3}};
    for (size_t r = 0; r < 2; r++) {
        unsigned seen = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct lib l = lib_open();
            fakecuda_seed(seed);
            CUstream a;
            CUdeviceptr p = lib_ints(1);
            OK(cuStreamCreate(&a, rows[r].flags));
            OK(lib_set(l.set, p, 1, seed % 2 ? a : NULL));
            OK(lib_set(l.set, p, 2, seed % 2 ? NULL : a));
            OK(cuCtxSynchronize());
            seen |= (unsigned)lib_peek(p);
            OK(cuStreamDestroy_v2(a));
            OK(cuMemFree_v2(p));
            lib_close(&l);
        }
        CU_ASSERT_EQUAL(seen, rows[r].seen);
    }
}

/* A wait takes what the event stood for when it was recorded, and later records do not change it. */
static void events_are_snapshots(void)
{
    struct lib l = lib_open();
    fakecuda_set_order(FAKECUDA_LAST);
    CUstream a = lib_stream(), b = lib_stream();
    CUevent e = lib_event();
    CUdeviceptr p = lib_ints(1);
    OK(cuEventRecord(e, a)); /* nothing before it */
    OK(cuStreamWaitEvent(b, e, 0));
    OK(lib_set(l.set, p, 1, a));
    OK(cuEventRecord(e, a));
    OK(lib_set(l.set, p, 2, b));
    OK(cuCtxSynchronize()); /* the last issued first: b's kernel, then a's */
    CU_ASSERT_EQUAL(lib_peek(p), 1);
    OK(cuEventQuery(e));
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
    OK(cuEventDestroy_v2(e));
    OK(cuMemFree_v2(p));
    lib_close(&l);
}

/* A programmatic launch orders only if the kernel waits in its code. */
static void programmatic_launches(void)
{
    for (int waits = 0; waits < 2; waits++) {
        unsigned seen = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct lib l = lib_open();
            fakecuda_seed(seed);
            fakecuda_kernel_waits("add", waits);
            CUstream s = lib_stream();
            CUdeviceptr p = lib_ints(2);
            OK(cuMemsetD32Async(p, 1, 2, s));
            OK(lib_set(l.set, p + 4, 2, s));
            OK(lib_add_programmatic(l.add, p, p + 4, s));
            OK(cuStreamSynchronize(s));
            seen |= (unsigned)lib_peek(p); /* 3, or 2 if it ran early */
            OK(cuStreamDestroy_v2(s));
            OK(cuMemFree_v2(p));
            lib_close(&l);
        }
        CU_ASSERT_EQUAL(seen, waits ? 3U : 3U | 2U);
    }
}

static void stream_ordered_memory(void)
{
    struct lib l = lib_open();
    CUstream s = lib_stream(), t = lib_stream();
    CUdeviceptr p = 0, q = 0;
    OK(cuMemAllocAsync(&p, 64, s));
    OK(lib_set(l.set, p, 7, s));
    OK(cuStreamSynchronize(s));
    CU_ASSERT_EQUAL(lib_peek(p), 7);
    OK(cuMemFreeAsync(p, s));
    CU_ASSERT_EQUAL(fakecuda_counts().allocations, 0);
    OK(cuStreamSynchronize(s));
    CU_ASSERT_EQUAL(lib_peek(p), -1); /* poisoned */
    FAILS(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    CU_ASSERT_EQUAL(fakecuda_counts().faults, 1);

    /* Used in another stream that nothing orders after the allocation. */
    fakecuda_set_order(FAKECUDA_LAST);
    OK(cuMemAllocAsync(&q, 64, s));
    OK(lib_set(l.set, q, 7, t));
    FAILS(cuStreamSynchronize(t), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU_ASSERT_PTR_NOT_NULL(strstr(fakecuda_faults(), "allocation has not executed"));
    FAILS(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS); /* the context is lost */
    fakecuda_reset();
}

/* Each row: what is done to 64 bytes of memory, and what the driver then reports. */
static void memory_faults(void)
{
    static const struct {
        const char *what;
        CUresult expected;
        const char *fault;
    } rows[] = {
        {"set after free", CUDA_ERROR_ILLEGAL_ADDRESS, "is freed memory"},
        {"kernel after free", CUDA_ERROR_ILLEGAL_ADDRESS, "kernel set, parameter 0"},
        {"set too long", CUDA_ERROR_ILLEGAL_ADDRESS, "out of bounds"},
        {"set of foreign memory", CUDA_ERROR_ILLEGAL_ADDRESS, "not device memory"},
        {"copy of host memory as device memory", CUDA_ERROR_ILLEGAL_ADDRESS, "not device memory"},
        {"double free", CUDA_ERROR_INVALID_VALUE, "not allocated"},
        {"free inside", CUDA_ERROR_INVALID_VALUE, "not allocated"},
        {"guard zone", CUDA_SUCCESS, "outside of its bounds"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct lib l = lib_open();
        CUstream s = lib_stream();
        CUdeviceptr p = lib_ints(16);
        char host[64] = {0};
        CUresult err = CUDA_SUCCESS;
        if (i < 2 || i == 5)
            OK(cuMemFree_v2(p));
        if (i == 0)
            OK(cuMemsetD8Async(p, 0, 64, s));
        if (i == 1)
            OK(lib_set(l.set, p, 1, s));
        if (i == 2)
            OK(cuMemsetD8Async(p, 0, 65, s));
        if (i == 3)
            OK(cuMemsetD8Async((uintptr_t)host, 0, 64, s));
        if (i == 4)
            OK(cuMemcpyDtoDAsync_v2(p, (uintptr_t)host, 64, s));
        if (i == 5 || i == 6)
            err = cuMemFree_v2(p + (i == 6 ? 16 : 0));
        if (i == 7)
            *(char *)(uintptr_t)(p + 64) = 0;
        CUresult sync = cuStreamSynchronize(s);
        CU_ASSERT_EQUAL(err ? err : sync, rows[i].expected);
        CU_ASSERT_EQUAL(fakecuda_counts().faults, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(fakecuda_faults(), rows[i].fault));
        if (!strstr(fakecuda_faults(), rows[i].fault))
            fprintf(stderr, "\n%s: %s\n", rows[i].what, fakecuda_faults());
    }
    fakecuda_reset();
}

static void launches_are_checked(void)
{
    struct lib l = lib_open();
    CUstream s = lib_stream();
    CUdeviceptr p = lib_ints(1);
    int v = 1;
    void *params[] = {&p, &v};
    CUfunction none;
    FAILS(cuLaunchKernel(l.set, 0, 1, 1, 32, 1, 1, 0, s, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(l.set, 1, 65536, 1, 32, 1, 1, 0, s, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(l.set, 1, 1, 1, 1025, 1, 1, 0, s, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(l.set, 1, 1, 1, 64, 32, 1, 0, s, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(l.set, 1, 1, 1, 32, 1, 1, 49153, s, params, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(l.set, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, s, params, NULL), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuFuncSetAttribute(l.set, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(l.set, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    OK(cuLaunchKernel(l.set, 1, 1, 1, 32, 1, 1, 65536, s, params, NULL));
    v = 9; /* the value was taken at the launch */
    OK(cuStreamSynchronize(s));
    CU_ASSERT_EQUAL(lib_peek(p), 1);
    FAILS(cuModuleGetFunction(&none, l.module, "absent"), CUDA_ERROR_NOT_FOUND);
    CUmodule m;
    FAILS(cuModuleLoadData(&m, "// PTX, or text"), CUDA_ERROR_INVALID_IMAGE);
    OK(cuStreamDestroy_v2(s));
    OK(cuMemFree_v2(p));
    lib_close(&l);
}

static void stale_handles(void)
{
    lib_open();
    CUstream s = lib_stream();
    CUevent e = lib_event();
    OK(cuEventDestroy_v2(e));
    OK(cuStreamDestroy_v2(s));
    FAILS(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuEventRecord(e, NULL), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuEventDestroy_v2(e), CUDA_ERROR_INVALID_HANDLE);
    CU_ASSERT_EQUAL(fakecuda_counts().faults, 3);
    OK(cuCtxPopCurrent_v2(NULL));
    FAILS(cuStreamCreate(&s, 0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    fakecuda_reset();
    FAILS(cuDeviceGet(&(int){0}, 0), CUDA_ERROR_NOT_INITIALIZED);
}

static void failures_are_injected(void)
{
    lib_open();
    CUstream s = lib_stream();
    CUevent e = NULL;
    fakecuda_fail_call(2, CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuStreamQuery(s));
    fakecuda_own(true);
    OK(cuStreamQuery(s)); /* not counted */
    fakecuda_own(false);
    CU_ASSERT(!fakecuda_failed());
    FAILS(cuEventCreate(&e, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CU_ASSERT(fakecuda_failed());
    UNIT_SAME_TEXT(fakecuda_failed_call(), "cuEventCreate");
    CU_ASSERT_EQUAL(fakecuda_counts().events, 0);
    OK(cuEventCreate(&e, 0));
    fakecuda_fail_call(1, CUDA_ERROR_UNKNOWN); /* a call that releases does so */
    FAILS(cuEventDestroy_v2(e), CUDA_ERROR_UNKNOWN);
    CU_ASSERT_EQUAL(fakecuda_counts().events, 0);
    fakecuda_fail_call(1, CUDA_ERROR_LAUNCH_FAILED); /* an error of the device stays */
    FAILS(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuStreamDestroy_v2(s), CUDA_ERROR_LAUNCH_FAILED);
    CU_ASSERT_EQUAL(fakecuda_counts().streams, 0);
    fakecuda_reset();
}

static void traces(void)
{
    struct lib l = lib_open();
    fakecuda_trace_clear();
    CUstream s = lib_stream();
    CUevent e = lib_event();
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(NULL, e, 0));
    UNIT_SAME_TEXT(fakecuda_trace(), "cuStreamCreate 1 = 0\n"
                                     "cuEventCreate 2 = 0\n"
                                     "cuEventRecord event#1 stream#1 = 0\n"
                                     "cuStreamWaitEvent legacy event#1 0 = 0\n");
    OK(cuStreamDestroy_v2(s));
    OK(cuEventDestroy_v2(e));
    lib_close(&l);
}

static void calls_driver(void *user)
{
    *(CUresult *)user = cuCtxSynchronize();
}

static void host_functions_may_not_call(void)
{
    struct lib l = lib_open();
    CUstream s = lib_stream();
    CUresult inside = CUDA_SUCCESS;
    OK(cuLaunchHostFunc(s, calls_driver, &inside));
    OK(cuStreamSynchronize(s));
    CU_ASSERT_EQUAL(inside, CUDA_ERROR_NOT_PERMITTED);
    OK(cuStreamDestroy_v2(s));
    lib_close(&l);
}

static void *worker(void *arg)
{
    struct lib *l = arg;
    CUresult err = cuCtxPushCurrent_v2(l->ctx);
    CUstream s = NULL;
    CUdeviceptr p = 0;
    err = err ? err : cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
    err = err ? err : cuMemAlloc_v2(&p, 4);
    for (int i = 0; i < 50 && !err; i++) {
        err = lib_set(l->set, p, i, s);
        err = err ? err : lib_add(l->add, p, p, s);
        err = err ? err : cuStreamSynchronize(s);
        err = err ? err : lib_peek(p) == 2 * i ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    }
    err = err ? err : cuMemFree_v2(p);
    err = err ? err : cuStreamDestroy_v2(s);
    err = err ? err : cuCtxPopCurrent_v2(NULL);
    return err ? arg : NULL;
}

static void two_threads(void)
{
    struct lib l = lib_open();
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, worker, &l), 0);
    for (int i = 0; i < 2; i++) {
        void *failed = &l;
        pthread_join(t[i], &failed);
        CU_ASSERT_PTR_NULL(failed);
    }
    lib_close(&l);
}

UNIT_MAIN("stand-in: streams and memory", {"one stream is in order", one_stream_is_in_order},
          {"events order streams", events_order_streams}, {"legacy stream", legacy_stream},
          {"events are snapshots", events_are_snapshots}, {"programmatic launches", programmatic_launches},
          {"stream-ordered memory", stream_ordered_memory}, {"memory faults", memory_faults},
          {"launches are checked", launches_are_checked}, {"stale handles", stale_handles},
          {"failures are injected", failures_are_injected}, {"traces", traces},
          {"host functions may not call", host_functions_may_not_call}, {"two threads", two_threads})
