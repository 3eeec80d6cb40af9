/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans made by hand for the runtime's tests, the kernels in them, and what they compute.
 */
#include "plans.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "fakecuda.h"
#include "plan_runner.h"

enum { BYTES = PLAN_INTS * 4, SMEM = 40 << 10 }; /* SMEM: with what the kernels declare more than the usual 48 KiB */

static void *take(struct stem_plan *p, size_t n, size_t size)
{
    void *at = stem_plan_alloc(p, n * size);
    if (!at)
        abort();
    return at;
}

struct maker maker_new(void)
{
    static const char *const kernel_names[] = {"mix1", "mix2", "bump"};
    static const char *const stream_names[] = {"main", "side"};
    struct maker m = {.plan = stem_plan_new()};
    struct stem_plan *p = m.plan;
    struct stem_plan_kernel *kernels = take(p, 3, sizeof *kernels);
    for (int i = 0; i < 3; i++)
        kernels[i] = (struct stem_plan_kernel){.name = kernel_names[i], .max_smem = SMEM, .waits = true};
    struct stem_plan_extern *externs = take(p, 1, sizeof *externs);
    externs[0].name = "copy";
    p->version = STEM_PLAN_VERSION;
    p->name = "by_hand";
    p->source = "by_hand.stem";
    p->sm = 90;
    p->cuda = "";
    p->kernels = m.kernels = kernels;
    p->n_kernels = 3;
    p->externs = externs;
    p->n_externs = 1;
    p->streams = stream_names;
    p->n_streams = 2;
    p->priorities = take(p, 2, sizeof *p->priorities);
    m.buffers = take(p, PLAN_MAX, sizeof *m.buffers);
    m.ops = take(p, PLAN_MAX, sizeof *m.ops);
    m.steps = take(p, 4 * PLAN_MAX, sizeof *m.steps);
    m.segments = take(p, PLAN_MAX, sizeof *m.segments);
    m.n_segments = 1;
    return m;
}

uint32_t maker_buffer(struct maker *m, const char *name, enum stem_buffer_kind kind)
{
    struct stem_plan_buffer *b = &m->buffers[m->n_buffers];
    *b = (struct stem_plan_buffer){
        .name = name, .kind = kind, .bytes = BYTES, .align = 256, .dtype = STEM_I32, .rank = 1};
    b->dim[0] = PLAN_INTS;
    if (kind == STEM_BUFFER_TEMP) {
        b->offset = m->plan->slab_bytes;
        m->plan->slab_bytes += BYTES;
    } else {
        m->plan->n_external++;
    }
    return m->n_buffers++;
}

static void add_step(struct maker *m, enum stem_step_kind kind, uint32_t stream, uint32_t index)
{
    m->steps[m->n_steps++] = (struct stem_step){kind, stream, index};
    m->segments[m->n_segments - 1].n_steps++;
}

static struct stem_plan_op *add_op(struct maker *m, const char *name, uint32_t stream, enum stem_work work)
{
    struct stem_plan_op *op = &m->ops[m->n_ops];
    *op = (struct stem_plan_op){.name = name,
                                .kind = "by_hand",
                                .work = work,
                                .stream = stream,
                                .segment = m->n_segments - 1,
                                .layer = STEM_NONE,
                                .line = 10 + m->n_ops,
                                .column = 1,
                                .smem = work == STEM_WORK_LAUNCH ? SMEM : 0,
                                .grid = {1, 1, 1},
                                .block = {PLAN_INTS, 1, 1},
                                .resource = STEM_NONE};
    add_step(m, STEM_STEP_OP, stream, m->n_ops);
    m->segments[m->n_segments - 1].n_ops++;
    return op;
}

static void operands(struct maker *m, struct stem_plan_op *op, const uint32_t *buffers,
                     const enum stem_access *access, uint32_t n)
{
    struct stem_plan_operand *o = take(m->plan, n, sizeof *o);
    for (uint32_t i = 0; i < n; i++) {
        o[i].access = access[i];
        o[i].tensor = (struct stem_tensor){.buffer = buffers[i], .dtype = STEM_I32, .rank = 1};
        o[i].tensor.dim[0] = PLAN_INTS;
        o[i].tensor.stride[0] = 1;
    }
    op->operands = o;
    op->n_operands = n;
    m->n_ops++;
}

static void salt(struct maker *m, struct stem_plan_op *op, uint32_t kernel)
{
    struct stem_scalar *s = take(m->plan, 1, sizeof *s);
    *s = (struct stem_scalar){.kind = STEM_SCALAR_I32, .i = 101 + (int64_t)m->n_ops};
    op->scalars = s;
    op->n_scalars = 1;
    op->kernel = kernel;
}

static const enum stem_access write_read[] = {STEM_WRITE, STEM_READ, STEM_READ};

uint32_t maker_mix1(struct maker *m, const char *name, uint32_t stream, uint32_t out, uint32_t a)
{
    struct stem_plan_op *op = add_op(m, name, stream, STEM_WORK_LAUNCH);
    salt(m, op, 0);
    operands(m, op, (uint32_t[]){out, a}, write_read, 2);
    return m->n_ops - 1;
}

uint32_t maker_mix2(struct maker *m, const char *name, uint32_t stream, uint32_t out, uint32_t a, uint32_t b)
{
    struct stem_plan_op *op = add_op(m, name, stream, STEM_WORK_LAUNCH);
    salt(m, op, 1);
    operands(m, op, (uint32_t[]){out, a, b}, write_read, 3);
    return m->n_ops - 1;
}

uint32_t maker_bump(struct maker *m, const char *name, uint32_t stream, uint32_t x)
{
    struct stem_plan_op *op = add_op(m, name, stream, STEM_WORK_LAUNCH);
    salt(m, op, 2);
    operands(m, op, &x, (enum stem_access[]){STEM_READ_WRITE}, 1);
    return m->n_ops - 1;
}

uint32_t maker_zero(struct maker *m, const char *name, uint32_t stream, uint32_t x)
{
    struct stem_plan_op *op = add_op(m, name, stream, STEM_WORK_MEMSET);
    operands(m, op, &x, write_read, 1);
    return m->n_ops - 1;
}

uint32_t maker_copy(struct maker *m, const char *name, uint32_t stream, uint32_t out, uint32_t a)
{
    struct stem_plan_op *op = add_op(m, name, stream, STEM_WORK_EXTERN);
    op->kind = "extern:copy";
    operands(m, op, (uint32_t[]){out, a}, write_read, 2);
    return m->n_ops - 1;
}

uint32_t maker_record(struct maker *m, uint32_t stream)
{
    add_step(m, STEM_STEP_RECORD, stream, m->n_events);
    return m->n_events++;
}

void maker_wait(struct maker *m, uint32_t stream, uint32_t event)
{
    add_step(m, STEM_STEP_WAIT, stream, event);
}

void maker_alloc(struct maker *m, uint32_t stream, uint32_t buffer)
{
    add_step(m, STEM_STEP_ALLOC, stream, buffer);
}

void maker_free(struct maker *m, uint32_t stream, uint32_t buffer)
{
    add_step(m, STEM_STEP_FREE, stream, buffer);
}

void maker_segment(struct maker *m, bool eager)
{
    uint32_t s = m->n_segments - 1;
    m->segments[s].eager = eager;
    m->steps[m->n_steps++] = (struct stem_step){STEM_STEP_SEGMENT, 0, s};
    m->segments[s + 1] = (struct stem_plan_segment){.first_op = m->n_ops, .first_step = m->n_steps};
    m->n_segments++;
}

struct stem_plan *maker_done(struct maker *m)
{
    struct stem_plan *p = m->plan;
    maker_segment(m, false);
    m->n_segments--;
    struct stem_plan_variant *v = take(p, 1, sizeof *v);
    *v = (struct stem_plan_variant){.dim = take(p, 1, sizeof *v->dim),
                                    .buffers = m->buffers,
                                    .n_buffers = m->n_buffers,
                                    .ops = m->ops,
                                    .n_ops = m->n_ops,
                                    .steps = m->steps,
                                    .n_steps = m->n_steps,
                                    .segments = m->segments,
                                    .n_segments = m->n_segments,
                                    .n_events = m->n_events,
                                    .slab_bytes = p->slab_bytes};
    struct stem_plan_edge *edges = NULL;
    v->n_edges = stem_plan_derive_edges(v, p->n_streams, &edges);
    if (v->n_edges == STEM_NONE)
        abort();
    struct stem_plan_edge *kept = take(p, v->n_edges, sizeof *kept);
    if (v->n_edges)
        memcpy(kept, edges, v->n_edges * sizeof *kept);
    free(edges);
    v->edges = kept;
    p->variants = v;
    p->n_variants = 1;
    return p;
}

/* One layer: r = f(x, w); k = f(r); y = f(x, k) on main, z = f(x) and a cleared accumulator on side; h = f(y, z). */
static uint32_t layer(struct maker *m, uint32_t x, uint32_t w, uint32_t h, bool free_x)
{
    uint32_t r = maker_buffer(m, "r", STEM_BUFFER_TEMP), k = maker_buffer(m, "k", STEM_BUFFER_TEMP);
    uint32_t y = maker_buffer(m, "y", STEM_BUFFER_TEMP), z = maker_buffer(m, "z", STEM_BUFFER_TEMP);
    uint32_t acc = maker_buffer(m, "acc", STEM_BUFFER_TEMP);
    uint32_t fork = maker_record(m, 0);
    maker_alloc(m, 0, r);
    maker_mix2(m, "gate", 0, r, x, w);
    maker_alloc(m, 0, k);
    m->ops[maker_mix1(m, "topk", 0, k, r)].programmatic = true;
    maker_free(m, 0, r);
    maker_alloc(m, 0, y);
    maker_mix2(m, "experts", 0, y, x, k);
    maker_free(m, 0, k);
    if (m->damage != PLAN_NO_FORK)
        maker_wait(m, 1, fork);
    maker_alloc(m, 1, acc);
    maker_zero(m, "zero", 1, acc);
    maker_alloc(m, 1, z);
    maker_mix2(m, "shared", 1, z, x, acc);
    maker_free(m, 1, acc);
    uint32_t join = maker_record(m, 1);
    if (free_x && m->damage == PLAN_EARLY_FREE)
        maker_free(m, 0, x);
    if (m->damage != PLAN_NO_JOIN)
        maker_wait(m, 0, join);
    maker_mix2(m, "add", 0, h, y, z);
    maker_free(m, 0, y);
    maker_free(m, 0, z);
    if (free_x && m->damage != PLAN_EARLY_FREE)
        maker_free(m, 0, x);
    if (m->damage == PLAN_SHARED_BYTES)
        m->buffers[z].offset = m->buffers[y].offset;
    return h;
}

struct stem_plan *plan_two_layers(bool piecewise, enum plan_damage damage)
{
    struct maker m = maker_new();
    m.damage = damage;
    uint32_t in = maker_buffer(&m, "in", STEM_BUFFER_INPUT), w = maker_buffer(&m, "w", STEM_BUFFER_WEIGHT);
    uint32_t st = maker_buffer(&m, "st", STEM_BUFFER_STATE), out = maker_buffer(&m, "out", STEM_BUFFER_OUTPUT);
    uint32_t h1 = maker_buffer(&m, "h1", STEM_BUFFER_TEMP), h2 = maker_buffer(&m, "h2", STEM_BUFFER_TEMP);
    uint32_t c = maker_buffer(&m, "c", STEM_BUFFER_TEMP);
    maker_alloc(&m, 0, h1);
    layer(&m, in, w, h1, false);
    if (piecewise)
        maker_segment(&m, false);
    maker_alloc(&m, 0, c);
    maker_copy(&m, "copied", 0, c, h1);
    maker_free(&m, 0, h1);
    maker_bump(&m, "count", 0, st);
    if (piecewise)
        maker_segment(&m, true);
    maker_alloc(&m, 0, h2);
    layer(&m, c, w, h2, true);
    maker_mix2(&m, "last", 0, out, h2, st);
    maker_free(&m, 0, h2);
    if (damage == PLAN_NO_PDL_WAIT)
        m.kernels[0].waits = false;
    return maker_done(&m);
}

struct stem_plan *plan_one_layer(void)
{
    struct maker m = maker_new();
    uint32_t in = maker_buffer(&m, "in", STEM_BUFFER_INPUT), w = maker_buffer(&m, "w", STEM_BUFFER_WEIGHT);
    uint32_t st = maker_buffer(&m, "st", STEM_BUFFER_STATE), out = maker_buffer(&m, "out", STEM_BUFFER_OUTPUT);
    uint32_t h = maker_buffer(&m, "h", STEM_BUFFER_TEMP);
    maker_alloc(&m, 0, h);
    layer(&m, in, w, h, false);
    maker_bump(&m, "count", 0, st);
    maker_mix2(&m, "last", 0, out, h, st);
    maker_free(&m, 0, h);
    return maker_done(&m);
}

/* ---- what they compute ---- */

static void mix1(int32_t *out, const int32_t *a, int32_t s)
{
    for (int i = 0; i < PLAN_INTS; i++)
        out[i] = (int32_t)((uint32_t)a[i] * 3 + (uint32_t)s + (uint32_t)i);
}

static void mix2(int32_t *out, const int32_t *a, const int32_t *b, int32_t s)
{
    for (int i = 0; i < PLAN_INTS; i++)
        out[i] = (int32_t)((uint32_t)a[i] * 5 + (uint32_t)b[i] * 11 + (uint32_t)s + (uint32_t)i);
}

static void bump(int32_t *x, int32_t s)
{
    for (int i = 0; i < PLAN_INTS; i++)
        x[i] = (int32_t)((uint32_t)x[i] * 7 + (uint32_t)s);
}

static void run(void *user, const char *kernel, const uint32_t grid[3], const uint32_t block[3], uint32_t smem,
                void *const *params, uint32_t n)
{
    (void)user, (void)grid, (void)block, (void)smem;
    if (plan_runner_builtin(kernel, params))
        return;
    int32_t *p[3] = {NULL};
    for (uint32_t i = 0; i + 1 < n; i++) {
        p[i] = *(int32_t **)params[i];
        if (!fakecuda_touch(p[i], BYTES, true, kernel))
            return;
    }
    int32_t s = *(int32_t *)params[n - 1];
    if (strcmp(kernel, "mix1") == 0)
        mix1(p[0], p[1], s);
    else if (strcmp(kernel, "mix2") == 0)
        mix2(p[0], p[1], p[2], s);
    else
        bump(p[0], s);
}

void plans_install(const struct stem_plan *p)
{
    plan_runner_define_builtin();
    fakecuda_define_kernel("mix1", 3, (size_t[]){8, 8, 4});
    fakecuda_define_kernel("mix2", 4, (size_t[]){8, 8, 8, 4});
    fakecuda_define_kernel("bump", 2, (size_t[]){8, 4});
    for (uint32_t i = 0; i < p->n_kernels; i++)
        fakecuda_kernel_waits(p->kernels[i].name, p->kernels[i].waits);
    fakecuda_set_runner(run, NULL);
}

void plans_expect(const struct stem_plan *p, int32_t *const *ext)
{
    const struct stem_plan_variant *v = &p->variants[0];
    int32_t *slab = calloc(1, p->slab_bytes + 1);
    for (uint32_t i = 0; slab && i < v->n_ops; i++) {
        const struct stem_plan_op *op = &v->ops[i];
        int32_t *d[3] = {NULL};
        for (uint32_t k = 0; k < op->n_operands; k++) {
            uint32_t b = op->operands[k].tensor.buffer;
            d[k] = b < p->n_external ? ext[b] : slab + v->buffers[b].offset / 4;
        }
        if (op->work == STEM_WORK_MEMSET)
            memset(d[0], op->memset_value, BYTES);
        else if (op->work == STEM_WORK_EXTERN)
            memcpy(d[0], d[1], BYTES);
        else if (op->kernel == 0)
            mix1(d[0], d[1], (int32_t)op->scalars[0].i);
        else if (op->kernel == 1)
            mix2(d[0], d[1], d[2], (int32_t)op->scalars[0].i);
        else
            bump(d[0], (int32_t)op->scalars[0].i);
    }
    free(slab);
}

static int copy(const struct stem_call *call, struct CUstream_st *stream)
{
    return cuMemcpyDtoDAsync_v2((uintptr_t)call->operands[0], (uintptr_t)call->operands[1], BYTES, stream);
}

const struct stem_extern plans_externs[] = {{"copy", copy}};
