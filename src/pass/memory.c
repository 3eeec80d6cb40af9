/* SPDX-License-Identifier: Apache-2.0
 *
 * memory: offsets of all temporaries in one slab. Two buffers share bytes only if every last use of one has happened
 * before every first use of the other, in happens-before over all streams; an op's own inputs and results are both
 * alive while it runs. place.c tries several heuristics and keeps the best; the lower bound is the heaviest set of
 * buffers found that no two of which may share.
 *
 * throttle.c keeps the slab of long programs from growing where streams could drift apart. If the slab is larger than
 * options.memory_budget, budget.c buys bytes with waits.
 */
#include "pass/budget.h"
#include "pass/place.h"
#include "pass/throttle.h"

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    stem_place(p, ctx->scratch);
    stem_memory_throttle(p, ctx);
    if (ctx->options->memory_budget && p->sched.slab_bytes > ctx->options->memory_budget)
        return stem_memory_buy(p, ctx);
    return true;
}

const struct stem_pass stem_pass_memory = {
    .name = "memory",
    .blurb = "offsets of temporaries in one slab",
    .needs = STEM_FACT_ORDER | STEM_FACT_WAITS | STEM_FACT_LIFETIME,
    .gives = STEM_FACT_MEMORY,
    .kills = STEM_FACT_LANES,
    .run = run,
};
