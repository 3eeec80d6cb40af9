/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, offsets and values that the stand-in and cuda.h must agree on: each of the two fills the same table.
 * Without a guard: included by abi_ours.c and abi_cuda.c, which define U (the name of the anonymous union's member).
 */
#include <stddef.h>

struct abi_fact {
    const char *what;
    long long value;
};
#define SIZE(type)                                                                                                   \
    {                                                                                                                \
        "sizeof " #type, (long long)sizeof(type)                                                                     \
    }
#define AT(type, member)                                                                                             \
    {                                                                                                                \
#type "." #member, (long long)offsetof(type, member)                                                         \
    }
#define VALUE(name)                                                                                                  \
    {                                                                                                                \
#name, (long long)(name)                                                                                     \
    }

#define ABI_LAYOUTS                                                                                                  \
    SIZE(CUgraphEdgeData), AT(CUgraphEdgeData, to_port), AT(CUgraphEdgeData, type), SIZE(CUlaunchAttribute),         \
        AT(CUlaunchAttribute, value), SIZE(CUlaunchConfig), AT(CUlaunchConfig, hStream), AT(CUlaunchConfig, attrs),  \
        AT(CUlaunchConfig, numAttrs), SIZE(CUDA_KERNEL_NODE_PARAMS), AT(CUDA_KERNEL_NODE_PARAMS, kernelParams),      \
        AT(CUDA_KERNEL_NODE_PARAMS, ctx), SIZE(CUDA_MEMSET_NODE_PARAMS), AT(CUDA_MEMSET_NODE_PARAMS, elementSize),   \
        AT(CUDA_MEMSET_NODE_PARAMS, height), SIZE(CUDA_MEMSET_NODE_PARAMS_v2), AT(CUDA_MEMSET_NODE_PARAMS_v2, ctx),  \
        SIZE(CUDA_MEMCPY3D), AT(CUDA_MEMCPY3D, srcDevice), AT(CUDA_MEMCPY3D, dstXInBytes),                           \
        AT(CUDA_MEMCPY3D, dstPitch), AT(CUDA_MEMCPY3D, Depth), SIZE(CUDA_HOST_NODE_PARAMS), SIZE(CUmemPoolProps),    \
        SIZE(CUDA_MEM_ALLOC_NODE_PARAMS), AT(CUDA_MEM_ALLOC_NODE_PARAMS, dptr), SIZE(CUDA_MEMCPY_NODE_PARAMS),       \
        AT(CUDA_MEMCPY_NODE_PARAMS, copyParams), SIZE(CUDA_CHILD_GRAPH_NODE_PARAMS), SIZE(CUgraphNodeParams),        \
        AT(CUgraphNodeParams, U(kernel)), AT(CUgraphNodeParams, reserved2), SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS),     \
        AT(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out), SIZE(CUgraphExecUpdateResultInfo),                            \
        AT(CUgraphExecUpdateResultInfo, errorFromNode)

#define ABI_ERRORS                                                                                                   \
    VALUE(CUDA_ERROR_INVALID_VALUE), VALUE(CUDA_ERROR_OUT_OF_MEMORY), VALUE(CUDA_ERROR_NOT_INITIALIZED),             \
        VALUE(CUDA_ERROR_INVALID_DEVICE), VALUE(CUDA_ERROR_INVALID_IMAGE), VALUE(CUDA_ERROR_INVALID_CONTEXT),        \
        VALUE(CUDA_ERROR_INVALID_HANDLE), VALUE(CUDA_ERROR_ILLEGAL_STATE), VALUE(CUDA_ERROR_LOSSY_QUERY),            \
        VALUE(CUDA_ERROR_NOT_FOUND), VALUE(CUDA_ERROR_NOT_READY), VALUE(CUDA_ERROR_ILLEGAL_ADDRESS),                 \
        VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED), VALUE(CUDA_ERROR_LAUNCH_FAILED), VALUE(CUDA_ERROR_NOT_PERMITTED),    \
        VALUE(CUDA_ERROR_NOT_SUPPORTED), VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),                               \
        VALUE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), VALUE(CUDA_ERROR_STREAM_CAPTURE_MERGE),                        \
        VALUE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED), VALUE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),                       \
        VALUE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION), VALUE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),                       \
        VALUE(CUDA_ERROR_CAPTURED_EVENT), VALUE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD),                             \
        VALUE(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE), VALUE(CUDA_ERROR_UNKNOWN)

#define ABI_VALUES                                                                                                   \
    VALUE(CU_STREAM_NON_BLOCKING), VALUE(CU_EVENT_DISABLE_TIMING), VALUE(CU_EVENT_RECORD_EXTERNAL),                  \
        VALUE(CU_EVENT_WAIT_EXTERNAL), VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED),                                  \
        VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), VALUE(CU_STREAM_CAPTURE_MODE_RELAXED),                           \
        VALUE(CU_STREAM_SET_CAPTURE_DEPENDENCIES), VALUE(CU_GRAPH_NODE_TYPE_MEMSET),                                 \
        VALUE(CU_GRAPH_NODE_TYPE_GRAPH), VALUE(CU_GRAPH_NODE_TYPE_EMPTY), VALUE(CU_GRAPH_NODE_TYPE_WAIT_EVENT),      \
        VALUE(CU_GRAPH_NODE_TYPE_EVENT_RECORD), VALUE(CU_GRAPH_NODE_TYPE_MEM_ALLOC),                                 \
        VALUE(CU_GRAPH_NODE_TYPE_MEM_FREE), VALUE(CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC),                            \
        VALUE(CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC), VALUE(CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER),                \
        VALUE(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH), VALUE(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),    \
        VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION), VALUE(CU_LAUNCH_ATTRIBUTE_PRIORITY),           \
        VALUE(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT), VALUE(CU_MEMORYTYPE_DEVICE),                             \
        VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE), VALUE(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),                         \
        VALUE(CU_MEMORYTYPE_UNIFIED), VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),                           \
        VALUE(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),                                                \
        VALUE(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), \
        VALUE(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
