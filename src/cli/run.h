/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem run`: its options, and its two devices.
 */
#ifndef STEM_CLI_RUN_H
#define STEM_CLI_RUN_H

#include "cli/cli.h"

enum stem_run_device { STEM_RUN_AUTO, STEM_RUN_GPU, STEM_RUN_CPU };
enum stem_run_by { STEM_RUN_BY_CAPTURE, STEM_RUN_BY_NODES, STEM_RUN_BY_RECORD, STEM_RUN_EAGER };

struct stem_run {
    struct stem_cli_compile compile;
    enum stem_run_device device;
    enum stem_run_by by;
    uint32_t iters, warmup;
    uint64_t seed;
    uint32_t orders;      /* CPU: random legal orders to try */
    bool compare;         /* GPU: each op against its CPU reference */
    bool audit, poison, chaos, pool, profile;
    bool verbose;         /* list every state */
    const char *for_gpu;  /* one of --by, --iters, --memory, --gpu that was given, or NULL */
    const char *profile_path; /* NULL: the default */
    uint32_t device_index;
    const char **weights; /* .safetensors files */
    uint32_t n_weights;
    const char **inputs; /* .safetensors files */
    uint32_t n_inputs;
    const char *save; /* .safetensors file for the results; NULL: none */
};

/* False after an error message: --save is for one specialisation. */
bool stem_run_saves_one(const struct stem_run *r, const struct stem_plan *plan);
/* Each compiles, runs, prints to standard output, and returns the exit status. */
int stem_run_cpu(struct stem_run *r);
/* STEM_RUN_AUTO: where no GPU is found, *no_gpu is set, nothing is printed and the status means nothing. */
int stem_run_gpu(struct stem_run *r, bool *no_gpu);

#endif
