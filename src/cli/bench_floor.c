/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes that a run of a program must move, for the floor of `mainstem bench`. The plan knows them but for routed
 * experts, where it expects choices that are spread evenly; here the program runs once, op by op, and the experts
 * that its tokens chose are counted.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/gpu_check.h"

struct count {
    struct stem_gpu *g;
    const struct stem_plan_variant *v;
    struct stem_bench_bytes bytes;
    struct stem_rt_error err;
};

static uint64_t distinct(const int32_t *ids, uint64_t n, int64_t experts)
{
    unsigned char *seen = calloc((size_t)experts, 1);
    uint64_t found = 0;
    for (uint64_t i = 0; seen && i < n; i++)
        if (ids[i] >= 0 && ids[i] < experts && !seen[ids[i]]++)
            found++;
    free(seen);
    return found;
}

/* ids are operand 1 of experts_up and experts_down; operands that are weights with an entry for each expert are read
 * for those that were chosen. */
static bool count_experts(struct count *c, const struct stem_plan_op *op, const uint64_t *operands)
{
    const struct stem_tensor *ids = &op->operands[1].tensor;
    const struct stem_tensor *w = &op->operands[!strcmp(op->kind, "experts_up") ? 2 : 3].tensor;
    uint64_t bytes = stem_tensor_extent(ids);
    int32_t *chosen = malloc(bytes);
    bool fine = chosen && stem_rt_download(c->g->rt, chosen, operands[1], bytes, &c->err) == STEM_OK;
    uint64_t n = fine ? distinct(chosen, bytes / sizeof *chosen, w->dim[0]) : 0;
    free(chosen);
    for (uint32_t i = 0; i < op->n_operands && fine; i++) {
        const struct stem_tensor *t = &op->operands[i].tensor;
        if (t->rank == STEM_NONE)
            continue;
        bool weight = op->operands[i].access == STEM_READ && c->v->buffers[t->buffer].kind == STEM_BUFFER_WEIGHT &&
                      t->rank > 1 && t->dim[0] == w->dim[0];
        c->bytes.moved += weight ? (double)stem_tensor_extent(t) * (double)n / (double)w->dim[0]
                                 : (double)stem_tensor_extent(t);
    }
    c->bytes.experts += (double)n;
    c->bytes.n_experts++;
    return fine;
}

static bool after_op(void *user, const struct stem_plan_op *op, uint32_t index, const uint64_t *operands)
{
    struct count *c = user;
    (void)index;
    if (!strcmp(op->kind, "experts_up") || !strcmp(op->kind, "experts_down"))
        return count_experts(c, op, operands);
    c->bytes.moved += (double)op->bytes_read + (double)op->bytes_written;
    return true;
}

bool stem_bench_count(struct stem_gpu *g, const struct stem_cli_exec *e, uint32_t variant, struct stem_bench_bytes *bytes,
                      struct stem_rt_error *err)
{
    struct count c = {.g = g, .v = &e->plan->variants[variant]};
    struct stem_launch_options o = {.delay_op = STEM_NONE, .after_op = after_op, .user = &c};
    bool fine = stem_exec_launch_with(e->exec, variant, g->stream, &o, err) == STEM_OK;
    if (!fine && c.err.status)
        *err = c.err;
    *bytes = c.bytes;
    return fine;
}
