/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory of the stand-in: host memory between guard zones. A block is born poisoned and poisoned again when
 * its free executes (bytes 0xff: a NaN in every float type), and its addresses are not handed out again, so that a
 * premature free or a stale pointer shows. Synchronous free does not wait for pending work: the driver documents no
 * such wait.
 */
#include "core.h"

enum { GUARD = 256, GUARD_BYTE = 0xa5, POISON = 0xff };

static FC_VEC(struct fc_block *) blocks; /* by address */
static uint32_t made;
static uint64_t in_use;

/* Index of the first block that starts after p, guard zone included. */
static size_t upper(const void *p)
{
    size_t lo = 0, hi = blocks.len;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if ((uintptr_t)blocks.at[mid]->raw <= (uintptr_t)p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct fc_block *fc_block_at(const void *p)
{
    size_t i = upper(p);
    if (!i)
        return NULL;
    struct fc_block *b = blocks.at[i - 1];
    return (uintptr_t)p < (uintptr_t)b->base + b->bytes + GUARD ? b : NULL;
}

struct fc_block *fc_block_base(CUdeviceptr p)
{
    struct fc_block *b = fc_block_at((const void *)(uintptr_t)p);
    return b && (uintptr_t)b->base == p && !b->released ? b : NULL;
}

struct fc_block *fc_block_new(size_t bytes, enum fc_block_state state)
{
    if (bytes > fc.memory_limit || in_use > fc.memory_limit - bytes)
        return NULL;
    struct fc_block *b = fc_alloc(sizeof *b);
    size_t total = ((bytes + GUARD - 1) & ~(size_t)(GUARD - 1)) + 2 * GUARD;
    b->raw = aligned_alloc(GUARD, total);
    if (!b->raw) {
        free(b);
        return NULL;
    }
    b->base = b->raw + GUARD;
    b->bytes = bytes;
    b->id = ++made;
    b->state = state;
    memset(b->raw, GUARD_BYTE, total);
    memset(b->base, POISON, bytes);
    in_use += bytes;
    size_t i = upper(b->raw);
    FC_PUSH(&blocks, b);
    memmove(&blocks.at[i + 1], &blocks.at[i], (blocks.len - 1 - i) * sizeof *blocks.at);
    blocks.at[i] = b;
    return b;
}

static void check_guards(struct fc_block *b)
{
    for (size_t i = 0; i < GUARD; i++)
        if (b->raw[i] != GUARD_BYTE || b->base[b->bytes + i] != GUARD_BYTE) {
            fakecuda_fault("memory#%u (%zu bytes): written outside of its bounds", b->id, b->bytes);
            memset(b->raw, GUARD_BYTE, GUARD);
            memset(b->base + b->bytes, GUARD_BYTE, GUARD);
            return;
        }
}

void fc_block_poison(struct fc_block *b)
{
    check_guards(b);
    memset(b->base, POISON, b->bytes);
}

static void release(struct fc_block *b)
{
    b->released = true;
    in_use -= b->bytes;
}

void fc_memory_counts(struct fakecuda_counts *c)
{
    for (size_t i = 0; i < blocks.len; i++) {
        struct fc_block *b = blocks.at[i];
        check_guards(b);
        if (b->released)
            continue;
        if (b->host)
            c->host_allocations++;
        else if (!b->graph_owned || b->runs) {
            c->allocations++;
            c->bytes += b->bytes;
        }
    }
}

void fc_memory_reset(void)
{
    for (size_t i = 0; i < blocks.len; i++) {
        free(blocks.at[i]->raw);
        free(blocks.at[i]);
    }
    FC_FREE(&blocks);
    made = 0;
    in_use = 0;
}

bool fakecuda_touch(const void *address, size_t bytes, bool foreign, const char *who)
{
    fc_lock();
    const struct fc_block *b = fc_block_at(address);
    const char *wrong = NULL;
    if (!b)
        wrong = foreign ? NULL : "is not device memory";
    else if (b->state == FC_FREED)
        wrong = "is freed memory";
    else if (b->state == FC_UNBORN)
        wrong = "is memory whose allocation has not executed";
    else if ((const uint8_t *)address < b->base || (const uint8_t *)address + bytes > b->base + b->bytes)
        wrong = "is out of bounds";
    if (wrong && b)
        fakecuda_fault("%s: %zu bytes at memory#%u%+td: %s", who, bytes, b->id, (const uint8_t *)address - b->base,
                       wrong);
    else if (wrong)
        fakecuda_fault("%s: %zu bytes at %p: %s", who, bytes, address, wrong);
    if (wrong)
        fc.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    fc_unlock();
    return !wrong;
}

/* ---- allocation outside of streams ---- */

static CUresult alloc_now(CUdeviceptr *out, size_t bytes, bool host)
{
    if (!out || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult err = fc_gate_unsafe();
    if (err)
        return err;
    struct fc_block *b = fc_block_new(bytes, FC_LIVE);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->host = host;
    *out = (uintptr_t)b->base;
    return CUDA_SUCCESS;
}

static CUresult free_now(CUdeviceptr p, bool host)
{
    if (!p && !host)
        return CUDA_SUCCESS;
    CUresult err = fc_gate_unsafe();
    if (err)
        return err;
    struct fc_block *b = fc_block_base(p);
    if (!b || b->host != host || (b->graph_owned && !b->runs)) {
        fakecuda_fault("free of %s, which is not allocated", fc_ptr(p));
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (b->graph_owned)
        b->runs = false;
    else
        release(b);
    b->state = FC_FREED;
    fc_block_poison(b);
    return CUDA_SUCCESS;
}

FC_API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    FC_ENTER("cuMemAlloc", "%zu", bytes);
    return fc_leave(alloc_now(out, bytes, false));
}

FC_API CUresult cuMemFree_v2(CUdeviceptr p)
{
    FC_ENTER_RELEASE("cuMemFree", "%s", fc_ptr(p));
    FC_LEAVE_RELEASE(free_now(p, false));
}

FC_API CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
    FC_ENTER("cuMemAllocHost", "%zu", bytes);
    CUdeviceptr p = 0;
    CUresult err = out ? alloc_now(&p, bytes, true) : CUDA_ERROR_INVALID_VALUE;
    if (!err)
        *out = (void *)(uintptr_t)p;
    return fc_leave(err);
}

FC_API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    FC_ENTER("cuMemHostAlloc", "%zu %u", bytes, flags);
    CUdeviceptr p = 0;
    CUresult err = out ? alloc_now(&p, bytes, true) : CUDA_ERROR_INVALID_VALUE;
    if (!err)
        *out = (void *)(uintptr_t)p;
    return fc_leave(err);
}

FC_API CUresult cuMemFreeHost(void *p)
{
    FC_ENTER_RELEASE("cuMemFreeHost", "%s", fc_ptr((uintptr_t)p));
    FC_LEAVE_RELEASE(free_now((uintptr_t)p, true));
}

FC_API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    FC_ENTER("cuMemGetInfo", "%s", "");
    if (!free_bytes || !total)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *total = fc.memory_limit;
    *free_bytes = fc.memory_limit - in_use;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr p)
{
    FC_ENTER("cuPointerGetAttribute", "%d %s", attribute, fc_ptr(p));
    const struct fc_block *b = fc_block_at((const void *)(uintptr_t)p);
    if (!value || !b || b->released || p < (uintptr_t)b->base || p >= (uintptr_t)b->base + b->bytes)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)value = b->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)value = fc.pointer_device;
    else
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr p)
{
    FC_ENTER("cuMemGetAddressRange", "%s", fc_ptr(p));
    const struct fc_block *b = fc_block_at((const void *)(uintptr_t)p);
    if (!b || b->released || p < (uintptr_t)b->base || p >= (uintptr_t)b->base + b->bytes)
        return fc_leave(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = (uintptr_t)b->base;
    if (bytes)
        *bytes = b->bytes;
    return fc_leave(CUDA_SUCCESS);
}

/* ---- stream-ordered allocation ---- */

static CUresult alloc_async(CUdeviceptr *out, size_t bytes, struct fc_stream *s)
{
    if (!out || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult err = fc_gate_stream(s);
    if (err)
        return err;
    struct fc_block *b = fc_block_new(bytes, FC_UNBORN);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->graph_owned = s->capture != NULL;
    struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .u.block = b};
    err = fc_issue(s, &w, NULL);
    if (err)
        release(b);
    else
        *out = (uintptr_t)b->base;
    return err;
}

static CUresult free_async(CUdeviceptr p, struct fc_stream *s)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult err = fc_gate_stream(s);
    if (err)
        return err;
    struct fc_block *b = fc_block_base(p);
    bool graph = s->capture != NULL;
    /* A free that is captured must name an allocation of a graph; one that is not, memory that is there. */
    if (!b || b->host || (graph ? !b->graph_owned : b->graph_owned && !b->runs)) {
        if (!graph)
            fakecuda_fault("stream-ordered free of %s, which is not allocated", fc_ptr(p));
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .u.block = b};
    err = fc_issue(s, &w, NULL);
    if (err || graph)
        return err;
    if (b->graph_owned)
        b->runs = false;
    else
        release(b);
    return CUDA_SUCCESS;
}

FC_API CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    FC_ENTER("cuMemAllocAsync", "%zu %s", bytes, fc_str(stream, FC_STREAM));
    return fc_leave(alloc_async(out, bytes, fc_stream_get(stream)));
}

FC_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    FC_ENTER("cuMemAllocFromPoolAsync", "%zu %s %s", bytes, fc_str(pool, FC_POOL), fc_str(stream, FC_STREAM));
    if (!fc_get(pool, FC_POOL))
        return fc_leave(CUDA_ERROR_INVALID_HANDLE);
    return fc_leave(alloc_async(out, bytes, fc_stream_get(stream)));
}

FC_API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream)
{
    FC_ENTER_RELEASE("cuMemFreeAsync", "%s %s", fc_ptr(p), fc_str(stream, FC_STREAM));
    FC_LEAVE_RELEASE(free_async(p, fc_stream_get(stream)));
}

FC_API CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    FC_ENTER("cuMemPoolCreate", "%s", "");
    if (!out || !props)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *out = fc_new(FC_POOL, sizeof(struct fc_object), NULL);
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    FC_ENTER_RELEASE("cuMemPoolDestroy", "%s", fc_str(pool, FC_POOL));
    struct fc_object *o = fc_get(pool, FC_POOL);
    if (o)
        fc_kill(o);
    FC_LEAVE_RELEASE(o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

FC_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    FC_ENTER("cuMemPoolSetAttribute", "%s %d", fc_str(pool, FC_POOL), attribute);
    if (!fc_get(pool, FC_POOL))
        return fc_leave(CUDA_ERROR_INVALID_HANDLE);
    return fc_leave(value && attribute >= 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FC_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    FC_ENTER("cuMemPoolTrimTo", "%s %zu", fc_str(pool, FC_POOL), keep);
    return fc_leave(fc_get(pool, FC_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

/* The device's own pool: made on first use, never destroyed, not counted. */
FC_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    static struct fc_object *pool;
    static uint64_t generation;
    FC_ENTER_AS(FC_NEED_INIT, "cuDeviceGetDefaultMemPool", "%d", device);
    if (!out)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    if (device != 0)
        return fc_leave(CUDA_ERROR_INVALID_DEVICE);
    if (generation != fc.generation) {
        pool = fc_new(FC_POOL, sizeof *pool, NULL);
        fc.live[FC_POOL]--;
        generation = fc.generation;
    }
    *out = (CUmemoryPool)pool;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    return cuDeviceGetDefaultMemPool(out, device);
}
