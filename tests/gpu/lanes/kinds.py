# SPDX-License-Identifier: Apache-2.0
"""Graphs to measure for nodes that are not kernels: small ones systematically, then random ones. Prints measured-format
lines without lanes.

    python3 kinds.py small KINDS                   every DAG of 3 and 4 nodes with one or two of them, some of 5 nodes
    python3 kinds.py random SEED COUNT KINDS [IN]  random DAGs of 3 to 12 nodes, and programs of 2 to 4 streams

KINDS are letters (docs/lanes.md); a free node that comes after an allocation frees it. What child graphs (g) and bodies
of conditional nodes (i) hold is random: kinds of IN (default k), child graphs within child graphs if IN has g. The
same arguments give the same graphs. Graphs of a seed that no rule was fitted to say how good the model is; keep a seed
for that."""

import itertools
import random
import sys

BODY = 'kcmleg'     # what the driver lets a body hold
CHILD = 'kcmlehrwtg'


class Graph:
    """Nodes in order of creation; a node's contents follow it."""

    def __init__(self):
        self.kinds, self.edges, self.within = [], [], []

    def add(self, rng, kind, holder, inside, depth=0):
        v = len(self.kinds)
        self.kinds.append(kind)
        self.within.append(holder)
        if kind in 'gi' and inside:
            self.fill(rng, v, [c for c in inside if c in (BODY if kind == 'i' else CHILD)] or ['k'], depth)
        return v

    def fill(self, rng, holder, inside, depth):
        n = rng.choice([1, 1, 2, 2, 3, 3, 4])
        density = rng.choice([0, 0.3, 0.6])
        inside = [c for c in inside if c != 'g' or depth < 2]
        at = [self.add(rng, rng.choice(inside) if rng.random() < 0.5 else 'k', holder, inside, depth + 1)
              for _ in range(n)]
        self.edges += ['%d>%d' % p for p in itertools.combinations(at, 2) if rng.random() < density]

    def line(self, label):
        inner = ['%d@%d' % (v, w) for v, w in enumerate(self.within) if w is not None]
        print('%s %d %s | %s' % (label, len(self.kinds), ''.join(self.kinds), ' '.join(self.edges + inner)))


def dags(n):
    pairs = list(itertools.combinations(range(n), 2))
    for bits in range(1 << len(pairs)):
        yield [p for i, p in enumerate(pairs) if bits >> i & 1]


def put(label, n, letters, edges, rng, inside):
    """`letters`: by place, the kinds that are not kernels."""
    g = Graph()
    at = [g.add(rng, letters.get(v, 'k'), None, inside) for v in range(n)]
    g.edges += ['%d>%d' % (at[a], at[b]) for a, b in edges]
    g.line(label)


def small(kinds, rng):
    for n in 3, 4:
        for edges in dags(n):
            for place in range(n):
                for c in kinds:
                    put('S%d' % n, n, {place: c}, edges, rng, 'k')
    for edges in dags(4):
        for places in itertools.combinations(range(4), 2):
            for letters in [(c, c) for c in kinds] if len(kinds) == 1 else itertools.permutations(kinds, 2):
                put('D4', 4, dict(zip(places, letters)), edges, rng, 'k')
    five = list(dags(5))
    for _ in range(500):
        put('S5', 5, {rng.randrange(5): rng.choice(kinds)}, rng.choice(five), rng, 'k')


def dag(rng, others, inside):
    n = rng.choice([3, 4, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12])
    density = rng.choice([0.12, 0.2, 0.35, 0.6])
    pdl = rng.choice([0, 0, 0.3])
    letters = {rng.randrange(n): rng.choice(others) for _ in range(rng.randint(1, max(1, n // 3)))}
    g = Graph()
    at = [g.add(rng, letters.get(v, 'k'), None, inside) for v in range(n)]
    for a, b in itertools.combinations(range(n), 2):
        if rng.random() < density:
            kernels = a not in letters and b not in letters
            g.edges.append('%d>%d%s' % (at[a], at[b], 'p' * (kernels and rng.random() < pdl)))
    g.line('R')


def program(rng, others, inside):
    streams = rng.randint(2, 4)
    n = rng.randint(6, 40)
    share = rng.choice([0.05, 0.15, 0.3])
    pdl = rng.choice([0, 0, 0, 0.3])
    pending = [[] for _ in range(streams)]      # what the next node on a stream depends on
    g = Graph()
    for v in range(n):
        s = rng.randrange(streams)
        while v and not pending[s]:             # a stream joins by waiting for one that has work
            pending[s] = list(pending[rng.randrange(streams)])
        at = g.add(rng, rng.choice(others) if rng.random() < share else 'k', None, inside)
        for k, u in enumerate(dict.fromkeys(pending[s])):
            p = k == 0 and g.kinds[u] == 'k' == g.kinds[at] and rng.random() < pdl
            g.edges.append('%d>%d%s' % (u, at, 'p' * p))
        pending[s] = [at]
        if rng.random() < 0.35:                 # an event: another stream waits for this one
            t = rng.randrange(streams)
            if t != s:
                pending[t] = pending[t] + [at]
    g.line('P')


def main(what, *args):
    if what == 'small':
        small(args[0], random.Random(5))
        return
    seed, count, kinds = args[:3]
    inside = args[3] if len(args) > 3 else 'k'
    rng = random.Random(' '.join((seed, kinds, inside)))
    for i in range(int(count)):
        (program if i % 2 else dag)(rng, kinds, inside)


if __name__ == '__main__':
    main(*sys.argv[1:])
