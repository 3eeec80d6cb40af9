# SPDX-License-Identifier: Apache-2.0
"""The Python module on a GPU with torch: a small dual_stream_moe against torch's own operations, eagerly and inside
torch.cuda.graph, and the time of both. Exits with 77 where there is no GPU or no torch.

    python_torch.py [--tokens 4] [--layers 4] [--hidden 1024] [--experts 64] [--replays 50]
Finds the module in runtime/python, the library through MAINSTEM_LIB (see runtime/python/mainstem)."""

import argparse
import os
import statistics
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "runtime", "python"))

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: no torch")
    raise SystemExit(77)
if not torch.cuda.is_available():
    print("skipped: no GPU")
    raise SystemExit(77)

import mainstem

TOPK, INTER = 8, 256


def uniform(*shape):
    w = torch.rand(*shape, device="cuda", dtype=torch.float32)
    return (w.mul_(2).sub_(1) * (3.0 / shape[-1]) ** 0.5).to(torch.bfloat16)


def make_weights(a):
    return [dict(norm=1 + 0.1 * uniform(a.hidden), gate=uniform(a.experts, a.hidden),
                 bias=torch.rand(a.experts, device="cuda") * 4, w13=uniform(a.experts, 2 * INTER, a.hidden),
                 w2=uniform(a.experts, a.hidden, INTER), s13=uniform(2 * INTER, a.hidden), s2=uniform(a.hidden, INTER))
            for _ in range(a.layers)]


def expert(x, w13, w2):
    h = x @ w13.transpose(-1, -2)
    return (F.silu(h[..., :INTER]) * h[..., INTER:]) @ w2.transpose(-1, -2)


def torch_layer(hidden, w, gaps=None):
    """As engines write it for few tokens: the chosen experts' weights are gathered, products in batches. `gaps` gets the
    distance of the last chosen expert's score from the first that is not chosen."""
    t = hidden.shape[0]
    x = F.rms_norm(hidden, (hidden.shape[1],), w["norm"], 1e-6)
    scores = torch.sigmoid((x @ w["gate"].t()).float())
    ids = torch.topk(scores + w["bias"], TOPK, dim=-1, sorted=False).indices
    if gaps is not None:
        best = torch.topk(scores + w["bias"], TOPK + 1, dim=-1).values
        gaps.append((best[:, TOPK - 1] - best[:, TOPK]).min().item())
    scale = scores.gather(1, ids)
    scale = scale / scale.sum(-1, keepdim=True)
    flat, pairs = ids.reshape(-1), x.repeat_interleave(TOPK, 0).unsqueeze(1)
    y = expert(pairs, w["w13"][flat], w["w2"][flat]).view(t, TOPK, -1)
    return hidden + (y.float() * scale.unsqueeze(2)).sum(1).to(x.dtype) + expert(x, w["s13"], w["s2"])


def torch_model(hidden, weights, gaps=None):
    for w in weights:
        hidden = torch_layer(hidden, w, gaps)
    return hidden


def clear_input(a, weights):
    """An input whose choice of experts does not hang on the last bit of a score: logits are rounded to bf16, and a sum
    in another order may choose another expert where two are equally good, which is no error."""
    for _ in range(200):
        x = torch.rand(a.tokens, a.hidden, device="cuda").mul_(2).sub_(1).to(torch.bfloat16)
        gaps = []
        torch_model(x, weights, gaps)
        if min(gaps) > 0.004:
            break
    return x


def captured(run):
    """A torch graph of run(), warmed up on a side stream as torch asks for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    return graph, out


def time_of(graph, replays):
    times = []
    for _ in range(replays):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1000)
    return statistics.median(times)


def close(what, got, want):
    """Relative to the size of the result: bf16 has 8 bits, and the sums are in another order."""
    error = ((got.float() - want.float()).norm() / want.float().norm()).item()
    print("  %-34s relative error %.2e" % (what, error))
    return error < 2e-2


def main():
    p = argparse.ArgumentParser()
    for name, value in (("tokens", 4), ("layers", 4), ("hidden", 1024), ("experts", 64), ("replays", 50)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    torch.manual_seed(1)
    weights = make_weights(a)
    x = clear_input(a, weights)
    out = torch.zeros_like(x)
    major, minor = torch.cuda.get_device_capability()
    sm = max([s for s in (80, 90, 100, 120) if s <= 10 * major + minor], default=80)
    program = mainstem.compile(os.path.join(TOP, "examples", "dual_stream_moe.stem"), dims={"T": a.tokens}, sm=sm,
                               defines={"HIDDEN": a.hidden, "EXPERTS": a.experts, "INTER": INTER, "LAYERS": a.layers,
                                        "SETS": a.layers})
    result = [t.name for t in program.tensors.values() if t.kind == "output"][0]
    program.bind({"hidden": x, result: out})
    program.bind({"moe[%d].%s" % (i, name): t for i, w in enumerate(weights) for name, t in w.items()})
    with_torch = torch_model(x, weights)

    ok = True
    side = torch.cuda.Stream()
    program.launch()
    torch.cuda.synchronize()
    ok &= close("eager, current stream", out, with_torch)
    out.zero_()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        program.launch()
    torch.cuda.synchronize()
    ok &= close("eager, another stream", out, with_torch)
    first = out.clone()

    ours, _ = captured(program.launch)
    theirs, their_out = captured(lambda: torch_model(x, weights))
    out.zero_()
    ours.replay()
    torch.cuda.synchronize()
    ok &= close("inside torch.cuda.graph", out, with_torch)
    ok &= torch.equal(out, first)
    x.copy_(x.flip(0))
    ours.replay()
    theirs.replay()
    torch.cuda.synchronize()
    ok &= close("replayed on new input, both graphs", out, their_out)

    for wrong, cls in ((x.float(), mainstem.DtypeError), (x[:, :8].contiguous(), mainstem.ShapeError),
                       (x.cpu(), mainstem.DeviceError), (torch.cat([x, x], 1)[:, ::2], mainstem.ContiguityError)):
        try:
            program.bind(hidden=wrong)
            print("  not refused: %s" % cls.__name__)
            ok = False
        except cls as e:
            print("  refused: %s" % e)
    us, their_us = time_of(ours, a.replays), time_of(theirs, a.replays)
    print("T=%d, %d layers on %s: mainstem %.1f us, torch %.1f us a replay (%.2f times)"
          % (a.tokens, a.layers, torch.cuda.get_device_name(), us, their_us, their_us / us))
    del ours, theirs
    program.close()
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
