/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission: from scheduled programs to a plan, and to the CUDA C translation unit that the plan carries. Both are
 * plain functions of their input: the same programs give the same bytes.
 */
#ifndef STEM_EMIT_EMIT_H
#define STEM_EMIT_EMIT_H

#include "base/diag.h"
#include "base/out.h"
#include "ir/ir.h"
#include "pass/pass.h"
#include "runtime/plan.h"

/* ---- plan.c ---- */

/* The plan of one or several specialisations of one module, each with its schedule complete (all passes have run):
 * one variant for each, in the order given. Every program must have the same external buffers at the same indices,
 * and the streams of each must be a prefix of the longest list; anything else is a bug of the caller and aborts.
 * Variants share kernels (by name), externs, resources and one slab, as large as the largest needs.
 * The result is the caller's (stem_plan_free) and refers to nothing of the programs. NULL after reporting errors. */
struct stem_plan *stem_emit_plan(const struct stem_program *const *programs, uint32_t n,
                                 const struct stem_options *options, struct stem_diags *diags);

/* ---- cuda.c: the translation unit under construction ---- */

struct stem_cuda;

struct stem_cuda *stem_cuda_new(void);
void stem_cuda_free(struct stem_cuda *u);
/* Adds a built-in op's kernel and the headers that it needs, unless they are there already; index of the kernel.
 * Two kernels of one name must have the same code (aborts otherwise). Copies what it keeps. */
uint32_t stem_cuda_builtin(struct stem_cuda *u, const struct stem_lowered *l);
/* The same for an inline kernel of the program; its symbol is stem_user_NAME. `threads` is the size of this launch's
 * block: the kernel is bounded by the largest one asked for. */
uint32_t stem_cuda_inline(struct stem_cuda *u, const struct stem_program *p, const struct stem_decl *d,
                          uint32_t threads, uint32_t smem);

/* Some launch is programmatic: kernels let their successor start early (STEM_PDL in ops/common). Without this no kernel
 * does, whatever the launch says. */
void stem_cuda_early(struct stem_cuda *u);

uint32_t stem_cuda_count(const struct stem_cuda *u);
/* Kernel i; `name` lives as long as `u`. */
struct stem_plan_kernel stem_cuda_kernel(const struct stem_cuda *u, uint32_t i);
/* The whole unit: banner, headers in order of first need, kernels in order of first use. Each kernel stands between
 * `// ---- kernel NAME ----` and `// ---- end of NAME ----`; inline bodies carry #line into the model's source.
 * `name` is what the unit calls itself in #line and in the banner. */
void stem_cuda_print(const struct stem_cuda *u, const char *name, struct stem_out *o);
/* One kernel with the headers it needs, a unit of its own. */
void stem_cuda_print_one(const struct stem_cuda *u, uint32_t i, const char *name, struct stem_out *o);

#endif
