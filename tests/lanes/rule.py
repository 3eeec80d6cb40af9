# SPDX-License-Identifier: Apache-2.0
"""The lane rule of driver 580 written for clarity, not speed: what src/lanes/driver_580.c is held against.

    python3 rule.py FILE...          says how many measured graphs come out exactly
    python3 rule.py --lanes FILE...  prints the graphs with the lanes that the rule gives

    lanes(n, edges, programmatic=set(), kinds=None, within=None) -> list of lane numbers, by first appearance

n             nodes 0..n-1 in creation order; the order in which edges were added does not matter
edges         (parent, child) pairs, programmatic ones included
programmatic  the subset of edges that are programmatic
kinds         one letter per node (docs/lanes.md); default: all kernels
within        by node, the child graph or conditional node that it is in, or None

Empty nodes that are contracted away, and child graphs, have lane None. Lanes of nodes that leave no record are the rule's
own bookkeeping. Renumber after dropping the nodes that cannot be seen: visible(lanes, kinds).
"""

import itertools
import sys

MAX_BRANCHES = 6            # a fork wider than this is not laid out as a fork
KERNELS = 'kclg'            # treated as kernels: copies within the device, memsets of more than 4096 bytes; child graphs of unknown contents
EMPTIES = 'eaf'             # treated as empty: allocations and frees
SEEN = 'kcmtl'               # what CUPTI's records show


def lanes(n, edges, programmatic=frozenset(), kinds=None, within=None):
    kinds = list(kinds or 'k' * n)
    within = within or [None] * n
    edges = sorted(set(edges))
    flat = _Flat(n, edges, set(programmatic), kinds, within, False)
    tail = None
    if any(k in 'gi' for k in kinds):
        # What all paths cross is found with child graphs still closed, bodies of conditional nodes hanging on them.
        closed = _Flat(n, edges, set(programmatic), kinds, within, True)
        nodes = _contract(range(len(closed.kinds)), closed)
        order = _order(nodes, closed.parents, closed.children)
        tail = {flat.new[closed.old[v]] for v in _bottlenecks(nodes, order, closed.parents, closed.children)
                if closed.old[v] is not None and flat.new[closed.old[v]] is not None}
    lane, used = _assign(flat, tail)
    out = [None if flat.new[v] is None else lane[flat.new[v]] for v in range(n)]
    for v in range(n):          # bodies: lanes of their own
        if kinds[v] == 'i' and _top(v, within):
            used = _body(v, n, edges, programmatic, kinds, within, out, used)
    return _renumber(out)


def _assign(flat, tail):
    kinds, parents, children, programmatic = flat.kinds, flat.parents, flat.children, flat.programmatic
    n = len(kinds)
    nodes = _contract(range(n), flat)
    order = _order(nodes, parents, children)
    roots = [v for v in order if not parents[v]]
    if tail is None:
        tail = _bottlenecks(nodes, order, parents, children)

    # Region owner: a root, or a node with a parent that is no kernel, owns itself; else the highest owner among the
    # parents.
    owner = [0] * n
    for v in order:
        cut = any(kinds[p] not in KERNELS for p in parents[v])
        owner[v] = v if cut else max((owner[p] for p in parents[v]), default=v)

    def inner(c):               # a kernel hanging on kernels only
        return kinds[c] in KERNELS and all(kinds[p] in KERNELS for p in parents[c])

    def shared(u, c):           # child c also hangs on a region with another owner
        return any(owner[p] != owner[u] for p in parents[c])

    def heads_chain(c):         # its only child is pinned too, and has one child only
        return len(children[c]) == 1 and children[c][0] in tail and len(children[children[c][0]]) == 1

    lane = [None] * n
    fresh = itertools.count()
    claimed = {}                # nodes already handled as somebody's programmatic child: among how many

    for u in order:
        if lane[u] is None:                     # nobody gave u a lane
            lane[u] = lane[roots[0]] if u in tail and parents[u] else next(fresh)
        give = lane[u]                          # the first pick continues u's lane

        # ---- 1. the fork: children that are inner kernels of a kernel u. Shared ones leave the list by
        # swap-with-last (the others still hold their places then).
        is_fork = {c: kinds[u] in KERNELS and inner(c) for c in children[u]}
        kids, q = _to_the_end(children[u], lambda c: is_fork[c] and shared(u, c))
        private = kids[:q]
        others = [c for c in private if not is_fork[c]]
        kids = [c for c in kids if is_fork[c]]
        k, p = len(kids), sum(is_fork[c] for c in private)      # kids[:p] private, kids[p:] shared
        # Others that are pinned already hold u's lane, so to say: no kernel behind one goes on with it.
        holders = [c for c in others if c in tail and lane[c] is None] if kinds[u] in KERNELS else []
        spent = None                            # picks from this one on get new lanes
        wide = p + (p < k) > MAX_BRANCHES
        if wide:
            # Private children over a programmatic edge by swaps from the end; all others count as shared.
            kids, a = _to_the_end([c for c in children[u] if is_fork[c]],
                                  lambda c: (u, c) not in programmatic or shared(u, c))
            p, prog = 0, kids[:a]
            free = [lane[c] is None for c in kids]
            picks = [i for i in range(a) if free[i]]
            if a > 1 and free[a - 1] and free[a - 2]:
                picks.remove(a - 1)
            rest = range(a, k)
        else:
            # Private children over an unclaimed programmatic edge go first (stable), or, if there are none, those that
            # an earlier parent claimed alone.
            prog = [c for c in kids[:p] if (u, c) in programmatic and c not in claimed]
            a = len(prog)
            front = prog or [c for c in kids[:p] if (u, c) in programmatic and claimed[c] == 1]
            first = next((c for c in private if is_fork[c] or c in holders), None)
            kids = front + [c for c in kids[:p] if c not in front] + kids[p:]
            if holders and (a > 1 or (a == 1 and prog[0] != first)):
                kids.insert(0, holders[0])      # a holder comes before programmatic children that had to move
                a, p, k = a + 1, p + 1, k + 1
            elif a == 0 and others[:1] == holders[:1] and holders:
                spent = [c for c in private if is_fork[c] or c == holders[0]].index(holders[0])
            free = [lane[c] is None for c in kids]
            able = [free[i] or (kids[i] in tail and i < k - 1) for i in range(p)]
            picks = [i for i in range(p) if able[i]]
            # "last is left": the last entry of a list is left for a later parent if the entry before it is picked.
            # Applies to the programmatic part on its own ...
            if a > 1 and able[a - 1] and able[a - 2]:
                picks.remove(a - 1)
            # ... and to the rest, unless there are shared children. A rest of one entry looks at the programmatic
            # part: left if that has two entries or is picked.
            if p == k and a < p and able[p - 1]:
                if able[p - 2] if p - a > 1 else a > 1 or (a == 1 and able[0]):
                    picks.remove(p - 1)
            rest = range(p, k)
        for i in reversed(rest):                # at most one shared child: the last free one
            if free[i] or (i == k - 1 and kids[i] in tail):
                picks.append(i)
                break

        for i in picks:                         # further picks open new lanes
            c = kids[i]
            if spent is not None and i >= spent:
                give = spent = None
            pinned = c in tail and ((i < k - 1 or k == 1 or heads_chain(c)) if i < p else i == k - 1)
            if not pinned and c not in holders:
                lane[c] = next(fresh) if give is None else give
            give = None
        claimed.update((c, len(prog)) for c in prog)

        # ---- 2. the others: at most one, the first free one, and only if u's lane is still unspent and the fork had no
        # shared children
        if give is not None and p == k:
            others = [c for c in children[u] if not is_fork[c]]
            c = next((c for c in others if lane[c] is None), None)
            if c is not None and (c not in tail or c != others[0] or kids):
                lane[c] = give
    return lane, next(fresh)


def _to_the_end(items, leaves):
    """From the last to the first, what leaves changes places with the last that has not left. Also how many stay."""
    items, q = list(items), len(items)
    for i in reversed(range(q)):
        if leaves(items[i]):
            q -= 1
            items[i], items[q] = items[q], items[i]
    return items, q


class _Flat:
    """Child graphs opened: their nodes stand at the place of the child-graph node, behind a start node ('s'). With `closed`
    they have an end node too, and conditional nodes a body; both kinds of marks ('x') are for finding bottlenecks only."""

    def __init__(self, n, edges, programmatic, kinds, within, closed):
        self.kinds, self.old, self.new = [], [], [None] * n
        inside = [[] for _ in range(n)]
        for v in range(n):
            if within[v] is not None:
                inside[within[v]].append(v)
        source, target, extra = {}, {}, []
        leads = {a for a, _ in edges}
        led = {b for _, b in edges}

        def add(kind, v):
            self.kinds.append(kind)
            self.old.append(v)
            return len(self.kinds) - 1

        def place(v):
            if kinds[v] == 'g' and inside[v]:
                start = add('x' if closed else 's', None)
                for w in inside[v]:
                    place(w)
                target[v] = [start]
                source[v] = [x for w in inside[v] if w not in leads for x in source[w]]
                extra.extend((start, x) for w in inside[v] if w not in led for x in target[w])
                if closed:
                    end = add('x', None)
                    extra.extend((x, end) for x in source[v])
                    source[v] = [end]
                return
            self.new[v] = add(kinds[v], v)
            source[v] = target[v] = [self.new[v]]
            if closed and kinds[v] == 'i':
                extra.append((self.new[v], add('x', None)))

        for v in range(n):
            if within[v] is None:
                place(v)
        pairs = [(x, y, e in programmatic) for e in edges if e[0] in source
                 for x in source[e[0]] for y in target[e[1]]]
        self.programmatic = {(x, y) for x, y, p in pairs if p}
        self.parents = [[] for _ in self.kinds]
        self.children = [[] for _ in self.kinds]
        for x, y in sorted({(x, y) for x, y, _ in pairs} | set(extra)):
            self.children[x].append(y)
            self.parents[y].append(x)


def _contract(order, flat):
    """Removes, in order, start nodes, and every empty node that has (by then) at most one parent or at most one child.
    Each parent's child list: append the children not there yet, then move the last entry into the removed node's place. A
    programmatic edge that is doubled so becomes an ordinary one. Returns the remaining nodes."""
    parents, children, left = flat.parents, flat.children, []
    for e in order:
        empty = flat.kinds[e] in EMPTIES and not (len(parents[e]) > 1 and len(children[e]) > 1)
        if not empty and flat.kinds[e] != 's':
            left.append(e)
            continue
        for q in parents[e]:
            kids = children[q]
            new = [c for c in children[e] if c not in kids]
            flat.programmatic.difference_update((q, c) for c in children[e])
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


def _order(nodes, parents, children):
    """Topological order: scan ids upwards; a node that was passed over because a parent was missing is queued (FIFO) as
    soon as its last parent is placed."""
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


def _bottlenecks(nodes, order, parents, children):
    """The nodes that all root-to-sink paths cross. They are pinned to the first lane."""
    up, down = {}, {}
    for v in order:
        up[v] = sum(up[p] for p in parents[v]) if parents[v] else 1
    for v in reversed(order):
        down[v] = sum(down[c] for c in children[v]) if children[v] else 1
    paths = sum(up[v] for v in nodes if not children[v])
    return {v for v in nodes if up[v] * down[v] == paths}


def _top(v, within):
    """Whether v is in no body (bodies are done from the outside inwards, by _body itself)."""
    return within[v] is None


def _body(v, n, edges, programmatic, kinds, within, out, used):
    """Lanes of what is in conditional node v, `used` and up; returns the next unused one."""
    inside = {v}
    for w in range(n):
        if within[w] in inside:
            inside.add(w)
    number = {w: i for i, w in enumerate(sorted(inside - {v}))}
    if not number:
        return used
    got = lanes(len(number), [(number[a], number[b]) for a, b in edges if a in number],
                {(number[a], number[b]) for a, b in programmatic if a in number}, [kinds[w] for w in number],
                [number.get(within[w]) for w in number])
    for w, i in number.items():
        out[w] = None if got[i] is None else used + got[i]
    return used + max((x + 1 for x in got if x is not None), default=0)


def _renumber(lane):
    first = {}
    return [None if x is None else first.setdefault(x, len(first)) for x in lane]


def visible(lane, kinds, seen='k'):
    """Lanes of the kernels only (or of other kinds that are seen), renumbered; None for every other node."""
    return _renumber([x if k in seen else None for x, k in zip(lane, kinds)])


def parse(line):
    fields = line.split('|')
    head = fields[0].split()
    n = int(head[1])
    kinds = head[2] if len(head) > 2 else 'k' * n
    edges, programmatic, within = [], set(), [None] * n
    for word in fields[1].split():
        if '@' in word:
            v, w = map(int, word.split('@'))
            within[v] = w
            continue
        a, b = map(int, word.rstrip('p').split('>'))
        edges.append((a, b))
        if word.endswith('p'):
            programmatic.add((a, b))
    measured = [None if x == '-' else int(x) for x in fields[2].split()] if len(fields) > 2 else None
    return head, n, kinds, edges, programmatic, within, measured


def same(lane, measured):
    """What was measured, on the nodes that were seen."""
    return _renumber([x if m is not None else None for x, m in zip(lane, measured)]) == measured


def main(args):
    show = args[:1] == ['--lanes']
    for path in args[show:]:
        graphs = exact = 0
        for line in open(path):
            if line.startswith('#'):
                continue
            head, n, kinds, edges, programmatic, within, measured = parse(line)
            got = lanes(n, edges, programmatic, kinds, within)
            graphs += 1
            if show:
                text = ['%d>%d%s' % (a, b, 'p' * ((a, b) in programmatic)) for a, b in edges]
                text += ['%d@%d' % (v, w) for v, w in enumerate(within) if w is not None]
                print(' '.join(head + ['|'] + text + ['|'] +
                               ['-' if x is None else str(x) for x in visible(got, kinds)]))
            else:
                exact += same(got, measured)
        if not show:
            print('%s: %d of %d' % (path, exact, graphs))


if __name__ == '__main__':
    main(sys.argv[1:])
