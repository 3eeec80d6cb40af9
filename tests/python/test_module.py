# SPDX-License-Identifier: Apache-2.0
"""The Python module without torch and without a GPU: compile and plan; tensors that only look like torch's, bound,
launched, recorded and replayed under the stand-in driver; what goes wrong, one class for each."""

import ctypes
import os
import struct
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from ctypes import byref, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p

import mainstem
from mainstem import _c, errors

TEXT = """module small;
dim T in 1..8 = 4;
kernel twice(in x: f32[T, 64], out y: f32[T, 64]; n: i32 = T * 64) grid(T) block(64)
{{ const int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = 2.0f * x[i]; }}
kernel plus(in x: f32[T, 64], in b: f32[64], out y: f32[T, 64]; n: i32 = T * 64) grid(T) block(64)
{{ const int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = x[i] + b[i % 64]; }}
kernel both(in x: f32[T, 64], in y: f32[T, 64], out z: f32[T, 64]; n: i32 = T * 64) grid(T) block(64)
{{ const int i = blockIdx.x * 64 + threadIdx.x; if (i < n) z[i] = x[i] * y[i]; }}
model m(x: f32[T, 64]) -> (z: f32[T, 64]) {
  weight bias: f32[64];
  a = twice(x);
  b = plus(x, bias) on side;
  return both(a, b);
}
"""

driver = ctypes.CDLL(os.environ["STAND_IN"])
RUNNER = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_char_p, c_void_p, c_void_p, c_uint32, ctypes.POINTER(c_void_p), c_uint32)


@RUNNER
def runner(_user, kernel, _grid, _block, _smem, params, n):
    """What the three kernels do; the stand-in's device memory is the host's."""
    count = ctypes.cast(params[n - 1], ctypes.POINTER(c_int))[0]
    at = [(c_float * count).from_address(ctypes.cast(params[i], ctypes.POINTER(c_uint64))[0]) for i in range(n - 1)]
    name = kernel.decode()
    for i in range(count):
        if "twice" in name:
            at[1][i] = 2 * at[0][i]
        elif "plus" in name:
            at[2][i] = at[0][i] + at[1][i % 64]
        else:
            at[2][i] = at[0][i] * at[1][i]


class Device:
    def __init__(self, type, index=None):
        self.type, self.index = type, index

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)


class Fake:
    """As much of a torch.Tensor as the module looks at."""

    def __init__(self, shape, values=None, dtype="torch.float32", device=Device("cuda", 0), contiguous=True, at=None):
        self.shape, self.dtype, self.device, self._contiguous = shape, dtype, device, contiguous
        self.count = 1
        for d in shape:
            self.count *= d
        self._at = at
        if at is None and str(device) == "cpu":
            self._host = (c_float * self.count)()
            self._at = ctypes.addressof(self._host)
        elif at is None:
            p = c_uint64()
            assert driver.cuMemAlloc_v2(byref(p), c_size_t(4 * self.count)) == 0
            self._at = p.value
        if values is not None:
            self.values[:] = [float(v) for v in values]

    @property
    def values(self):
        return (c_float * self.count).from_address(self._at)

    def data_ptr(self):
        return self._at

    def is_contiguous(self):
        return self._contiguous


class Stream:
    def __init__(self):
        p = c_void_p()
        assert driver.cuStreamCreate(byref(p), 1) == 0
        self.cuda_stream = p.value

    def synchronize(self):
        assert driver.cuStreamSynchronize(c_void_p(self.cuda_stream)) == 0

    def begin(self):
        assert driver.cuStreamBeginCapture_v2(c_void_p(self.cuda_stream), 0) == 0

    def end(self):
        g = c_void_p()
        assert driver.cuStreamEndCapture(c_void_p(self.cuda_stream), byref(g)) == 0
        return g


def torch_like(stream):
    """What the module asks torch for."""
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: True, current_device=lambda: 0,
                                       current_stream=lambda device=None: stream)
    return torch


class WithoutGpu(unittest.TestCase):
    def test_plan(self):
        p = mainstem.compile(TEXT, dims={"T": [2, 4]}, name="small.stem")
        self.assertEqual(p.variants, [{"T": 2}, {"T": 4}])
        self.assertEqual(p.dims, ["T"])
        self.assertEqual(p.tensors["x"], ("x", "input", "f32", [(2, 64), (4, 64)], None))
        self.assertEqual(p.tensors["bias"].kind, "weight")
        self.assertEqual(p.plan["streams"][0] if isinstance(p.plan["streams"][0], str) else p.plan["streams"][0]["name"],
                         "main")
        self.assertEqual(len(p.plan["variants"][0]["ops"]), 3)
        p.close()
        with self.assertRaisesRegex(mainstem.StatusError, "closed"):
            p.plan_json

    def test_file_and_options(self):
        path = os.path.join(os.environ["SRCDIR"], "examples", "dual_stream_moe.stem")
        p = mainstem.compile(path, dims={"T": 1}, defines={"LAYERS": 2, "SETS": 2})
        one = mainstem.compile(path, dims={"T": 1}, defines={"LAYERS": 2, "SETS": 2}, one_stream=True)
        self.assertEqual(len(p.tensors), 2 * 7 + 2)
        self.assertEqual({o["stream"] for o in one.plan["variants"][0]["ops"]}, {0})
        self.assertEqual({o["stream"] for o in p.plan["variants"][0]["ops"]}, {0, 1})

    def test_diagnostics(self):
        with self.assertRaises(mainstem.CompileError) as caught:
            mainstem.compile("module a;\nmodel m(x: f32[4]) -> f32[4] {\n  return y;\n}\n", name="a.stem")
        self.assertIn("a.stem:3:10: error:", str(caught.exception))
        self.assertIn("  return y;", str(caught.exception))
        m = caught.exception.messages[0]
        self.assertEqual((m.kind, m.id, m.line, m.column), ("error", 1201, 3, 10))
        self.assertIsNotNone(mainstem.explain(m.id))
        self.assertIsNone(mainstem.explain(1))
        self.assertIsNone(mainstem.explain(-1))
        for same in ("STEM%d" % m.id, "stem%d" % m.id, str(m.id)):
            self.assertEqual(mainstem.explain(same), mainstem.explain(m.id))
        for odd in ("STEM", "nope", None):
            with self.assertRaisesRegex(ValueError, "1203 or 'STEM1203' is wanted"):
                mainstem.explain(odd)

    def test_bad_arguments(self):
        for source, kwargs, text in (("/nowhere.stem", {}, "/nowhere.stem"),
                                     (TEXT, {"dims": {"T": 9}}, "T"), (TEXT, {"dims": {"U": 1}}, "U"),
                                     (TEXT, {"sm": 75}, "options.sm is none of"),
                                     (TEXT, {"order": "backwards"}, "options.order is none of")):
            with self.assertRaisesRegex(mainstem.CompileError, text):
                mainstem.compile(source, **kwargs)
        for kwargs, text in (({"dims": "T=1"}, r"dims is a dict, \{\"T\": \[1, 4\]\}, not the str 'T=1'"),
                             ({"defines": ["L=2"]}, "defines is a dict, .*, not the list"),
                             ({"dims": {"T": [3.9]}}, r'a size of dim T is an integer, .*\{"T": \[1, 4\]\}, not the float 3.9'),
                             ({"dims": {"T": [True]}}, "not the bool True"),
                             ({"dims": {"T": "1,4"}}, "a size of dim T is an integer, .*, not the str '1,4'")):
            with self.assertRaisesRegex(TypeError, text):
                mainstem.compile(TEXT, **kwargs)

    def test_layouts(self):
        """The ctypes structs are the headers' structs."""
        lines, expected = [], []
        for name, cls in _c.LAYOUTS.items():
            lines.append('printf("%%zu\\n", sizeof(struct %s));' % name)
            expected.append(ctypes.sizeof(cls))
            for field, _ in cls._fields_:
                lines.append('printf("%%zu\\n", offsetof(struct %s, %s));' % (name, field.rstrip("_")))
                expected.append(getattr(cls, field).offset)
        for names, prefix in ((errors.STATUSES, ""), (["STEM_" + d.upper() for d in _c.DTYPES], "")):
            for value, name in enumerate(names):
                lines.append('printf("%%d\\n", (int)%s);' % name)
                expected.append(value)
        source = "#include <stdio.h>\n#include <mainstem.h>\nint main(void) { %s return 0; }\n" % "\n".join(lines)
        top = os.environ["SRCDIR"]
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/layout.c", "w") as f:
                f.write(source)
            subprocess.run(os.environ.get("CC", "cc").split() + ["-I", top + "/src", "-I", top + "/runtime", "-o",
                           d + "/layout", d + "/layout.c"], check=True)
            got = [int(x) for x in subprocess.check_output([d + "/layout"]).split()]
        self.assertEqual(got, expected)

    def test_library_is_searched_for(self):
        code = "import mainstem; print(mainstem.version())"
        for lib, status, text in (("/nowhere/lib.so", 1, "/nowhere/lib.so: no such file"), ("libc.so.6", 1, "has no stem_"),
                                  (os.environ["MAINSTEM_LIB"], 0, "0.1.0")):
            r = subprocess.run([sys.executable, "-c", code], env={**os.environ, "MAINSTEM_LIB": lib},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            self.assertEqual(r.returncode, status)
            self.assertIn(text, r.stdout)


class WithStandIn(unittest.TestCase):
    def setUp(self):
        driver.fakecuda_reset()
        driver.fakecuda_set_runner(runner, None)
        self.context = c_void_p()
        assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(byref(self.context), 0) == 0
        assert driver.cuCtxPushCurrent_v2(self.context) == 0
        self.program = mainstem.compile(TEXT, dims={"T": [2, 4]})
        for kernel in self.program.plan["kernels"]:
            n = 2 if "twice" in kernel["name"] else 3
            driver.fakecuda_define_kernel(kernel["name"].encode(), n + 1, (c_size_t * (n + 1))(*[8] * n, 4))
        self.stream = Stream()
        sys.modules["torch"] = torch_like(self.stream)
        self.x = Fake((4, 64), range(256))
        self.z = Fake((4, 64))
        self.bias = Fake((64,), [3] * 64)

    def tearDown(self):
        del sys.modules["torch"]
        self.program.close()
        driver.cuCtxPopCurrent_v2(None)
        driver.fakecuda_faults.restype = ctypes.c_char_p
        self.assertEqual(driver.fakecuda_faults(), b"")

    def bind(self):
        self.program.bind({"bias": self.bias}, x=self.x, z=self.z)

    def check(self, factor=1, rows=4):
        self.stream.synchronize()
        want = [2 * v * (v + 3) for v in self.x.values]
        self.assertEqual(list(self.z.values)[:64 * rows], want[:64 * rows])

    def test_launch(self):
        self.bind()
        self.program.launch(T=3)  # the variant of 4
        self.check()
        self.x.values[:] = [1.0] * 256
        self.program.launch(T=2)
        self.check(rows=2)
        other = Stream()
        self.program.launch(other, T=4)
        other.synchronize()
        self.check()
        self.assertEqual(self.program.address("x"), self.x.data_ptr())

    def test_record(self):
        self.bind()
        with self.assertRaisesRegex(mainstem.CaptureError, "not capturing"):
            self.program.record(T=4)
        self.stream.begin()
        self.program.record(T=4)
        self.program.launch(T=4)  # records too
        g, e, n = self.stream.end(), c_void_p(), c_size_t()
        self.assertEqual(driver.cuGraphGetNodes(g, None, byref(n)), 0)
        self.assertEqual(n.value, 6)
        self.assertEqual(driver.cuGraphInstantiateWithFlags(byref(e), g, c_uint64(0)), 0)
        for v in (5.0, 7.0):
            self.x.values[:] = [v] * 256
            self.assertEqual(driver.cuGraphLaunch(e, c_void_p(self.stream.cuda_stream)), 0)
            self.check()
        driver.cuGraphExecDestroy(e)
        driver.cuGraphDestroy(g)

    def test_graph(self):
        self.bind()
        for by in ("nodes", "capture"):
            g = self.program.graph(by, T=4)
            self.assertEqual(g.info["n_nodes"], 3)
            g.launch()
            self.check()
            old, self.x = self.x, Fake((4, 64), range(7, 263))
            self.program.bind(x=self.x)
            with self.assertRaises(mainstem.StatusError) as caught:
                g.launch()
            self.assertEqual(caught.exception.status, "STEM_E_STALE")
            g.update()
            g.launch()
            self.check()
            self.x = old
            self.program.bind(x=old)
        self.program.close()
        with self.assertRaisesRegex(mainstem.StatusError, "closed"):
            g.launch()

    def test_host_memory_and_files(self):
        self.program.bind(x=self.x, z=self.z)
        self.program.copy(bias=Fake((64,), [3] * 64, device=Device("cpu")))
        self.program.launch(T=4)
        self.check()
        self.program.own("bias")
        header = b'{"bias":{"dtype":"F32","shape":[64],"data_offsets":[0,256]}}'
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "w.safetensors")
            with open(path, "wb") as f:
                f.write(struct.pack("<Q", len(header)) + header + struct.pack("<64f", *[3.0] * 64))
            self.assertEqual(self.program.load_safetensors(path), 1)
            with self.assertRaisesRegex(mainstem.StatusError, "cannot open"):
                self.program.load_safetensors(path + "x")
        self.program.launch(T=4)
        self.check()

    def test_checkpoint(self):
        """Two tensors in two files of a directory make up the weight."""
        text = TEXT.replace("weight bias: f32[64];", 'weight bias: f32[64] = "layers.0.{a,b}.bias";')
        program = mainstem.compile(text, dims={"T": 4})
        self.assertEqual(program.tensors["bias"].source, "layers.0.{a,b}.bias")
        self.assertIsNone(program.tensors["x"].source)
        program.load(libcuda=os.environ["STAND_IN"], nvrtc=os.environ["STAND_IN"], cache_dir="")
        with tempfile.TemporaryDirectory() as d:
            for i, (name, n) in enumerate((("a", 48), ("b", 16))):
                header = b'{"layers.0.%s.bias":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' % (name.encode(), n, 4 * n)
                with open(os.path.join(d, "%d.safetensors" % i), "wb") as f:
                    f.write(struct.pack("<Q", len(header)) + header + struct.pack("<%df" % n, *[float(i)] * n))
            self.assertEqual(program.load_safetensors(d, every=True), 1)
            at = (c_float * 64).from_address(program.address("bias"))
            self.assertEqual(list(at), [0.0] * 48 + [1.0] * 16)
            os.unlink(os.path.join(d, "1.safetensors"))
            with self.assertRaisesRegex(mainstem.MissingError, "no tensor 'layers.0.b.bias'.*nearest is 'layers.0.a.bias'"):
                program.load_safetensors(d)
        program.close()

    def test_tensors_that_do_not_fit(self):
        self.bind()
        cuda1 = Device("cuda", 1)
        rows = ((dict(x=Fake((4, 32))), mainstem.ShapeError, r"x is \[2, 64\] or \[4, 64\], the array \[4, 32\]"),
                (dict(x=Fake((256,))), mainstem.ShapeError, "x is"),
                (dict(x=Fake((4, 64), dtype="torch.bfloat16")), mainstem.DtypeError, "x holds f32, the array bf16"),
                (dict(x=Fake((4, 64), dtype="torch.complex64")), mainstem.DtypeError, "x is torch.complex64"),
                (dict(x=Fake((4, 64), dtype="f32")), mainstem.DtypeError, "x is f32, whose name in torch is torch.float32"),
                (dict(x=Fake((4, 64), device=Device("cpu"))), mainstem.DeviceError, "x is on cpu, the program on cuda:0"),
                (dict(x=Fake((4, 64), device=cuda1, at=4096)), mainstem.DeviceError, "x is on cuda:1"),
                (dict(x=Fake((4, 64), device="cuda:1", at=4096)), mainstem.DeviceError, "x is on cuda:1"),
                (dict(x=Fake((4, 64), at=4096)), mainstem.DeviceError, "x: the array is in host memory, or freed"),
                (dict(x=Fake((4, 64), contiguous=False)), mainstem.ContiguityError, "x is not contiguous"),
                (dict(x=Fake((4, 64), at=0)), mainstem.NullError, "x: the array's address is null"),
                (dict(y=Fake((4, 64))), mainstem.UnknownTensorError, "no tensor y; it has bias, x, z"),
                (dict(x=7), mainstem.StatusError, "x: a int has no data_ptr"))
        for given, cls, text in rows:
            with self.assertRaisesRegex(cls, text):
                # z comes first, and stays as it was.
                self.program.bind({"z": Fake((4, 64)), **given})
            self.assertEqual(self.program.address("z"), self.z.data_ptr())
        with self.assertRaises(mainstem.DeviceError):
            self.program.copy(x=self.x)
        for act in (self.program.copy, self.program.bind):
            with self.assertRaisesRegex(TypeError, "the first argument is a dict, .*, not the str 'nope'"):
                act("nope")
        with self.assertRaisesRegex(TypeError, r"a size of dim T is an integer, as in launch\(T=4\), not the float 3.9"):
            self.program.launch(T=3.9)
        self.program.launch(T=4)
        self.check()

    def test_devices_by_name(self):
        """Classes whose device is a string."""
        self.z = Fake((4, 64), device="cuda")
        self.program.bind(x=Fake((4, 64), at=self.x.data_ptr(), device="cuda:0"), z=self.z)
        bias = Fake((64,), [3] * 64, device=Device("cpu"))
        bias.device = "cpu"
        self.program.copy(bias=bias)
        self.program.launch(T=4)
        self.check()

    def test_launches_that_fail(self):
        with self.assertRaisesRegex(mainstem.UnboundError, "buffer x is not bound"):
            self.program.launch(T=4)
        self.bind()
        self.program.bind(x=Fake((2, 64)))
        with self.assertRaisesRegex(mainstem.UnboundError, "buffer x is bound to 512 bytes"):
            self.program.launch(T=4)
        self.bind()
        for dims, cls, text in ((dict(T=5), mainstem.BucketError, r"no variant for T=5 \(at most 4\)"),
                                (dict(T=0), mainstem.BucketError, r"no variant for T=0 \(at least 1\)"),
                                (dict(), mainstem.StatusError, "no size is given for dim T"),
                                (dict(T=4, U=1), mainstem.StatusError, "no dim U")):
            with self.assertRaisesRegex(cls, text):
                self.program.launch(**dims)
        first = Stream()
        first.begin()
        self.program.launch(first, T=4)
        with self.assertRaisesRegex(mainstem.CaptureError, "part of another capture"):
            self.program.launch(T=4)
        driver.cuGraphDestroy(first.end())
        self.program.launch(T=4)
        self.check()

    def test_threads(self):
        """Programs of their own in threads of their own; the lock of the interpreter is not held in calls."""
        wrong = []

        def life():
            try:
                driver.cuCtxPushCurrent_v2(self.context)
                with mainstem.compile(TEXT, dims={"T": 4}) as p:
                    x, z, s = Fake((4, 64), range(256)), Fake((4, 64)), Stream()
                    p.bind(x=x, z=z, bias=self.bias)
                    for _ in range(5):
                        p.launch(s)
                    s.synchronize()
                    assert list(z.values) == [2.0 * v * (v + 3) for v in range(256)]
            except Exception as e:  # shown by the assertion below
                wrong.append(e)

        threads = [threading.Thread(target=life) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_extern_function(self):
        """A host function in Python enqueues a copy; in the middle of a launch the program is busy."""
        text = """module copies;
extern same(in x: f32[4, 64], out y: f32[4, 64]);
model m(x: f32[4, 64]) -> (z: f32[4, 64]) {
  return same(x);
}
"""
        seen = []

        class Call(ctypes.Structure):
            _fields_ = [("version", c_uint32), ("name", ctypes.c_char_p), ("n_operands", c_uint32),
                        ("operands", ctypes.POINTER(c_void_p))]

        @_c.ExternFn
        def same(call, stream):
            operands = Call.from_address(call).operands
            try:
                program.launch()
            except mainstem.BusyError as e:
                seen.append(str(e))
            return driver.cuMemcpyDtoDAsync_v2(c_uint64(operands[1]), c_uint64(operands[0]), c_size_t(1024),
                                               c_void_p(stream))

        program = mainstem.compile(text)
        with self.assertRaisesRegex(mainstem.StatusError, "extern function same is not registered"):
            program.load()
        program.load(externs={"same": same}).bind(x=self.x, z=self.z)
        program.launch()
        self.stream.synchronize()
        self.assertEqual(list(self.z.values), list(self.x.values))
        self.assertEqual(len(seen), 1)
        self.assertIn("program copies is in use by another thread", seen[0])
        program.close()

    def test_no_driver(self):
        p = mainstem.compile(TEXT)
        with self.assertRaisesRegex(mainstem.DriverError, "no CUDA driver: /nowhere"):
            p.load(libcuda="/nowhere/libcuda.so.1")
        with self.assertRaisesRegex(mainstem.DriverError, "there is no GPU 3"):
            p.load(3)
        driver.fakecuda_set_driver_version(12020)
        with self.assertRaisesRegex(mainstem.DriverError, "12.4 or later is needed"):
            p.load()
        driver.fakecuda_set_driver_version(13000)
        p.load()
        with self.assertRaisesRegex(mainstem.StatusError, "already"):
            p.load()


if __name__ == "__main__":
    unittest.main()
