# SPDX-License-Identifier: Apache-2.0
"""The same 61-layer MoE decode in PyTorch, as engines write it by hand: the peer of tests/bench.

One layer: rmsnorm, router (sigmoid scores, bias for choice only, top-k, renormalised), routed experts, one shared
expert, residual. Variants, each captured in a CUDA graph:
    one     one stream
    dual    shared expert on a second stream, routed experts recorded first
Routed experts as an engine without custom kernels does them at small T: gather the chosen experts' weights by
index and multiply in batches (bmm); weights of each token-expert pair are read once from memory.

    torch_moe.py [--tokens 1,4,16,64] [--layers 61] [--sets 16] [--json FILE]
Prints microseconds per layer (median of replays), and the ratio to the time in which a copy at 4.3 TB/s moves the
weights that the router's choices need.
"""

import argparse
import json
import statistics

import torch
import torch.nn.functional as F

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


def layer(hidden, w, routed, side):
    x = F.rms_norm(hidden, (HIDDEN,), w["norm"], 1e-6)
    if side is None:
        y, s = routed(x, w), shared_expert(x, w)
    else:
        main = torch.cuda.current_stream()
        fork = torch.cuda.Event()
        fork.record(main)
        y = routed(x, w)
        side.wait_event(fork)
        with torch.cuda.stream(side):
            s = shared_expert(x, w)
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


def measure(t, layers, weights, routed, dual, replays):
    side = torch.cuda.Stream() if dual else None
    x = torch.rand(t, HIDDEN, device="cuda").mul_(2).sub_(1).to(torch.bfloat16)

    def run():
        h = x
        for i in range(layers):
            h = layer(h, weights[i % len(weights)], routed, side)
        return h

    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        layer(x, weights[0], routed, side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(replays):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1000 / layers)
    assert torch.isfinite(out.float()).all()
    del graph
    return statistics.median(times), floor_us(count_experts(x, layers, weights, routed))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tokens", default="1,4,16,64")
    p.add_argument("--layers", type=int, default=61)
    p.add_argument("--sets", type=int, default=16)
    p.add_argument("--replays", type=int, default=20)
    p.add_argument("--json")
    a = p.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        raise SystemExit(77)
    weights = make_weights(a.sets, "cuda")
    rows = {}
    for t in map(int, a.tokens.split(",")):
        row, floor = {}, {}
        ways = [("gather", routed_gather)] if t <= 16 else []
        ways += [("grouped", routed_grouped)] if t >= 4 else []
        for name, routed in ways:
            for dual in (False, True):
                key = f"{name}-{'dual' if dual else 'one'}"
                try:
                    row[key], floor[key] = measure(t, a.layers, weights, routed, dual, a.replays)
                except Exception as e:  # a variant that this version of PyTorch cannot capture
                    row[key] = None
                    print(f"T={t} {key}: {type(e).__name__}: {str(e)[:100]}")
                torch.cuda.empty_cache()
        rows[t] = row
        best, key = min((v, k) for k, v in row.items() if v)
        print(f"T={t}: best {best:.1f} us/layer, {best / floor[key]:.2f} of the floor  " + "  ".join(f"{k} {v:.1f}" for k, v in row.items() if v), flush=True)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
