#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON of `mainstem bench --json` has what its tables say: bench_json.py FILE.json TABLES.txt prints "as printed" or what differs."""
import json
import sys

ways = [(v, w) for v in json.load(open(sys.argv[1]))["variants"] for w in v["ways"]]
rows = [[c.strip() for c in line.strip("| \n").split("|")] for line in open(sys.argv[2]) if line.startswith("| ") and "schedule" not in line]
heads = [line for line in open(sys.argv[2]) if "; floor " in line]
assert rows and len(rows) == len(ways), (len(rows), len(ways))
for (v, w), row in zip(ways, rows):
    want = [w["schedule"], w["graph"], str(w["nodes"]), str(w["edges"]), str(w["programmatic"]), str(w["lanes_predicted"])]
    assert row[:6] == want, (row, want)
    assert row[6] == ("-" if w["lanes_measured"] is None else str(w["lanes_measured"])), row
    assert row[9].startswith(f"{w['us']:.1f} us") and row[10] == f"{w['over_floor']:.2f}", (row, w)
    assert row[11] == ("yes" if w["same_bits"] else "NO"), (row, w)
    assert w["us_10"] <= w["us"] <= w["us_90"], w
for v, head in zip({id(v): v for v, _ in ways}.values(), heads):
    assert f"T = {v['dims']['T']}," in head and f"floor {v['floor_us']:.1f} us" in head, (v, head)
print("as printed")
