/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds callback_abi.h and the heads of parameter blocks against <cupti.h>, at compile time.
 */
#include <stddef.h>

#include <cuda.h>
#include <cupti.h>

#include "inject/callback_abi.h"

#define SAME(ours, our_member, theirs, their_member)                                                                 \
    _Static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member), #theirs "." #their_member)

SAME(struct stem_cupti_callback, site, CUpti_CallbackData, callbackSite);
SAME(struct stem_cupti_callback, params, CUpti_CallbackData, functionParams);
SAME(struct stem_cupti_callback, result, CUpti_CallbackData, functionReturnValue);
SAME(struct stem_cupti_callback, slot, CUpti_CallbackData, correlationData);
SAME(struct stem_cupti_callback, correlation, CUpti_CallbackData, correlationId);
_Static_assert((int)STEM_CUPTI_DRIVER_API == (int)CUPTI_CB_DOMAIN_DRIVER_API, "domain");
_Static_assert((int)STEM_CUPTI_ENTER == (int)CUPTI_API_ENTER && (int)STEM_CUPTI_EXIT == (int)CUPTI_API_EXIT, "site");

#define X(number, name, what) _Static_assert(CUPTI_DRIVER_TRACE_CBID_##name == (number), #name);
STEM_CUPTI_CALLS(X)
#undef X

#define MAKES(name)                                                                                                  \
    SAME(struct stem_inject_instantiate, exec, name##_params, phGraphExec);                                          \
    SAME(struct stem_inject_instantiate, graph, name##_params, hGraph)
MAKES(cuGraphInstantiate);
MAKES(cuGraphInstantiate_v2);
MAKES(cuGraphInstantiateWithFlags);
MAKES(cuGraphInstantiateWithParams);
MAKES(cuGraphInstantiateWithParams_ptsz);
SAME(struct stem_inject_update, exec, cuGraphExecUpdate_params, hGraphExec);
SAME(struct stem_inject_update, graph, cuGraphExecUpdate_params, hGraph);
SAME(struct stem_inject_update, exec, cuGraphExecUpdate_v2_params, hGraphExec);
SAME(struct stem_inject_update, graph, cuGraphExecUpdate_v2_params, hGraph);
SAME(struct stem_inject_update, exec, cuGraphLaunch_params, hGraph);
SAME(struct stem_inject_update, exec, cuGraphLaunch_ptsz_params, hGraphExec);
SAME(struct stem_inject_update, exec, cuGraphExecDestroy_params, hGraphExec);
