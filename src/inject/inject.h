/* SPDX-License-Identifier: Apache-2.0
 *
 * The library that the driver loads into a program that knows nothing of it (CUDA_INJECTION64_PATH). It is told of
 * each call that concerns graphs, on entry and on exit. On entry of an instantiation it adds redundant edges to the
 * graph (lanes/relane.h), on exit it takes them back: the program's graph is what it was, the instance has fewer
 * lanes. On entry of an update the edges that the instance was made with are added to the new graph, so that the two
 * match, and are taken back on exit.
 *
 * The first rule is to do no harm. Nothing here prints or exits; whatever fails leaves the call as the program made
 * it. Handlers may run on any number of threads. A child process that was forked is left alone.
 *
 *   init.c     the entry point; CUPTI
 *   calls.c    what is done on entry and exit
 *   tally.c    what is counted, for groups of graphs that are alike
 *   measure.c  which streams the kernels of a replay ran on
 *   report.c   all of that as JSON
 */
#ifndef STEM_INJECT_INJECT_H
#define STEM_INJECT_INJECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

#include "lanes/relane.h"

struct CUgraphExec_st;

enum stem_inject_call {
    STEM_INJECT_INSTANTIATE,
    STEM_INJECT_UPDATE,
    STEM_INJECT_LAUNCH,
    STEM_INJECT_DESTROY,
};

/* The heads of the driver's parameter blocks (generated_cuda_meta.h), alike in all versions of a call. */
struct stem_inject_instantiate {
    struct CUgraphExec_st **exec;
    struct CUgraph_st *graph;
};
struct stem_inject_update { /* launch and destroy: the instance alone */
    struct CUgraphExec_st *exec;
    struct CUgraph_st *graph;
};

struct stem_inject_options {
    bool relane;  /* else nothing is changed, and only what could be is counted */
    bool measure; /* watch kernels */
    uint32_t max_nodes;
    const struct stem_lane_driver *model;
    /* CUPTI's number of an instance, 0 if there is none; may be NULL. */
    uint32_t (*exec_id)(struct CUgraphExec_st *exec);
};

/* ---- tally.c ---- */

/* Instantiations of graphs that look alike: the same report. */
struct stem_inject_group {
    struct stem_relane_report report;
    uint64_t graphs, failed; /* instantiations; those that the driver refused */
    uint64_t updates, updates_failed, replays;
    uint64_t instantiate_ns, shortest_ns; /* in the driver; over all, and the shortest */
    uint64_t own_ns;                      /* here, updates included */
    uint64_t edges_left;                  /* that could not be taken back */
    uint32_t watched;                     /* instances whose kernels are watched */
};

struct stem_inject_instance;

struct stem_inject_tally {
    pthread_mutex_t lock;
    struct stem_inject_group *groups;
    uint32_t n_groups, cap_groups;
    struct stem_inject_instance *instances;
    bool ready; /* instances can be remembered */
};

#define STEM_INJECT_MAX_GROUPS 1024u /* the last one takes whatever comes later */
#define STEM_INJECT_NO_GROUP UINT32_MAX

struct stem_inject_timing {
    uint64_t driver_ns, own_ns;
    uint32_t edges_left;
};

void stem_inject_tally_init(struct stem_inject_tally *t);
void stem_inject_tally_free(struct stem_inject_tally *t);
/* A place for an instance that is about to be made, so that memory cannot be short when it has been; NULL if there is
 * none. It goes to the next function. */
struct stem_inject_instance *stem_inject_tally_reserve(struct stem_inject_tally *t);
/* How many instances are remembered. */
uint32_t stem_inject_tally_known(struct stem_inject_tally *t);
/* Takes `place` (NULL: the instance is not remembered) and `edges` over (their numbers; handles are freed). `exec` is
 * NULL if the driver refused. *watch says whether the kernels of this one should be watched. Returns the group,
 * NO_GROUP when memory ran out. */
uint32_t stem_inject_tally_instance(struct stem_inject_tally *t, struct stem_inject_instance *place,
                                    struct CUgraphExec_st *exec, const struct stem_relane_report *report,
                                    struct stem_relane_edges *edges, const struct stem_inject_timing *timing,
                                    bool *watch);
/* Edges that this instance was made with; NULL if none, or it is not known. They live as long as the instance. */
const struct stem_relane_edges *stem_inject_tally_edges(struct stem_inject_tally *t, struct CUgraphExec_st *exec);
void stem_inject_tally_update(struct stem_inject_tally *t, struct CUgraphExec_st *exec, bool failed,
                              const struct stem_inject_timing *timing);
/* Returns the group if the replay is among the first few of this instance, else NO_GROUP. */
uint32_t stem_inject_tally_launch(struct stem_inject_tally *t, struct CUgraphExec_st *exec);
void stem_inject_tally_destroy(struct stem_inject_tally *t, struct CUgraphExec_st *exec);

/* ---- measure.c ---- */

#define STEM_INJECT_MAX_WATCHED 64u /* instances in a group */
#define STEM_INJECT_MAX_REPLAYS 4u  /* replays of an instance */

struct stem_inject_watch;

struct stem_inject_measure {
    pthread_mutex_t lock;
    struct stem_inject_watch *by_id;
    uint64_t kernels, unmatched; /* records of kernels in graphs; those of graphs that are not watched */
};

struct stem_inject_lanes {
    uint32_t least, most; /* streams in a replay */
    uint64_t replays;     /* measured */
};

void stem_inject_measure_init(struct stem_inject_measure *m);
void stem_inject_measure_free(struct stem_inject_measure *m);
/* Kernels that bear this number of an instance, or of a launch, belong to the group. */
void stem_inject_watch_instance(struct stem_inject_measure *m, uint32_t graph_id, uint32_t group);
void stem_inject_watch_launch(struct stem_inject_measure *m, uint32_t correlation, uint32_t group);
void stem_inject_kernel(struct stem_inject_measure *m, uint32_t graph_id, uint32_t correlation, uint32_t stream);
struct stem_inject_lanes stem_inject_measured(struct stem_inject_measure *m, uint32_t group);

/* ---- calls.c ---- */

struct stem_inject {
    struct stem_inject_options options;
    struct stem_relane_api api;
    struct stem_inject_tally tally;
    struct stem_inject_measure measure;
    atomic_bool off; /* in a forked child, and at the end */
};

void stem_inject_init(struct stem_inject *s, const struct stem_inject_options *options,
                      const struct stem_relane_api *api);
void stem_inject_free(struct stem_inject *s);
/* `slot` is 64 bits that the two handlers of one call share. */
void stem_inject_enter(struct stem_inject *s, enum stem_inject_call call, const void *params, uint32_t correlation,
                       uint64_t *slot);
void stem_inject_exit(struct stem_inject *s, enum stem_inject_call call, const void *params, int result,
                      uint64_t *slot);
uint64_t stem_inject_now(void); /* ns */

/* ---- report.c ---- */

struct stem_inject_about {
    const char *driver; /* "580.159.04", or "" */
    bool measured_driver;
    const char *error; /* why nothing was done, or NULL */
};

/* False if the stream could not be written to. */
bool stem_inject_report(struct stem_inject *s, const struct stem_inject_about *about, FILE *f);
/* To a file, by rename. "%p" in the path is the number of the process. */
bool stem_inject_report_to(struct stem_inject *s, const struct stem_inject_about *about, const char *path);

#endif
