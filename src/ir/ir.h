/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: typed ops over values, all dims bound. expand (src/sema) builds it, the passes decide about it, and
 * emit/plan.c turns it into a plan. Everything is referred to by 32-bit ids; ids of ops and values never change once
 * given (fuse marks ops dead instead of moving them).
 *
 * Values have value semantics. An in-place op (INOUT operand) reads a value and defines a new one, the next
 * *version*, in the same buffer. A view is a value in the buffer of another, at an offset, with strides; it has no op.
 *
 * Ops are in text order, which means nothing for scheduling. The schedule is in stem_schedule, filled by the passes.
 */
#ifndef STEM_IR_IR_H
#define STEM_IR_IR_H

#include "base/arena.h"
#include "base/bitset.h"
#include "base/diag.h"
#include "base/str.h"
#include "base/vec.h"
#include "ops/op.h"
#include "runtime/plan.h"

struct stem_op_id {
    uint32_t n;
};
struct stem_value_id {
    uint32_t n;
};
struct stem_buffer_id {
    uint32_t n;
};
struct stem_stream_id {
    uint32_t n; /* 0 is main */
};
#define STEM_NO_OP ((struct stem_op_id){STEM_NONE})
#define STEM_NO_VALUE ((struct stem_value_id){STEM_NONE})
#define STEM_NO_BUFFER ((struct stem_buffer_id){STEM_NONE})
#define STEM_NO_STREAM ((struct stem_stream_id){STEM_NONE})
#define STEM_MAX_STREAMS 32

struct stem_buffer {
    struct stem_sym name;
    enum stem_buffer_kind kind;
    uint64_t bytes;
    uint32_t align;
    struct stem_tensor shape; /* the whole buffer as one contiguous tensor (what a binding must match) */
    struct stem_span span;
    uint64_t offset; /* memory pass: TEMP only */
    bool inout; /* INPUT: memory of the caller that the program may update; else it is only lent, as a weight is */
    const char *from; /* WEIGHT: the tensors of a checkpoint, as in the plan; NULL: the one called `name` */
    /* While building: the version that was made last, by which op, whether others made parts of it, and whether an op
     * consumes it. */
    uint32_t newest, newest_by;
    bool parted, consumed;
};

struct stem_value {
    struct stem_sym name;
    struct stem_tensor tensor; /* tensor.buffer is the buffer id's number */
    struct stem_op_id def;     /* NO_OP: an external buffer's first version, or a view (see stem_value_def) */
    struct stem_value_id base; /* the value that this is a view or the next version of; NO_VALUE otherwise */
    uint32_t version;          /* 0, 1, ... in its buffer; views have their base's */
    struct stem_span span;
};

struct stem_operand {
    struct stem_value_id value; /* NO_VALUE: an absent optional input */
    enum stem_mode mode;
    struct stem_span span;
};

enum stem_op_class { STEM_OP_BUILTIN, STEM_OP_KERNEL, STEM_OP_EXTERN };

struct stem_op {
    enum stem_op_class class;
    const struct stem_op_def *def; /* BUILTIN */
    uint32_t decl;                 /* KERNEL, EXTERN: index into program.decls */
    bool dead;

    /* Inputs, then results (mode OUT): first the next version of each INOUT input, in input order (each in the same
     * bytes as its input), then the plain ones. n_out counts both. In a plan and in struct stem_concrete only the plain
     * ones appear. A kernel's pointer parameters are the inputs, then the plain results. */
    const struct stem_operand *operands;
    uint32_t n_in, n_out;
    const struct stem_attr *attrs;
    uint32_t n_attrs;
    const struct stem_scalar *scalars; /* KERNEL: scalar parameters after the operands */
    uint32_t n_scalars;
    uint32_t grid[3], block[3], smem;  /* KERNEL: evaluated launch shape */

    struct stem_sym name; /* path: "moe[3].x" */
    uint32_t layer;       /* instance number of the innermost layer call; STEM_NONE outside */
    uint32_t segment;
    struct stem_stream_id pin; /* NO_STREAM: the compiler decides */
    int32_t priority;
    struct stem_sym resource; /* 0: none */
    const struct stem_op_id *after; /* order without data */
    uint32_t n_after;
    struct stem_span span;

    struct stem_stream_id stream; /* streams pass */
    struct stem_cost cost;        /* filled when built */
    double est_us;                /* streams pass */
    uint32_t measured;            /* where est_us is from: 1 + entry of the table of costs; 0: the model */
    bool programmatic;            /* pdl pass: launched before the previous op of its stream has completed */
    bool shares;                  /* room pass: content with half of the shared memory */
};

/* An inline kernel or an extern function, as declared. */
struct stem_decl {
    enum stem_op_class class;
    struct stem_sym name;
    struct stem_span span;
    /* KERNEL */
    const char *body;            /* CUDA C between the double braces */
    struct stem_span body_span;  /* for #line */
    const char *params;          /* C parameter list as emitted: "const __nv_bfloat16 *x, __nv_bfloat16 *y, float a" */
    bool waits;
    /* EXTERN */
    const char *library; /* shared object, NULL: registered through the API */
};

struct stem_segment {
    bool eager;
    struct stem_span span;
};

/* What happens before what, and why. Data edges follow from values; the others are decided. */
enum stem_dep_kind {
    STEM_DEP_DATA,     /* reads what `from` wrote */
    STEM_DEP_ANTI,     /* overwrites in place what `from` reads */
    STEM_DEP_OUTPUT,   /* overwrites in place what `from` wrote */
    STEM_DEP_AFTER,    /* written by the user */
    STEM_DEP_RESOURCE, /* shares a resource with `from` */
    STEM_DEP_MEMORY,   /* bought by the memory pass: reuses bytes that `from` used last */
};

struct stem_dep {
    struct stem_op_id from, to;
    enum stem_dep_kind kind;
    struct stem_value_id value; /* DATA, ANTI, OUTPUT: about which value */
};

/* `to` waits for what `from` (on another stream) completes; from NO_OP: for the start of the segment. */
struct stem_wait {
    struct stem_op_id from, to; /* to NO_OP: main waits at the end of `segment` */
    uint32_t segment;
    bool lane; /* implied by the others; there so that the driver goes on with a lane */
};

/* What the order pass had in mind when it issued an op; order.h has the words. */
enum stem_why_kind {
    STEM_WHY_UNKNOWN, /* the order was read, or made by another pass */
    STEM_WHY_ONLY,    /* a main op: nothing else on main was ready */
    STEM_WHY_URGENT,  /* a main op: of `n` ready ones the one that can be put off least */
    STEM_WHY_AHEAD,   /* a main op: ahead of `other`, which would have waited for a side stream */
    STEM_WHY_NEEDED,  /* a side op: the main op `other` needs it */
    STEM_WHY_JOINED,  /* a side op that no main op needs: the main op `other` joins its stream anyway */
    STEM_WHY_PATIENCE,/* the same: it could have been issued before `n` main ops */
    STEM_WHY_REST,    /* the same: nothing else was left in the segment */
    STEM_WHY_TEXT,    /* program order: the first in the text that was ready */
    STEM_WHY_SIDE,    /* side-first: side ops go before main ops */
    STEM_WHY_MAIN,    /* side-first: no side op was ready */
    STEM_WHY_RANK,    /* by latest start, whatever the stream */
};
struct stem_why {
    enum stem_why_kind kind;
    uint32_t other, n; /* ops.at[other] */
};

/* Ops that could run beside main's, and what the streams pass made of them; or, by the events pass, those that the file pins. */
struct stem_fork {
    struct stem_op_id first;      /* of them */
    uint32_t n_ops;
    struct stem_op_id beside;     /* op that they would start beside, of main or else of another side; NO_OP: none */
    double us, beside_us;         /* what they take on main; what that one's line does meanwhile */
    double gain_us, price_us;     /* what a fork saves, and what it costs */
    bool measured;                /* from measured pairs, not from the model */
    bool pinned;
    struct stem_stream_id stream; /* where they went; 0: they stay on main */
};

struct stem_schedule {
    STEM_VEC(struct stem_dep) deps;         /* deps pass; sorted by to, from, kind */
    STEM_VEC(struct stem_op_id) order;      /* order pass: issue order of all live ops */
    STEM_VEC(struct stem_why) why;          /* the same pass, by op; empty: not known */
    STEM_VEC(struct stem_wait) waits;       /* events and lanes passes: in issue order of `to` */
    uint32_t n_events, events_bound;        /* events pass */
    /* lifetime pass, for each buffer: ops that touch it last (an antichain in happens-before) and first writer */
    STEM_VEC(struct stem_op_id) last_use;   /* grouped by buffer */
    STEM_VEC(uint32_t) last_use_begin;      /* buffers.len + 1 entries */
    STEM_VEC(struct stem_op_id) first_use;  /* for each buffer: first in issue order, NO_OP if unused */
    /* where the free goes: after this op in issue order (on its stream everything in last_use has happened), or NO_OP:
     * at the end of the program, after the final join */
    STEM_VEC(struct stem_op_id) free_after;
    uint64_t slab_bytes, slab_bound;        /* memory pass */
    uint32_t lanes;                         /* lanes pass */
    double critical_path_us, total_us, floor_us;
    double schedule_us;           /* events pass: with what ops that overlap cost each other; not part of the text */
    STEM_VEC(struct stem_fork) forks; /* streams and events passes; not part of the text */
};

/* What passes establish; a pass names what it needs, gives and kills. */
enum stem_fact {
    STEM_FACT_EXPANDED = 1 << 0,
    STEM_FACT_STREAMS = 1 << 1,  /* every live op has a stream and an estimate */
    STEM_FACT_DEPS = 1 << 2,     /* sched.deps is complete */
    STEM_FACT_ORDER = 1 << 3,
    STEM_FACT_WAITS = 1 << 4,
    STEM_FACT_LIFETIME = 1 << 5,
    STEM_FACT_MEMORY = 1 << 6,
    STEM_FACT_LANES = 1 << 7,
};

struct stem_stream_decl {
    struct stem_sym name;
    int32_t priority;
};

struct stem_program {
    struct stem_arena *arena;
    struct stem_strtab *strings;     /* shared with the front end; not owned */
    const struct stem_source *source; /* NULL when read from IR text; not owned */
    struct stem_sym name;
    STEM_VEC(struct stem_sym) dim_names;
    STEM_VEC(int64_t) dim_values;
    STEM_VEC(struct stem_buffer) buffers; /* external ones first */
    STEM_VEC(struct stem_value) values;
    STEM_VEC(struct stem_op) ops;
    STEM_VEC(struct stem_decl) decls;
    STEM_VEC(struct stem_stream_decl) streams; /* at least main */
    STEM_VEC(struct stem_segment) segments;    /* at least one */
    STEM_VEC(struct stem_sym) layers;          /* layer instance names, by instance number: "moe[3]" */
    struct stem_schedule sched;
    struct stem_lowerings *lowerings; /* those made so far, which no result depends on */
    uint32_t state; /* bits of enum stem_fact: what the passes have established */
};

struct stem_program *stem_program_new(struct stem_strtab *strings, const struct stem_source *source);
void stem_program_free(struct stem_program *p);
/* Empties the schedule and frees its memory. */
void stem_schedule_clear(struct stem_schedule *s);

static inline struct stem_op *stem_op_at(const struct stem_program *p, struct stem_op_id id)
{
    return &p->ops.at[id.n];
}
static inline struct stem_value *stem_value_at(const struct stem_program *p, struct stem_value_id id)
{
    return &p->values.at[id.n];
}
static inline struct stem_buffer *stem_buffer_at(const struct stem_program *p, struct stem_buffer_id id)
{
    return &p->buffers.at[id.n];
}
/* A view is a value with the version of its base; what it is a view of (not itself a view); and the op that wrote
 * that, NO_OP for an external buffer's first version. */
bool stem_value_is_view(const struct stem_program *p, struct stem_value_id v);
struct stem_value_id stem_value_origin(const struct stem_program *p, struct stem_value_id v);
struct stem_op_id stem_value_def(const struct stem_program *p, struct stem_value_id v);
/* How many of the op's results are next versions of INOUT inputs. */
uint32_t stem_op_n_inout(const struct stem_op *op);
/* Operand's tensor; rank STEM_NONE for an absent one. */
struct stem_tensor stem_operand_tensor(const struct stem_program *p, const struct stem_operand *o);
/* Fills `c` for a BUILTIN op; `t` needs room for STEM_MAX_OPERANDS tensors. */
void stem_op_concrete(const struct stem_program *p, const struct stem_op *op, struct stem_tensor *t,
                      struct stem_concrete *c);

/* ---- lowerings (lower.c) ---- */

struct stem_lowering {
    struct stem_lowered l;
    uint32_t number; /* from 0 on, as they were made; ops with the same one have the same attributes, too */
};
/* How a BUILTIN op that has a lowering runs on the target. Ops that differ in nothing that a lowering may look at have one
 * between them, kept by the program; it stays until the next call. */
const struct stem_lowering *stem_op_lower(const struct stem_program *p, const struct stem_op *op, const struct stem_target *t);
struct stem_lowerings *stem_lowerings_new(void);
void stem_lowerings_free(struct stem_lowerings *m);

/* ---- the textual form (print.c, read.c); printing what was read gives the same bytes ---- */

void stem_program_print(const struct stem_program *p, struct stem_out *o);
/* NULL after reporting errors (40xx). */
struct stem_program *stem_program_read(struct stem_strtab *strings, const struct stem_source *s,
                                       struct stem_diags *diags);
/* Well-formedness that every pass may rely on (ids in range, definitions, modes, shapes). Reports nothing but the
 * first fault: NULL if fine, else a message in the program's arena. A fault is a bug of whoever built the program. */
const char *stem_program_check(const struct stem_program *p);

#endif
