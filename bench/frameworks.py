#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times Tenon beside JAX and PyTorch, each program as a user of it writes it.

usage: bench/frameworks.py [--rounds N] [--threads N] [--json FILE] TENON [NAME...]

TENON is the command, for its workloads of the same names. In each round Tenon and each framework
have a process of their own, which times a window whenever it is told to: one of each side in turn
(A B C A B C), so that all see the same phases of a shared machine, with a pause behind it until the
side's threads sleep. Before its window a side runs for some time, which wakes its threads and fills
the caches (all as bench/harness.h has it). The best and the median window of all rounds are printed
and compared. Inputs are made by NumPy and are on the device before the clock starts; results are
waited for and compared with NumPy in f64 (Tenon's by its bench). Variables that steer their
libraries are taken from all sides. A framework that no Python here can import is left out and the
reason printed:

  python3 -m venv build/venv && build/venv/bin/pip install jax numpy     # JAX
  apt-get install python3-torch                                         # PyTorch of Debian
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time

# name: (unit, billions of it in one run, arguments as (shape, how they are filled))
F32 = 4e-9
WORKLOADS = {
    "matmul_f32_1024": ("GFLOP/s", 2e-9 * 1024**3, [(1024, 1024)] * 2),
    "relu_64m": ("GB/s", 4 * F32 * 2**26, [(2**26,)] * 3),
    "softmax_4096x1024": ("GB/s", 2 * F32 * 2**22, [(4096, 1024)]),
    "layernorm_4096x1024": ("GB/s", 2 * F32 * 2**22, [(4096, 1024)]),
    "sum_64m": ("GB/s", F32 * 2**26, [(2**26,)]),
    "transpose_8192": ("GB/s", 2 * F32 * 2**26, [(8192, 8192)]),
    "conv_3x3_64x64_56_batch_8": (
        "GFLOP/s", 2e-9 * 8 * 64 * 56 * 56 * 64 * 9, [(8, 64, 56, 56), (64, 64, 3, 3)]),
    "attention_16x1024x64": ("GFLOP/s", 4e-9 * 16 * 1024 * 1024 * 64, [(16, 1024, 64)] * 3),
}
# As bench/harness.h has them.
WINDOW_S = 0.002
WINDOWS = 21
WARM_S = 0.02
LONG_RUN_S = 0.05  # runs that are longer need no other before them
PAUSE_S = 0.06
TENON_PAUSE_S = 0.003
# Of variables that steer libraries: as load_peers has them, and those of other libraries here.
STEERING = ("OPENBLAS_", "GOTO_", "DNNL_", "ONEDNN_", "OMP_", "GOMP_", "KMP_", "MKL_", "XLA_", "JAX_")


def expected_value(name, arrays):
    """The result, or what is first in it, by NumPy in f64."""
    import numpy

    a = [array.astype(numpy.float64) for array in arrays] if arrays[0].size < 2**25 else arrays

    def softmax(x):
        weights = numpy.exp(x - x.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)

    def conv(x, w):
        padded = numpy.pad(x[:1], ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return numpy.einsum("nchwij,ocij->nohw", windows, w, optimize=True)

    def layernorm(x):
        return (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + 1e-5)

    return {
        "matmul_f32_1024": lambda: a[0] @ a[1],
        "relu_64m": lambda: numpy.maximum(a[0] * a[1] + a[2], 0),
        "softmax_4096x1024": lambda: softmax(a[0]),
        "layernorm_4096x1024": lambda: layernorm(a[0]),
        "sum_64m": lambda: a[0].sum(dtype=numpy.float64),
        "transpose_8192": lambda: a[0].T,
        "conv_3x3_64x64_56_batch_8": lambda: conv(a[0], a[1]),
        "attention_16x1024x64": lambda: softmax(a[0] @ a[1].swapaxes(1, 2) / 8) @ a[2],
    }[name]()


def check(title, name, result, arrays):
    """Finds another computation (an axis, a scale, a shape), not roundings: 1 in 1000 of the largest
    value, or of what a sum of so many random terms comes to."""
    import numpy

    expected = numpy.asarray(expected_value(name, arrays))
    got = numpy.asarray(result)[:1] if name.startswith("conv") else numpy.asarray(result)
    terms = max(array.size for array in arrays) / max(expected.size, 1)
    bound = 1e-3 * max(numpy.abs(expected).max(), terms**0.5)
    if got.shape != expected.shape or not (numpy.abs(got - expected) <= bound).all():
        sys.exit(f"{title}: {name} is wrong")


def jax_functions():
    import jax
    import jax.numpy as jnp

    def layernorm(x):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5)

    def conv(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")

    def attention(q, k, v):
        scores = jnp.einsum("hqd,hkd->hqk", q, k) / 8.0
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)

    functions = {
        "matmul_f32_1024": lambda a, b: a @ b,
        "relu_64m": lambda a, b, c: jax.nn.relu(a * b + c),
        "softmax_4096x1024": lambda x: jax.nn.softmax(x, axis=-1),
        "layernorm_4096x1024": layernorm,
        "sum_64m": lambda x: x.sum(),
        "transpose_8192": lambda x: x.T.copy(),
        "conv_3x3_64x64_56_batch_8": conv,
        "attention_16x1024x64": attention,
    }

    def prepare(name, arrays):
        function = jax.jit(functions[name])
        inputs = [jnp.asarray(array) for array in arrays]
        return lambda: function(*inputs).block_until_ready()

    return f"JAX {jax.__version__}", prepare


def torch_functions():
    import torch
    import torch.nn.functional as nn

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(1, 2) / 8.0, -1) @ v

    functions = {
        "matmul_f32_1024": lambda a, b: a @ b,
        "relu_64m": lambda a, b, c: torch.relu(a * b + c),
        "softmax_4096x1024": lambda x: torch.softmax(x, -1),
        "layernorm_4096x1024": lambda x: nn.layer_norm(x, x.shape[-1:]),
        "sum_64m": lambda x: x.sum(),
        "transpose_8192": lambda x: x.t().contiguous(),
        "conv_3x3_64x64_56_batch_8": lambda x, w: nn.conv2d(x, w, padding=1),
        "attention_16x1024x64": attention,
    }

    def prepare(name, arrays):
        inputs = [torch.from_numpy(array) for array in arrays]

        def run():
            with torch.no_grad():
                return functions[name](*inputs)

        return run

    return f"PyTorch {torch.__version__}", prepare


FRAMEWORKS = {"jax": jax_functions, "torch": torch_functions}


def least_seconds(run, time_s):
    """Runs at least once and at least for so long; the seconds of the fastest run."""
    total = 0
    least = float("inf")
    while True:
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        total += seconds
        least = min(least, seconds)
        if total >= time_s:
            return least


class Windows:
    """Windows of a function, with what goes before them."""

    def __init__(self, run):
        self.run = run
        run()
        least = least_seconds(run, WARM_S)
        self.is_long = least > LONG_RUN_S
        self.runs = max(1, round(WINDOW_S / least))

    def next(self):
        """The seconds of one run."""
        if not self.is_long:
            least_seconds(self.run, WARM_S)
        start = time.perf_counter()
        for _ in range(self.runs):
            self.run()
        return (time.perf_counter() - start) / self.runs


def serve_framework(framework, name):
    """Prints the title, the seconds of one run for each line of the input, and "right" in the end.
    Runs in a process of its own."""
    import numpy

    title, prepare = FRAMEWORKS[framework]()
    random = numpy.random.default_rng(1)
    arrays = [random.uniform(-1, 1, shape).astype(numpy.float32) for shape in WORKLOADS[name][2]]
    run = prepare(name, arrays)
    windows = Windows(run)
    print(title, flush=True)
    for _ in sys.stdin:
        print(windows.next(), flush=True)
    check(title, name, run(), arrays)
    print("right", flush=True)


class Side:
    """A process that times windows when it is told to."""

    def __init__(self, command, environment, pause_s):
        self.pause_s = pause_s
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)
        self.first_line = self.process.stdout.readline().strip()

    def window(self):
        """The seconds of one run; the threads sleep again afterwards."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        time.sleep(self.pause_s)
        if not line:
            sys.exit(f"{self.process.args}: ended before its last window")
        return float(line)

    def verdict(self):
        """What it says of its last result."""
        self.process.stdin.close()
        return self.process.stdout.readline().strip() or "it ended without a verdict"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.terminate()
        self.process.wait()


def python_of(framework):
    """The first Python that can import the framework, this one or Debian's; and why not others."""
    reasons = []
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        test = subprocess.run([python, "-c", f"import numpy, {framework}"], capture_output=True,
                              text=True)
        if test.returncode == 0:
            return python, reasons
        reasons.append(f"{python}: {(test.stderr.strip().splitlines() or ['no error text'])[-1]}")
    return None, reasons


def environment_of(threads):
    """That of all sides."""
    environment = {variable: value for variable, value in os.environ.items()
                   if not variable.startswith(STEERING)}
    environment["OMP_NUM_THREADS"] = str(threads)
    return environment


def time_sides(commands, environment, rounds):
    """For each side, by title: the seconds of one run in each window of all rounds. One that does
    not start has none; it says why itself."""
    times = {}
    for _ in range(rounds):
        with contextlib.ExitStack() as stack:
            sides = {}
            for command, pause_s in commands:
                side = Side(command, environment, pause_s)
                stack.callback(side.close)
                if side.first_line:
                    sides[side.first_line] = side
            for _ in range(WINDOWS):
                for title, side in sides.items():
                    times.setdefault(title, []).append(side.window())
            for title, side in sides.items():
                verdict = side.verdict()
                if verdict != "right":
                    sys.exit(f"{title}: {verdict}")
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tenon")
    parser.add_argument("names", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json")
    options = parser.parse_intermixed_args()
    names = options.names or list(WORKLOADS)
    environment = environment_of(options.threads)
    pythons = {}
    for framework in FRAMEWORKS:
        python, reasons = python_of(framework)
        if python is not None:
            pythons[framework] = python
        else:
            print(f"{framework}: left out, no Python here can import it ({'; '.join(reasons)})")
    rows = []
    for name in names:
        unit, work, _ = WORKLOADS[name]
        commands = [([options.tenon, "bench", name, "--threads", str(options.threads), "--serve"],
                     TENON_PAUSE_S)]
        for framework, python in pythons.items():
            commands.append(([python, __file__, "--serve", framework, name], PAUSE_S))
        sides = {}
        for title, seconds in time_sides(commands, environment, options.rounds).items():
            rates = [work / each for each in seconds]
            sides[title] = (max(rates), statistics.median(rates))
        row = {"name": name, "unit": unit}
        row.update({side: best for side, (best, _) in sides.items()})
        medians = {side: median for side, (_, median) in sides.items()}
        text = ", ".join(f"{side} {row[side]:.1f} ({medians[side]:.1f})" for side in sides)
        others = [row[side] for side in sides if side != "Tenon"]
        if "Tenon" not in sides:
            text += "; Tenon has no such workload, or it failed"
        elif others:
            row["ratio"] = row["Tenon"] / max(others)
            other_medians = [medians[side] for side in sides if side != "Tenon"]
            row["median_ratio"] = medians["Tenon"] / max(other_medians)
            text += f"; Tenon / best {row['ratio']:.2f} ({row['median_ratio']:.2f})"
        print(f"{name} [{unit}]: {text}", flush=True)
        rows.append(row)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_framework(sys.argv[2], sys.argv[3])
    else:
        main()
