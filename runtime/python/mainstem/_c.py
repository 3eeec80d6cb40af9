# SPDX-License-Identifier: Apache-2.0
"""libmainstem through ctypes: where it is found, its structs and its functions. mainstem.h documents them."""

import ctypes
import glob
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t,
                    c_uint32, c_uint64, c_void_p)

from .errors import CLASSES, STATUSES, LibraryError, StatusError

MAX_RANK = 6
NONE = 0xFFFFFFFF
DTYPES = ["f32", "f16", "bf16", "f8e4m3", "nvfp4", "i32", "i64", "u8", "int4"]  # enum stem_dtype
KINDS = ["temp", "input", "output", "weight", "state"]  # enum stem_buffer_kind


class RtError(Structure):
    _fields_ = [("status", c_int), ("cuda", c_int), ("op", c_uint32), ("line", c_uint32), ("message", c_char * 1024)]


class ProgramOptions(Structure):
    _fields_ = [("sm", c_uint32), ("defines", POINTER(c_char_p)), ("n_defines", c_uint32), ("dims", POINTER(c_char_p)),
                ("n_dims", c_uint32), ("order", c_char_p), ("inplace", c_char_p), ("lane_repair", c_char_p), ("pdl", c_char_p),
                ("matmul", c_char_p),
                ("max_streams", c_uint32), ("ignore_pins", c_bool), ("costs", c_char_p), ("gpu", c_char_p), ("one_stream", c_bool),
                ("max_lanes", c_uint32), ("memory_budget", c_uint64), ("no_fuse", c_bool),
                ("no_verify", c_bool), ("max_errors", c_uint32)]


class CMessage(Structure):
    _fields_ = [("kind", c_int), ("id", c_uint32), ("line", c_uint32), ("column", c_uint32), ("text", c_char_p),
                ("pass_", c_char_p)]


class Log(Structure):
    _fields_ = [("line", c_void_p), ("user", c_void_p), ("topics", c_char_p)]


class CompilerOptions(Structure):
    _fields_ = [("nvrtc", c_char_p), ("cache_dir", c_char_p), ("log", Log)]


class RtOptions(Structure):
    _fields_ = [("device", c_int), ("libcuda", c_char_p), ("compiler", CompilerOptions), ("log", Log)]


class Extern(Structure):
    _fields_ = [("name", c_char_p), ("fn", c_void_p)]


class ExecOptions(Structure):
    _fields_ = [("memory", c_int), ("slab", c_uint64), ("slab_bytes", c_uint64), ("alloc", c_void_p),
                ("free", c_void_p), ("user", c_void_p), ("cubin", c_void_p), ("cubin_bytes", c_size_t),
                ("externs", POINTER(Extern)), ("n_externs", c_uint32), ("caller_orders", c_bool)]


class Array(Structure):
    _fields_ = [("at", c_uint64), ("dtype", c_int), ("rank", c_uint32), ("dim", POINTER(c_int64)),
                ("stride", POINTER(c_int64))]


class PlanBuffer(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("bytes", c_uint64), ("align", c_uint32), ("offset", c_uint64),
                ("dtype", c_int), ("rank", c_uint32), ("dim", c_int64 * MAX_RANK), ("line", c_uint32), ("inout", c_bool),
                ("low", c_int64), ("high", c_int64), ("from", c_char_p)]


class GraphInfo(Structure):
    _fields_ = [("n_graphs", c_uint32), ("n_nodes", c_uint32), ("n_edges", c_uint32), ("n_programmatic", c_uint32),
                ("build_us", c_double), ("instantiate_us", c_double), ("device_bytes", c_int64),
                ("n_updated", c_uint32)]


# The C names, for the test that compares the layouts with the headers.
LAYOUTS = {"stem_rt_error": RtError, "stem_program_options": ProgramOptions, "stem_message": CMessage,
           "stem_log": Log, "stem_compiler_options": CompilerOptions, "stem_rt_options": RtOptions,
           "stem_extern": Extern, "stem_exec_options": ExecOptions, "stem_array": Array,
           "stem_plan_buffer": PlanBuffer, "stem_graph_info": GraphInfo}

ExternFn = CFUNCTYPE(c_int, c_void_p, c_void_p)

_ERR = POINTER(RtError)
_FUNCTIONS = {
    "stem_version": (c_char_p, []),
    "stem_explain": (c_char_p, [c_uint32]),
    "stem_jit_file": (c_void_p, [c_char_p, POINTER(ProgramOptions)]),
    "stem_jit_text": (c_void_p, [c_char_p, c_char_p, c_size_t, POINTER(ProgramOptions)]),
    "stem_jit_free": (None, [c_void_p]),
    "stem_jit_plan": (c_void_p, [c_void_p]),
    "stem_jit_messages": (POINTER(CMessage), [c_void_p, POINTER(c_uint32)]),
    "stem_jit_text_of_messages": (c_char_p, [c_void_p]),
    "stem_plan_to_json": (c_void_p, [c_void_p]),
    "stem_rt_open": (c_int, [POINTER(RtOptions), POINTER(c_void_p), _ERR]),
    "stem_rt_close": (None, [c_void_p]),
    "stem_exec_new": (c_int, [c_void_p, c_void_p, POINTER(ExecOptions), POINTER(c_void_p), _ERR]),
    "stem_exec_free": (None, [c_void_p]),
    "stem_exec_find": (c_uint32, [c_void_p, c_char_p]),
    "stem_exec_variant": (c_int, [c_void_p, POINTER(c_int64), POINTER(c_uint32), _ERR]),
    "stem_exec_check_array": (c_int, [c_void_p, c_uint32, POINTER(Array), c_bool, _ERR]),
    "stem_exec_bind_array": (c_int, [c_void_p, c_uint32, POINTER(Array), _ERR]),
    "stem_exec_bind_host": (c_int, [c_void_p, c_uint32, POINTER(Array), _ERR]),
    "stem_exec_bind_own": (c_int, [c_void_p, c_uint32, _ERR]),
    "stem_exec_address": (c_uint64, [c_void_p, c_uint32]),
    "stem_exec_reset_state": (c_int, [c_void_p, _ERR]),
    "stem_exec_prepare": (c_int, [c_void_p, _ERR]),
    "stem_exec_load": (c_int, [c_void_p, c_void_p, POINTER(c_uint32), _ERR]),
    "stem_exec_load_all": (c_int, [c_void_p, c_void_p, _ERR]),
    "stem_safetensors_open": (c_int, [c_char_p, POINTER(c_void_p), _ERR]),
    "stem_safetensors_close": (None, [c_void_p]),
    "stem_exec_launch": (c_int, [c_void_p, c_uint32, c_void_p, _ERR]),
    "stem_exec_record": (c_int, [c_void_p, c_uint32, c_void_p, _ERR]),
    "stem_graph_new": (c_int, [c_void_p, c_uint32, c_int, POINTER(c_void_p), _ERR]),
    "stem_graph_free": (None, [c_void_p]),
    "stem_graph_launch": (c_int, [c_void_p, c_void_p, _ERR]),
    "stem_graph_update": (c_int, [c_void_p, _ERR]),
    "stem_graph_info": (None, [c_void_p, POINTER(GraphInfo)]),
}

_lib = None
_libc = ctypes.CDLL(None)
_libc.free.argtypes = [c_void_p]


def candidates():
    """Where the library is looked for, in this order."""
    given = os.environ.get("MAINSTEM_LIB")
    if given:
        return [given]
    here = os.path.dirname(os.path.abspath(__file__))
    found = sorted(glob.glob(os.path.join(here, "libmainstem.so*")))
    try:
        from ._prefix import LIBDIR  # written by make install
        found.append(os.path.join(LIBDIR, "libmainstem.so.0"))
    except ImportError:
        pass
    # PREFIX/share/mainstem/python/mainstem, wherever the prefix was moved to.
    prefix = os.path.normpath(os.path.join(here, "..", "..", "..", ".."))
    return found + [os.path.join(prefix, "lib", "libmainstem.so.0"), "libmainstem.so.0"]


def lib():
    """The loaded library; LibraryError says what was tried."""
    global _lib
    if _lib is not None:
        return _lib
    tried = []
    for path in candidates():
        if os.sep in path and not os.path.exists(path):
            tried.append("%s: no such file" % path)
            continue
        try:
            loaded = ctypes.CDLL(path)
        except OSError as e:
            tried.append(str(e))
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(loaded, name)
            except AttributeError:
                raise LibraryError("%s has no %s: it is of another version than this module" % (path, name)) from None
            function.restype, function.argtypes = result, arguments
        _lib = loaded
        return _lib
    raise LibraryError("libmainstem was not found; set MAINSTEM_LIB to its path. Tried:\n  " + "\n  ".join(tried))


def version():
    """Version of the library."""
    return lib().stem_version().decode()


def call(name, *args):
    """Calls a function that returns a status and takes an error last; raises what the status stands for."""
    err = RtError()
    status = getattr(lib(), name)(*args, byref(err))
    if status:
        word = STATUSES[status] if status < len(STATUSES) else "status %d" % status
        text = err.message.decode(errors="replace")
        raise CLASSES.get(word, StatusError)(text, word, err.cuda, None if err.op == NONE else err.op, err.line)


def plan_json(plan):
    """The plan's text."""
    at = lib().stem_plan_to_json(plan)
    if not at:
        raise MemoryError("no memory for the plan's text")
    try:
        return ctypes.string_at(at).decode()
    finally:
        _libc.free(at)


def strings(values):
    """A char ** and its length; None for an empty list."""
    encoded = [v.encode() for v in values]
    return ((c_char_p * len(encoded))(*encoded) if encoded else None), len(encoded)
