/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in's own tests share.
 */
#include "lib.h"

#include <stdlib.h>

static void run(void *user, const char *kernel, const uint32_t grid[3], const uint32_t block[3], uint32_t smem,
                void *const *params, uint32_t n)
{
    (void)user, (void)grid, (void)block, (void)smem, (void)n;
    int *a = *(int **)params[0];
    if (!fakecuda_touch(a, sizeof *a, false, kernel))
        return;
    if (strcmp(kernel, "set") == 0) {
        *a = *(int *)params[1];
        return;
    }
    const int *b = *(int **)params[1];
    if (fakecuda_touch(b, sizeof *b, false, kernel))
        *a = (int)((unsigned)*a + (unsigned)*b);
}

struct lib lib_open(void)
{
    struct lib l;
    fakecuda_reset();
    fakecuda_define_kernel("add", 2, (size_t[]){8, 8});
    fakecuda_define_kernel("set", 2, (size_t[]){8, 4});
    fakecuda_set_runner(run, NULL);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&l.ctx, 0));
    OK(cuCtxPushCurrent_v2(l.ctx));
    OK(cuModuleLoadData(&l.module, "fakecubin"));
    OK(cuModuleGetFunction(&l.add, l.module, "add"));
    OK(cuModuleGetFunction(&l.set, l.module, "set"));
    return l;
}

void lib_close(struct lib *l)
{
    OK(cuModuleUnload(l->module));
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    struct fakecuda_counts c = fakecuda_counts(), none = {0};
    CU_ASSERT_EQUAL(memcmp(&c, &none, sizeof c), 0);
    if (memcmp(&c, &none, sizeof c) != 0)
        fprintf(stderr, "\nleft over:\n%s%s", fakecuda_live(), fakecuda_faults());
}

static CUresult launch(CUfunction f, void **params, CUstream s, bool programmatic)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                           .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig c = {1, 1, 1, 32, 1, 1, 0, s, &a, programmatic};
    return cuLaunchKernelEx(&c, f, params, NULL);
}

CUresult lib_add(CUfunction f, CUdeviceptr a, CUdeviceptr b, CUstream s)
{
    return launch(f, (void *[]){&a, &b}, s, false);
}

CUresult lib_add_programmatic(CUfunction f, CUdeviceptr a, CUdeviceptr b, CUstream s)
{
    return launch(f, (void *[]){&a, &b}, s, true);
}

CUresult lib_set(CUfunction f, CUdeviceptr a, int value, CUstream s)
{
    return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, (void *[]){&a, &value}, NULL);
}

int lib_peek(CUdeviceptr a)
{
    int v;
    memcpy(&v, (const void *)(uintptr_t)a, sizeof v);
    return v;
}

CUstream lib_stream(void)
{
    CUstream s = NULL;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

CUevent lib_event(void)
{
    CUevent e = NULL;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

CUdeviceptr lib_ints(size_t n)
{
    CUdeviceptr p = 0;
    OK(cuMemAlloc_v2(&p, n * sizeof(int)));
    memset((void *)(uintptr_t)p, 0, n * sizeof(int));
    return p;
}

size_t lib_nodes(CUgraph g)
{
    size_t n = 0;
    OK(cuGraphGetNodes(g, NULL, &n));
    return n;
}

const char *lib_edges(CUgraph g)
{
    static char text[1024];
    CUgraphNode nodes[64], from[64], to[64];
    CUgraphEdgeData data[64];
    size_t n = 64, edges = 64, len = 0;
    text[0] = '\0';
    OK(cuGraphGetNodes(g, nodes, &n));
    OK(cuGraphGetEdges_v2(g, from, to, data, &edges));
    for (size_t i = 0; i < edges; i++) {
        size_t a = 0, b = 0;
        while (a < n && nodes[a] != from[i])
            a++;
        while (b < n && nodes[b] != to[i])
            b++;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%zu>%zu%s", i ? " " : "", a, b,
                                data[i].type ? "p" : "");
    }
    return text;
}
