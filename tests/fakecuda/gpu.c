/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in driver with the kernels of a plan: a library that a program which knows nothing of the stand-in loads
 * in place of the driver (MAINSTEM_LIBCUDA). The plan is the file that FAKEGPU_PLAN names; its ops are executed by
 * their C references.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fakecuda.h"
#include "plan_runner.h"

static struct plan_runner runner;

static char *read_file(const char *path, size_t *len)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    char *text = f ? malloc(64 << 20) : NULL;
    *len = text ? fread(text, 1, 64 << 20, f) : 0;
    if (f)
        fclose(f);
    return text;
}

__attribute__((constructor)) static void install(void)
{
    size_t len;
    char *error = NULL, *text = read_file(getenv("FAKEGPU_PLAN"), &len);
    struct stem_plan *plan = text ? stem_plan_from_json(text, len, &error) : NULL;
    fakecuda_reset();
    if (plan)
        plan_runner_install(&runner, plan, 0);
    else
        fprintf(stderr, "fakegpu: FAKEGPU_PLAN: %s\n", error ? error : "no such file");
    free(error);
    free(text);
}
