/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into `mainstem tune` under the stand-in driver: gives it the kernels of the plans in $TUNE_PLANS (paths
 * with colons between them). They compute nothing: what is tested is what is launched, timed and written.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakecuda.h"
#include "plan_runner.h"

static void run(void *user, const char *kernel, const uint32_t grid[3], const uint32_t block[3], uint32_t smem,
                void *const *params, uint32_t n)
{
    (void)user, (void)grid, (void)block, (void)smem, (void)n;
    plan_runner_builtin(kernel, params);
}

static void define(const struct stem_plan *p)
{
    for (uint32_t v = 0; v < p->n_variants; v++)
        for (uint32_t i = 0; i < p->variants[v].n_ops; i++) {
            const struct stem_plan_op *op = &p->variants[v].ops[i];
            size_t sizes[64];
            uint32_t n = 0;
            if (op->work != STEM_WORK_LAUNCH)
                continue;
            for (uint32_t k = 0; k < op->n_operands && n < 64; k++)
                sizes[n++] = 8;
            for (uint32_t k = 0; k < op->n_scalars && n < 64; k++)
                sizes[n++] = op->scalars[k].kind == STEM_SCALAR_I64 ? 8 : 4;
            fakecuda_define_kernel(p->kernels[op->kernel].name, n, sizes);
            fakecuda_kernel_waits(p->kernels[op->kernel].name, p->kernels[op->kernel].waits);
        }
}

static void read_plan(const char *path)
{
    FILE *f = fopen(path, "rb");
    static char text[1 << 24];
    size_t len = f ? fread(text, 1, sizeof text, f) : 0;
    char *error = NULL;
    struct stem_plan *p = stem_plan_from_json(text, len, &error);
    if (!p) {
        fprintf(stderr, "tune_shim: %s: %s\n", path, error ? error : "?");
        exit(99);
    }
    define(p);
    stem_plan_free(p);
    fclose(f);
}

__attribute__((constructor)) static void install(void)
{
    const char *plans = getenv("TUNE_PLANS");
    char *copy = strdup(plans ? plans : ""), *rest = copy;
    for (char *path; (path = strsep(&rest, ":"));)
        if (*path)
            read_plan(path);
    free(copy);
    plan_runner_define_builtin();
    fakecuda_set_runner(run, NULL);
}
