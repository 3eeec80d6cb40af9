/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps a launch back to an op of the plan: same kernel, grid, block, shared memory and scalars. Ops that agree in all
 * of these and in shapes are the same computation, so that the first one serves for all of them.
 */
#include "plan_runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "fakecuda.h"

static size_t scalar_size(enum stem_scalar_kind kind)
{
    return kind == STEM_SCALAR_I64 ? 8 : 4;
}

static bool scalar_is(const struct stem_scalar *s, const void *param)
{
    int32_t i32 = (int32_t)s->i;
    float f32 = (float)s->f;
    const void *mine = s->kind == STEM_SCALAR_I64   ? (const void *)&s->i
                       : s->kind == STEM_SCALAR_I32 ? (void *)&i32
                                                    : &f32;
    return memcmp(mine, param, scalar_size(s->kind)) == 0;
}

struct launch {
    const char *kernel;
    const uint32_t *grid, *block;
    uint32_t smem;
    void *const *params;
    uint32_t n;
};

/* An operand that is absent has a null pointer, and no other has. */
static bool operands_fit(const struct stem_plan_op *op, const struct launch *l)
{
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const void *p = *(void **)l->params[i];
        if ((p == NULL) != (op->operands[i].tensor.buffer == STEM_NONE))
            return false;
    }
    return true;
}

static uint32_t n_params(const struct stem_plan_op *op)
{
    return op->n_operands + op->n_scalars;
}

static bool fits(const struct stem_plan *plan, const struct stem_plan_op *op, const struct launch *l)
{
    if (op->work != STEM_WORK_LAUNCH || strcmp(plan->kernels[op->kernel].name, l->kernel) != 0)
        return false;
    if (memcmp(op->grid, l->grid, sizeof op->grid) != 0 || memcmp(op->block, l->block, sizeof op->block) != 0)
        return false;
    if (op->smem != l->smem || n_params(op) != l->n || !operands_fit(op, l))
        return false;
    for (uint32_t i = 0; i < op->n_scalars; i++)
        if (!scalar_is(&op->scalars[i], l->params[n_params(op) - op->n_scalars + i]))
            return false;
    return true;
}

static const struct stem_plan_op *find(const struct plan_runner *r, const struct launch *l)
{
    for (uint32_t k = 0; k < r->plan->n_variants; k++) {
        const struct stem_plan_variant *v = &r->plan->variants[(r->variant + k) % r->plan->n_variants];
        for (uint32_t i = 0; i < v->n_ops; i++)
            if (fits(r->plan, &v->ops[i], l))
                return &v->ops[i];
    }
    return NULL;
}

static bool touch(const struct stem_plan_op *op, void *const *data)
{
    for (uint32_t i = 0; i < op->n_operands; i++)
        if (data[i] && !fakecuda_touch(data[i], stem_tensor_extent(&op->operands[i].tensor), true, op->name))
            return false;
    return true;
}

/* A kernel of the stand-in's cuBLASLt: the product by the C reference, or its way to where it belongs. */
static bool run_product(const char *kernel, void *const *params)
{
    void *data[4]; /* x, w, y, workspace */
    int32_t v[5];  /* m, n, k, types as the library has them */
    if (strcmp(kernel, "cublaslt_sum") && strcmp(kernel, "cublaslt_end"))
        return false;
    for (int i = 0; i < 4; i++)
        memcpy(&data[i], params[i], sizeof data[i]);
    for (int i = 0; i < 5; i++)
        memcpy(&v[i], params[4 + i], sizeof v[i]);
    enum stem_dtype in = v[3] == 14 ? STEM_BF16 : STEM_F16, out = v[4] ? in : STEM_F32;
    uint64_t bytes = (uint64_t)v[0] * (uint64_t)v[1] * stem_dtype_bits(out) / 8;
    if (!fakecuda_touch(data[2], bytes, true, kernel) || !fakecuda_touch(data[3], 1, true, kernel))
        return true;
    if (!strcmp(kernel, "cublaslt_end")) {
        memcpy(data[2], data[3], bytes);
        return true;
    }
    const struct stem_plan_operand operands[] = {
        {STEM_READ, {.dtype = in, .rank = 2, .dim = {v[0], v[2]}, .stride = {v[2], 1}}},
        {STEM_READ, {.dtype = in, .rank = 2, .dim = {v[1], v[2]}, .stride = {v[2], 1}}},
        {STEM_WRITE, {.dtype = out, .rank = 2, .dim = {v[0], v[1]}, .stride = {v[1], 1}}},
        {STEM_WRITE, {.dtype = STEM_U8, .rank = 1, .dim = {1}, .stride = {1}}},
    };
    const struct stem_attr type = {.name = "out", .kind = STEM_ATTR_TEXT, .text = stem_dtype_name(out)};
    const struct stem_plan_op op = {.name = kernel, .kind = "matmul", .work = STEM_WORK_MATMUL, .operands = operands, .n_operands = 4,
                                    .attrs = &type, .n_attrs = 1};
    if (fakecuda_touch(data[0], 1, true, kernel) && fakecuda_touch(data[1], 1, true, kernel) && !stem_cpu_op(NULL, &op, data, NULL))
        fakecuda_fault("%s cannot be executed", kernel);
    return true;
}

static void run(void *user, const char *kernel, const uint32_t grid[3], const uint32_t block[3], uint32_t smem,
                void *const *params, uint32_t n)
{
    struct plan_runner *r = user;
    const struct launch l = {kernel, grid, block, smem, params, n};
    if (plan_runner_builtin(kernel, params) || run_product(kernel, params))
        return;
    const struct stem_plan_op *op = find(r, &l);
    for (; !op && r->more; op = find(r, &l))
        r = r->more;
    if (!op) {
        fakecuda_fault("a launch of %s is not one of the plan", kernel);
        return;
    }
    void *data[64];
    for (uint32_t i = 0; i < op->n_operands && i < 64; i++)
        memcpy(&data[i], params[i], sizeof data[i]);
    r->launches++;
    char *error = NULL;
    if (!touch(op, data) || stem_cpu_op(r->plan, op, data, &error))
        return;
    fakecuda_fault("%s", error ? error : op->name);
    if (!r->error[0])
        snprintf(r->error, sizeof r->error, "%s", error ? error : op->name);
    free(error);
}

/* The layout comes from an op that uses the kernel. */
static void define(const struct stem_plan *plan, uint32_t kernel)
{
    size_t sizes[64];
    for (uint32_t k = 0; k < plan->n_variants; k++)
        for (uint32_t i = 0; i < plan->variants[k].n_ops; i++) {
            const struct stem_plan_op *op = &plan->variants[k].ops[i];
            if (op->work != STEM_WORK_LAUNCH || op->kernel != kernel || n_params(op) > 64)
                continue;
            uint32_t pointers = n_params(op) - op->n_scalars;
            for (uint32_t p = 0; p < pointers; p++)
                sizes[p] = sizeof(void *);
            for (uint32_t p = 0; p < op->n_scalars; p++)
                sizes[pointers + p] = scalar_size(op->scalars[p].kind);
            fakecuda_define_kernel(plan->kernels[kernel].name, n_params(op), sizes);
            fakecuda_kernel_waits(plan->kernels[kernel].name, plan->kernels[kernel].waits);
            return;
        }
}

void plan_runner_add(struct plan_runner *r, struct plan_runner *more, const struct stem_plan *plan)
{
    *more = (struct plan_runner){.plan = plan, .more = r->more};
    r->more = more;
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        define(plan, i);
}

void plan_runner_install(struct plan_runner *r, const struct stem_plan *plan, uint32_t variant)
{
    *r = (struct plan_runner){.plan = plan, .variant = variant};
    plan_runner_define_builtin();
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        define(plan, i);
    fakecuda_set_runner(run, r);
}
