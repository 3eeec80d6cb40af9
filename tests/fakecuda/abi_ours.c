/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of abi_facts.h as the stand-in declares it.
 */
#include "abi.h"

#define U(member) u.member
#include "abi_facts.h"

extern const struct abi_fact abi_ours[];
const struct abi_fact abi_ours[] = {ABI_LAYOUTS, ABI_ERRORS, ABI_VALUES, {NULL, 0}};
