/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for CUPTI: keeps the one subscriber, and calls it when the test says that a driver function is entered
 * or left; delivers kernel records when it is flushed.
 */
#ifndef FAKECUPTI_H
#define FAKECUPTI_H

#include <stdint.h>

#pragma GCC visibility push(default)

/* Calls the subscriber, if there is one and it enabled this function. */
void fakecupti_call(uint32_t number, int site, const void *params, int result, uint32_t correlation, uint64_t *slot);
/* A kernel of a replay. Up to 1000 are kept until the flush. */
void fakecupti_kernel(uint32_t graph, uint32_t correlation, uint32_t stream);

#pragma GCC visibility pop

#endif
