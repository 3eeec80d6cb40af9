/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in driver with the kernels of plans: a library that a program which knows nothing of the stand-in loads
 * in place of the driver (MAINSTEM_LIBCUDA). The plan is the file that FAKEGPU_PLAN names; its ops are executed by
 * their C references.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakecuda.h"
#include "plan_runner.h"

static struct plan_runner runner[8];

static struct stem_plan *read_plan(const char *path, char **error)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(64 << 20) : NULL;
    size_t len = text ? fread(text, 1, 64 << 20, f) : 0;
    struct stem_plan *plan = text ? stem_plan_from_json(text, len, error) : NULL;
    if (f)
        fclose(f);
    free(text);
    return plan;
}

static struct stem_plan *plans[8];
static uint32_t n_plans;

/* The runtime unloads the driver: the plans would be leaks that nothing points to. */
__attribute__((destructor)) static void forget(void)
{
    fakecuda_reset();
    while (n_plans)
        stem_plan_free(plans[--n_plans]);
}

__attribute__((constructor)) static void install(void)
{
    const char *list = getenv("FAKEGPU_PLAN");
    char *paths = strdup(list ? list : ""), *error = NULL, *rest = NULL;
    fakecuda_reset();
    for (char *path = strtok_r(paths, ":", &rest); path && n_plans < 8; path = strtok_r(NULL, ":", &rest)) {
        struct stem_plan *plan = read_plan(path, &error);
        if (!plan)
            fprintf(stderr, "fakegpu: %s: %s\n", path, error ? error : "no such file");
        else if (!n_plans)
            plan_runner_install(&runner[0], plan, 0);
        else
            plan_runner_add(&runner[0], &runner[n_plans], plan);
        if (plan)
            plans[n_plans++] = plan;
        free(error);
        error = NULL;
    }
    if (!n_plans)
        fputs("fakegpu: FAKEGPU_PLAN names no plan\n", stderr);
    free(paths);
}
