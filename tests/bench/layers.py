# SPDX-License-Identifier: Apache-2.0
"""The 61-layer MoE decode of examples/dual_stream_moe.stem, by three hands in one run on one GPU: `mainstem bench`, Triton kernels
(peers/triton_moe.py), PyTorch operations (peers/torch_moe.py). Microseconds for a layer, and each over its own floor: the bytes of
the weights that its router's choices need, at the bandwidth of a copy measured in this run.

    layers.py [--tokens 1,4,16,64] [--quick] [--no-compile] [--json FILE]
"""

import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import jobs  # noqa: E402
import models  # noqa: E402

LAYERS, HIDDEN, EXPERTS, INTER = 61, 7168, 384, 256
BARS = {1: 1.4, 4: 1.2, 16: 1.08, 64: 1.15}
PEER = {1: 2.55, 4: 1.39, 16: 1.10, 64: 1.30}  # what Triton kernels by hand reach at least: a peer that is worse says nothing


def floor_us(experts, bandwidth):
    return 2 * HIDDEN * (3 * INTER * experts + EXPERTS + 3 * INTER) / bandwidth * 1e6


def rows(ours, triton, torch):
    """One dict for each token count of what `mainstem bench`, triton_moe.py and torch_moe.py wrote; the last two may be None."""
    out = []
    for v in ours["variants"]:
        t, ways = v["dims"]["T"], {w["way"]: w for w in v["ways"]}
        best = min(ways, key=lambda w: ways[w]["us"])
        floor = floor_us(v["experts"], ours["bandwidth"])
        row = dict(T=t, experts=v["experts"], floor=floor, us=ways[best]["us"] / LAYERS, way=best)
        row.update(over=row["us"] / row["floor"], same=all(w["same_bits"] for w in ways.values()), triton=None, torch=None)
        # the peers know a fixed bandwidth
        tried = [(way.split()[1], r) for way, r in (triton or {}).get("rows", {}).items() if way.split()[0] == str(t)]
        if tried:
            us, way, floor = min((min(r["one"], r["dual"]), way, r["floor"]) for way, r in tried)
            row["triton"] = dict(us=us, way=way, over=us / floor * ours["bandwidth"] / triton["bandwidth"])
        r = (torch or {}).get("rows", {}).get(str(t))
        if r and r["us"]:
            us, way = min((us, way) for way, us in r["us"].items())
            row["torch"] = dict(us=us, way=way, over=us / r["floor"][way] * ours["bandwidth"] / torch["bandwidth"])
        row["missing"] = r["missing"] if r else {}
        out.append(row)
    return out


def markdown(found):
    lines = ["| T | experts read | floor (us) | ours | over | Triton | its way | over | PyTorch | its way | over | same bits |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for r in found:
        cells = [f"{p['us']:.1f} | {p['way']} | {p['over']:.2f}" if p else "- | - | -" for p in (r["triton"], r["torch"])]
        mine = f"{r['T']} | {r['experts']:.1f} | {r['floor']:.1f} | {r['us']:.1f} | {r['over']:.2f}"
        lines.append(f"| {mine} | {' | '.join(cells)} | {'yes' if r['same'] else 'NO'} |")
    return lines


def bars(found):
    out = []
    for r in found:
        t = r["T"]
        if t in BARS:
            out.append((f"MoE layer, T={t}, over the floor", f"<= {BARS[t]}", f"{r['over']:.2f}", r["over"] <= BARS[t]))
        if t in PEER and r["triton"]:
            over = r["triton"]["over"]
            out.append((f"MoE layer, T={t}, the Triton peer over its floor", f"<= {PEER[t]}", f"{over:.2f}", over <= PEER[t]))
    return out


# ---- programs ----


class Plan:
    """Jobs of the table: what compiles, then a chain for one GPU."""

    def __init__(self, tokens, replays, compiled, limit):
        self.work, self.tokens, self.replays = tempfile.TemporaryDirectory(), tokens, replays
        path, mainstem = os.path.join(os.environ["SRCDIR"], "examples", "dual_stream_moe.stem"), os.environ["MAINSTEM"]
        dims = ["--dim", f"T={tokens}"]
        kernels = [mainstem, "compile", "-q", "--no-warnings", path, "--emit=cubin"] + dims
        self.compiling = [jobs.Job(f"layer, kernels, pdl {pdl}", kernels + [f"--pdl={pdl}", "-o", self.at(pdl)]) for pdl in ("auto", "off")]
        self.compiling.append(jobs.Job("layer, Triton kernels", python("triton_moe.py", "--tokens", tokens, "--warm", 8), None, limit))
        for t in tokens.split(",") if compiled else ():
            self.compiling.append(jobs.Job(f"layer, torch.compile, T={t}", python("torch_moe.py", "--tokens", t, "--warm"), None, limit))
        peer = ["--tokens", tokens, "--replays", replays, "--json"]
        commands = {
            "ours": [mainstem, "bench", path] + dims + [f"--iters={replays}", f"--json={self.at('ours')}"],
            "Triton": python("triton_moe.py", *peer, self.at("Triton")),
            "PyTorch": python("torch_moe.py", *peer, self.at("PyTorch"), *([] if compiled else ["--no-compile"])),
        }
        self.chain = [jobs.Job(f"layer, {name}", command, self.at(name), limit) for name, command in commands.items()]

    def at(self, name):
        return os.path.join(self.work.name, name)

    def rows(self):
        ours, triton, torch = (j.load() for j in self.chain)
        return rows(ours, triton, torch) if ours else []

    def bars(self):
        found = bars(self.rows())
        tokens = [int(t) for t in self.tokens.split(",")]
        wanted = [(f"MoE layer, T={t}, over", f"<= {BARS[t]}") for t in tokens if t in BARS]
        wanted += [(f"MoE layer, T={t}, the Triton", f"<= {PEER[t]}") for t in tokens if t in PEER]
        return found + models.not_measured(wanted, found)

    def report(self):
        """Lines of Markdown."""
        ours = self.chain[0].load()
        lines = [f"FAILED: {j.name}" for j in self.chain if not j.ok]
        if not ours:
            return lines
        found = self.rows()
        lines += [f"{ours['gpu']}, {LAYERS} layers, 16 sets of weights, medians of {self.replays} replays, microseconds a layer", ""]
        return lines + markdown(found) + [f"- T={r['T']}: {key}: {why}" for r in found for key, why in r["missing"].items()]


def python(name, *args):
    return [sys.executable, "-B", os.path.join(HERE, "peers", name)] + [str(x) for x in args]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tokens", default="1,4,16,64")
    p.add_argument("--quick", action="store_true", help="fewer replays")
    p.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    p.add_argument("--limit", type=float, default=300, help="seconds of one program")
    p.add_argument("--json", help="file for the rows")
    a = p.parse_args()
    jobs.caches(os.environ.get("BUILDDIR", "."))
    plan = Plan(a.tokens, 7 if a.quick else 20, not a.no_compile, a.limit)
    runner = jobs.Runner(jobs.gpus()[:1])
    runner.together("compiling", plan.compiling)
    runner.alone("measuring", [plan.chain])
    print("\n".join(plan.report()))
    models.print_bars(plan.bars())
    print(f"\n{runner.summary()}")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(plan.rows(), f, indent=1)
    return 0 if all(j.ok for j in plan.chain) else 1


if __name__ == "__main__":
    sys.exit(main())
