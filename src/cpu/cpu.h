/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device: executes a plan (slab offsets and all) with the ops' C references, in any legal order. It is the
 * oracle of the tests and what `--device=cpu` uses.
 */
#ifndef STEM_CPU_CPU_H
#define STEM_CPU_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/plan.h"

enum stem_cpu_order {
    STEM_CPU_ISSUE,  /* as issued */
    STEM_CPU_RANDOM, /* a random order that streams and events allow, from `seed` */
    STEM_CPU_LAST,   /* always the ready op issued last: as far from issue order as is legal */
};

struct stem_cpu_options {
    enum stem_cpu_order order;
    uint64_t seed;
    bool use_edges; /* legal means: allowed by variant.edges (graph) rather than by steps (eager) */
    bool poison;    /* fill the slab with NaN bytes (0xff) at the start, and a buffer's bytes at its free */
    void (*progress)(void *user, uint32_t done, uint32_t total);
    void *user;
};

struct stem_cpu; /* a program on the CPU: slab, bindings, extern functions */

struct stem_cpu *stem_cpu_new(const struct stem_plan *plan, char **error);
void stem_cpu_free(struct stem_cpu *c);
/* External buffer `index`: memory of the caller, at least its bytes; it must stay valid while used. State that is not
 * bound is owned and zeroed by the device. */
void stem_cpu_bind(struct stem_cpu *c, uint32_t variant, uint32_t index, void *data);
/* Runs a variant once. false with *error (malloc'd, names the op and its line). */
bool stem_cpu_run(struct stem_cpu *c, uint32_t variant, const struct stem_cpu_options *options, char **error);
/* Runs one op on explicit operand pointers (for the stand-in driver and per-op comparison). */
bool stem_cpu_op(const struct stem_plan *plan, const struct stem_plan_op *op, void *const *data, char **error);

/* Deterministic contents of an external buffer: element i is a function of (seed, name, i) only, the same bits as the
 * device's fill kernel. Weights of rank >= 2 are uniform in +-sqrt(3 / last dim), rank-1 weights in [0.5, 1.5), inputs
 * in [-1, 1), state zero; integers zero. */
void stem_fill(const struct stem_plan_buffer *b, uint64_t seed, void *data);

#endif
