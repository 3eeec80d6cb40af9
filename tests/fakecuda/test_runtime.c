/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime under the stand-in driver: one plan by every path gives what its ops give in issue order, whatever the
 * order of execution; and every driver call of every path is made to fail once, after which nothing is left, the
 * caller's stream is as it was, and the program runs.
 */
#include "rig.h"

enum { SEEDS = 25 };

static int arch = 90;

static bool run_twice(enum path path, struct stem_plan *plan, int order, bool loud)
{
    struct rig r;
    struct stem_rt_error err = {0};
    int32_t ext[EXTERNALS][PLAN_INTS];
    rig_open_caller(&r, path, plan);
    fakecuda_set_arch(arch);
    if (order < 2)
        fakecuda_set_order(order ? FAKECUDA_LAST : FAKECUDA_ISSUE);
    else
        fakecuda_seed((uint64_t)order);
    bool ok = rig_open_program(&r, &err) == STEM_OK;
    for (int i = 0; i < 2 && ok; i++) {
        rig_set_inputs(&r, ext);
        ok = rig_act(&r, &err) == STEM_OK && rig_outputs_right(&r, ext);
    }
    if (!ok && loud)
        rig_report(&r, "run", &err);
    rig_close_program(&r);
    bool closed = rig_close_caller(&r);
    if (ok && !closed)
        rig_report(&r, "closed", &err);
    return ok && closed;
}

static void every_path_every_order(void)
{
    for (int piecewise = 0; piecewise < 2; piecewise++)
        for (int p = 0; p < N_PATHS; p++) {
            if (piecewise && (p == RECORD || p == RECORD_POOL))
                continue; /* an eager segment cannot be recorded */
            struct stem_plan *plan = plan_two_layers(piecewise, PLAN_SOUND);
            for (int order = 0; order < 2 + SEEDS; order++) {
                bool ok = run_twice((enum path)p, plan, order, true);
                CU_ASSERT(ok);
                if (!ok)
                    break;
            }
            stem_plan_free(plan);
        }
}

/* A wrong plan is found out: it is refused, or some order gives a wrong result. Static offsets show when the slab is
 * used, frees when there is none. In the driver's pool an allocation comes between the two kernels of the
 * programmatic edge, which makes it a full one. */
static void wrong_plans_show(void)
{
    for (int damage = 1; damage < N_PLAN_DAMAGES; damage++) {
        struct stem_plan *plan = plan_two_layers(false, (enum plan_damage)damage);
        for (int p = 0; p < N_PATHS; p++) {
            bool pooled = p == EAGER_POOL || p == EAGER_CALLBACKS;
            if ((damage == PLAN_EARLY_FREE) > pooled || ((damage >= PLAN_NO_PDL_WAIT) && pooled))
                continue;
            int order = 0;
            while (order < 2 + SEEDS && run_twice((enum path)p, plan, order, false))
                order++;
            CU_ASSERT(order < 2 + SEEDS);
            if (order == 2 + SEEDS)
                fprintf(stderr, "\n%s: damage %d does not show\n", rig_paths[p], damage);
        }
        stem_plan_free(plan);
    }
}

/* The device refuses programmatic launches and edges; they are full ones there, so that not even a kernel that does not
 * wait in its code can start too early. */
static void older_gpu(void)
{
    arch = 86;
    for (int damage = 0; damage <= PLAN_NO_PDL_WAIT; damage += PLAN_NO_PDL_WAIT) {
        struct stem_plan *plan = plan_two_layers(false, (enum plan_damage)damage);
        for (int p = 0; p < N_PATHS; p++)
            for (int order = 0; order < 2 + SEEDS; order++)
                CU_ASSERT(run_twice((enum path)p, plan, order, true));
        stem_plan_free(plan);
    }
    arch = 90;
}

/* Two launches in a row without waiting, on two streams of the caller: the program orders them. */
static void launches_follow_each_other(void)
{
    for (int p = 0; p < N_PATHS; p++)
        for (int seed = 0; seed < SEEDS && p != RECORD && p != RECORD_POOL; seed++) {
            struct stem_plan *plan = plan_two_layers(false, PLAN_SOUND);
            struct rig r;
            struct stem_rt_error err = {0};
            int32_t ext[EXTERNALS][PLAN_INTS], *rows[EXTERNALS] = {ext[0], ext[1], ext[2], ext[3]};
            CUstream other;
            rig_open_caller(&r, (enum path)p, plan);
            fakecuda_seed((uint64_t)seed);
            OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
            CU_ASSERT_EQUAL(rig_open_program(&r, &err), STEM_OK);
            rig_set_inputs(&r, ext);
            for (int i = 0; i < 2; i++) {
                CUstream s = i ? other : r.stream;
                if (p >= BY_CAPTURE && !r.graph)
                    CU_ASSERT_EQUAL(stem_graph_new(r.exec, 0,
                                                   p == BY_NODES ? STEM_GRAPH_BY_NODES : STEM_GRAPH_BY_CAPTURE,
                                                   &r.graph, &err),
                                    STEM_OK);
                CU_ASSERT_EQUAL(r.graph ? stem_graph_launch(r.graph, s, &err) : stem_exec_launch(r.exec, 0, s, &err),
                                STEM_OK);
            }
            OK(cuStreamSynchronize(other));
            plans_expect(plan, rows);
            CU_ASSERT(rig_outputs_right(&r, ext));
            OK(cuStreamSynchronize(r.stream));
            OK(cuStreamDestroy_v2(other));
            rig_close_program(&r);
            CU_ASSERT(rig_close_caller(&r));
            stem_plan_free(plan);
        }
}

/* The message of a failed launch names the op; any message says what failed. */
static bool told(const struct stem_plan *plan, const struct stem_rt_error *err, const char *call, int error)
{
    if (err->status == STEM_OK || !err->message[0])
        return false;
    if (err->cuda && err->cuda != error)
        return false;
    if (strcmp(call, "cuLaunchKernelEx") != 0 || strstr(err->message, "built-in"))
        return true;
    return err->op < plan->variants[0].n_ops && strstr(err->message, plan->variants[0].ops[err->op].name) &&
           strstr(err->message, "by_hand.stem");
}

/* Returns false when the n-th call does not exist. */
static bool one_failure(enum path path, struct stem_plan *plan, uint64_t n, int error, unsigned *bad)
{
    struct rig r;
    struct stem_rt_error err = {0};
    int32_t ext[EXTERNALS][PLAN_INTS];
    rig_open_caller(&r, path, plan);
    fakecuda_seed(n);
    fakecuda_fail_call(n, error);
    enum stem_status s = rig_open_program(&r, &err);
    bool opened = s == STEM_OK, ok = true;
    if (opened) {
        rig_set_inputs(&r, ext);
        s = rig_act(&r, &err);
        ok = s != STEM_OK || rig_outputs_right(&r, ext);
    }
    bool failed = fakecuda_failed();
    char call[64];
    snprintf(call, sizeof call, "%s", fakecuda_failed_call());
    if (s)
        ok = ok && failed && err.status == s && told(plan, &err, call, error);
    if (opened && failed) { /* the program runs again */
        struct stem_rt_error again = {0};
        rig_set_inputs(&r, ext);
        bool right = rig_act(&r, &again) == STEM_OK && rig_outputs_right(&r, ext);
        if (!right)
            rig_report(&r, "the run after it", &again);
        ok = ok && right;
    }
    rig_close_program(&r);
    ok = rig_close_caller(&r) && ok;
    if (!ok) {
        rig_report(&r, fakecuda_failed_call(), &err);
        ++*bad;
    }
    return fakecuda_failed();
}

static void every_call_fails_once(void)
{
    uint64_t tried = 0;
    unsigned bad = 0;
    for (int piecewise = 0; piecewise < 2; piecewise++)
        for (int p = 0; p < N_PATHS; p++) {
            if (piecewise && (p == RECORD || p == RECORD_POOL))
                continue;
            struct stem_plan *plan = plan_two_layers(piecewise, PLAN_SOUND);
            for (uint64_t n = 1; one_failure((enum path)p, plan, n, CUDA_ERROR_OUT_OF_MEMORY, &bad); n++)
                tried++;
            stem_plan_free(plan);
        }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT(tried > 500);
    fprintf(stderr, "(%llu failures injected, %u handled badly) ", (unsigned long long)tried, bad);
}

UNIT_MAIN("runtime: programs", {"every path, every order", every_path_every_order},
          {"wrong plans show", wrong_plans_show}, {"an older GPU launches as usual", older_gpu}, {"launches follow each other", launches_follow_each_other},
          {"every call fails once", every_call_fails_once})
