# SPDX-License-Identifier: Apache-2.0
"""How the tables of tests/bench/ are made of what the programs print and write; no GPU, no PyTorch.

    test_tables.py MAINSTEM-STAND-IN SCRATCH      (tests/cli/bench_tables.sh)
"""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "kernels"), os.path.join(HERE, "peers")]
import jobs  # noqa: E402
import kernels  # noqa: E402
import layers  # noqa: E402
import model_error  # noqa: E402
import models  # noqa: E402
import torch_models  # noqa: E402

FAKE, SCRATCH = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


def read(path):
    with open(path) as f:
        return f.read()


def way(name, us, lanes=2, same=True):
    return dict(way=name, us=us, us_10=us, us_90=us, lanes_measured=lanes, lanes_predicted=2, same_bits=same)


def result(t=1, floor=1000.0, **us):
    ways = [way(k.replace("_", "-"), v) for k, v in us.items()]
    return dict(gpu="G", bandwidth=4e12, variants=[dict(dims={"T": t}, floor_us=floor, experts=8.0, ways=ways)])


class Models(unittest.TestCase):
    def test_row(self):
        ours = result(one_nopdl=2500.0, one=2000.0, main_nopdl=2200.0, main=1400.0, chosen=1500.0)
        us, missing = {"eager-gather-one": 6000.0, "compiled-fused-dual": 3500.0}, {"compiled-grouped-one": "why not"}
        torch = dict(torch={"1": dict(us=us, missing=missing, floor=1000.0)})
        row = models.rows("kimi_k25_rank", ours, torch)[0]
        want = "| kimi_k25_rank | 1 | 1000 | 2500 | 2200 | 1400 | 2000 | 1500 | 1.40 | 2 | yes | 3500 | compiled-fused-dual | 3.50 | 2.50 |"
        self.assertEqual(models.markdown([row])[2:], [want])
        self.assertEqual([(bar[0].split(", ")[-1], bar[2], bar[3]) for bar in models.bars([row])],
                         [("over the floor", "1.40", True), ("PyTorch over ours", "2.50", True), ("chosen streams over one", "0.750", True)])  # fmt: skip
        self.assertEqual(models.left_out([row]), ["- kimi_k25_rank, T=1: compiled-grouped-one: why not"])

    def test_misses(self):
        ours = result(one=1600.0, main=1700.0, chosen=1650.0)
        ours["variants"][0]["ways"][1].update(same_bits=False, lanes_measured=None)
        row = models.rows("deepseek_v2_lite", ours, None)[0]
        want = "| deepseek_v2_lite | 1 | 1000 | - | - | 1700 | 1600 | 1650 | 1.60 | (2 predicted) | NO | - | - | - | - |"
        self.assertEqual(models.markdown([row])[2], want)
        self.assertEqual([bar[3] for bar in models.bars([row])], [False, False, False])
        self.assertEqual(models.rows("deepseek_v2_lite", None, None), [])
        self.assertEqual(models.bars(models.rows("qwen3_30b_a3b", result(one=1600.0), None)), [])

    def test_errors(self):
        rows = [dict(model="m", layers=3, T=16, ours=(1e-2, 2e-2), bf16=(3e-2, 4e-2), same=15)]
        self.assertEqual(models.error_lines([None, rows])[2:], ["| m | 3 | 16 | 1.00e-02 (2.00e-02) | 3.00e-02 (4.00e-02) | - | 15 of 16 |"])

    def test_error_bars(self):
        rows = [dict(model="m", layers=3, T=16, ours=(2e-2, 1), bf16=(1e-2, 1), same=15),
                dict(model="n", layers=4, T=1, ours=(0.5, 1), bf16=(1e-2, 1), format=(0.4, 1), same=1)]  # fmt: skip
        found = models.error_bars([None, rows])
        self.assertEqual([(what.split(",")[0], got, good) for what, _, got, good in found], [("m", "2.00", False), ("n", "1.25", True)])
        missing = models.not_measured([("m, 3 layers", "b"), ("m, 4 layers", "c")], found)
        self.assertEqual(missing, [("m, 4 layers", "c", "not measured", None)])

    def test_names(self):
        for name, (file, _, peer) in models.MODELS.items():
            self.assertTrue(os.path.exists(os.path.join(os.environ["SRCDIR"], "examples", "models", file + ".stem")), name)
            self.assertTrue(peer is None or peer in torch_models.CONFIGS, name)
        self.assertLessEqual(set(model_error.NAMES), set(models.MODELS))
        with self.assertRaises(SystemExit), open(os.devnull, "w") as null:
            sys.stderr, old = null, sys.stderr
            try:
                models.arguments(["kimi"])
            finally:
                sys.stderr = old


class Layers(unittest.TestCase):
    def test_row(self):
        ours = result(t=4, one=61 * 130.0, main=61 * 100.0)
        pairs, grouped = dict(one=120.0, dual=110.0, floor=80.0), dict(one=105.0, dual=190.0, floor=80.0)
        triton = dict(bandwidth=4.4e12, rows={"4 pairs": pairs, "4 grouped": grouped, "16 grouped": {}})
        us, floor = {"gather-one": 300.0, "grouped-dual": 280.0}, {"gather-one": 80.0, "grouped-dual": 88.0}
        torch = dict(bandwidth=4.4e12, rows={"4": dict(us=us, floor=floor, missing={"x": "y"})})
        row = layers.rows(ours, triton, torch)[0]
        self.assertAlmostEqual(row["floor"], 2 * 7168 * (768 * 8 + 384 + 768) / 4e6)
        self.assertEqual((row["way"], row["us"]), ("main", 100.0))
        self.assertEqual((row["triton"]["way"], row["triton"]["us"]), ("grouped", 105.0))
        self.assertAlmostEqual(row["triton"]["over"], 105 / (80 * 4.4 / 4))  # at the bandwidth of this run
        self.assertAlmostEqual(row["torch"]["over"], 280 / (88 * 4.4 / 4))
        self.assertEqual(layers.rows(ours, None, None)[0]["triton"], None)
        self.assertEqual([bar[3] for bar in layers.bars([dict(row, over=1.21)])], [False, True])
        self.assertEqual(len(layers.markdown([row])), 3)


KERNELS = dict(
    bf16="""linear: 0 failures
-- T=4, 30.7 experts
route                              T=4       4.40 us  floor     0.00  x5000.00
gate nt1 s4 kp8 g1 cl4             T=4       4.30 us  floor     1.30  x3.31
gate nt1 s2 kp8 g1 cl8             T=4       4.10 us  floor     1.30  x3.15
s2 nt1 s2 kp4 g2 cl1               T=4       2.90 us  floor     0.90  x3.22
up nt1 s4 w8 b264                  T=4      55.60 us  floor    53.70  x1.04
up nt1 s3 w8 b264                  T=64    472.70 us  floor   484.40  x0.98
""",
    nvfp4="""copy by the driver, read and written: 4200 GB/s
nvfp4  up     384x7168    mt1 s3 w8 b2                     T=1    11.30 us  1400 GB/s  35.5 %   early   11.10 us  1420 GB/s  36.0 %
nvfp4  up     384x7168    mt1 s4 w8 b2                     T=1    12.30 us  1400 GB/s  33.5 %   early   13.10 us  1420 GB/s  31.0 %
""",
    # products of warpgroups and those of mma.sync are one kernel's ways
    **{"linear-f8e4m3": """f8e4m3 linear 7168x2048   wgmma x8 nt1 s4 g4 cl1           T=4     4.70 us  3120 GB/s  75.0 %   early    4.60 us  3190 GB/s  76.6 %
f8e4m3 linear 7168x2048   mt1 s4 w8 b2 cl1 p1 r4           T=4     7.40 us  1980 GB/s  47.6 %   early    7.10 us  2070 GB/s  49.7 %
"""},
    attention="""copy: 4120 GB/s (the driver's 4200)
mla h8 k4 t64 s3               T=1   ctx 4096        8.50 us       4.7 MB      555 GB/s   13.5 %
mla h8 k4 t64 s3, part only    T=1   ctx 4096        4.50 us       4.7 MB      555 GB/s   23.5 %
mla h8 k2 t64 s2               T=1   ctx 4096        8.10 us       4.7 MB      555 GB/s   14.1 %
""",
)


class Kernels(unittest.TestCase):
    def test_best(self):
        rows = [r for name, text in KERNELS.items() for r in kernels.best(list(kernels.lines_of(name, text)))]
        self.assertEqual([(op, t, us) for op, t, _, us, _, _ in rows],
                         [("bf16 route", 4, 4.4), ("bf16 gate", 4, 4.1), ("bf16 s2", 4, 2.9), ("bf16 up", 4, 55.6), ("bf16 up", 64, 472.7),
                          ("nvfp4 up 384x7168", 1, 11.1), ("f8e4m3 linear 7168x2048", 4, 4.6), ("attention mla h8", 1, 8.1)])  # fmt: skip
        self.assertEqual([(what.split(",")[0], got, good) for what, _, got, good in kernels.bars(rows)],
                         [("bf16", "1 of 3; least 31 % (s2 T=4)", False), ("nvfp4", "0 of 1; least 36 % (up 384x7168 T=1)", False),
                          ("f8e4m3", "0 of 1; least 77 % (linear 7168x2048 T=4)", False)])  # fmt: skip


class Jobs(unittest.TestCase):
    def setUp(self):
        self.runner = jobs.Runner(["0", "1"], io.StringIO())

    def test_kept(self):
        path, program = os.path.join(SCRATCH, "kept.json"), os.path.join(SCRATCH, "program")
        with open(program, "w") as f:
            f.write("echo ran >>%s.log; echo 1 >%s" % (path, path))
        for name in (path, path + ".command", path + ".log"):
            if os.path.exists(name):
                os.remove(name)

        def ran(*more):
            self.runner.alone("measuring", [[jobs.Job("a", ["sh", program, *more], path)]])
            return len(read(path + ".log").splitlines())

        self.assertEqual((ran(), ran(), ran("other"), ran("other")), (1, 1, 2, 2))
        with open(program, "a") as f:
            f.write("\n")
        self.assertEqual(ran("other"), 3)  # another program
        with open(program, "a") as f:
            f.write("\nexit 3\n")
        self.assertEqual((ran("other"), ran("other")), (4, 5))  # what failed is not kept
        self.assertIn("FAILED (3)", self.runner.file.getvalue())

    def test_gpus(self):
        log = os.path.join(SCRATCH, "gpus")
        if os.path.exists(log):
            os.remove(log)
        command = f"$CUDA_VISIBLE_DEVICES >>{log}; sleep 0.02"
        chains = [[jobs.Job(f"{i}{j}", ["sh", "-c", f"echo {i} {command}"]) for j in range(3)] for i in range(4)]
        self.runner.alone("measuring", chains)
        lines = sorted(set(read(log).split("\n")) - {""})
        self.assertEqual(len(lines), 4)  # a chain stays on its GPU
        self.assertEqual({line.split()[1] for line in lines}, {"0", "1"})

    def test_late_and_missing(self):
        late, missing = jobs.Job("late", ["sleep", "20"], None, 0.2), jobs.Job("missing", [os.path.join(SCRATCH, "nothing")])
        self.runner.together("compiling", [late, missing])
        self.assertEqual((late.code, missing.code), (124, 127))
        self.assertIn("not done within", late.output)

    def test_deadline(self):
        log = os.path.join(SCRATCH, "deadline")
        runner = jobs.Runner(["0"], io.StringIO(), deadline=1.3)
        begin = time.monotonic()
        # the first starts something that would write the log later; neither lives on
        first = jobs.Job("first", ["sh", "-c", f"(sleep 3; echo late >{log}) & sleep 20"])
        second = jobs.Job("second", ["sh", "-c", f"echo second >{log}"])
        runner.alone("measuring", [[first, second]])
        self.assertEqual((first.code, second.code), (124, 125))
        self.assertLess(time.monotonic() - begin, 15)
        time.sleep(max(0, 3.5 - (time.monotonic() - begin)))
        self.assertFalse(os.path.exists(log))

    def test_terminated(self):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        first, second = jobs.Job("first", ["sleep", "20"]), jobs.Job("second", ["sleep", "20"])
        begin = time.monotonic()
        self.runner.alone("measuring", [[first, second]])
        self.runner.alone("more", [[second]])
        self.assertEqual((first.code, second.code), (-signal.SIGKILL, 125))
        self.assertLess(time.monotonic() - begin, 15)

    def test_visible(self):
        os.environ["CUDA_VISIBLE_DEVICES"] = "3, GPU-a"
        self.assertEqual(jobs.gpus(), ["3", "GPU-a"])
        del os.environ["CUDA_VISIBLE_DEVICES"]


class Whole(unittest.TestCase):
    """models.py with a program in place of mainstem that writes what it was asked for."""

    def run_it(self, *more, name="models.py"):
        with open(os.path.join(SCRATCH, "torch.py"), "w") as f:
            f.write("raise ImportError('there is no PyTorch in this test')\n")
        env = dict(os.environ, MAINSTEM=FAKE, CUDA_VISIBLE_DEVICES="0,1", MAINSTEM_LIB="", PYTHONPATH=SCRATCH, NVCC=FAKE + "-nvcc", BUILDDIR=SCRATCH)
        command = [sys.executable, "-B", os.path.join(HERE, name), "--no-peers", "--quick", *more]
        return subprocess.run(command + ["--results", os.path.join(SCRATCH, "results")], capture_output=True, text=True, env=env)

    def test_table(self):
        run = self.run_it("--tokens", "1,64", "--again", "--json", os.path.join(SCRATCH, "rows.json"))
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        rows = json.loads(read(os.path.join(SCRATCH, "rows.json")))
        self.assertEqual([(r["model"], r["T"]) for r in rows], [(m, t) for m in models.MODELS for t in (1, 64)])
        self.assertIn("| kimi_k25_rank int4 | 64 | 1000 | 2500 | 2500 | 2500 | 2500 | 2500 | 2.50 |", run.stdout)
        self.assertIn("| kimi_k25_rank, T=1, over the floor | <= 1.5 | 2.50 | MISS |", run.stdout)
        self.assertIn("kernels, pdl off", run.stderr)
        again = self.run_it("--tokens", "1,64", "qwen3_30b_a3b")
        self.assertIn("qwen3_30b_a3b, ours: kept from before", again.stderr)
        self.assertEqual(again.stdout.count("\n| qwen3_30b_a3b |"), 2)
        self.assertEqual(again.stdout.count("\n| kimi_k25_rank |"), 0)

    def test_everything(self):
        run = self.run_it("--no-compile", "--tokens", "1", name="table.py")
        self.assertEqual(run.returncode, 1)
        self.assertIn("FAILED: layer, Triton; layer, PyTorch\n", run.stdout)
        self.assertIn("| MoE layer, T=1, over the floor | <= 1.4 | 1.57 | MISS |", run.stdout)
        self.assertIn("| MoE layer, T=1, the Triton | <= 2.55 | not measured |  |", run.stdout)
        self.assertIn("| kimi_k25_rank, T=1, PyTorch over ours | >= 2 | not measured |  |", run.stdout)
        self.assertIn("| deepseek_v2_lite, T=1, over the floor | <= 1.5 | 2.50 | MISS |", run.stdout)
        for name in kernels.PROGRAMS:
            self.assertIn(f"- {name}: 0 failures", run.stdout)
        self.assertIn("| nvfp4, linear and experts, T <= 16, share of a copy | >= 80 % | 2 of 2; least 91 % (up 384x7168 T=1) | pass |", run.stdout)
        again = self.run_it("--no-compile", "--tokens", "1", name="table.py")
        self.assertIn("nvcc, nvfp4", run.stderr)
        self.assertNotIn("nvcc, nvfp4", again.stderr)  # it is there already

    def test_stopped(self):
        arguments = models.arguments(["kimi_k25_rank", "--tokens", "1", "--results", os.path.join(SCRATCH, "stopped")])
        os.environ["MAINSTEM"], old = FAKE, os.environ.get("MAINSTEM")
        plan = models.Plan(arguments)
        mine, other = plan.of_model["kimi_k25_rank"]
        with open(mine.result, "w") as f:
            json.dump(result(main=1000.0, one=1000.0), f)
        with open(other.result, "w") as f:
            json.dump(dict(torch={"1": dict(us={"eager-gather-one": 6000.0}, missing={}, floor=1000.0)}), f)
        mine.code, other.code = 0, 124
        text = "\n".join(plan.report())
        self.assertIn("6000 | eager-gather-one", text)
        self.assertIn("- kimi_k25_rank, PyTorch ended with 124 before all was measured", text)
        os.environ["MAINSTEM"] = old or ""

    def test_failure(self):
        run = self.run_it("deepseek_v2_lite", "--again", "-D", "FAIL=1")
        self.assertEqual(run.returncode, 1)
        self.assertIn("FAILED: deepseek_v2_lite, ours", run.stdout)
        self.assertIn("it does not fit", run.stderr)


if __name__ == "__main__":
    os.makedirs(SCRATCH, exist_ok=True)
    outcome = unittest.main(argv=sys.argv[:1], exit=False).result
    sys.exit(not outcome.wasSuccessful() or outcome.testsRun == 0)
