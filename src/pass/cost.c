/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/graph.h"

/* About a third of the multiprocessors saturate device memory, so that one block draws 3 / n_sms of the bandwidth. */
#define BLOCK_BANDWIDTH 3.0

double stem_estimate_us(const struct stem_cost *c, const struct stem_target *t)
{
    double blocks = c->blocks ? c->blocks : 1, share = blocks / t->n_sms;
    double bytes = (double)c->bytes_read + (double)c->bytes_written;
    double move = bytes / (t->bandwidth * (BLOCK_BANDWIDTH * share < 1 ? BLOCK_BANDWIDTH * share : 1));
    double compute = (double)c->flops / (t->flops * (share < 1 ? share : 1));
    return t->launch_us + 1e6 * (move > compute ? move : compute);
}
