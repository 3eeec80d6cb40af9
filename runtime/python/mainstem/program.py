# SPDX-License-Identifier: Apache-2.0
"""Programs: compiled, loaded on a GPU, bound, launched and recorded."""

import ctypes
import json
import operator
import os
import weakref
from collections import namedtuple
from ctypes import byref, c_int64, c_uint32, c_void_p

from . import _c, tensors
from .errors import CompileError, Message, UnknownTensorError, StatusError

# An external tensor: kind is "input", "output", "weight" or "state"; shapes holds one for each variant; source is where a
# checkpoint has a weight ("model.layers.0.mlp.experts.{*}.{gate_proj,up_proj}.weight"), or None.
Tensor = namedtuple("Tensor", "name kind dtype shapes source")


def _mapping(what, value, example):
    """A dict, or nothing."""
    if value is not None and not hasattr(value, "items"):
        raise TypeError("%s is a dict, %s, not the %s %r" % (what, example, type(value).__name__, value))
    return dict(value or {})


def _size(dim, size, example):
    """An integer, or what acts as one."""
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError("a size of dim %s is an integer, as in %s, not the %s %r"
                        % (dim, example % dim, type(size).__name__, size))
    return operator.index(size)


def _sizes(dim, given):
    """The sizes of a dim, "1,4"."""
    rows = given if isinstance(given, (list, tuple, range)) else [given]
    return ",".join(str(_size(dim, size, 'dims={"%s": [1, 4]}')) for size in rows)


def _options(dims, defines, sm, order, inplace, lane_repair, pdl, matmul, streams, pins, costs, gpu, one_stream, lanes,
             memory, fuse, verify, max_errors):
    sizes = ["%s=%s" % (k, _sizes(k, v)) for k, v in _mapping("dims", dims, '{"T": [1, 4]}').items()]
    c_dims, n_dims = _c.strings(sizes)
    c_defines, n_defines = _c.strings(["%s=%s" % kv for kv in _mapping("defines", defines, '{"LAYERS": 2}').items()])
    return _c.ProgramOptions(
        sm=sm or 0, defines=c_defines, n_defines=n_defines, dims=c_dims, n_dims=n_dims,
        order=order.encode() if order else None, inplace=inplace.encode() if inplace else None,
        lane_repair=lane_repair.encode() if lane_repair else None, pdl=pdl.encode() if pdl else None,
        matmul=matmul.encode() if matmul else None,
        max_streams=streams, ignore_pins=not pins, costs=costs.encode() if costs else None, gpu=gpu.encode() if gpu else None,
        one_stream=one_stream, max_lanes=lanes, memory_budget=memory, no_fuse=not fuse,
        no_verify=not verify, max_errors=max_errors)


def compile(source, dims=None, defines=None, *, name="<text>", sm=None, order=None, inplace=None, lane_repair=None,
            pdl=None, matmul=None, streams=0, pins=True, costs=None, gpu=None, one_stream=False, lanes=0, memory=0, fuse=True,
            verify=True, max_errors=0):
    """Compiles a file, or a text: a str with a newline in it is the program itself, called `name` in messages.

    dims: {"T": [1, 4, 16]}, one variant for each combination. defines: {"LAYERS": 2}, overrides of consts. sm: 80, 90,
    100 or 120; None: 90. costs: the text of a table that `mainstem tune` wrote, gpu: whose part of it counts; pins=False lets the
    compiler choose every stream. The others are the options of `mainstem compile`. Raises CompileError. Needs no GPU."""
    options = _options(dims, defines, sm, order, inplace, lane_repair, pdl, matmul, streams, pins, costs, gpu, one_stream,
                       lanes, memory, fuse, verify, max_errors)
    library = _c.lib()
    if isinstance(source, str) and "\n" in source:
        text = source.encode()
        jit = library.stem_jit_text(name.encode(), text, len(text), byref(options))
    else:
        jit = library.stem_jit_file(os.fsencode(source), byref(options))
    messages = _messages(jit)
    if not library.stem_jit_plan(jit):
        text = library.stem_jit_text_of_messages(jit).decode(errors="replace")
        library.stem_jit_free(jit)
        raise CompileError(text, messages)
    return Program(jit, messages)


def _messages(jit):
    n = c_uint32()
    at = _c.lib().stem_jit_messages(jit, byref(n))
    kinds = ("remark", "warning", "error")
    return [Message(kinds[m.kind], m.id, m.line, m.column, m.text.decode(errors="replace"),
                    m.pass_.decode() if m.pass_ else None) for m in (at[i] for i in range(n.value))]


def explain(number):
    """What `mainstem explain` prints for 1203, or "STEM1203"; None if there is no such diagnostic."""
    digits = number[4:] if isinstance(number, str) and number.upper().startswith("STEM") else number
    try:
        id = int(digits)
    except (TypeError, ValueError):
        raise ValueError("%r is no diagnostic: 1203 or 'STEM1203' is wanted" % (number,)) from None
    text = _c.lib().stem_explain(id) if 0 <= id < 1 << 32 else None
    return text.decode() if text else None


def _destroy(handles):
    """The handles of a program, in the order that they allow."""
    library = _c.lib()
    for graph in handles.pop("graphs", []):
        if graph.value:
            library.stem_graph_free(graph)
            graph.value = None
    for what, free in (("exec", library.stem_exec_free), ("rt", library.stem_rt_close), ("jit", library.stem_jit_free)):
        if handles.get(what):
            free(handles.pop(what))


class Program:
    """A compiled program. Not for two threads at once: the second one gets BusyError. Close it, or let it be collected,
    after the last launch and after every graph that it was recorded into."""

    def __init__(self, jit, messages):
        self._handles = {"jit": jit, "graphs": []}
        self._finalizer = weakref.finalize(self, _destroy, self._handles)
        self._tensors = {}
        self._plan = None
        self.messages = messages
        self.device = None

    # ---- the plan ----

    @property
    def plan_json(self):
        """The plan as JSON text, as `mainstem compile` writes it."""
        return _c.plan_json(_c.lib().stem_jit_plan(self._jit()))

    @property
    def plan(self):
        """The plan as dicts and lists."""
        if self._plan is None:
            self._plan = json.loads(self.plan_json)
            self._dims, self._one = list(self._plan["dims"]), len(self._plan["variants"]) == 1
        return self._plan

    @property
    def dims(self):
        """Names of the dims."""
        return list(self.plan["dims"])

    @property
    def variants(self):
        """Sizes of each variant, {"T": 4}."""
        return [dict(zip(self.plan["dims"], v["dim"])) for v in self.plan["variants"]]

    @property
    def tensors(self):
        """The external tensors, by name."""
        rows = [v["buffers"][:self.plan["n_external"]] for v in self.plan["variants"]]
        return {b["name"]: Tensor(b["name"], b["kind"], b["dtype"], [tuple(v[i]["dim"]) for v in rows],
                                  b.get("from"))
                for i, b in enumerate(rows[0])}

    # ---- the GPU ----

    def load(self, device=None, *, externs=None, pool=False, libcuda=None, nvrtc=None, cache_dir=None):
        """Makes the program on a GPU (default: torch's current one, or 0): compiles its kernels, allocates its slab.
        bind() does it if need be; call it yourself to give options. externs: {"name": address or ctypes function}."""
        if self._handles.get("exec"):
            raise StatusError("the program is on GPU %d already" % self.device)
        jit = self._jit()
        externs = _mapping("externs", externs, '{"name": function}')
        device = tensors.default_device() if device is None else int(device)
        rt, made = c_void_p(), c_void_p()
        paths = [None if path is None else os.fsencode(path) for path in (libcuda, nvrtc, cache_dir)]
        options = _c.RtOptions(device=device, libcuda=paths[0],
                               compiler=_c.CompilerOptions(nvrtc=paths[1], cache_dir=paths[2]))
        _c.call("stem_rt_open", byref(options), byref(rt))
        self._keep = list(externs.values())
        table = (_c.Extern * max(len(externs), 1))(*[
            _c.Extern(k.encode(), v if isinstance(v, int) else ctypes.cast(v, c_void_p)) for k, v in externs.items()])
        eo = _c.ExecOptions(memory=1 if pool else 0, externs=table, n_externs=len(externs))
        try:
            _c.call("stem_exec_new", rt, _c.lib().stem_jit_plan(jit), byref(eo), byref(made))
        except Exception:
            _c.lib().stem_rt_close(rt)
            raise
        self._handles.update(rt=rt, exec=made)
        self.device = device
        if pool:
            _c.call("stem_exec_prepare", made)
        return self

    def _jit(self):
        if not self._handles.get("jit"):
            raise StatusError("the program is closed")
        return self._handles["jit"]

    def _exec(self):
        if not self._handles.get("exec"):
            self.load()
        return self._handles["exec"]

    def _index(self, name):
        index = _c.lib().stem_exec_find(self._exec(), name.encode())
        if index == _c.NONE:
            raise UnknownTensorError("the program has no tensor %s; it has %s" % (name, ", ".join(sorted(self.tensors)[:20])))
        return index

    def _checked(self, given, more, device):
        rows = []
        for name, tensor in {**_mapping("the first argument", given, '{"x": tensor}'), **more}.items():
            index, array = self._index(name), tensors.as_array(name, tensor, device)
            _c.call("stem_exec_check_array", self._exec(), index, byref(array), device is not None)
            rows.append((name, index, array, tensor))
        return rows

    def bind(self, given=None, **more):
        """Binds tensors on the GPU by name: bind({"moe[0].norm": t}, hidden=x). dtype, shape, device and contiguity are
        checked for all of them before the first is bound. The tensors are kept alive; their memory must not move."""
        self._exec()
        for name, index, array, tensor in self._checked(given, more, self.device):
            _c.call("stem_exec_bind_array", self._exec(), index, byref(array))
            self._tensors[name] = tensor
        return self

    def copy(self, given=None, **more):
        """Copies tensors in host memory into memory that the program owns."""
        for name, index, array, _ in self._checked(given, more, None):
            _c.call("stem_exec_bind_host", self._exec(), index, byref(array))
            self._tensors.pop(name, None)
        return self

    def load_safetensors(self, path, every=False):
        """Copies the weights that a .safetensors file has, or a checkpoint: its directory, or its index. How many they
        were; with `every`, all of the program's must be there (MissingError)."""
        file, n = c_void_p(), c_uint32()
        _c.call("stem_safetensors_open", os.fsencode(path), byref(file))
        try:
            if every:
                _c.call("stem_exec_load_all", self._exec(), file)
                n.value = sum(t.kind == "weight" for t in self.tensors.values())
            else:
                _c.call("stem_exec_load", self._exec(), file, byref(n))
        finally:
            _c.lib().stem_safetensors_close(file)
        return n.value

    def own(self, *names):
        """Gives tensors zeroed memory of the program's own."""
        for name in names:
            _c.call("stem_exec_bind_own", self._exec(), self._index(name))
            self._tensors.pop(name, None)
        return self

    def address(self, name):
        """Device address that a tensor is bound to, 0 if none."""
        return _c.lib().stem_exec_address(self._exec(), self._index(name))

    def reset_state(self):
        """Zeroes the state that the program owns."""
        _c.call("stem_exec_reset_state", self._exec())

    # ---- launching ----

    def variant(self, **dims):
        """Index of the smallest variant that has room for these sizes; BucketError if there is none."""
        self.plan  # read once
        names = self._dims
        for name in dims:
            if name not in names:
                raise StatusError("the program has no dim %s; it has %s" % (name, ", ".join(names) or "none"))
        if not dims and self._one:
            return 0
        missing = [n for n in names if n not in dims]
        if missing:
            raise StatusError("no size is given for dim %s: launch(%s=...)" % (missing[0], missing[0]))
        sizes = (c_int64 * max(len(names), 1))(*[_size(n, dims[n], "launch(%s=4)") for n in names])
        out = c_uint32()
        _c.call("stem_exec_variant", self._exec(), sizes, byref(out))
        return out.value

    def launch(self, stream=None, **dims):
        """Runs on `stream` (default: torch.cuda.current_stream()); recorded if that stream is capturing, as it is inside
        torch.cuda.graph. Bind before the capture begins: loading allocates."""
        _c.call("stem_exec_launch", self._exec(), self.variant(**dims), tensors.stream_handle(stream, self.device))

    def record(self, stream=None, **dims):
        """As launch(), but CaptureError if the stream is not capturing."""
        _c.call("stem_exec_record", self._exec(), self.variant(**dims), tensors.stream_handle(stream, self.device))

    def graph(self, by="nodes", **dims):
        """A CUDA graph of the program's own, built node by node, or by="capture"."""
        if by not in ("capture", "nodes"):
            raise StatusError("by is neither 'capture' nor 'nodes'")
        handle = c_void_p()
        _c.call("stem_graph_new", self._exec(), self.variant(**dims), ("capture", "nodes").index(by), byref(handle))
        self._handles["graphs"].append(handle)
        return Graph(self, handle)

    def close(self):
        """Waits for the last launch and frees everything, graphs made by graph() too."""
        self._finalizer()
        self._tensors.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Graph:
    """Instantiated graphs of one variant; belongs to its program."""

    def __init__(self, program, handle):
        self._program, self._handle = program, handle

    def _live(self):
        if not self._handle.value:
            raise StatusError("the graph's program is closed")
        return self._handle

    def launch(self, stream=None):
        _c.call("stem_graph_launch", self._live(), tensors.stream_handle(stream, self._program.device))

    def update(self):
        """After bind(): gives the new addresses to the graph without building it again."""
        _c.call("stem_graph_update", self._live())

    @property
    def info(self):
        info = _c.GraphInfo()
        _c.lib().stem_graph_info(self._live(), byref(info))
        return {name: getattr(info, name) for name, _ in info._fields_}
