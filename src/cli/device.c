/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device.h"

#include <string.h>

#include "base/arena.h"
#include "cli/kernel_error.h"

int stem_cli_rt_error(const struct stem_rt_error *err)
{
    return stem_cli_compile_error(err, NULL);
}

int stem_cli_compile_error(const struct stem_rt_error *err, const char *log)
{
    bool rejected = err->status == STEM_E_COMPILE, said = log && *log;
    if (!rejected || !stem_cli_kernel_error(said ? log : err->message, NULL, "NVRTC")) {
        stem_cli_error("%s", err->message);
        if (said)
            fprintf(stderr, "%s\n", log);
    }
    return rejected ? STEM_EXIT_INPUT : STEM_EXIT_WORLD;
}

static void log_line(void *user, const char *topic, const char *text)
{
    (void)user;
    fprintf(stderr, "mainstem: %s: %s\n", topic, text);
}

struct stem_log stem_cli_log(void)
{
    return (struct stem_log){.line = log_line};
}

uint32_t stem_cli_target_sm(uint32_t sm)
{
    static const uint32_t known[] = {120, 100, 90, 80};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (sm >= known[i])
            return known[i];
    return sm;
}

uint64_t stem_cli_device_bytes(const struct stem_plan *plan)
{
    uint64_t most = 0;
    for (uint32_t v = 0; v < plan->n_variants; v++) {
        uint64_t sum = plan->slab_bytes;
        for (uint32_t i = 0; i < plan->n_external; i++)
            sum += plan->variants[v].buffers[i].bytes;
        most = sum > most ? sum : most;
    }
    return most;
}

static bool bind_all(struct stem_rt *rt, struct stem_cli_exec *e, const struct stem_cli_exec *share,
                     struct stem_rt_error *err)
{
    (void)rt;
    struct stem_progress bar = stem_progress_start("allocating");
    bool fine = true;
    for (uint32_t i = 0; fine && i < e->plan->n_external; i++) {
        uint64_t bytes = 0;
        for (uint32_t v = 0; v < e->plan->n_variants; v++)
            if (e->plan->variants[v].buffers[i].bytes > bytes)
                bytes = e->plan->variants[v].buffers[i].bytes;
        if (share)
            fine = stem_exec_bind(e->exec, i, stem_exec_address(share->exec, i), bytes, err) == STEM_OK;
        else
            fine = stem_exec_bind_own(e->exec, i, err) == STEM_OK;
        stem_progress_step(&bar, i, e->plan->n_external);
    }
    stem_progress_end(&bar);
    return fine;
}

bool stem_cli_exec_new(struct stem_rt *rt, const struct stem_plan *plan, const struct stem_exec_options *options,
                       const struct stem_cli_exec *share, struct stem_cli_exec *e, struct stem_rt_error *err)
{
    *e = (struct stem_cli_exec){.plan = plan};
    struct stem_busy *busy = stem_busy_start("compiling kernels with NVRTC");
    enum stem_status made = stem_exec_new(rt, plan, options, &e->exec, err);
    stem_busy_end(busy);
    if (made != STEM_OK)
        return false;
    if (bind_all(rt, e, share, err))
        return true;
    stem_exec_free(e->exec);
    e->exec = NULL;
    return false;
}

const char *stem_cli_dims(const struct stem_plan *plan, uint32_t variant)
{
    static char text[256];
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < plan->n_dims && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%lld", i ? ", " : "", plan->dims[i],
                              (long long)plan->variants[variant].dim[i]);
    return text;
}

double stem_quantile(double *x, uint32_t n, double q)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && x[j - 1] > x[j]; j--) {
            double t = x[j];
            x[j] = x[j - 1];
            x[j - 1] = t;
        }
    return n ? x[(uint32_t)(q * (n - 1) + 0.5)] : 0;
}
