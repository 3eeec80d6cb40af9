/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in's own tests share: a fresh driver, a few kernels, and short forms of calls.
 */
#ifndef FAKECUDA_TEST_LIB_H
#define FAKECUDA_TEST_LIB_H

#include "driver.h"
#include "fakecuda.h"
#include "unit.h"

#define OK(call) CU_ASSERT_EQUAL((call), CUDA_SUCCESS)
#define FAILS(call, error) CU_ASSERT_EQUAL((call), (error))

struct lib {
    CUcontext ctx;
    CUmodule module;
    CUfunction add, set; /* add: *a += *b; set: *a = value, an int each */
};

/* Resets, initialises, loads the module. */
struct lib lib_open(void);
/* Gives everything back and asserts that nothing is left and nothing was done wrong. */
void lib_close(struct lib *l);

CUresult lib_add(CUfunction f, CUdeviceptr a, CUdeviceptr b, CUstream s);
CUresult lib_add_programmatic(CUfunction f, CUdeviceptr a, CUdeviceptr b, CUstream s);
CUresult lib_set(CUfunction f, CUdeviceptr a, int value, CUstream s);
/* Reads an int of executed device memory directly. */
int lib_peek(CUdeviceptr a);
CUstream lib_stream(void); /* non-blocking */
CUevent lib_event(void);
CUdeviceptr lib_ints(size_t n);
size_t lib_nodes(CUgraph g);
/* Edges as text: "0>1 0>2p", by node number, p for programmatic. */
const char *lib_edges(CUgraph g);

#endif
