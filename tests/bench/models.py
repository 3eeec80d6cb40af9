# SPDX-License-Identifier: Apache-2.0
"""The table of tests/bench/models.sh: `mainstem bench` of each model against the floor by bytes and against PyTorch.

The floor: bytes that a step must move (weights, those of the experts that are chosen, and the caches) over the bandwidth of
a device-to-device copy measured in the same process. PyTorch: the best of its variants (peers/torch_models.py), measured on
the same GPU just before, over the floor of its own choices; in bf16 also where ours is in another format. Everything that is
compiled (NVRTC, torch.compile) is compiled first, on all cores; then one program at a time has a GPU. With several GPUs
(CUDA_VISIBLE_DEVICES, else all) models are spread over them.

Results are kept in --results: what was measured before with the same command is not measured again unless --again.
"""

import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "peers")]
import jobs  # noqa: E402
import model_error  # noqa: E402
import torch_models  # noqa: E402

WHOLE = ["SETS=61"]
MODELS = {  # row: file, definitions, the model of torch_models that it is held against
    "kimi_k25_rank": ("kimi_k25_rank", [], "kimi_k25_rank"),
    "qwen3_30b_a3b": ("qwen3_30b_a3b", [], "qwen3_30b_a3b"),
    "deepseek_v2_lite": ("deepseek_v2_lite", [], "deepseek_v2_lite"),
    "deepseek_v32_rank": ("deepseek_v32_rank", [], "deepseek_v32_rank"),
    "kimi_k25_rank nvfp4": ("kimi_k25_rank", ["FORMAT=1"] + WHOLE, "kimi_k25_rank"),
    "kimi_k25_rank int4": ("kimi_k25_rank", ["FORMAT=2"] + WHOLE, "kimi_k25_rank"),
}  # fmt: skip
PYTORCH_IN_BF16 = ("deepseek_v32_rank", "kimi_k25_rank nvfp4", "kimi_k25_rank int4")  # it has no products in their formats
WAYS = ("one-nopdl", "one", "main-nopdl", "main", "chosen")
MODEL_BAR = {"deepseek_v2_lite": (1, 16), "kimi_k25_rank": (1, 16)}  # at most 1.5 x the floor
OVER_FLOOR, OVER_PYTORCH, OVER_FORMAT = 1.5, 2.0, 1.25


# ---- commands ----


def program(a, model):
    file, defines, _ = MODELS[model]
    most = max(map(int, a.tokens.split(",")))
    path = os.path.join(os.environ["SRCDIR"], "examples", "models", file + ".stem")
    defines = [f"CONTEXT={a.context}", f"SEQUENCES={most}", f"START={a.context - most}"] + defines + a.defines
    return [path, "--dim", f"T={a.tokens}"] + [f"-D{d}" for d in defines]


def ours(a, model):
    result = os.path.join(a.results, f"{model.replace(' ', '-')}.ours.json")
    command = [os.environ["MAINSTEM"], "bench"] + program(a, model)
    command += [f"--ways={','.join(WAYS)}", f"--iters={a.iters}", f"--json={result}"]
    return jobs.Job(f"{model}, ours", command, result, a.limit)


def peer(a, name):
    result = os.path.join(a.results, f"{name}.torch.json")
    command = [sys.executable, os.path.join(HERE, "peers", "torch_models.py"), name, "--tokens", a.tokens, "--context", a.context]
    command += ["--seconds", a.seconds, "--compile-seconds", a.compile_seconds, "--replays", a.replays, "--json", result]
    return jobs.Job(f"{name}, PyTorch", command + (["--no-compile"] if a.no_compile else []), result, a.limit)


def error(a, model):
    file = MODELS[model][0]
    result = os.path.join(a.results, f"{model.replace(' ', '-')}.error.json")
    path = os.path.join(os.environ["SRCDIR"], "examples", "models", file + ".stem")
    command = [sys.executable, os.path.join(HERE, "peers", "model_error.py"), model, path, "--json", result]
    return jobs.Job(f"{model}, error", command, result, a.limit, large=True)


def compiling(a, models, scratch):
    """What fills the caches of NVRTC and of torch.compile."""
    out = []
    for name in dict.fromkeys(MODELS[m][2] for m in models) if not a.no_compile and not a.no_peers else ():
        for t in a.tokens.split(","):
            command = [sys.executable, os.path.join(HERE, "peers", "torch_models.py"), name, "--tokens", t]
            command += ["--warm", "--context", a.context, "--compile-seconds", a.compile_seconds]
            out.append(jobs.Job(f"{name}, torch.compile, T={t}", command, None, a.limit))
    for m in models:
        for pdl in ("auto", "off"):
            command = [os.environ["MAINSTEM"], "compile", "-q", "--no-warnings"] + program(a, m) + [f"--pdl={pdl}", "--emit=cubin"]
            out.append(jobs.Job(f"{m}, kernels, pdl {pdl}", command + ["-o", os.path.join(scratch, f"{m}-{pdl}")], None, a.limit))
    return out


# ---- the table ----


def lanes(way):
    return way["lanes_measured"] or f"({way['lanes_predicted']} predicted)"


def rows(model, result, torch):
    """One dict for each token count; result: of mainstem bench, torch: of torch_models, either may be None."""
    out = []
    for v in result["variants"] if result else ():
        t = v["dims"]["T"]
        ways = {w["way"]: w for w in v["ways"]}
        other = (torch or {}).get("torch", {}).get(str(t), {})
        best = min(other["us"], key=other["us"].get) if other.get("us") else None
        row = dict(model=model, T=t, floor=v["floor_us"], us={w: ways[w]["us"] for w in WAYS if w in ways})
        row["best"] = min(row["us"].values())
        row["over"] = row["best"] / row["floor"]
        row["lanes"] = lanes(ways["main"]) if "main" in ways else "-"
        row["forks"] = "chosen" in ways and ways["chosen"]["lanes_predicted"] > 1
        row["same"] = all(w["same_bits"] for w in ways.values())
        way = best + ", bf16" if best and model in PYTORCH_IN_BF16 else best
        row["torch"] = dict(us=other["us"][best], way=way, over=other["us"][best] / other["floor"]) if best else None
        row["missing"] = other.get("missing", {})
        row["speedup"] = row["torch"]["us"] / row["best"] if best else None
        out.append(row)
    return out


HEAD = """| model | T | floor (us) | one stream | dual | dual, PDL | one stream, PDL | chosen streams, PDL | over the floor \
| lanes | same bits | PyTorch | its way | over its floor | PyTorch over ours |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def markdown(all_rows):
    lines = HEAD.splitlines()
    for r in all_rows:
        us = " | ".join(f"{r['us'][w]:.0f}" if w in r["us"] else "-" for w in ("one-nopdl", "main-nopdl", "main", "one", "chosen"))
        t = r["torch"]
        other = f"{t['us']:.0f} | {t['way']} | {t['over']:.2f} | {r['speedup']:.2f}" if t else "- | - | - | -"
        checked = f"{r['over']:.2f} | {r['lanes']} | {'yes' if r['same'] else 'NO'}"
        lines.append(f"| {r['model']} | {r['T']} | {r['floor']:.0f} | {us} | {checked} | {other} |")
    return lines


def bars(all_rows):
    """(what, bar, measured, pass or miss) of the models."""
    out = []
    for r in all_rows:
        name, over, speedup = f"{r['model']}, T={r['T']}", r["over"], r["speedup"]
        if r["T"] in MODEL_BAR.get(r["model"], ()):
            out.append((f"{name}, over the floor", f"<= {OVER_FLOOR}", f"{over:.2f}", over <= OVER_FLOOR))
        if r["model"] in MODEL_BAR and r["T"] == 1 and speedup:
            out.append((f"{name}, PyTorch over ours", f">= {OVER_PYTORCH:.0f}", f"{speedup:.2f}", speedup >= OVER_PYTORCH))
        chosen, one = r["us"].get("chosen"), r["us"].get("one")
        if chosen and one and r["forks"]:  # else the schedules are the same
            out.append((f"{name}, chosen streams over one", "<= 1.01", f"{chosen / one:.3f}", chosen <= 1.01 * one))
        if not r["same"]:
            out.append((f"{name}, same bits", "yes", "NO", False))
    return out


def error_bars(results):
    """Ours is to be no further from float64 than the format is by itself: than the same model in PyTorch in bf16, or than float64 with
    activations in f8e4m3."""
    out = []
    for r in (r for of_model in results for r in of_model or ()):
        over = r["ours"][0] / max(r[kind][0] for kind in ("bf16", "format") if kind in r)
        what = f"{r['model']}, {r['layers']} layers, T={r['T']}, error over the format's own"
        out.append((what, f"<= {OVER_FORMAT}", f"{over:.2f}", over <= OVER_FORMAT))
    return out


def not_measured(wanted, found):
    """wanted: (start of what, bar) of bars that there should be."""
    return [(what, bar, "not measured", None) for what, bar in wanted if not any(f[0].startswith(what) for f in found)]


def left_out(all_rows):
    return [f"- {r['model']}, T={r['T']}: {key}: {why}" for r in all_rows for key, why in r["missing"].items()]


def print_bars(found):
    print("\n| bar | wanted | measured | |\n|---|---|---|---|")
    for what, want, got, good in found:
        print(f"| {what} | {want} | {got} | {'' if good is None else 'pass' if good else 'MISS'} |")


def error_lines(results):
    return model_error.HEAD.splitlines() + [model_error.line(r) for of_model in results for r in of_model or ()]


def arguments(argv=None):
    p = argparse.ArgumentParser(description="Whole models against the floor by bytes and against PyTorch.")
    p.add_argument("models", nargs="*", metavar="MODEL", help=f"default all: {', '.join(MODELS)}")
    p.add_argument("--tokens", default="1,4,16,64")
    p.add_argument("--context", type=int, default=4096)
    p.add_argument("--iters", type=int, default=15, help="replays of ours")
    p.add_argument("--replays", type=int, default=10, help="of PyTorch")
    p.add_argument("--quick", action="store_true", help="5 replays of each")
    p.add_argument("--seconds", type=float, default=90, help="of PyTorch for each model: no variant is started after these")
    p.add_argument("--compile-seconds", type=float, default=60, help="of torch.compile for each variant")
    p.add_argument("--limit", type=float, default=300, help="seconds of one program")
    p.add_argument("--deadline", type=float, default=0, help="seconds after which nothing more is measured and the tables are printed")
    p.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    p.add_argument("--no-peers", action="store_true", help="leave out PyTorch")
    p.add_argument("--no-error", action="store_true", help="leave out the error against float64")
    kept = os.path.join(os.environ.get("BUILDDIR", "."), "bench-results")
    p.add_argument("--results", default=kept, help="directory (default BUILDDIR/bench-results)")
    p.add_argument("--again", action="store_true", help="measure what was measured before, too")
    p.add_argument("--json", help="file for the rows")
    p.add_argument("-D", dest="defines", action="append", default=[])
    a = p.parse_args(argv)
    unknown = [m for m in a.models if m not in MODELS]
    if unknown:
        p.error(f"no model is called '{unknown[0]}'; there are {', '.join(MODELS)}")
    a.models = a.models or list(MODELS)
    if a.quick:
        a.iters = a.replays = 5
    return a


class Plan:
    """Jobs of the table: what compiles and is not timed, then chains of which each has a GPU."""

    def __init__(self, a):
        os.makedirs(a.results, exist_ok=True)
        self.a, self.scratch = a, tempfile.TemporaryDirectory()
        with_error = not a.no_error and os.path.exists(os.environ.get("MAINSTEM_LIB", ""))
        self.errors = [error(a, m) for m in a.models if with_error]
        peers = {MODELS[m][2]: peer(a, MODELS[m][2]) for m in a.models if not a.no_peers}
        self.of_model = {m: (ours(a, m), peers.get(MODELS[m][2])) for m in a.models}
        for j in self.all() if a.again else ():
            j.forget()
        fresh = [m for m in a.models if not all(j.done_before() for j in self.of_model[m] if j)]
        self.compiling = self.errors + compiling(a, fresh, self.scratch.name)
        self.chains, todo = [], dict(peers)
        for model, (mine, _) in self.of_model.items():  # PyTorch just before the first that is held against it
            other = todo.pop(MODELS[model][2], None)
            self.chains.append(([other] if other else []) + [mine])

    def all(self):
        return [j for pair in self.of_model.values() for j in pair if j] + self.errors

    def failed(self):
        return list(dict.fromkeys(j.name for j in self.all() if not j.ok))

    def rows(self):
        return [r for m, (mine, other) in self.of_model.items() for r in rows(m, mine.load(), other.load() if other else None)]

    def bars(self):
        found = bars(self.rows())
        tokens = [int(t) for t in self.a.tokens.split(",")]
        bounds = [(m, t) for m in self.of_model for t in MODEL_BAR.get(m, ()) if t in tokens]
        wanted = [(f"{m}, T={t}, over the floor", f"<= {OVER_FLOOR}") for m, t in bounds]
        wanted += [(f"{m}, T=1, PyTorch over ours", f">= {OVER_PYTORCH:.0f}") for m, t in bounds if t == 1]
        wanted += [(f"{m}, error", f"<= {OVER_FORMAT}") for m, e in zip(self.of_model, self.errors) if not e.ok]
        return found + error_bars([e.load() for e in self.errors]) + not_measured(wanted, found)

    def report(self):
        """Lines of Markdown."""
        found = self.rows()
        lines = [f"Context {self.a.context}, medians of {self.a.iters} replays (PyTorch {self.a.replays}), microseconds a step", ""]
        lines += markdown(found)
        stopped = [f"- {j.name} ended with {j.code} before all was measured: a variant that is not named has no time"
                   for j in {id(other): other for _, other in self.of_model.values() if other and not other.ok}.values()]  # fmt: skip
        if left_out(found) or stopped:
            lines += ["", "Variants of PyTorch without a time:"] + left_out(found) + stopped
        if self.errors:
            lines += ["", "Distance from float64 of the last hidden state, full width:", ""] + error_lines([e.load() for e in self.errors])
        return lines


def main():
    a = arguments()
    jobs.caches(os.environ.get("BUILDDIR", "."))
    plan, runner = Plan(a), jobs.Runner(deadline=a.deadline)
    runner.together("compiling", plan.compiling)
    runner.alone("measuring", plan.chains)
    print("\n".join(plan.report()))
    print_bars(plan.bars())
    print(f"\n{runner.summary()}")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(plan.rows(), f, indent=1)
    if plan.failed():
        print("\nFAILED: " + "; ".join(plan.failed()))
    return 1 if plan.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
