/* SPDX-License-Identifier: Apache-2.0
 *
 * What an op is. Every op has a folder src/ops/NAME/ with NAME.c (its stem_op_def: signature, type rule, cost,
 * lowering), NAME_ref.c (C reference) and NAME.cuh (device code), and a line in ops.def.
 *
 * A *primitive* op becomes exactly one node of the graph: one launch or one memset. A *composite* op (linear with
 * split K, experts) has an `expand` that builds primitives, so that everything the scheduler sees is one node.
 */
#ifndef STEM_OPS_OP_H
#define STEM_OPS_OP_H

#include "base/diag.h"
#include "ir/type.h"

#define STEM_MAX_OPERANDS 16 /* inputs and results together */
#define STEM_MAX_ATTRS 16

/* What a call does with an operand. */
enum stem_mode {
    STEM_MODE_IN,      /* borrow: read */
    STEM_MODE_OUT,     /* result: written completely */
    STEM_MODE_INOUT,   /* read and written in place; yields a new version of the value */
    STEM_MODE_CONSUME, /* read, and may be overwritten by the op: other readers come before it */
    STEM_MODE_RELEASE, /* read; the caller needs it no more, so it may be freed once every reader has read it */
};

struct stem_param {
    const char *name;
    enum stem_mode mode; /* OUT never; what the signature requires: IN, INOUT or CONSUME */
    bool optional;
    bool any_stride; /* false: a strided view is copied into a contiguous tensor first */
};

enum stem_attr_type {
    STEM_ATTR_TYPE_INT,
    STEM_ATTR_TYPE_FLOAT,
    STEM_ATTR_TYPE_BOOL,
    STEM_ATTR_TYPE_WORD,
    STEM_ATTR_TYPE_DTYPE,
    STEM_ATTR_TYPE_EXPR /* text that passes make; not written in the language */
};

struct stem_attr_def {
    const char *name;
    enum stem_attr_type type;
    bool required;
    double number;            /* default of INT, FLOAT, BOOL */
    const char *word;         /* default of WORD, DTYPE, NULL: none; of FLOAT: what NaN as the default stands for */
    const char *const *words; /* WORD: allowed ones, NULL-terminated */
};

/* Of ops with `epilogue`; after their own. */
#define STEM_EPILOGUE_ATTRS                                                                                  \
    {"then", STEM_ATTR_TYPE_EXPR, false, 0, NULL, NULL}, {"then_of", STEM_ATTR_TYPE_EXPR, false, 0, NULL, NULL}, \
        {"then_type", STEM_ATTR_TYPE_EXPR, false, 0, NULL, NULL},                                            \
        {"halves", STEM_ATTR_TYPE_EXPR, false, 0, NULL, NULL}
#define STEM_N_EPILOGUE_ATTRS 4

/* Attribute values: one struct stem_attr (runtime/plan.h) for each of def->attrs, in that order. INT and BOOL are
 * kind INT; FLOAT is FLOAT; WORD, DTYPE, EXPR are TEXT. An attribute that was not given has its default; a WORD or
 * DTYPE without default has text NULL. */

/* The type rule. Reports what is wrong by stem_error at span/operand_span and returns false. Works on symbolic and
 * on concrete shapes alike, so it compares dims with stem_dim_same only. */
struct stem_infer {
    struct stem_dims *dims;
    const struct stem_strtab *strings;
    struct stem_diags *diags;
    struct stem_span span;                /* the call's name */
    const struct stem_span *operand_span; /* n_in */
    const struct stem_type *in;           /* n_in; an absent optional operand has dtype STEM_N_DTYPES */
    uint32_t n_in;
    const struct stem_attr *attrs;
    struct stem_type out[STEM_MAX_OPERANDS]; /* to be set */
    uint32_t n_out;
};

/* A concrete op, as cost, lowering and references see it: operands are the inputs in order, then the plain results.
 * An absent optional input keeps its place, with rank and buffer STEM_NONE: its pointer is NULL, for a reference and as
 * a kernel parameter alike. The next version of an INOUT input is that input's memory and is not listed again. */
struct stem_concrete {
    const struct stem_op_def *def;
    const struct stem_tensor *operand;
    uint32_t n_in, n_out;
    const struct stem_attr *attrs;
    uint32_t n_attrs;
    uint32_t constant; /* bit i: operand i lies in a weight, which no op writes */
    /* The launch is to be content with half of a multiprocessor's shared memory, two blocks at least, if its kernel can
     * be. Results keep every bit. */
    bool shares;
};

struct stem_cost {
    uint64_t bytes_read, bytes_written; /* device memory that must move at least */
    uint64_t flops;
    uint32_t blocks; /* thread blocks it can use: its SM footprint */
    double efficiency; /* the share of the target's flops that its kernel comes to, as measured; 0: not known, as if all */
};

enum { STEM_MAX_HEADERS = 14 };

/* How a primitive op runs on the device. Memory for texts from `arena`. */
struct stem_lowered {
    enum stem_work work;
    const char *kernel;    /* unique C identifier for this instance, "stem_linear_bf16_n16_t8" */
    const char *code;      /* its extern "C" __global__ definition, using what `headers` define */
    const char *headers[STEM_MAX_HEADERS]; /* names of .cuh texts it needs, in order: "common", "linear"; NULL-terminated if fewer */
    uint32_t grid[3], block[3], smem;
    struct stem_scalar scalars[16];
    uint32_t n_scalars;
    bool waits; /* the code executes griddepcontrol.wait before its first dependent access */
    uint32_t early; /* bit i: operand i, which is only read, may be read before that wait */
    bool ahead;     /* it lets its successor start before that wait, not after it: for what is done soon after it */
    uint8_t memset_value;
};

struct stem_target {
    uint32_t sm;    /* 80, 90, 100, 120 */
    uint32_t n_sms; /* multiprocessors; 132 on an H200 */
    double bandwidth;  /* bytes per second, measured copy bandwidth */
    double flops;      /* dense bf16 tensor-core rate, per second */
    double launch_us, fork_us; /* cost of one more node in a chain; of a fork and its join */
    double early_us;           /* launch_us of a programmatic launch */
};

/* Of the target's flops, what an op of this cost can get: the one place where models of time take it from. */
static inline double stem_cost_rate(const struct stem_cost *c, const struct stem_target *t)
{
    return c->efficiency > 0 ? t->flops * c->efficiency : t->flops;
}

struct stem_builder; /* ir/build.h */
struct stem_value_id;

struct stem_op_def {
    const char *name;
    const char *blurb; /* one line, for `mainstem ops` and docs */
    struct stem_param params[STEM_MAX_OPERANDS];
    uint32_t n_params;
    bool variadic; /* the last param may be repeated (pointwise) */
    struct stem_attr_def attrs[STEM_MAX_ATTRS];
    uint32_t n_attrs;
    const char *results[4]; /* names; their number is the number of results */
    uint32_t scratch;       /* bit i: result i is memory that the op works in, and has no value afterwards */
    double start_us;        /* a library launches it: so much longer than a kernel of ours takes, and never early */
    bool internal;          /* cannot be called by name in the language */
    bool epilogue; /* one result, which may go through an expression first: epilogue.h; has STEM_EPILOGUE_ATTRS */
    bool halves;   /* that expression may be of the two halves of the last dim */
    bool can_share; /* its lowering looks at stem_concrete.shares */

    bool (*infer)(struct stem_infer *c);
    /* Composite: builds primitives for inputs `in`, sets `out`. NULL: primitive. */
    void (*expand)(struct stem_builder *b, const struct stem_value_id *in, const struct stem_attr *attrs,
                   struct stem_value_id *out);
    void (*cost)(const struct stem_concrete *c, struct stem_cost *cost);
    void (*lower)(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l);
    /* CPU reference: data[i] points at operand i's first element (offset applied; NULL if absent), strides from
     * `operand`. Accumulates in f32 or better, rounds once to the result's type (nearest even). Single-threaded,
     * reads no state, so any number may run at once. */
    void (*reference)(const struct stem_concrete *c, void *const *data);
    /* Which values of integer operand i make sense, for those who must make some up; others do no harm. False: any.
     * May be NULL. */
    bool (*range)(const struct stem_concrete *c, uint32_t i, int64_t *low, int64_t *high);
};

/* NULL if unknown. Composite and primitive. */
const struct stem_op_def *stem_op_find(const char *name);
/* All, in the order of ops.def; *n set. */
const struct stem_op_def *const *stem_op_all(uint32_t *n);
/* Number of (plain) results; the parameter that input i belongs to, NULL if there are fewer. */
uint32_t stem_op_n_results(const struct stem_op_def *def);
const struct stem_param *stem_op_param(const struct stem_op_def *def, uint32_t i);
/* Fills attrs (room for def->n_attrs) with the defaults. */
void stem_op_attr_defaults(const struct stem_op_def *def, struct stem_attr *attrs);
/* Checks the number of operands and the attributes' words, sets n_out, then asks the op's own rule: this is what the
 * front end, the builder and the IR reader call. Faults are reported (125x); results in c->out. */
bool stem_op_infer(const struct stem_op_def *def, struct stem_infer *c);
/* Text of a device header ("linear"), NULL if unknown; from NAME.cuh at build time. */
const char *stem_op_header(const char *name);
/* The attribute's value; attrs are parallel to def->attrs. Aborts on an unknown name: a compiler bug. */
const struct stem_attr *stem_op_attr(const struct stem_op_def *def, const struct stem_attr *attrs, const char *name);

#endif
