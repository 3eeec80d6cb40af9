/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan's program on the CPU: memory, bindings, and the loop over ops. An op is run by its C reference, a memset, an
 * inline kernel compiled for the host, or the extern function itself.
 */
#define _GNU_SOURCE
#include "cpu/cpu.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/device.h"
#include "cpu/guard.h"
#include "ops/epilogue.h"
#include "ops/op.h"
#include "runtime/fill.h"
#include "runtime/mainstem_rt.h"

struct function {
    void *library; /* dlopen handle, NULL: registered or missing */
    stem_extern_fn *fn;
};

struct stem_cpu {
    const struct stem_plan *plan;
    unsigned char *slab;
    void **bound;     /* [variant][external] */
    void **state;     /* [external]: owned memory, NULL: none */
    struct stem_cpu_kernel *kernels; /* [kernel]: loaded for inline ones only */
    struct function *functions;      /* [extern] */
    struct stem_cpu_watch *watch;    /* NULL: nobody watches */
};

bool stem_cpu_fail(char **error, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (error && vasprintf(error, fmt, ap) < 0)
        *error = NULL;
    va_end(ap);
    return false;
}

/* Replaces *error, a message about the op, by one that says which op it was. */
static bool fail_op(char **error, const struct stem_plan *plan, const struct stem_plan_op *op)
{
    char *why = error ? *error : NULL;
    if (op->line)
        stem_cpu_fail(error, "%s:%u: op '%s' (%s): %s", plan->source ? plan->source : "?", op->line, op->name,
                      op->kind, why ? why : "failed");
    else
        stem_cpu_fail(error, "op '%s' (%s): %s", op->name, op->kind, why ? why : "failed");
    free(why);
    return false;
}

static bool is_inline(const struct stem_plan_op *op)
{
    return op->work == STEM_WORK_LAUNCH && !strncmp(op->kind, "kernel:", 7);
}

/* ---- one op ---- */

static bool run_reference(const struct stem_plan_op *op, void *const *data, char **error)
{
    const struct stem_op_def *def = stem_op_find(op->kind);
    if (!def || !def->reference)
        return stem_cpu_fail(error, "there is no C reference for ops of this kind");
    uint32_t n_out = stem_op_n_results(def);
    if (op->n_operands < n_out || op->n_operands > STEM_MAX_OPERANDS || op->n_attrs != def->n_attrs)
        return stem_cpu_fail(error, "%u operands and %u attributes are not what it takes", op->n_operands,
                             op->n_attrs);
    struct stem_tensor t[STEM_MAX_OPERANDS];
    for (uint32_t i = 0; i < op->n_operands; i++)
        t[i] = op->operands[i].tensor;
    struct stem_concrete c = {.def = def, .operand = t, .n_in = op->n_operands - n_out, .n_out = n_out,
                              .attrs = op->attrs, .n_attrs = op->n_attrs};
    stem_op_reference(&c, data);
    return true;
}

static bool run_extern(stem_extern_fn *fn, const struct stem_plan_op *op, void *const *data, char **error)
{
    struct stem_call call = {.version = 1, .name = op->name, .n_operands = op->n_operands, .operands = data,
                             .n_scalars = op->n_scalars, .scalars = op->scalars, .n_attrs = op->n_attrs,
                             .attrs = op->attrs, .tensors = op->operands};
    int code = fn(&call, NULL);
    return code == 0 || stem_cpu_fail(error, "the extern function returned %d", code);
}

/* Where the process may end by it, operands lie as a kernel's do; who calls as a library has the memory as it is. */
static bool run_watched(stem_extern_fn *fn, const struct stem_plan_op *op, void *const *data, struct stem_cpu_watch *watch, char **error)
{
    struct stem_cpu_guard g;
    if (!watch || op->n_operands > STEM_MAX_OPERANDS)
        return run_extern(fn, op, data, error);
    if (!stem_cpu_guard_new(&g, op, data, error))
        return false;
    stem_cpu_guard_tell(&g, watch);
    watch->last = op;
    bool ok = run_extern(fn, op, g.data, error);
    return stem_cpu_guard_end(&g, op, ok ? error : NULL) && ok;
}

static bool run_op(const struct stem_cpu_kernel *kernel, stem_extern_fn *fn, const struct stem_plan_op *op,
                   void *const *data, struct stem_cpu_watch *watch, char **error)
{
    if (op->work == STEM_WORK_MEMSET) {
        memset(data[0], op->memset_value, stem_tensor_extent(&op->operands[0].tensor));
        return true;
    }
    if (op->work == STEM_WORK_EXTERN)
        return fn ? run_watched(fn, op, data, watch, error)
                  : stem_cpu_fail(error, "the extern function is in no library and was not registered: `extern %s(...) from \"lib.so\";` names one",
                                  op->kind + strlen("extern:"));
    return is_inline(op) ? stem_cpu_kernel_run(kernel, op, data, watch, error) : run_reference(op, data, error);
}

/* ---- functions and kernels ---- */

static bool load_function(const struct stem_plan_extern *e, struct function *f, char **error)
{
    if (!e->library)
        return true;
    f->library = dlopen(e->library, RTLD_NOW | RTLD_LOCAL);
    if (!f->library)
        return stem_cpu_fail(error, "cannot load '%s' for the extern '%s': %s", e->library, e->name, dlerror());
    void *symbol = dlsym(f->library, e->name);
    if (!symbol)
        return stem_cpu_fail(error, "'%s' has no function '%s'", e->library, e->name);
    memcpy(&f->fn, &symbol, sizeof symbol);
    return true;
}

/* An error says where the function is called: plans do not keep where it is declared. */
static bool load_functions(struct stem_cpu *c, char **error)
{
    for (uint32_t f = 0; f < c->plan->n_externs; f++) {
        if (load_function(&c->plan->externs[f], &c->functions[f], error))
            continue;
        for (uint32_t i = 0; i < c->plan->n_variants; i++)
            for (uint32_t k = 0; k < c->plan->variants[i].n_ops; k++) {
                const struct stem_plan_op *op = &c->plan->variants[i].ops[k];
                if (op->work == STEM_WORK_EXTERN && op->function == f)
                    return fail_op(error, c->plan, op);
            }
        return false;
    }
    return true;
}

static bool load_kernels(struct stem_cpu *c, char **error)
{
    for (uint32_t i = 0; i < c->plan->n_variants; i++)
        for (uint32_t k = 0; k < c->plan->variants[i].n_ops; k++) {
            const struct stem_plan_op *op = &c->plan->variants[i].ops[k];
            if (is_inline(op) && !c->kernels[op->kernel].library &&
                !stem_cpu_kernel_load(c->plan, op->kernel, op->kind + 7, &c->kernels[op->kernel], error))
                return fail_op(error, c->plan, op);
        }
    return true;
}

bool stem_cpu_compiles(const struct stem_plan *plan, bool *rejected, char **error)
{
    *rejected = false;
    for (uint32_t i = 0; i < plan->n_variants; i++)
        for (uint32_t k = 0; k < plan->variants[i].n_ops; k++) {
            const struct stem_plan_op *op = &plan->variants[i].ops[k];
            if (is_inline(op) && !stem_cpu_kernel_compiles(plan, op->kernel, op->kind + 7, rejected, error))
                return *rejected ? false : fail_op(error, plan, op);
        }
    return true;
}

void stem_cpu_watch(struct stem_cpu *c, struct stem_cpu_watch *w)
{
    c->watch = w;
}

bool stem_cpu_op(const struct stem_plan *plan, const struct stem_plan_op *op, void *const *data, char **error)
{
    struct stem_cpu_kernel kernel = {0};
    struct function f = {0};
    bool ok = true;
    if (error)
        *error = NULL;
    if (is_inline(op))
        ok = stem_cpu_kernel_load(plan, op->kernel, op->kind + 7, &kernel, error);
    else if (op->work == STEM_WORK_EXTERN)
        ok = load_function(&plan->externs[op->function], &f, error);
    ok = (ok && run_op(&kernel, f.fn, op, data, NULL, error)) || fail_op(error, plan, op);
    stem_cpu_kernel_unload(&kernel);
    if (f.library)
        dlclose(f.library);
    return ok;
}

/* ---- the program ---- */

static bool allocate(struct stem_cpu *c)
{
    const struct stem_plan *p = c->plan;
    void *slab = NULL;
    if (posix_memalign(&slab, 256, p->slab_bytes + 1)) /* bases are as aligned as on the device */
        return false;
    c->slab = slab;
    memset(c->slab, 0, p->slab_bytes);
    c->bound = calloc((size_t)p->n_variants * p->n_external + 1, sizeof *c->bound);
    c->state = calloc(p->n_external + (size_t)1, sizeof *c->state);
    c->kernels = calloc(p->n_kernels + (size_t)1, sizeof *c->kernels);
    c->functions = calloc(p->n_externs + (size_t)1, sizeof *c->functions);
    return c->bound && c->state && c->kernels && c->functions;
}

struct stem_cpu *stem_cpu_new(const struct stem_plan *plan, char **error)
{
    if (error)
        *error = NULL;
    struct stem_cpu *c = calloc(1, sizeof *c);
    if (c)
        c->plan = plan;
    bool ok = c && (allocate(c) || stem_cpu_fail(error, "out of memory: the slab has %llu bytes",
                                                 (unsigned long long)plan->slab_bytes));
    ok = ok && load_functions(c, error) && load_kernels(c, error);
    if (!ok) {
        stem_cpu_free(c);
        return NULL;
    }
    return c;
}

void stem_cpu_free(struct stem_cpu *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->state && i < c->plan->n_external; i++)
        free(c->state[i]);
    for (uint32_t i = 0; c->kernels && i < c->plan->n_kernels; i++)
        stem_cpu_kernel_unload(&c->kernels[i]);
    for (uint32_t i = 0; c->functions && i < c->plan->n_externs; i++)
        if (c->functions[i].library)
            dlclose(c->functions[i].library);
    free(c->state);
    free(c->kernels);
    free(c->functions);
    free(c->bound);
    free(c->slab);
    free(c);
}

void stem_cpu_bind(struct stem_cpu *c, uint32_t variant, uint32_t index, void *data)
{
    c->bound[(size_t)variant * c->plan->n_external + index] = data;
}

bool stem_cpu_extern(struct stem_cpu *c, const char *name, stem_extern_fn *fn)
{
    bool found = false;
    for (uint32_t i = 0; i < c->plan->n_externs; i++)
        if (!strcmp(c->plan->externs[i].name, name)) {
            c->functions[i].fn = fn;
            found = true;
        }
    return found;
}

/* Owned memory of a state buffer, large enough for every variant; NULL when out of memory. */
static void *own_state(struct stem_cpu *c, uint32_t index)
{
    uint64_t bytes = 1;
    for (uint32_t i = 0; i < c->plan->n_variants; i++)
        bytes = c->plan->variants[i].buffers[index].bytes > bytes ? c->plan->variants[i].buffers[index].bytes : bytes;
    if (!c->state[index])
        c->state[index] = calloc(1, bytes);
    return c->state[index];
}

void *stem_cpu_buffer(struct stem_cpu *c, uint32_t variant, uint32_t index)
{
    const struct stem_plan_buffer *b = &c->plan->variants[variant].buffers[index];
    if (b->kind == STEM_BUFFER_TEMP)
        return c->slab + b->offset;
    void *bound = c->bound[(size_t)variant * c->plan->n_external + index];
    return bound || b->kind != STEM_BUFFER_STATE ? bound : own_state(c, index);
}

static bool run_in_place(struct stem_cpu *c, uint32_t variant, const struct stem_plan_op *op, char **error)
{
    void **data = calloc(op->n_operands + (size_t)1, sizeof *data);
    bool ok = data || stem_cpu_fail(error, STEM_CPU_NO_MEMORY);
    for (uint32_t i = 0; ok && i < op->n_operands; i++) {
        const struct stem_tensor *t = &op->operands[i].tensor;
        if (t->buffer == STEM_NONE)
            continue;
        unsigned char *base = stem_cpu_buffer(c, variant, t->buffer);
        if (base)
            data[i] = base + t->offset;
        else
            ok = stem_cpu_fail(error, "the buffer '%s' is not bound",
                               c->plan->variants[variant].buffers[t->buffer].name);
    }
    const struct stem_cpu_kernel *kernel = op->work == STEM_WORK_LAUNCH ? &c->kernels[op->kernel] : NULL;
    stem_extern_fn *fn = op->work == STEM_WORK_EXTERN ? c->functions[op->function].fn : NULL;
    if (c->watch) {
        c->watch->plan = c->plan;
        c->watch->variant = variant;
        c->watch->op = (uint32_t)(op - c->plan->variants[variant].ops);
        c->watch->n = 0;
    }
    ok = ok && run_op(kernel, fn, op, data, c->watch, error);
    bool short_of_memory = !ok && error && *error && !strcmp(*error, STEM_CPU_NO_MEMORY);
    if (c->watch && (ok || short_of_memory)) /* who watches takes a failure in here for the op's own */
        c->watch->plan = NULL;
    free(data);
    return ok || fail_op(error, c->plan, op);
}

/* ---- poison ---- */

/* For each buffer, how many ops have yet to touch it. */
static uint32_t *count_uses(const struct stem_plan_variant *v)
{
    uint32_t *left = calloc(v->n_buffers + (size_t)1, sizeof *left);
    for (uint32_t i = 0; left && i < v->n_ops; i++)
        for (uint32_t k = 0; k < v->ops[i].n_operands; k++)
            if (v->ops[i].operands[k].tensor.buffer != STEM_NONE)
                left[v->ops[i].operands[k].tensor.buffer]++;
    return left;
}

/* The earliest moment at which a legal plan has no more use for the bytes: nothing that takes them over may have run
 * before. */
static void poison_dead(struct stem_cpu *c, const struct stem_plan_variant *v, const struct stem_plan_op *op,
                        uint32_t *left)
{
    for (uint32_t k = 0; k < op->n_operands; k++) {
        uint32_t buffer = op->operands[k].tensor.buffer;
        if (buffer == STEM_NONE || --left[buffer] || v->buffers[buffer].kind != STEM_BUFFER_TEMP)
            continue;
        memset(c->slab + v->buffers[buffer].offset, 0xff, v->buffers[buffer].bytes);
    }
}

bool stem_cpu_run(struct stem_cpu *c, uint32_t variant, const struct stem_cpu_options *options, char **error)
{
    const struct stem_plan_variant *v = &c->plan->variants[variant];
    if (error)
        *error = NULL;
    uint32_t *order = stem_cpu_order(c->plan, v, options), *left = count_uses(v);
    bool ok = (order && left) || stem_cpu_fail(error, "no legal order: the plan is damaged, or memory is short");
    if (ok && options->poison)
        memset(c->slab, 0xff, c->plan->slab_bytes);
    for (uint32_t i = 0; ok && i < v->n_ops; i++) {
        const struct stem_plan_op *op = &v->ops[order[i]];
        ok = run_in_place(c, variant, op, error);
        if (ok && options->poison)
            poison_dead(c, v, op, left);
        if (options->progress)
            options->progress(options->user, i + 1, v->n_ops);
    }
    free(order);
    free(left);
    return ok;
}

void stem_fill(const struct stem_plan_buffer *b, uint64_t seed, void *data)
{
    stem_fill_host(b, seed, data);
}
