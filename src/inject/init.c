/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry point. CUPTI calls back without asking which library it calls, and the driver loads this one once, so
 * there is one state for the process, which lives until it ends.
 *
 * MAINSTEM_INJECT           relane or audit, and measure: words separated by commas; without it nothing is done
 * MAINSTEM_INJECT_REPORT    file for the report; "%p" stands for the number of the process
 * MAINSTEM_INJECT_MAX_NODES larger graphs are left alone
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/callback_abi.h"
#include "inject/inject.h"
#include "runtime/cupti_abi.h"
#include "runtime/nvrtc.h"

enum { BUFFER_BYTES = 1 << 20 };
#define REPORT_EVERY_NS 5000000000u

static struct {
    struct stem_inject s;
    struct stem_inject_about about;
    struct stem_cupti activity;
    struct stem_cupti_callbacks callbacks;
    char driver[64], path[4096];
    pid_t owner;
    pthread_mutex_t writing;
    _Atomic uint64_t written; /* when */
} the = {.writing = PTHREAD_MUTEX_INITIALIZER};

__attribute__((visibility("default"))) int InitializeInjection(void);

/* ---- the report ---- */

static void write_report(bool last)
{
    pthread_mutex_lock(&the.writing);
    if (!atomic_load(&the.s.off) && the.path[0]) {
        atomic_store(&the.s.off, last);
        stem_inject_report_to(&the.s, &the.about, the.path);
    }
    pthread_mutex_unlock(&the.writing);
}

/* Now and then, since not every process ends by exit(): servers end their workers with signals. */
static void report_in_time(void)
{
    uint64_t now = stem_inject_now(), before = atomic_load(&the.written);
    bool due = !atomic_load(&the.s.off) && (!before || now - before >= REPORT_EVERY_NS);
    if (due && atomic_compare_exchange_strong(&the.written, &before, now))
        write_report(false);
}

/* ---- callbacks ---- */

static int call_of(uint32_t number)
{
    switch (number) {
#define X(n, function, what)                                                                                         \
    case n:                                                                                                          \
        return STEM_INJECT_##what;
        STEM_CUPTI_CALLS(X)
#undef X
    default:
        return -1;
    }
}

static void called(void *user, int domain, uint32_t number, const void *data)
{
    const struct stem_cupti_callback *c = data;
    int call = domain == STEM_CUPTI_DRIVER_API ? call_of(number) : -1;
    if (call < 0 || !c->params || !c->slot)
        return;
    if (c->site == STEM_CUPTI_ENTER) {
        stem_inject_enter(user, (enum stem_inject_call)call, c->params, c->correlation, c->slot);
    } else if (c->result) {
        stem_inject_exit(user, (enum stem_inject_call)call, c->params, *(const int *)c->result, c->slot);
        report_in_time();
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
    (void)ctx;
    (void)stream;
    (void)size;
    void *record = NULL;
    while (valid_size && !atomic_load(&the.s.off) && !the.activity.next_record(buffer, valid_size, &record)) {
        const struct stem_cupti_kernel *k = record;
        if (k->kind == STEM_CUPTI_CONCURRENT_KERNEL && k->graph)
            stem_inject_kernel(&the.s.measure, k->graph, k->correlation, k->stream);
    }
    free(buffer);
}

static uint32_t exec_id(struct CUgraphExec_st *exec)
{
    uint32_t id = 0;
    return the.callbacks.exec_id && !the.callbacks.exec_id(exec, &id) ? id : 0;
}

/* ---- CUPTI ---- */

static bool symbol(void *handle, const char *name, void *member)
{
    void *at = dlsym(handle, name);
    memcpy(member, &at, sizeof at);
    return at != NULL;
}

/* The copy that the program has loaded already, if there is one: two in a process do not get on. */
static void *open_cupti(void)
{
    static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", NULL};
    for (size_t i = 0; sonames[i]; i++) {
        void *handle = dlopen(sonames[i], RTLD_NOW | RTLD_NOLOAD);
        if (handle)
            return handle;
    }
    char *why = NULL;
    void *handle = stem_cuda_library("libcupti.so*", sonames, &why);
    free(why);
    return handle;
}

static const char *load_cupti(void)
{
    struct stem_cupti *a = &the.activity;
    struct stem_cupti_callbacks *c = &the.callbacks;
    void *h = open_cupti();
    if (!h)
        return "no CUPTI was found (set MAINSTEM_CUDA to the toolkit's directory)";
    bool complete_api = symbol(h, "cuptiSubscribe", &c->subscribe) && symbol(h, "cuptiEnableCallback", &c->enable);
    bool has_activity = symbol(h, "cuptiActivityRegisterCallbacks", &a->register_callbacks) &&
                        symbol(h, "cuptiActivityEnable", &a->enable) &&
                        symbol(h, "cuptiActivityFlushAll", &a->flush_all) &&
                        symbol(h, "cuptiActivityGetNextRecord", &a->next_record);
    if (!symbol(h, "cuptiGetGraphExecId", &c->exec_id))
        symbol(h, "cuptiGetGraphId", &c->exec_id);
    the.s.options.measure &= has_activity;
    return complete_api ? NULL : "the CUPTI found lacks an entry point that is needed";
}

static const char *subscribe(void)
{
    static const uint32_t numbers[] = {
#define X(n, function, what) n,
        STEM_CUPTI_CALLS(X)
#undef X
    };
    void *subscriber = NULL;
    if (the.callbacks.subscribe(&subscriber, called, &the.s))
        return "CUPTI refused the subscription: another tool in this process has one";
    /* Functions that this CUPTI does not know are not called either. */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        the.callbacks.enable(1, subscriber, STEM_CUPTI_DRIVER_API, numbers[i]);
    if (the.s.options.measure &&
        (the.activity.register_callbacks(request, complete) || the.activity.enable(STEM_CUPTI_CONCURRENT_KERNEL)))
        the.s.options.measure = false;
    return NULL;
}

/* ---- the process ---- */

static void in_child(void)
{
    atomic_store(&the.s.off, true);
}

static void at_end(void)
{
    if (getpid() != the.owner)
        return;
    if (the.s.options.measure)
        the.activity.flush_all(STEM_CUPTI_FLUSH_FORCED);
    write_report(true);
}

/* The kernel module's version, which the driver library goes with: the first word of the file that is one. */
static bool version_from(const char *path)
{
    char line[256];
    FILE *f = fopen(path, "re");
    const char *at = f && fgets(line, sizeof line, f) ? line : "";
    if (f)
        fclose(f);
    for (size_t len; *at; at += len + strspn(at + len, " \t\n")) {
        len = strcspn(at, " \t\n");
        if (len < sizeof the.driver && strspn(at, "0123456789.") == len && memchr(at, '.', len)) {
            memcpy(the.driver, at, len);
            return true;
        }
    }
    return false;
}

static const struct stem_lane_driver *find_model(void)
{
    the.about.driver = the.driver;
    if (!version_from("/sys/module/nvidia/version") && !version_from("/proc/driver/nvidia/version"))
        return stem_lane_driver_find(NULL);
    return stem_lane_driver_for((uint32_t)strtoul(the.driver, NULL, 10), &the.about.measured_driver);
}

static bool word_in(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ',') && (!at[len] || at[len] == ','))
            return true;
    return false;
}

static const char *start(const char *how)
{
    const char *nodes = getenv("MAINSTEM_INJECT_MAX_NODES"), *library = getenv("MAINSTEM_LIBCUDA");
    struct stem_inject_options o = {
        .relane = word_in(how, "relane"),
        .measure = word_in(how, "measure"),
        .max_nodes = nodes ? (uint32_t)strtoul(nodes, NULL, 10) : 0,
        .model = find_model(),
        .exec_id = exec_id,
    };
    struct stem_relane_api api = {0};
    void *handle;
    bool driver = stem_relane_driver(library && library[0] ? library : NULL, &api, &handle);
    stem_inject_init(&the.s, &o, &api);
    if (!driver)
        return "the driver lacks entry points that are needed (CUDA 12.3 or later has them)";
    const char *error = load_cupti();
    return error ? error : subscribe();
}

/* Always 1: the program goes on, whatever happened here. */
int InitializeInjection(void)
{
    const char *how = getenv("MAINSTEM_INJECT"), *path = getenv("MAINSTEM_INJECT_REPORT");
    if (!how || !(word_in(how, "relane") || word_in(how, "audit")) || the.owner)
        return 1;
    the.owner = getpid();
    if (path && strlen(path) < sizeof the.path)
        strcpy(the.path, path);
    the.about.error = start(how);
    if (the.about.error)
        the.s.options.measure = false;
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_end);
    return 1;
}
