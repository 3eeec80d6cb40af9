# SPDX-License-Identifier: Apache-2.0
"""Decode attention in PyTorch, for comparison with tests/bench/kernels/attention: scaled_dot_product_attention of one new
token a sequence over contiguous caches, in a CUDA graph over rotating caches. Prints microseconds for a call and GB/s.

    python3 torch_attention.py
"""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def time_of(calls, sets, make):
    for i in range(3):
        make(i % sets)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            make(i % sets)
    times = []
    for _ in range(12):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1e3 / calls)
    return sorted(times)[len(times) // 2]


def gqa(heads, groups, width, tokens, context):
    size = tokens * context * groups * width * 2 * 2
    sets = max(1, min(24, int(3e8 / size) + 1))
    q = torch.randn(tokens, heads, 1, width, device="cuda", dtype=torch.bfloat16)
    kv = [torch.randn(2, tokens, groups, context, width, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    best = {}
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                best[name] = time_of(max(4, sets), sets, lambda i: F.scaled_dot_product_attention(
                    q, kv[i][0], kv[i][1], enable_gqa=True))
        except Exception as e:  # a backend that does not take these shapes
            best[name] = float("inf")
            print(f"{name}: {str(e).splitlines()[0][:90]}")
            torch.cuda.synchronize()
    text = "  ".join(f"{n} {t:9.2f} us {size / t * 1e-3:7.0f} GB/s" for n, t in best.items())
    print(f"torch gqa {heads}/{groups} x {width}  T={tokens:<3} ctx {context:<6} {text}", flush=True)


def main():
    for context in (1024, 4096, 16384, 65536):
        for tokens in (1, 4, 16, 64):
            if tokens * context <= 1 << 20:
                gqa(32, 4, 128, tokens, context)


main()
