# SPDX-License-Identifier: Apache-2.0
"""Whole decode steps in PyTorch, as engines write them without kernels of their own: the peers of examples/models/.

Variants, each captured in a CUDA graph, random weights and caches of CONTEXT positions for each token:
    eager / compiled     torch ops as they are; or attention, routed and shared experts of a layer each through torch.compile
    gather / grouped     routed experts: chosen weights gathered by index, then bmm; or torch._grouped_mm over tokens
                         sorted by expert
    fused                compiled only: products of gathered weights as sums, which the compiler makes one kernel that
                         reads the weights where they are
    one / dual           one stream; or the shared experts on a second one, routed experts recorded first; dual is
                         measured for the way that is the fastest on one
Latent attention is in its absorbed form: two bmm over the latent cache and a softmax (flash kernels stop at 256
columns); grouped-query attention is scaled_dot_product_attention with the queries of a key head as rows.

    torch_models.py MODEL [--tokens 1,16] [--layers N] [--context 4096] [--no-compile] [--seconds 60] [--json FILE]
    torch_models.py MODEL --warm [--tokens 1]
Prints the copy bandwidth, the floor by bytes (weights of the experts that were chosen, caches) and the median of replays. A variant
that fails, takes too long to compile or is left out for want of time is named with the reason, in the JSON too. --warm only
compiles, with few layers, into the cache of TORCHINDUCTOR_CACHE_DIR; several of these can run side by side.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import time

CONFIGS = {
    "deepseek_v2_lite": dict(
        hidden=2048, layers=27, heads=16, q_rank=0, latent=512, nope=128, rope=64, v=128, experts=64, topk=6, inter=1408,
        shared=2816, dense=10944, vocab=102400, score="softmax", renormalize=False, sets=0, scale=1.0),
    "kimi_k25_rank": dict(
        hidden=7168, layers=61, heads=8, q_rank=1536, latent=512, nope=128, rope=64, v=128, experts=384, topk=8, inter=256,
        shared=256, dense=2304, vocab=20480, score="sigmoid", renormalize=True, sets=16, scale=2.827),
    "qwen3_30b_a3b": dict(
        hidden=2048, layers=48, heads=32, kv_heads=4, head=128, experts=128, topk=8, inter=768, shared=0, dense=0,
        vocab=151936, score="softmax", renormalize=True, sets=0, scale=1.0),
    "deepseek_v32_rank": dict(  # in bf16, twice the bytes of the published f8e4m3: 16 sets of experts
        hidden=7168, layers=61, heads=16, q_rank=1536, latent=512, nope=128, rope=64, v=128, experts=256, topk=8, inter=256,
        shared=256, dense=2304, dense_layers=3, vocab=16160, score="sigmoid", renormalize=True, sets=16, scale=2.5, groups=8,
        top_groups=4, index_heads=64, index_width=128, index_topk=2048),
}  # fmt: skip


# ---- bytes ----


def distinct(c, tokens):
    return c["experts"] * (1 - (1 - c["topk"] / c["experts"]) ** tokens)


def dense_layers(c):
    return c.get("dense_layers", 1) if c["dense"] else 0


def floor_bytes(c, tokens, context, chosen=None):
    """Bytes that a step must read in bf16; chosen: experts of each layer, else as if choices were uniform."""
    h = c["hidden"]
    if "latent" in c:
        q = c["q_rank"] or h
        attention = c["heads"] * (c["nope"] + c["rope"]) * q + (c["q_rank"] + c["latent"] + c["rope"]) * h
        attention += c["heads"] * (c["nope"] + c["v"]) * c["latent"] + h * c["heads"] * c["v"]
        read = min(context, c.get("index_topk", context))
        cache = ((c["latent"] + c["rope"]) * read + c.get("index_width", 0) * context) * tokens
        attention += c.get("index_width", 0) * h + c.get("index_heads", 0) * (c.get("index_width", 0) * q + h)
    else:
        attention = (c["heads"] * 2 + 2 * c["kv_heads"]) * c["head"] * h
        cache = 2 * c["kv_heads"] * c["head"] * context * tokens
    first = dense_layers(c)
    moe = c["experts"] * h + 3 * c["shared"] * h + 3 * c["inter"] * h * (chosen or distinct(c, tokens))
    return 2 * (c["layers"] * (attention + cache) + first * 3 * c["dense"] * h + (c["layers"] - first) * moe + c["vocab"] * h)


# ---- the models ----

ATTENTION = ("norm1", "norm2", "down", "q_norm", "up", "kv_norm", "kv_up", "k_norm", "o", "index_q", "index_heads", "index_gain", "index_bias")
ROUTED = ("gate", "bias", "w13", "w2")
SHARED = ("s13", "s2")


def make_weights(torch, c, layers, sets, device, dtype):
    g = torch.Generator(device=device).manual_seed(1)

    def uniform(*shape):
        w = torch.empty(*shape, dtype=dtype, device=device)
        a = (3.0 / shape[-1]) ** 0.5
        flat = w.view(-1)
        for part in flat.split(1 << 28):
            part.uniform_(-a, a, generator=g)
        return w

    def gain(n):
        return (torch.rand(n, device=device, generator=g) + 0.5).to(dtype)

    h = c["hidden"]
    out = dict(table=uniform(1024, h), norm=gain(h), head=uniform(c["vocab"], h), layers=[])
    moes = []
    for i in range(layers):
        w = dict(norm1=gain(h), norm2=gain(h))
        if "latent" in c:
            q = c["heads"] * (c["nope"] + c["rope"])
            w["down"] = uniform((c["q_rank"] or q) + c.get("index_width", 0) + c["latent"] + c["rope"], h)
            if c["q_rank"]:
                w.update(q_norm=gain(c["q_rank"]), up=uniform(q, c["q_rank"]))
            w.update(kv_norm=gain(c["latent"]), kv_up=uniform(c["heads"], c["nope"] + c["v"], c["latent"]))
            w["o"] = uniform(h, c["heads"] * c["v"])
            if "index_topk" in c:
                w.update(index_q=uniform(c["index_heads"] * c["index_width"], c["q_rank"]), index_heads=uniform(c["index_heads"], h))
                w.update(index_gain=gain(c["index_width"]), index_bias=gain(c["index_width"]) - 1)
        else:
            w["down"] = uniform((c["heads"] + 2 * c["kv_heads"]) * c["head"], h)
            w.update(q_norm=gain(c["head"]), k_norm=gain(c["head"]), o=uniform(h, c["heads"] * c["head"]))
        if i < dense_layers(c):
            w.update(up13=uniform(2 * c["dense"], h), up2=uniform(h, c["dense"]))
        else:
            if len(moes) < (sets or layers):
                m = dict(gate=uniform(c["experts"], h), w13=uniform(c["experts"], 2 * c["inter"], h), w2=uniform(c["experts"], h, c["inter"]))
                m["bias"] = torch.rand(c["experts"], device=device, generator=g) * 0.1 - 0.05
                if c["shared"]:
                    m.update(s13=uniform(2 * c["shared"], h), s2=uniform(h, c["shared"]))
                moes.append(m)
            w.update(moes[(i - dense_layers(c)) % len(moes)] if sets else moes[-1])
        out["layers"].append(w)
    return out


def make_model(torch, c, context, routed_way, side, wide=None, r=lambda x: x):
    """Functions of a model; wide: the type of scores and sums, float32 unless given; r: what becomes of an activation that meets a
    weight of a format other than bf16 in the program."""
    F, wide = torch.nn.functional, wide or torch.float32
    h, k = c["hidden"], c["topk"]

    def silu_mul(x):
        n = x.shape[-1] // 2
        return F.silu(x[..., :n]) * x[..., n:]

    def rotate(x, cos, sin, neighbours="latent" in c):  # for latent attention, else pairs (i, i + n / 2)
        n, wide = x.shape[-1] // 2, x.to(cos.dtype)
        if neighbours:
            a, b = wide[..., 0::2], wide[..., 1::2]
            return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2).to(x.dtype)
        a, b = wide[..., :n], wide[..., n:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    def choose(x, q, key, w, keys, rows, cos, sin):
        """The indexer: positions of the cache that attention reads."""
        n, rope = c["index_width"], c["rope"]
        key = F.layer_norm(key, (n,), w["index_gain"], w["index_bias"], 1e-6)
        keys[rows, context - 1] = torch.cat((rotate(key[:, :rope], cos, sin, False), key[:, rope:]), 1)
        ask = (r(q) @ w["index_q"].t()).view(-1, c["index_heads"], n)
        ask = torch.cat((rotate(ask[..., :rope], cos.unsqueeze(1), sin.unsqueeze(1), False), ask[..., rope:]), 2)
        share = (x @ w["index_heads"].t()).to(cos.dtype) * (c["index_heads"] * n) ** -0.5
        scores = (torch.relu(torch.bmm(ask, keys.transpose(1, 2)).to(cos.dtype)) * share.unsqueeze(2)).sum(1)
        return torch.topk(scores, min(context, c["index_topk"]), sorted=False).indices

    def mla(x, w, cache, rows, cos, sin):
        cache, keys = cache if "index_topk" in c else (cache, None)
        t, H, nope, rope, latent = x.shape[0], c["heads"], c["nope"], c["rope"], c["latent"]
        a = r(x) @ w["down"].t()
        n = c.get("index_width", 0)
        q, key, kv, pe = a.split((a.shape[1] - n - latent - rope, n, latent, rope), 1)
        if c["q_rank"]:
            q_latent = F.rms_norm(q, (c["q_rank"],), w["q_norm"], 1e-6)
            q = r(q_latent) @ w["up"].t()
        q = q.view(t, H, nope + rope)
        row = torch.cat((F.rms_norm(kv, (latent,), w["kv_norm"], 1e-6), rotate(pe, cos, sin)), 1)
        cache[rows, context - 1] = row
        if keys is not None:
            chosen = choose(x, q_latent, key, w, keys, rows, cos, sin)
            cache = cache.gather(1, chosen.unsqueeze(2).expand(-1, -1, latent + rope))
        absorbed = torch.bmm(q[..., :nope].transpose(0, 1), w["kv_up"][:, :nope]).transpose(0, 1)
        q = torch.cat((absorbed, rotate(q[..., nope:], cos.unsqueeze(1), sin.unsqueeze(1))), 2)
        p = torch.softmax(torch.bmm(q, cache.transpose(1, 2)).to(cos.dtype) * (nope + rope) ** -0.5, -1).to(x.dtype)
        o = torch.bmm(p, cache[..., :latent])
        o = torch.bmm(o.transpose(0, 1), w["kv_up"][:, nope:].transpose(1, 2)).transpose(0, 1)
        return r(o.reshape(t, -1)) @ w["o"].t()

    def gqa(x, w, cache, rows, cos, sin):
        t, H, G, D = x.shape[0], c["heads"], c["kv_heads"], c["head"]
        a = (x @ w["down"].t()).view(t, H + 2 * G, D)
        q = rotate(F.rms_norm(a[:, :H], (D,), w["q_norm"], 1e-6), cos.unsqueeze(1), sin.unsqueeze(1))
        key = rotate(F.rms_norm(a[:, H : H + G], (D,), w["k_norm"], 1e-6), cos.unsqueeze(1), sin.unsqueeze(1))
        cache[0][rows, :, context - 1] = key
        cache[1][rows, :, context - 1] = a[:, H + G :]
        o = F.scaled_dot_product_attention(q.view(t, G, H // G, D), cache[0], cache[1])
        return o.reshape(t, -1) @ w["o"].t()

    def route(x, w):
        scores = (x @ w["gate"].t()).to(wide)
        scores = torch.sigmoid(scores) if c["score"] == "sigmoid" else torch.softmax(scores, -1)
        biased = scores + w["bias"] if c["score"] == "sigmoid" else scores
        if "groups" in c:
            group = biased.view(x.shape[0], c["groups"], -1)
            best = torch.topk(group.topk(2, dim=-1).values.sum(-1), c["top_groups"], dim=-1, sorted=False).indices
            keep = torch.zeros_like(group[..., 0]).scatter(1, best, 1.0).unsqueeze(2) > 0
            biased = group.masked_fill(~keep, float("-inf")).flatten(1)
        ids = torch.topk(biased, k, dim=-1, sorted=False).indices
        scale = scores.gather(1, ids)
        return ids, (scale / scale.sum(-1, keepdim=True) if c["renormalize"] else scale) * c["scale"]

    def gather(x, w, ids):
        flat = ids.reshape(-1)
        y = torch.bmm(w["w13"][flat].to(x.dtype), r(x).repeat_interleave(k, 0).unsqueeze(2)).squeeze(2)
        return torch.bmm(w["w2"][flat].to(x.dtype), r(silu_mul(y)).unsqueeze(2)).squeeze(2)

    def fused(x, w, ids):
        flat = ids.reshape(-1)
        y = (w["w13"][flat].float() * x.repeat_interleave(k, 0).unsqueeze(1).float()).sum(-1).to(x.dtype)
        return (w["w2"][flat].float() * silu_mul(y).unsqueeze(1).float()).sum(-1).to(x.dtype)

    def grouped(x, w, ids):
        flat = ids.reshape(-1)
        order = torch.argsort(flat, stable=True)
        ends = torch.searchsorted(flat[order], torch.arange(c["experts"], device=x.device), right=True).int()
        y = torch._grouped_mm(x[torch.div(order, k, rounding_mode="floor")], w["w13"].transpose(1, 2), offs=ends)
        y = torch._grouped_mm(silu_mul(y), w["w2"].transpose(1, 2), offs=ends)
        out = torch.empty_like(y)
        out[order] = y
        return out

    def routed(x, w):
        ids, scale = route(x, w)
        y = {"gather": gather, "fused": fused, "grouped": grouped}[routed_way](x, w, ids)
        return (y.view(x.shape[0], k, h).to(wide) * scale.unsqueeze(2)).sum(1).to(x.dtype)

    def shared(x, w):
        return r(silu_mul(r(x) @ w["s13"].t())) @ w["s2"].t()

    def attend(hidden, w, cache, rows, cos, sin):
        x = F.rms_norm(hidden, (h,), w["norm1"], 1e-6)
        hidden = hidden + (mla if "latent" in c else gqa)(x, w, cache, rows, cos, sin)
        return hidden, F.rms_norm(hidden, (h,), w["norm2"], 1e-6)

    def part(w, names):  # a compiled function then sees the same names in every layer
        return {n: w[n] for n in names if n in w}

    def forward(layer_attend, layer_routed, layer_shared, weights, ids, caches, rows, cos, sin):
        hidden = weights["table"][ids]
        for layer, cache in zip(weights["layers"], caches):
            hidden, x = layer_attend(hidden, part(layer, ATTENTION), cache, rows, cos, sin)
            w, mine = part(layer, ROUTED), part(layer, SHARED)
            if "up13" in layer:
                hidden = hidden + r(silu_mul(r(x) @ layer["up13"].t())) @ layer["up2"].t()
                continue
            if not c["shared"]:
                hidden = hidden + layer_routed(x, w)
                continue
            if side is None:
                hidden = hidden + layer_routed(x, w) + layer_shared(x, mine)
                continue
            main, fork, join = torch.cuda.current_stream(), torch.cuda.Event(), torch.cuda.Event()
            fork.record(main)
            y = layer_routed(x, w)
            side.wait_event(fork)
            with torch.cuda.stream(side):
                s = layer_shared(x, mine)
                join.record(side)
            main.wait_event(join)
            hidden = hidden + y + s
        last = F.rms_norm(hidden, (h,), weights["norm"], 1e-6)
        return torch.argmax((last @ weights["head"].t()).float(), -1), last

    return attend, routed, shared, route, forward


# ---- measuring ----


def copy_bandwidth(torch):
    """Bytes read and written in a second, at best."""
    a, b = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    times = []
    for _ in range(6):
        s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        s.record()
        for _ in range(8):
            b.copy_(a)
        e.record()
        e.synchronize()
        times.append(s.elapsed_time(e) / 1e3)
    return 8 * 2 * a.numel() / min(times)


class Late(Exception):
    pass


def within(seconds, f):
    """f(), stopped with Late after so many seconds, whatever a compiler makes of the exception on its way."""
    late = []

    def stop(*_):
        late.append(1)
        raise Late

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        f()
    except Exception as e:
        if not late:
            raise
        raise Late(f"not compiled within {seconds:.0f} s") from e
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def make_state(torch, c, layers, tokens, context):
    """Ids, caches, rows and angles of a step."""
    if "latent" in c:
        shape, width = (tokens, context, c["latent"] + c["rope"]), c["rope"]
    else:
        shape, width = (2, tokens, c["kv_heads"], context, c["head"]), c["head"]
    caches = [torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_() for _ in range(layers)]
    if "index_topk" in c:
        keys = (tokens, context, c["index_width"])
        caches = [(x, torch.empty(keys, dtype=torch.bfloat16, device="cuda").normal_()) for x in caches]
    rows = torch.arange(tokens, device="cuda")
    angle = torch.full((tokens, 1), context - 1.0, device="cuda") * 10000.0 ** -(torch.arange(0, width, 2, device="cuda") / width)
    return rows.clone(), caches, rows, torch.cos(angle), torch.sin(angle)


class Way:
    """One way of computing a step; functions are compiled at their first call and kept."""

    def __init__(self, torch, c, context, routed, compiled):
        self.torch, self.c, self.context, self.routed = torch, c, context, routed
        self.parts = make_model(torch, c, context, routed, None)[:3]
        if compiled:
            self.parts = [torch.compile(f, dynamic=False, fullgraph=True) for f in self.parts]

    def step(self, weights, state, dual):
        side = self.torch.cuda.Stream() if dual else None
        forward = make_model(self.torch, self.c, self.context, self.routed, side)[4]
        return lambda: forward(*self.parts, weights, *state)


def replays_of(torch, run, replays):
    """Microseconds of each replay of run() in a CUDA graph; run() was called before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    times = []
    for _ in range(replays):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1000)
    return times


def first_call(torch, run, seconds):
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        within(seconds, run)
    torch.cuda.synchronize()


def chosen_experts(torch, c, weights, tokens):
    """Experts that a layer reads for random normalised tokens, on average over some layers."""
    route = make_model(torch, c, 1, "gather", None)[3]
    counts = []
    for w in weights["layers"]:
        if "gate" in w and len(counts) < 8:
            x = torch.nn.functional.rms_norm(torch.randn(tokens, c["hidden"], device="cuda"), (c["hidden"],)).to(torch.bfloat16)
            counts.append(route(x, w)[0].unique().numel())
    return sum(counts) / len(counts)


def routed_ways(compiled, tokens):
    few = ["fused" if compiled else "gather"] if tokens <= 16 else []
    return few + (["grouped"] if tokens > 1 or not compiled else [])


class Bench:
    def __init__(self, torch, a, c):
        self.torch, self.a, self.c, self.begin, self.ways = torch, a, c, time.monotonic(), {}
        self.weights = make_weights(torch, c, c["layers"], c["sets"], "cuda", torch.bfloat16)

    def late(self):
        return time.monotonic() - self.begin > self.a.seconds

    def variant(self, row, key, state, dual):
        """Measures one variant into row; a reason instead of a time where there is none."""
        compiled, routed = key.split("-")[:2]
        begin, say, floor = time.monotonic(), f"T={len(state[0])} {key}:", row["floor"]
        try:
            if self.late():
                raise Late("left out for want of time")
            way = self.ways.setdefault((compiled, routed), Way(self.torch, self.c, self.a.context, routed, compiled == "compiled"))
            run = way.step(self.weights, state, dual)
            first_call(self.torch, run, self.a.compile_seconds)
            first = time.monotonic() - begin
            if self.a.warm:
                print(f"{say} compiled in {first:.1f} s", flush=True)
                return
            row["us"][key] = statistics.median(replays_of(self.torch, run, self.a.replays))
            print(f"{say} {row['us'][key]:.1f} us, {row['us'][key] / floor:.2f} x the floor of {floor:.1f} us; "
                  f"{time.monotonic() - begin:.1f} s, {first:.1f} of them the first call", flush=True)
        except Exception as e:  # what this version cannot capture or compile, or not in time
            row["missing"][key] = str(e)[:160] if isinstance(e, Late) else f"{type(e).__name__}: {str(e)[:160]}"
            print(f"{say} {row['missing'][key]}", flush=True)
        self.torch.cuda.empty_cache()

    def tokens(self, t, row, compiled):
        state = make_state(self.torch, self.c, self.c["layers"], t, self.a.context)
        name = "compiled" if compiled else "eager"
        for routed in routed_ways(compiled, t):
            self.variant(row, f"{name}-{routed}-one", state, False)
        measured = {k: v for k, v in row["us"].items() if k.startswith(name)}
        if self.c["shared"] and measured:
            self.variant(row, min(measured, key=measured.get).replace("-one", "-dual"), state, True)


def write(path, result):
    """In one piece, after each token count: whoever has to stop this has what was measured."""
    with open(path + ".new", "w") as f:
        json.dump(result, f, indent=1)
    os.replace(path + ".new", path)


def measure_all(torch, a, c):
    bandwidth = copy_bandwidth(torch)
    b = Bench(torch, a, c)
    print(f"{a.model}: {c['layers']} layers, context {a.context}, copy {bandwidth / 1e12:.2f} TB/s, PyTorch {torch.__version__}", flush=True)
    result = dict(model=a.model, bandwidth=bandwidth, context=a.context, pytorch=torch.__version__, torch={})
    for compiled in ([True] if a.warm else [False, True][: 1 if a.no_compile else 2]):
        for t in map(int, a.tokens.split(",")):
            floor = floor_bytes(c, t, a.context, chosen_experts(torch, c, b.weights, t)) / bandwidth * 1e6
            row = result["torch"].setdefault(t, dict(us={}, missing={}, floor=floor))
            b.tokens(t, row, compiled)
            result["seconds"] = time.monotonic() - b.begin
            if a.json and not a.warm:
                write(a.json, result)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=CONFIGS)
    p.add_argument("--tokens", default="1,16")
    p.add_argument("--layers", type=int)
    p.add_argument("--context", type=int, default=4096)
    p.add_argument("--replays", type=int, default=15)
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--warm", action="store_true", help="only compile, with few layers")
    p.add_argument("--seconds", type=float, default=1e9, help="start no variant after this many seconds")
    p.add_argument("--compile-seconds", type=float, default=120, help="give up a variant whose first call takes longer")
    p.add_argument("--json")
    a = p.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    c = dict(CONFIGS[a.model])
    c["layers"] = dense_layers(c) + 1 if a.warm else a.layers or c["layers"]
    with torch.no_grad():
        measure_all(torch, a, c)
    return 0


if __name__ == "__main__":
    sys.exit(main())
