/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in has every entry point that the runtime loads, and agrees with cuda.h where there is one.
 */
#include "config.h"

#include <dlfcn.h>

#include "unit.h"

#define U(member) member
#include "abi_facts.h"

static void entry_points(void)
{
    static const char *const symbols[] = {
#define X(member, symbol, params) #symbol,
#include "runtime/driver.def"
#undef X
        "nvrtcGetErrorString", "nvrtcVersion",           "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs",
        "nvrtcCreateProgram",  "nvrtcDestroyProgram",    "nvrtcCompileProgram",       "nvrtcGetCUBINSize",
        "nvrtcGetCUBIN",       "nvrtcGetProgramLogSize", "nvrtcGetProgramLog",
    };
    void *lib = dlopen(STAND_IN, RTLD_NOW | RTLD_LOCAL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(lib);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        bool there = dlsym(lib, symbols[i]) != NULL;
        CU_ASSERT(there);
        if (!there)
            fprintf(stderr, "\nthe stand-in lacks %s\n", symbols[i]);
    }
    CU_ASSERT_PTR_NULL(dlsym(lib, "fc_begin")); /* its inside is hidden */
    dlclose(lib);
}

#ifdef HAVE_CUDA_H
extern const struct abi_fact abi_ours[], abi_cuda[];

static void layouts(void)
{
    for (size_t i = 0; abi_ours[i].what || abi_cuda[i].what; i++) {
        CU_ASSERT_EQUAL_FATAL(!abi_ours[i].what, !abi_cuda[i].what);
        bool same = abi_ours[i].value == abi_cuda[i].value;
        CU_ASSERT(same);
        if (!same)
            fprintf(stderr, "\n%s: %lld, but %lld in cuda.h\n", abi_ours[i].what, abi_ours[i].value,
                    abi_cuda[i].value);
    }
}

UNIT_MAIN("stand-in: interface", {"entry points", entry_points}, {"layouts and values", layouts})
#else
UNIT_MAIN("stand-in: interface", {"entry points", entry_points})
#endif
