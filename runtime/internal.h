/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the runtime share: errors, logs, and the insides of its handles.
 */
#ifndef STEM_RUNTIME_INTERNAL_H
#define STEM_RUNTIME_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "driver.h"

/* ---- errors (error.c) ---- */

/* Fills in *err (which may be NULL) and returns `s`. */
enum stem_status stem_fail(struct stem_rt_error *err, enum stem_status s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a driver call that returned `code`. `d` may be NULL. */
enum stem_status stem_fail_cuda(struct stem_rt_error *err, const struct stem_driver *d, int code, const char *fmt,
                                ...) __attribute__((format(printf, 4, 5)));
/* Puts the op in front of a message that is there already. */
void stem_error_at_op(struct stem_rt_error *err, const struct stem_plan *p, const struct stem_plan_variant *v,
                      uint32_t op);
void stem_error_clear(struct stem_rt_error *err);
/* At the head of an exported function: what the caller must not leave out. Returns STEM_E_NULL with its name. */
#define STEM_NEED(given, name)                                                                                       \
    do {                                                                                                             \
        if (!(given))                                                                                                \
            return stem_fail(err, STEM_E_NULL, "%s: %s is NULL", __func__, (name));                                  \
    } while (0)

bool stem_log_on(const struct stem_log *log, const char *topic);
void stem_log(const struct stem_log *log, const char *topic, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* calloc that does not overflow; one byte for nothing. */
void *stem_zalloc(size_t n, size_t size);
char *stem_format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* malloc'd, or NULL */
double stem_now_us(void);

/* ---- device (rt.c) ---- */

struct stem_rt {
    struct stem_driver d;
    struct stem_log log;
    struct stem_compiler *compiler;
    int device;
    uint32_t sm;
    int driver_version;
    bool pools;
    struct CUctx_st *ctx;
    int priority_least, priority_greatest;
    atomic_llong live; /* driver objects that the library owns */

    pthread_mutex_t lock;       /* guards what follows */
    struct CUstream_st *stream; /* of the helpers */
    struct CUmod_st *builtin;
    struct CUfunc_st *fill, *delay;
};

/* Whether the device has programmatic launches. Elsewhere they are launched as usual, and their edges are full ones, which
 * order more: the device half is not compiled in there (ops/common). */
static inline bool stem_rt_programmatic(const struct stem_rt *rt)
{
    return rt->sm >= 90;
}

/* Makes the device's context current; every success is paired with stem_leave. */
enum stem_status stem_enter(struct stem_rt *rt, struct stem_rt_error *err);
void stem_leave(struct stem_rt *rt);
/* The same for functions that destroy and cannot fail: true if stem_leave is due. They go on either way. */
bool stem_enter_to_free(struct stem_rt *rt);

/* Driver objects, counted in rt->live. Destroying NULL or 0 does nothing. */
enum stem_status stem_new_stream(struct stem_rt *rt, int32_t priority, struct CUstream_st **s,
                                 struct stem_rt_error *err);
void stem_drop_stream(struct stem_rt *rt, struct CUstream_st *s);
enum stem_status stem_new_event(struct stem_rt *rt, unsigned flags, struct CUevent_st **e, struct stem_rt_error *err);
void stem_drop_event(struct stem_rt *rt, struct CUevent_st *e);
enum stem_status stem_new_memory(struct stem_rt *rt, size_t bytes, uint64_t *at, struct stem_rt_error *err);
void stem_drop_memory(struct stem_rt *rt, uint64_t at);
enum stem_status stem_new_module(struct stem_rt *rt, const void *image, struct CUmod_st **m,
                                 struct stem_rt_error *err);
void stem_drop_module(struct stem_rt *rt, struct CUmod_st *m);
enum stem_status stem_new_graph(struct stem_rt *rt, struct CUgraph_st **g, struct stem_rt_error *err);
void stem_drop_graph(struct stem_rt *rt, struct CUgraph_st *g);
void stem_drop_graph_exec(struct stem_rt *rt, struct CUgraphExec_st *g);

/* Synchronous, on the helpers' stream; the context is current. */
enum stem_status stem_zero(struct stem_rt *rt, uint64_t at, size_t bytes, struct stem_rt_error *err);
enum stem_status stem_fill_device(struct stem_rt *rt, const struct stem_plan_buffer *b, uint64_t seed, uint64_t at,
                                  struct stem_rt_error *err);
/* Loads the built-in kernels if they are not; not during a capture. */
enum stem_status stem_builtin_load(struct stem_rt *rt, struct stem_rt_error *err);
const char *stem_builtin_source(void);
void stem_builtin_unload(struct stem_rt *rt);
enum stem_status stem_delay(struct stem_rt *rt, uint32_t us, struct CUstream_st *stream, struct stem_rt_error *err);

/* ---- audit (audit.c) ---- */

/* stem_audit_lanes on records in order of start. */
uint32_t stem_count_lanes(const struct stem_audit_record *records, size_t n, uint32_t **counts);

#endif
