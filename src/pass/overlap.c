/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/overlap.h"

#include "costs/costs.h"

static double share(double part, double whole)
{
    return whole > 0 && part < whole ? part / whole : part > 0 ? 1 : 0;
}

double stem_bandwidth_share(const struct stem_options *o, const struct stem_op *op)
{
    return share(1e6 * ((double)op->cost.bytes_read + (double)op->cost.bytes_written) / o->target.bandwidth, op->est_us);
}

static double arithmetic_share(const struct stem_options *o, const struct stem_op *op)
{
    return share(1e6 * (double)op->cost.flops / stem_cost_rate(&op->cost, &o->target), op->est_us);
}

static const struct stem_cost_pair *measured(const struct stem_options *o, const struct stem_op *a, const struct stem_op *b)
{
    return o->costs && a->measured && b->measured ? stem_costs_find_pair(o->costs, a->measured - 1, b->measured - 1) : NULL;
}

struct stem_slowdown stem_slowdown(const struct stem_options *o, const struct stem_op *a, const struct stem_op *b)
{
    const struct stem_cost_pair *pair = measured(o, a, b);
    if (pair)
        return (struct stem_slowdown){pair->slowdown, true};
    double bytes = stem_bandwidth_share(o, a) + stem_bandwidth_share(o, b),
           flops = arithmetic_share(o, a) + arithmetic_share(o, b), most = bytes > flops ? bytes : flops;
    return (struct stem_slowdown){most > 1 ? most : 1, false};
}

double stem_fork_price_left(double price, double slack)
{
    return slack <= 0 ? price : slack < 0.75 * price ? price - slack : 0.25 * price;
}

double stem_fork_price(const struct stem_options *o, const struct stem_op *main, const struct stem_op *side, double slack)
{
    const struct stem_cost_pair *pair = measured(o, main, side);
    if (!pair)
        return stem_fork_price_left(o->target.fork_us, slack);
    double had = main->est_us > side->est_us ? main->est_us - side->est_us : 0; /* when it was measured */
    return pair->fork_us > 0 ? stem_fork_price_left(pair->fork_us, slack - had) : 0;
}

/* Where a line is. */
struct at {
    uint32_t op;
    double left; /* of that op, by itself */
};

static void advance(const struct stem_lines *l, const uint32_t *line, uint32_t n, struct at *at, double us)
{
    at->left -= us;
    if (at->left > 1e-9)
        return;
    at->op++;
    at->left = at->op < n ? l->ops[line[at->op]].est_us : 0;
}

/* The factor by which two ops that run are slowed down, with what others take. */
static double factor_of(const struct stem_options *o, const struct stem_lines *l, uint32_t main, uint32_t side,
                        struct stem_overlap *r)
{
    const struct stem_op *a = &l->ops[l->main[main]], *b = &l->ops[l->side[side]];
    struct stem_slowdown d = stem_slowdown(o, a, b);
    double all = l->extra > 0 ? stem_bandwidth_share(o, a) + stem_bandwidth_share(o, b) + l->extra : 0;
    r->measured = d.measured && (r->measured || !r->met);
    r->met = true;
    return all > d.factor ? all : d.factor;
}

static uint32_t longest(const struct stem_lines *l)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < l->n_main && i < 64; i++)
        if (l->ops[l->main[i]].est_us > l->ops[l->main[most]].est_us)
            most = i;
    return most;
}

/* What main has to do before it comes to `join`. */
static double before_join(const struct stem_lines *l, const struct at *m, double filler)
{
    double us = m->op < l->join ? m->left + filler : 0;
    for (uint32_t i = m->op + 1; i < l->join && i < l->n_main; i++)
        us += l->ops[l->main[i]].est_us;
    return us;
}

struct stem_overlap stem_overlap(const struct stem_options *o, const struct stem_lines *l)
{
    struct stem_overlap r = {0};
    struct at m = {0, l->n_main ? l->ops[l->main[0]].est_us : 0}, s = {0, l->n_side ? l->ops[l->side[0]].est_us : 0};
    double wait = l->delay, filler = l->filler, both = 0, slowed = 0;
    while (s.op < l->n_side) {
        bool main_runs = m.op < l->n_main && !(m.op >= l->join && s.op < l->n_needed), side_runs = wait <= 0;
        bool fills = !main_runs && filler > 0;
        if (!main_runs && !fills && !side_runs) {
            r.us += wait;
            wait = 0;
            continue;
        }
        double left = side_runs ? s.left : wait, main_left = main_runs ? m.left : fills ? filler : left,
               step = main_left < left ? main_left : left, factor = 1;
        if (main_runs && side_runs) {
            factor = factor_of(o, l, m.op, s.op, &r);
            both += step;
            slowed += step * factor;
        } else if (fills && side_runs) { /* as it was on average; or as with main's longest op */
            factor = both > 0 ? slowed / both : l->n_main ? factor_of(o, l, longest(l), s.op, &r) : 1;
        }
        r.us += step * factor;
        r.main_us += main_runs || fills ? step : 0;
        filler -= fills ? step : 0;
        if (main_runs)
            advance(l, l->main, l->n_main, &m, step);
        if (!side_runs) {
            wait -= step;
            continue;
        }
        uint32_t side = s.op, needed = l->n_needed ? l->n_needed : l->n_side;
        advance(l, l->side, l->n_side, &s, step);
        if (side < needed && s.op >= needed)
            r.slack_us = before_join(l, &m, filler);
    }
    return r;
}
