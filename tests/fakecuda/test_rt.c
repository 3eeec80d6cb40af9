/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's device and helpers under the stand-in driver, and with every driver call made to fail in turn.
 */
#include "fakecuda.h"
#include "plan_runner.h"
#include "runtime/fill.h"
#include "runtime/mainstem_rt.h"
#include "unit.h"

#include "driver.h"

static void run(void *user, const char *kernel, const uint32_t grid[3], const uint32_t block[3], uint32_t smem,
                void *const *params, uint32_t n)
{
    (void)user, (void)grid, (void)block, (void)smem, (void)n;
    plan_runner_builtin(kernel, params);
}

static const struct stem_rt_options options = {.libcuda = STAND_IN, .compiler = {.nvrtc = STAND_IN, .cache_dir = ""}};

static void fresh(void)
{
    fakecuda_reset();
    plan_runner_define_builtin();
    fakecuda_set_runner(run, NULL);
}

/* Everything that was made is gone, and this thread has no context that it had not before. */
static bool clean(const char *what)
{
    struct fakecuda_counts c = fakecuda_counts(), none = {0};
    bool same = memcmp(&c, &none, sizeof c) == 0;
    CUcontext ctx = NULL;
    fakecuda_fail_call(0, 0);
    cuCtxGetCurrent(&ctx);
    if (!same || ctx)
        fprintf(stderr, "\nafter a failure of %s:\n%s%s%s%s", what, fakecuda_live(), fakecuda_faults(),
                ctx ? "a context is still current\n" : "", fakecuda_trace());
    return same && !ctx;
}

/* Uses every helper once. The first status that is not OK, with what was wrong with reporting it in *bad. */
static enum stem_status helpers(struct stem_rt *rt, struct stem_rt_error *err)
{
    struct stem_plan_buffer b = {.name = "w", .kind = STEM_BUFFER_WEIGHT, .bytes = 256, .dtype = STEM_F32, .rank = 1};
    struct CUstream_st *s = NULL;
    struct stem_timer *t = NULL;
    struct stem_rt_info info;
    uint64_t at = 0;
    float host[64], expected[64];
    double us;
    b.dim[0] = 64;
    enum stem_status st = stem_rt_info(rt, &info, err);
    if (!st && !(st = stem_rt_alloc(rt, 256, &at, err)))
        st = stem_rt_upload(rt, at, expected, 0, err);
    st = st ? st : stem_rt_fill(rt, &b, 7, at, err);
    st = st ? st : stem_rt_download(rt, host, at, 256, err);
    if (!st) {
        stem_fill_host(&b, 7, expected);
        CU_ASSERT_EQUAL(memcmp(host, expected, 256), 0);
        memset(host, 0, 256);
    }
    st = st ? st : stem_rt_stream_new(rt, &s, err);
    st = st ? st : stem_rt_copy(rt, at + 128, at, 128, s, err);
    st = st ? st : stem_rt_synchronize(rt, s, err);
    st = st ? st : stem_rt_download(rt, host, at, 256, err);
    if (!st)
        CU_ASSERT_EQUAL(memcmp(host + 32, expected, 128), 0);
    st = st ? st : stem_rt_upload(rt, at, host, 256, err);
    st = st ? st : stem_timer_new(rt, &t, err);
    st = st ? st : stem_timer_start(t, s, err);
    st = st ? st : stem_timer_stop(t, s, &us, err);
    st = st ? st : stem_rt_synchronize(rt, s, err);
    struct stem_rt_error again;
    if (s) /* the copy may still be under way after a failure */
        stem_rt_synchronize(rt, s, &again);
    stem_timer_free(t);
    stem_rt_stream_free(rt, s);
    stem_rt_free(rt, at);
    return st;
}

static enum stem_status scenario(struct stem_rt_error *err)
{
    struct stem_rt *rt = NULL;
    memset(err, 0, sizeof *err);
    enum stem_status st = stem_rt_open(&options, &rt, err);
    if (!st)
        st = helpers(rt, err);
    stem_rt_close(rt);
    return st;
}

static void device_and_helpers(void)
{
    fresh();
    struct stem_rt_error err;
    CU_ASSERT_EQUAL(scenario(&err), STEM_OK);
    CU_ASSERT(clean("nothing"));
    CU_ASSERT_EQUAL(fakecuda_counts().faults, 0);
}

static void every_call_fails_once(void)
{
    struct stem_rt_error err;
    fresh();
    scenario(&err);
    uint64_t n = fakecuda_calls();
    CU_ASSERT(n > 20);
    for (uint64_t i = 1; i <= n; i++) {
        fresh();
        fakecuda_fail_call(i, CUDA_ERROR_OUT_OF_MEMORY);
        enum stem_status st = scenario(&err);
        char call[64];
        snprintf(call, sizeof call, "%s", fakecuda_failed_call());
        CU_ASSERT(fakecuda_failed());
        CU_ASSERT(clean(call));
        if (st) {
            CU_ASSERT_EQUAL(err.status, st);
            bool named = err.cuda == CUDA_ERROR_OUT_OF_MEMORY ? strstr(err.message, "OUT_OF_MEMORY") != NULL
                                                              : err.message[0] != 0;
            CU_ASSERT(named);
            if (!named)
                fprintf(stderr, "\n%s: \"%s\"\n", call, err.message);
        }
        CU_ASSERT_EQUAL(scenario(&err), STEM_OK);
    }
}

UNIT_MAIN("runtime: device", {"device and helpers", device_and_helpers},
          {"every call fails once", every_call_fails_once})
