# SPDX-License-Identifier: Apache-2.0
"""The 61-layer MoE decode of torch_moe.py with hand-written Triton kernels: the stronger peer of tests/bench.

One layer is rmsnorm; gate; route; gate-and-up of the routed experts with the activation; down, weighted sum, shared
expert and residual in one kernel; beside them on a second stream the shared expert's gate-and-up and its down
projection. Two ways of doing the routed experts:
    pairs    each (token, choice) reads its expert's weights: right for few tokens
    grouped  each chosen expert's weights are read once, for all its tokens, on the tensor cores
Every kernel has several block sizes; each is timed by itself over rotating weights and the best is taken. The layers
are captured in a CUDA graph, on one stream and on two.

    triton_moe.py [--tokens 1,4,16,64] [--layers 61] [--sets 16] [--replays 20] [--json FILE]
    triton_moe.py --warm N                      compiles every kernel in N processes, into Triton's cache; measures nothing

Prints microseconds for each layer (median of replays), and the ratio to the time that the bytes of the weights which
the router's choices need take at the bandwidth of a copy at 4.3 TB/s.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import triton
import triton.language as tl

from torch_moe import BANDWIDTH, EXPERTS, HIDDEN, INTER, TOPK, floor_us, layer, make_weights, routed_gather


# ---- kernels ----


@triton.jit
def norm_kernel(x, w, y, H: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + t * H + at, mask=at < H, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v) / H + 1e-6)
    g = tl.load(w + at, mask=at < H, other=0.0).to(tl.float32)
    tl.store(y + t * H + at, (v * scale * g).to(tl.bfloat16), mask=at < H)


@triton.jit
def rows_kernel(x, w, y, T, N, K: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SILU: tl.constexpr):
    """y[t, n] = x[t] . w[n], a program for each token and BN rows; with SILU silu(gate) * up of w's halves."""
    t, n = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN)
    gate = tl.zeros([BN], tl.float32)
    up = tl.zeros([BN], tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        v = tl.load(x + t * K + at, mask=at < K, other=0.0).to(tl.float32)[None, :]
        inside = (n < N)[:, None] & (at < K)[None, :]
        gate += tl.sum(tl.load(w + n[:, None] * K + at[None, :], mask=inside, other=0.0).to(tl.float32) * v, 1)
        if SILU:
            up += tl.sum(tl.load(w + (n + N)[:, None] * K + at[None, :], mask=inside, other=0.0).to(tl.float32) * v, 1)
    if SILU:
        gate = gate / (1 + tl.exp(-gate)) * up
    tl.store(y + t * N + n, gate.to(y.dtype.element_ty), mask=n < N)


@triton.jit
def dot_kernel(x, w, y, T, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SILU: tl.constexpr,
               SPLIT: tl.constexpr = 1):
    """The same for all tokens at once, on the tensor cores; SPLIT parts of the columns give a y each."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.arange(0, BM)
    gate = tl.zeros([BM, BN], tl.float32)
    up = tl.zeros([BM, BN], tl.float32)
    part = tl.program_id(1)
    for k in range(part * (K // SPLIT), (part + 1) * (K // SPLIT), BK):
        at = k + tl.arange(0, BK)
        v = tl.load(x + m[:, None] * K + at[None, :], mask=(m < T)[:, None], other=0.0)
        gate = tl.dot(v, tl.load(w + n[None, :] * K + at[:, None], mask=(n < N)[None, :], other=0.0), gate)
        if SILU:
            up = tl.dot(v, tl.load(w + (n + N)[None, :] * K + at[:, None], mask=(n < N)[None, :], other=0.0), up)
    if SILU:
        gate = gate / (1 + tl.exp(-gate)) * up
    tl.store(y + (part * T + m[:, None]) * N + n[None, :], gate.to(y.dtype.element_ty), mask=(m < T)[:, None] & (n < N)[None, :])


@triton.jit
def route_kernel(logits, bias, ids, scale, T, E: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    e = tl.arange(0, BLOCK)
    logit = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(PARTS):
        logit += tl.load(logits + (i * T + t) * E + e, mask=e < E, other=0.0)
    score = tl.sigmoid(logit.to(tl.bfloat16).to(tl.float32))
    choice = tl.where(e < E, score + tl.load(bias + e, mask=e < E, other=0.0), -1e30)
    j = tl.arange(0, K)
    who = tl.zeros([K], tl.int32)
    what = tl.zeros([K], tl.float32)
    for i in tl.static_range(K):
        best = tl.argmax(choice, 0)
        what = tl.where(j == i, tl.sum(tl.where(e == best, score, 0.0)), what)
        who = tl.where(j == i, best, who)
        choice = tl.where(e == best, -1e30, choice)
    tl.store(ids + t * K + j, who)
    tl.store(scale + t * K + j, what / tl.sum(what))


@triton.jit
def up_pairs_kernel(x, ids, w13, h, H: tl.constexpr, I: tl.constexpr, K: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pair, n = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN)
    w = w13 + tl.load(ids + pair).to(tl.int64) * (2 * I * H)
    gate = tl.zeros([BN], tl.float32)
    up = tl.zeros([BN], tl.float32)
    for k in range(0, H, BK):
        at = k + tl.arange(0, BK)
        v = tl.load(x + (pair // K) * H + at, mask=at < H, other=0.0).to(tl.float32)[None, :]
        inside = (at < H)[None, :]
        gate += tl.sum(tl.load(w + n[:, None] * H + at[None, :], mask=inside, other=0.0).to(tl.float32) * v, 1)
        up += tl.sum(tl.load(w + (n + I)[:, None] * H + at[None, :], mask=inside, other=0.0).to(tl.float32) * v, 1)
    tl.store(h + pair * I + n, (gate / (1 + tl.exp(-gate)) * up).to(tl.bfloat16))


@triton.jit
def down_pairs_kernel(h, ids, scale, w2, shared, hidden, y, H: tl.constexpr, I: tl.constexpr, K: tl.constexpr, BN: tl.constexpr):
    t, n = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN)
    at = tl.arange(0, I)
    acc = tl.zeros([BN], tl.float32)
    for j in tl.static_range(K):
        w = w2 + tl.load(ids + t * K + j).to(tl.int64) * (H * I)
        v = tl.load(h + (t * K + j) * I + at).to(tl.float32) * tl.load(scale + t * K + j)
        acc += tl.sum(tl.load(w + n[:, None] * I + at[None, :]).to(tl.float32) * v[None, :], 1)
    routed = acc.to(tl.bfloat16).to(tl.float32)
    sum = (tl.load(hidden + t * H + n).to(tl.float32) + routed).to(tl.bfloat16).to(tl.float32)
    tl.store(y + t * H + n, (sum + tl.load(shared + t * H + n).to(tl.float32)).to(tl.bfloat16))


@triton.jit
def group_kernel(ids, pairs, count, P, E: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr):
    """pairs[e, :count[e]] are the pairs whose choice is e, in order."""
    e = tl.program_id(0)
    p = tl.arange(0, BLOCK)
    mine = tl.load(ids + p, mask=p < P, other=-1) == e
    place = tl.cumsum(mine.to(tl.int32), 0) - 1
    tl.store(pairs + e * ROOM + place, p, mask=mine)
    tl.store(count + e, tl.sum(mine.to(tl.int32)))


@triton.jit
def up_grouped_kernel(x, pairs, count, w13, h, H: tl.constexpr, I: tl.constexpr, K: tl.constexpr, ROOM: tl.constexpr,
                      BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    e, n, m = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN), tl.program_id(2) * BM + tl.arange(0, BM)
    c = tl.load(count + e)
    if tl.program_id(2) * BM >= c:
        return
    pair = tl.load(pairs + e * ROOM + m, mask=m < c, other=0)
    w = w13 + e.to(tl.int64) * (2 * I * H)
    gate = tl.zeros([BM, BN], tl.float32)
    up = tl.zeros([BM, BN], tl.float32)
    for k in range(0, H, BK):
        at = k + tl.arange(0, BK)
        v = tl.load(x + (pair // K)[:, None] * H + at[None, :], mask=(m < c)[:, None], other=0.0)
        gate = tl.dot(v, tl.load(w + n[None, :] * H + at[:, None]), gate)
        up = tl.dot(v, tl.load(w + (n + I)[None, :] * H + at[:, None]), up)
    out = (gate / (1 + tl.exp(-gate)) * up).to(tl.bfloat16)
    tl.store(h + pair[:, None] * I + n[None, :], out, mask=(m < c)[:, None])


@triton.jit
def down_grouped_kernel(h, pairs, count, scale, w2, part, H: tl.constexpr, I: tl.constexpr, ROOM: tl.constexpr,
                        BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    e, n, m = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN), tl.program_id(2) * BM + tl.arange(0, BM)
    c = tl.load(count + e)
    if tl.program_id(2) * BM >= c:
        return
    pair = tl.load(pairs + e * ROOM + m, mask=m < c, other=0)
    w = w2 + e.to(tl.int64) * (H * I)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, I, BK):
        at = k + tl.arange(0, BK)
        v = tl.load(h + pair[:, None] * I + at[None, :], mask=(m < c)[:, None], other=0.0)
        acc = tl.dot(v, tl.load(w + n[None, :] * I + at[:, None]), acc)
    acc *= tl.load(scale + pair, mask=m < c, other=0.0)[:, None]
    tl.store(part + pair[:, None] * H + n[None, :], acc.to(tl.bfloat16), mask=(m < c)[:, None])


@triton.jit
def combine_kernel(part, shared, hidden, y, H: tl.constexpr, K: tl.constexpr, BN: tl.constexpr):
    t, n = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros([BN], tl.float32)
    for j in tl.static_range(K):
        acc += tl.load(part + (t * K + j) * H + n).to(tl.float32)
    sum = acc + tl.load(hidden + t * H + n).to(tl.float32) + tl.load(shared + t * H + n).to(tl.float32)
    tl.store(y + t * H + n, sum.to(tl.bfloat16))


# ---- a layer: steps with block sizes ----

only_compile = False


def launch(kernel, grid, *args, **options):
    if only_compile:
        kernel.warmup(*args, grid=grid, **options)
    else:
        kernel[grid](*args, **options)


class Layer:
    def __init__(self, t, grouped, device="cuda"):
        def new(*shape, dtype=torch.bfloat16):
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.t, self.grouped = t, grouped
        self.x, self.mid, self.shared = new(t, HIDDEN), new(t, INTER), new(t, HIDDEN)
        self.logits = new(16, t, EXPERTS, dtype=torch.float32)
        self.ids, self.scale = new(t, TOPK, dtype=torch.int32), new(t, TOPK, dtype=torch.float32)
        self.h, self.part = new(t * TOPK, INTER), new(t * TOPK, HIDDEN) if grouped else None
        self.pairs, self.count = new(EXPERTS, 64, dtype=torch.int32), new(EXPERTS, dtype=torch.int32)
        self.out = [new(t, HIDDEN), new(t, HIDDEN)]
        self.bm = max(16, triton.next_power_of_2(t))
        self.best = {}

    def choices(self):
        """Block sizes to try, by step: keyword arguments."""
        few = self.t <= 8
        rows = [dict(BN=n, BK=k, num_warps=w) for n in (1, 2, 4) for k, w in ((1024, 4), (2048, 8))]
        dots = [dict(BM=self.bm, BN=16, BK=k, num_warps=4, num_stages=s) for k in (128, 256) for s in (3, 5)]
        c = {
            "gate": rows if few else dots + [dict(BM=self.bm, BN=16, BK=k, num_warps=4, num_stages=3, SPLIT=s)
                                             for k, s in ((128, 4), (256, 4), (128, 7), (256, 7))],
            "s13": rows if few else dots,
            "s2": [dict(BN=n, BK=256, num_warps=w) for n in (8, 16) for w in (2, 4)] if few else
                  [dict(BM=self.bm, BN=n, BK=128, num_warps=4, num_stages=2) for n in (16, 32, 64)],
        }
        if self.grouped:
            bms = [16] if self.t <= 16 else [16, 32]
            c["up"] = [dict(BM=m, BN=n, BK=k, num_warps=4, num_stages=s) for m in bms for n in (16, 32)
                       for k, s in ((64, 4), (128, 3), (256, 3))]
            c["down"] = [dict(BM=m, BN=n, BK=k, num_warps=4, num_stages=s) for m in bms for n in (64, 128)
                         for k, s in ((64, 4), (128, 2))]
        else:
            c["up"] = [dict(BN=n, BK=k, num_warps=w) for n in (4, 8, 16) for k, w in ((512, 4), (1024, 8))]
            c["down"] = [dict(BN=n, num_warps=w) for n in (8, 16, 32) for w in (4, 8)]
        return c

    def linear(self, x, w, y, n, k, silu, o):
        few = "BM" not in o
        grid = (triton.cdiv(n, o["BN"]), self.t if few else o.get("SPLIT", 1))
        launch(rows_kernel if few else dot_kernel, grid, x, w, y, self.t, n, k, SILU=silu, **o)

    def gate(self, w, o):
        self.linear(self.x, w["gate"], self.logits, EXPERTS, HIDDEN, False, o)

    def s13(self, w, o):
        self.linear(self.x, w["s13"], self.mid, INTER, HIDDEN, True, o)

    def s2(self, w, o):
        self.linear(self.mid, w["s2"], self.shared, HIDDEN, INTER, False, o)

    def up(self, w, o):
        if self.grouped:
            grid = (INTER // o["BN"], EXPERTS, triton.cdiv(self.t, o["BM"]))
            launch(up_grouped_kernel, grid, self.x, self.pairs, self.count, w["w13"], self.h, HIDDEN, INTER, TOPK, 64, **o)
        else:
            grid = (INTER // o["BN"], self.t * TOPK)
            launch(up_pairs_kernel, grid, self.x, self.ids, w["w13"], self.h, HIDDEN, INTER, TOPK, **o)

    def down(self, w, o, hidden=None, out=None):
        hidden, out = self.out[0] if hidden is None else hidden, self.out[1] if out is None else out
        if self.grouped:
            grid = (HIDDEN // o["BN"], EXPERTS, triton.cdiv(self.t, o["BM"]))
            launch(down_grouped_kernel, grid, self.h, self.pairs, self.count, self.scale, w["w2"], self.part, HIDDEN, INTER, 64, **o)
        else:
            grid = (HIDDEN // o["BN"], self.t)
            launch(down_pairs_kernel, grid, self.h, self.ids, self.scale, w["w2"], self.shared, hidden, out, HIDDEN, INTER, TOPK, **o)

    def route(self, w):
        parts = self.best.get("gate", {}).get("SPLIT", 1)
        launch(route_kernel, (self.t,), self.logits, w["bias"], self.ids, self.scale, self.t, EXPERTS, TOPK, parts, 512, num_warps=4)
        if self.grouped:
            launch(group_kernel, (EXPERTS,), self.ids, self.pairs, self.count, self.t * TOPK, EXPERTS, 64,
                   triton.next_power_of_2(self.t * TOPK), num_warps=1)

    def combine(self, hidden, out):
        launch(combine_kernel, (HIDDEN // 1024, self.t), self.part, self.shared, hidden, out, HIDDEN, TOPK, 1024, num_warps=4)

    def norm(self, hidden, w):
        launch(norm_kernel, (self.t,), hidden, w["norm"], self.x, HIDDEN, 8192, num_warps=8)

    def small(self, w, hidden, out, gate):
        """What has no choices of its own."""
        self.best["gate"] = gate
        self.norm(hidden, w)
        self.route(w)
        if self.grouped:
            self.combine(hidden, out)

    def run(self, hidden, w, out, side):
        self.norm(hidden, w)
        main = torch.cuda.current_stream()
        if side:
            fork = torch.cuda.Event()
            fork.record(main)
        self.gate(w, self.best["gate"])
        self.route(w)
        self.up(w, self.best["up"])
        if side:
            side.wait_event(fork)
            with torch.cuda.stream(side):
                self.s13(w, self.best["s13"])
                self.s2(w, self.best["s2"])
                join = torch.cuda.Event()
                join.record(side)
        else:
            self.s13(w, self.best["s13"])
            self.s2(w, self.best["s2"])
        if not self.grouped and side:
            main.wait_event(join)
        self.down(w, self.best["down"], hidden, out)
        if self.grouped:
            if side:
                main.wait_event(join)
            self.combine(hidden, out)


def graph_of(run):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def time_graph(graph, replays):
    for _ in range(2):
        graph.replay()
    times = []
    for _ in range(replays):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1000)
    return statistics.median(times)


def tune(step, options, weights):
    """The option with the shortest graph of one launch for each set of weights, twice over."""
    best = (float("inf"), None)
    for o in options:
        try:
            step(weights[0], o)
            torch.cuda.synchronize()
            graph = graph_of(lambda: [step(w, o) for w in weights + weights])
            us = time_graph(graph, 5) / (2 * len(weights))
        except Exception:  # a block that does not fit
            continue
        best = min(best, (us, o), key=lambda v: v[0])
    assert best[1] is not None, "no block size fits"
    return best


def measure(t, grouped, a, weights):
    l = Layer(t, grouped)
    x = torch.rand(t, HIDDEN, device="cuda").mul_(2).sub_(1).to(torch.bfloat16)
    l.x.copy_(x)
    l.best = {"gate": l.choices()["gate"][0]}  # ids that a router chooses, for tuning
    l.gate(weights[0], l.best["gate"])
    l.route(weights[0])
    for name, options in l.choices().items():
        us, l.best[name] = tune(getattr(l, name), options, weights)
        if a.verbose:
            print(f"  T={t} {name}: {us:.1f} us with {l.best[name]}")
    want = layer(x, weights[0], routed_gather, None)
    l.run(x, weights[0], l.out[1], None)
    error = ((l.out[1].float() - want.float()).norm() / want.float().norm()).item()
    assert error < 2e-2, f"T={t}: off by {error}"
    distinct = []

    def run(side, look=False):
        h = x
        for i in range(a.layers):
            l.run(h, weights[i % len(weights)], l.out[i & 1], side)
            h = l.out[i & 1]
            if look:
                distinct.append(l.ids.unique().numel())

    run(None, True)
    floor = floor_us(statistics.mean(distinct))
    row = {"error": error, "experts": statistics.mean(distinct), "floor": floor}
    for name, side in (("one", None), ("dual", torch.cuda.Stream())):
        row[name] = time_graph(graph_of(lambda: run(side)), a.replays) / a.layers
    return row


def ways(tokens):
    return [(t, way == "grouped") for t in tokens for way in (["pairs"] if t <= 4 else []) + (["grouped"] if t >= 4 else [])]


def compile_part(tokens, part, parts):
    """Every parts-th kernel from `part` on; the contents of tensors do not matter."""
    global only_compile
    only_compile = True
    w = {n: torch.empty(64, dtype=torch.bfloat16, device="cuda") for n in ("norm", "gate", "w13", "w2", "s13", "s2")}
    w["bias"] = torch.empty(64, device="cuda")
    todo = []
    for t, grouped in ways(tokens):
        l = Layer(t, grouped)
        todo += [(getattr(l, step), o) for step, options in l.choices().items() for o in options]
        todo += [(lambda w, o, l=l: l.small(w, l.out[0], l.out[1], o), {"SPLIT": s}) for s in (1, 4, 7)]
    for step, o in todo[part::parts]:
        try:
            step(w, o)
        except Exception as e:  # a block that does not fit is no choice when measuring either
            print(f"{step.__name__} {o}: {type(e).__name__}: {str(e)[:80]}")


def warm(tokens, n):
    begin = time.monotonic()
    command = [sys.executable, __file__, "--tokens", ",".join(map(str, tokens))]
    each = [subprocess.Popen(command + ["--compile-part", f"{i}/{n}"]) for i in range(n)]
    failed = sum(p.wait() != 0 for p in each)
    print(f"Triton: compiled in {time.monotonic() - begin:.1f} s by {n} processes" + (f", {failed} of them failed" if failed else ""))
    return 1 if failed else 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tokens", default="1,4,16,64")
    p.add_argument("--layers", type=int, default=61)
    p.add_argument("--sets", type=int, default=16)
    p.add_argument("--replays", type=int, default=20)
    p.add_argument("--warm", type=int, metavar="N")
    p.add_argument("--compile-part", help=argparse.SUPPRESS)
    p.add_argument("--json")
    p.add_argument("--verbose", action="store_true")
    a = p.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        raise SystemExit(77)
    tokens = [int(t) for t in a.tokens.split(",")]
    if a.warm:
        raise SystemExit(warm(tokens, a.warm))
    if a.compile_part:
        return compile_part(tokens, *map(int, a.compile_part.split("/")))
    torch.manual_seed(1)
    weights = make_weights(a.sets, "cuda")
    rows = {}
    print("| T | way | experts read | floor, us | one stream | two streams | best over floor | error |")
    print("|---|---|---|---|---|---|---|---|")
    for t, grouped in ways(tokens):
        way, begin = "grouped" if grouped else "pairs", time.monotonic()
        r = rows[f"{t} {way}"] = measure(t, grouped, a, weights)
        best = min(r["one"], r["dual"]) / r["floor"]
        print(f"| {t} | {way} | {r['experts']:.1f} | {r['floor']:.1f} | {r['one']:.1f} | {r['dual']:.1f} | {best:.2f} | {r['error']:.1e} |",
              flush=True)
        if a.verbose:
            print(f"  {time.monotonic() - begin:.1f} s")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(dict(bandwidth=BANDWIDTH, rows=rows), f, indent=1)


if __name__ == "__main__":
    main()
