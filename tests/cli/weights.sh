#!/usr/bin/env bash
# run --weights and --input with files that do not fit the program, or that are no whole .safetensors: what is said, where, and the way out.
set -u
: "${MAINSTEM:?}" "${SRCDIR:?}"
command -v python3 >/dev/null 2>&1 || { echo 'skipped: no python3'; exit 77; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
export MAINSTEM_CACHE=$work/cache
. "$SRCDIR/tests/cli/expect.sh"
cd "$work" || exit 99

cat >make.py <<'END'
import json
import os
import struct


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def put(path, header, floats, length=None, cut=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = struct.pack("<Q", len(text) if length is None else length) + text + struct.pack(f"<{floats}f", *range(floats))
    with open(path, "wb") as f:
        f.write(data[:cut])


def index(name, text):
    os.mkdir(name)
    with open(name + "/model.safetensors.index.json", "w") as f:
        f.write(text)


A, B = tensor("F32", [2, 4], 0, 32), tensor("F32", [4], 32, 48)
put("good", {"a": A, "b": B}, 12)
put("shape", {"a": tensor("F32", [4, 2], 0, 32), "b": B}, 12)
put("flat", {"a": tensor("F32", [8], 0, 32), "b": B}, 12)
put("dtype", {"a": tensor("BF16", [2, 4], 0, 16), "b": tensor("F32", [4], 16, 32)}, 8)
put("unknown", {"a": tensor("F33", [2, 4], 0, 32)}, 8)
put("missing", {"A": A, "b": B}, 12)
put("cut", {"a": A, "b": B}, 12, cut=-10)
put("cut_header", {"a": A, "b": B}, 12, cut=40)
put("huge", {"a": A, "b": B}, 12, length=1 << 40)
put("most", {"a": A, "b": B}, 12, length=(1 << 64) - 1)
put("short", {"a": A, "b": B}, 12, length=5)
put("empty", {}, 0, cut=0)
put("met", {"f[0].v": tensor("F32", [4], 0, 16)}, 4)
put("overlap", {"a": A, "b": tensor("F32", [4], 16, 32)}, 8)
put("hole", {"a": A, "b": tensor("F32", [4], 48, 64)}, 16)
put("tail", {"a": A, "b": B}, 14)
put("backwards", {"a": tensor("F32", [2, 4], 32, 0)}, 8)
put("bytes", {"a": tensor("F32", [2, 4], 0, 28)}, 7)
put("negative", {"a": tensor("F32", [2, -4], 0, 32)}, 8)
put("twice", b'{"a":' + json.dumps(A).encode() + b',"a":' + json.dumps(A).encode() + b"}", 8)
put("words", b'{"a": nope}', 8)
put("list", b"[1, 2]", 8)
put("e_shape", {"e.0": tensor("F32", [4], 0, 16), "e.1": tensor("F32", [5], 16, 36)}, 9)
put("e_dtype", {"e.0": tensor("F32", [4], 0, 16), "e.1": tensor("F16", [4], 16, 24)}, 6)
put("e_missing", {"e.0": tensor("F32", [4], 0, 16), "e1": tensor("F32", [4], 16, 32)}, 8)
put("x", {"x": tensor("F32", [4, 2], 0, 32)}, 8)
index("gone", '{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}')
put("gone/1.safetensors", {"a": A}, 8)
index("elsewhere", '{"weight_map": {"a": "1.safetensors", "b": "1.safetensors"}}')
put("elsewhere/1.safetensors", {"a": A}, 8)
index("torn", '{"weight_map": ')
index("outside", '{"weight_map": {"a": "../good"}}')
index("mapless", '{"weights": {}}')
END
python3 -B make.py || exit 99
cat >w.stem <<'END'
module w;
model m(x: f32[2, 4]) -> f32[2, 4] {
  weight a: f32[2, 4];
  weight b: f32[4];
  return x * a + b;
}
END
cat >e.stem <<'END'
module e;
const E = 2;
layer f(x: f32[E, 4]) -> f32[E, 4] {
  weight w: f32[E, 4] = "e.{*}";
  return x * w;
}
model m(x: f32[E, 4]) -> f32[E, 4] { return f(x); }
END

# says FILE PROGRAM LINE 'message' 'help': at the declaration in the program.
says() {
    expect 1 "^$2.stem:$3: error: $4" run --device=cpu "$2.stem" --weights="$1"
    expect 1 "^      = help: $5" run --device=cpu "$2.stem" --weights="$1"
}
says shape w 3 "shape: 'a' is F32\[4, 2\], the program wants F32\[2, 4\]$" 'its sizes are those of the declaration here: .* -D NAME=VALUE'
says flat w 3 "flat: 'a' is F32\[8\], the program wants F32\[2, 4\]$" 'its sizes'
says dtype w 3 "dtype: 'a' is BF16\[2, 4\], the program wants F32\[2, 4\]$" 'nothing is converted while it is loaded: .*f32\(w\)'
says unknown w 3 "unknown: 'a' is F33\[2, 4\], the program wants F32\[2, 4\]$" 'nothing is converted'
says e_shape e 4 "e_shape: 'e.1' is F32\[5\], the program wants F32\[4\] for its weight 'f.w'$" 'its sizes'
says e_dtype e 4 "e_dtype: 'e.1' is F16\[4\], the program wants F32\[4\] for its weight 'f.w'$" 'nothing is converted'
says e_missing e 4 "e_missing has no tensor 'e.1', which is wanted for weight 'f.w'; the nearest is 'e.0'$" 'the text behind its type'
expect 1 "^w.stem:2: error: x: 'x' is F32\[4, 2\], the program wants F32\[2, 4\]$" run --device=cpu w.stem --input=x
expect 0 'bit for bit' run --device=cpu w.stem --weights=good
# What the help says.
sed 's/weight a: f32/weight a: bf16/; s/x \* a/x * f32(a)/' w.stem >converted.stem
expect 0 'bit for bit' run --device=cpu converted.stem --weights=dtype
expect 0 'bit for bit' run --device=cpu e.stem -D E=1 --weights=e_shape
expect 0 "note: 1 of 2 weights are from missing; the others are random: 'a'; the nearest to 'A' of missing is 'a'$" run --device=cpu w.stem --weights=missing
# Names that are met are no hint for others.
cat >met.stem <<'END'
module met;
layer f(x: f32[4]) -> f32[4] { weight v: f32[4]; return x * v; }
model m(x: f32[4]) -> f32[4] { return f[1](f[0](x)); }
END
expect 0 "the others are random: 'f\[1\].v'$" run --device=cpu met.stem --weights=met

while read -r file what; do
    expect 3 "^mainstem: error: $what" run --device=cpu w.stem --weights="$file"
done <<'END'
cut cut: tensor 'b' lies outside of the file: it ends at byte [0-9]+ of [0-9]+; was it cut short\?$
cut_header 'cut_header' is not a .safetensors file, or was cut short: its header does not fit into it, with [0-9]+ bytes of 40$
huge 'huge' is not a .safetensors file, or was cut short: .*, with 1099511627776 bytes of [0-9]+$
most 'most' is not a .safetensors file, or was cut short: .*, with 18446744073709551615 bytes of [0-9]+$
short 'short' is not a .safetensors file: .*end of file
empty 'empty' is not a .safetensors file: it is shorter than 8 bytes$
overlap overlap: tensors 'a' and 'b' overlap$
hole hole: the bytes from 32 to 47 of its data belong to no tensor$
tail tail: the bytes from 48 of its data on belong to no tensor$
backwards backwards: tensor 'a' has data_offsets that are no span$
bytes bytes: tensor 'a' does not have as many bytes as its shape and dtype need: 28, not 32$
negative negative: tensor 'a' has no shape, or an impossible one$
twice 'twice' is not a .safetensors file: duplicate object key
words 'words' is not a .safetensors file: invalid token
list 'list' is not a .safetensors file: its header is no object$
gone cannot open 'gone/2.safetensors', which the checkpoint's index names: No such file
gone/model.safetensors.index.json cannot open 'gone/2.safetensors', which the checkpoint's index names: No such file
elsewhere elsewhere: tensor 'b' is not in '1.safetensors', where the index has it$
torn 'torn/model.safetensors.index.json' is no index of a checkpoint: 
outside 'outside/model.safetensors.index.json': tensor 'a' is in no file beside the index$
mapless 'mapless/model.safetensors.index.json' is no index of a checkpoint: it has no weight_map$
nowhere cannot open 'nowhere': No such file
nowhere.json cannot open 'nowhere.json': No such file
END
echo "$((n - failed)) of $n as they should be"
[ $failed = 0 ]
