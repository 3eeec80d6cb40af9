/* SPDX-License-Identifier: Apache-2.0
 *
 * The extern function of extern_function.stem: row i of the result is row (i + by) % T of x.
 *   cc -shared -fPIC -I RUNTIME rotate_rows.c -o rotate_rows.so      RUNTIME: where mainstem_rt.h is; here runtime/
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "mainstem_rt.h"

int rotate_rows(const struct stem_call *call, struct CUstream_st *stream);

/* cuMemcpyDtoDAsync of the driver that is loaded already. */
typedef int copy_fn(uint64_t to, uint64_t from, size_t bytes, struct CUstream_st *stream);

static int copy(const struct stem_call *call, void *to, const void *from, size_t bytes, struct CUstream_st *stream)
{
    if (!call->on_gpu) {
        memcpy(to, from, bytes);
        return 0;
    }
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    copy_fn *enqueue = driver ? (copy_fn *)dlsym(driver, "cuMemcpyDtoDAsync_v2") : NULL;
    return enqueue ? enqueue((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, stream) : 1;
}

/* Operands: x, then the result y. Anything but 0 ends the launch with an error that names the op. */
int rotate_rows(const struct stem_call *call, struct CUstream_st *stream)
{
    const struct stem_tensor *x = &call->tensors[0].tensor;
    size_t rows = (size_t)x->dim[0], row = (size_t)x->dim[1] * sizeof(float);
    size_t by = (size_t)call->scalars[0].i % rows;
    const char *from = call->operands[0];
    char *to = call->operands[1];
    int failed = copy(call, to, from + by * row, (rows - by) * row, stream);
    return failed || by == 0 ? failed : copy(call, to + (rows - by) * row, from, by * row, stream);
}
