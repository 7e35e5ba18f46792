#!/usr/bin/env python3
"""Lines of tenon/ by folder, without tests, and the budget that they must stay below.

usage: tools/size.py [--base COMMIT]      with a base: the change of each folder since then
Exits 1 above the budget. Raising BUDGET is a change to review on its own.
SPDX-License-Identifier: MIT
"""
import argparse
import io
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 58000  # lines of .h, .cpp and .def files below tenon/
SUFFIXES = (".h", ".cpp", ".def")


def folder_of(name):
    parts = name.split("/")
    return "/".join(parts[:3]) if parts[1] == "backend" and len(parts) > 3 else "/".join(parts[:2])


def count(named_bytes):
    lines, files = Counter(), Counter()
    for name, content in named_bytes:
        if name.endswith(SUFFIXES):
            lines[folder_of(name)] += content.count(b"\n")
            files[folder_of(name)] += 1
    return lines, files


def of_commit(commit):
    archive = subprocess.run(["git", "archive", commit, "tenon"], cwd=ROOT, check=True,
                             capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.isfile():
                yield member.name, tar.extractfile(member).read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", help="commit to compare with")
    base = parser.parse_args().base
    here = ((p.relative_to(ROOT).as_posix(), p.read_bytes())
            for p in sorted((ROOT / "tenon").rglob("*")) if p.is_file())
    lines, files = count(here)
    before = count(of_commit(base))[0] if base else None
    for folder in sorted(lines | before if before else lines):
        change = f"{lines[folder] - before[folder]:+8d}" if before is not None else ""
        print(f"{folder:28} {files[folder]:4d} files {lines[folder]:7d} lines{change}")
    total = sum(lines.values())
    change = f"{total - sum(before.values()):+8d}" if before is not None else ""
    print(f"{'total':28} {sum(files.values()):4d} files {total:7d} lines{change}, budget {BUDGET}")
    sys.exit(1 if total > BUDGET else 0)


if __name__ == "__main__":
    main()
