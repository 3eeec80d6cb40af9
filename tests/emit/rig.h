/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs for the tests of emitted code: compiled to a plan, emitted, compiled by the host's C compiler, loaded.
 */
#ifndef TESTS_EMIT_RIG_H
#define TESTS_EMIT_RIG_H

#include "emitted.h"
#include "fakecuda.h"
#include "plan_runner.h"
#include "pipeline.h"
#include "runtime/mainstem_rt.h"
#include "unit.h"

#include "driver.h"

struct program {
    const char *name;        /* examples/NAME.stem; or only a name, with `text` */
    const char *text;
    const char *defines[8];
    const char *dims[2];     /* buckets */
    const char *extern_name; /* its function, which rig.c has: doubles f32 */
    enum stem_matmul_by matmul;
    bool source;             /* embed the kernels' source */
    char dir[1024];          /* of its sources, removed at the end */
    struct stem_compiled *compiled;
    const struct stem_plan *plan;
    void *library;
    struct emitted_api api;
};

#define OK(call) CU_ASSERT_EQUAL((call), CUDA_SUCCESS)

/* What the adapter's functions take for T: both dims of a program that has two, as 1000 * B + T. */
int64_t program_T(const struct program *p, uint32_t variant);
/* False, with a message on stderr, if something failed; *skip if there is no toolkit or compiler. */
bool program_make(struct program *p, bool *skip);
void program_drop(struct program *p);
/* Makes the programs, runs the tests with them; returns the exit status, 77 where nothing can be compiled. */
int programs_test(const char *suite, struct program *programs, int n, const struct unit_test *tests, size_t n_tests);

extern const struct stem_extern rig_externs[1];
int rig_extern(const void *call, void *stream);

/* A caller: context, stream, and one allocation for each external buffer, as large as the largest bucket needs. */
struct caller {
    const struct program *p;
    struct plan_runner runner;
    CUcontext ctx;
    CUstream stream;
    CUdeviceptr *at;
    uint32_t allocated, freed; /* by the callbacks */
};

enum mode { SLAB, POOL, CALLBACKS };

void caller_open(struct caller *c, const struct program *p, uint32_t variant);
/* Everything else is gone, nothing captures, and the thread is as it was. */
bool caller_clean(struct caller *c, const char *what);
void caller_close(struct caller *c);
void caller_fill(const struct caller *c, uint32_t variant);
/* Creates and binds, with shapes of a variant; *program is NULL after a failure. */
int caller_program(struct caller *c, uint32_t variant, enum mode mode, void **program, struct emitted_error *e);
int caller_bind(const struct caller *c, void *program, uint32_t variant, uint32_t buffer, struct emitted_error *e);
/* External buffers after one run of a variant on the CPU device; malloc'd. */
void **program_expected(const struct program *p, uint32_t variant);

#endif
