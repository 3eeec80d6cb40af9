/* SPDX-License-Identifier: Apache-2.0
 *
 * The audit: when and on which lanes the work of a replay really ran, from CUPTI's records. CUPTI calls back without a user pointer,
 * so a process can have one audit at a time; `current` is the only variable of the library that outlives a call, and
 * CUPTI's interface is the reason for it.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "internal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cupti_abi.h"
#include "nvrtc.h"

enum { BUFFER_BYTES = 4 << 20 };

struct stem_audit {
    struct stem_cupti cupti;
    pthread_mutex_t lock; /* guards the records: CUPTI delivers from a thread of its own */
    struct stem_audit_record *records;
    size_t n, cap;
    char **names;
    size_t n_names;
    size_t dropped, taken; /* taken: records before this one were handed over */
    bool memory, out_of_memory, stopped;
};

static _Atomic(struct stem_audit *) current;

/* ---- records ---- */

static const char *keep_name(struct stem_audit *a, const char *name)
{
    if (!name)
        name = "";
    for (size_t i = a->n_names; i-- > 0;)
        if (strcmp(a->names[i], name) == 0)
            return a->names[i];
    char **names = realloc(a->names, (a->n_names + 1) * sizeof *names);
    if (!names)
        return NULL;
    a->names = names;
    if (!(names[a->n_names] = strdup(name)))
        return NULL;
    return names[a->n_names++];
}

static void keep(struct stem_audit *a, const char *of, struct stem_audit_record record)
{
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 4096;
        struct stem_audit_record *records = realloc(a->records, cap * sizeof *records);
        if (!records) {
            a->out_of_memory = true;
            return;
        }
        a->records = records;
        a->cap = cap;
    }
    record.name = keep_name(a, of);
    if (!record.name) {
        a->out_of_memory = true;
        return;
    }
    a->records[a->n++] = record;
}

#define HEAD(r, what)                                                                                                \
    .kind = (what), .stream = (r)->stream, .graph = (r)->graph, .graph_node = (r)->graph_node,                       \
    .correlation = (r)->correlation, .start_ns = (r)->start, .end_ns = (r)->end

/* Records without an end are of work that CUPTI could not time. */
static void read_record(struct stem_audit *a, const void *record)
{
    const struct stem_cupti_kernel *k = record;
    const struct stem_cupti_memset *m = record;
    const struct stem_cupti_memcpy *c = record;
    if (k->kind == STEM_CUPTI_CONCURRENT_KERNEL && k->end) {
        struct stem_audit_record r = {HEAD(k, STEM_AUDIT_KERNEL)};
        for (int i = 0; i < 3; i++) {
            r.grid[i] = (uint32_t)k->grid[i];
            r.block[i] = (uint32_t)k->block[i];
        }
        keep(a, k->name, r);
    } else if (k->kind == STEM_CUPTI_MEMSET && m->end) {
        keep(a, "memset", (struct stem_audit_record){HEAD(m, STEM_AUDIT_MEMSET), .bytes = m->bytes});
    } else if (k->kind == STEM_CUPTI_MEMCPY && c->end) {
        keep(a, "memcpy", (struct stem_audit_record){HEAD(c, STEM_AUDIT_MEMCPY), .bytes = c->bytes});
    }
}

static void request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *max_records = 0;
}

static void complete(struct CUctx_st *ctx, uint32_t stream, uint8_t *buffer, size_t size, size_t valid_size)
{
    (void)size;
    struct stem_audit *a = atomic_load(&current);
    void *record = NULL;
    size_t dropped = 0;
    if (a) {
        pthread_mutex_lock(&a->lock);
        while (valid_size && a->cupti.next_record(buffer, valid_size, &record) == 0)
            read_record(a, record);
        if (a->cupti.dropped(ctx, stream, &dropped) == 0)
            a->dropped += dropped;
        pthread_mutex_unlock(&a->lock);
    }
    free(buffer);
}

/* ---- CUPTI ---- */

static const int kinds[] = {STEM_CUPTI_CONCURRENT_KERNEL, STEM_CUPTI_MEMSET, STEM_CUPTI_MEMCPY};

static bool symbol(struct stem_cupti *c, const char *name, void *member)
{
    void *at = dlsym(c->handle, name);
    memcpy(member, &at, sizeof at);
    return at != NULL;
}

static enum stem_status load(struct stem_cupti *c, const char *path, struct stem_rt_error *err)
{
    static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", NULL};
    char *why = NULL;
    if (path && path[0]) {
        c->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        const char *text = c->handle ? NULL : dlerror();
        why = text ? strdup(text) : NULL;
    } else {
        c->handle = stem_cuda_library("libcupti.so*", sonames, &why);
    }
    enum stem_status s = STEM_OK;
    if (!c->handle)
        s = stem_fail(err, STEM_E_NO_CUPTI, "no CUPTI: %s (set MAINSTEM_CUDA)", why ? why : "out of memory");
    else if (!symbol(c, "cuptiActivityRegisterCallbacks", &c->register_callbacks) ||
             !symbol(c, "cuptiActivityEnable", &c->enable) || !symbol(c, "cuptiActivityDisable", &c->disable) ||
             !symbol(c, "cuptiActivityFlushAll", &c->flush_all) ||
             !symbol(c, "cuptiActivityGetNextRecord", &c->next_record) ||
             !symbol(c, "cuptiActivityGetNumDroppedRecords", &c->dropped) ||
             !symbol(c, "cuptiGetResultString", &c->result_string))
        s = stem_fail(err, STEM_E_NO_CUPTI, "the CUPTI found lacks an entry point that is needed");
    free(why);
    return s;
}

static enum stem_status fail_cupti(const struct stem_cupti *c, int code, const char *what, struct stem_rt_error *err)
{
    const char *text = NULL;
    if (c->result_string(code, &text))
        text = NULL;
    return stem_fail(err, STEM_E_NO_CUPTI, "%s: %s (%d)", what, text ? text : "CUPTI error", code);
}

enum stem_status stem_audit_start(const struct stem_audit_options *options, struct stem_audit **out,
                                  struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(out, "audit");
    *out = NULL;
    struct stem_audit *a = stem_zalloc(1, sizeof *a), *none = NULL;
    if (!a)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    pthread_mutex_init(&a->lock, NULL);
    enum stem_status s = load(&a->cupti, options ? options->cupti : NULL, err);
    if (!s && !atomic_compare_exchange_strong(&current, &none, a))
        s = stem_fail(err, STEM_E_BUSY, "an audit is running in this process, and CUPTI allows one");
    if (!s) {
        int code = a->cupti.register_callbacks(request, complete);
        a->memory = options && options->memory;
        for (uint32_t i = 0; !code && i < (a->memory ? 3 : 1); i++)
            code = a->cupti.enable(kinds[i]);
        if (code)
            s = fail_cupti(&a->cupti, code, "starting to collect kernel records", err);
    }
    if (s) {
        stem_audit_free(a);
        return s;
    }
    *out = a;
    return STEM_OK;
}

static int by_start(const void *x, const void *y)
{
    const struct stem_audit_record *a = x, *b = y;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->graph_node > b->graph_node) - (a->graph_node < b->graph_node);
}

/* Nobody delivers to `a` after this. */
static void detach(struct stem_audit *a)
{
    struct stem_audit *self = a;
    a->cupti.flush_all(STEM_CUPTI_FLUSH_FORCED);
    for (uint32_t i = 0; i < (a->memory ? 3 : 1); i++)
        a->cupti.disable(kinds[i]);
    atomic_compare_exchange_strong(&current, &self, NULL);
    pthread_mutex_lock(&a->lock);
    a->stopped = true;
    pthread_mutex_unlock(&a->lock);
}

enum stem_status stem_audit_take(struct stem_audit *a, const struct stem_audit_record **records, uint32_t *n,
                                 struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(records, "records");
    STEM_NEED(n, "n");
    *records = NULL;
    *n = 0;
    STEM_NEED(a, "a");
    if (!a->stopped)
        a->cupti.flush_all(STEM_CUPTI_FLUSH_FORCED);
    pthread_mutex_lock(&a->lock);
    struct stem_audit_record *first = a->n > a->taken ? a->records + a->taken : NULL;
    size_t count = a->n - a->taken;
    bool full = a->out_of_memory;
    a->taken = a->n;
    if (first)
        qsort(first, count, sizeof *first, by_start);
    pthread_mutex_unlock(&a->lock);
    if (full)
        return stem_fail(err, STEM_E_MEMORY, "out of memory for %zu records", count);
    *records = first;
    *n = (uint32_t)count;
    return STEM_OK;
}

enum stem_status stem_audit_stop(struct stem_audit *a, const struct stem_audit_record **records, uint32_t *n,
                                 struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(records, "records");
    STEM_NEED(n, "n");
    *records = NULL;
    *n = 0;
    STEM_NEED(a, "a");
    if (!a->stopped)
        detach(a);
    if (a->out_of_memory)
        return stem_fail(err, STEM_E_MEMORY, "out of memory for %zu kernel records", a->n);
    if (a->n)
        qsort(a->records, a->n, sizeof *a->records, by_start);
    *records = a->records;
    *n = (uint32_t)a->n;
    return STEM_OK;
}

uint32_t stem_audit_dropped(const struct stem_audit *a)
{
    return a ? (uint32_t)a->dropped : 0;
}

void stem_audit_free(struct stem_audit *a)
{
    if (!a)
        return;
    if (!a->stopped && atomic_load(&current) == a)
        detach(a);
    if (a->cupti.handle)
        dlclose(a->cupti.handle);
    for (size_t i = 0; i < a->n_names; i++)
        free(a->names[i]);
    free(a->names);
    free(a->records);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- lanes ---- */

struct use {
    uint32_t correlation, stream;
    size_t order; /* of the record */
};

static int by_replay(const void *x, const void *y)
{
    const struct use *a = x, *b = y;
    if (a->correlation != b->correlation)
        return a->correlation < b->correlation ? -1 : 1;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

struct replay {
    size_t first;
    uint32_t lanes;
};

static int by_first(const void *x, const void *y)
{
    const struct replay *a = x, *b = y;
    return (a->first > b->first) - (a->first < b->first);
}

uint32_t stem_count_lanes(const struct stem_audit_record *records, size_t n, uint32_t **counts)
{
    struct use *uses = stem_zalloc(n, sizeof *uses);
    struct replay *replays = stem_zalloc(n, sizeof *replays);
    size_t used = 0, found = 0;
    *counts = stem_zalloc(n, sizeof **counts);
    if (!uses || !replays || !*counts) {
        free(uses);
        free(replays);
        free(*counts);
        *counts = NULL;
        return STEM_NONE;
    }
    for (size_t i = 0; i < n; i++)
        if (records[i].graph && records[i].kind == STEM_AUDIT_KERNEL)
            uses[used++] = (struct use){records[i].correlation, records[i].stream, i};
    if (used)
        qsort(uses, used, sizeof *uses, by_replay);
    for (size_t i = 0; i < used; i++) {
        if (i == 0 || uses[i].correlation != uses[i - 1].correlation)
            replays[found++] = (struct replay){uses[i].order, 1};
        else
            replays[found - 1].lanes += uses[i].stream != uses[i - 1].stream;
        if (uses[i].order < replays[found - 1].first)
            replays[found - 1].first = uses[i].order;
    }
    if (found)
        qsort(replays, found, sizeof *replays, by_first);
    for (size_t i = 0; i < found; i++)
        (*counts)[i] = replays[i].lanes;
    free(uses);
    free(replays);
    return (uint32_t)found;
}

uint32_t stem_audit_lanes(const struct stem_audit *a, uint32_t **counts)
{
    if (counts)
        *counts = NULL;
    if (!a || !counts)
        return STEM_NONE;
    return stem_count_lanes(a->records, a->n, counts);
}
