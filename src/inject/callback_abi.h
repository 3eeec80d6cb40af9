/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of CUPTI's callback API that is used: numbers of the driver's functions and the block that a callback is
 * given. A test compares it with <cupti.h>.
 */
#ifndef STEM_INJECT_CALLBACK_ABI_H
#define STEM_INJECT_CALLBACK_ABI_H

#include <stdint.h>

#include "inject/inject.h"

enum { STEM_CUPTI_DRIVER_API = 1, STEM_CUPTI_ENTER = 0, STEM_CUPTI_EXIT = 1 };

/* X(number, function, what it is) */
#define STEM_CUPTI_CALLS(X)                                                                                          \
    X(513, cuGraphInstantiate, INSTANTIATE)                                                                          \
    X(578, cuGraphInstantiate_v2, INSTANTIATE)                                                                       \
    X(643, cuGraphInstantiateWithFlags, INSTANTIATE)                                                                 \
    X(656, cuGraphInstantiateWithParams, INSTANTIATE)                                                                \
    X(657, cuGraphInstantiateWithParams_ptsz, INSTANTIATE)                                                           \
    X(561, cuGraphExecUpdate, UPDATE)                                                                                \
    X(696, cuGraphExecUpdate_v2, UPDATE)                                                                             \
    X(514, cuGraphLaunch, LAUNCH)                                                                                    \
    X(515, cuGraphLaunch_ptsz, LAUNCH)                                                                               \
    X(516, cuGraphExecDestroy, DESTROY)

/* CUpti_CallbackData. */
struct stem_cupti_callback {
    int32_t site;
    const char *function;
    const void *params;
    void *result; /* a CUresult, on exit */
    const char *symbol;
    struct CUctx_st *context;
    uint32_t context_uid;
    uint64_t *slot;
    uint32_t correlation;
};

typedef void stem_cupti_callback_fn(void *user, int domain, uint32_t number, const void *data);

struct stem_cupti_callbacks {
    int (*subscribe)(void **subscriber, stem_cupti_callback_fn *callback, void *user);
    int (*enable)(uint32_t on, void *subscriber, int domain, uint32_t number);
    int (*exec_id)(struct CUgraphExec_st *exec, uint32_t *id); /* cuptiGetGraphExecId, cuptiGetGraphId; may be NULL */
};

#endif
