/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arena.h"
#include "ops/ref.h"

int stem_cli_rt_error(const struct stem_rt_error *err)
{
    stem_cli_error("%s", err->message);
    return STEM_EXIT_WORLD;
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

static bool is_written(const struct stem_plan_variant *v, uint32_t buffer)
{
    for (uint32_t i = 0; i < v->n_ops; i++)
        for (uint32_t k = 0; k < v->ops[i].n_operands; k++)
            if (v->ops[i].operands[k].tensor.buffer == buffer && v->ops[i].operands[k].access & STEM_WRITE)
                return true;
    return false;
}

bool stem_cli_is_result(const struct stem_plan_variant *v, uint32_t buffer)
{
    switch (v->buffers[buffer].kind) {
    case STEM_BUFFER_OUTPUT:
    case STEM_BUFFER_STATE: return true;
    case STEM_BUFFER_INPUT: return is_written(v, buffer);
    default: return false;
    }
}

/* States come last among the external buffers that are results. */
static bool fetched(const struct stem_cli_exec *e, const struct stem_plan_variant *v, uint32_t buffer)
{
    return stem_cli_is_result(v, buffer) && !(e->no_state && v->buffers[buffer].kind == STEM_BUFFER_STATE);
}

bool stem_cli_download(struct stem_rt *rt, const struct stem_cli_exec *e, uint32_t variant, struct stem_results *r,
                       struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &e->plan->variants[variant];
    *r = (struct stem_results){0};
    for (uint32_t i = 0; i < v->n_buffers; i++)
        r->bytes += fetched(e, v, i) ? v->buffers[i].bytes : 0;
    r->data = stem_xmalloc(r->bytes);
    uint64_t at = 0;
    for (uint32_t i = 0; i < e->plan->n_external; i++) {
        if (!fetched(e, v, i))
            continue;
        if (stem_rt_download(rt, r->data + at, stem_exec_address(e->exec, i), v->buffers[i].bytes, err) != STEM_OK) {
            stem_results_free(r);
            return false;
        }
        at += v->buffers[i].bytes;
    }
    return true;
}

void stem_results_free(struct stem_results *r)
{
    free(r->data);
    *r = (struct stem_results){0};
}

bool stem_results_same(const struct stem_plan_variant *v, const struct stem_results *a, const struct stem_results *b,
                       const char **where)
{
    static char text[256];
    *where = "";
    if (a->bytes != b->bytes) {
        *where = "they have different sizes";
        return false;
    }
    if (!memcmp(a->data, b->data, a->bytes))
        return true;
    uint64_t at = 0;
    for (uint32_t i = 0; i < v->n_buffers; i++) {
        const struct stem_plan_buffer *p = &v->buffers[i];
        if (!stem_cli_is_result(v, i))
            continue;
        uint32_t bits = stem_dtype_bits(p->dtype);
        for (uint64_t j = 0; j < p->bytes; j++)
            if (a->data[at + j] != b->data[at + j]) {
                uint64_t n = j * 8 / bits;
                snprintf(text, sizeof text, "%s, element %llu: %.9g and %.9g", p->name, (unsigned long long)n,
                         stem_element(p->dtype, a->data + at, n), stem_element(p->dtype, b->data + at, n));
                *where = text;
                return false;
            }
        at += p->bytes;
    }
    return false;
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

double stem_element(enum stem_dtype dtype, const void *data, uint64_t i)
{
    switch (dtype) {
    case STEM_I32:
    case STEM_I64:
    case STEM_U8: return (double)stem_ref_load_int(dtype, data, (int64_t)i);
    case STEM_NVFP4:
    case STEM_INT4: return ((const uint8_t *)data)[i / 2] >> (i % 2 * 4) & 15; /* the code: it has no value of its own */
    default: return stem_ref_load(dtype, data, (int64_t)i);
    }
}

static bool print_result(const struct stem_plan_buffer *b, const uint8_t *data, bool print)
{
    uint64_t n = b->bytes * 8 / stem_dtype_bits(b->dtype), bad = 0;
    double low = INFINITY, high = -INFINITY, sum = 0;
    for (uint64_t j = 0; j < n; j++) {
        double x = stem_element(b->dtype, data, j);
        bad += !isfinite(x);
        low = x < low ? x : low;
        high = x > high ? x : high;
        sum += x;
    }
    if (!print && !bad)
        return false;
    printf("  %s %s: %s[", b->kind == STEM_BUFFER_STATE ? "state" : b->kind == STEM_BUFFER_INPUT ? "in place" : "output", b->name, stem_dtype_name(b->dtype));
    for (uint32_t k = 0; k < b->rank; k++)
        printf("%s%lld", k ? ", " : "", (long long)b->dim[k]);
    printf("] min %.5g max %.5g mean %.5g", low, high, sum / (double)(n ? n : 1));
    if (bad)
        printf(" NOT FINITE: %llu of %llu", (unsigned long long)bad, (unsigned long long)n);
    printf(" bits %016llx\n", (unsigned long long)XXH3_64bits(data, b->bytes));
    return true;
}

/* A model has a cache or two for each layer: of more than MOST_STATES only the first FIRST_STATES are printed, and those
 * that are not finite. States come last, so what was left out ends the data. */
void stem_results_print(const struct stem_plan_variant *v, const struct stem_results *r, bool all)
{
    enum { MOST_STATES = 8, FIRST_STATES = 4 };
    uint32_t states = 0, seen = 0, left_out = 0;
    uint64_t at = 0, folded = 0;
    for (uint32_t i = 0; i < v->n_buffers; i++)
        states += v->buffers[i].kind == STEM_BUFFER_STATE;
    for (uint32_t i = 0; i < v->n_buffers; i++) {
        const struct stem_plan_buffer *b = &v->buffers[i];
        if (!stem_cli_is_result(v, i))
            continue;
        seen += b->kind == STEM_BUFFER_STATE;
        bool print = all || states <= MOST_STATES || seen <= FIRST_STATES;
        if (!print && seen == FIRST_STATES + 1)
            folded = at;
        left_out += !print_result(b, r->data + at, print);
        at += b->bytes;
    }
    if (left_out)
        printf("  ... %u more states, all finite (--verbose lists them); bits of what follows the first %d: %016llx\n", left_out, FIRST_STATES,
               (unsigned long long)XXH3_64bits(r->data + folded, at - folded));
}
