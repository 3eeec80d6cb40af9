/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that were issued and are not executed yet: a graph of dependencies, executed only when a call waits for
 * part of it, in an order chosen to be as unkind as the dependencies allow.
 *
 * A programmatic edge into a kernel that executes griddepcontrol.wait orders like any other. Into a kernel that does
 * not it only orders the starts: the kernel may run as soon as its predecessor may, so it inherits what the
 * predecessor waits for.
 */
#include "core.h"

#include <utlist.h>

static struct fc_op *pending; /* in issue order */
static uint32_t n_pending;
static struct fc_ops ready; /* of those, what waits for nothing */
static uint64_t seq;
static uint32_t launches;

struct fc_op *fc_ref(struct fc_op *op)
{
    op->refs++;
    return op;
}

void fc_unref(struct fc_op *op)
{
    if (--op->refs)
        return;
    fc_work_free(&op->work);
    free(op->deps.at);
    free(op->succs.at);
    free(op);
}

void fc_ops_clear(struct fc_ops *v)
{
    for (size_t i = 0; i < v->len; i++)
        fc_unref(v->at[i]);
    FC_FREE(v);
}

void fc_ops_add(struct fc_ops *v, struct fc_op *op)
{
    for (size_t i = 0; i < v->len; i++)
        if (v->at[i] == op)
            return;
    FC_PUSH(v, fc_ref(op));
}

static void depend(struct fc_op *op, struct fc_op *on)
{
    op->start = on->end > op->start ? on->end : op->start;
    if (on->done)
        return;
    size_t n = op->deps.len;
    fc_ops_add(&op->deps, on);
    if (op->deps.len == n)
        return;
    FC_PUSH(&on->succs, op);
    op->unmet++;
}

struct fc_op *fc_submit(struct fc_work work, uint32_t stream, const struct fc_ops *deps, const bool *programmatic)
{
    struct fc_op *op = fc_alloc(sizeof *op);
    op->seq = ++seq;
    op->refs = 1; /* the list of pending operations */
    op->stream = op->lane = stream;
    op->correlation = ++launches;
    op->work = work;
    bool waits = work.type != CU_GRAPH_NODE_TYPE_KERNEL || work.u.launch.function->kernel->waits;
    for (size_t i = 0; i < deps->len; i++) {
        struct fc_op *d = deps->at[i];
        if (!programmatic || !programmatic[i] || waits || d->work.type != CU_GRAPH_NODE_TYPE_KERNEL)
            depend(op, d);
        else
            for (size_t k = 0; k < d->deps.len; k++)
                depend(op, d->deps.at[k]);
    }
    DL_APPEND(pending, op);
    n_pending++;
    if (!op->unmet)
        FC_PUSH(&ready, op);
    return op;
}

static void complete(struct fc_op *op)
{
    op->done = true;
    DL_DELETE(pending, op);
    n_pending--;
    for (size_t i = 0; i < op->succs.len; i++)
        if (--op->succs.at[i]->unmet == 0)
            FC_PUSH(&ready, op->succs.at[i]);
    fc_ops_clear(&op->deps);
    if (op->exec)
        op->exec->running--;
    fc_unref(op);
}

/* Index into ready of what goes next. `only`: among the wanted. */
static size_t pick(bool only)
{
    size_t best = ready.len, seen = 0;
    for (size_t i = 0; i < ready.len; i++) {
        const struct fc_op *op = ready.at[i];
        if (only && !op->wanted)
            continue;
        seen++;
        bool better;
        if (fc.order == FAKECUDA_RANDOM)
            better = fc_random() % seen == 0;
        else if (fc.order == FAKECUDA_LAST)
            better = best == ready.len || op->seq > ready.at[best]->seq;
        else
            better = best == ready.len || op->seq < ready.at[best]->seq;
        if (better)
            best = i;
    }
    return best;
}

/* True if it was wanted. */
static bool run_next(bool only)
{
    size_t i = pick(only);
    struct fc_op *op = ready.at[i];
    ready.at[i] = ready.at[--ready.len];
    /* An error of the device ends the context: nothing executes after it. */
    if (!fc.sticky) {
        fc_cupti_record(op);
        fc_work_run(&op->work);
    }
    bool wanted = op->wanted;
    complete(op);
    return wanted;
}

/* Dependencies come earlier in issue order, so one walk backwards finds all that the marked ones need. */
static uint32_t spread_wanted(void)
{
    uint32_t n = 0;
    if (!pending)
        return 0;
    for (struct fc_op *op = pending->prev;; op = op->prev) {
        if (op->wanted) {
            n++;
            for (size_t i = 0; i < op->deps.len; i++)
                op->deps.at[i]->wanted = true;
        }
        if (op == pending)
            return n;
    }
}

static void run_wanted(void)
{
    uint32_t left = spread_wanted();
    /* Work that nobody waits for may run now or later. */
    bool only = fc.order == FAKECUDA_LAST || (fc.order == FAKECUDA_RANDOM && fc_random() % 2);
    while (left)
        left -= run_next(only);
}

void fc_sync_ops(const struct fc_ops *targets, uint32_t stream)
{
    for (size_t i = 0; targets && i < targets->len; i++)
        targets->at[i]->wanted = true;
    struct fc_op *op;
    if (stream)
        DL_FOREACH(pending, op)
        {
            if (op->stream == stream)
                op->wanted = true;
        }
    run_wanted();
}

void fc_sync_all(void)
{
    struct fc_op *op;
    DL_FOREACH(pending, op)
    {
        op->wanted = true;
    }
    run_wanted();
}

bool fc_stream_busy(uint32_t stream, const struct fc_ops *tail)
{
    for (size_t i = 0; i < tail->len; i++)
        if (!tail->at[i]->done)
            return true;
    const struct fc_op *op;
    DL_FOREACH(pending, op)
    {
        if (op->stream == stream)
            return true;
    }
    return false;
}

uint32_t fc_pending(void)
{
    return n_pending;
}

bool fc_pending_module(const struct fc_module *m)
{
    const struct fc_op *op;
    DL_FOREACH(pending, op)
    {
        if (op->work.type == CU_GRAPH_NODE_TYPE_KERNEL && op->work.u.launch.function->module == m)
            return true;
    }
    return false;
}

void fc_sched_reset(void)
{
    while (pending) {
        FC_FREE(&ready);
        complete(pending);
    }
    FC_FREE(&ready);
    seq = 0;
}
