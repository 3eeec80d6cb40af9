/* SPDX-License-Identifier: Apache-2.0
 *
 * A program and its one-stream reference on a GPU, and the checks of `run` and `bench`: same bits, chaos, per-op comparison
 * with the CPU references, lanes.
 */
#ifndef STEM_CLI_GPU_CHECK_H
#define STEM_CLI_GPU_CHECK_H

#include "cli/device.h"
#include "cli/run.h"
#include "cli/weights.h"

struct stem_gpu {
    struct stem_rt *rt;
    struct stem_rt_info info;
    struct stem_audit *audit;
    struct CUstream_st *stream;
    struct stem_cli_exec many, one; /* `one` is bound to the buffers of `many` */
    uint8_t *poison;                /* plan.slab_bytes of 0xff */
    uint64_t poison_bytes;
    const struct stem_weights *inputs; /* of --input, or NULL */
    const char *save;                  /* where the reference's results go, or NULL */
    bool verbose;                      /* list every state */
    uint64_t seed; /* of inputs that are filled anew because the program writes them */
};

/* Starts the audit first if asked for: CUPTI wants to be there before the context. */
enum stem_gpu_records { STEM_GPU_NO_RECORDS, STEM_GPU_KERNELS, STEM_GPU_EVERYTHING };
enum stem_status stem_gpu_open(struct stem_gpu *g, int device, enum stem_gpu_records audit, struct stem_rt_error *err);
/* Of a status of stem_gpu_open: there is no driver that we can use, or no GPU. */
bool stem_gpu_is_none(enum stem_status s);
bool stem_gpu_load(struct stem_gpu *g, const struct stem_plan *many, const struct stem_plan *one,
                   const struct stem_exec_options *options, struct stem_rt_error *err);
void stem_gpu_unload(struct stem_gpu *g);
void stem_gpu_close(struct stem_gpu *g);

/* States (caches) as full of random numbers as inputs are: reading zeros takes less power than a real cache does. */
bool stem_gpu_fill_states(struct stem_rt *rt, const struct stem_cli_exec *e, uint64_t seed, struct stem_rt_error *err);

/* One way of launching a variant of a program. */
struct stem_replay {
    const struct stem_cli_exec *e;
    uint32_t variant;
    enum stem_run_by by;
    struct stem_graph *graph; /* CAPTURE, NODES */
    void *recorded;           /* RECORD: the caller's executable graph */
};
/* Of g->many; set p->e first for another program. */
bool stem_replay_new(struct stem_gpu *g, uint32_t variant, enum stem_run_by by, struct stem_replay *p,
                     struct stem_rt_error *err);
/* Launches on g->stream; asynchronous. */
bool stem_replay(struct stem_gpu *g, struct stem_replay *p, struct stem_rt_error *err);
void stem_replay_free(struct stem_gpu *g, struct stem_replay *p);

/* Uploads what --input has for a buffer; *found false if it has nothing. False with *err set, or after an error message with
 * *err clear. */
bool stem_gpu_input(struct stem_gpu *g, const struct stem_plan_buffer *b, uint64_t at, bool *found,
                    struct stem_rt_error *err);
/* State zeroed, outputs poisoned, optionally the slab too; launched, waited for, results downloaded. */
bool stem_gpu_execute(struct stem_gpu *g, struct stem_replay *p, bool poison, struct stem_results *r,
                      struct stem_rt_error *err);

/* Each prints its finding and returns an exit status. */
int stem_gpu_check_bits(struct stem_gpu *g, uint32_t variant, struct stem_replay *p, uint32_t times, bool poison);
int stem_gpu_check_chaos(struct stem_gpu *g, uint32_t variant, uint32_t times);
/* Bytes that one run moves at least, experts as they were chosen: `experts` of them in `n_experts` ops. */
struct stem_bench_bytes {
    double moved, experts;
    uint32_t n_experts;
};
bool stem_bench_count(struct stem_gpu *g, const struct stem_cli_exec *e, uint32_t variant, struct stem_bench_bytes *bytes,
                      struct stem_rt_error *err);
int stem_gpu_check_ops(struct stem_gpu *g, uint32_t variant);
/* Lanes of every replay so far are closed and read; replays `times` of variant 0 come last and are the ones judged. */
int stem_gpu_check_lanes(struct stem_gpu *g, enum stem_run_by by, uint32_t times);

#endif
