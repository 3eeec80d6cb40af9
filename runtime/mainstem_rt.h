/* SPDX-License-Identifier: Apache-2.0
 *
 * libmainstem-rt: runs plans on a GPU. The driver, NVRTC and CUPTI are loaded when they are asked for; nothing of the
 * CUDA Toolkit is linked or included. docs/runtime.md is the guide.
 *
 *   stem_rt        a device: driver, primary context, compiler
 *   stem_compiler  NVRTC and the cache of cubins on disk; needs no GPU
 *   stem_exec      a program on a device: modules, slab, state, side streams, events, bindings
 *   stem_graph     instantiated graphs of one variant of a program
 *   stem_audit     kernel records of CUPTI: which lanes a replay really used
 *
 * Errors. Functions that can fail return an enum stem_status, STEM_OK being 0, and fill in *err unless it is NULL. A
 * failed call leaves nothing behind: what it had created is destroyed, what it had recorded is ended or joined.
 * NULL for an argument that is needed is STEM_E_NULL; a function without a status returns NULL, 0 or STEM_NONE then.
 * The library never prints, exits or aborts, and has no global state.
 *
 * Threads. A stem_rt and a stem_compiler may be used by any number of threads at once. A stem_exec, with the graphs
 * made from it, is used by one thread at a time; a second one that comes too early gets STEM_E_BUSY, never
 * corruption. Different programs do not interact. Every call makes the device's primary context current for its
 * duration and restores what was current before.
 *
 * Streams are CUstream handles, written here without <cuda.h>; device addresses are uint64_t (CUdeviceptr).
 */
#ifndef STEM_MAINSTEM_RT_H
#define STEM_MAINSTEM_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define STEM_API __attribute__((visibility("default")))
#else
#define STEM_API
#endif

struct CUstream_st;
struct CUgraph_st;
struct stem_rt;
struct stem_compiler;
struct stem_exec;
struct stem_graph;
struct stem_safetensors;
struct stem_audit;

/* ---- errors ---- */

/* X(enum suffix, what it means) */
#define STEM_STATUSES(X)                                                                                             \
    X(OK, "success")                                                                                                 \
    X(E_ARGUMENT, "an argument is out of range")                                                                     \
    X(E_MEMORY, "out of host memory")                                                                                \
    X(E_PLAN, "the plan cannot be walked")                                                                           \
    X(E_NO_DRIVER, "the CUDA driver is missing")                                                                     \
    X(E_NO_DEVICE, "there is no such GPU")                                                                           \
    X(E_NO_NVRTC, "NVRTC is missing")                                                                                \
    X(E_COMPILE, "NVRTC rejected the source")                                                                        \
    X(E_NO_CUPTI, "CUPTI is missing")                                                                                \
    X(E_CUDA, "a driver call failed")                                                                                \
    X(E_UNBOUND, "an external buffer is not bound, or its binding is too small")                                     \
    X(E_BUSY, "another thread is using the program")                                                                 \
    X(E_EXTERN, "an extern function is missing or failed")                                                           \
    X(E_CAPTURE, "cannot be recorded")                                                                               \
    X(E_MISMATCH, "the graph is not the plan's")                                                                     \
    X(E_STALE, "bindings changed after the graph was built")                                                         \
    X(E_OLD_DRIVER, "the CUDA driver is too old")                                                                    \
    X(E_NULL, "an address is null")                                                                                  \
    X(E_WRONG_SHAPE, "an array has another shape or layout than its buffer")                                         \
    X(E_WRONG_DTYPE, "an array has another dtype than its buffer")                                                   \
    X(E_WRONG_DEVICE, "an array is not on the program's GPU")                                                        \
    X(E_BUCKET, "no variant is large enough")                                                                        \
    X(E_FILE, "a file cannot be read")                                                                               \
    X(E_FORMAT, "a file is not what it should be")                                                                   \
    X(E_ARCH, "the kernels are not for this GPU's architecture")                                                     \
    X(E_MISSING, "a tensor is not in the file")                                                                      \
    X(E_LIBRARY, "cuBLASLt is missing or failed")

enum stem_status {
#define X(suffix, text) STEM_##suffix,
    STEM_STATUSES(X)
#undef X
};

struct stem_rt_error {
    enum stem_status status;
    int cuda;           /* CUresult of the failing call, or 0 */
    uint32_t op;        /* index in the variant, or STEM_NONE */
    uint32_t line;      /* in the .stem file, or 0 */
    char message[1024]; /* "op moe[3].x (model.stem:14): cuLaunchKernelEx: CUDA_ERROR_...: ..." */
};

STEM_API const char *stem_status_text(enum stem_status s);

/* What the library would print if it printed. `topic` is "cache", "launch" or "capture". Called from the thread that
 * made the call, with its locks held: do not call back into the library. */
struct stem_log {
    void (*line)(void *user, const char *topic, const char *text);
    void *user;
    const char *topics; /* comma-separated; NULL: what the environment variable MAINSTEM_DEBUG says */
};

/* ---- compiler (nvrtc.c, cache.c): no GPU needed ---- */

struct stem_compiler_options {
    const char *nvrtc;     /* path of libnvrtc; NULL: $MAINSTEM_NVRTC, $MAINSTEM_CUDA, the configured toolkit, the
                              loader's path, /usr/local/cuda, Python's nvidia wheels, in this order */
    const char *cache_dir; /* NULL: $MAINSTEM_CACHE, $XDG_CACHE_HOME/mainstem, ~/.cache/mainstem; "": no cache */
    struct stem_log log;
};

/* Opening loads nothing; NVRTC is looked for on the first compilation. `options` may be NULL. */
STEM_API enum stem_status stem_compiler_open(const struct stem_compiler_options *options, struct stem_compiler **c,
                                             struct stem_rt_error *err);
STEM_API void stem_compiler_close(struct stem_compiler *c);

struct stem_cubin {
    void *data;
    size_t bytes;
    bool cached; /* came from the cache: NVRTC compiled nothing */
    double ms;   /* time of the call */
    char *log;   /* what NVRTC said, "" if nothing; lines refer to the .stem file where #line says so */
    int nvrtc_major, nvrtc_minor;
};

/* Compiles CUDA C for sm_<sm> into a cubin (never PTX, so a driver older than NVRTC can load it). `name` is what
 * messages call the text; `options` are further NVRTC options, n of them. On STEM_E_COMPILE out->log holds the whole
 * log. Free with stem_cubin_free, after failure too. */
STEM_API enum stem_status stem_compile(struct stem_compiler *c, const char *source, const char *name, uint32_t sm,
                                       const char *const *options, uint32_t n_options, struct stem_cubin *out,
                                       struct stem_rt_error *err);
STEM_API void stem_cubin_free(struct stem_cubin *cubin);
/* Architectures that the NVRTC found can make cubins for, ascending, at most `max`; the count, or 0 with *err. */
STEM_API uint32_t stem_compiler_archs(struct stem_compiler *c, uint32_t *sm, uint32_t max, struct stem_rt_error *err);
/* Path of the NVRTC found and its include directory, NULL before it was needed. */
STEM_API const char *stem_compiler_nvrtc(struct stem_compiler *c);
STEM_API const char *stem_compiler_include(struct stem_compiler *c);

/* ---- device (rt.c) ---- */

struct stem_rt_options {
    int device;          /* ordinal */
    const char *libcuda; /* NULL: $MAINSTEM_LIBCUDA, then libcuda.so.1 */
    struct stem_compiler_options compiler;
    struct stem_log log;
};

/* Retains the device's primary context. On failure *rt is NULL. */
STEM_API enum stem_status stem_rt_open(const struct stem_rt_options *options, struct stem_rt **rt,
                                       struct stem_rt_error *err);
/* Programs of this device must have been freed. */
STEM_API void stem_rt_close(struct stem_rt *rt);

struct stem_rt_info {
    char name[128];
    uint32_t sm; /* 90 */
    int driver;  /* 13000: CUDA 13.0 */
    uint64_t free_bytes, total_bytes;
    int64_t live; /* driver objects (streams, events, modules, graphs, allocations) that the library created and has
                     not destroyed: 0 when nothing but the device is open */
};
STEM_API enum stem_status stem_rt_info(struct stem_rt *rt, struct stem_rt_info *info, struct stem_rt_error *err);
STEM_API struct stem_compiler *stem_rt_compiler(struct stem_rt *rt);

/* Helpers on a stream of the device's own, synchronous; not to be called during a capture in global mode. */
STEM_API enum stem_status stem_rt_alloc(struct stem_rt *rt, size_t bytes, uint64_t *at, struct stem_rt_error *err);
STEM_API void stem_rt_free(struct stem_rt *rt, uint64_t at);
STEM_API enum stem_status stem_rt_upload(struct stem_rt *rt, uint64_t to, const void *from, size_t bytes,
                                         struct stem_rt_error *err);
STEM_API enum stem_status stem_rt_download(struct stem_rt *rt, void *to, uint64_t from, size_t bytes,
                                           struct stem_rt_error *err);
/* Device to device, on `stream`, asynchronous. */
STEM_API enum stem_status stem_rt_copy(struct stem_rt *rt, uint64_t to, uint64_t from, size_t bytes,
                                       struct CUstream_st *stream, struct stem_rt_error *err);
/* Deterministic contents of a buffer that is like `b` (name, kind, dtype, dims), by the rule of fill.h. */
STEM_API enum stem_status stem_rt_fill(struct stem_rt *rt, const struct stem_plan_buffer *b, uint64_t seed,
                                       uint64_t at, struct stem_rt_error *err);
/* A stream for callers that have none. */
STEM_API enum stem_status stem_rt_stream_new(struct stem_rt *rt, struct CUstream_st **stream,
                                             struct stem_rt_error *err);
STEM_API void stem_rt_stream_free(struct stem_rt *rt, struct CUstream_st *stream);
STEM_API enum stem_status stem_rt_synchronize(struct stem_rt *rt, struct CUstream_st *stream,
                                              struct stem_rt_error *err);

/* A stopwatch on a stream: start, n launches, stop; the time in microseconds. */
struct stem_timer;
STEM_API enum stem_status stem_timer_new(struct stem_rt *rt, struct stem_timer **t, struct stem_rt_error *err);
STEM_API void stem_timer_free(struct stem_timer *t);
STEM_API enum stem_status stem_timer_start(struct stem_timer *t, struct CUstream_st *stream,
                                           struct stem_rt_error *err);
/* Waits for the stream to get there. */
STEM_API enum stem_status stem_timer_stop(struct stem_timer *t, struct CUstream_st *stream, double *us,
                                          struct stem_rt_error *err);

/* ---- extern ops ---- */

/* What an extern function gets. It enqueues its work on `stream` and returns 0; it must not synchronise, allocate or
 * touch another stream, unless it forks from `stream` and rejoins. Everything here is valid during the call only. */
struct stem_call {
    uint32_t version; /* 1 */
    const char *name; /* of the op */
    uint32_t n_operands;
    void *const *operands;                   /* addresses; NULL where an optional operand is absent */
    const struct stem_plan_operand *tensors; /* access, dtype, shape and strides of each */
    uint32_t n_scalars;
    const struct stem_scalar *scalars;
    uint32_t n_attrs;
    const struct stem_attr *attrs;
    bool on_gpu;    /* false: the CPU device; addresses are host memory and stream is NULL */
    bool capturing; /* the call is being recorded: nothing may be freed or reused on the host afterwards */
};
typedef int stem_extern_fn(const struct stem_call *call, struct CUstream_st *stream);

struct stem_extern {
    const char *name;
    stem_extern_fn *fn;
};

/* ---- .safetensors files (safetensors.c) ---- */

struct stem_safetensor {
    const char *name;
    const char *dtype; /* as the file says: "BF16" */
    uint32_t rank;
    int64_t dim[STEM_MAX_RANK]; /* the first of them, where rank is larger */
    const void *data;
    uint64_t bytes;
};

/* Maps a file, or all files of a checkpoint, and checks the header of every tensor. `path` is a .safetensors file; an index
 * (model.safetensors.index.json); or a directory with an index or else with .safetensors files, which then all belong
 * together. STEM_E_FILE, STEM_E_FORMAT. Files must not be changed or truncated while they are open. Any thread may read
 * what is open. */
STEM_API enum stem_status stem_safetensors_open(const char *path, struct stem_safetensors **f,
                                                struct stem_rt_error *err);
STEM_API void stem_safetensors_close(struct stem_safetensors *f);
/* By name; owned by `f`. */
STEM_API const struct stem_safetensor *stem_safetensors_list(const struct stem_safetensors *f, uint32_t *n);
/* NULL: no such tensor. */
STEM_API const struct stem_safetensor *stem_safetensors_find(const struct stem_safetensors *f, const char *name);
/* STEM_E_WRONG_DTYPE or STEM_E_WRONG_SHAPE with both sides in the message, if the tensor is not what the buffer holds. */
STEM_API enum stem_status stem_safetensors_check(const struct stem_safetensors *f, const struct stem_safetensor *t,
                                                 const struct stem_plan_buffer *b, struct stem_rt_error *err);

/* Copies a weight to `to` (b->bytes bytes of the host; NULL: only checks): the tensor of its name, or those that b->from
 * lists. *found false: the file has none of them, which with `strict` is STEM_E_MISSING; to have some is always. */
STEM_API enum stem_status stem_safetensors_read(const struct stem_safetensors *f, const struct stem_plan_buffer *b,
                                                bool strict, void *to, bool *found, struct stem_rt_error *err);

/* ---- program (exec.c, bind.c, array.c) ---- */

enum stem_memory {
    STEM_MEMORY_SLAB, /* one allocation, offsets from the plan */
    STEM_MEMORY_POOL, /* eager launches allocate and free each buffer in stream order; recorded ones use a slab that
                         the program owns, and free nothing */
};

struct stem_exec_options {
    enum stem_memory memory;
    /* SLAB: memory of the caller, at least plan.slab_bytes and 256-byte aligned, which must outlive the program; 0:
     * own. */
    uint64_t slab, slab_bytes;
    /* Where own memory comes from; NULL: the driver (cuMemAlloc, and in pool mode cuMemAllocAsync). `stream` is the
     * stream in whose order memory is needed or given up. alloc returns 0 on failure. Neither is called during a
     * capture. */
    uint64_t (*alloc)(void *user, size_t bytes, struct CUstream_st *stream);
    void (*free)(void *user, uint64_t at, size_t bytes, struct CUstream_st *stream);
    void *user;
    const void *cubin; /* of plan->cuda; NULL: compiled for the device's architecture, through the cache */
    size_t cubin_bytes;
    const struct stem_extern *externs; /* registered functions, looked up by name before plan.externs[].library */
    uint32_t n_externs;
    bool caller_orders; /* launches are not ordered after each other by the program: the caller does it */
};

/* `plan` is borrowed and must outlive the program. State that stays unbound is owned by the program and zeroed.
 * On failure *exec is NULL. */
STEM_API enum stem_status stem_exec_new(struct stem_rt *rt, const struct stem_plan *plan,
                                        const struct stem_exec_options *options, struct stem_exec **exec,
                                        struct stem_rt_error *err);
/* Waits for the program's last launch. Its graphs must have been freed. */
STEM_API void stem_exec_free(struct stem_exec *e);
/* What the compiler said when the program was made. */
STEM_API const struct stem_cubin *stem_exec_cubin(const struct stem_exec *e);

/* External buffers are numbered as in the plan (below plan.n_external), the same in every variant. */
STEM_API uint32_t stem_exec_find(const struct stem_exec *e, const char *name); /* STEM_NONE: no such buffer */
/* Device memory of the caller, `bytes` long, that stays valid until the next bind or the last launch. A launch checks
 * size and alignment against its variant. */
STEM_API enum stem_status stem_exec_bind(struct stem_exec *e, uint32_t index, uint64_t at, uint64_t bytes,
                                         struct stem_rt_error *err);
/* Memory that the program allocates and owns, large enough for every variant; zeroed. */
STEM_API enum stem_status stem_exec_bind_own(struct stem_exec *e, uint32_t index, struct stem_rt_error *err);
/* An array of the caller's: `at` is a device address for stem_exec_bind_array, a host address for
 * stem_exec_bind_host. Arrays of nvfp4 and int4 may be given as u8 of as many bytes. */
struct stem_array {
    uint64_t at;
    enum stem_dtype dtype;
    uint32_t rank;
    const int64_t *dim;
    const int64_t *stride; /* in elements; NULL: contiguous */
};
/* Whether an array fits buffer `index`: its dtype, the shape of one of the variants, contiguous, not null, and with
 * `on_gpu` in memory of the program's GPU and aligned. Changes nothing. STEM_E_NULL, STEM_E_WRONG_DTYPE,
 * STEM_E_WRONG_SHAPE, STEM_E_WRONG_DEVICE, STEM_E_UNBOUND (alignment); the message names the buffer. */
STEM_API enum stem_status stem_exec_check_array(struct stem_exec *e, uint32_t index, const struct stem_array *array,
                                                bool on_gpu, struct stem_rt_error *err);
/* As stem_exec_bind, after that check with on_gpu. A failed call leaves the binding as it was. */
STEM_API enum stem_status stem_exec_bind_array(struct stem_exec *e, uint32_t index, const struct stem_array *array,
                                               struct stem_rt_error *err);
/* Copies a host array, checked likewise, into memory that the program owns (stem_exec_bind_own). Synchronous; waits for
 * the last launch; not during a capture. A failed call leaves an earlier binding of the caller's as it was. */
STEM_API enum stem_status stem_exec_bind_host(struct stem_exec *e, uint32_t index, const struct stem_array *array,
                                              struct stem_rt_error *err);
/* Copies every weight that the file has, by its name or by those that its `from` lists, into memory that the program owns;
 * *loaded of them (may be NULL). All are checked before the first is copied: a weight of another shape or dtype is an
 * error, and so is one of which only a part is there (STEM_E_MISSING). Tensors that no weight wants are passed over. */
STEM_API enum stem_status stem_exec_load(struct stem_exec *e, const struct stem_safetensors *file, uint32_t *loaded,
                                         struct stem_rt_error *err);
/* The same, and every weight of the program must be there. */
STEM_API enum stem_status stem_exec_load_all(struct stem_exec *e, const struct stem_safetensors *file,
                                             struct stem_rt_error *err);
/* The external buffer as a variant has it; NULL: no such buffer or variant. Owned by the plan. */
STEM_API const struct stem_plan_buffer *stem_exec_buffer(const struct stem_exec *e, uint32_t variant, uint32_t index);
/* The variant to run for these sizes (one for each of plan.dims, in that order): the smallest, by the product of its
 * dims and then by its number, that has each dim at least as large. STEM_E_BUCKET if there is none. Arrays must have
 * the sizes of the variant, not these. `dim` may be NULL if the plan has no dims. */
STEM_API enum stem_status stem_exec_variant(const struct stem_exec *e, const int64_t *dim, uint32_t *variant,
                                            struct stem_rt_error *err);
STEM_API uint64_t stem_exec_address(const struct stem_exec *e, uint32_t index); /* 0: not bound */
STEM_API uint64_t stem_exec_slab(const struct stem_exec *e);                    /* 0: none yet */
/* Zeroes all owned state. Synchronous. */
STEM_API enum stem_status stem_exec_reset_state(struct stem_exec *e, struct stem_rt_error *err);
/* Fills the bound external buffers of a variant: weights and inputs by fill.h, state with zeros; outputs are left. */
STEM_API enum stem_status stem_exec_fill(struct stem_exec *e, uint32_t variant, uint64_t seed,
                                         struct stem_rt_error *err);
/* Allocates what recording needs (pool mode: the slab), so that stem_exec_record allocates nothing. */
STEM_API enum stem_status stem_exec_prepare(struct stem_exec *e, struct stem_rt_error *err);

/* ---- launching (replay.c) ---- */

struct stem_launch_options {
    bool poison;       /* fill the slab with 0xff bytes first */
    uint32_t delay_op; /* a kernel that spins for delay_us goes before this op on its stream; STEM_NONE: none */
    uint32_t delay_us;
    /* One op at a time: after each, everything is waited for and `after_op` called; false from it ends the launch
     * with STEM_E_ARGUMENT. operands[i] is the address of operand i. stem_rt_download may be called from it. */
    bool (*after_op)(void *user, const struct stem_plan_op *op, uint32_t index, const uint64_t *operands);
    void *user;
};

/* Runs a variant on `stream`, eagerly; or, if the stream is capturing, records it into that capture, as
 * stem_exec_record does. Launches of one program follow each other, on whatever streams, which need not outlive
 * them: they share its slab. */
STEM_API enum stem_status stem_exec_launch(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                                           struct stem_rt_error *err);
/* `options` must not be NULL; not while capturing. */
STEM_API enum stem_status stem_exec_launch_with(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                                                const struct stem_launch_options *options, struct stem_rt_error *err);
/* Records a variant into the capture that `stream` is in: side streams fork from it and rejoin. Allocates nothing and
 * synchronises nothing. The recorded graph uses the program's memory: the program must outlive it, and the caller
 * must not let two launches of the program overlap. After an error the side streams have rejoined, or have been taken
 * out of the capture by invalidating it; the capture is the caller's to end, and the program can be used again. */
STEM_API enum stem_status stem_exec_record(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                                           struct stem_rt_error *err);

/* ---- graphs (graph.c) ---- */

enum stem_graph_by { STEM_GRAPH_BY_CAPTURE, STEM_GRAPH_BY_NODES };

/* One graph for each segment; segments marked eager are launched eagerly in between. Either way the nodes and edges
 * are read back and compared with the plan's. */
STEM_API enum stem_status stem_graph_new(struct stem_exec *e, uint32_t variant, enum stem_graph_by by,
                                         struct stem_graph **graph, struct stem_rt_error *err);
/* Waits for the program's last launch. */
STEM_API void stem_graph_free(struct stem_graph *g);
STEM_API enum stem_status stem_graph_launch(struct stem_graph *g, struct CUstream_st *stream,
                                            struct stem_rt_error *err);
/* After stem_exec_bind: gives the new addresses to the instantiated graphs without building them again. */
STEM_API enum stem_status stem_graph_update(struct stem_graph *g, struct stem_rt_error *err);

struct stem_graph_info {
    uint32_t n_graphs, n_nodes, n_edges, n_programmatic;
    double build_us, instantiate_us;
    int64_t device_bytes; /* free memory before instantiation minus after upload; other programs disturb it */
    uint32_t n_updated;   /* nodes that the last update changed */
};
STEM_API void stem_graph_info(const struct stem_graph *g, struct stem_graph_info *info);
/* The CUgraph of a segment, owned by `g`, to be read or cloned; NULL if the segment is eager. */
STEM_API struct CUgraph_st *stem_graph_cuda(const struct stem_graph *g, uint32_t segment);

/* ---- audit (audit.c) ---- */

struct stem_audit_options {
    const char *cupti; /* path of libcupti; NULL: searched for like NVRTC */
    bool memory;       /* records of memsets and copies too */
};
enum stem_audit_kind { STEM_AUDIT_KERNEL, STEM_AUDIT_MEMSET, STEM_AUDIT_MEMCPY };
struct stem_audit_record {
    const char *name; /* of the kernel, or "memset", "memcpy"; valid until the audit is freed */
    enum stem_audit_kind kind;
    uint32_t stream;  /* CUPTI's stream id: the lane, when graph is not 0 */
    uint32_t graph;   /* CUPTI's graph id, 0 outside graphs */
    uint64_t graph_node;
    uint32_t correlation; /* one for each replay */
    uint64_t start_ns, end_ns;
    uint32_t grid[3], block[3]; /* KERNEL */
    uint64_t bytes;             /* MEMSET, MEMCPY */
};
/* Loads CUPTI and starts to collect kernel records. Call it before stem_rt_open where possible: work of a context
 * that exists already may be recorded incompletely. One audit at a time in a process: CUPTI is a per-process
 * facility. */
STEM_API enum stem_status stem_audit_start(const struct stem_audit_options *options, struct stem_audit **audit,
                                           struct stem_rt_error *err);
/* Flushes, and hands over what was recorded since the last take, in order of start; everything launched must have been
 * synchronised. The records are valid until the next launch, take or stop. */
STEM_API enum stem_status stem_audit_take(struct stem_audit *a, const struct stem_audit_record **records, uint32_t *n,
                                          struct stem_rt_error *err);
/* Flushes and stops; everything launched must have been synchronised. The records are in order of start. */
STEM_API enum stem_status stem_audit_stop(struct stem_audit *a, const struct stem_audit_record **records, uint32_t *n,
                                          struct stem_rt_error *err);
/* Lanes of each replay (of each correlation id with a graph), in order of start: counts[i] distinct streams. Into a
 * malloc'd array; the count, or STEM_NONE when out of memory. After stem_audit_stop. */
STEM_API uint32_t stem_audit_lanes(const struct stem_audit *a, uint32_t **counts);
STEM_API uint32_t stem_audit_dropped(const struct stem_audit *a); /* records that CUPTI lost */
STEM_API void stem_audit_free(struct stem_audit *a);

#ifdef __cplusplus
}
#endif

#endif
