/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLASLt, loaded by name.
 */
#ifndef STEM_RUNTIME_CUBLASLT_H
#define STEM_RUNTIME_CUBLASLT_H

#include "cublaslt_abi.h"
#include "mainstem_rt.h"

struct stem_cublaslt {
    void *handle; /* of the shared object */
#define X(member, symbol, result, params) result(*member) params;
    STEM_CUBLASLT_CALLS(X)
#undef X
};

/* $MAINSTEM_CUBLASLT, else what the process has, else where NVRTC is looked for. On failure nothing stays loaded;
 * STEM_E_LIBRARY. */
enum stem_status stem_cublaslt_load(struct stem_cublaslt *l, struct stem_rt_error *err);
void stem_cublaslt_unload(struct stem_cublaslt *l);
/* Whether it can be loaded here, and whether a plan has products for it: for those who compile a program and run it at
 * once. */
bool stem_cublaslt_present(void);
bool stem_plan_has_matmul(const struct stem_plan *p);
/* How many kernels an op of a program is, if a library does it; 0: it is none of a library's. */
uint32_t stem_exec_library_kernels(const struct stem_exec *e, uint32_t variant, uint32_t op);

#endif
