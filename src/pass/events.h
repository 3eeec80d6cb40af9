/* SPDX-License-Identifier: Apache-2.0
 *
 * What the events pass is made of, for the passes that run parts of it again.
 */
#ifndef STEM_PASS_EVENTS_H
#define STEM_PASS_EVENTS_H

#include "pass/graph.h"
#include "pass/hb.h"

/* Waits, their events and the estimates, from deps, streams and order. */
void stem_events_build(struct stem_program *p, struct stem_pass_ctx *ctx);
/* Distinct recorded events: one for each producer, one for each start of a segment. */
uint32_t stem_events_count(const struct stem_program *p, struct stem_arena *a);
/* critical_path_us (the length of the schedule: streams, waits and segments), total_us, floor_us. */
void stem_schedule_estimate(struct stem_program *p, struct stem_arena *a, const struct stem_target *t);
/* How long the schedule takes by the estimates if ops that overlap slow each other down (simulate.c), microseconds. */
double stem_simulate(const struct stem_program *p, struct stem_arena *a, const struct stem_options *o);

/* The same order seen from the end, from the dependencies alone: for each op the first op on each stream that comes
 * after it. It shares nothing with the waits, so that what it says about them can be compared. */
struct stem_reach {
    uint32_t n_streams;
    uint32_t
        *index; /* by op: place on its stream, numbered as in struct stem_hb; a segment ends where the next starts */
    uint32_t *first; /* by op, n_streams each: lowest place that is the op itself or after it; STEM_NONE: nothing */
    uint32_t
        producers; /* ops and starts of segments from which an edge of the transitive reduction crosses streams */
};
struct stem_reach stem_reach_new(struct stem_arena *a, const struct stem_program *p);

/* A remark for every fork whose ops have nothing beside them. */
void stem_events_remarks(const struct stem_program *p, struct stem_pass_ctx *ctx, const struct stem_reach *r);

#endif
