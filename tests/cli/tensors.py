# SPDX-License-Identifier: Apache-2.0
"""tensors.py write FILE NAME=v,v,...:ROWS ... | show FILE...: .safetensors files with nothing but Python.

Of several files, `show` prints the sums."""
import json
import struct
import sys


def write(path, tensors):
    header, data = {}, b""
    for t in tensors:
        name, rest = t.split("=")
        numbers, rows = rest.split(":")
        values = [float(v) for v in numbers.split(",")]
        shape = [len(values)] if rows == "0" else [int(rows), len(values) // int(rows)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(n)), f.read()
    assert n % 8 == 0 and sum(t["data_offsets"][1] - t["data_offsets"][0] for t in header.values()) == len(data)
    for name, t in sorted(header.items()):
        part = data[t["data_offsets"][0]:t["data_offsets"][1]]
        if t["dtype"] == "F32":
            values = struct.unpack(f"<{len(part) // 4}f", part)
        else:
            values = [struct.unpack("<f", b"\0\0" + part[i:i + 2])[0] for i in range(0, len(part), 2)]
        yield name, t["dtype"], t["shape"], values


def show(paths):
    for same in zip(*map(read, paths)):
        print(*same[0][:3], *(f"{sum(v):g}" for v in zip(*(t[3] for t in same))))


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3:])
else:
    show(sys.argv[2:])
