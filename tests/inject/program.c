/* SPDX-License-Identifier: Apache-2.0
 *
 * A program under `mainstem relane` and `mainstem audit`, without a GPU: it loads what CUDA_INJECTION64_PATH names,
 * as the driver would, and tells the stand-in CUPTI of each call.
 *
 *   program [layers N] [child] [alloc] [fork] [exit N] [abort]
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fakecupti.h"
#include "driver.h"
#include "fakecuda.h"

enum { INSTANTIATE = 643, LAUNCH = 514, DESTROY = 516, ENTER = 0, EXIT = 1 };

static uint32_t correlation = 100;

static void inject(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*start)(void) = NULL;
    if (library)
        *(void **)&start = dlsym(library, "InitializeInjection");
    if (path && (!start || start() != 1))
        fprintf(stderr, "the library cannot be loaded: %s\n", dlerror());
}

static CUgraphNode node(CUgraph g, CUfunction f, CUdeviceptr p, const CUgraphNode *deps, size_t n)
{
    CUgraphNode out = NULL;
    int value = 1;
    CUDA_KERNEL_NODE_PARAMS k = fakecuda_one_warp(f, (void *[]){&p, &value});
    if (cuGraphAddKernelNode_v2(&out, g, deps, n, &k))
        fprintf(stderr, "no node\n");
    return out;
}

/* Layers of fork and join, the side branch created first. */
static CUgraph build(CUfunction f, CUdeviceptr p, unsigned layers, int child, int alloc)
{
    CUgraph g = NULL, inner = NULL;
    cuGraphCreate(&g, 0);
    CUgraphNode fork_at = node(g, f, p, NULL, 0);
    for (unsigned i = 0; i < layers; i++) {
        CUgraphNode side = node(g, f, p, &fork_at, 1);
        CUgraphNode body = node(g, f, p, &fork_at, 1);
        fork_at = node(g, f, p, (CUgraphNode[]){side, body}, 2);
    }
    if (child) {
        CUgraphNode out;
        cuGraphCreate(&inner, 0);
        node(inner, f, p, NULL, 0);
        cuGraphAddChildGraphNode(&out, g, &fork_at, 1, inner);
        cuGraphDestroy(inner);
    }
    if (alloc) {
        CUgraphNode out;
        CUDA_MEM_ALLOC_NODE_PARAMS how = {.bytesize = 64};
        if (cuGraphAddMemAllocNode(&out, g, &fork_at, 1, &how))
            fprintf(stderr, "no allocation\n");
    }
    return g;
}

static size_t edges_of(CUgraph g)
{
    size_t n = 0;
    cuGraphGetEdges_v2(g, NULL, NULL, NULL, &n);
    return n;
}

/* Instantiates, replays twice on two lanes, destroys. Prints what the driver saw. */
static void use(CUgraph g, CUstream s)
{
    CUgraphExec e = NULL;
    uint64_t slot = 0;
    struct {
        CUgraphExec *exec;
        CUgraph graph;
        unsigned long long flags;
    } make = {&e, g, 0};
    size_t before = edges_of(g);
    fakecupti_call(INSTANTIATE, ENTER, &make, 0, ++correlation, &slot);
    size_t during = edges_of(g);
    int result = cuGraphInstantiateWithFlags(&e, g, 0);
    fakecupti_call(INSTANTIATE, EXIT, &make, result, correlation, &slot);
    for (int i = 0; i < 2; i++) {
        struct {
            CUgraphExec exec;
            CUstream stream;
        } launch = {e, s};
        fakecupti_call(LAUNCH, ENTER, &launch, 0, ++correlation, &slot);
        cuGraphLaunch(e, s);
        fakecupti_call(LAUNCH, EXIT, &launch, 0, correlation, &slot);
        for (uint32_t k = 0; k < 6; k++)
            fakecupti_kernel((uint32_t)(uintptr_t)e, correlation, 20 + k % 3);
    }
    printf("edges %zu, while instantiating %zu, after %zu\n", before, during, edges_of(g));
    cuStreamSynchronize(s);
    fakecupti_call(DESTROY, ENTER, &e, 0, ++correlation, &slot);
    cuGraphExecDestroy(e);
    fakecupti_call(DESTROY, EXIT, &e, 0, correlation, &slot);
}

static void run(unsigned layers, int child, int alloc)
{
    CUcontext ctx;
    CUmodule module;
    CUfunction f;
    CUstream s;
    CUdeviceptr p;
    fakecuda_define_kernel("set", 2, (size_t[]){8, 4});
    cuDevicePrimaryCtxRetain(&ctx, 0);
    cuCtxPushCurrent_v2(ctx);
    cuModuleLoadData(&module, "fakecubin");
    cuModuleGetFunction(&f, module, "set");
    cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
    cuMemAlloc_v2(&p, 4);
    CUgraph g = build(f, p, layers, child, alloc);
    use(g, s);
    use(g, s);
    cuGraphDestroy(g);
}

int main(int argc, char **argv)
{
    unsigned layers = 5;
    int child = 0, alloc = 0, forks = 0, status = 0, aborts = 0;
    for (int i = 1; i < argc; i++) {
        child |= !strcmp(argv[i], "child");
        alloc |= !strcmp(argv[i], "alloc");
        forks |= !strcmp(argv[i], "fork");
        aborts |= !strcmp(argv[i], "abort");
        if (!strcmp(argv[i], "layers") && i + 1 < argc)
            layers = (unsigned)atoi(argv[++i]);
        else if (!strcmp(argv[i], "exit") && i + 1 < argc)
            status = atoi(argv[++i]);
    }
    cuInit(0);
    inject();
    run(layers, child, alloc);
    fflush(stdout);
    if (forks) { /* the child leaves by exit(), with all handlers that it inherited */
        pid_t pid = fork();
        if (pid == 0)
            exit(0);
        waitpid(pid, NULL, 0);
    }
    if (aborts)
        abort();
    return status;
}
