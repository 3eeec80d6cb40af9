/* SPDX-License-Identifier: Apache-2.0
 *
 * What an op takes by itself: as the table of costs has it, or as the model does.
 */
#include "costs/costs.h"
#include "pass/graph.h"
#include "pass/pdl.h"

/* About a third of the multiprocessors saturate device memory, so that one block draws 3 / n_sms of the bandwidth. */
#define BLOCK_BANDWIDTH 3.0

double stem_estimate_us(const struct stem_cost *c, const struct stem_target *t)
{
    double blocks = c->blocks ? c->blocks : 1, share = blocks / t->n_sms;
    double bytes = (double)c->bytes_read + (double)c->bytes_written;
    double move = bytes / (t->bandwidth * (BLOCK_BANDWIDTH * share < 1 ? BLOCK_BANDWIDTH * share : 1));
    double compute = (double)c->flops / (stem_cost_rate(c, t) * (share < 1 ? share : 1));
    return t->launch_us + 1e6 * (move > compute ? move : compute);
}

enum stem_known stem_cost_find(const struct stem_program *p, const struct stem_op *op, const struct stem_options *o,
                               const char *key, uint32_t *entry)
{
    struct stem_arena *a = stem_arena_new();
    *entry = stem_costs_find(o->costs, key ? key : stem_cost_key(p, op, a));
    enum stem_known k = *entry == STEM_NONE ? STEM_COST_UNKNOWN : STEM_COST_KNOWN;
    if (k == STEM_COST_KNOWN && o->costs->entries.at[*entry].kernel != stem_cost_kernel(p, op, &o->target))
        k = STEM_COST_STALE;
    stem_arena_free(a);
    return k;
}

void stem_cost_set(struct stem_op *op, const struct stem_options *o, enum stem_known k, uint32_t entry)
{
    op->measured = k == STEM_COST_KNOWN ? entry + 1 : 0;
    if (!op->measured) {
        struct stem_target t = o->target;
        double start_us = op->class == STEM_OP_BUILTIN ? op->def->start_us : 0;
        bool early = o->pdl != STEM_PDL_OFF && t.sm >= STEM_PDL_SM && op->class != STEM_OP_EXTERN && start_us <= 0;
        t.launch_us = early ? t.early_us : t.launch_us + start_us;
        op->est_us = stem_estimate_us(&op->cost, &t);
        return;
    }
    const struct stem_cost_entry *e = &o->costs->entries.at[entry];
    bool early = o->pdl != STEM_PDL_OFF && o->target.sm >= STEM_PDL_SM && e->early_us > 0;
    op->est_us = early ? e->early_us : e->us;
}

void stem_cost_op(const struct stem_program *p, struct stem_op *op, const struct stem_options *o)
{
    uint32_t entry = STEM_NONE;
    enum stem_known k = o->costs ? stem_cost_find(p, op, o, NULL, &entry) : STEM_COST_UNKNOWN;
    stem_cost_set(op, o, k, entry);
}

/* Layers have the same ops: each is looked up once. */
struct memo {
    struct stem_strtab *keys;
    STEM_VEC(uint32_t) entry; /* by key; the hash of the kernel too was looked at */
    STEM_VEC(enum stem_known) known;
};

static void one_op(struct stem_program *p, struct stem_op *op, struct stem_pass_ctx *ctx, struct memo *m)
{
    struct stem_arena *a = stem_arena_new();
    const char *key = stem_cost_key(p, op, a);
    struct stem_sym s = stem_intern(m->keys, key);
    if (s.n > m->entry.len) {
        uint32_t entry;
        enum stem_known k = stem_cost_find(p, op, ctx->options, key, &entry);
        stem_vec_push(&m->entry, entry);
        stem_vec_push(&m->known, k);
        if (k == STEM_COST_STALE)
            stem_remark(ctx->diags, "streams", op->span,
                        "the table of costs has '%s', but of another kernel: it does not count", key);
    }
    stem_cost_set(op, ctx->options, m->known.at[s.n - 1], m->entry.at[s.n - 1]);
    stem_arena_free(a);
}

void stem_cost_all(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct memo m = {.keys = ctx->options->costs ? stem_strtab_new() : NULL};
    for (uint32_t i = 0; i < p->ops.len; i++) {
        struct stem_op *op = &p->ops.at[i];
        if (op->dead) {
            op->est_us = 0;
            op->measured = 0;
        } else if (m.keys) {
            one_op(p, op, ctx, &m);
        } else {
            stem_cost_set(op, ctx->options, STEM_COST_UNKNOWN, STEM_NONE);
        }
    }
    stem_strtab_free(m.keys);
    stem_vec_free(&m.entry);
    stem_vec_free(&m.known);
}
