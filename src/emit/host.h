/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission of host code: a plan as C sources that another project compiles in. Decides nothing: buffers, streams, events
 * and edges are printed as the plan has them; the code that walks the tables is a template (src/emit/host).
 */
#ifndef STEM_EMIT_HOST_H
#define STEM_EMIT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/out.h"
#include "runtime/plan.h"

enum stem_host_embed {
    STEM_HOST_NONE,   /* the caller hands in the compiled kernels */
    STEM_HOST_CUBIN,  /* NAME_cubin.c holds cubins */
    STEM_HOST_SOURCE, /* NAME_source.c holds the CUDA C, which NVRTC compiles when a program is created */
};

struct stem_host_cubin {
    uint32_t sm;
    const void *data;
    size_t bytes;
};

struct stem_host_options {
    const char *name; /* prefix of every identifier and file, a C identifier; NULL: the plan's name */
    enum stem_host_embed embed;
    const struct stem_host_cubin *cubins; /* CUBIN: at least one, ascending by sm */
    uint32_t n_cubins;
};

enum { STEM_HOST_MAX_FILES = 8 };

struct stem_host_files {
    struct {
        char name[256];
        struct stem_out text;
    } at[STEM_HOST_MAX_FILES];
    uint32_t n;
};

/* Writes NAME.h, NAME.c, NAME.cu, NAME.mk, NAME.mainstem.cmake, CMakeLists.txt and, as asked, NAME_cubin.c or NAME_source.c into *files, which
 * the caller frees also after a failure. The plan must have been checked (read from JSON, or accepted by the verifier).
 * false with a text in *why (static) if host code cannot be emitted from this plan. */
bool stem_emit_host(const struct stem_plan *p, const struct stem_host_options *options, struct stem_host_files *files,
                    const char **why);
void stem_host_files_free(struct stem_host_files *files);

/* A name that identifiers may begin with: a letter, then letters, digits and _; at most 64 characters. */
bool stem_host_name_ok(const char *name);

/* Why identifiers or files cannot begin with it, though they could otherwise; NULL: they can. */
const char *stem_host_name_taken(const char *name);
struct stem_arena;
/* What a dim is called as a parameter, and an extern function as a member of the options. */
const char *stem_host_dim(struct stem_arena *a, const char *dim);
const char *stem_host_member(struct stem_arena *a, const char *name);

/* ---- host_tables.c ---- */

struct stem_host_limits {
    uint32_t events, params, edges; /* largest of any variant or op */
};
struct stem_host_limits stem_host_limits(const struct stem_plan *p);
/* How many different products cuBLASLt is asked for. */
uint32_t stem_host_n_products(const struct stem_plan *p);
/* The tables of NAME.c; order[i] is the variant that is the i-th bucket. */
void stem_host_tables(const struct stem_plan *p, const uint32_t *order, const char *name, struct stem_out *o);

#endif
