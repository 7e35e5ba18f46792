#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/frameworks.py with sides that do what a test wants, without any framework.

usage: frameworks_test.py TENON
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/frameworks.py")
TENON = sys.argv.pop(1)

# A side named by its first argument, which says "right" or its second one in the end. Each window
# is written down.
SIDE = """
import os, sys
name, verdict = sys.argv[1], sys.argv[2]
print(name, flush=True)
for number, _ in enumerate(sys.stdin):
    with open(os.environ["LOG"], "a") as log:
        log.write(name)
    print(0.5 + number, flush=True)
print(verdict, flush=True)
"""


def load_script():
    spec = importlib.util.spec_from_file_location("frameworks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FrameworksTest(unittest.TestCase):
    def setUp(self):
        self.script = load_script()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = dict(os.environ, LOG=os.path.join(self.folder, "log"))

    def side(self, name, verdict="right", code=SIDE):
        return ([sys.executable, "-c", code, name, verdict], 0)

    def test_windows_are_taken_in_turn(self):
        sides = [self.side("A"), self.side("B"), self.side("C")]
        times = self.script.time_sides(sides, self.environment, 2)
        with open(self.environment["LOG"], encoding="utf-8") as log:
            self.assertEqual(log.read(), "ABC" * self.script.WINDOWS * 2)
        expected = [0.5 + number for number in range(self.script.WINDOWS)] * 2
        self.assertEqual(times, {"A": expected, "B": expected, "C": expected})

    def test_a_side_that_does_not_start_takes_no_part(self):
        sides = [self.side("A"), self.side("B", code="raise SystemExit(3)")]
        self.assertEqual(list(self.script.time_sides(sides, self.environment, 1)), ["A"])

    def test_wrong_results_and_ends_stop_it(self):
        with self.assertRaisesRegex(SystemExit, "B: wrong: element 3"):
            self.script.time_sides([self.side("A"), self.side("B", "wrong: element 3")],
                                   self.environment, 1)
        with self.assertRaisesRegex(SystemExit, "ended before its last window"):
            self.script.time_sides([self.side("B", code="print('B')")], self.environment, 1)

    def test_nothing_steers_the_libraries_but_the_threads(self):
        for name in ("OPENBLAS_CORETYPE", "OMP_PROC_BIND", "OMP_NUM_THREADS", "XLA_FLAGS"):
            os.environ[name] = "7"
            self.addCleanup(os.environ.pop, name)
        environment = self.script.environment_of(3)
        steered = {name: value for name, value in environment.items()
                   if name.startswith(self.script.STEERING)}
        self.assertEqual(steered, {"OMP_NUM_THREADS": "3"})
        self.assertEqual(environment["PATH"], os.environ["PATH"])

    def test_windows_are_warm(self):
        starts = []

        def run():
            starts.append(time.perf_counter())
            time.sleep(0.001)

        windows = self.script.Windows(run)
        self.assertLess(windows.runs, 4)
        del starts[:]
        seconds = windows.next()
        self.assertGreaterEqual(seconds, 0.001)
        before_s = starts[-windows.runs] - starts[0]
        self.assertGreaterEqual(before_s, self.script.WARM_S)

    def test_a_long_run_is_its_own_warmth(self):
        count = []

        def run():
            count.append(1)
            time.sleep(self.script.LONG_RUN_S * 1.1)

        windows = self.script.Windows(run)
        del count[:]
        windows.next()
        self.assertEqual(len(count), 1)

    def test_absent_frameworks_are_named_with_the_reason_and_tenon_is_timed(self):
        for name, text in (("numpy", ""), ("jax", "raise ImportError('no wheel for this moon')"),
                           ("torch", "raise OSError('a library is torn')")):
            with open(os.path.join(self.folder, name + ".py"), "w", encoding="utf-8") as file:
                file.write(text)
        environment = dict(os.environ, PYTHONPATH=self.folder)
        done = subprocess.run(
            [sys.executable, SCRIPT, "--rounds", "1", "--threads", "1", TENON,
             "softmax_4096x1024"], capture_output=True, text=True, env=environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertIn("jax: left out", lines[0])
        self.assertIn(sys.executable + ": ImportError: no wheel for this moon", lines[0])
        self.assertIn("torch: left out", lines[1])
        self.assertIn("OSError: a library is torn", lines[1])
        self.assertRegex(lines[2], r"^softmax_4096x1024 \[GB/s\]: Tenon \d+\.\d \(\d+\.\d\)$")


if __name__ == "__main__":
    unittest.main()
