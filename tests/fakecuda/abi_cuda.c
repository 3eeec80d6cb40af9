/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of abi_facts.h as cuda.h declares it.
 */
#include <cuda.h>

#define U(member) member
#include "abi_facts.h"

extern const struct abi_fact abi_cuda[];
const struct abi_fact abi_cuda[] = {ABI_LAYOUTS, ABI_ERRORS, ABI_VALUES, {NULL, 0}};
