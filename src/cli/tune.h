/* SPDX-License-Identifier: Apache-2.0
 *
 * The measuring driver of `mainstem tune`. An op of a program is measured with what the program had in its operands: the
 * program runs once, op by op, and what an op has read and written is kept. Then *micro-plans*, which launch that op
 * over and over, alone or beside another one, run on the runtime as any plan does. Weights rotate through more
 * memory than the L2 holds; activations are where a model has them, in the L2.
 */
#ifndef STEM_CLI_TUNE_H
#define STEM_CLI_TUNE_H

#include "cli/gpu_check.h"
#include "costs/costs.h"

enum { TUNE_MAX_SETS = 64 };

/* One program of those that tune compiles, on the device. All share buffers. */
struct tune_program {
    struct stem_compiled *compiled;
    struct stem_cli_exec exec;
    uint32_t **op; /* [variant][op of the plan]: index in tune.ops, STEM_NONE if it is not measured */
};

/* A distinct op. */
struct tune_op {
    const char *key;
    uint64_t kernel;
    const struct tune_program *program;
    uint32_t variant, op; /* in its plan */
    uint32_t n_sets;      /* of weights that the launches take turns with */
    uint64_t *address;    /* [set][operand] */
    double us;            /* measured, or of the table; 0: not yet */
    uint32_t entry;       /* in the table */
    bool stale;           /* to be measured */
    bool rotated;
};

/* Two ops of one variant that nothing orders. */
struct tune_pair {
    uint32_t a, b; /* tune.ops */
    const struct tune_program *program; /* a plan that has both; either may be known from an earlier one */
    uint32_t variant, op_a, op_b;
    uint32_t count;
    double worth; /* time that overlapping them could save in a replay at most */
};

/* A further copy of a weight. */
struct tune_copy {
    const char *name;
    uint32_t number;
    uint64_t at;
};

struct tune {
    struct stem_gpu *gpu;
    struct stem_arena *arena;
    struct stem_costs *costs;
    struct stem_cost_gpu *table;
    const struct stem_options *options;
    double deadline; /* in seconds of the monotonic clock; 0: none */
    STEM_VEC(struct tune_op) ops;
    STEM_VEC(struct tune_pair) pairs;
    STEM_VEC(struct tune_copy) copies;
    STEM_VEC(uint64_t) memory; /* device allocations */
    uint64_t budget;           /* bytes that may still be allocated */
};

/* ---- what there is to measure (tune_ops.c) ---- */

/* Runs every variant of the program once and adds its distinct ops and pairs. */
bool tune_collect(struct tune *t, struct tune_program *p, struct stem_rt_error *err);
/* Finds sets of weights for an op to rotate through: of other ops alike, then newly allocated. */
bool tune_rotate(struct tune *t, struct tune_op *o, struct stem_rt_error *err);
void tune_free(struct tune *t);

/* ---- micro-plans (tune_plan.c) ---- */

enum tune_form {
    TUNE_CHAIN,    /* a, a, a, ... */
    TUNE_TOGETHER, /* a, a, ... on one stream and b, b, ... on another, not ordered */
    TUNE_FORKED,   /* a, then a beside b, joined; over and over */
    TUNE_SERIAL,   /* a, a, b on one stream, over and over */
};

struct tune_run {
    enum tune_form form;
    const struct tune_op *a, *b;
    uint32_t times_a, times_b; /* FORKED, SERIAL: times_a rounds */
    bool early;                /* programmatic launches */
};

/* A plan whose buffers are all inputs; *address (in the arena) is where each is. The kernels are those of a->program. */
struct stem_plan *tune_plan(const struct tune_run *r, struct stem_arena *a, const uint64_t **address);

/* ---- measuring (tune_measure.c) ---- */

/* Median time of the whole run, microseconds. */
bool tune_time(struct tune *t, const struct tune_run *r, double *us, struct stem_rt_error *err);
/* The op alone; puts it into the table. */
bool tune_measure_op(struct tune *t, struct tune_op *o, struct stem_rt_error *err);
/* The pair; both are in the table. */
bool tune_measure_pair(struct tune *t, const struct tune_pair *p, struct stem_rt_error *err);
/* Bytes read and written per second by a copy on the device. */
bool tune_bandwidth(struct stem_gpu *g, double *bandwidth, struct stem_rt_error *err);

#endif
