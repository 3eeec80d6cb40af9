/* SPDX-License-Identifier: Apache-2.0
 *
 * libmainstem: compiles .stem programs at run time. What it makes is a plan (plan.h), which mainstem_rt.h runs; both
 * libraries' functions are in libmainstem, libmainstem-rt alone runs plans that were compiled before.
 *
 *     struct stem_program_options o = {.sm = 90, .dims = (const char *[]){"T=1,4,16"}, .n_dims = 1};
 *     struct stem_jit *jit = stem_jit_file("model.stem", &o);
 *     if (!stem_jit_plan(jit)) { ... stem_jit_messages(jit) ... }
 *     stem_exec_new(rt, stem_jit_plan(jit), NULL, &exec, &err);
 *
 * Threads: a stem_jit is made by one thread and immutable afterwards. Nothing is global, nothing is printed.
 */
#ifndef STEM_MAINSTEM_H
#define STEM_MAINSTEM_H

#include "mainstem_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stem_jit;

/* All zero is a good default: main-first, at most two streams for ops without a pin, an H200. */
struct stem_program_options {
    uint32_t sm;                /* 80, 90, 100, 120; 0: 90 */
    const char *const *defines; /* "NAME=VALUE", overrides of consts */
    uint32_t n_defines;
    const char *const *dims;    /* "T=1,4,16": specialisations; a dim not named takes its default or upper bound */
    uint32_t n_dims;
    const char *order;          /* "main-first", "program", "side-first"; NULL: main-first */
    const char *inplace;        /* "auto", "wait", "copy"; NULL: auto */
    const char *lane_repair;    /* "auto", "always", "never"; NULL: auto */
    const char *pdl;            /* programmatic launches: "auto" (from sm_90 on), "on", "off"; NULL: auto */
    const char *matmul;         /* products in bf16 and f16: "auto" (cuBLASLt where it is faster, if it can be loaded here), "own",
                                   "cublaslt"; NULL: auto */
    uint32_t max_streams;       /* 0: 2 */
    bool ignore_pins;           /* streams by costs for every op, not only for those without a pin */
    const char *costs;          /* text of a table that `mainstem tune` wrote, NUL-terminated; NULL: the model alone */
    const char *gpu;            /* whose costs: stem_rt_info.name; NULL: the first of the architecture */
    bool one_stream;            /* everything on main */
    uint32_t max_lanes;         /* 0: no constraint */
    uint64_t memory_budget;     /* bytes of slab, 0: no constraint */
    bool no_fuse, no_verify;
    uint32_t max_errors;        /* 0: 20 */
};

/* Never NULL; failed if stem_jit_plan() is. Where host memory runs out, that is the message, and some of what was held
 * meanwhile is lost. Free with stem_jit_free. `options` may be NULL; nothing of it is kept. */
STEM_API struct stem_jit *stem_jit_file(const char *path, const struct stem_program_options *options);
/* `name` is what messages call the text. */
STEM_API struct stem_jit *stem_jit_text(const char *name, const char *text, size_t len,
                                        const struct stem_program_options *options);
STEM_API void stem_jit_free(struct stem_jit *jit);

/* The verified plan, owned by `jit`; NULL if there were errors. */
STEM_API const struct stem_plan *stem_jit_plan(const struct stem_jit *jit);

enum stem_message_kind { STEM_MESSAGE_REMARK, STEM_MESSAGE_WARNING, STEM_MESSAGE_ERROR };
struct stem_message {
    enum stem_message_kind kind;
    uint32_t id;            /* 1203 for STEM1203; 0 for remarks and for errors of the world (a file that cannot be read) */
    uint32_t line, column;  /* from 1; 0: nowhere in the text */
    const char *text;
    const char *pass;       /* remarks: who speaks; else NULL */
};
/* Diagnostics as data, in order; *n says how many. Owned by `jit`. NULL and none for a `jit` that is NULL. */
STEM_API const struct stem_message *stem_jit_messages(const struct stem_jit *jit, uint32_t *n);
/* All errors and warnings as the command line prints them, with source lines and carets, without colour; "" if none. */
STEM_API const char *stem_jit_text_of_messages(const struct stem_jit *jit);
/* What `mainstem explain` prints for an id; NULL if there is none. */
STEM_API const char *stem_explain(uint32_t id);

STEM_API const char *stem_version(void); /* "0.1.0" */

#ifdef __cplusplus
}
#endif

#endif
