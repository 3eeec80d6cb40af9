# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program around emitted C: eight layers on torch's tensors, torch's stream and torch's graphs.

    python embed.py VENDOR [TOKENS]
                      where: mainstem emit qkv_three_streams.stem --dim T=1,4,16,64 --name qkv -o VENDOR

TOKENS is 16, or what the largest bucket has room for. If their bucket is larger, the rows beyond them are zeros. Compiles the sources into a shared object, binds tensors by name, runs them on the current stream and inside
torch.cuda.graph, and compares with the same computation in torch. Exits 77 where there is no torch or no GPU.
"""
import ctypes
import os
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    print("skipped: no torch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: no GPU")
    sys.exit(77)

HIDDEN, LAYERS = 1024, 8
BF16 = 2


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("cuda", ctypes.c_int), ("op", ctypes.c_char_p), ("line", ctypes.c_uint32),
                ("message", ctypes.c_char * 512)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("dtype", ctypes.c_int), ("rank", ctypes.c_uint32), ("dim", ctypes.c_int64 * 6),
                ("stride", ctypes.c_int64 * 6)]


class Program:
    """qkv.h as a class. Keeps the tensors that it was given."""

    def __init__(self, library):
        self.c = ctypes.CDLL(library)
        self.c.qkv_bucket.restype, self.c.qkv_bucket.argtypes = ctypes.c_int64, [ctypes.c_int64]
        self.err, self.p, self.kept = Error(), ctypes.c_void_p(), {}
        self.check(self.c.qkv_create(None, ctypes.byref(self.p), ctypes.byref(self.err)))

    def check(self, status):
        if status:
            raise RuntimeError(self.err.message.decode())

    def bind(self, name, x):
        kinds = {torch.bfloat16: BF16, torch.float32: 0, torch.float16: 1}
        pad = [0] * (6 - x.dim())
        t = Tensor(x.data_ptr(), kinds[x.dtype], x.dim(), (ctypes.c_int64 * 6)(*x.shape, *pad),
                   (ctypes.c_int64 * 6)(*x.stride(), *pad))
        self.check(self.c.qkv_bind(self.p, name.encode(), ctypes.byref(t), ctypes.byref(self.err)))
        self.kept[name] = x

    def launch(self, tokens):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.c.qkv_launch(self.p, ctypes.c_int64(tokens), stream, ctypes.byref(self.err)))

    def close(self):
        self.c.qkv_destroy(self.p)


def build(vendor):
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    out = os.path.join(vendor, "qkv.so")
    sources = [os.path.join(vendor, f) for f in sorted(os.listdir(vendor)) if f.startswith("qkv") and f.endswith(".c")]
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-fPIC", "-shared", f"-I{cuda}/include", "-o", out,
                    *sources, "-ldl"], check=True)
    return out


def rmsnorm(x, weight):
    x = x.float()
    return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()).bfloat16()


def reference(hidden, w):
    for i in range(LAYERS):
        h = rmsnorm(hidden, w[f"block[{i}].norm"])
        q, k, v = (h @ w[f"block[{i}].{m}"].T for m in ("wq", "wk", "wv"))
        p = torch.softmax(q.float() @ k.float().T * HIDDEN**-0.5, dim=-1)
        hidden = hidden + (p @ v.float()).bfloat16() @ w[f"block[{i}].wo"].T
    return hidden


def microseconds(run, n=200):
    for _ in range(20):
        run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(n):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / n * 1e6


def captured(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def choose(program, asked):
    """Tokens, and the rows of their bucket."""
    for tokens in [asked] if asked else (16, 8, 4, 2, 1):
        if program.c.qkv_bucket(tokens):
            return tokens, program.c.qkv_bucket(tokens)
    raise SystemExit(f"no bucket has room for {asked or 1} tokens")


def main(vendor, asked=0):
    torch.manual_seed(1)
    torch.cuda.init()
    program = Program(build(vendor))
    tokens, rows = choose(program, asked)
    make = lambda *shape, scale=1.0: (torch.randn(*shape, device="cuda") * scale).bfloat16()
    weights = {}
    for i in range(LAYERS):
        weights[f"block[{i}].norm"] = make(HIDDEN, scale=0.1) + 1
        for m in ("wq", "wk", "wv", "wo"):
            weights[f"block[{i}].{m}"] = make(HIDDEN, HIDDEN, scale=HIDDEN**-0.5)
    hidden, out = make(rows, HIDDEN), torch.empty(rows, HIDDEN, device="cuda", dtype=torch.bfloat16)
    hidden[tokens:] = 0
    for name, x in {"hidden": hidden, "out": out, **weights}.items():
        program.bind(name, x)
    try:
        program.bind("hidden", hidden.T)
        raise SystemExit("a transposed tensor was accepted")
    except RuntimeError as e:
        print("as it should be:", e)

    want = reference(hidden, weights).float()
    program.launch(tokens)
    eager = out.clone()
    graph = captured(lambda: program.launch(tokens))
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    same = torch.equal(out, eager)
    error = ((eager.float() - want).norm() / want.norm()).item()
    print(f"{tokens} tokens, bucket of {rows}: relative error against torch {error:.2e}; eager and replayed {'agree bit for bit' if same else 'DIFFER'}")
    theirs = captured(lambda: reference(hidden, weights))
    print(f"per step: torch eager {microseconds(lambda: reference(hidden, weights)):.1f} us, torch graph "
          f"{microseconds(theirs.replay):.1f} us, emitted eager {microseconds(lambda: program.launch(tokens)):.1f} us, "
          f"emitted graph {microseconds(graph.replay):.1f} us")
    del graph, theirs
    program.close()
    return 0 if same and error < 2e-2 else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
