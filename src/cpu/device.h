/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the CPU device share.
 */
#ifndef STEM_CPU_DEVICE_H
#define STEM_CPU_DEVICE_H

#include "cpu/cpu.h"

/* ---- cpu.c ---- */

/* *error = formatted message, malloc'd (if `error` is not NULL); returns false. */
bool stem_cpu_fail(char **error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What is said, here and in shim.hpp, where memory runs out around an op: that is not the op's fault. */
#define STEM_CPU_NO_MEMORY "out of memory"

/* ---- kernel.c: inline kernels, compiled for the host ---- */

/* What an inline kernel's entry point gets; shim.hpp has the same definition. */
struct stem_cpu_launch {
    unsigned grid[3], block[3];
    char *shared; /* the block's dynamic shared memory, aligned to STEM_CPU_SHARED_ALIGN */
};
enum { STEM_CPU_SHARED_ALIGN = 128 };

struct stem_cpu_kernel {
    void *library; /* dlopen handle, NULL: not loaded */
    const char *(*entry)(const struct stem_cpu_launch *launch, void *const *args); /* NULL, or what went wrong */
    unsigned (*parameters)(void);
};

/* Loads the kernel `index` of the plan, compiling it unless the cache has it. `name` is what messages call it. */
bool stem_cpu_kernel_load(const struct stem_plan *plan, uint32_t index, const char *name, struct stem_cpu_kernel *k,
                          char **error);
void stem_cpu_kernel_unload(struct stem_cpu_kernel *k);
/* The operands lie between pages that nobody may touch meanwhile, which `watch` (or NULL) knows of. */
bool stem_cpu_kernel_run(const struct stem_cpu_kernel *k, const struct stem_plan_op *op, void *const *data,
                         struct stem_cpu_watch *watch, char **error);
/* Compiles only. *rejected: the compiler did not take it, and *error is what it said. */
bool stem_cpu_kernel_compiles(const struct stem_plan *plan, uint32_t index, const char *name, bool *rejected, char **error);

/* The text between a kernel's two marks in a translation unit, or NULL; *len bytes. */
const char *stem_cpu_kernel_text(const char *unit, const char *kernel, size_t *len);

/* ---- compile.c: from C++ text to a shared object in the cache ---- */

/* malloc'd path of the object, or NULL with *error. `what` names the kernel in messages. With `rejected` (else NULL), *error is
 * the compiler's text alone where it rejects the kernel's, and *rejected is set. */
char *stem_cpu_compile(const char *text, const char *what, bool *rejected, char **error);

/* ---- order.c: which op runs next ---- */

/* The variant's ops in an order that is legal under `options`, malloc'd; NULL when out of memory or if the steps or
 * edges refer to what does not exist. */
uint32_t *stem_cpu_order(const struct stem_plan *plan, const struct stem_plan_variant *v,
                         const struct stem_cpu_options *options);

#endif
