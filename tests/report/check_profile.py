# SPDX-License-Identifier: Apache-2.0
"""check_profile.py PLAN TRACE graph|streams: every op once, on a lane of its own, in agreement with the plan's edges."""
import json
import sys

plan, trace = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
for pid, variant in enumerate(plan["variants"]):
    mine = [e for e in trace["traceEvents"] if e["pid"] == pid]
    ops = [e for e in mine if e["ph"] == "X"]
    assert [e["args"]["op"] for e in ops] == list(range(len(variant["ops"]))), "every op once"
    assert [e["name"] for e in ops] == [o["name"] for o in variant["ops"]], "by its name"
    tracks = {e["tid"]: e["args"]["name"] for e in mine if e["ph"] == "M" and e["name"] == "thread_name"}
    word = "lane" if sys.argv[3] == "graph" else "stream"
    assert all(name.startswith(f"{word} {tid}: ") for tid, name in tracks.items()), tracks
    for e, o in zip(ops, variant["ops"]):
        assert e["tid"] == e["args"]["lane"] and e["args"]["stream"] in tracks[e["tid"]], e
        assert e["args"]["text"] and e["dur"] > 0 and e["args"]["estimated_us"] > 0, e
        assert ("kernel" in e["args"]) == ("kernel" in o), e
    for a, b, *_ in variant["edges"]:
        assert ops[a]["ts"] + ops[a]["dur"] <= ops[b]["ts"] + 1e-6, f"{ops[b]['name']} starts before {ops[a]['name']} ends"
    assert min(e["ts"] for e in ops) == 0
    assert "agree with all" in trace["otherData"]["records"][pid] and "GUESSED" not in trace["otherData"]["records"][pid]
