/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of CUPTI's activity API that the audit uses: entry points, and the heads of its records. They have been the
 * same since CUDA 11.8 (CUpti_ActivityKernel8, ..Memset4, ..Memcpy5); later versions only append. A test compares them
 * with <cupti.h>.
 */
#ifndef STEM_RUNTIME_CUPTI_ABI_H
#define STEM_RUNTIME_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

struct CUctx_st;

enum { STEM_CUPTI_MEMCPY = 1, STEM_CUPTI_MEMSET = 2, STEM_CUPTI_CONCURRENT_KERNEL = 10, STEM_CUPTI_FLUSH_FORCED = 1 };

/* Also the head of every other record, as far as `kind`. */
struct stem_cupti_kernel {
    int32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    int32_t cache_requested, cache_executed;
    uint64_t start, end, completed; /* ns */
    uint32_t device, context, stream;
    int32_t grid[3], block[3], static_shared, dynamic_shared;
    uint32_t local_per_thread, local_total, correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, carveout_requested, carveout, padding;
    uint32_t shared_executed;
    uint64_t graph_node;
    int32_t shmem_limit;
    uint32_t graph;
} __attribute__((packed, aligned(8)));

struct stem_cupti_memset {
    int32_t kind;
    uint32_t value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory_kind;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} __attribute__((packed, aligned(8)));

struct stem_cupti_memcpy {
    int32_t kind;
    uint8_t copy_kind, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation, runtime_correlation, padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} __attribute__((packed, aligned(8)));

typedef void stem_cupti_request_fn(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void stem_cupti_complete_fn(struct CUctx_st *ctx, uint32_t stream, uint8_t *buffer, size_t size,
                                    size_t valid_size);

struct stem_cupti {
    void *handle;
    int (*register_callbacks)(stem_cupti_request_fn *request, stem_cupti_complete_fn *complete);
    int (*enable)(int kind);
    int (*disable)(int kind);
    int (*flush_all)(uint32_t flag);
    int (*next_record)(uint8_t *buffer, size_t valid_size, void **record);
    int (*dropped)(struct CUctx_st *ctx, uint32_t stream, size_t *n);
    int (*result_string)(int result, const char **text);
};

#endif
