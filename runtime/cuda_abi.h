/* SPDX-License-Identifier: Apache-2.0
 *
 * The few types, layouts and constants of the CUDA driver API (12.4 and later, 64 bit) that the runtime uses,
 * declared here so that it builds without a toolkit. Handles are the driver's own incomplete structs, so a program
 * that also includes <cuda.h> can pass its handles without casts. tests/unit/test_cuda_abi.c compares everything with
 * <cuda.h> where a toolkit is found.
 */
#ifndef STEM_RUNTIME_CUDA_ABI_H
#define STEM_RUNTIME_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUkern_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;

enum {
    STEM_CUDA_SUCCESS = 0,
    STEM_CUDA_ERROR_INVALID_VALUE = 1,
    STEM_CUDA_ERROR_OUT_OF_MEMORY = 2,
    STEM_CUDA_ERROR_NO_DEVICE = 100,
    STEM_CUDA_ERROR_INVALID_IMAGE = 200,
    STEM_CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    STEM_CUDA_ERROR_NOT_FOUND = 500,
    STEM_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,

    STEM_CUDA_STREAM_NON_BLOCKING = 1,
    STEM_CUDA_EVENT_DISABLE_TIMING = 2,

    STEM_CUDA_CAPTURE_MODE_GLOBAL = 0,
    STEM_CUDA_CAPTURE_MODE_THREAD_LOCAL = 1,
    STEM_CUDA_CAPTURE_MODE_RELAXED = 2,

    STEM_CUDA_CAPTURE_NONE = 0,
    STEM_CUDA_CAPTURE_ACTIVE = 1,
    STEM_CUDA_CAPTURE_INVALIDATED = 2,

    STEM_CUDA_NODE_KERNEL = 0,
    STEM_CUDA_NODE_MEMSET = 2,
    STEM_CUDA_NODE_GRAPH = 4,

    STEM_CUDA_EDGE_FULL = 0,
    STEM_CUDA_EDGE_PROGRAMMATIC = 1,
    STEM_CUDA_PORT_PROGRAMMATIC = 1,

    STEM_CUDA_FUNC_MAX_DYNAMIC_SMEM = 8,
    STEM_CUDA_FUNC_SMEM_CARVEOUT = 9,
    STEM_CUDA_POINTER_MEMORY_TYPE = 2,
    STEM_CUDA_POINTER_DEVICE_ORDINAL = 9,
    STEM_CUDA_MEMORY_DEVICE = 2, /* CU_MEMORYTYPE_DEVICE */

    STEM_CUDA_DEVICE_CC_MAJOR = 75,
    STEM_CUDA_DEVICE_CC_MINOR = 76,
    STEM_CUDA_DEVICE_MEMORY_POOLS = 115,

    STEM_CUDA_LAUNCH_PROGRAMMATIC_SERIALIZATION = 6,
    STEM_CUDA_LAUNCH_PRIORITY = 8,

    STEM_CUDA_INSTANTIATE_NODE_PRIORITY = 8, /* CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY */
};

union stem_cuda_launch_value {
    char pad[64];
    int programmatic; /* programmaticStreamSerializationAllowed */
    int priority;
    uint64_t align;
};

struct stem_cuda_launch_attr {
    int id;
    char pad[4];
    union stem_cuda_launch_value value;
};

struct stem_cuda_launch_config {
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned smem;
    struct CUstream_st *stream;
    struct stem_cuda_launch_attr *attrs;
    unsigned n_attrs;
};

struct stem_cuda_kernel_params {
    struct CUfunc_st *func;
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned smem;
    void **params;
    void **extra;
    struct CUkern_st *kern;
    struct CUctx_st *ctx;
};

struct stem_cuda_memset_params {
    uint64_t dst;
    size_t pitch;
    unsigned value;
    unsigned element_size;
    size_t width;
    size_t height;
    struct CUctx_st *ctx;
};

struct stem_cuda_child_params {
    struct CUgraph_st *graph;
    int ownership; /* 0: the node gets a clone */
};

struct stem_cuda_node_params {
    int type;
    int reserved0[3];
    union {
        long long reserved1[29];
        struct stem_cuda_kernel_params kernel;
        struct stem_cuda_memset_params memset;
        struct stem_cuda_child_params graph;
    };
    long long reserved2;
};

struct stem_cuda_edge {
    unsigned char from_port;
    unsigned char to_port;
    unsigned char type;
    unsigned char reserved[5];
};

#endif
