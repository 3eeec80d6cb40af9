# SPDX-License-Identifier: Apache-2.0
"""Tensors as torch has them, seen through what they say of themselves: nothing here imports torch."""

import sys
from ctypes import c_int64

from ._c import DTYPES, Array
from .errors import ContiguityError, DeviceError, DtypeError, StatusError

TORCH = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "int32": "i32",
         "int64": "i64", "uint8": "u8"}


def _place(device):
    """Kind and index of a torch.device, or of its name: "cuda:1" is ("cuda", 1), "cuda" is ("cuda", None)."""
    if hasattr(device, "type"):
        return device.type, getattr(device, "index", None)
    kind, _, index = str(device).partition(":")
    return kind, int(index) if index.isdigit() else None


def as_array(name, tensor, device):
    """A stem_array for a tensor on GPU `device`, or in host memory if `device` is None; raises if it is elsewhere, not
    contiguous, or of a dtype that programs do not have. Shape, dtype and address are the library's to check."""
    for member in ("data_ptr", "shape", "dtype", "device", "is_contiguous"):
        if not hasattr(tensor, member):
            raise StatusError("tensor %s: a %s has no %s; a torch.Tensor is wanted"
                              % (name, type(tensor).__name__, member))
    kind, index = _place(tensor.device)
    if device is None and kind != "cpu":
        raise DeviceError("tensor %s is on %s: copy() takes tensors in host memory" % (name, tensor.device),
                          "STEM_E_WRONG_DEVICE")
    if device is not None:
        if kind != "cuda" or (index if index is not None else device) != device:
            raise DeviceError("tensor %s is on %s, the program on cuda:%d" % (name, tensor.device, device),
                              "STEM_E_WRONG_DEVICE")
    dtype = str(tensor.dtype).replace("torch.", "")
    if dtype not in TORCH:
        theirs = [torch for torch, ours in TORCH.items() if ours == dtype]
        raise DtypeError("tensor %s is %s, %s" % (name, tensor.dtype, "whose name in torch is torch.%s" % theirs[0] if theirs else
                                                  "which programs do not have"), "STEM_E_WRONG_DTYPE")
    if not tensor.is_contiguous():
        raise ContiguityError("tensor %s is not contiguous: bind tensor.contiguous() and keep it" % name,
                              "STEM_E_WRONG_SHAPE")
    shape = [int(d) for d in tensor.shape]
    dims = (c_int64 * max(len(shape), 1))(*shape)
    return Array(at=tensor.data_ptr(), dtype=DTYPES.index(TORCH[dtype]), rank=len(shape), dim=dims)


def torch_module():
    """torch if the program has imported it; it is never imported here."""
    return sys.modules.get("torch")


def default_device():
    torch = torch_module()
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_available() else 0


def stream_handle(stream, device):
    """A CUstream: of an int, of something with .cuda_stream, or torch's current one."""
    if stream is None:
        torch = torch_module()
        stream = torch.cuda.current_stream(device) if torch is not None and torch.cuda.is_available() else 0
    return int(getattr(stream, "cuda_stream", stream))
