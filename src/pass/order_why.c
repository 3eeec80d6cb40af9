/* SPDX-License-Identifier: Apache-2.0
 *
 * Why ops are issued where they are, in words. The pass notes a few numbers for each op; words are made only for who
 * asks.
 */
#include "pass/order.h"

const char *stem_why_text(const struct stem_program *p, struct stem_op_id op, struct stem_arena *a, uint32_t *other)
{
    if (op.n >= p->sched.why.len)
        return NULL;
    const struct stem_why *w = &p->sched.why.at[op.n];
    *other = w->other;
    switch (w->kind) {
    case STEM_WHY_ONLY:
        return "the only op on main that was ready";
    case STEM_WHY_URGENT:
        return stem_arena_printf(a, "of %u ready ops on main the one that can be put off least", w->n);
    case STEM_WHY_AHEAD:
        return "ahead of @, which would have to wait for a side stream here";
    case STEM_WHY_NEEDED:
        return "as late as possible: needed by @, the next op on main";
    case STEM_WHY_JOINED:
        return "no op on main needs it; issued here since @ joins its stream anyway";
    case STEM_WHY_PATIENCE:
        return stem_arena_printf(
            a,
            "no op on main needs it; put off for %u ops on main, no longer, so that what it reads is "
            "not kept for ever",
            w->n);
    case STEM_WHY_REST:
        return "no op on main needs it; last in its segment";
    case STEM_WHY_TEXT:
        return "the first in the text that was ready";
    case STEM_WHY_SIDE:
        return "side-first: a side op that was ready goes before ops on main";
    case STEM_WHY_MAIN:
        return "side-first: no side op was ready";
    case STEM_WHY_RANK:
        return "of the ready ops the one that can be put off least";
    case STEM_WHY_UNKNOWN:
        break;
    }
    return NULL;
}

/* "needed by 'out'" */
static const char *with_name(const struct stem_program *p, const char *text, uint32_t other, struct stem_arena *a)
{
    const char *at = text;
    while (*at && *at != '@')
        at++;
    if (!*at || other == STEM_NONE)
        return text;
    return stem_arena_printf(a, "%.*s'%s'%s", (int)(at - text), text, stem_op_label(p, (struct stem_op_id){other}),
                             at + 1);
}

/* Lists of waits by one of their ends. */
struct lists {
    uint32_t *first, *next;
};

static struct lists list_waits(const struct stem_program *p, struct stem_arena *a, bool by_to)
{
    uint32_t n = p->sched.waits.len;
    struct lists l = {STEM_NEW_ARRAY(a, uint32_t, p->ops.len + 1), STEM_NEW_ARRAY(a, uint32_t, n + 1)};
    for (uint32_t i = 0; i < p->ops.len; i++)
        l.first[i] = STEM_NONE;
    for (uint32_t i = n; i-- > 0;) {
        const struct stem_wait *w = &p->sched.waits.at[i];
        struct stem_op_id end = by_to ? w->to : w->from;
        if (end.n == STEM_NONE)
            continue;
        l.next[i] = l.first[end.n];
        l.first[end.n] = i;
    }
    return l;
}

static const char *wait_words(const struct stem_program *p, const struct lists *l, uint32_t op, bool to,
                              struct stem_arena *a)
{
    const char *words = "";
    for (uint32_t i = l->first[op]; i != STEM_NONE; i = l->next[i]) {
        const struct stem_wait *w = &p->sched.waits.at[i];
        struct stem_op_id other = to ? w->from : w->to;
        if (other.n == STEM_NONE)
            words = stem_arena_printf(a, "%s; %s", words,
                                      to ? "waits for the start of the segment" : "main waits for it at the end");
        else
            words = stem_arena_printf(a, to ? "%s; waits for '%s' on %s%s" : "%s; its event lets '%s' start on %s%s",
                                      words, stem_op_label(p, other),
                                      stem_sym_str(p->strings, p->streams.at[stem_op_at(p, other)->stream.n].name),
                                      w->lane ? " (for the lanes)" : "");
    }
    return words;
}

void stem_order_remarks(const struct stem_program *p, struct stem_diags *diags)
{
    struct stem_arena *a = stem_arena_new();
    struct lists to = list_waits(p, a, true), from = list_waits(p, a, false);
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        struct stem_op_id op = p->sched.order.at[i];
        uint32_t other = STEM_NONE;
        const char *text = stem_why_text(p, op, a, &other);
        stem_remark(diags, "order", stem_op_at(p, op)->span, "'%s' is issued %u of %u: %s%s%s", stem_op_label(p, op),
                    i + 1, p->sched.order.len, text ? with_name(p, text, other, a) : "not known why",
                    wait_words(p, &to, op.n, true, a), wait_words(p, &from, op.n, false, a));
    }
    stem_arena_free(a);
}
