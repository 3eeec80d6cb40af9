# SPDX-License-Identifier: Apache-2.0
"""The same 61-layer MoE decode in PyTorch, as engines write it by hand: the peer of tests/bench.

One layer: rmsnorm, router (sigmoid scores, bias for choice only, top-k, renormalised), routed experts, one shared
expert, residual. Variants, each captured in a CUDA graph:
    one     one stream
    dual    shared expert on a second stream, routed experts recorded first
Routed experts as an engine without custom kernels does them:
    gather  the chosen experts' weights by index and products in batches (bmm): right for few tokens
    grouped torch._grouped_mm over tokens sorted by expert: right for many
    fused   through torch.compile, products of gathered weights as sums, which become one kernel that reads the weights
            where they are; with one stream the whole layer is compiled, with two its parts

    torch_moe.py [--tokens 1,4,16,64] [--layers 61] [--sets 16] [--no-compile] [--json FILE]
    torch_moe.py --warm                     only compiles, into the cache of TORCHINDUCTOR_CACHE_DIR
Prints microseconds per layer (median of replays), and the ratio to the time in which a copy at 4.3 TB/s
moves the weights that the router's choices need. A variant without a time is named with the reason.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

from torch_models import Late, within

HIDDEN, EXPERTS, TOPK, INTER = 7168, 384, 8, 256
BANDWIDTH = 4.3e12


def make_weights(sets, device):
    g = torch.Generator(device=device).manual_seed(1)

    def uniform(*shape):
        w = torch.empty(*shape, dtype=torch.bfloat16, device=device)
        a = (3.0 / shape[-1]) ** 0.5
        for part in w.view(shape[0], -1).split(max(1, shape[0] // 16)):
            part.uniform_(-a, a, generator=g)
        return w

    return [
        dict(
            norm=torch.ones(HIDDEN, dtype=torch.bfloat16, device=device),
            gate=uniform(EXPERTS, HIDDEN),
            bias=torch.rand(EXPERTS, device=device, generator=g) * 0.1,
            w13=uniform(EXPERTS, 2 * INTER, HIDDEN),
            w2=uniform(EXPERTS, HIDDEN, INTER),
            s13=uniform(2 * INTER, HIDDEN),
            s2=uniform(HIDDEN, INTER),
        )
        for _ in range(sets)
    ]


def route(x, w):
    scores = torch.sigmoid((x @ w["gate"].t()).float())
    ids = torch.topk(scores + w["bias"], TOPK, dim=-1, sorted=False).indices
    scale = scores.gather(1, ids)
    return ids, scale / scale.sum(-1, keepdim=True)


def routed_gather(x, w):
    """Weights gathered by pair: right for few tokens."""
    ids, scale = route(x, w)
    t = x.shape[0]
    flat = ids.reshape(-1)
    pairs = x.repeat_interleave(TOPK, 0).unsqueeze(2)
    h = torch.bmm(w["w13"][flat], pairs).squeeze(2)
    h = F.silu(h[:, :INTER]) * h[:, INTER:]
    y = torch.bmm(w["w2"][flat], h.unsqueeze(2)).squeeze(2)
    return (y.view(t, TOPK, HIDDEN).float() * scale.unsqueeze(2)).sum(1).to(x.dtype)


def routed_fused(x, w):
    """For torch.compile: no gathered weights in memory."""
    ids, scale = route(x, w)
    flat = ids.reshape(-1)
    h = (w["w13"][flat].float() * x.repeat_interleave(TOPK, 0).unsqueeze(1).float()).sum(-1).to(x.dtype)
    h = F.silu(h[:, :INTER]) * h[:, INTER:]
    y = (w["w2"][flat].float() * h.unsqueeze(1).float()).sum(-1).to(x.dtype)
    return (y.view(x.shape[0], TOPK, HIDDEN).float() * scale.unsqueeze(2)).sum(1).to(x.dtype)


def routed_grouped(x, w):
    """torch._grouped_mm over tokens sorted by expert: right for many tokens."""
    ids, scale = route(x, w)
    t = x.shape[0]
    flat = ids.reshape(-1)
    order = torch.argsort(flat, stable=True)
    ends = torch.searchsorted(flat[order], torch.arange(EXPERTS, device=x.device), right=True).int()
    xs = x[torch.div(order, TOPK, rounding_mode="floor")]
    h = torch._grouped_mm(xs, w["w13"].transpose(1, 2), offs=ends)
    h = F.silu(h[:, :INTER]) * h[:, INTER:]
    y = torch._grouped_mm(h, w["w2"].transpose(1, 2), offs=ends)
    out = torch.empty_like(y)
    out[order] = y
    return (out.view(t, TOPK, HIDDEN).float() * scale.unsqueeze(2)).sum(1).to(x.dtype)


def shared_expert(x, w):
    h = x @ w["s13"].t()
    return (F.silu(h[:, :INTER]) * h[:, INTER:]) @ w["s2"].t()


def layer(hidden, w, routed, side, shared=shared_expert):
    x = F.rms_norm(hidden, (HIDDEN,), w["norm"], 1e-6)
    if side is None:
        y, s = routed(x, w), shared(x, w)
    else:
        main = torch.cuda.current_stream()
        fork = torch.cuda.Event()
        fork.record(main)
        y = routed(x, w)
        side.wait_event(fork)
        with torch.cuda.stream(side):
            s = shared(x, w)
            join = torch.cuda.Event()
            join.record(side)
        main.wait_event(join)
    return hidden + y + s


def floor_us(distinct):
    shared = (EXPERTS + 2 * INTER + INTER) * HIDDEN * 2
    return (distinct * 3 * INTER * HIDDEN * 2 + shared) / BANDWIDTH * 1e6


def count_experts(x, layers, weights, routed):
    """Mean number of experts that a layer reads."""
    distinct = []
    for i in range(layers):
        w = weights[i % len(weights)]
        distinct.append(route(F.rms_norm(x, (HIDDEN,), w["norm"], 1e-6), w)[0].unique().numel())
        x = layer(x, w, routed, None)
    return statistics.mean(distinct)


def make_layer(routed, side, compiled):
    """A function of hidden and the weights of a layer."""
    if not compiled:
        return lambda h, w: layer(h, w, routed, side)
    if side is None:
        return torch.compile(lambda h, w: layer(h, w, routed, None), dynamic=False, fullgraph=True)
    parts = [torch.compile(f, dynamic=False, fullgraph=True) for f in (routed, shared_expert)]
    return lambda h, w: layer(h, w, parts[0], side, parts[1])


def measure(t, a, weights, routed, dual, compiled):
    one = make_layer(routed, torch.cuda.Stream() if dual else None, compiled)
    x = torch.rand(t, HIDDEN, device="cuda").mul_(2).sub_(1).to(torch.bfloat16)

    def run():
        h = x
        for i in range(a.layers):
            h = one(h, weights[i % len(weights)])
        return h

    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        within(a.compile_seconds, lambda: one(x, weights[0]))
    torch.cuda.synchronize()
    if a.warm:
        return None, None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    for _ in range(2):
        graph.replay()
    times = []
    for _ in range(a.replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / a.layers)
    assert torch.isfinite(out.float()).all()
    del graph
    return statistics.median(times), floor_us(count_experts(x, a.layers, weights, routed_grouped))


def variants(t, a):
    """(name, routed, compiled) in the order of measuring."""
    few, many = t <= 16, t >= 4
    eager = [("gather", routed_gather, False)] * few + [("grouped", routed_grouped, False)] * many
    compiled = [("compiled-fused", routed_fused, True)] * few + [("compiled-grouped", routed_grouped, True)] * many
    return ([] if a.warm else eager) + ([] if a.no_compile else compiled)


def measure_all(t, a, weights):
    row = dict(us={}, floor={}, missing={})
    for name, routed, compiled in variants(t, a):
        for dual in (False, True):
            key, begin = f"{name}-{'dual' if dual else 'one'}", time.monotonic()
            try:
                us, floor = measure(t, a, weights, routed, dual, compiled)
                if us:
                    row["us"][key], row["floor"][key] = us, floor
            except Exception as e:  # a variant that this version of PyTorch cannot compile or capture
                row["missing"][key] = str(e) if isinstance(e, Late) else f"{type(e).__name__}: {str(e)[:100]}"
                print(f"T={t} {key}: {row['missing'][key]}", flush=True)
            if a.verbose:
                print(f"T={t} {key}: {row['us'].get(key)} us, took {time.monotonic() - begin:.1f} s", flush=True)
            torch.cuda.empty_cache()
    return row


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tokens", default="1,4,16,64")
    p.add_argument("--layers", type=int, default=61)
    p.add_argument("--sets", type=int, default=16)
    p.add_argument("--replays", type=int, default=20)
    p.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    p.add_argument("--compile-seconds", type=float, default=60, help="give up a variant that compiles for longer")
    p.add_argument("--warm", action="store_true", help="only compile")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--json")
    a = p.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        raise SystemExit(77)
    weights = make_weights(1 if a.warm else a.sets, "cuda")
    rows = {}
    for t in map(int, a.tokens.split(",")):
        with torch.no_grad():
            row = rows[t] = measure_all(t, a, weights)
        if row["us"]:
            best, key = min((v, k) for k, v in row["us"].items())
            each = "  ".join(f"{k} {v:.1f}" for k, v in row["us"].items())
            print(f"T={t}: best {best:.1f} us/layer, {best / row['floor'][key]:.2f} of the floor  {each}", flush=True)
    if a.json and not a.warm:
        with open(a.json, "w") as f:
            json.dump(dict(bandwidth=BANDWIDTH, rows=rows), f, indent=1)


if __name__ == "__main__":
    main()
