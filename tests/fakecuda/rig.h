/* SPDX-License-Identifier: Apache-2.0
 *
 * A caller of the runtime: its own stream and buffers, one program, and one of the paths by which a program runs.
 */
#ifndef FAKECUDA_RIG_H
#define FAKECUDA_RIG_H

#include "driver.h"
#include "fakecuda.h"
#include "plans.h"
#include "unit.h"

enum { EXTERNALS = 4 };

/* X(enumerator, name) */
#define PATHS(X)                                                                                                     \
    X(EAGER, "eager, slab")                                                                                          \
    X(EAGER_POOL, "eager, the driver's pool")                                                                        \
    X(EAGER_CALLBACKS, "eager, callbacks")                                                                           \
    X(RECORD, "recorded in the caller's capture")                                                                    \
    X(RECORD_POOL, "recorded, pool mode")                                                                            \
    X(BY_CAPTURE, "own graph by capture")                                                                            \
    X(BY_NODES, "own graph node by node")                                                                            \
    X(BY_CAPTURE_POOL, "own graph by capture, pool mode")

enum path {
#define X(name, text) name,
    PATHS(X)
#undef X
        N_PATHS
};

struct rig {
    enum path path;
    struct stem_plan *plan;
    CUcontext ctx;
    CUstream stream;
    CUdeviceptr ext[EXTERNALS];
    uint32_t allocated, freed; /* by the callbacks */
    struct stem_rt *rt;
    struct stem_exec *exec;
    struct stem_graph *graph;
};

/* The test's own calls are not made to fail. */
#define OWN(statement)                                                                                               \
    do {                                                                                                             \
        fakecuda_own(true);                                                                                          \
        statement;                                                                                                   \
        fakecuda_own(false);                                                                                         \
    } while (0)
#define OK(call) CU_ASSERT_EQUAL((call), CUDA_SUCCESS)

extern const char *const rig_paths[];

/* A fresh driver with the plan's kernels, the caller's context, stream and buffers. The plan is borrowed. */
void rig_open_caller(struct rig *r, enum path path, struct stem_plan *plan);
/* True if what the caller has is all that there is, its stream does not capture, and its thread is as it was. */
bool rig_close_caller(struct rig *r);
/* Inputs into `ext` and the device. */
void rig_set_inputs(const struct rig *r, int32_t ext[EXTERNALS][PLAN_INTS]);
/* `ext` becomes what one more run gives: true if the device has that. */
bool rig_outputs_right(const struct rig *r, int32_t ext[EXTERNALS][PLAN_INTS]);
enum stem_status rig_open_program(struct rig *r, struct stem_rt_error *err);
void rig_close_program(struct rig *r);
/* One launch by the rig's path, waited for. */
enum stem_status rig_act(struct rig *r, struct stem_rt_error *err);
/* What a failing test shows. */
void rig_report(const struct rig *r, const char *what, const struct stem_rt_error *err);

#endif
