/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operation or a graph node does: copies of its parameters, their checks, and its execution.
 */
#include "core.h"

#include <inttypes.h>

enum { MAX_THREADS = 1024, DEFAULT_SMEM = 48 << 10 };

struct fc_work fc_work_clone(const struct fc_work *w)
{
    struct fc_work c = *w;
    if (w->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        size_t n = w->u.launch.function->kernel->bytes;
        c.u.launch.params = fc_alloc(n);
        if (n)
            memcpy(c.u.launch.params, w->u.launch.params, n);
    }
    return c;
}

void fc_work_free(struct fc_work *w)
{
    if (w->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        free(w->u.launch.params);
        w->u.launch.params = NULL;
    }
}

CUresult fc_launch_check(const struct fc_launch *l, void **params, void **extra)
{
    if (extra)
        return CUDA_ERROR_NOT_SUPPORTED;
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        threads *= l->block[i];
        if (!l->grid[i] || !l->block[i] || (i && l->grid[i] > 65535) || l->grid[i] > INT32_MAX)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (threads > MAX_THREADS || l->block[2] > 64)
        return CUDA_ERROR_INVALID_VALUE;
    if (l->smem > l->function->max_smem && l->smem + FC_STATIC_SMEM > DEFAULT_SMEM)
        return CUDA_ERROR_INVALID_VALUE;
    if (l->function->kernel->n_params && !params)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < l->function->kernel->n_params; i++)
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* The driver copies parameters when it is called, whatever becomes of the caller's array. */
void fc_launch_params(struct fc_launch *l, void **params)
{
    const struct fc_kernel *k = l->function->kernel;
    l->params = fc_alloc(k->bytes);
    uint8_t *at = l->params;
    for (uint32_t i = 0; i < k->n_params; i++) {
        memcpy(at, params[i], k->sizes[i]);
        at += (k->sizes[i] + 15) & ~(size_t)15;
    }
}

/* An operand that points into memory that is not there would be read or written: the stand-in cannot know whether
 * the kernel does, and takes it that it does. */
static bool operand_ok(const struct fc_kernel *k, uint32_t i, const void *param)
{
    if (k->sizes[i] != sizeof(void *))
        return true;
    const void *p;
    memcpy(&p, param, sizeof p);
    if (!p || !fc_block_at(p))
        return true;
    char who[128];
    snprintf(who, sizeof who, "kernel %s, parameter %" PRIu32, k->name, i);
    return fakecuda_touch(p, 0, true, who);
}

static void run_kernel(const struct fc_launch *l)
{
    const struct fc_kernel *k = l->function->kernel;
    void *params[64];
    uint8_t *at = l->params;
    bool ok = k->n_params <= 64;
    for (uint32_t i = 0; ok && i < k->n_params; i++) {
        params[i] = at;
        ok = operand_ok(k, i, at);
        at += (k->sizes[i] + 15) & ~(size_t)15;
    }
    if (!ok)
        fc.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    else if (fc.runner)
        fc.runner(fc.user, k->name, l->grid, l->block, l->smem, params, k->n_params);
}

static void run_memset(const CUDA_MEMSET_NODE_PARAMS *p)
{
    size_t row = p->width * p->elementSize;
    for (size_t y = 0; y < p->height; y++) {
        uint8_t *d = (uint8_t *)(uintptr_t)p->dst + y * p->pitch;
        if (!fakecuda_touch(d, row, false, "memset"))
            return;
        if (p->elementSize == 1) /* most, and of large buffers */
            memset(d, (int)p->value, row);
        else
            for (size_t x = 0; x < p->width; x++)
                memcpy(d + x * p->elementSize, &p->value, p->elementSize); /* little-endian, as the device is */
    }
}

/* Memory that the stand-in does not know is host memory where the call allows that. */
static bool side_ok(const void *p, size_t bytes, unsigned type, const char *who)
{
    return fakecuda_touch(p, bytes, type != CU_MEMORYTYPE_DEVICE, who);
}

static void run_copy(const CUDA_MEMCPY3D *p)
{
    const uint8_t *src = p->srcMemoryType == CU_MEMORYTYPE_HOST ? p->srcHost : (const void *)(uintptr_t)p->srcDevice;
    uint8_t *dst = p->dstMemoryType == CU_MEMORYTYPE_HOST ? p->dstHost : (void *)(uintptr_t)p->dstDevice;
    for (size_t z = 0; z < p->Depth; z++)
        for (size_t y = 0; y < p->Height; y++) {
            const uint8_t *s =
                src + p->srcXInBytes + (p->srcY + y) * p->srcPitch + (p->srcZ + z) * p->srcPitch * p->srcHeight;
            uint8_t *d =
                dst + p->dstXInBytes + (p->dstY + y) * p->dstPitch + (p->dstZ + z) * p->dstPitch * p->dstHeight;
            if (!side_ok(s, p->WidthInBytes, p->srcMemoryType, "copy, source") ||
                !side_ok(d, p->WidthInBytes, p->dstMemoryType, "copy, destination"))
                return;
            memmove(d, s, p->WidthInBytes);
        }
}

static bool linear_type(unsigned type)
{
    return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

CUresult fc_copy_check(const CUDA_MEMCPY3D *p)
{
    if (!linear_type(p->srcMemoryType) || !linear_type(p->dstMemoryType))
        return p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    if (!p->WidthInBytes || !p->Height || !p->Depth)
        return CUDA_ERROR_INVALID_VALUE;
    bool rows = p->Height > 1 || p->Depth > 1;
    if (rows && (p->srcPitch < p->srcXInBytes + p->WidthInBytes || p->dstPitch < p->dstXInBytes + p->WidthInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static void run_alloc(struct fc_block *b)
{
    b->state = FC_LIVE;
}

static void run_free(struct fc_block *b)
{
    if (b->state != FC_LIVE) {
        fakecuda_fault("the free of memory#%u executes when it is not allocated", b->id);
        return;
    }
    b->state = FC_FREED;
    fc_block_poison(b);
}

void fc_work_run(const struct fc_work *w)
{
    switch (w->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        run_kernel(&w->u.launch);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        run_memset(&w->u.set);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        run_copy(&w->u.copy.p);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        fc_thread()->in_callback = true;
        w->u.host.fn(w->u.host.userData);
        fc_thread()->in_callback = false;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        run_alloc(w->u.block);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        run_free(w->u.block);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        break;
    }
}
