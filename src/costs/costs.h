/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of measured costs: how long an op takes on a GPU, by itself and beside another. `mainstem tune` fills it,
 * passes look things up in it, and what it does not know the model of pass/cost.c estimates. An op is known by its
 * *key*, a text with all that its lowering depends on (kind, element types, shapes, strides, attributes), and by a
 * hash of the kernel that was measured: another kernel's time is stale and does not count.
 *
 * Threads: a table that nobody changes may be read by any number.
 */
#ifndef STEM_COSTS_COSTS_H
#define STEM_COSTS_COSTS_H

#include "base/out.h"
#include "base/vec.h"
#include "ir/ir.h"

#define STEM_COSTS_VERSION 1

struct stem_cost_entry {
    const char *key;
    uint64_t kernel; /* hash */
    double us;       /* of one launch in a chain of such launches, each behind a full edge */
    double early_us; /* the same with programmatic launches; 0: not measured */
};

/* Two ops at the same time. */
struct stem_cost_pair {
    uint32_t a, b;   /* entries, a <= b */
    double slowdown; /* each takes so many times as long while both run: 1 overlap is free, 2 it saves nothing */
    double fork_us;  /* what a fork and its join around the two cost besides */
};

struct stem_cost_gpu {
    const char *name; /* as the driver has it */
    uint32_t sm;
    double bandwidth; /* of a copy on the device, bytes read and written per second; 0: not measured */
    STEM_VEC(struct stem_cost_entry) entries;
    STEM_VEC(struct stem_cost_pair) pairs;
    struct stem_cost_index *index; /* of both */
};

struct stem_costs {
    struct stem_arena *arena;
    STEM_VEC(struct stem_cost_gpu *) gpus;
};

struct stem_costs *stem_costs_new(void);
void stem_costs_free(struct stem_costs *c); /* NULL is fine */

/* The part of a GPU; NULL: there is none. `name` NULL: the first of architecture `sm`. */
const struct stem_cost_gpu *stem_costs_find_gpu(const struct stem_costs *c, const char *name, uint32_t sm);
/* The same, made if it is not there. */
struct stem_cost_gpu *stem_costs_gpu(struct stem_costs *c, const char *name, uint32_t sm);

/* Index of the entry, STEM_NONE if there is none. */
uint32_t stem_costs_find(const struct stem_cost_gpu *g, const char *key);
/* NULL if the pair was not measured. In either order. */
const struct stem_cost_pair *stem_costs_find_pair(const struct stem_cost_gpu *g, uint32_t a, uint32_t b);
/* Adds or replaces. An entry of another kernel takes its pairs with it. The index of the entry. */
uint32_t stem_costs_put(struct stem_costs *c, struct stem_cost_gpu *g, struct stem_cost_entry e);
void stem_costs_put_pair(struct stem_cost_gpu *g, struct stem_cost_pair p);

/* ---- keys (key.c) ---- */

/* What the op is, "linear(bf16[4,7168], *bf16[384,7168]) bf16[4,384] out=bf16": * marks a weight, & what is updated in
 * place. In the arena. */
const char *stem_cost_key(const struct stem_program *p, const struct stem_op *op, struct stem_arena *a);
/* Hash of what the op is lowered to: code, the headers it uses, launch shape. 0: nothing that can be measured. */
uint64_t stem_cost_kernel(const struct stem_program *p, const struct stem_op *op, const struct stem_target *t);

/* ---- files (read.c, write.c) ---- */

/* The table as JSON: sorted, one record a line; the same table gives the same bytes. */
void stem_costs_write(const struct stem_costs *c, struct stem_out *o);
/* NULL with *error in `a`, which names the place ("gpus[0].ops[3].us: ..."). Nothing in the text is trusted. */
struct stem_costs *stem_costs_read(const char *text, size_t len, struct stem_arena *a, const char **error);

#endif
