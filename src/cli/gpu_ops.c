/* SPDX-License-Identifier: Apache-2.0
 *
 * `mainstem run --compare=cpu`: op by op, each result on the GPU against the C reference on the same inputs, so that
 * errors do not add up and the op that is wrong is named. Prints the largest error of each kind of op.
 */
#include "cli/gpu_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/vec.h"
#include "cpu/cpu.h"
#include "ops/op.h"

struct kind {
    const char *name;
    uint32_t ops, wrong;
    double worst;            /* largest ||gpu - cpu|| / ||cpu|| of an operand */
    const char *worst_op;
    uint64_t mismatches, integers;
};

struct weight_copy {
    uint64_t at, bytes;
    uint8_t *data;
};

struct compare {
    struct stem_gpu *g;
    const struct stem_plan_variant *v;
    STEM_VEC(struct kind) kinds;
    STEM_VEC(struct weight_copy) weights; /* constant: downloaded once */
    uint8_t *before[STEM_MAX_OPERANDS];   /* contents of the next op's in-place operands */
    struct stem_rt_error err;
    const char *failed; /* op whose comparison could not be made */
    char *why;
};

static uint8_t *download(struct compare *c, uint64_t at, uint64_t bytes)
{
    uint8_t *p = stem_xmalloc(bytes);
    if (stem_rt_download(c->g->rt, p, at, bytes, &c->err) != STEM_OK) {
        free(p);
        return NULL;
    }
    return p;
}

static const uint8_t *weight(struct compare *c, uint64_t at, uint64_t bytes)
{
    for (uint32_t i = 0; i < c->weights.len; i++)
        if (c->weights.at[i].at == at && c->weights.at[i].bytes == bytes)
            return c->weights.at[i].data;
    uint8_t *data = download(c, at, bytes);
    if (data)
        stem_vec_push(&c->weights, (struct weight_copy){at, bytes, data});
    return data;
}

/* Device address of an operand of the plan. */
static uint64_t address(const struct compare *c, const struct stem_tensor *t)
{
    const struct stem_plan_buffer *b = &c->v->buffers[t->buffer];
    uint64_t base = b->kind == STEM_BUFFER_TEMP ? stem_exec_slab(c->g->many.exec) + b->offset
                                                : stem_exec_address(c->g->many.exec, t->buffer);
    return base + t->offset;
}

/* An op that writes in place destroys its input: keep it before the op runs. */
static bool keep_inout(struct compare *c, uint32_t index)
{
    if (index >= c->v->n_ops)
        return true;
    const struct stem_plan_op *op = &c->v->ops[index];
    for (uint32_t i = 0; i < op->n_operands && i < STEM_MAX_OPERANDS; i++) {
        const struct stem_plan_operand *o = &op->operands[i];
        if (o->access == STEM_READ_WRITE && !(c->before[i] = download(c, address(c, &o->tensor), stem_tensor_extent(&o->tensor))))
            return false;
    }
    return true;
}

static struct kind *kind_of(struct compare *c, const char *name)
{
    for (uint32_t i = 0; i < c->kinds.len; i++)
        if (!strcmp(c->kinds.at[i].name, name))
            return &c->kinds.at[i];
    stem_vec_push(&c->kinds, (struct kind){.name = name});
    return &stem_vec_last(&c->kinds);
}

static void judge(struct kind *k, const struct stem_plan_op *op, const struct stem_tensor *t, const uint8_t *gpu,
                  const uint8_t *cpu)
{
    uint64_t n = stem_tensor_extent(t) * 8 / stem_dtype_bits(t->dtype), differ = 0;
    bool integer = t->dtype == STEM_I32 || t->dtype == STEM_I64 || t->dtype == STEM_U8;
    double diff = 0, norm = 0;
    for (uint64_t i = 0; i < n; i++) {
        double a = stem_element(t->dtype, gpu, i), b = stem_element(t->dtype, cpu, i);
        differ += integer && a != b;
        if (a == b && isinf(b)) /* a mask: its difference would be NaN */
            continue;
        diff += (a - b) * (a - b);
        norm += b * b;
    }
    if (integer) {
        k->integers += n;
        k->mismatches += differ;
        return;
    }
    double e = norm > 0 ? sqrt(diff / norm) : sqrt(diff);
    /* bf16 keeps 8 bits: a correct op differs by a rounding here and there, far below 1e-2 in norm. NaN fails. */
    double limit = t->dtype == STEM_F32 ? 1e-4 : t->dtype == STEM_F16 ? 2e-3 : 1e-2;
    if (!(e <= limit))
        k->wrong++;
    if (!(e <= k->worst)) {
        k->worst = e;
        k->worst_op = op->name;
    }
}

/* Memory that the op worked in: no two runs leave the same there. */
static bool is_scratch(const struct stem_plan_op *op, uint32_t operand)
{
    const struct stem_op_def *def = stem_op_find(op->kind);
    uint32_t first = def ? op->n_operands - stem_op_n_results(def) : 0;
    return def && operand >= first && def->scratch >> (operand - first) & 1;
}

static bool compare_op(struct compare *c, const struct stem_plan_op *op, const uint64_t *at)
{
    void *host[STEM_MAX_OPERANDS] = {0};
    uint8_t *owned[STEM_MAX_OPERANDS] = {0}, *gpu[STEM_MAX_OPERANDS] = {0};
    struct kind *k = kind_of(c, op->kind);
    bool fine = op->n_operands <= STEM_MAX_OPERANDS;
    for (uint32_t i = 0; fine && i < op->n_operands; i++) {
        const struct stem_plan_operand *o = &op->operands[i];
        if (o->tensor.rank == STEM_NONE)
            continue;
        uint64_t bytes = stem_tensor_extent(&o->tensor);
        if (o->access == STEM_READ && c->v->buffers[o->tensor.buffer].kind == STEM_BUFFER_WEIGHT) {
            fine = (host[i] = (void *)weight(c, at[i], bytes)) != NULL;
            continue;
        }
        if (o->access == STEM_READ_WRITE) {
            owned[i] = c->before[i];
            c->before[i] = NULL;
        } else if (o->access == STEM_READ) {
            owned[i] = download(c, at[i], bytes);
        } else {
            owned[i] = stem_xmalloc(bytes);
            memset(owned[i], 0xff, bytes);
        }
        fine = (host[i] = owned[i]) != NULL;
        if (fine && o->access & STEM_WRITE)
            fine = (gpu[i] = download(c, at[i], bytes)) != NULL;
    }
    if (fine && !(fine = stem_cpu_op(c->g->many.plan, op, host, &c->why)))
        c->failed = op->name;
    for (uint32_t i = 0; i < op->n_operands && i < STEM_MAX_OPERANDS; i++) {
        if (fine && gpu[i] && !is_scratch(op, i))
            judge(k, op, &op->operands[i].tensor, gpu[i], host[i]);
        free(owned[i]);
        free(gpu[i]);
    }
    k->ops++;
    return fine;
}

static bool after_op(void *user, const struct stem_plan_op *op, uint32_t index, const uint64_t *operands)
{
    struct compare *c = user;
    return compare_op(c, op, operands) && keep_inout(c, index + 1);
}

static int report(struct compare *c)
{
    uint32_t wrong = 0;
    printf("  %-22s %6s  %-10s %s\n", "against the CPU", "ops", "error", "where it is largest");
    for (uint32_t i = 0; i < c->kinds.len; i++) {
        const struct kind *k = &c->kinds.at[i];
        printf("  %-22s %6u  %-10.2e %s", k->name, k->ops, k->worst, k->worst_op ? k->worst_op : "");
        if (k->integers)
            printf(" (%llu of %llu integers differ)", (unsigned long long)k->mismatches, (unsigned long long)k->integers);
        if (k->wrong)
            printf("  WRONG in %u ops", k->wrong);
        putchar('\n');
        /* Near ties may fall either way when the last bit of a score differs. */
        wrong += k->wrong + (k->mismatches * 100 > k->integers);
    }
    return wrong ? STEM_EXIT_DIFFER : STEM_EXIT_OK;
}

int stem_gpu_check_ops(struct stem_gpu *g, uint32_t variant)
{
    struct compare c = {.g = g, .v = &g->many.plan->variants[variant]};
    struct stem_launch_options o = {.poison = true, .delay_op = STEM_NONE, .after_op = after_op, .user = &c};
    int status = STEM_EXIT_OK;
    bool fine = stem_exec_reset_state(g->many.exec, &c.err) == STEM_OK && keep_inout(&c, 0) &&
                stem_exec_launch_with(g->many.exec, variant, g->stream, &o, &c.err) == STEM_OK;
    if (fine)
        status = report(&c);
    else if (c.failed)
        stem_cli_error("no reference for %s: %s", c.failed, c.why ? c.why : "?"), status = STEM_EXIT_WORLD;
    else
        status = stem_cli_rt_error(&c.err);
    free(c.why);
    for (uint32_t i = 0; i < c.weights.len; i++)
        free(c.weights.at[i].data);
    for (uint32_t i = 0; i < STEM_MAX_OPERANDS; i++)
        free(c.before[i]);
    stem_vec_free(&c.weights);
    stem_vec_free(&c.kinds);
    return status;
}
