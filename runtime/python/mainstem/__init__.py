# SPDX-License-Identifier: Apache-2.0
"""Mainstem from Python: compile .stem programs, bind torch tensors, launch on torch's stream or into its capture.

    import mainstem
    program = mainstem.compile("model.stem", dims={"T": [1, 4, 16]})
    program.bind({"hidden": x, "result": y, "moe[0].norm": norm, ...})
    program.launch(T=4)                    # on torch.cuda.current_stream()
    with torch.cuda.graph(g):
        program.launch(T=4)                # the stream captures: recorded

compile() and what a plan says need neither torch nor a GPU. docs/runtime.md is the guide.
"""

from ._c import version
from .errors import (ArchError, BucketError, BusyError, CaptureError, CompileError, ContiguityError, DeviceError, DriverError,
                     DtypeError, Error, LibraryError, Message, MissingError, NullError, ShapeError, StatusError, UnboundError,
                     UnknownTensorError)
from .program import Graph, Program, Tensor, compile, explain

__version__ = "0.1.0"
__all__ = ["ArchError", "BucketError", "BusyError", "CaptureError", "CompileError", "ContiguityError", "DeviceError", "DriverError",
           "DtypeError", "Error", "Graph", "LibraryError", "Message", "MissingError", "NullError", "Program", "ShapeError",
           "StatusError", "Tensor", "UnboundError", "UnknownTensorError", "compile", "explain", "version"]
