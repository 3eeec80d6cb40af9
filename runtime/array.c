/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding arrays that say what they are: each is held against its buffer before anything changes. Device arrays stay
 * the caller's; host arrays and tensors of files are copied into memory of the program's own.
 */
#include "exec.h"
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct stem_plan_buffer *stem_exec_buffer(const struct stem_exec *e, uint32_t variant, uint32_t index)
{
    if (!e || variant >= e->plan->n_variants || index >= e->plan->n_external)
        return NULL;
    return &e->plan->variants[variant].buffers[index];
}

enum stem_status stem_exec_variant(const struct stem_exec *e, const int64_t *dim, uint32_t *variant,
                                   struct stem_rt_error *err)
{
    double least = 0;
    char text[256] = "";
    size_t len = 0;
    stem_error_clear(err);
    STEM_NEED(variant, "variant");
    *variant = STEM_NONE;
    STEM_NEED(e, "e");
    const struct stem_plan *p = e->plan;
    if (p->n_dims && !dim)
        return stem_fail(err, STEM_E_NULL, "program %s has %u dims, no sizes are given", p->name,
                         (unsigned)p->n_dims);
    for (uint32_t v = 0; v < p->n_variants; v++) {
        double size = 1;
        bool fits = true;
        for (uint32_t i = 0; i < p->n_dims; i++) {
            fits = fits && dim[i] >= 1 && dim[i] <= p->variants[v].dim[i];
            size *= (double)p->variants[v].dim[i];
        }
        if (fits && (*variant == STEM_NONE || size < least)) {
            *variant = v;
            least = size;
        }
    }
    if (*variant != STEM_NONE)
        return STEM_OK;
    for (uint32_t i = 0; i < p->n_dims; i++) {
        int64_t most = 0;
        for (uint32_t v = 0; v < p->n_variants; v++)
            most = p->variants[v].dim[i] > most ? p->variants[v].dim[i] : most;
        bool none = dim[i] < 1;
        int n = snprintf(text + len, sizeof text - len, "%s%.32s=%lld (at %s %lld)", i ? ", " : "", p->dims[i],
                         (long long)dim[i], none ? "least" : "most", none ? 1LL : (long long)most);
        len = n > 0 && len + (size_t)n < sizeof text ? len + (size_t)n : sizeof text - 1;
    }
    return stem_fail(err, STEM_E_BUCKET, "program %s has no variant for %s", p->name, text);
}

/* ---- checks ---- */

static enum stem_status check_index(const struct stem_exec *e, uint32_t index, struct stem_rt_error *err)
{
    if (index < e->plan->n_external && e->plan->n_variants)
        return STEM_OK;
    return stem_fail(err, STEM_E_ARGUMENT, "program %s has no external buffer %u: it has %u", e->plan->name,
                     (unsigned)index, (unsigned)e->plan->n_external);
}

static bool same_shape(const struct stem_plan_buffer *b, const struct stem_array *a)
{
    if (stem_dtype_packed(b->dtype) && a->dtype == STEM_U8) {
        uint64_t bytes = 1;
        for (uint32_t i = 0; i < a->rank; i++)
            if (a->dim[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)a->dim[i], &bytes))
                return false;
        return bytes == b->bytes;
    }
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < b->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

/* The first variant whose buffer has the array's shape; NULL: none. */
static const struct stem_plan_buffer *match(const struct stem_exec *e, uint32_t index, const struct stem_array *a)
{
    for (uint32_t v = 0; v < e->plan->n_variants; v++)
        if (same_shape(&e->plan->variants[v].buffers[index], a))
            return &e->plan->variants[v].buffers[index];
    return NULL;
}

static size_t put_shape(char *text, size_t size, size_t at, uint32_t rank, const int64_t *dim)
{
    for (uint32_t i = 0; i <= rank && at < size; i++) {
        int n = i == rank ? snprintf(text + at, size - at, rank ? "]" : "[]")
                          : snprintf(text + at, size - at, "%s%lld", i ? ", " : "[", (long long)dim[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return at < size ? at : size - 1;
}

/* The shapes of all variants, each once. */
static void wanted(const struct stem_exec *e, uint32_t index, char *text, size_t size)
{
    size_t at = 0;
    for (uint32_t v = 0; v < e->plan->n_variants; v++) {
        const struct stem_plan_buffer *b = &e->plan->variants[v].buffers[index];
        bool known = false;
        for (uint32_t w = 0; w < v; w++)
            known = known || !memcmp(b->dim, e->plan->variants[w].buffers[index].dim, sizeof b->dim);
        if (known || at + 5 > size)
            continue;
        if (at)
            at += (size_t)snprintf(text + at, size - at, " or ");
        at = put_shape(text, size, at, b->rank, b->dim);
    }
}

static bool contiguous(const struct stem_array *a)
{
    int64_t step = 1;
    for (uint32_t i = a->rank; a->stride && i-- > 0;) {
        if (a->dim[i] == 0)
            return true;
        if (a->dim[i] != 1 && a->stride[i] != step)
            return false;
        step *= a->dim[i];
    }
    return true;
}

/* All but where it is. */
static enum stem_status check_array(const struct stem_exec *e, uint32_t index, const struct stem_array *a,
                                    struct stem_rt_error *err)
{
    stem_error_clear(err);
    if (!e)
        return stem_fail(err, STEM_E_NULL, "e is NULL: no program is given");
    enum stem_status s = check_index(e, index, err);
    if (s)
        return s;
    const struct stem_plan_buffer *b = &e->plan->variants[0].buffers[index];
    if (!a || (a->rank && !a->dim))
        return stem_fail(err, STEM_E_NULL, "buffer %s: no array, or no shape, is given", b->name);
    if (a->rank > STEM_MAX_RANK)
        return stem_fail(err, STEM_E_WRONG_SHAPE, "buffer %s: the array has rank %u, the buffer %u", b->name,
                         (unsigned)a->rank, (unsigned)b->rank);
    if (a->dtype != b->dtype && !(stem_dtype_packed(b->dtype) && a->dtype == STEM_U8))
        return stem_fail(err, STEM_E_WRONG_DTYPE, "buffer %s holds %s, the array %s", b->name,
                         stem_dtype_name(b->dtype),
                         (unsigned)a->dtype < STEM_N_DTYPES ? stem_dtype_name(a->dtype) : "an unknown dtype");
    char want[256] = "", have[160];
    const struct stem_plan_buffer *found = match(e, index, a);
    if (!found) {
        wanted(e, index, want, sizeof want);
        put_shape(have, sizeof have, 0, a->rank, a->dim);
        return stem_fail(err, STEM_E_WRONG_SHAPE, "buffer %s is %s, the array %s", b->name, want, have);
    }
    if (!contiguous(a))
        return stem_fail(err, STEM_E_WRONG_SHAPE, "buffer %s: the array is not contiguous", b->name);
    if (!a->at && found->bytes)
        return stem_fail(err, STEM_E_NULL, "buffer %s: the array's address is null", b->name);
    return STEM_OK;
}

/* The context is current. */
static enum stem_status check_device(struct stem_exec *e, const char *name, uint64_t at, struct stem_rt_error *err)
{
    unsigned type = 0;
    int ordinal = -1;
    int code = e->rt->d.pointer_attribute(&type, STEM_CUDA_POINTER_MEMORY_TYPE, at);
    if (!code && type == STEM_CUDA_MEMORY_DEVICE)
        code = e->rt->d.pointer_attribute(&ordinal, STEM_CUDA_POINTER_DEVICE_ORDINAL, at);
    if (code == STEM_CUDA_ERROR_INVALID_VALUE || (!code && type != STEM_CUDA_MEMORY_DEVICE))
        return stem_fail(err, STEM_E_WRONG_DEVICE,
                         "buffer %s: the array is in host memory, or freed: the program runs on GPU %d", name,
                         e->rt->device);
    if (code)
        return stem_fail_cuda(err, &e->rt->d, code, "buffer %s: cuPointerGetAttribute", name);
    if (ordinal != e->rt->device)
        return stem_fail(err, STEM_E_WRONG_DEVICE, "buffer %s: the array is on GPU %d, the program on GPU %d", name,
                         ordinal, e->rt->device);
    return STEM_OK;
}

enum stem_status stem_exec_check_array(struct stem_exec *e, uint32_t index, const struct stem_array *a, bool on_gpu,
                                       struct stem_rt_error *err)
{
    enum stem_status s = check_array(e, index, a, err);
    if (s || !on_gpu)
        return s;
    const struct stem_plan_buffer *b = match(e, index, a);
    if (!b->bytes || (s = stem_acquire(e, err)))
        return s;
    s = check_device(e, b->name, a->at, err);
    if (!s && a->at % b->align)
        s = stem_fail(err, STEM_E_UNBOUND, "buffer %s: the array's address is not a multiple of %u", b->name,
                      (unsigned)b->align);
    stem_release(e);
    return s;
}

/* ---- binding ---- */

enum stem_status stem_exec_bind_array(struct stem_exec *e, uint32_t index, const struct stem_array *a,
                                      struct stem_rt_error *err)
{
    enum stem_status s = stem_exec_check_array(e, index, a, true, err);
    return s ? s : stem_exec_bind(e, index, a->at, match(e, index, a)->bytes, err);
}

/* Runs that do not lie side by side in the file are put so first: one copy to the GPU is cheaper than thousands. */
static enum stem_status upload(struct stem_rt *rt, uint64_t at, const struct stem_weight_piece *p, struct stem_rt_error *err)
{
    if (p->rows == 1)
        return stem_rt_upload(rt, at + p->to, p->from, p->bytes, err);
    uint64_t bytes = stem_weight_piece_bytes(p);
    void *packed = malloc(bytes);
    if (!packed)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    stem_weight_piece_copy(p, packed);
    enum stem_status s = stem_rt_upload(rt, at + p->to, packed, bytes, err);
    free(packed);
    return s;
}

/* Copies pieces into own memory; the caller's binding comes back if that fails. Acquired. */
static enum stem_status copy_in(struct stem_exec *e, uint32_t index, const struct stem_weight *w, struct stem_rt_error *err)
{
    struct stem_binding was = e->bindings[index];
    enum stem_status s = stem_order_wait(e, true, err);
    if (!s)
        s = stem_binding_own(e, index, err);
    for (uint32_t i = 0; i < w->n && !s; i++)
        s = upload(e->rt, e->bindings[index].at, &w->pieces[i], err);
    if (s && !was.own && e->bindings[index].own) {
        stem_drop_memory(e->rt, e->bindings[index].at);
        e->bindings[index] = was;
        e->generation++;
    }
    return s;
}

enum stem_status stem_exec_bind_host(struct stem_exec *e, uint32_t index, const struct stem_array *a,
                                     struct stem_rt_error *err)
{
    enum stem_status s = check_array(e, index, a, err);
    if (s || (s = stem_acquire(e, err)))
        return s;
    struct stem_weight_piece whole = {.from = (const void *)(uintptr_t)a->at, .bytes = match(e, index, a)->bytes, .rows = 1};
    s = copy_in(e, index, &(struct stem_weight){&whole, 1}, err);
    stem_release(e);
    return s;
}

/* ---- files ---- */

static enum stem_status load(struct stem_exec *e, const struct stem_safetensors *f, bool strict, uint32_t *loaded,
                             struct stem_rt_error *err)
{
    *loaded = 0;
    if (!f)
        return stem_fail(err, STEM_E_NULL, "file is NULL");
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    uint32_t n = e->plan->n_variants ? e->plan->n_external : 0;
    /* All are checked before the first is copied. */
    for (int copy = 0; copy < 2; copy++)
        for (uint32_t i = 0; i < n && !s; i++) {
            const struct stem_plan_buffer *b = &e->plan->variants[0].buffers[i];
            struct stem_weight w;
            if (b->kind != STEM_BUFFER_WEIGHT || (s = stem_weight_find(f, b, strict, &w, err)))
                continue;
            if (copy && w.n && (s = copy_in(e, i, &w, err)) == STEM_OK)
                ++*loaded;
            stem_weight_free(&w);
        }
    stem_release(e);
    return s;
}

enum stem_status stem_exec_load(struct stem_exec *e, const struct stem_safetensors *f, uint32_t *loaded,
                                struct stem_rt_error *err)
{
    uint32_t n;
    return load(e, f, false, loaded ? loaded : &n, err);
}

enum stem_status stem_exec_load_all(struct stem_exec *e, const struct stem_safetensors *f, struct stem_rt_error *err)
{
    uint32_t n;
    return load(e, f, true, &n, err);
}
