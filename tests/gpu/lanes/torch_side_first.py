#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that knows nothing of lanes: layers that fork, the side branch recorded first, in torch.cuda.graph
(the situation of pytorch issue 152114). Prints a line of JSON for each case: a checksum of the output, the time of a
replay, of an instantiation, and whether an instance could be updated with a second recording.

Patterns: two (main and side), three (main and two side streams), nested (the side branch forks as well)."""
import argparse
import ctypes
import hashlib
import json
import statistics
import sys
import time

SIZE = 4096
MAIN_KERNELS = 3


class Layers:
    """Buffers are made beforehand, so that only kernels are recorded."""

    def __init__(self, torch, pattern, layers, kernels):
        self.torch, self.pattern, self.layers, self.kernels = torch, pattern, layers, kernels
        self.streams = [torch.cuda.Stream() for _ in range(2)]
        generator = torch.Generator(device="cuda").manual_seed(layers * 16 + kernels)
        self.input = torch.rand(SIZE, device="cuda", generator=generator)
        self.factor = torch.rand(SIZE, device="cuda", generator=generator)
        self.x = torch.empty_like(self.input)
        self.buffer = [torch.empty_like(self.input) for _ in range(4)]

    def chain(self, start, out, n, scale):
        for i in range(n):
            if i % 2:
                self.torch.add(out, scale, out=out)
            else:
                self.torch.mul(out if i else start, self.factor, out=out)

    def fork(self, source, target):
        target.wait_stream(source)

    def layer(self):
        torch, (one, two), main = self.torch, self.streams, self.torch.cuda.current_stream()
        a, b, c, d = self.buffer
        self.fork(main, one)
        with torch.cuda.stream(one):
            if self.pattern == "nested":
                self.fork(one, two)
                with torch.cuda.stream(two):
                    self.chain(self.x, b, self.kernels, 0.25)
            self.chain(self.x, a, self.kernels, 0.5)
            if self.pattern == "nested":
                self.fork(two, one)
                torch.add(a, b, out=a)
        if self.pattern == "three":
            self.fork(main, two)
            with torch.cuda.stream(two):
                self.chain(self.x, b, self.kernels, 0.25)
        self.chain(self.x, c, MAIN_KERNELS, 0.125)
        self.fork(one, main)
        if self.pattern == "three":
            self.fork(two, main)
            torch.addcmul(c, a, b, out=d)
        else:
            torch.add(c, a, out=d)
        torch.frac(d, out=self.x)

    def run(self):
        self.torch.mul(self.input, 1.0, out=self.x)
        for _ in range(self.layers):
            self.layer()

    def checksum(self):
        self.torch.cuda.synchronize()
        return hashlib.sha256(bytes(self.x.view(self.torch.uint8).cpu().tolist())).hexdigest()[:16]


def record(torch, model):
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        model.run()
    return graph


def instantiate(graph, times):
    each = []
    for _ in range(times):
        start = time.perf_counter()
        graph.instantiate()
        each.append((time.perf_counter() - start) * 1e3)
    return statistics.median(each)


def replay(torch, graph, rounds, each):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(rounds):
        begin.record()
        for _ in range(each):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / each)
    return statistics.median(times)


def update(torch, model, one, two):
    """An instance of the first recording, updated with the second and launched: the checksum, or the driver's error."""
    cuda = ctypes.CDLL("libcuda.so.1")
    instance, info = ctypes.c_void_p(), (ctypes.c_uint64 * 4)()
    first, second = (ctypes.c_void_p(g.raw_cuda_graph()) for g in (one, two))
    error = cuda.cuGraphInstantiateWithFlags(ctypes.byref(instance), first, ctypes.c_ulonglong(0))
    if error:
        return f"instantiation: error {error}"
    error = cuda.cuGraphExecUpdate_v2(instance, second, ctypes.byref(info))
    if error:
        cuda.cuGraphExecDestroy(instance)
        return f"update: error {error}"
    model.x.zero_()
    error = cuda.cuGraphLaunch(instance, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
    result = f"launch: error {error}" if error else model.checksum()
    cuda.cuGraphExecDestroy(instance)
    return result


def measure(torch, pattern, layers, kernels):
    model = Layers(torch, pattern, layers, kernels)
    model.run()
    eager = model.checksum()
    graph = record(torch, model)
    ms = instantiate(graph, 5)
    model.x.zero_()
    graph.replay()
    result = model.checksum()
    us = replay(torch, graph, 15, 10)
    updated = update(torch, model, graph, record(torch, model))
    return {"pattern": pattern, "layers": layers, "kernels": kernels, "checksum": result, "eager": eager,
            "updated": updated, "replay_us": us, "instantiate_ms": ms}


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--layers", type=int, default=40)
    p.add_argument("--branch-kernels", type=int, default=2)
    p.add_argument("--pattern", choices=("two", "three", "nested"), default="two")
    p.add_argument("--case", action="append", metavar="PATTERN:LAYERS:KERNELS", help="instead; may be repeated")
    a = p.parse_args()
    if not a.case:
        return [(a.pattern, a.layers, a.branch_kernels)]
    return [(c.split(":")[0], int(c.split(":")[1]), int(c.split(":")[2])) for c in a.case]


def main():
    cases = arguments()
    try:
        import torch
    except ImportError:
        torch = None
    if not torch or not torch.cuda.is_available():
        print("skipped: no PyTorch" if not torch else "skipped: no GPU", file=sys.stderr)
        return 77
    for case in cases:
        print(json.dumps(measure(torch, *case)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
