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
    bool poison;    /* NaN bytes (0xff) in the slab at the start, and in a buffer once its last user has run */
    void (*progress)(void *user, uint32_t done, uint32_t total);
    void *user;
};

/* What is running, in memory that a watching process shares: the code of inline kernels and extern functions may end the
 * one that runs it. */
enum { STEM_CPU_WATCHED = 32 };
#define STEM_CPU_SHARED UINT32_MAX
struct stem_cpu_watch {
    const struct stem_plan *plan; /* NULL: no op; of an op that failed it stays */
    uint32_t variant, op;
    const struct stem_plan_op *last; /* the last extern function that was called: it may have damaged what fails later */
    uint32_t n; /* operands of an inline kernel or extern function, between pages that nobody may touch */
    struct {
        uintptr_t begin, end;
        uint32_t operand; /* STEM_CPU_SHARED: its dynamic shared memory */
    } range[STEM_CPU_WATCHED];
    bool done; /* the watched process came to its end by itself: such code has not ended it */
    bool faulted;
    uintptr_t fault; /* the address that a signal was about, set by the handler of whoever runs */
};

struct stem_cpu; /* a program on the CPU: slab, bindings, extern functions; one thread at a time */

/* The plan must outlive the result and have been checked (read from JSON, or accepted by the verifier). NULL with
 * *error (malloc'd) if an op has no reference, an inline kernel cannot be compiled, or an extern's library cannot be
 * loaded. Inline kernels are compiled by the host's C++ compiler: the first that works of $CXX, c++, g++, clang++. */
struct stem_cpu *stem_cpu_new(const struct stem_plan *plan, char **error);
void stem_cpu_free(struct stem_cpu *c);
/* From here on *w says what runs; NULL: no more. */
void stem_cpu_watch(struct stem_cpu *c, struct stem_cpu_watch *w);
/* Compiles every inline kernel of a plan, as stem_cpu_new does. False with *error; *rejected if the compiler said so: the text
 * is at fault then, and *error is what it said. */
bool stem_cpu_compiles(const struct stem_plan *plan, bool *rejected, char **error);
/* External buffer `index`: memory of the caller, at least its bytes; it must stay valid while used. State that is not
 * bound is owned and zeroed by the device, and shared by the variants. */
void stem_cpu_bind(struct stem_cpu *c, uint32_t variant, uint32_t index, void *data);
/* An extern function that is not in a library; replaces an earlier one of that name. False if the plan has none of
 * that name. */
struct stem_call;
struct CUstream_st;
bool stem_cpu_extern(struct stem_cpu *c, const char *name,
                     int (*fn)(const struct stem_call *call, struct CUstream_st *stream));
/* Memory of a buffer: bound, owned or in the slab; NULL if it is external and not bound. */
void *stem_cpu_buffer(struct stem_cpu *c, uint32_t variant, uint32_t index);
/* Runs a variant once. false with *error (malloc'd, names the op and its line). */
bool stem_cpu_run(struct stem_cpu *c, uint32_t variant, const struct stem_cpu_options *options, char **error);
/* Runs one op on explicit operand pointers (for the stand-in driver and per-op comparison). An extern is looked up
 * in its library only. */
bool stem_cpu_op(const struct stem_plan *plan, const struct stem_plan_op *op, void *const *data, char **error);

/* Deterministic contents of an external buffer by the rule of runtime/fill.h: element i is a function of (seed, name, i)
 * only, the same bits as the device's fill kernel. */
void stem_fill(const struct stem_plan_buffer *b, uint64_t seed, void *data);

#endif
