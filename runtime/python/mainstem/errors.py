# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, one class for each kind; every message names the tensor or op it is about."""

from collections import namedtuple

# One diagnostic: kind is "error", "warning" or "remark"; id is 1203 for STEM1203; line and column from 1, 0: nowhere.
Message = namedtuple("Message", "kind id line column text stage")


class Error(Exception):
    """Whatever this module raises."""


class LibraryError(Error):
    """libmainstem is missing, or of another version."""


class CompileError(Error):
    """The program has errors. str() is the text with source lines and carets; .messages is the list of Message."""

    def __init__(self, text, messages):
        super().__init__(text.rstrip("\n"))
        self.messages = messages


class StatusError(Error):
    """A call of the runtime failed: .status ("STEM_E_CUDA"), .cuda (the driver's code or 0), .op (index or None), .line."""

    def __init__(self, message, status="STEM_E_ARGUMENT", cuda=0, op=None, line=0):
        super().__init__(message)
        self.status, self.cuda, self.op, self.line = status, cuda, op, line


class UnknownTensorError(StatusError):
    """The program has no such tensor."""


class NullError(StatusError):
    """The address of a tensor is null."""


class DtypeError(StatusError):
    """A tensor has another dtype."""


class ShapeError(StatusError):
    """A tensor has another shape."""


class ContiguityError(StatusError):
    """A tensor is not contiguous."""


class DeviceError(StatusError):
    """A tensor is not on the program's GPU."""


class UnboundError(StatusError):
    """A tensor is not bound, or smaller than this variant needs."""


class BucketError(StatusError):
    """No variant is large enough for these sizes, or one of them is below 1."""


class CaptureError(StatusError):
    """Cannot be recorded, or a stream is part of another capture."""


class BusyError(StatusError):
    """Another thread is using the program."""


class ArchError(StatusError):
    """The kernels are not for this GPU's architecture, and cannot be compiled for it."""


class MissingError(StatusError):
    """A file lacks a tensor of a weight."""


class DriverError(StatusError):
    """No CUDA driver, one that is too old, or no GPU."""


# In the order of enum stem_status; the test of the layouts compares.
STATUSES = ["STEM_OK", "STEM_E_ARGUMENT", "STEM_E_MEMORY", "STEM_E_PLAN", "STEM_E_NO_DRIVER", "STEM_E_NO_DEVICE",
            "STEM_E_NO_NVRTC", "STEM_E_COMPILE", "STEM_E_NO_CUPTI", "STEM_E_CUDA", "STEM_E_UNBOUND", "STEM_E_BUSY",
            "STEM_E_EXTERN", "STEM_E_CAPTURE", "STEM_E_MISMATCH", "STEM_E_STALE", "STEM_E_OLD_DRIVER", "STEM_E_NULL",
            "STEM_E_WRONG_SHAPE", "STEM_E_WRONG_DTYPE", "STEM_E_WRONG_DEVICE", "STEM_E_BUCKET", "STEM_E_FILE",
            "STEM_E_FORMAT", "STEM_E_ARCH", "STEM_E_MISSING", "STEM_E_LIBRARY"]

CLASSES = {"STEM_E_NULL": NullError, "STEM_E_WRONG_SHAPE": ShapeError, "STEM_E_WRONG_DTYPE": DtypeError,
           "STEM_E_WRONG_DEVICE": DeviceError, "STEM_E_UNBOUND": UnboundError, "STEM_E_BUCKET": BucketError,
           "STEM_E_CAPTURE": CaptureError, "STEM_E_BUSY": BusyError, "STEM_E_NO_DRIVER": DriverError,
           "STEM_E_OLD_DRIVER": DriverError, "STEM_E_NO_DEVICE": DriverError, "STEM_E_ARCH": ArchError, "STEM_E_MISSING": MissingError}
