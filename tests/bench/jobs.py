# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that measure: over all GPUs that are visible, with the time that each took, kept so that a run that was
interrupted goes on where it ended."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time


def gpus():
    """Ids for CUDA_VISIBLE_DEVICES, one for each GPU that may be used."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [g.strip() for g in visible.split(",") if g.strip()]
    try:
        out = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    except OSError:
        out = ""
    return [str(i) for i, line in enumerate(out.splitlines()) if line.startswith("GPU ")] or ["0"]


def caches(place):
    """Where what Triton and torch.compile compile is kept, unless the environment says so."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ.setdefault(name, os.path.join(place, "bench-cache", name.split("_")[0].lower()))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")


class Job:
    """A command. `result` is the file that it writes, if it is to be kept: with it a job is done once and for all, as long as
    the command stays the same."""

    def __init__(self, name, command, result=None, limit=300, large=False):
        self.name, self.command, self.result, self.limit = name, [str(c) for c in command], result, limit
        self.large = large  # it needs much of a GPU's memory
        self.seconds, self.code, self.output, self.kept, self.process = 0.0, None, "", False, None

    @property
    def ok(self):
        return self.code == 0

    def mark(self):
        return f"{self.result}.command"

    def stamp(self):
        """The command, and size and time of the files that it names: another program is another measurement."""
        files = {c: os.stat(c) for c in self.command if c != self.result and os.path.isfile(c)}
        return [self.command, {name: [s.st_size, s.st_mtime_ns] for name, s in files.items()}]

    def done_before(self):
        try:
            with open(self.mark()) as f:
                return os.path.exists(self.result) and json.load(f) == self.stamp()
        except (OSError, TypeError, ValueError):
            return False

    def forget(self):
        for path in (self.result, self.mark()) if self.result else ():
            if os.path.exists(path):
                os.remove(path)

    def load(self):
        """The JSON that it wrote; None if it failed."""
        try:
            with open(self.result) as f:
                return json.load(f)
        except (OSError, TypeError, ValueError):
            return None

    def kill(self):
        """It and what it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError):
            pass

    def run(self, gpu, seconds=float("inf")):
        """On a GPU, within so many seconds and its own limit."""
        if self.result and self.done_before():
            self.code, self.kept = 0, True
            return
        self.forget()
        begin = time.monotonic()
        env = dict(os.environ, CUDA_VISIBLE_DEVICES=gpu)
        limit = min(self.limit, seconds)
        try:
            both = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            self.process = subprocess.Popen(self.command, env=env, start_new_session=True, **both)
            self.output, _ = self.process.communicate(timeout=limit)
            self.code = self.process.returncode
        except subprocess.TimeoutExpired:
            self.kill()
            self.code, self.output = 124, self.process.communicate()[0] + f"\nnot done within {limit:.0f} s\n"
        except OSError as e:
            self.code, self.output = 127, f"{e}\n"
        self.seconds = time.monotonic() - begin
        if self.ok and self.result and os.path.exists(self.result):
            with open(self.mark(), "w") as f:
                json.dump(self.stamp(), f)


class Runner:
    """Says on standard error what is being done, as one line that changes on a terminal, else as a line for each job. After
    `deadline` seconds (0: none) or at SIGTERM nothing more is started and what runs is stopped, so that there is a report of what
    is there."""

    def __init__(self, devices=None, file=sys.stderr, deadline=0):
        self.gpus, self.file, self.lock = devices or gpus(), file, threading.Lock()
        self.begin, self.phases, self.now, self.deadline = time.monotonic(), [], {}, deadline or float("inf")

        self.room = threading.BoundedSemaphore(2 * len(self.gpus))  # of large jobs at a time

    def left(self):
        return self.deadline - (time.monotonic() - self.begin)

    def say(self, text):
        with self.lock:
            clear = "\r\033[K" if self.file.isatty() else ""
            print(f"{clear}[{time.monotonic() - self.begin:5.1f} s] {text}", file=self.file, flush=True)

    def _show(self, phase, done, total):
        if self.file.isatty():
            with self.lock:
                filled = 20 * done // max(1, total)
                text = f"{phase} [{'#' * filled}{'.' * (20 - filled)}] {done} of {total}: {', '.join(j.name for j in list(self.now.values()))}"
                print("\r\033[K" + text[:150], end="", file=self.file, flush=True)

    def _work(self, phase, chains, slots):
        """Chains of jobs, the jobs of one after each other on one GPU."""
        todo, total, done = queue.SimpleQueue(), sum(map(len, chains)), []
        for chain in chains:
            todo.put(chain)

        def worker(slot, gpu):
            while True:
                try:
                    chain = todo.get_nowait()
                except queue.Empty:
                    return
                for job in chain:
                    self.now[slot] = job
                    self._show(phase, len(done), total)
                    if self.left() > 1 or job.done_before():
                        with self.room if job.large else contextlib.nullcontext():
                            job.run(gpu, max(1, self.left()))
                    else:
                        job.code, job.output = 125, "out of time\n"
                    done.append(job)
                    state = "kept from before" if job.kept else f"{job.seconds:.1f} s" + ("" if job.ok else f", FAILED ({job.code})")
                    self.say(f"{phase}: {job.name}: {state}")
                    if not job.ok:
                        self.say("    " + "\n    ".join(job.output.rstrip().splitlines()[-12:]))
                self.now.pop(slot, None)

        threads = [threading.Thread(target=worker, args=(i, gpu), daemon=True) for i, gpu in enumerate(slots)]
        begin, old = time.monotonic(), signal.signal(signal.SIGTERM, self._stop)
        try:
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        finally:  # also after an interrupt: what was started is a session of its own
            self._kill()
            signal.signal(signal.SIGTERM, old)
        self.phases.append((phase, time.monotonic() - begin))

    def _kill(self):
        for job in list(self.now.values()):
            job.kill()

    def _stop(self, *_):
        """SIGTERM is a deadline: what there is gets reported."""
        self.deadline = 0
        self._kill()

    def together(self, phase, jobs, at_once=None):
        """Nothing is timed in these: many at once, spread over the GPUs."""
        n = min(len(jobs), at_once or max(2, os.cpu_count() or 2))
        self._work(phase, [[j] for j in jobs], [self.gpus[i % len(self.gpus)] for i in range(n)])

    def alone(self, phase, chains):
        """One job on each GPU at a time."""
        self._work(phase, chains, self.gpus)

    def summary(self):
        each = [f"{name} {seconds:.0f} s" for name, seconds in self.phases + [("all", time.monotonic() - self.begin)]]
        return "; ".join(each)
