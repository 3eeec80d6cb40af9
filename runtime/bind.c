/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a program: its slab, buffers of its own, and what the caller binds.
 */
#include "exec.h"

#include <string.h>

#include "fill.h"

/* ---- slab and pool ---- */

enum stem_status stem_slab_ready(struct stem_exec *e, struct stem_rt_error *err)
{
    uint64_t bytes = e->plan->slab_bytes;
    if (e->slab || bytes == 0)
        return STEM_OK;
    if (e->o.slab) {
        e->slab = e->o.slab;
        return STEM_OK;
    }
    if (e->o.alloc) {
        e->slab = e->o.alloc(e->o.user, bytes, e->origin);
        if (!e->slab)
            return stem_fail(err, STEM_E_CUDA, "the caller's allocator has no %llu bytes for the slab",
                             (unsigned long long)bytes);
        if (e->slab % 256) {
            e->o.free(e->o.user, e->slab, bytes, e->origin);
            e->slab = 0;
            return stem_fail(err, STEM_E_ARGUMENT, "the caller's allocator returned a slab not aligned to 256 bytes");
        }
        atomic_fetch_add(&e->rt->live, 1);
        /* The slab is used on any stream, not only in the order of this one. */
        e->rt->d.stream_synchronize(e->origin);
    } else {
        enum stem_status s = stem_new_memory(e->rt, bytes, &e->slab, err);
        if (s)
            return s;
    }
    e->own_slab = true;
    e->generation++;
    return STEM_OK;
}

void stem_slab_drop(struct stem_exec *e)
{
    if (e->own_slab && e->o.free) {
        e->o.free(e->o.user, e->slab, e->plan->slab_bytes, e->origin);
        atomic_fetch_add(&e->rt->live, -1);
    } else if (e->own_slab) {
        stem_drop_memory(e->rt, e->slab);
    }
    e->slab = 0;
    e->own_slab = false;
}

enum stem_status stem_pool_alloc(struct stem_exec *e, size_t bytes, struct CUstream_st *stream, uint64_t *at,
                                 struct stem_rt_error *err)
{
    *at = 0;
    if (e->o.alloc) {
        *at = e->o.alloc(e->o.user, bytes ? bytes : 1, stream);
        if (!*at)
            return stem_fail(err, STEM_E_CUDA, "the caller's allocator has no %zu bytes", bytes);
    } else {
        if (!e->rt->pools)
            return stem_fail(err, STEM_E_ARGUMENT,
                             "this GPU has no memory pools: use slab mode or give an allocator");
        int code = e->rt->d.mem_alloc_async(at, bytes ? bytes : 1, stream);
        if (code) {
            *at = 0;
            return stem_fail_cuda(err, &e->rt->d, code, "cuMemAllocAsync of %zu bytes", bytes);
        }
    }
    atomic_fetch_add(&e->rt->live, 1);
    return STEM_OK;
}

enum stem_status stem_pool_free(struct stem_exec *e, uint64_t at, size_t bytes, struct CUstream_st *stream,
                                struct stem_rt_error *err)
{
    int code = 0;
    if (e->o.free)
        e->o.free(e->o.user, at, bytes, stream);
    else
        code = e->rt->d.mem_free_async(at, stream);
    atomic_fetch_add(&e->rt->live, -1);
    return code ? stem_fail_cuda(err, &e->rt->d, code, "cuMemFreeAsync") : STEM_OK;
}

enum stem_status stem_exec_prepare(struct stem_exec *e, struct stem_rt_error *err)
{
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = stem_slab_ready(e, err);
    stem_release(e);
    return s;
}

uint64_t stem_exec_slab(const struct stem_exec *e)
{
    return e ? e->slab : 0;
}

/* ---- bindings ---- */

uint32_t stem_exec_find(const struct stem_exec *e, const char *name)
{
    for (uint32_t i = 0; e && name && e->plan->n_variants && i < e->plan->n_external; i++)
        if (strcmp(e->plan->variants[0].buffers[i].name, name) == 0)
            return i;
    return STEM_NONE;
}

static enum stem_status check_index(const struct stem_exec *e, uint32_t index, struct stem_rt_error *err)
{
    if (index < e->plan->n_external)
        return STEM_OK;
    return stem_fail(err, STEM_E_ARGUMENT, "program %s has no external buffer %u: it has %u", e->plan->name,
                     (unsigned)index, (unsigned)e->plan->n_external);
}

/* Waits before memory of our own goes away under a launch. */
static void drop_own(struct stem_exec *e, struct stem_binding *b)
{
    if (!b->own)
        return;
    stem_order_wait(e, true, NULL);
    stem_drop_memory(e->rt, b->at);
    *b = (struct stem_binding){0};
}

enum stem_status stem_exec_bind(struct stem_exec *e, uint32_t index, uint64_t at, uint64_t bytes,
                                struct stem_rt_error *err)
{
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = check_index(e, index, err);
    if (!s) {
        struct stem_binding *b = &e->bindings[index];
        if (b->own || b->at != at || b->bytes != bytes) {
            drop_own(e, b);
            *b = (struct stem_binding){.at = at, .bytes = bytes};
            e->generation++;
        }
    }
    stem_release(e);
    return s;
}

enum stem_status stem_binding_own(struct stem_exec *e, uint32_t index, struct stem_rt_error *err)
{
    struct stem_binding *b = &e->bindings[index];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < e->plan->n_variants; i++)
        if (e->plan->variants[i].buffers[index].bytes > bytes)
            bytes = e->plan->variants[i].buffers[index].bytes;
    if (!b->own) {
        uint64_t at;
        enum stem_status s = stem_new_memory(e->rt, bytes, &at, err);
        if (s)
            return s;
        *b = (struct stem_binding){.at = at, .bytes = bytes, .own = true};
        e->generation++;
    }
    return stem_zero(e->rt, b->at, bytes, err);
}

enum stem_status stem_exec_bind_own(struct stem_exec *e, uint32_t index, struct stem_rt_error *err)
{
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = check_index(e, index, err);
    if (!s)
        s = stem_binding_own(e, index, err);
    stem_release(e);
    return s;
}

uint64_t stem_exec_address(const struct stem_exec *e, uint32_t index)
{
    return e && index < e->plan->n_external ? e->bindings[index].at : 0;
}

enum stem_status stem_exec_reset_state(struct stem_exec *e, struct stem_rt_error *err)
{
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = stem_order_wait(e, true, err);
    for (uint32_t i = 0; e->plan->n_variants && i < e->plan->n_external && !s; i++)
        if (e->plan->variants[0].buffers[i].kind == STEM_BUFFER_STATE && e->bindings[i].own)
            s = stem_zero(e->rt, e->bindings[i].at, e->bindings[i].bytes, err);
    stem_release(e);
    return s;
}

static enum stem_status check_binding(const struct stem_plan_buffer *b, const struct stem_binding *bound,
                                      struct stem_rt_error *err)
{
    if (b->bytes == 0)
        return STEM_OK;
    if (!bound->at)
        return stem_fail(err, STEM_E_UNBOUND, "buffer %s is not bound", b->name);
    if (bound->bytes < b->bytes)
        return stem_fail(err, STEM_E_UNBOUND, "buffer %s is bound to %llu bytes, %llu are needed", b->name,
                         (unsigned long long)bound->bytes, (unsigned long long)b->bytes);
    if (bound->at % b->align)
        return stem_fail(err, STEM_E_UNBOUND, "buffer %s is bound to an address that is not a multiple of %u",
                         b->name, (unsigned)b->align);
    return STEM_OK;
}

enum stem_status stem_resolve(struct stem_exec *e, uint32_t variant, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &e->plan->variants[variant];
    struct stem_variant_state *state = &e->variants[variant];
    if (state->generation == e->generation)
        return STEM_OK;
    for (uint32_t i = 0; i < e->plan->n_external; i++) {
        enum stem_status s = check_binding(&v->buffers[i], &e->bindings[i], err);
        if (s)
            return s;
        state->address[i] = state->pool[i] = e->bindings[i].at;
    }
    for (uint32_t i = e->plan->n_external; i < v->n_buffers; i++) {
        state->address[i] = e->slab ? e->slab + v->buffers[i].offset : 0;
        state->pool[i] = 0;
    }
    state->generation = e->generation;
    return STEM_OK;
}

enum stem_status stem_exec_fill(struct stem_exec *e, uint32_t variant, uint64_t seed, struct stem_rt_error *err)
{
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = stem_check_variant_index(e, variant, err);
    if (!s)
        s = stem_order_wait(e, true, err);
    for (uint32_t i = 0; !s && i < e->plan->n_external; i++) {
        const struct stem_plan_buffer *b = &e->plan->variants[variant].buffers[i];
        if (b->kind == STEM_BUFFER_OUTPUT || b->bytes == 0)
            continue;
        s = check_binding(b, &e->bindings[i], err);
        if (!s)
            s = stem_fill_device(e->rt, b, seed, e->bindings[i].at, err);
    }
    stem_release(e);
    return s;
}
