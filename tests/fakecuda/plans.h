/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans made by hand for the runtime's tests: arrays of 64 ints, and kernels whose results depend on every operand
 * and on the order of what they do.
 */
#ifndef FAKECUDA_PLANS_H
#define FAKECUDA_PLANS_H

#include "runtime/mainstem_rt.h"

enum { PLAN_INTS = 64, PLAN_MAX = 128 };

/* What is wrong with a plan, to see that it shows. */
enum plan_damage {
    PLAN_SOUND,
    PLAN_NO_FORK,      /* the side stream does not wait for the fork event */
    PLAN_NO_JOIN,      /* main does not wait for the side stream */
    PLAN_EARLY_FREE,   /* a buffer is freed on main while the side stream reads it */
    PLAN_NO_PDL_WAIT,  /* a kernel behind a programmatic edge does not wait in its code */
    PLAN_SHARED_BYTES, /* two buffers that live at the same time overlap */
    N_PLAN_DAMAGES
};

struct maker {
    struct stem_plan *plan;
    enum plan_damage damage;
    struct stem_plan_kernel *kernels;
    struct stem_plan_buffer *buffers;
    struct stem_plan_op *ops;
    struct stem_step *steps;
    struct stem_plan_segment *segments;
    uint32_t n_buffers, n_ops, n_steps, n_segments, n_events;
};

/* Streams main and side; kernels mix1, mix2, bump; extern function "copy". */
struct maker maker_new(void);
uint32_t maker_buffer(struct maker *m, const char *name, enum stem_buffer_kind kind);
/* out = f(a, salt), out = f(a, b, salt), x = f(x, salt). They return the op. */
uint32_t maker_mix1(struct maker *m, const char *name, uint32_t stream, uint32_t out, uint32_t a);
uint32_t maker_mix2(struct maker *m, const char *name, uint32_t stream, uint32_t out, uint32_t a, uint32_t b);
uint32_t maker_bump(struct maker *m, const char *name, uint32_t stream, uint32_t x);
uint32_t maker_zero(struct maker *m, const char *name, uint32_t stream, uint32_t x);
uint32_t maker_copy(struct maker *m, const char *name, uint32_t stream, uint32_t out, uint32_t a); /* extern */
uint32_t maker_record(struct maker *m, uint32_t stream);
void maker_wait(struct maker *m, uint32_t stream, uint32_t event);
void maker_alloc(struct maker *m, uint32_t stream, uint32_t buffer);
void maker_free(struct maker *m, uint32_t stream, uint32_t buffer);
void maker_segment(struct maker *m, bool eager);
/* Closes the last segment, derives the edges. */
struct stem_plan *maker_done(struct maker *m);

/* Two layers with fork and join, an op on state, a memset on the side stream, an extern op; `piecewise`: three
 * segments, the one in the middle eager. External buffers: 0 in, 1 w, 2 st, 3 out. */
struct stem_plan *plan_two_layers(bool piecewise, enum plan_damage damage);

/* One layer and an op on state: kernels and a memset, no extern op. The same external buffers. */
struct stem_plan *plan_one_layer(void);

/* Kernels and runner of these plans. */
void plans_install(const struct stem_plan *p);
/* What running the variant's ops in issue order does to external buffers: ext[i] has PLAN_INTS ints. */
void plans_expect(const struct stem_plan *p, int32_t *const *ext);
extern const struct stem_extern plans_externs[];

#endif
