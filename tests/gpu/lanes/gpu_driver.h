/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files share: the driver's functions, and the objects that nodes need.
 */
#ifndef STEM_TESTS_GPU_LANES_DRIVER_H
#define STEM_TESTS_GPU_LANES_DRIVER_H

#include <cuda.h>

#include "gpu.h"

#define GPU_DRIVER(X)                                                                                         \
    X(cuInit) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute)                   \
    X(cuDriverGetVersion) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent)         \
    X(cuModuleLoadData) X(cuModuleGetFunction) X(cuMemAlloc) X(cuMemAllocHost) X(cuMemFreeAsync)              \
    X(cuStreamCreate) X(cuStreamSynchronize) X(cuEventCreate) X(cuEventRecord) X(cuGetErrorName)              \
    X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphAddKernelNode) X(cuGraphAddEmptyNode)                         \
    X(cuGraphAddMemsetNode) X(cuGraphAddHostNode) X(cuGraphAddMemcpyNode) X(cuGraphAddEventRecordNode)        \
    X(cuGraphAddEventWaitNode) X(cuGraphAddChildGraphNode) X(cuGraphAddMemAllocNode)                          \
    X(cuGraphAddMemFreeNode) X(cuGraphAddNode) X(cuGraphConditionalHandleCreate) X(cuGraphAddDependencies)    \
    X(cuGraphGetNodes) X(cuGraphInstantiate) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDebugDotPrint)

struct gpu_api {
#define GPU_DECLARE(f) __typeof__(&f) p_##f;
    GPU_DRIVER(GPU_DECLARE)
#undef GPU_DECLARE
};

struct gpu_objects {
    CUdevice device;
    CUcontext context;
    CUfunction kernel;
    CUstream stream;
    CUevent event;
    CUdeviceptr memory;
    void *host;
};

extern struct gpu_api gpu_api;
extern struct gpu_objects gpu_objects;

/* A half of `memory` and `host` is where copies come from, the other where they go. A kernel of node v has a grid of
 * v + 1 blocks, a memcpy or memset v + 1 bytes unless told otherwise, a large memset GPU_LARGE more: so CUPTI's records
 * tell them apart. */
#define GPU_LARGE 8192u
#define GPU_BYTES (1u << 28)
#define GPU_HOST_BYTES (1u << 20)

/* The nodes and edges of g into an empty graph; of node[0 .. n-1] those that are in no other are set. What they need
 * besides lives until gpu_nodes_free(). */
CUresult gpu_nodes_add(CUgraph graph, const struct stem_lane_graph *g, const struct gpu_how *how, CUgraphNode *node);
void gpu_nodes_free(void);

#endif
