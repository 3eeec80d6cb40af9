/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests ask of a compiled program: its schedule as a line of text, what happens before what, where buffers lie,
 * and whether every legal order on the CPU device gives the bits of the one-stream schedule.
 */
#ifndef STEM_TESTS_KIT_H
#define STEM_TESTS_KIT_H

#include "pipeline.h"

struct kit {
    struct stem_compiled *compiled;
    const struct stem_plan *plan; /* NULL if there were errors */
    const struct stem_plan_variant *v;
    char *said; /* every diagnostic and remark, as it is printed */
};

/* Compiles tests/cases/NAME.stem. `options`: words like "N=61 --side-first --wait --copy --program --one-stream
 * --no-pdl --sm=80 --no-verify --budget=BYTES"; NAME=VALUE overrides a const. */
struct kit kit_compile(const char *name, const char *options);
/* The same for any file below the source directory. */
struct kit kit_compile_file(const char *path, const char *options);
void kit_free(struct kit *k);

/* The steps in the order of issue, from the op whose name begins with `prefix` to the last such op and what follows
 * it up to the next op ("": all). An op is its name without the prefix, with @STREAM if that is not main; "!" records
 * an event, "?op" waits for what was recorded behind that op, "?" for what was recorded before any; ":STREAM" follows
 * them if the stream is not main; "." ends a segment. Alloc and free steps are left out unless `frees`: "-buffer".
 * Malloc'd. */
char *kit_steps(const struct kit *k, const char *prefix, bool frees);

/* Index of the op or buffer of that name; aborts if there is none. */
uint32_t kit_op(const struct kit *k, const char *name);
uint32_t kit_buffer(const struct kit *k, const char *name);
bool kit_has_op(const struct kit *k, const char *name);
/* Does op a happen before op b, by the steps? */
bool kit_before(const struct kit *k, const char *a, const char *b);
/* Is there a path of edges from op a to op b? */
bool kit_edge_path(const struct kit *k, uint32_t a, uint32_t b);
/* Do two temporary buffers share bytes? */
bool kit_share(const struct kit *k, const char *a, const char *b);
/* The text, spaces and line ends taken as equal, in kit.said? */
bool kit_says(const struct kit *k, const char *text);
uint32_t kit_streams_used(const struct kit *k);

/* Runs `orders` random legal orders of k, half of them by the graph's edges, with poison, and compares outputs,
 * states and inputs with the one-stream plan in issue order. The number that differ; a run that fails counts as one.
 */
uint32_t kit_differing(const struct kit *k, const struct kit *one, uint32_t orders);
/* Hash of outputs, states and inputs after one run in issue order. */
uint64_t kit_digest(const struct kit *k);

#endif
