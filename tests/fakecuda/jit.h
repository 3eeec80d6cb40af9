/* SPDX-License-Identifier: Apache-2.0
 *
 * A small program compiled at run time through the library, with a device, a stream and buffers, under the stand-in.
 */
#ifndef FAKECUDA_JIT_H
#define FAKECUDA_JIT_H

#include "driver.h"
#include "fakecuda.h"
#include "mainstem.h"
#include "plan_runner.h"
#include "unit.h"

enum { N = 64 };

struct fixture {
    struct stem_jit *jit;
    const struct stem_plan *plan;
    struct plan_runner runner;
    struct stem_rt *rt;
    struct stem_exec *e;
    struct CUstream_st *stream;
    struct stem_rt_error err;
    CUcontext ctx;
    uint64_t x, y;
};

extern const struct stem_extern jit_externs[1];
extern const struct stem_rt_options jit_stand_in;
extern const int64_t jit_shape4[2], jit_shape2[2], jit_shape_w[1];

/* The program: rmsnorm(x, w) + x, the x by an extern function on a side stream; specialised for `dims`. */
struct stem_jit *jit_compile(const char *dims);
void jit_setup(struct fixture *f); /* for T=2,4 */
void jit_teardown(struct fixture *f);
struct stem_array jit_array(uint64_t at, uint32_t rank, const int64_t *dim); /* of f32 */
enum stem_status jit_bind(struct fixture *f, const char *name, struct stem_array a);
void jit_bind_all(struct fixture *f);
/* x becomes all c: rmsnorm gives 1, the launcher c. */
bool jit_result_right(struct fixture *f, uint32_t variant, float c);
/* Loads a .safetensors file with this header and `data` bytes of zeros. */
enum stem_status jit_with_file(struct fixture *f, const char *header, size_t data, uint32_t *loaded);

#endif
