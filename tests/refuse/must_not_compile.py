#!/usr/bin/env python3
"""Compiles a source once as it is, which must work, and once for each misuse in it, which must not.

usage: must_not_compile.py COMPILER ROOT SOURCE [FLAG...]
In the source a misuse stands between `#ifdef MISUSE_name` and `#endif`; the first error must be
on one of these lines, so that it is the misuse which is refused and not a header's fault. Only the parser runs, so a file takes about a second for each. Run by CTest (tests/refuse).
SPDX-License-Identifier: MIT
"""
import re
import subprocess
import sys

compiler, root, source, *flags = sys.argv[1:]


def compile_with(*defines):
    command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{root}", *flags, *defines, source]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return result.returncode, result.stderr


faults = []
code, errors = compile_with()
if code != 0:
    faults.append(f"does not compile without misuse:\n{errors}")
with open(source, encoding="ascii") as file:
    lines = file.read().splitlines()
misuses = [(match[1], number) for number, line in enumerate(lines, 1)
           if (match := re.fullmatch(r"#ifdef MISUSE_(\w+)", line))]
if not misuses:
    faults.append("no misuse found")
for name, begin in misuses:
    end = lines.index("#endif", begin) + 1
    code, errors = compile_with(f"-DMISUSE_{name}")
    first = re.search(r"^(.*):(\d+):\d+: error: ", errors, re.MULTILINE)
    if code == 0:
        faults.append(f"{name} compiles")
    elif not first or first[1] != source or not begin < int(first[2]) < end:
        faults.append(f"{name} fails elsewhere:\n{errors}")
    else:
        print(f"{name}: refused")
for fault in faults:
    print(f"{source}: {fault}")
sys.exit(1 if faults else 0)
