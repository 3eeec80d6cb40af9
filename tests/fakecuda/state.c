/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in driver's state: the lock, the registry of objects, the numbering of calls, injected failures, the
 * trace and the list of faults.
 */
#include "core.h"

#include <pthread.h>
#include <stdarg.h>

struct fc_state fc;

struct text {
    char *at;
    size_t len, cap;
};

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct text trace, faults, live;
static uint64_t threads;

static void once_init(void)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
    pthread_mutexattr_destroy(&a);
    fc.order = FAKECUDA_RANDOM;
    fc.rng = 1;
    fc.generation = 1;
    fc.memory_limit = (uint64_t)1 << 30;
    fc.driver_version = 13000;
    fc.arch = 90;
}

void fc_lock(void)
{
    pthread_once(&once, once_init);
    pthread_mutex_lock(&lock);
}

void fc_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void *fc_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        abort();
    return p;
}

void *fc_reserve(void *at, size_t *cap, size_t want, size_t size)
{
    if (want <= *cap)
        return at;
    *cap = *cap * 2 > want ? *cap * 2 : want + 3;
    at = realloc(at, *cap * size);
    if (!at)
        abort();
    return at;
}

static void text_add(struct text *t, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0)
        return;
    t->at = fc_reserve(t->at, &t->cap, t->len + (size_t)n + 1, 1);
    vsnprintf(t->at + t->len, (size_t)n + 1, format, args);
    t->len += (size_t)n;
}

static void __attribute__((format(printf, 2, 3))) text_printf(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_add(t, format, args);
    va_end(args);
}

static void text_clear(struct text *t)
{
    free(t->at);
    *t = (struct text){0};
}

/* What one thread has: forgotten at a reset, which it notices by the generation. */
struct fc_thread *fc_thread(void)
{
    static _Thread_local struct fc_thread self;
    if (self.generation != fc.generation) {
        uint64_t id = self.id ? self.id : ++threads;
        self = (struct fc_thread){.generation = fc.generation, .id = id};
    }
    return &self;
}

/* xorshift64*, so that a seed gives the same orders everywhere. */
uint64_t fc_random(void)
{
    fc.rng ^= fc.rng >> 12;
    fc.rng ^= fc.rng << 25;
    fc.rng ^= fc.rng >> 27;
    return (fc.rng * 0x2545f4914f6cdd1dull) >> 32;
}

/* ---- objects ---- */

static const char *const kind_names[FC_N_KINDS] = {"context", "stream", "event", "module", "function",
                                                   "graph",   "node",   "exec",  "pool", "cublaslt"};

void *fc_new(enum fc_kind kind, size_t bytes, void (*dispose)(void *))
{
    struct fc_object *o = fc_alloc(bytes);
    o->self = o;
    o->kind = kind;
    o->id = ++fc.made[kind];
    o->dispose = dispose;
    fc.live[kind]++;
    HASH_ADD_PTR(fc.objects, self, o);
    return o;
}

void fc_kill(void *object)
{
    struct fc_object *o = object;
    if (o->dead)
        return;
    o->dead = true;
    fc.live[o->kind]--;
}

static struct fc_object *find(const void *handle)
{
    struct fc_object *o;
    HASH_FIND_PTR(fc.objects, &handle, o);
    return o;
}

void *fc_get(const void *handle, enum fc_kind kind)
{
    struct fc_object *o = handle ? find(handle) : NULL;
    if (!o || o->kind != kind)
        return NULL;
    if (o->dead) {
        fakecuda_fault("%s#%u is used after it was destroyed", kind_names[kind], o->id);
        return NULL;
    }
    return o;
}

const char *fc_str(const void *handle, enum fc_kind kind)
{
    static _Thread_local char buf[4][48];
    static _Thread_local unsigned next;
    char *b = buf[next++ % 4];
    fc_lock();
    struct fc_object *o = handle ? find(handle) : NULL;
    fc_unlock();
    if (o)
        snprintf(b, sizeof buf[0], "%s#%u", kind_names[o->kind], o->id);
    else if (kind == FC_STREAM && (!handle || handle == (const void *)CU_STREAM_LEGACY))
        snprintf(b, sizeof buf[0], "legacy");
    else if (kind == FC_STREAM && handle == (const void *)CU_STREAM_PER_THREAD)
        snprintf(b, sizeof buf[0], "per-thread");
    else
        snprintf(b, sizeof buf[0], handle ? "%s#?" : "null", kind_names[kind]);
    return b;
}

const char *fc_ptr(CUdeviceptr p)
{
    static _Thread_local char buf[4][48];
    static _Thread_local unsigned next;
    char *b = buf[next++ % 4];
    struct fc_block *k = fc_block_at((const void *)(uintptr_t)p);
    if (!k)
        snprintf(b, sizeof buf[0], p ? "foreign" : "null");
    else
        snprintf(b, sizeof buf[0], "memory#%u%+lld", k->id, (long long)(p - (uintptr_t)k->base));
    return b;
}

struct fc_kernel *fc_kernel_find(const char *name)
{
    struct fc_kernel *k;
    HASH_FIND_STR(fc.kernels, name, k);
    return k;
}

/* ---- calls ---- */

static CUresult need_error(int need)
{
    const struct fc_thread *t = fc_thread();
    if (t->in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    if (fc.sticky)
        return fc.sticky;
    if (need >= FC_NEED_INIT && !fc.inited)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need < FC_NEED_CONTEXT)
        return CUDA_SUCCESS;
    if (!t->depth || !t->current[t->depth - 1])
        return CUDA_ERROR_INVALID_CONTEXT;
    return t->current[t->depth - 1]->dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult fc_begin(int need, const char *name, const char *format, ...)
{
    fc.calls += !fc.own;
    text_printf(&trace, "%s", name);
    if (*format) {
        va_list args;
        va_start(args, format);
        text_printf(&trace, " ");
        text_add(&trace, format, args);
        va_end(args);
    }
    if (fc.fail_at && fc.calls == fc.fail_at && !fc.own) {
        fc.fail_at = 0;
        fc.failed = true;
        snprintf(fc.failed_call, sizeof fc.failed_call, "%s", name);
        /* An error that the device raised stays. */
        if (fc.fail_error >= CUDA_ERROR_ILLEGAL_ADDRESS && fc.fail_error < CUDA_ERROR_NOT_PERMITTED)
            fc.sticky = fc.fail_error;
        return fc.fail_error;
    }
    return need_error(need);
}

bool fc_refused(void)
{
    return !fc.inited || fc_thread()->in_callback;
}

CUresult fc_leave(CUresult result)
{
    text_printf(&trace, " = %d\n", result);
    fc_unlock();
    return result;
}

/* ---- what tests see ---- */

void fakecuda_fault(const char *format, ...)
{
    fc_lock();
    va_list args;
    va_start(args, format);
    text_add(&faults, format, args);
    va_end(args);
    text_printf(&faults, "\n");
    fc.faults++;
    fc_unlock();
}

const char *fakecuda_faults(void)
{
    return faults.at ? faults.at : "";
}

const char *fakecuda_trace(void)
{
    return trace.at ? trace.at : "";
}

void fakecuda_trace_clear(void)
{
    fc_lock();
    text_clear(&trace);
    fc_unlock();
}

uint64_t fakecuda_calls(void)
{
    fc_lock();
    uint64_t n = fc.calls;
    fc_unlock();
    return n;
}

void fakecuda_fail_call(uint64_t n, int error)
{
    fc_lock();
    fc.fail_at = n ? fc.calls + n : 0;
    fc.fail_error = error;
    fc.failed = false;
    fc.failed_call[0] = '\0';
    fc_unlock();
}

void fakecuda_own(bool on)
{
    fc_lock();
    fc.own += on ? 1U : -1U;
    fc_unlock();
}

bool fakecuda_failed(void)
{
    return fc.failed;
}

const char *fakecuda_failed_call(void)
{
    return fc.failed_call;
}

struct fakecuda_counts fakecuda_counts(void)
{
    fc_lock();
    struct fakecuda_counts c = {
        .contexts = fc.primary_refs > 0,
        .context_references = fc.primary_refs,
        .streams = fc.live[FC_STREAM],
        .events = fc.live[FC_EVENT],
        .modules = fc.live[FC_MODULE],
        .graphs = fc.live[FC_GRAPH],
        .nodes = fc.live[FC_NODE],
        .execs = fc.live[FC_EXEC],
        .pools = fc.live[FC_POOL],
        .cublaslt = fc.live[FC_BLAS],
        .captures = fc_capture_count(),
        .pending = fc_pending(),
    };
    fc_memory_counts(&c);
    c.faults = fc.faults; /* last: counting the memory checks its guard zones */
    fc_unlock();
    return c;
}

const char *fakecuda_live(void)
{
    fc_lock();
    text_clear(&live);
    struct fc_object *o, *tmp;
    HASH_ITER(hh, fc.objects, o, tmp)
    {
        if (!o->dead && o->kind != FC_FUNCTION && o->kind != FC_NODE)
            text_printf(&live, "%s#%u\n", kind_names[o->kind], o->id);
    }
    struct fakecuda_counts c = {0};
    fc_memory_counts(&c);
    text_printf(&live, "%u allocations, %u nodes, %u references to the context\n", c.allocations, fc.live[FC_NODE],
                fc.primary_refs);
    fc_unlock();
    return live.at;
}

void fakecuda_set_order(enum fakecuda_order order)
{
    fc_lock();
    fc.order = order;
    fc_unlock();
}

void fakecuda_seed(uint64_t seed)
{
    fc_lock();
    fc.order = FAKECUDA_RANDOM;
    fc.rng = (seed + 1) * 0x9e3779b97f4a7c15ull;
    fc.rng = fc.rng ? fc.rng : 1;
    fc_random();
    fc_unlock();
}

void fakecuda_set_memory(uint64_t bytes)
{
    fc_lock();
    fc.memory_limit = bytes;
    fc_unlock();
}

void fakecuda_set_driver_version(int version)
{
    fc_lock();
    fc.driver_version = version;
    fc_unlock();
}

void fakecuda_set_arch(int sm)
{
    fc_lock();
    fc.arch = sm;
    fc_unlock();
}

void fakecuda_set_pointer_device(int ordinal)
{
    fc_lock();
    fc.pointer_device = ordinal;
    fc_unlock();
}

void fakecuda_set_runner(fakecuda_runner *run, void *user)
{
    fc_lock();
    fc.runner = run;
    fc.user = user;
    fc_unlock();
}

void fakecuda_define_kernel(const char *name, uint32_t n_params, const size_t *sizes)
{
    fc_lock();
    struct fc_kernel *k = fc_kernel_find(name);
    if (!k) {
        k = fc_alloc(sizeof *k);
        k->name = strdup(name);
        HASH_ADD_KEYPTR(hh, fc.kernels, k->name, strlen(k->name), k);
    }
    free(k->sizes);
    k->sizes = fc_alloc(n_params * sizeof *k->sizes);
    k->n_params = n_params;
    k->bytes = 0;
    for (uint32_t i = 0; i < n_params; i++) {
        k->sizes[i] = sizes[i];
        k->bytes += (sizes[i] + 15) & ~(size_t)15;
    }
    fc_unlock();
}

void fakecuda_kernel_waits(const char *name, bool waits)
{
    fc_lock();
    struct fc_kernel *k = fc_kernel_find(name);
    if (k)
        k->waits = waits;
    fc_unlock();
}

void fakecuda_finish(void)
{
    fc_lock();
    fc_sync_all();
    fc_unlock();
}

static void forget_kernels(void)
{
    struct fc_kernel *k, *tmp;
    HASH_ITER(hh, fc.kernels, k, tmp)
    {
        HASH_DEL(fc.kernels, k);
        free(k->name);
        free(k->sizes);
        free(k);
    }
}

void fakecuda_reset(void)
{
    fc_lock();
    fc_sched_reset();
    fc_capture_reset();
    struct fc_object *o, *tmp;
    HASH_ITER(hh, fc.objects, o, tmp)
    {
        if (o->dispose)
            o->dispose(o);
    }
    HASH_ITER(hh, fc.objects, o, tmp)
    {
        HASH_DEL(fc.objects, o);
        free(o);
    }
    fc_memory_reset();
    forget_kernels();
    fakecuda_cublaslt("21");
    text_clear(&trace);
    text_clear(&faults);
    text_clear(&live);
    fc = (struct fc_state){
        .generation = fc.generation + 1, .order = FAKECUDA_RANDOM, .rng = 1, .memory_limit = (uint64_t)1 << 30,
        .driver_version = 13000, .arch = 90};
    fc_stream_reset();
    fc_unlock();
}
