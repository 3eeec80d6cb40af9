/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that run a plan share: opening a GPU, making and filling a program, looking at its results.
 */
#ifndef STEM_CLI_DEVICE_H
#define STEM_CLI_DEVICE_H

#include "cli/cli.h"
#include "runtime/mainstem_rt.h"

/* "mainstem: error: ..." from a runtime error; returns STEM_EXIT_WORLD. Of a kernel that NVRTC rejects: where in the .stem file,
 * and STEM_EXIT_INPUT. */
int stem_cli_rt_error(const struct stem_rt_error *err);
/* The same of a compilation with all that NVRTC said, NULL: not kept. An inline kernel that it rejects is the input's fault. */
int stem_cli_compile_error(const struct stem_rt_error *err, const char *log);
/* Logs to stderr the topics of MAINSTEM_DEBUG. */
struct stem_log stem_cli_log(void);

/* The largest architecture we shape launches for that a device of `sm` runs. */
uint32_t stem_cli_target_sm(uint32_t sm);

/* Of what is too large to be fetched after each launch, digests can be made piece by piece, or it is left where it is. */
enum stem_cli_states { STEM_STATES_FETCHED, STEM_STATES_DIGESTED, STEM_STATES_LEFT };
enum { STEM_MOST_STATE = 256 << 20 /* bytes of state that are fetched */ };

/* A program on a device with everything bound: to memory of its own, or, with `share`, to what another program of the same
 * module has bound. */
struct stem_cli_exec {
    const struct stem_plan *plan;
    struct stem_exec *exec;
    enum stem_cli_states states;
};
bool stem_cli_exec_new(struct stem_rt *rt, const struct stem_plan *plan, const struct stem_exec_options *options,
                       const struct stem_cli_exec *share, struct stem_cli_exec *e, struct stem_rt_error *err);
/* The external bytes that a variant needs, and its slab. */
uint64_t stem_cli_device_bytes(const struct stem_plan *plan);

/* "T=4, S=128", or "" for a program without dims; static buffer. */
const char *stem_cli_dims(const struct stem_plan *plan, uint32_t variant);

/* What a launch leaves behind: outputs, state, and inputs that the program writes in place. */
bool stem_cli_is_result(const struct stem_plan_variant *v, uint32_t buffer);

uint64_t stem_cli_state_bytes(const struct stem_plan *p, uint32_t variant);

/* Contents of every such buffer of a variant, one after the other, but for states that are digested or left. */
struct stem_digest;
struct stem_results {
    uint8_t *data;
    uint64_t bytes;
    struct stem_digest *state; /* [n_states]: of each state in order, if they are digested */
    uint32_t n_states;
};
bool stem_cli_download(struct stem_rt *rt, const struct stem_cli_exec *e, uint32_t variant, struct stem_results *r,
                       struct stem_rt_error *err);
void stem_results_free(struct stem_results *r);
/* True if equal bit for bit; else *where names the first buffer and element that differ, or of a digest the piece (static
 * buffer). */
bool stem_results_same(const struct stem_plan_variant *v, const struct stem_results *a, const struct stem_results *b,
                       const char **where);
/* One line for each output: name, type, range, mean, a hash of its bits; of many states the first, unless `all`. */
void stem_results_print(const struct stem_plan_variant *v, const struct stem_results *r, bool all);
/* Element as a number (digest.c). */
double stem_element(enum stem_dtype dtype, const void *data, uint64_t i);

/* The k-th smallest of n numbers at quantile q in 0..1; sorts them. */
double stem_quantile(double *x, uint32_t n, double q);

#endif
