# SPDX-License-Identifier: Apache-2.0
"""The lane rule of driver 580 written for clarity, not speed: what src/lanes/driver_580.c is held against.

    python3 rule.py FILE...          says how many measured graphs come out exactly
    python3 rule.py --lanes FILE...  prints the graphs with the lanes that the rule gives

    lanes(n, edges, programmatic=set(), kinds=None) -> list of lane numbers, renumbered by first appearance

n             nodes 0..n-1 in creation order; the order in which edges were added does not matter
edges         (parent, child) pairs, programmatic ones included
programmatic  the subset of edges that are programmatic
kinds         one letter per node: k kernel, e empty, m memset, h host; default: all kernels

An empty node that is contracted away has lane None. Lanes of m, h and remaining e nodes are the rule's own bookkeeping:
only lanes of kernels were ever observed. Renumber after dropping the nodes that cannot be seen: visible(lanes, kinds).
"""

import sys
import itertools

MAX_BRANCHES = 6            # a fork wider than this is not laid out as a fork


def lanes(n, edges, programmatic=frozenset(), kinds=None):
    kinds = kinds or 'k' * n
    programmatic = set(programmatic)
    parents = [[] for _ in range(n)]
    children = [[] for _ in range(n)]
    for a, b in sorted(set(edges)):
        parents[b].append(a)
        children[a].append(b)

    nodes = _contract_empty(range(n), kinds, parents, children, programmatic)
    order = _order(nodes, parents, children)
    roots = [v for v in order if not parents[v]]
    tail = _bottlenecks(nodes, order, parents, children)

    # Region owner: a root, or a node with a non-kernel parent, owns itself; else the
    # highest owner among the parents.
    owner = [0] * n
    for v in order:
        cut = any(kinds[p] != 'k' for p in parents[v])
        owner[v] = v if cut else max((owner[p] for p in parents[v]), default=v)

    def inner(c):               # a kernel hanging on kernels only
        return kinds[c] == 'k' and all(kinds[p] == 'k' for p in parents[c])

    def shared(u, c):           # child c also hangs on a region with another owner
        return any(owner[p] != owner[u] for p in parents[c])

    lane = [None] * n
    fresh = itertools.count()
    claimed = {}                # nodes already handled as somebody's programmatic child: among how many

    for u in order:
        if lane[u] is None:                     # nobody gave u a lane
            lane[u] = lane[roots[0]] if u in tail and parents[u] else next(fresh)
        give = lane[u]                          # the first pick continues u's lane

        # ---- 1. the fork: children that are inner kernels of a kernel u. Shared ones
        # leave the list by swap-with-last (the others still hold their places then).
        kids = children[u][:]
        is_fork = {c: kinds[u] == 'k' and inner(c) for c in kids}
        q = len(kids)
        for i in reversed(range(q)):
            if is_fork[kids[i]] and shared(u, kids[i]):
                q -= 1
                kids[i], kids[q] = kids[q], kids[i]
        p = sum(is_fork[c] for c in kids[:q])
        outer = [c for c in children[u] if not is_fork[c]]
        kids = [c for c in kids if is_fork[c]]  # kids[:p] private, kids[p:] shared
        k = len(kids)
        if p + (p < k) > MAX_BRANCHES:          # too wide: every child counts as shared
            kids, p = [c for c in children[u] if is_fork[c]], 0

        # private children over an unclaimed programmatic edge go first (stable)
        prog = [c for c in kids[:p] if (u, c) in programmatic and c not in claimed]
        a = len(prog)
        # ... or, if there are none, those that an earlier parent claimed alone
        front = prog or [c for c in kids[:p] if (u, c) in programmatic and claimed[c] == 1]
        kids = front + [c for c in kids[:p] if c not in front] + kids[p:]

        free = [lane[c] is None for c in kids]
        able = [free[i] or (kids[i] in tail and i < k - 1) for i in range(p)]
        picks = [i for i in range(p) if able[i]]
        # "last is left": the last entry of a list is left for a later parent if the entry
        # before it is picked. Applies to the programmatic part on its own ...
        if a > 1 and able[a - 1] and able[a - 2]:
            picks.remove(a - 1)
        # ... and to the rest, unless there are shared children. A rest of one entry
        # looks at the programmatic part: left if that has two entries or is picked.
        if p == k and a < p and able[p - 1]:
            if p - a > 1:
                leave = able[p - 2]
            else:
                leave = a > 1 or (a == 1 and able[0])
            if leave:
                picks.remove(p - 1)
        for i in reversed(range(p, k)):         # at most one shared child: the last free one
            if free[i] or (i == k - 1 and kids[i] in tail):
                picks.append(i)
                break

        for i in picks:                         # further picks open new lanes
            c = kids[i]
            pinned = c in tail and ((i < k - 1 or k == 1) if i < p else i == k - 1)
            if not pinned:
                lane[c] = next(fresh) if give is None else give
            give = None
        claimed.update((c, a) for c in prog)

        # ---- 2. the others: at most one, the first free one, and only if u's lane
        #         is still unspent and the fork had no shared children
        if give is not None and p == k:
            c = next((c for c in outer if lane[c] is None), None)
            if c is not None and (c not in tail or c != outer[0]):
                lane[c] = give

    first = {}
    return [None if x is None else first.setdefault(x, len(first)) for x in lane]


def visible(lane, kinds):
    """Lanes of the kernels only, renumbered; None for every other node."""
    first = {}
    return [first.setdefault(x, len(first)) if k == 'k' else None for x, k in zip(lane, kinds)]


def _order(nodes, parents, children):
    """Topological order: scan ids upwards; a node that was passed over because a
    parent was missing is queued (FIFO) as soon as its last parent is placed."""
    missing = {v: len(parents[v]) for v in nodes}
    order, placed = [], set()
    for i in sorted(nodes):
        if i in placed or missing[i]:
            continue
        queue = [i]
        for u in queue:
            placed.add(u)
            order.append(u)
            for c in sorted(children[u]):
                missing[c] -= 1
                if missing[c] == 0 and c < i:
                    queue.append(c)
    return order


def _contract_empty(order, kinds, parents, children, programmatic):
    """Remove, in order, every empty node that has (by then) at most one parent or at most
    one child. Each parent's child list: append the children not there yet, then
    move the last entry into the removed node's place. A programmatic edge that is doubled
    so becomes an ordinary one. Returns the remaining nodes."""
    left = []
    for e in order:
        if kinds[e] != 'e' or (len(parents[e]) > 1 and len(children[e]) > 1):
            left.append(e)
            continue
        for q in parents[e]:
            kids = children[q]
            new = [c for c in children[e] if c not in kids]
            programmatic.difference_update((q, c) for c in children[e])
            at = kids.index(e)
            kids += new
            kids[at] = kids[-1]
            kids.pop()
            for c in new:
                parents[c].append(q)
        for c in children[e]:
            parents[c].remove(e)
        parents[e], children[e] = [], []
    return left


def _bottlenecks(nodes, order, parents, children):
    """With exactly one sink: the nodes that all root-to-sink paths cross. They are
    pinned to the first lane."""
    sinks = [v for v in nodes if not children[v]]
    if len(sinks) != 1:
        return set()
    up, down = {}, {}
    for v in order:
        up[v] = sum(up[p] for p in parents[v]) if parents[v] else 1
    for v in reversed(order):
        down[v] = sum(down[c] for c in children[v]) if children[v] else 1
    return {v for v in nodes if up[v] * down[v] == up[sinks[0]]}


def parse(line):
    fields = line.split('|')
    head = fields[0].split()
    n = int(head[1])
    kinds = head[2] if len(head) > 2 else 'k' * n
    edges, programmatic = [], set()
    for word in fields[1].split():
        a, b = map(int, word.rstrip('p').split('>'))
        edges.append((a, b))
        if word.endswith('p'):
            programmatic.add((a, b))
    measured = [None if x == '-' else int(x) for x in fields[2].split()] if len(fields) > 2 else None
    return head, n, kinds, edges, programmatic, measured


def main(args):
    show = args[:1] == ['--lanes']
    for path in args[show:]:
        graphs = exact = 0
        for line in open(path):
            if line.startswith('#'):
                continue
            head, n, kinds, edges, programmatic, measured = parse(line)
            got = visible(lanes(n, edges, programmatic, kinds), kinds)
            graphs += 1
            exact += got == measured
            if show:
                text = ['%d>%d%s' % (a, b, 'p' * ((a, b) in programmatic)) for a, b in edges]
                print(' '.join(head + ['|'] + text + ['|'] + ['-' if x is None else str(x) for x in got]))
        if not show:
            print('%s: %d of %d' % (path, exact, graphs))


if __name__ == '__main__':
    main(sys.argv[1:])
