/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by cuBLASLt: y[m, n] = x[m, k] times the transpose of w[n, k], sums in f32. The library's matrices are
 * column-major, so that y is its D[n, m], w its A (transposed), x its B.
 */
#include "matmul.h"

#include <stdlib.h>
#include <string.h>

enum { X, W, Y, WORKSPACE }; /* operands */
enum { CANDIDATES = 32 };    /* algorithms that the heuristic is asked for */

/* What the choice of an algorithm depends on. */
struct problem {
    int64_t m, n, k;
    enum stem_dtype in, out;
    uint32_t align[3]; /* of x, w, y: powers of two, at most 256 */
    uint64_t workspace;
};

struct product {
    struct problem p;
    void *desc, *layout[3]; /* of x, w, y */
    struct stem_blas_algo algo;
    uint32_t n_nodes;
};

struct stem_matmuls {
    struct stem_cublaslt lib;
    void *handle;
    struct product *at;
    uint32_t n;
};

static enum stem_status fail_blas(const struct stem_matmuls *b, int code, const char *what, struct stem_rt_error *err)
{
    const char *name = b->lib.status_name(code);
    return stem_fail(err, STEM_E_LIBRARY, "%s: %s (%d)", what, name ? name : "unknown status", code);
}

/* ---- problems ---- */

/* What the plan promises of an operand's address: buffers are bound with their alignment. */
static uint32_t alignment(const struct stem_plan_variant *v, const struct stem_tensor *t)
{
    uint64_t a = v->buffers[t->buffer].align | t->offset | 256;
    return (uint32_t)(a & -a);
}

static struct problem problem_of(const struct stem_plan_variant *v, const struct stem_plan_op *op)
{
    const struct stem_tensor *w = &op->operands[W].tensor;
    struct problem p;
    memset(&p, 0, sizeof p); /* padding too: they are compared as bytes */
    p.n = w->dim[0];
    p.k = w->dim[1];
    p.m = (int64_t)stem_tensor_elements(&op->operands[X].tensor) / p.k;
    p.in = w->dtype;
    p.out = op->operands[Y].tensor.dtype;
    for (uint32_t i = 0; i < 3; i++)
        p.align[i] = alignment(v, &op->operands[i].tensor);
    p.workspace = stem_tensor_extent(&op->operands[WORKSPACE].tensor);
    return p;
}

static uint32_t find(const struct stem_matmuls *b, const struct problem *p)
{
    uint32_t i = 0;
    while (i < b->n && memcmp(&b->at[i].p, p, sizeof *p))
        i++;
    return i;
}

static const struct product *product_of(const struct stem_exec *e, const struct stem_plan_op *op)
{
    uint32_t i = 0;
    while (op < e->plan->variants[i].ops || op >= e->plan->variants[i].ops + e->plan->variants[i].n_ops)
        i++;
    return &e->matmuls->at[e->variants[i].matmul[op - e->plan->variants[i].ops]];
}

uint32_t stem_matmul_n_nodes(const struct stem_exec *e, const struct stem_plan_op *op)
{
    return product_of(e, op)->n_nodes;
}

uint32_t stem_exec_library_kernels(const struct stem_exec *e, uint32_t variant, uint32_t op)
{
    const struct stem_plan_op *o = &e->plan->variants[variant].ops[op];
    return o->work == STEM_WORK_MATMUL ? stem_matmul_n_nodes(e, o) : 0;
}

/* ---- the call ---- */

static int multiply(const struct stem_matmuls *b, const struct product *m, const uint64_t *operand, struct CUstream_st *stream)
{
    static const float one = 1, zero = 0;
    void *p[4];
    for (uint32_t i = 0; i < 4; i++)
        p[i] = (void *)(uintptr_t)operand[i];
    return b->lib.matmul(b->handle, m->desc, &one, p[W], m->layout[W], p[X], m->layout[X], &zero, p[Y], m->layout[Y], p[Y],
                         m->layout[Y], &m->algo, p[WORKSPACE], m->p.workspace, stream);
}

enum stem_status stem_matmul_issue(struct stem_exec *e, const struct stem_plan_op *op, struct CUstream_st *stream,
                                   struct stem_rt_error *err)
{
    int code = multiply(e->matmuls, product_of(e, op), e->values, stream);
    return code ? fail_blas(e->matmuls, code, "cublasLtMatmul", err) : STEM_OK;
}

/* ---- preparing ---- */

static int data_type(enum stem_dtype t)
{
    return t == STEM_BF16 ? STEM_BLAS_R_16BF : t == STEM_F16 ? STEM_BLAS_R_16F : STEM_BLAS_R_32F;
}

static int describe(const struct stem_matmuls *b, struct product *m)
{
    static const int32_t transposed = STEM_BLAS_OP_T;
    const struct problem *p = &m->p;
    int code = b->lib.desc_create(&m->desc, STEM_BLAS_COMPUTE_32F, STEM_BLAS_R_32F);
    if (!code)
        code = b->lib.desc_set(m->desc, STEM_BLAS_DESC_TRANSA, &transposed, sizeof transposed);
    if (!code)
        code = b->lib.layout_create(&m->layout[W], data_type(p->in), (uint64_t)p->k, (uint64_t)p->n, p->k);
    if (!code)
        code = b->lib.layout_create(&m->layout[X], data_type(p->in), (uint64_t)p->k, (uint64_t)p->m, p->k);
    if (!code)
        code = b->lib.layout_create(&m->layout[Y], data_type(p->out), (uint64_t)p->n, (uint64_t)p->m, p->n);
    return code;
}

/* A is w, B is x, C and D are y. */
static int prefer(const struct stem_matmuls *b, const struct product *m, void *preference)
{
    static const int of[4] = {W, X, Y, Y};
    int code = b->lib.pref_set(preference, STEM_BLAS_PREF_MAX_WORKSPACE, &m->p.workspace, sizeof m->p.workspace);
    for (int i = 0; i < 4 && !code; i++)
        code = b->lib.pref_set(preference, STEM_BLAS_PREF_ALIGN_A + i, &m->p.align[of[i]], sizeof m->p.align[0]);
    return code;
}

static int ask(const struct stem_matmuls *b, const struct product *m, struct stem_blas_heuristic *results, int *n)
{
    void *preference = NULL, *const *l = m->layout;
    int code = b->lib.pref_create(&preference);
    if (!code)
        code = prefer(b, m, preference);
    if (!code)
        code = b->lib.heuristic(b->handle, m->desc, l[W], l[X], l[Y], l[Y], preference, CANDIDATES, results, n);
    if (preference)
        b->lib.pref_destroy(preference);
    return code;
}

/* The first algorithm that is a chain of kernels, which only a capture shows; nothing is executed, so any address does. */
static enum stem_status choose(struct stem_exec *e, struct product *m, const struct stem_plan_op *op, uint64_t anywhere,
                               struct stem_rt_error *err)
{
    struct stem_blas_heuristic results[CANDIDATES];
    const struct problem *p = &m->p;
    int n = 0, code = ask(e->matmuls, m, results, &n);
    if (code)
        return fail_blas(e->matmuls, code, "cublasLtMatmulAlgoGetHeuristic", err);
    enum stem_status s =
        stem_fail(err, STEM_E_LIBRARY, "cuBLASLt has no algorithm for %lld x %lld x %lld in %s: compile with --matmul=own",
                  (long long)p->m, (long long)p->n, (long long)p->k, stem_dtype_name(p->in));
    for (int i = 0; i < n && s; i++) {
        struct stem_matmul_chain chain;
        if (results[i].state)
            continue;
        m->algo = results[i].algo;
        for (uint32_t k = 0; k < 4; k++)
            e->values[k] = anywhere;
        s = stem_matmul_capture(e, op, STEM_CUDA_CAPTURE_MODE_RELAXED, &chain, err);
        m->n_nodes = chain.n;
        stem_matmul_drop(e, &chain);
        if (s == STEM_E_CUDA)
            return s;
    }
    if (!s)
        stem_log(&e->rt->log, "launch", "%s: cuBLASLt does %lld x %lld x %lld with %u kernel%s", e->plan->name, (long long)p->m,
                 (long long)p->n, (long long)p->k, (unsigned)m->n_nodes, m->n_nodes == 1 ? "" : "s");
    return s;
}

static enum stem_status prepare(struct stem_exec *e, uint32_t variant, uint32_t op, uint64_t anywhere, struct stem_rt_error *err)
{
    struct stem_matmuls *b = e->matmuls;
    const struct stem_plan_variant *v = &e->plan->variants[variant];
    struct problem p = problem_of(v, &v->ops[op]);
    uint32_t at = find(b, &p);
    e->variants[variant].matmul[op] = at;
    if (at < b->n)
        return STEM_OK;
    struct product *more = realloc(b->at, (b->n + (size_t)1) * sizeof *more);
    if (!more)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    b->at = more;
    b->at[b->n++] = (struct product){.p = p};
    int code = describe(b, &b->at[at]);
    enum stem_status s = code ? fail_blas(b, code, "describing a product to cuBLASLt", err)
                              : choose(e, &b->at[at], &v->ops[op], anywhere, err);
    if (s)
        stem_error_at_op(err, e->plan, v, op);
    return s;
}

static enum stem_status prepare_all(struct stem_exec *e, uint64_t anywhere, struct stem_rt_error *err)
{
    for (uint32_t i = 0; i < e->plan->n_variants; i++) {
        const struct stem_plan_variant *v = &e->plan->variants[i];
        if (!(e->variants[i].matmul = stem_zalloc(v->n_ops, sizeof *e->variants[i].matmul)))
            return stem_fail(err, STEM_E_MEMORY, "out of memory");
        for (uint32_t k = 0; k < v->n_ops; k++) {
            enum stem_status s = v->ops[k].work == STEM_WORK_MATMUL ? prepare(e, i, k, anywhere, err) : STEM_OK;
            if (s)
                return s;
        }
    }
    return STEM_OK;
}

enum stem_status stem_matmul_load(struct stem_exec *e, struct stem_rt_error *err)
{
    uint64_t anywhere = 0;
    if (!stem_plan_has_matmul(e->plan))
        return STEM_OK;
    if (!(e->matmuls = stem_zalloc(1, sizeof *e->matmuls)))
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    enum stem_status s = stem_cublaslt_load(&e->matmuls->lib, err);
    if (s)
        return s;
    int code = e->matmuls->lib.create(&e->matmuls->handle);
    if (code) {
        e->matmuls->handle = NULL;
        return fail_blas(e->matmuls, code, "cublasLtCreate", err);
    }
    s = stem_new_memory(e->rt, 256, &anywhere, err);
    if (!s)
        s = prepare_all(e, anywhere, err);
    stem_drop_memory(e->rt, anywhere);
    return s;
}

void stem_matmul_unload(struct stem_exec *e)
{
    struct stem_matmuls *b = e->matmuls;
    for (uint32_t i = 0; e->variants && i < e->plan->n_variants; i++)
        free(e->variants[i].matmul);
    if (!b)
        return;
    for (uint32_t i = 0; i < b->n; i++) {
        for (uint32_t k = 0; k < 3; k++)
            if (b->at[i].layout[k])
                b->lib.layout_destroy(b->at[i].layout[k]);
        if (b->at[i].desc)
            b->lib.desc_destroy(b->at[i].desc);
    }
    if (b->handle)
        b->lib.destroy(b->handle);
    stem_cublaslt_unload(&b->lib);
    free(b->at);
    free(b);
    e->matmuls = NULL;
}
