#!/usr/bin/env python3
"""Compiles a source as it is, which must work, and with all misuses in it, each of which must fail.

usage: must_not_compile.py COMPILER ROOT SOURCE [FLAG...]
In the source a misuse stands between `#ifdef MISUSE` and `#endif`. Each must be an error on its own
lines, and no error may be elsewhere in the source: it is the misuse that is refused. Only the
parser runs. Run by CTest (tests/refuse).
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
blocks = [range(begin + 1, lines.index("#endif", begin) + 1)  # line numbers, from 1
          for begin, line in enumerate(lines, 1) if line == "#ifdef MISUSE"]
if not blocks:
    faults.append("no misuse found")
code, errors = compile_with("-DMISUSE")
found = {int(line) for file, line in re.findall(r"^(.*?):(\d+):\d+: error: ", errors, re.MULTILINE)
         if file == source}
for block in blocks:
    text = " ".join(lines[number - 1].strip() for number in block)
    if not found & set(block):
        faults.append(f"{block[0]}: compiles: {text}")
    else:
        print(f"refused: {text}")
stray = found - {number for block in blocks for number in block}
if stray:
    faults.append(f"errors outside the misuses, on lines {sorted(stray)}:\n{errors}")

for fault in faults:
    print(f"{source}: {fault}")
sys.exit(1 if faults else 0)
