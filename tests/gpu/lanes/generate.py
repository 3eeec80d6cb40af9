# SPDX-License-Identifier: Apache-2.0
"""Graphs to measure: programs of 2 to 4 streams with events between them, as capture would record them, with
programmatic edges and nodes that are not kernels. Prints measured-format lines without lanes.

    python3 generate.py SEED COUNT [KINDS] > graphs.txt
    calibrate graphs.txt > measured.txt

KINDS are the kinds besides kernels (default emh). The same arguments give the same graphs. Graphs of a seed that no rule
was fitted to say how good the model is; keep a seed for that and do not look at its graphs.
"""

import random
import sys


def program(rng, others):
    streams = rng.randint(2, 4)
    n = rng.randint(6, 90)
    share = rng.choice([0, 0, 0.1, 0.3])
    pdl = rng.choice([0, 0, 0.2, 0.6])
    pending = [[] for _ in range(streams)]      # what the next node on a stream depends on
    kinds, edges, seen = [], [], set()
    for v in range(n):
        s = rng.randrange(streams)
        while v and not pending[s]:             # a stream joins by waiting for one that has work
            t = rng.randrange(streams)
            pending[s] = list(pending[t])
        kinds.append(rng.choice(others) if rng.random() < share else 'k')
        for k, u in enumerate(dict.fromkeys(pending[s])):
            p = k == 0 and kinds[u] == 'k' == kinds[v] and rng.random() < pdl
            edges.append('%d>%d%s' % (u, v, 'p' * p))
        pending[s] = [v]
        if rng.random() < 0.35:                 # an event: another stream waits for this one
            t = rng.randrange(streams)
            if t != s:
                pending[t] = pending[t] + [v]
    return 'PG %d %s | %s' % (n, ''.join(kinds), ' '.join(edges))


def main(seed, count, others='emh'):
    rng = random.Random(int(seed))
    for _ in range(int(count)):
        print(program(rng, others))


if __name__ == '__main__':
    main(*sys.argv[1:])
