/* SPDX-License-Identifier: Apache-2.0
 *
 * One op: its parameters, its launch on a stream (eager or capturing, the same calls), and its form as a graph node.
 */
#include "matmul.h"

#include <stdlib.h>
#include <string.h>

static uint64_t operand_address(const struct stem_plan_operand *o, const uint64_t *address)
{
    return o->tensor.buffer == STEM_NONE ? 0 : address[o->tensor.buffer] + o->tensor.offset;
}

uint32_t stem_op_params(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_operands; i++)
        e->values[n++] = operand_address(&op->operands[i], address);
    for (uint32_t i = 0; i < op->n_scalars; i++, n++) {
        const struct stem_scalar *s = &op->scalars[i];
        int32_t i32 = (int32_t)s->i;
        float f32 = (float)s->f;
        e->values[n] = 0;
        if (s->kind == STEM_SCALAR_I32)
            memcpy(&e->values[n], &i32, sizeof i32);
        else if (s->kind == STEM_SCALAR_F32)
            memcpy(&e->values[n], &f32, sizeof f32);
        else
            memcpy(&e->values[n], &s->i, sizeof s->i);
    }
    for (uint32_t i = 0; i < n; i++)
        e->params[i] = &e->values[i];
    return n;
}

/* A temporary that is not allocated would be a null pointer on the device: never launched. */
static enum stem_status check_operands(const struct stem_exec *e, const struct stem_plan_op *op,
                                       struct stem_rt_error *err)
{
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct stem_tensor *t = &op->operands[i].tensor;
        if (t->buffer != STEM_NONE && e->values[i] == t->offset && stem_tensor_extent(t))
            return stem_fail(err, STEM_E_PLAN,
                             "operand %u has no memory: it is used before it is allocated or after it "
                             "is freed",
                             (unsigned)i);
    }
    return STEM_OK;
}

static enum stem_status launch_kernel(struct stem_exec *e, const struct stem_plan_op *op, struct CUstream_st *stream,
                                      struct stem_rt_error *err)
{
    bool programmatic = op->programmatic && stem_rt_programmatic(e->rt);
    struct stem_cuda_launch_attr attr = {.id = STEM_CUDA_LAUNCH_PROGRAMMATIC_SERIALIZATION};
    attr.value.programmatic = 1;
    struct stem_cuda_launch_config config = {
        .grid_x = op->grid[0],
        .grid_y = op->grid[1],
        .grid_z = op->grid[2],
        .block_x = op->block[0],
        .block_y = op->block[1],
        .block_z = op->block[2],
        .smem = op->smem,
        .stream = stream,
        .attrs = programmatic ? &attr : NULL,
        .n_attrs = programmatic,
    };
    int code = e->rt->d.launch(&config, e->kernels[op->kernel], e->params, NULL);
    return code ? stem_fail_cuda(err, &e->rt->d, code, "launching kernel %s", e->plan->kernels[op->kernel].name)
                : STEM_OK;
}

static enum stem_status call_extern(struct stem_exec *e, const struct stem_plan_op *op, struct CUstream_st *stream,
                                    bool capturing, struct stem_rt_error *err)
{
    void *operands[64], **at = operands;
    if (op->n_operands > 64 && !(at = malloc(op->n_operands * sizeof *at)))
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    for (uint32_t i = 0; i < op->n_operands; i++)
        at[i] = (void *)(uintptr_t)e->values[i];
    struct stem_call call = {
        .version = 1,
        .name = op->name,
        .n_operands = op->n_operands,
        .operands = at,
        .tensors = op->operands,
        .n_scalars = op->n_scalars,
        .scalars = op->scalars,
        .n_attrs = op->n_attrs,
        .attrs = op->attrs,
        .on_gpu = true,
        .capturing = capturing,
    };
    int rc = e->externs[op->function].fn(&call, stream);
    if (at != operands)
        free(at);
    return rc ? stem_fail(err, STEM_E_EXTERN, "extern function %s returned %d", e->plan->externs[op->function].name,
                          rc)
              : STEM_OK;
}

enum stem_status stem_issue_op(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                               struct CUstream_st *stream, bool capturing, struct stem_rt_error *err)
{
    int code;
    stem_op_params(e, op, address);
    enum stem_status s = check_operands(e, op, err);
    if (s)
        return s;
    switch (op->work) {
    case STEM_WORK_LAUNCH:
        return launch_kernel(e, op, stream, err);
    case STEM_WORK_MEMSET:
        code =
            e->rt->d.memset_d8(e->values[0], op->memset_value, stem_tensor_extent(&op->operands[0].tensor), stream);
        return code ? stem_fail_cuda(err, &e->rt->d, code, "cuMemsetD8Async") : STEM_OK;
    case STEM_WORK_EXTERN:
        return call_extern(e, op, stream, capturing, err);
    case STEM_WORK_MATMUL:
        return stem_matmul_issue(e, op, stream, err);
    }
    return stem_fail(err, STEM_E_PLAN, "unknown work");
}

void stem_op_node(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                  struct CUgraph_st *child, struct stem_cuda_node_params *out)
{
    memset(out, 0, sizeof *out);
    stem_op_params(e, op, address);
    switch (op->work) {
    case STEM_WORK_LAUNCH:
        out->type = STEM_CUDA_NODE_KERNEL;
        out->kernel = (struct stem_cuda_kernel_params){
            .func = e->kernels[op->kernel],
            .grid_x = op->grid[0],
            .grid_y = op->grid[1],
            .grid_z = op->grid[2],
            .block_x = op->block[0],
            .block_y = op->block[1],
            .block_z = op->block[2],
            .smem = op->smem,
            .params = e->params,
        };
        break;
    case STEM_WORK_MEMSET:
        out->type = STEM_CUDA_NODE_MEMSET;
        out->memset = (struct stem_cuda_memset_params){
            .dst = e->values[0],
            .value = op->memset_value,
            .element_size = 1,
            .width = stem_tensor_extent(&op->operands[0].tensor),
            .height = 1,
            .ctx = e->rt->ctx,
        };
        break;
    case STEM_WORK_EXTERN:
        out->type = STEM_CUDA_NODE_GRAPH;
        out->graph.graph = child;
        break;
    case STEM_WORK_MATMUL: /* added by stem_matmul_add */
        break;
    }
}
