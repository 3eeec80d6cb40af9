/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes. A pass reads and changes the program and reports remarks and diagnostics; it never prints, never calls
 * CUDA, keeps no state of its own, and gives the same result for the same input. The order of passes is pass.def.
 */
#ifndef STEM_PASS_PASS_H
#define STEM_PASS_PASS_H

#include "ir/ir.h"

struct stem_cost_gpu;

/* BY_RANK: by latest start, whatever the stream; only passes ask for it. */
enum stem_order { STEM_ORDER_MAIN_FIRST, STEM_ORDER_PROGRAM, STEM_ORDER_SIDE_FIRST, STEM_ORDER_BY_RANK };
enum stem_inplace { STEM_INPLACE_AUTO, STEM_INPLACE_WAIT, STEM_INPLACE_COPY };

/* Waits that change nothing but the driver's lanes: for main-first order and to meet max_lanes; whenever they help;
 * not at all. */
enum stem_lane_repairs { STEM_LANE_REPAIR_AUTO, STEM_LANE_REPAIR_ALWAYS, STEM_LANE_REPAIR_NEVER };

/* Programmatic launches (pdl): where the target has them (sm_90 and later); the same, and an error elsewhere; none. */
enum stem_pdl { STEM_PDL_AUTO, STEM_PDL_ON, STEM_PDL_OFF };

/* Who multiplies: the library where it is faster (pass library); our kernels; the library wherever it can. */
enum stem_matmul_by { STEM_MATMUL_AUTO, STEM_MATMUL_OWN, STEM_MATMUL_CUBLASLT };

struct stem_options {
    enum stem_order order;
    enum stem_inplace inplace; /* in place against a concurrent reader: a WAR edge or a copy */
    uint32_t max_streams;      /* streams that the compiler may use for unpinned ops, main included; pins are kept */
    bool ignore_pins;          /* the compiler chooses the streams of every op */
    bool one_stream;           /* everything on main, pins ignored: the reference schedule */
    uint32_t max_lanes;        /* 0: no constraint */
    enum stem_lane_repairs lane_repair;
    uint64_t memory_budget;    /* bytes, 0: none */
    bool no_fuse;
    enum stem_pdl pdl;
    enum stem_matmul_by matmul;
    struct stem_target target;
    const struct stem_cost_gpu *costs; /* measured (src/costs/); NULL: the model alone */
};
/* Defaults: main-first, auto, 2 streams, programmatic launches, an H200. */
struct stem_options stem_options_default(void);

struct stem_pass_ctx {
    struct stem_arena *scratch; /* emptied after the pass */
    struct stem_diags *diags;
    const struct stem_options *options;
};

struct stem_pass {
    const char *name, *blurb;
    uint32_t needs, gives, kills;                                   /* enum stem_fact */
    bool (*run)(struct stem_program *p, struct stem_pass_ctx *ctx); /* false: errors were reported */
};

/* All passes in order; *n set. */
const struct stem_pass *const *stem_pass_all(uint32_t *n);
const struct stem_pass *stem_pass_find(const char *name);

struct stem_pass_hooks {
    /* Called after each pass; may print or time. NULL: none. */
    void (*after)(void *user, const struct stem_pass *pass, const struct stem_program *p, double seconds);
    void *user;
    bool check_each; /* run stem_program_check after each pass and abort with the program's text on a fault */
};
/* Runs all passes (or those in the comma-separated list `only`), up to and including `stop_after`. */
bool stem_pass_run_all(struct stem_program *p, struct stem_diags *diags, const struct stem_options *options,
                       const char *only, const char *stop_after, const struct stem_pass_hooks *hooks);

/* The schedule as compact text: streams, issue order with waits and records, estimates; then lifetimes and offsets as
 * far as the passes have come. For --print-after and golden tests. */
void stem_schedule_print(const struct stem_program *p, struct stem_out *o);

/* ---- happens-before of a schedule (hb.c): used by several passes, not by the verifier ---- */

struct stem_hb;
/* From order, streams and waits as they stand (waits may still be empty: then only deps count if `use_deps`). */
struct stem_hb *stem_hb_new(struct stem_arena *a, const struct stem_program *p, bool use_deps);
bool stem_hb_before(const struct stem_hb *hb, struct stem_op_id a, struct stem_op_id b);
/* Position in issue order; STEM_NONE for a dead op. */
uint32_t stem_hb_position(const struct stem_hb *hb, struct stem_op_id a);

#endif
