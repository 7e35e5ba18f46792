#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times Tenon beside JAX and PyTorch, each program as a user of it writes it.

usage: bench/frameworks.py [--rounds N] [--threads N] [--json FILE] TENON [NAME...]

TENON is the command, for its workloads of the same names. Each round runs Tenon and each framework
in a process of its own, one after the other, so that no side's spinning threads meet another; all
have as many windows of the same length, and the best and the median window of all rounds are
printed and compared. Inputs are made by NumPy and are on the device before the clock starts;
results are waited for and compared with NumPy in f64 (Tenon's by its bench). A framework that this
Python cannot import is left out and the reason printed:

  python3 -m venv build/venv && build/venv/bin/pip install jax numpy     # JAX
  apt-get install python3-torch                                         # PyTorch of Debian
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
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
WINDOW_S = 0.002  # as bench/harness.h has them
WINDOWS = 21


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


def time_framework(framework, name):
    """Prints the title and the seconds of one run in each window. Runs in a process of its own."""
    title, prepare = FRAMEWORKS[framework]()
    import numpy

    random = numpy.random.default_rng(1)
    arrays = [random.uniform(-1, 1, shape).astype(numpy.float32) for shape in WORKLOADS[name][2]]
    run = prepare(name, arrays)
    check(title, name, run(), arrays)
    start = time.perf_counter()
    run()
    runs = max(1, int(WINDOW_S / (time.perf_counter() - start)))
    windows = []
    for _ in range(WINDOWS):
        start = time.perf_counter()
        for _ in range(runs):
            run()
        windows.append((time.perf_counter() - start) / runs)
    print(json.dumps({"title": title, "windows": windows}))


def python_of(framework):
    """The first Python that can import the framework: this one, or Debian's."""
    for python in (sys.executable, "/usr/bin/python3"):
        test = subprocess.run([python, "-c", f"import numpy, {framework}"], capture_output=True)
        if test.returncode == 0:
            return python
    return None


def run_framework(python, framework, name, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run([python, __file__, "--time", framework, name],
                          capture_output=True, text=True, env=environment, check=True)
    answer = json.loads(done.stdout)
    work = WORKLOADS[name][1]
    return answer["title"], [work / seconds for seconds in answer["windows"]]


def run_tenon(tenon, name, threads):
    """Best and median rate of the workload; None where the command does not know it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        done = subprocess.run([tenon, "bench", name, "--threads", str(threads), "--json", path],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return None
        with open(path, encoding="utf-8") as file:
            row = json.load(file)[0]
    return row["tenon"], row["tenon_median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tenon")
    parser.add_argument("names", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json")
    options = parser.parse_intermixed_args()
    names = options.names or list(WORKLOADS)
    pythons = {framework: python_of(framework) for framework in FRAMEWORKS}
    for framework, python in pythons.items():
        if python is None:
            print(f"{framework}: left out, no Python here can import it")
    rows = []
    for name in names:
        unit = WORKLOADS[name][0]
        sides = {}
        for _ in range(options.rounds):
            tenon = run_tenon(options.tenon, name, options.threads)
            if tenon is not None:
                best, median = sides.setdefault("Tenon", ([], []))
                best.append(tenon[0])
                median.append(tenon[1])
            for framework, python in pythons.items():
                if python is None:
                    continue
                title, rates = run_framework(python, framework, name, options.threads)
                best, median = sides.setdefault(title, ([], []))
                best.append(max(rates))
                median.append(statistics.median(rates))
        row = {"name": name, "unit": unit}
        row.update({side: max(best) for side, (best, _) in sides.items()})
        medians = {side: statistics.median(median) for side, (_, median) in sides.items()}
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
    if sys.argv[1:2] == ["--time"]:
        time_framework(sys.argv[2], sys.argv[3])
    else:
        main()
