#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins what relane.sh left in a directory into one table in Markdown. Fails if an output differs, an update was
refused, or lanes were not measured.

plain*.jsonl and relaned*.jsonl: lines of the program, alone and under `mainstem relane`, several runs
audit.jsonl, audit.json:         under `mainstem audit`: lines, report
after.jsonl, after.json:         under `mainstem relane --measure`"""
import glob
import json
import sys

HEAD = ("pattern", "layers", "side kernels", "nodes", "lanes before", "lanes after", "predicted", "edges added",
        "same output", "updates", "replay us before", "after", "instantiation ms before", "after", "after / before",
        "under audit", "audit / before")


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def best(runs, i, name):
    return min(run[i][name] for run in runs)


def groups(path, n):
    """The program makes a kind of graph for each case, in order."""
    with open(path, encoding="utf-8") as f:
        processes = [p for p in json.load(f)["processes"] if p["graphs"]]
    if len(processes) != 1 or len(processes[0]["graphs"]) != n:
        found = [len(p["graphs"]) for p in processes]
        sys.exit(f"{path}: {n} kinds of graphs in one process were expected, not {found}; "
                 f"errors: {[p['error'] for p in processes]}")
    return processes[0]["graphs"]


def main():
    where = sys.argv[1]
    plain = [lines(p) for p in sorted(glob.glob(f"{where}/plain*.jsonl"))]
    relaned = [lines(p) for p in sorted(glob.glob(f"{where}/relaned*.jsonl"))]
    audited, after_lines = lines(f"{where}/audit.jsonl"), lines(f"{where}/after.jsonl")
    n = len(plain[0])
    before, after = groups(f"{where}/audit.json", n), groups(f"{where}/after.json", n)
    wrong = []
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for i, case in enumerate(plain[0]):
        everything = [run[i] for run in plain + relaned + [audited, after_lines]]
        same = {r["checksum"] for r in everything} == {case["eager"]}
        updates = {r["updated"] for r in everything} == {case["eager"]}
        name = f"{case['pattern']} {case['layers']} {case['kernels']}"
        if not same or not updates:
            wrong.append(f"{name}: outputs {sorted({r['checksum'] for r in everything})}, updates "
                         f"{sorted({r['updated'] for r in everything})}")
        if not before[i]["replays_measured"] or not after[i]["replays_measured"]:
            wrong.append(f"{name}: lanes were not measured")
        ms = best(plain, i, "instantiate_ms")
        relaned_ms = best(relaned, i, "instantiate_ms")
        audit_ms = audited[i]["instantiate_ms"]
        cells = [case["pattern"], case["layers"], case["kernels"], before[i]["nodes"], before[i]["lanes_measured"],
                 after[i]["lanes_measured"], f"{before[i]['lanes_before']}, {after[i]['lanes_after']}",
                 after[i]["edges_added"], "yes" if same else "NO", "yes" if updates else "NO",
                 f"{best(plain, i, 'replay_us'):.1f}", f"{best(relaned, i, 'replay_us'):.1f}", f"{ms:.2f}",
                 f"{relaned_ms:.2f}", f"{relaned_ms / ms:.2f}", f"{audit_ms:.2f}", f"{audit_ms / ms:.2f}"]
        print("| " + " | ".join(str(c) for c in cells) + " |")
    for what in wrong:
        print("wrong: " + what, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
