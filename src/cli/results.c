/* SPDX-License-Identifier: Apache-2.0
 *
 * What a launch leaves behind: fetched, compared and printed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/device.h"
#include "cli/digest.h"

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

uint64_t stem_cli_state_bytes(const struct stem_plan *p, uint32_t variant)
{
    const struct stem_plan_variant *v = &p->variants[variant];
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_external; i++)
        n += v->buffers[i].kind == STEM_BUFFER_STATE ? v->buffers[i].bytes : 0;
    return n;
}

/* States come last among the external buffers that are results. */
static bool fetched(const struct stem_cli_exec *e, const struct stem_plan_variant *v, uint32_t buffer)
{
    return stem_cli_is_result(v, buffer) && !(e->states != STEM_STATES_FETCHED && v->buffers[buffer].kind == STEM_BUFFER_STATE);
}

static bool digest_states(struct stem_rt *rt, const struct stem_cli_exec *e, uint32_t variant, struct stem_results *r,
                          struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &e->plan->variants[variant];
    uint64_t *at = stem_xmalloc(e->plan->n_external * sizeof *at);
    const struct stem_plan_buffer **b = stem_xmalloc(e->plan->n_external * sizeof *b);
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->plan->n_external; i++)
        if (v->buffers[i].kind == STEM_BUFFER_STATE) {
            b[n] = &v->buffers[i];
            at[n++] = stem_exec_address(e->exec, i);
        }
    r->state = stem_xmalloc(n * sizeof *r->state);
    r->n_states = n;
    bool fine = stem_digest_device(rt, b, at, n, r->state, err);
    free(at);
    free(b);
    return fine;
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
    if (e->states != STEM_STATES_DIGESTED || digest_states(rt, e, variant, r, err))
        return true;
    stem_results_free(r);
    return false;
}

void stem_results_free(struct stem_results *r)
{
    for (uint32_t i = 0; i < r->n_states; i++)
        free(r->state[i].piece);
    free(r->state);
    free(r->data);
    *r = (struct stem_results){0};
}

/* Of states that were not fetched only digests are known, and so the piece that differs. */
static bool same_states(const struct stem_plan_variant *v, const struct stem_results *a, const struct stem_results *b,
                        char *text, size_t size, const char **where)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < v->n_buffers && k < a->n_states; i++) {
        const struct stem_plan_buffer *p = &v->buffers[i];
        if (p->kind != STEM_BUFFER_STATE)
            continue;
        const struct stem_digest *x = &a->state[k], *y = &b->state[k];
        k++;
        if (x->hash == y->hash)
            continue;
        uint64_t piece = 0, each = STEM_DIGEST_PIECE * 8 / stem_dtype_bits(p->dtype), n = p->bytes * 8 / stem_dtype_bits(p->dtype);
        while (x->piece[piece] == y->piece[piece])
            piece++;
        uint64_t last = (piece + 1) * each < n ? (piece + 1) * each : n;
        snprintf(text, size, "%s, first in elements %" PRIu64 " to %" PRIu64, p->name, piece * each, last - 1);
        *where = text;
        return false;
    }
    return true;
}

bool stem_results_same(const struct stem_plan_variant *v, const struct stem_results *a, const struct stem_results *b,
                       const char **where)
{
    static char text[256];
    *where = "";
    if (a->bytes != b->bytes || a->n_states != b->n_states) {
        *where = "they have different sizes";
        return false;
    }
    if (!memcmp(a->data, b->data, a->bytes))
        return same_states(v, a, b, text, sizeof text, where);
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

static void print_result(const struct stem_plan_buffer *b, const struct stem_digest *d)
{
    uint64_t n = b->bytes * 8 / stem_dtype_bits(b->dtype);
    printf("  %s %s: %s[", b->kind == STEM_BUFFER_STATE ? "state" : b->kind == STEM_BUFFER_INPUT ? "in place" : "output", b->name, stem_dtype_name(b->dtype));
    for (uint32_t k = 0; k < b->rank; k++)
        printf("%s%lld", k ? ", " : "", (long long)b->dim[k]);
    if (d->low > d->high) /* of none that is finite there is no range */
        printf("]");
    else if (d->bad) /* and no sign of a sum that is no number */
        printf("] min %.5g max %.5g", d->low, d->high);
    else
        printf("] min %.5g max %.5g mean %.5g", d->low, d->high, d->sum / (double)n);
    if (d->bad)
        printf(" NOT FINITE: %llu of %llu", (unsigned long long)d->bad, (unsigned long long)n);
    printf(" bits %016llx\n", (unsigned long long)d->hash);
}

/* A model has a cache or two for each layer: of more than MOST_STATES only the first FIRST_STATES are printed, and those
 * that are not finite. States come last, and so what was left out. */
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
        bool state = b->kind == STEM_BUFFER_STATE, digested = state && r->n_states;
        struct stem_digest one;
        if (!digested)
            one = stem_digest_of(b, r->data + at);
        const struct stem_digest *d = digested ? &r->state[seen] : &one;
        at += digested ? 0 : b->bytes;
        seen += state;
        if (all || states <= MOST_STATES || seen <= FIRST_STATES || d->bad)
            print_result(b, d);
        else
            left_out++;
        if (seen > FIRST_STATES)
            folded = stem_digest_fold(folded, d->hash);
    }
    if (left_out)
        printf("  ... %u more states, all finite (--verbose lists them); bits of what follows the first %d: %016llx\n", left_out, FIRST_STATES,
               (unsigned long long)folded);
}
