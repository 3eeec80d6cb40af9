/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem bench`: the schedules that it compares, and what was measured of each.
 */
#ifndef STEM_CLI_BENCH_H
#define STEM_CLI_BENCH_H

#include "cli/gpu_check.h"

/* Compilations; several ways may launch one of them. */
enum bench_plan { BENCH_ONE, BENCH_ONE_PDL, BENCH_MAIN, BENCH_MAIN_PDL, BENCH_SIDE, BENCH_SIDE_PDL, BENCH_AUTO_PDL, BENCH_PLANS };

struct bench_kind {
    const char *name; /* of --ways and of the JSON */
    const char *schedule, *built; /* of the table */
    enum bench_plan plan;
    enum stem_run_by by;
};
enum { BENCH_KINDS = 9 };
extern const struct bench_kind bench_kinds[BENCH_KINDS];

struct bench_options {
    struct stem_cli_compile compile;
    uint32_t iters;
    uint64_t seed;
    bool way[BENCH_KINDS]; /* asked for */
    const char *json;      /* file; NULL: none */
};

/* A way of launching one specialisation. */
struct bench_way {
    struct stem_replay replay;
    struct stem_graph_info info;
    double *us; /* [iters] */
    uint32_t lanes; /* measured; 0: not known */
    bool same;
};

struct bench {
    const struct bench_options *o;
    struct stem_gpu *g;
    struct stem_compiled *compiled[BENCH_PLANS]; /* NULL: no way needs it */
    struct stem_cli_exec exec[BENCH_PLANS];
    uint32_t first;          /* the way that the others are held against */
    uint32_t n_ways;
    struct bench_way *ways;  /* [variant][kind] */
    struct stem_bench_bytes *bytes; /* [variant] */
    double bandwidth, compile_s, fill_s, time_s, lanes_s;
};

static inline struct bench_way *bench_way(const struct bench *b, uint32_t variant, uint32_t kind)
{
    return &b->ways[variant * BENCH_KINDS + kind];
}

/* The plan that the floor is of, and whose outputs all are compared with. */
static inline const struct stem_cli_exec *bench_reference(const struct bench *b)
{
    return &b->exec[bench_kinds[b->first].plan];
}

/* Compiles what the ways need; kernels with NVRTC in threads, each text once (bench_compile.c). Fills *cubins. */
struct bench_cubins {
    struct stem_cubin cubin[BENCH_PLANS];
    uint32_t of[BENCH_PLANS]; /* the plan with the same text that comes first */
};
bool bench_compile(struct bench *b, struct bench_cubins *cubins, int *status);
void bench_cubins_free(struct bench_cubins *c);

/* Measures everything (bench_run.c). False with *err set. */
bool bench_run(struct bench *b, const struct bench_cubins *cubins, struct stem_rt_error *err);
void bench_free(struct bench *b);

/* Tables on standard output, and the file of --json (bench_print.c). Exit status: whether all bits are the same. */
int bench_print(struct bench *b);

#endif
