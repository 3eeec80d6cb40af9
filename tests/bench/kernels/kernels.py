# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs the programs of this folder (run.sh): the best configuration of each kernel that they print, and the bar of
linear and experts: at least 80 % of the rate of a copy on the bytes that must be read, for at most 16 tokens.

    kernels.py [bf16|f8e4m3|nvfp4|int4|linear-bf16|linear-..|attention ...] [--json FILE]
"""

import argparse
import glob
import hashlib
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import jobs  # noqa: E402

PROGRAMS = {  # source, options
    "bf16": ("bench.cu", []),
    "f8e4m3": ("formats.cu", ["-DFORMAT=stem_f8"]),
    "nvfp4": ("formats.cu", ["-DFORMAT=stem_nvfp4"]),
    "int4": ("formats.cu", ["-DFORMAT=stem_int4"]),
    "linear-bf16": ("even.cu", ["-DFORMAT=wide", "-DWIDE"]),
    "linear-f8e4m3": ("even.cu", ["-DFORMAT=stem_f8"]),
    "linear-nvfp4": ("even.cu", ["-DFORMAT=stem_nvfp4"]),
    "linear-int4": ("even.cu", ["-DFORMAT=stem_int4"]),
    "attention": ("attention.cu", []),
}
BAR, MOST_TOKENS = 80, 16
NO_BAR = ("bf16 route", "bf16 layer")
# bench.cu, with its floor at 4.3 TB/s: "up nt8 s4 w4 b2    T=4    55.60 us  floor    53.70  x1.04"
BF16 = re.compile(r"^(?P<what>\S.*?)\s+T=(?P<t>\d+)\s+(?P<us>[\d.]+) us\s+floor\s+(?P<floor>[\d.]+)\s+x")
# formats.cu, even.cu: "nvfp4  up     384x7168    mt8 s3 w4 b1   T=1    11.10 us  2100 GB/s  36.0 %   early   11.00 us  2120 GB/s  36.2 %"
FORMAT = re.compile(r"^(?P<format>\S+)\s+(?P<op>\S+)\s+(?P<shape>\S+)\s+(?P<config>\S.*?)\s+T=(?P<t>\d+)\s+(?P<us>[\d.]+) us\s+\d+ GB/s\s+(?P<share>[\d.]+) %"
                    r"\s+early\s+(?P<early>[\d.]+) us\s+\d+ GB/s\s+(?P<early_share>[\d.]+) %")  # fmt: skip
# attention.cu: "mla h8 k4 t64 s3               T=1   ctx 4096      8.50 us       4.7 MB      555 GB/s   13.5 %"
ATTENTION = re.compile(r"^(?P<what>\S.*?)\s+T=(?P<t>\d+)\s+ctx\s+(?P<context>\d+)\s+(?P<us>[\d.]+) us\s+[\d.]+ MB\s+\d+ GB/s\s+(?P<share>[\d.]+) %")
KNOB = re.compile(r"^((nt|mt|r|s|kp|g|cl|w|b|t|k)\d+|kept|read|fixed|wgmma),?$")


def without_knobs(what):
    first, *others = what.split()
    return " ".join([first] + [w for w in others if not KNOB.match(w)])


def lines_of(name, text):
    """(op, T, context, microseconds, share of a copy's rate, configuration) of every measured line."""
    for line in text.splitlines():
        m = BF16.match(line)
        if m and name == "bf16":
            yield f"bf16 {without_knobs(m['what'])}", int(m["t"]), None, float(m["us"]), 100 * float(m["floor"]) / float(m["us"]), m["what"]
        m = FORMAT.match(line)
        if m:
            us, share = min((float(m["us"]), float(m["share"])), (float(m["early"]), float(m["early_share"])))
            yield f"{m['format']} {m['op']} {m['shape']}", int(m["t"]), None, us, share, m["config"]
        m = ATTENTION.match(line)
        if m and name == "attention" and "part only" not in m["what"]:
            yield f"attention {without_knobs(m['what'])}", int(m["t"]), int(m["context"]), float(m["us"]), float(m["share"]), m["what"]


def best(found):
    """The fastest line of each op, T and context, in the order of their first."""
    out = {}
    for line in found:
        key = line[:3]
        if key not in out or line[3] < out[key][3]:
            out[key] = line
    return list(out.values())


def judged(row):
    op, t, context = row[:3]
    return context is None and t <= MOST_TOKENS and not op.startswith(NO_BAR)


def bars(rows):
    """(what, bar, measured, good), one for each format: its linear and experts."""
    shares = {}
    for r in rows:
        if judged(r):
            shares.setdefault(r[0].split()[0], []).append((r[4], f"{r[0].split(' ', 1)[1]} T={r[1]}"))
    out = []
    for name, all_of in shares.items():
        good, (least, where) = sum(share >= BAR for share, _ in all_of), min(all_of)
        got = f"{good} of {len(all_of)}; least {least:.0f} % ({where})"
        out.append((f"{name}, linear and experts, T <= {MOST_TOKENS}, share of a copy", f">= {BAR} %", got, good == len(all_of)))
    return out


# ---- compiling and running ----


def nvcc():
    cuda = os.environ.get("MAINSTEM_CUDA", "/usr/local/cuda")
    return os.environ.get("NVCC") or shutil.which("nvcc") or os.path.join(cuda, "bin", "nvcc")


def source_dir():
    return os.environ.get("SRCDIR") or os.path.dirname(os.path.dirname(os.path.dirname(HERE)))


def program(name):
    """Path of the compiled program: it has the hash of all that it may include."""
    ops = os.path.join(source_dir(), "src", "ops")
    text = hashlib.sha256(repr(PROGRAMS[name]).encode())
    for path in sorted(glob.glob(os.path.join(HERE, "*.cu")) + glob.glob(os.path.join(HERE, "*.h")) + glob.glob(ops + "/**/*.cuh", recursive=True)):
        with open(path, "rb") as f:
            text.update(f.read())
    place = os.path.join(os.environ.get("BUILDDIR", "."), "bench-kernels")
    os.makedirs(place, exist_ok=True)
    return os.path.join(place, f"{name}-{text.hexdigest()[:16]}")


def compiling(names):
    """Jobs; none for what is compiled already."""
    out = []
    for name in names:
        source, options = PROGRAMS[name]
        command = [nvcc(), "-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", *options, "-I", os.path.join(source_dir(), "src", "ops")]
        if not os.path.exists(program(name)):
            out.append(jobs.Job(f"nvcc, {name}", command + [os.path.join(HERE, source), "-o", program(name)]))
    return out


def running(names, limit=300):
    return {name: jobs.Job(f"kernels, {name}", [program(name)], None, limit) for name in names}


def rows_of(done):
    """done: jobs of running(), run."""
    return [row for name, job in done.items() for row in best(list(lines_of(name, job.output)))]


def report(done):
    """Lines of Markdown."""
    rows, lines = rows_of(done), []
    for name, job in done.items():
        said = [line for line in job.output.splitlines() if "failures" in line or line.startswith("FAIL")]
        lines += [f"- {name}: {line}" for line in said] + ([] if job.ok else [f"- {name}: exit {job.code}"])
    lines += ["", "| kernel | T | context | us | share of a copy | configuration | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        op, t, context, us, share, config = row
        mark = ("pass" if share >= BAR else "MISS") if judged(row) else ""
        lines.append(f"| {op} | {t} | {context or '-'} | {us:.2f} | {share:.0f} % | {config} | {mark} |")
    return lines


def main():
    p = argparse.ArgumentParser()
    p.add_argument("names", nargs="*", default=list(PROGRAMS))
    p.add_argument("--json")
    a = p.parse_args()
    unknown = [n for n in a.names if n not in PROGRAMS]
    if unknown:
        p.error(f"there is no '{unknown[0]}'; there are {', '.join(PROGRAMS)}")
    runner = jobs.Runner()
    runner.together("compiling", compiling(a.names))
    done = running(a.names)
    runner.alone("measuring", [[j] for j in done.values()])
    print("\n".join(report(done) + [""] + [f"- {what} {bar}: {got}" for what, bar, got, _ in bars(rows_of(done))]))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows_of(done), f, indent=1)
    return 0 if all(j.ok for j in done.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
