/* SPDX-License-Identifier: Apache-2.0
 *
 * A program on a device: made from a plan, with everything that launching needs made beforehand, so that a launch
 * allocates nothing on the host and loads nothing on the device.
 */
#include "exec.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "matmul.h"
#include "plan_check.h"

enum stem_status stem_acquire(struct stem_exec *e, struct stem_rt_error *err)
{
    bool idle = false;
    stem_error_clear(err);
    if (!e)
        return stem_fail(err, STEM_E_NULL, "e is NULL: no program is given");
    if (!atomic_compare_exchange_strong(&e->busy, &idle, true))
        return stem_fail(err, STEM_E_BUSY,
                         "program %s is in use by another thread, or by the callback of a launch that is not over",
                         e->plan->name);
    /* Callers mostly have the context current: asking is a tenth of pushing and popping, which shows in the launch of a
     * graph. */
    struct CUctx_st *current = NULL;
    enum stem_status s = STEM_OK;
    e->pushed = e->rt->d.ctx_current(&current) || current != e->rt->ctx;
    if (e->pushed)
        s = stem_enter(e->rt, err);
    if (s)
        atomic_store(&e->busy, false);
    return s;
}

void stem_release(struct stem_exec *e)
{
    if (e->pushed)
        stem_leave(e->rt);
    atomic_store(&e->busy, false);
}

enum stem_status stem_check_variant_index(const struct stem_exec *e, uint32_t variant, struct stem_rt_error *err)
{
    if (variant < e->plan->n_variants)
        return STEM_OK;
    return stem_fail(err, STEM_E_ARGUMENT, "program %s has no variant %u: it has %u", e->plan->name,
                     (unsigned)variant, (unsigned)e->plan->n_variants);
}

/* ---- checks ---- */

/* The listed edges are what the steps imply, so a captured graph and one built from the list are the same. */
static enum stem_status check_edges(const struct stem_plan *p, uint32_t variant, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &p->variants[variant];
    struct stem_plan_edge *derived;
    uint32_t n = stem_plan_derive_edges(v, p->n_streams, &derived);
    enum stem_status s = STEM_OK;
    if (n == STEM_NONE)
        return stem_fail(err, STEM_E_PLAN, "plan %s, variant %u: its steps imply no edges, or memory ran out",
                         p->name, (unsigned)variant);
    for (uint32_t i = 0; !s && (i < n || i < v->n_edges); i++) {
        const struct stem_plan_edge *a = i < n ? &derived[i] : NULL, *b = i < v->n_edges ? &v->edges[i] : NULL;
        if (a && b && a->from == b->from && a->to == b->to && a->kind == b->kind)
            continue;
        const struct stem_plan_edge *x = a ? a : b;
        s = stem_fail(err, STEM_E_MISMATCH, "variant %u: edge %u of the list is not what the steps imply (%s -> %s)",
                      (unsigned)variant, (unsigned)i, v->ops[x->from].name, v->ops[x->to].name);
        stem_error_at_op(err, p, v, x->to);
    }
    free(derived);
    return s;
}

static enum stem_status check_plan(const struct stem_plan *p, struct stem_rt_error *err)
{
    char place[128], text[256];
    if (p->version != STEM_PLAN_VERSION)
        return stem_fail(err, STEM_E_PLAN, "plan %s is of version %u, this runtime reads version %d", p->name,
                         (unsigned)p->version, STEM_PLAN_VERSION);
    for (uint32_t i = 0; i < p->n_variants; i++) {
        if (!stem_plan_check_variant(p, i, place, sizeof place, text, sizeof text))
            return stem_fail(err, STEM_E_PLAN, "plan %s: variants[%u]%s%s: %s", p->name, (unsigned)i,
                             place[0] ? "." : "", place, text);
        enum stem_status s = check_edges(p, i, err);
        if (s)
            return s;
    }
    return STEM_OK;
}

static enum stem_status check_options(const struct stem_plan *p, const struct stem_exec_options *o,
                                      struct stem_rt_error *err)
{
    if (o->memory != STEM_MEMORY_SLAB && o->memory != STEM_MEMORY_POOL)
        return stem_fail(err, STEM_E_ARGUMENT, "unknown memory mode %d", (int)o->memory);
    if (!o->alloc != !o->free)
        return stem_fail(err, STEM_E_ARGUMENT, "alloc and free must be given together");
    if (o->slab && o->memory == STEM_MEMORY_POOL)
        return stem_fail(err, STEM_E_ARGUMENT, "a slab of the caller's needs slab mode");
    if (o->slab && o->slab_bytes < p->slab_bytes)
        return stem_fail(err, STEM_E_ARGUMENT, "the slab has %llu bytes, %llu are needed",
                         (unsigned long long)o->slab_bytes, (unsigned long long)p->slab_bytes);
    if (o->slab % 256)
        return stem_fail(err, STEM_E_ARGUMENT, "the slab is not aligned to 256 bytes");
    if (o->n_externs && !o->externs)
        return stem_fail(err, STEM_E_NULL, "options.externs is NULL");
    for (uint32_t i = 0; i < o->n_externs; i++)
        if (!o->externs[i].name)
            return stem_fail(err, STEM_E_NULL, "options.externs[%u].name is NULL", (unsigned)i);
    return STEM_OK;
}

/* ---- making ---- */

static enum stem_status load_kernels(struct stem_exec *e, struct stem_rt_error *err)
{
    const struct stem_plan *p = e->plan;
    const void *image = e->o.cubin;
    enum stem_status s = STEM_OK;
    if (p->n_kernels == 0)
        return STEM_OK;
    if (!image) {
        char *name = stem_format("%s.cu", p->name);
        s = stem_compile(e->rt->compiler, p->cuda, name, e->rt->sm, NULL, 0, &e->cubin, err);
        free(name);
        image = e->cubin.data;
    }
    if (!s)
        s = stem_new_module(e->rt, image, &e->module, err);
    if (s)
        return s;
    /* Loaded now: with lazy loading the first launch would load, which a capture does not allow. */
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        int code = e->rt->d.module_function(&e->kernels[i], e->module, p->kernels[i].name);
        if (!code)
            code = e->rt->d.func_load(e->kernels[i]);
        /* Above 48 KiB, of which a kernel's own `__shared__` variables, which the plan does not know, are part. */
        if (!code && p->kernels[i].max_smem)
            code = e->rt->d.func_set_attribute(e->kernels[i], STEM_CUDA_FUNC_MAX_DYNAMIC_SMEM,
                                               (int)p->kernels[i].max_smem);
        /* Blocks of two kernels share a multiprocessor only if both want it split alike into shared memory and cache;
         * to split it anew it must be empty, and a kernel that is launched early would start late. */
        if (!code)
            code = e->rt->d.func_set_attribute(e->kernels[i], STEM_CUDA_FUNC_SMEM_CARVEOUT, 100);
        if (code)
            return stem_fail_cuda(err, &e->rt->d, code, "kernel %s (dynamic shared memory %u bytes)",
                                  p->kernels[i].name, (unsigned)p->kernels[i].max_smem);
    }
    return STEM_OK;
}

static enum stem_status load_externs(struct stem_exec *e, struct stem_rt_error *err)
{
    for (uint32_t i = 0; i < e->plan->n_externs; i++) {
        const struct stem_plan_extern *x = &e->plan->externs[i];
        struct stem_extern_state *state = &e->externs[i];
        for (uint32_t k = 0; k < e->o.n_externs; k++)
            if (strcmp(e->o.externs[k].name, x->name) == 0)
                state->fn = e->o.externs[k].fn;
        if (state->fn)
            continue;
        if (!x->library)
            return stem_fail(err, STEM_E_EXTERN,
                             "extern function %s is not registered, and the program names no library", x->name);
        state->library = dlopen(x->library, RTLD_NOW | RTLD_LOCAL);
        void *at = state->library ? dlsym(state->library, x->name) : NULL;
        if (!at) {
            const char *why = dlerror();
            return stem_fail(err, STEM_E_EXTERN, "extern function %s: %s", x->name, why ? why : x->library);
        }
        memcpy(&state->fn, &at, sizeof at);
    }
    return STEM_OK;
}

static enum stem_status make_streams(struct stem_exec *e, struct stem_rt_error *err)
{
    enum stem_status s = STEM_OK;
    const int32_t *priorities = e->plan->priorities;
    for (uint32_t i = 1; i < e->plan->n_streams && !s; i++)
        s = stem_new_stream(e->rt, priorities ? priorities[i] : 0, &e->streams[i], err);
    if (!s)
        s = stem_new_stream(e->rt, priorities ? priorities[0] : 0, &e->origin, err);
    if (!s && (e->plan->n_externs || stem_plan_has_matmul(e->plan)))
        s = stem_new_stream(e->rt, 0, &e->helper, err);
    for (uint32_t i = 0; i < e->n_events && !s; i++)
        s = stem_new_event(e->rt, STEM_CUDA_EVENT_DISABLE_TIMING, &e->events[i], err);
    if (!s)
        s = stem_new_event(e->rt, STEM_CUDA_EVENT_DISABLE_TIMING, &e->fork, err);
    if (!s)
        s = stem_new_event(e->rt, STEM_CUDA_EVENT_DISABLE_TIMING, &e->join, err);
    if (!s)
        s = stem_new_event(e->rt, STEM_CUDA_EVENT_DISABLE_TIMING, &e->done, err);
    return s;
}

static bool allocate_tables(struct stem_exec *e)
{
    const struct stem_plan *p = e->plan;
    bool ok = true;
    for (uint32_t i = 0; i < p->n_variants; i++) {
        const struct stem_plan_variant *v = &p->variants[i];
        e->n_events = v->n_events > e->n_events ? v->n_events : e->n_events;
        for (uint32_t k = 0; k < v->n_ops; k++) {
            uint32_t n = v->ops[k].n_operands + v->ops[k].n_scalars;
            e->max_params = n > e->max_params ? n : e->max_params;
        }
    }
    e->kernels = stem_zalloc(p->n_kernels, sizeof *e->kernels);
    e->externs = stem_zalloc(p->n_externs, sizeof *e->externs);
    e->streams = stem_zalloc(p->n_streams, sizeof *e->streams);
    e->events = stem_zalloc(e->n_events, sizeof *e->events);
    e->bindings = stem_zalloc(p->n_external, sizeof *e->bindings);
    e->variants = stem_zalloc(p->n_variants, sizeof *e->variants);
    e->values = stem_zalloc(e->max_params, sizeof *e->values);
    e->params = stem_zalloc(e->max_params, sizeof *e->params);
    if (!e->kernels || !e->externs || !e->streams || !e->events || !e->bindings || !e->variants || !e->values ||
        !e->params)
        return false;
    for (uint32_t i = 0; i < p->n_variants; i++) {
        e->variants[i].address = stem_zalloc(p->variants[i].n_buffers, sizeof *e->variants[i].address);
        e->variants[i].pool = stem_zalloc(p->variants[i].n_buffers, sizeof *e->variants[i].pool);
        ok = ok && e->variants[i].address && e->variants[i].pool;
    }
    return ok;
}

static enum stem_status make(struct stem_exec *e, struct stem_rt_error *err)
{
    enum stem_status s = STEM_OK;
    for (uint32_t i = 0; i < e->plan->n_variants && !s; i++)
        s = stem_route_make(e->plan, i, &e->variants[i].route, err);
    if (!s)
        s = load_externs(e, err);
    if (!s)
        s = load_kernels(e, err);
    if (!s)
        s = make_streams(e, err);
    if (!s)
        s = stem_matmul_load(e, err);
    if (!s && e->o.memory == STEM_MEMORY_SLAB)
        s = stem_slab_ready(e, err);
    /* State lives from here on, unless the caller binds his own. */
    for (uint32_t i = 0; i < e->plan->n_external && e->plan->n_variants && !s; i++)
        if (e->plan->variants[0].buffers[i].kind == STEM_BUFFER_STATE)
            s = stem_binding_own(e, i, err);
    return s;
}

enum stem_status stem_exec_new(struct stem_rt *rt, const struct stem_plan *plan,
                               const struct stem_exec_options *options, struct stem_exec **out,
                               struct stem_rt_error *err)
{
    static const struct stem_exec_options defaults;
    stem_error_clear(err);
    STEM_NEED(out, "exec");
    *out = NULL;
    STEM_NEED(rt, "rt");
    STEM_NEED(plan, "plan");
    if (!options)
        options = &defaults;
    enum stem_status s = check_plan(plan, err);
    if (!s)
        s = check_options(plan, options, err);
    if (s)
        return s;
    struct stem_exec *e = stem_zalloc(1, sizeof *e);
    if (!e)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    e->rt = rt;
    e->plan = plan;
    e->o = *options;
    e->generation = 1;
    if (!allocate_tables(e)) {
        s = stem_fail(err, STEM_E_MEMORY, "out of memory");
    } else if ((s = stem_enter(rt, err)) == STEM_OK) {
        s = make(e, err);
        stem_leave(rt);
    }
    if (s) {
        stem_exec_free(e);
        return s;
    }
    /* Borrowed for the call only. */
    e->o.cubin = NULL;
    e->o.externs = NULL;
    *out = e;
    return STEM_OK;
}

static void drop_device_objects(struct stem_exec *e)
{
    struct stem_rt *rt = e->rt;
    stem_order_wait(e, false, NULL);
    for (uint32_t i = 0; e->bindings && i < e->plan->n_external; i++)
        if (e->bindings[i].own)
            stem_drop_memory(rt, e->bindings[i].at);
    stem_slab_drop(e);
    for (uint32_t i = 0; e->events && i < e->n_events; i++)
        stem_drop_event(rt, e->events[i]);
    stem_drop_event(rt, e->fork);
    stem_drop_event(rt, e->join);
    stem_drop_event(rt, e->done);
    for (uint32_t i = 0; e->streams && i < e->plan->n_streams; i++)
        stem_drop_stream(rt, e->streams[i]);
    stem_matmul_unload(e);
    stem_drop_stream(rt, e->origin);
    stem_drop_stream(rt, e->helper);
    stem_drop_module(rt, e->module);
}

void stem_exec_free(struct stem_exec *e)
{
    if (!e)
        return;
    bool entered = stem_enter_to_free(e->rt);
    drop_device_objects(e);
    if (entered)
        stem_leave(e->rt);
    for (uint32_t i = 0; e->variants && i < e->plan->n_variants; i++) {
        stem_route_free(&e->variants[i].route);
        free(e->variants[i].address);
        free(e->variants[i].pool);
    }
    for (uint32_t i = 0; e->externs && i < e->plan->n_externs; i++)
        if (e->externs[i].library)
            dlclose(e->externs[i].library);
    stem_cubin_free(&e->cubin);
    free(e->kernels);
    free(e->externs);
    free(e->streams);
    free(e->events);
    free(e->bindings);
    free(e->variants);
    free(e->values);
    free(e->params);
    free(e);
}

const struct stem_cubin *stem_exec_cubin(const struct stem_exec *e)
{
    return e ? &e->cubin : NULL;
}
