/* SPDX-License-Identifier: Apache-2.0 */
#include "fakecupti.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "inject/callback_abi.h"
#include "runtime/cupti_abi.h"

#define API __attribute__((visibility("default")))

static stem_cupti_callback_fn *subscriber;
static void *subscriber_user;
static bool enabled[1024];
static stem_cupti_request_fn *request;
static stem_cupti_complete_fn *complete;
static struct stem_cupti_kernel kernels[1000];
static uint32_t n_kernels, next;

API int cuptiSubscribe(void **handle, stem_cupti_callback_fn *callback, void *user);
API int cuptiEnableCallback(uint32_t on, void *handle, int domain, uint32_t number);
API int cuptiGetGraphExecId(struct CUgraphExec_st *exec, uint32_t *id);
API int cuptiActivityRegisterCallbacks(stem_cupti_request_fn *r, stem_cupti_complete_fn *c);
API int cuptiActivityEnable(int kind);
API int cuptiActivityFlushAll(uint32_t flag);
API int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);

int cuptiSubscribe(void **handle, stem_cupti_callback_fn *callback, void *user)
{
    if (subscriber || getenv("FAKECUPTI_TAKEN"))
        return 39; /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
    *handle = &subscriber;
    subscriber = callback;
    subscriber_user = user;
    return 0;
}

int cuptiEnableCallback(uint32_t on, void *handle, int domain, uint32_t number)
{
    if (handle != (void *)&subscriber || domain != STEM_CUPTI_DRIVER_API || number >= 1024)
        return 1;
    enabled[number] = on;
    return 0;
}

/* Instances have the low half of their address as number, unless the test wants them to have none. */
int cuptiGetGraphExecId(struct CUgraphExec_st *exec, uint32_t *id)
{
    *id = (uint32_t)(uintptr_t)exec;
    return getenv("FAKECUPTI_NO_ID") ? 1 : 0;
}

int cuptiActivityRegisterCallbacks(stem_cupti_request_fn *r, stem_cupti_complete_fn *c)
{
    request = r;
    complete = c;
    return 0;
}

int cuptiActivityEnable(int kind)
{
    return kind == STEM_CUPTI_CONCURRENT_KERNEL ? 0 : 1;
}

int cuptiActivityFlushAll(uint32_t flag)
{
    uint8_t *buffer = NULL;
    size_t size = 0, max = 0;
    (void)flag;
    request(&buffer, &size, &max);
    next = 0;
    complete(NULL, 0, buffer, size, n_kernels * sizeof *kernels);
    n_kernels = 0;
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
    (void)buffer;
    if (next * sizeof *kernels >= valid)
        return 12; /* CUPTI_ERROR_MAX_LIMIT_REACHED */
    *record = &kernels[next++];
    return 0;
}

void fakecupti_call(uint32_t number, int site, const void *params, int result, uint32_t correlation, uint64_t *slot)
{
    struct stem_cupti_callback c = {.site = site,
                                    .params = params,
                                    .result = site == STEM_CUPTI_EXIT ? &result : NULL,
                                    .slot = slot,
                                    .correlation = correlation};
    if (subscriber && enabled[number])
        subscriber(subscriber_user, STEM_CUPTI_DRIVER_API, number, &c);
}

void fakecupti_kernel(uint32_t graph, uint32_t correlation, uint32_t stream)
{
    if (n_kernels < 1000)
        kernels[n_kernels++] = (struct stem_cupti_kernel){
            .kind = STEM_CUPTI_CONCURRENT_KERNEL, .graph = graph, .correlation = correlation, .stream = stream};
}
