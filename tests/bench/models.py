# SPDX-License-Identifier: Apache-2.0
"""The table of tests/bench/models.sh: `mainstem bench` of each model against the floor by bytes and against PyTorch.

The floor: bytes that a step must read (weights, those of the experts that are chosen, and the caches) over the bandwidth of a
device-to-device copy measured in the same run. PyTorch: the best of its variants (peers/torch_models.py), run just before.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import torch_models  # noqa: E402

WAYS = {"one stream, no PDL": "one", "main-first, no PDL": "dual", "main-first": "pdl", "one stream": "one_pdl",
        "chosen streams": "chosen"}


def bench(mainstem, path, tokens, context, iters, defines):
    """Microseconds and lanes of each way, captured; or what went wrong."""
    command = [mainstem, "bench", path, "--dim", f"T={tokens}", f"--iters={iters}", f"-DCONTEXT={context}", f"-DSEQUENCES={tokens}"]
    command += [f"-DSTART={context - tokens}"] + [f"-D{d}" for d in defines]
    run = subprocess.run(command, capture_output=True, text=True)
    out = {}
    for line in run.stdout.splitlines():
        cells = [c.strip() for c in line.strip("| ").split("|")]
        if cells[0] == "schedule":
            names = cells
        if len(cells) >= 9 and cells[0] in WAYS and cells[1] == "captured":
            row = dict(zip(names, cells))
            out[WAYS[cells[0]]] = dict(us=float(re.match(r"[0-9.]+", row["replay"])[0]), lanes=row["lanes measured"], nodes=row["nodes"], same=row["same bits"])
    if len(out) < len(WAYS):
        print(f"{path} T={tokens}: exit {run.returncode}\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return out


def peers(model, tokens, context, seconds, extra):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        command = [sys.executable, os.path.join(HERE, "peers", "torch_models.py"), model, "--tokens", tokens, "--context", str(context)]
        run = subprocess.run(command + ["--seconds", str(seconds), "--json", f.name] + extra, capture_output=True, text=True)
        print(run.stdout, end="")
        if run.returncode:
            print(run.stderr[-2000:])
            return None
        return json.load(open(f.name))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("models", nargs="*", default=list(torch_models.CONFIGS))
    p.add_argument("--tokens", default="1,4,16,64")
    p.add_argument("--context", type=int, default=4096)
    p.add_argument("--iters", type=int, default=15)
    p.add_argument("--seconds", type=float, default=60, help="of PyTorch for each model")
    p.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    p.add_argument("-D", dest="defines", action="append", default=[])
    a = p.parse_args()
    rows = []
    for model in a.models:
        print(f"\n### {model}\n", flush=True)
        peer = peers(model, a.tokens, a.context, a.seconds, ["--no-compile"] if a.no_compile else [])
        for t in a.tokens.split(","):
            path = os.path.join(os.environ["SRCDIR"], "examples", "models", model + ".stem")
            ours = bench(os.environ["MAINSTEM"], path, int(t), a.context, a.iters, a.defines)
            torch = peer["torch"].get(t, {}) if peer else {}
            floor = torch.pop("floor", None) or torch_models.floor_bytes(torch_models.CONFIGS[model], int(t), a.context) / 4.3e12 * 1e6
            rows.append((model, t, floor, ours, min((v for v in torch.values()), default=None)))
    print("\n| model | T | floor (us) | one stream | dual | dual, PDL | one stream, PDL | chosen streams, PDL | over the floor | lanes | same bits | PyTorch | PyTorch over ours |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for model, t, floor, ours, torch in rows:
        if len(ours) < len(WAYS):
            continue
        best = min(w["us"] for w in ours.values())
        us = " | ".join(f"{ours[w]['us']:.0f}" for w in ("one", "dual", "pdl", "one_pdl", "chosen"))
        same = "yes" if all(w["same"] == "yes" for w in ours.values()) else "NO"
        other = f"{torch:.0f} | {torch / best:.2f}" if torch else "- | -"
        print(f"| {model} | {t} | {floor:.0f} | {us} | {best / floor:.2f} | {ours['pdl']['lanes']} | {same} | {other} |")
    return 0 if all(len(r[3]) == len(WAYS) for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
