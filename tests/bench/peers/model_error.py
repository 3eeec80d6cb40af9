# SPDX-License-Identifier: Apache-2.0
"""How far a model of examples/models and its PyTorch peer in bf16 are from the same model in float64.

Full width, few layers, the same random weights, caches and positions: the normalised hidden state after the last layer is
compared, token by token. A token for which rounding turned the choice of an expert counts like any other. Experts in nvfp4 and
int4 ("kimi_k25_rank nvfp4"), and all weights in f8e4m3, are random codes and scales; float64 and PyTorch compute with the numbers
that these stand for. With f8e4m3 the format rounds activations too: what that alone does to float64 is a column of its own, and a
first line is of the dense layers alone, in which no expert can be chosen otherwise.

    model_error.py MODEL FILE.stem [--tokens 1,16] [--layers 3] [--context 1024] [--json FILE]
Needs PyTorch with a GPU, and the mainstem module (PYTHONPATH=runtime/python, MAINSTEM_LIB).
"""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_models  # noqa: E402

NAMES = {  # weights of torch_models by their names in the .stem files
    "deepseek_v2_lite": dict(norm1="norm", down="down", kv_norm="kv_norm", kv_up="up", o="o"),
    "kimi_k25_rank": dict(norm1="norm", down="down", q_norm="q_norm", up="q_up", kv_norm="kv_norm", kv_up="kv_up", o="o"),
    "qwen3_30b_a3b": dict(norm1="norm", down="qkv", q_norm="q_norm", k_norm="k_norm", o="o"),
    "deepseek_v32_rank": dict(norm1="norm", down="down", q_norm="q_norm", up="q_up", kv_norm="kv_norm", kv_up="kv_up", o="o", index_q="index_q",
                              index_heads="index_heads", index_gain="index_gain", index_bias="index_bias"),
}
FORMATS = {"kimi_k25_rank nvfp4": 1, "kimi_k25_rank int4": 2}  # -D FORMAT
NAMES.update({name: NAMES[name.split()[0]] for name in FORMATS})
F8 = ("down", "up", "o", "index_q", "up13", "up2", "w13", "w2", "s13", "s2")  # weights in f8e4m3 of deepseek_v32_rank
INDEX_TOPK = 256
MOE = dict(norm2="norm", gate="gate", bias="bias", w13="w13", w2="w2", s13="s13", s2="s2")
WIDE = ("w13", "w2")  # cast where they are used: only the chosen experts


# ---- weights that are not bf16 ----


def f8_blocks(torch, shape):
    """Random f8e4m3 with a scale for each 128 x 128, and the numbers that they stand for."""
    *lead, n, k = shape
    pad = [(x + 127) // 128 for x in (n, k)]
    w = (torch.rand(shape, device="cuda") * 896 - 448).to(torch.float8_e4m3fn)
    scale = (torch.rand(*lead, *pad, device="cuda") + 0.5) * (3 / k) ** 0.5 / 448
    return w, scale, w.float() * scale.repeat_interleave(128, -2)[..., :n, :].repeat_interleave(128, -1)[..., :k]


def through_f8(torch, x):
    """Activations as a product in f8e4m3 sees them: 128 columns with a scale of their own."""
    n = x.shape[-1]
    part = torch.nn.functional.pad(x.float(), (0, -n % 128)).view(*x.shape[:-1], -1, 128)
    amax = part.abs().amax(-1, keepdim=True).clamp(min=1e-4)
    return ((part * (448 / amax)).to(torch.float8_e4m3fn).to(x.dtype) * (amax / 448).to(x.dtype)).flatten(-2)[..., :n]


def to_f8(torch, layer):
    layer["packed"] = {}
    for name in F8:
        if name in layer:
            w, scale, layer[name] = f8_blocks(torch, tuple(layer[name].shape))
            layer["packed"][name] = (w, scale)


def packed(torch, shape, group, form):
    """Random codes with their scales as the program takes them, by suffix, and the numbers that they stand for."""
    n, rows, columns = shape
    code = torch.randint(int(form == 2), 16, shape, device="cuda", dtype=torch.uint8)  # int4: -7 .. 7, without a mean
    given = {"": code[..., 1::2] << 4 | code[..., 0::2]}
    scale = torch.rand(n, rows, columns // group, device="cuda") + 0.5
    if form == 1:
        value = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
        value = torch.cat((value, -value))
        given["_scale"] = scale.to(torch.float8_e4m3fn)
        whole = torch.full((n,), columns**-0.5 / 3, device="cuda") * (torch.rand(n, device="cuda") + 0.5)
        given["_scale_2"] = whole
        wide = value[code.int()].view(n, rows, -1, group) * given["_scale"].float().unsqueeze(3) * whole.view(n, 1, 1, 1)
    else:
        given["_scale"] = (scale * columns**-0.5 / 4.3).to(torch.bfloat16)
        wide = ((code.float() - 8).view(n, rows, -1, group) * given["_scale"].float().unsqueeze(3)).to(torch.bfloat16)
    return given, wide.view(shape)


def pack_experts(torch, layer, form):
    """Replaces the experts of a layer: what the program gets is in layer["packed"]."""
    layer["packed"] = {}
    for w in WIDE:
        given, wide = packed(torch, tuple(layer[w].shape), 16 if form == 1 else 32, form)
        if w == "w13" and form == 1:  # one for the gates and one for the others
            given["_scale_2"] = given["_scale_2"].unsqueeze(1).expand(-1, 2).contiguous()
        layer["packed"].update({w + suffix: x for suffix, x in given.items()})
        layer[w] = wide


# ---- one program and its peers ----


def bound(name, weights, table, known):
    """The program's tensors of all layers, as far as it has them."""
    out = {"embeddings": table, "norm": weights["norm"], "head": weights["head"]}
    for l, w in enumerate(weights["layers"]):
        mlp = f"mlp[{l}]" if f"mlp[{l}].norm" in known else "mlp"
        place = {ours: f"attention[{l}].{theirs}" for ours, theirs in NAMES[name].items()}
        if "up13" in w:
            place.update(norm2=f"{mlp}.norm", up13=f"{mlp}.w13", up2=f"{mlp}.w2")
        else:
            place.update({ours: f"moe[{l}].{theirs}" for ours, theirs in MOE.items() if ours in w})
        out.update({theirs: w[ours] for ours, theirs in place.items()})
        for ours, x in w.get("packed", {}).items():
            if isinstance(x, tuple):
                out[place[ours]], out[place[ours] + "_scale"] = x
            else:
                out[f"moe[{l}].{ours}"] = x
    return {k: v for k, v in out.items() if k in known}


def errors(torch, got, want):
    e = ((got.double() - want).norm(dim=1) / want.norm(dim=1)).sort().values
    return e[len(e) // 2].item(), e[-1].item()


def errors_of(torch, results, want):
    return {kind: errors(torch, got[1], want) for kind, got in results.items() if kind != "wide"}


def compare(torch, mainstem, name, path, tokens, layers, context):
    c = dict(torch_models.CONFIGS[name.split()[0]], layers=layers)
    if "index_topk" in c:
        c.update(index_topk=INDEX_TOPK)
    weights = torch_models.make_weights(torch, c, layers, 0, "cuda", torch.bfloat16)
    for layer in weights["layers"] if name == "deepseek_v32_rank" else ():
        to_f8(torch, layer)
    for layer in weights["layers"] if name in FORMATS else ():
        if "w13" in layer:
            pack_experts(torch, layer, FORMATS[name])
    defines = dict(LAYERS=layers, SETS=layers, CONTEXT=context, SEQUENCES=tokens, EPS=1e-6, BASE=10000.0)
    if "latent" in c:
        defines.update(FACTOR=1.0)
    if name in FORMATS:
        defines.update(FORMAT=FORMATS[name])
    if "index_topk" in c:
        defines.update(INDEX_TOPK=INDEX_TOPK)
    program = mainstem.compile(path, dims={"T": [tokens]}, defines=defines)
    pages = context // 64
    table = torch.cat((weights["table"], torch.zeros(c["vocab"] - 1024, c["hidden"], device="cuda", dtype=torch.bfloat16)))
    position = torch.arange(tokens, device="cuda", dtype=torch.int32) * 0 + context - 1
    ids = (torch.arange(tokens, device="cuda", dtype=torch.int32) * 37) % 1024
    given = bound(name, weights, table, program.tensors)
    given.update(ids=ids, at=position, slot=torch.arange(tokens, device="cuda", dtype=torch.int32) * context + context - 1,
                 table=torch.arange(tokens * pages, device="cuda", dtype=torch.int32).view(tokens, pages),
                 next=torch.empty(tokens, device="cuda", dtype=torch.int32),
                 last=torch.empty(tokens, c["hidden"], device="cuda", dtype=torch.bfloat16))  # fmt: skip
    caches = []
    for l in range(layers):
        if "latent" in c:
            row = torch.randn(tokens, context, c["latent"] + c["rope"], device="cuda").to(torch.bfloat16)
            caches.append(row)
            given[f"attention[{l}].cache"] = row.clone().view(tokens * pages, 64, -1)
            if "index_topk" in c:
                keys = torch.randn(tokens, context, c["index_width"], device="cuda").to(torch.bfloat16)
                caches[-1] = (row, keys)
                given[f"attention[{l}].keys"] = keys.clone().view(tokens * pages, 64, -1)
        else:
            both = torch.randn(2, tokens, context, c["kv_heads"], c["head"], device="cuda").to(torch.bfloat16)
            caches.append(both.transpose(2, 3).contiguous())
            for i, kind in enumerate("kv"):
                given[f"attention[{l}].{kind}"] = both[i].clone().view(tokens * pages, 64, c["kv_heads"], c["head"])
    program.bind(given)
    program.launch(T=tokens)
    torch.cuda.synchronize()

    width = c["rope"] if "latent" in c else c["head"]
    angle = (context - 1.0) * 10000.0 ** -(torch.arange(0, width, 2, device="cuda", dtype=torch.float64) / width)
    angle = angle.expand(tokens, -1)
    rows, results, f8 = torch.arange(tokens, device="cuda"), {}, lambda x: through_f8(torch, x)
    kinds = [("bf16", torch.bfloat16, torch.float32, lambda x: x), ("wide", torch.float64, torch.float64, lambda x: x)]
    for kind, dtype, wide, rounded in kinds + ([("format", torch.float64, torch.float64, f8)] if "index_topk" in c else []):
        attend, routed, shared, _, forward = torch_models.make_model(torch, c, context, "gather", None, wide, rounded)
        cast = lambda d: {k: v if k in WIDE else v.to(dtype) for k, v in d.items() if k != "packed"}  # noqa: E731
        w = {k: v.to(dtype) for k, v in weights.items() if k != "layers"}
        w["layers"] = [cast(layer) for layer in weights["layers"]]
        if dtype == torch.bfloat16:
            for layer, exact in zip(w["layers"], weights["layers"]):
                layer.update({"bias": exact["bias"]} if "bias" in exact else {})
        mine = [tuple(y.to(dtype).clone() for y in x) if isinstance(x, tuple) else x.to(dtype).clone() for x in caches]
        results[kind] = forward(attend, routed, shared, w, ids.long(), mine, rows, torch.cos(angle).to(wide), torch.sin(angle).to(wide))
        del w, mine
    next_wide, want = results["wide"]
    found = errors_of(torch, dict(results, ours=(None, given["last"])), want)
    same = (given["next"] == next_wide).sum().item()
    program.close()
    return dict(model=name, layers=layers, T=tokens, same=same, **found)


HEAD = """| model | layers | T | error of ours, median (worst token) | of PyTorch in bf16 | of f8e4m3 alone | same token as float64 |
|---|---|---|---|---|---|---|"""


def line(r):
    each = [f"{r[kind][0]:.2e} ({r[kind][1]:.2e})" if kind in r else "-" for kind in ("ours", "bf16", "format")]
    return f"| {r['model']} | {r['layers']} | {r['T']} | {' | '.join(each)} | {r['same']} of {r['T']} |"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=NAMES)
    p.add_argument("file")
    p.add_argument("--tokens", default="1,16")
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--json")
    a = p.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    import mainstem

    print(HEAD)
    rows, few = [], torch_models.CONFIGS[a.model.split()[0]].get("dense_layers", 0)  # more than one: these, then one with experts
    with torch.no_grad():
        for layers in (few, few + 1) if few else (a.layers,):
            for t in a.tokens.split(","):
                rows.append(compare(torch, mainstem, a.model, a.file, int(t), layers, a.context))
                print(line(rows[-1]), flush=True)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
