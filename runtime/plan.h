/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: a scheduled program as plain data, without CUDA types. It is the only thing that the compiler and the
 * runtime share. Versioned; plan_json.c reads and writes it as JSON; the verifier (src/verify/) judges it from
 * this alone.
 *
 * A plan has one CUDA C translation unit, kernels in it, and one *variant* for each binding of the `dim`s (token
 * counts). Variants share kernels, weights and one slab: slab_bytes is the largest variant's. In every variant the
 * first n_external buffers are the same ones (same name, kind and index): inputs, outputs, weights, state.
 *
 * Nodes. variant.ops lists the operations that do work, in issue order; op i is node i of the CUDA graph. Steps are
 * what is issued, in order: one step for each op, plus record, wait, alloc, free and segment steps. The graph's
 * edges follow from the steps by the rules of stream capture and are also listed, so that the two back ends and
 * the verifier can be held against each other:
 *   an op on stream s depends on what is pending on s: the previous op on s and every op that a wait on s since
 *   then brought in (an event stands for what was pending on its stream when it was recorded).
 * Each segment is a graph of its own: a SEGMENT step empties what is pending on every stream, so no edge crosses it.
 *
 * Ownership: a plan owns everything it points to (stem_plan_free). Immutable once built: any thread may read it.
 */
#ifndef STEM_RUNTIME_PLAN_H
#define STEM_RUNTIME_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define STEM_PLAN_VERSION 1
#define STEM_MAX_RANK 6
#define STEM_NONE UINT32_MAX

enum stem_buffer_kind {
    STEM_BUFFER_TEMP,   /* in the slab (or pool) */
    STEM_BUFFER_INPUT,  /* bound by the caller before a launch */
    STEM_BUFFER_OUTPUT, /* bound by the caller before a launch */
    STEM_BUFFER_WEIGHT, /* constant, loaded once, by name */
    STEM_BUFFER_STATE,  /* kept between launches; owned by the program unless bound */
};

struct stem_plan_buffer {
    const char *name; /* external: its binding name ("moe[3].w13", "hidden"); temp: the value it was made for */
    enum stem_buffer_kind kind;
    uint64_t bytes;
    uint32_t align;  /* bytes, a power of two */
    uint64_t offset; /* TEMP: from the start of the slab */
    enum stem_dtype dtype; /* external buffers: what a binding must match */
    uint32_t rank;
    int64_t dim[STEM_MAX_RANK];
    uint32_t line; /* in the source, 0 if unknown */
    bool inout; /* INPUT: memory of the caller that the program may update; else it is only lent: no op writes to it */
    int64_t low, high; /* an integer input: values that make sense, as `run` fills it; both 0: any */
    const char *from; /* WEIGHT: the tensors of a checkpoint that make it up, as stem_weight_source lists them; NULL:
                         the one called `name` */
};

/* A tensor in a buffer. Strides are in elements; element i of a contiguous tensor is at offset + i * size. */
struct stem_tensor {
    uint32_t buffer;
    uint64_t offset; /* bytes from the start of the buffer */
    enum stem_dtype dtype;
    uint32_t rank;
    int64_t dim[STEM_MAX_RANK];
    int64_t stride[STEM_MAX_RANK];
};

enum stem_access { STEM_READ = 1, STEM_WRITE = 2, STEM_READ_WRITE = 3 };

struct stem_plan_operand {
    enum stem_access access;
    struct stem_tensor tensor;
};

enum stem_scalar_kind { STEM_SCALAR_I32, STEM_SCALAR_I64, STEM_SCALAR_F32 };

struct stem_scalar {
    enum stem_scalar_kind kind;
    union {
        int64_t i;
        double f;
    };
};

enum stem_attr_kind { STEM_ATTR_INT, STEM_ATTR_FLOAT, STEM_ATTR_TEXT };

/* A named constant of an op ("k" = 8, "score" = "sigmoid"); what references and reports read. */
struct stem_attr {
    const char *name;
    enum stem_attr_kind kind;
    int64_t i;
    double f;
    const char *text;
};

/* MATMUL: y = x times the transpose of w, by cuBLASLt. Four operands: x [.., K] and w [N, K] of one type, bf16 or f16; y
 * [.., N] of that type or f32; workspace u8[bytes], a temporary whose contents mean nothing afterwards. All contiguous. A
 * graph may have several nodes for it, one after the other. */
enum stem_work { STEM_WORK_LAUNCH, STEM_WORK_MEMSET, STEM_WORK_EXTERN, STEM_WORK_MATMUL };

struct stem_plan_op {
    const char *name; /* "moe[3].x", for people */
    const char *kind; /* the op: "rmsnorm", "pointwise", "kernel:NAME", "extern:NAME"; key of the CPU reference */
    enum stem_work work;
    uint32_t stream;
    uint32_t segment;
    uint32_t layer; /* instance number of the innermost layer call, STEM_NONE outside */
    uint32_t line, column;

    /* Operands in parameter order: the kernel's parameters are one pointer for each operand, then the scalars. An
     * operand that is updated in place appears once, READ_WRITE. An absent optional operand keeps its place: buffer and
     * rank are STEM_NONE, access is STEM_READ, and its pointer is NULL. */
    const struct stem_plan_operand *operands;
    uint32_t n_operands;
    const struct stem_scalar *scalars;
    uint32_t n_scalars;
    const struct stem_attr *attrs;
    uint32_t n_attrs;

    uint32_t kernel; /* LAUNCH: index into plan.kernels */
    uint32_t grid[3], block[3], smem; /* smem: dynamic shared memory, bytes */
    bool programmatic; /* launched with the programmatic-serialization attribute */
    uint32_t function; /* EXTERN: index into plan.externs */
    uint8_t memset_value; /* MEMSET: of the whole of operand 0, which is contiguous */
    uint32_t resource; /* index into plan.resources, or STEM_NONE: ops of one resource must not overlap */

    uint64_t bytes_read, bytes_written, flops; /* estimates of the cost model */
    double est_us;
};

struct stem_plan_kernel {
    const char *name; /* extern "C" symbol in the translation unit */
    uint32_t max_smem; /* largest dynamic shared memory of any launch, bytes */
    bool waits; /* its code executes griddepcontrol.wait before its first dependent access */
    uint32_t early; /* bit i: it may read operand i before that wait */
    bool ahead; /* it lets its successor start before that wait, not after it */
};

struct stem_plan_extern {
    const char *name;   /* C symbol */
    const char *library; /* shared object, NULL: registered through the API */
};

enum stem_step_kind {
    STEM_STEP_OP,      /* index: op */
    STEM_STEP_RECORD,  /* index: event; on `stream` */
    STEM_STEP_WAIT,    /* index: event; `stream` waits */
    STEM_STEP_ALLOC,   /* index: TEMP buffer, before its first use; nothing to do in slab mode */
    STEM_STEP_FREE,    /* index: TEMP buffer, on `stream`; suppressed under capture; nothing to do in slab mode */
    STEM_STEP_SEGMENT, /* index: the segment that ends here; everything has joined stream 0 */
};

struct stem_step {
    enum stem_step_kind kind;
    uint32_t stream;
    uint32_t index;
};

enum stem_edge_kind { STEM_EDGE_FULL, STEM_EDGE_PROGRAMMATIC };

struct stem_plan_edge {
    uint32_t from, to; /* ops, from < to */
    enum stem_edge_kind kind;
    bool continuation; /* joins a side stream's blocks; implied by the other edges */
};

struct stem_plan_segment {
    uint32_t first_op, n_ops;
    uint32_t first_step, n_steps; /* without the SEGMENT step */
    bool eager; /* never recorded into a graph */
};

struct stem_plan_variant {
    const int64_t *dim; /* value of each of plan.dims */
    const struct stem_plan_buffer *buffers;
    uint32_t n_buffers;
    const struct stem_plan_op *ops;
    uint32_t n_ops;
    const struct stem_step *steps;
    uint32_t n_steps;
    const struct stem_plan_edge *edges; /* by `to`, then `from` */
    uint32_t n_edges;
    const struct stem_plan_segment *segments;
    uint32_t n_segments;
    uint32_t n_events;
    uint64_t slab_bytes;

    /* What the compiler knows about this schedule; for people, nothing depends on it. */
    uint32_t events_bound;
    uint64_t slab_bound;
    uint32_t lanes; /* predicted */
    double critical_path_us, total_us, floor_us; /* estimates; floor: bytes over the target's bandwidth */
    double schedule_us; /* the estimate with what forks and overlap cost, which critical_path_us leaves out; 0: not known */
};

struct stem_plan {
    uint32_t version;
    const char *name;
    const char *source; /* path of the .stem file */
    uint32_t sm;        /* architecture that launches were shaped for, e.g. 90 */
    const char *cuda;   /* the translation unit */
    const struct stem_plan_kernel *kernels;
    uint32_t n_kernels;
    const struct stem_plan_extern *externs;
    uint32_t n_externs;
    const char *const *streams; /* names; stream 0 is main */
    uint32_t n_streams;
    const int32_t *priorities; /* for each stream: larger is more urgent, 0 normal */
    const char *const *resources;
    uint32_t n_resources;
    const char *const *dims;
    uint32_t n_dims;
    uint32_t n_external; /* external buffers come first in every variant */
    const struct stem_plan_variant *variants;
    uint32_t n_variants;
    uint64_t slab_bytes;
    struct stem_plan_memory *memory; /* what owns all of the above */
};

/* ---- building and freeing (plan.c) ---- */

/* An empty plan; never NULL unless out of memory. */
struct stem_plan *stem_plan_new(void);
void stem_plan_free(struct stem_plan *p);
/* Zeroed memory that lives as long as the plan; NULL when out of memory. */
void *stem_plan_alloc(struct stem_plan *p, size_t bytes);
char *stem_plan_strdup(struct stem_plan *p, const char *s);

/* ---- queries ---- */

uint64_t stem_tensor_elements(const struct stem_tensor *t);
bool stem_tensor_contiguous(const struct stem_tensor *t);
/* Bytes from offset to the last element's end, strides honoured; nvfp4 counts half bytes, rounded up. */
uint64_t stem_tensor_extent(const struct stem_tensor *t);
/* How many tensors of a checkpoint a weight's `from` stands for (0: it has none), and the name of number i; false if there
 * is none or it does not fit. In a buffer of [E, R, ...], "a.{*}.{b,c}" is a.0.b, a.0.c, a.1.b, ...: {*} counts the first
 * size (from N on: {*+N}), and the rows of a list's tensors follow each other along the next size. */
uint32_t stem_weight_n_sources(const struct stem_plan_buffer *b);
/* What is wrong with b->from, which is not NULL; NULL: nothing. */
const char *stem_weight_fault(const struct stem_plan_buffer *b);
bool stem_weight_source(const struct stem_plan_buffer *b, uint32_t i, char *name, size_t size);
/* Whether a weight is made of parts of its tensors, as a rank's is: of each, number *part of *parts equal ones along its
 * first (*axis 0, "[R/N]" behind the names) or second size (1, "[:, R/N]"). */
bool stem_weight_part(const struct stem_plan_buffer *b, uint32_t *axis, uint32_t *part, uint32_t *parts);
/* The variant with exactly these dim values, or STEM_NONE. */
uint32_t stem_plan_find_variant(const struct stem_plan *p, const int64_t *dim);
/* Edges that the steps imply (rule above), in the order of variant.edges, into a malloc'd array; kinds FULL except
 * that an op with `programmatic` set makes its incoming edge from the previous op of its own stream programmatic.
 * Returns the count, or STEM_NONE if a step refers to something that does not exist. */
uint32_t stem_plan_derive_edges(const struct stem_plan_variant *v, uint32_t n_streams, struct stem_plan_edge **edges);

/* ---- JSON (plan_json.c) ---- */

/* Deterministic text, NUL-terminated, malloc'd; NULL when out of memory. */
char *stem_plan_to_json(const struct stem_plan *p);
/* NULL on failure, with *error a malloc'd message naming the place ("variants[0].ops[3].stream: ..."). Every index
 * and enum is checked, so a plan that was read can be walked without further checks; whether it is *safe* is the
 * verifier's question. */
struct stem_plan *stem_plan_from_json(const char *text, size_t len, char **error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
