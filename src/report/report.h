/* SPDX-License-Identifier: Apache-2.0
 *
 * What people look at: when each op of a plan runs by the estimates, which stretches repeat, and the schedule as
 * text, as DOT, as a trace, as one HTML page, and as a comparison with another plan.
 *
 * Everything here is a pure function of its arguments; results live in the arena or the stem_out of the caller.
 */
#ifndef STEM_REPORT_REPORT_H
#define STEM_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/out.h"
#include "base/source.h"
#include "runtime/plan.h"

struct stem_program;

/* ---- when (timeline.c) ---- */

/* Arrays of n entries, by op; microseconds from the start of the variant. */
struct stem_timeline {
    uint32_t n;
    double *start, *end;
    bool *critical; /* on one longest chain of ops that leads to the end; its parts follow each other without a gap */
    double length;  /* the last end */
    bool measured;  /* times are from a trace, not from estimates */
    uint32_t *lane; /* by op, as measured; NULL: not known */
};
/* All zero. */
void stem_timeline_new(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_timeline *t);
/* After start and end were set from measurements: `critical` and `length`. */
void stem_timeline_finish(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_timeline *t);

/* The bandwidth that the bounds are of, as microseconds for each byte. */
double stem_us_per_byte(const struct stem_plan_variant *v);
/* By the estimates: an op starts when its stream is free, what it waits for is done, and the segments before its own
 * have ended. The rule is that of stem_schedule_estimate, so `length` is the variant's critical_path_us. */
void stem_timeline_estimate(const struct stem_plan_variant *v, uint32_t n_streams, struct stem_arena *a,
                            struct stem_timeline *t);
/* From a trace in Chrome's JSON format: complete events ("ph": "X") that name ops in args.op (a number), by the op's
 * name, or by the kernel's name; the k-th event of a name is the k-th op of that name. Events with args.op are of the
 * variant whose number is their pid. False, with *why in the arena, if the text is no such trace, an op has no event,
 * or an event with a number has another name than the op: the trace is of another plan. */
bool stem_timeline_trace(const struct stem_plan *p, const struct stem_plan_variant *v, const char *text, size_t len,
                         struct stem_arena *a, struct stem_timeline *t, const char **why);

/* ---- what happens before what (before.c) ---- */

struct stem_before {
    const struct stem_plan_variant *v;
    uint32_t n_streams;
    uint32_t *clock, *at; /* by op and stream: how many ops of it come before; by op: place on its stream */
};
void stem_before_find(const struct stem_plan *p, const struct stem_plan_variant *v, struct stem_arena *a,
                      struct stem_before *b);
/* True if `op` has ended, or been waited for, when `other` starts to work, whatever the timing. */
bool stem_before(const struct stem_before *b, uint32_t op, uint32_t other);

/* ---- what was measured (profile.c) ---- */

enum stem_event_kind { STEM_EVENT_KERNEL, STEM_EVENT_MEMSET, STEM_EVENT_COPY };

/* Work of one replay as the device did it. */
struct stem_event {
    const char *name; /* of the kernel */
    enum stem_event_kind kind;
    uint32_t stream, graph, correlation; /* CUPTI's; graph 0: launched eagerly */
    uint64_t node;                       /* of the graph */
    uint32_t grid[3], block[3];          /* KERNEL */
    uint64_t bytes;                      /* MEMSET, COPY */
    double start, end;                   /* us */
};

struct stem_profile {
    struct stem_timeline when; /* with lanes */
    uint32_t n_lanes;
    bool graph;                             /* lanes are a graph's, not streams */
    uint32_t by_order, by_number, guessed;  /* ops by how their record was found; see profile.c */
    uint32_t broken;                       /* edges that the times contradict */
    double overlap;                         /* us: the most that an edge which they do not contradict is ignored by */
};
/* The op of each record; every op has one, and every record is of one. `kernels`, by op: how many kernels a product by a library
 * is; NULL: not known. False, with *why in the arena, if there are too many or too few of some kind. */
bool stem_profile_map(const struct stem_plan *p, const struct stem_plan_variant *v, const struct stem_event *events,
                      uint32_t n, const uint32_t *kernels, struct stem_arena *a, struct stem_profile *out, const char **why);
/* How sure that is, in words. */
const char *stem_profile_proof(const struct stem_profile *p, const struct stem_plan_variant *v, struct stem_arena *a);

/* ---- predicted lanes (op_lanes.c) ---- */

struct stem_op_lanes { /* by op */
    uint32_t *lane;  /* STEM_NONE: none, the op is in no graph */
    uint32_t *opens; /* why it opens its lane: enum stem_lane_why from STEM_LANE_ROOT on, less that; STEM_NONE: it goes on */
    uint32_t *by;    /* the op whose fault that is, STEM_NONE: nobody's */
};
void stem_op_lanes_find(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_op_lanes *out);
/* Events that are there for lanes alone: all their waits make edges that other edges imply. */
uint32_t stem_lane_events(const struct stem_plan *p, const struct stem_plan_variant *v, struct stem_arena *a);

/* ---- repeats (fold.c) ---- */

/* Two ops are alike if they differ in nothing but buffers, layer, segment, the numbers in brackets of their names, and
 * whether they are launched early, as the first op of a model is not. */
struct stem_alike {
    uint32_t *class; /* by op: numbered by first appearance */
    uint32_t n_classes;
};
void stem_alike_find(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_alike *out);

/* `count` times the same `period` ops (alike, one by one), from op `first` on in issue order. */
struct stem_fold {
    uint32_t first, period, count;
};
struct stem_folds {
    struct stem_fold *at; /* each op is in exactly one; ascending */
    uint32_t len;
};
/* Greedy: at each op, the stretch that covers most. Periods above 4096 ops are not looked for, and what would
 * save fewer than 16 ops is left as it is. */
void stem_folds_find(const struct stem_plan_variant *v, const struct stem_alike *alike, struct stem_arena *a,
                     struct stem_folds *out);
/* The same of any list of numbers. */
void stem_folds_of(const uint32_t *class, uint32_t n, struct stem_arena *a, struct stem_folds *out);
/* A name with its numbers in brackets replaced: "moe[3].x" becomes "moe[*].x". */
const char *stem_name_pattern(const char *name, struct stem_arena *a);

/* ---- text (text.c, grid.c) ---- */

struct stem_text_style {
    uint32_t width; /* columns, at least 40 */
    bool ascii;
};
/* The schedule of one variant as rows of op names, one row for each stream that has ops; repeats once, with their
 * count. */
void stem_schedule_text(const struct stem_plan *p, const struct stem_plan_variant *v, struct stem_text_style style,
                        struct stem_out *o);
/* True if two variants of a plan give the same text but for times. */
bool stem_schedule_same(const struct stem_plan_variant *a, const struct stem_plan_variant *b);

/* ---- other tools (dot.c, trace.c) ---- */

/* Graphviz: one graph for each variant, ops as nodes coloured by stream, the edges of the CUDA graph. */
void stem_schedule_dot(const struct stem_plan *p, struct stem_out *o);
/* Chrome's trace format (Perfetto, chrome://tracing): a process for each variant, a track for each stream. */
void stem_schedule_trace(const struct stem_plan *p, struct stem_out *o);
/* The same of what was measured, a track for each lane. */
struct stem_trace {
    const struct stem_plan *plan;
    const struct stem_profile *profiles; /* of each variant */
    const struct stem_source *source;    /* NULL: ops have no text */
    const char *device, *way;
};
void stem_profile_trace(const struct stem_trace *t, struct stem_out *o);

/* ---- comparison (diff.c) ---- */

/* In words, what changed from `a` to `b`; the number of lines with a difference, 0 if the plans do the same. `b` may
 * have other names for the same plan file. */
uint32_t stem_plan_diff(const struct stem_plan *a, const struct stem_plan *b, struct stem_out *o);

/* The same with both schedules beside each other, as one HTML page. */
void stem_plan_diff_html(const struct stem_plan *a, const char *a_title, const struct stem_plan *b, const char *b_title,
                         struct stem_out *o);

/* ---- the page (data.c, html.c) ---- */

struct stem_report {
    const struct stem_plan *plan;
    const struct stem_program *const *programs; /* of the variants, or NULL when the plan was read from a file */
    const struct stem_source *source;           /* NULL: the Source panel says that there is none */
    const struct stem_diags *diags;             /* remarks and warnings; may be NULL */
    const struct stem_timeline *const *measured; /* of each variant, or NULL; NULL: of none */
    const char *order;                          /* "main-first", ..., NULL: not known */
};

/* The data of the page as compact JSON without '<', so that it may stand in a script element. */
void stem_report_json(const struct stem_report *r, struct stem_out *o);
void stem_report_html(const struct stem_report *r, struct stem_out *o);

#endif
