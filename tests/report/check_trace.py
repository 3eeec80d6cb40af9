# SPDX-License-Identifier: Apache-2.0
"""check_trace.py PLAN TRACE: the trace shows each op of the plan once, on its stream, without overlaps, and its edges in time."""
import json
import sys

plan, trace = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
variant, events = plan["variants"][0], [e for e in trace["traceEvents"] if e["pid"] == 0]
ops = [e for e in events if e["ph"] == "X"]
names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
assert [e["name"] for e in ops] == [o["name"] for o in variant["ops"]], "ops, in issue order"
assert [e["tid"] for e in ops] == [o["stream"] for o in variant["ops"]], "on their streams"
assert [names[s] for s in sorted(names)] == [s["name"] if isinstance(s, dict) else s for s in plan["streams"]], "tracks have the streams' names"
for stream in names:
    mine = [e for e in ops if e["tid"] == stream]
    for a, b in zip(mine, mine[1:]):
        assert a["ts"] + a["dur"] <= b["ts"] + 1e-6, f"{a['name']} overlaps {b['name']}"
for a, b, *_ in variant["edges"]:
    assert ops[a]["ts"] + ops[a]["dur"] <= ops[b]["ts"] + 1e-6, f"{ops[b]['name']} starts before {ops[a]['name']} ends"
end = max(e["ts"] + e["dur"] for e in ops)
assert abs(end - variant["critical_path_us"]) < 1e-3 * end, "the end is the schedule's estimate"
flows = [[e["id"] for e in events if e["ph"] == p] for p in "sf"]
crossing = [i for i, (a, b, *rest) in enumerate(variant["edges"]) if ops[a]["tid"] != ops[b]["tid"] and "continuation" not in rest]
assert flows == [crossing, crossing], "an arrow for each edge between streams"
starts = [e["id"] for e in trace["traceEvents"] if e["ph"] == "s"]
assert len(set(starts)) == len(starts), "arrows of all specialisations have numbers of their own"
