/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for CUPTI in the same shared object: records of the kernels, memsets and copies that execute. Time is a
 * model: an operation starts when all that it waits for has ended, and takes longer the larger it is; so concurrent
 * branches overlap whatever the order in which the stand-in executes them.
 */
#include "core.h"
#include "runtime/cupti_abi.h"

union record {
    int32_t kind;
    struct stem_cupti_kernel kernel;
    struct stem_cupti_memset set;
    struct stem_cupti_memcpy copy;
};

static stem_cupti_request_fn *request;
static stem_cupti_complete_fn *complete;
static bool enabled[64];
static FC_VEC(union record) records;
static uint64_t now = 1000000;

FC_API int cuptiActivityRegisterCallbacks(stem_cupti_request_fn *r, stem_cupti_complete_fn *c);
FC_API int cuptiActivityEnable(int kind);
FC_API int cuptiActivityDisable(int kind);
FC_API int cuptiActivityFlushAll(uint32_t flag);
FC_API int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);
FC_API int cuptiActivityGetNumDroppedRecords(struct CUctx_st *ctx, uint32_t stream, size_t *n);
FC_API int cuptiGetResultString(int result, const char **text);

static uint64_t duration(const struct fc_work *w)
{
    switch (w->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return 1500 + 100 * (uint64_t)w->u.launch.grid[0];
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return 900 + w->u.set.width / 1024;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return 1100 + w->u.copy.p.WidthInBytes / 1024;
    default:
        return 0;
    }
}

#define HEAD(op, what)                                                                                               \
    .kind = (what), .start = (op)->start, .end = (op)->end, .stream = (op)->lane, .correlation = (op)->correlation,  \
    .graph = (op)->exec ? (op)->exec->o.id : 0, .graph_node = (op)->node

void fc_cupti_record(struct fc_op *op)
{
    const struct fc_work *w = &op->work;
    const struct fc_launch *l = &w->u.launch;
    union record r = {0};
    for (size_t i = 0; i < op->deps.len; i++)
        op->start = op->deps.at[i]->end > op->start ? op->deps.at[i]->end : op->start;
    op->start = op->start ? op->start : now;
    op->end = op->start + duration(w);
    now = op->end > now ? op->end : now;
    if (w->type == CU_GRAPH_NODE_TYPE_KERNEL && enabled[STEM_CUPTI_CONCURRENT_KERNEL]) {
        r.kernel =
            (struct stem_cupti_kernel){HEAD(op, STEM_CUPTI_CONCURRENT_KERNEL), .name = l->function->kernel->name};
        for (int i = 0; i < 3; i++) {
            r.kernel.grid[i] = (int32_t)l->grid[i];
            r.kernel.block[i] = (int32_t)l->block[i];
        }
    } else if (w->type == CU_GRAPH_NODE_TYPE_MEMSET && enabled[STEM_CUPTI_MEMSET]) {
        const CUDA_MEMSET_NODE_PARAMS *p = &w->u.set;
        r.set =
            (struct stem_cupti_memset){HEAD(op, STEM_CUPTI_MEMSET), .bytes = p->width * p->height * p->elementSize};
    } else if (w->type == CU_GRAPH_NODE_TYPE_MEMCPY && enabled[STEM_CUPTI_MEMCPY]) {
        const CUDA_MEMCPY3D *p = &w->u.copy.p;
        r.copy =
            (struct stem_cupti_memcpy){HEAD(op, STEM_CUPTI_MEMCPY), .bytes = p->WidthInBytes * p->Height * p->Depth};
    }
    if (r.kind)
        FC_PUSH(&records, r);
}

int cuptiActivityRegisterCallbacks(stem_cupti_request_fn *r, stem_cupti_complete_fn *c)
{
    request = r;
    complete = c;
    return 0;
}

static int enable(int kind, bool on)
{
    if (kind < 0 || kind >= 64)
        return 1; /* CUPTI_ERROR_INVALID_PARAMETER */
    fc_lock();
    enabled[kind] = on;
    fc_unlock();
    return 0;
}

int cuptiActivityEnable(int kind)
{
    return enable(kind, true);
}

int cuptiActivityDisable(int kind)
{
    return enable(kind, false);
}

int cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    if (!request || !complete)
        return 0;
    fc_lock();
    size_t n = 0;
    while (n < records.len) {
        uint8_t *buffer = NULL;
        size_t size = 0, max = 0, some = 0;
        request(&buffer, &size, &max);
        if (!buffer)
            break;
        for (; n < records.len && (some + 1) * sizeof(union record) <= size; n++, some++)
            memcpy(buffer + some * sizeof(union record), &records.at[n], sizeof(union record));
        complete(NULL, 0, buffer, size, some * sizeof(union record));
    }
    records.len = 0;
    fc_unlock();
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + sizeof(union record) : buffer;
    if (next + sizeof(union record) > buffer + valid)
        return 12; /* CUPTI_ERROR_MAX_LIMIT_REACHED */
    *record = next;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(struct CUctx_st *ctx, uint32_t stream, size_t *n)
{
    (void)ctx, (void)stream;
    *n = 0;
    return 0;
}

int cuptiGetResultString(int result, const char **text)
{
    *text = result ? "CUPTI_ERROR" : "CUPTI_SUCCESS";
    return 0;
}
