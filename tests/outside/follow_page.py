#!/usr/bin/env python3
"""Runs every `sh` block of docs/add_backend.md in an empty folder, as a reader would, and looks at
what the command that comes out says of its devices.

usage: follow_page.py --source FOLDER --build FOLDER [--compiler CXX] [--flags=FLAGS]
SPDX-License-Identifier: MIT
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--flags", default="")
    options = parser.parse_args()
    page = (options.source / "docs/add_backend.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if len(blocks) < 3:
        sys.exit(f"docs/add_backend.md: {len(blocks)} blocks of commands; install, project, build")
    # The page names the usual build folder; the test is told its own, which is built.
    script = "set -eu\n" + "".join(blocks).replace('"$TENON/build/release"', '"$TENON_BUILD"')
    script = re.sub(r'^cmake --build "\$TENON_BUILD".*\n', "", script, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="tenon-outside-") as folder:
        env = os.environ | {
            "TENON": str(options.source), "TENON_BUILD": str(options.build),
            "PREFIX": f"{folder}/prefix", "CXX": options.compiler, "CXXFLAGS": options.flags,
            "TENON_CACHE_DIR": f"{folder}/cache", "DEV": ""}
        run = subprocess.run(["bash", "-c", script], cwd=folder, env=env, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(run.stdout)
        if run.returncode != 0:
            sys.exit(f"the page's commands ended with {run.returncode}")
        check(run.stdout.splitlines())
        sources = "\n".join(p.read_text() for p in Path(folder, "foo_tenon/foo").iterdir())
        if str(options.source) in sources:
            sys.exit("the outside folder names the source tree")


def check(lines):
    """The device FOO stands in the list of `tenon_foo devices`, with a round trip."""
    starts = [i for i, line in enumerate(lines) if line.startswith("FOO  present")]
    if not starts:
        sys.exit("no device FOO in the output")
    trips = [line for line in lines[starts[0]:] if line.startswith("  round trip: FOO:0")]
    if not trips or "all right" not in trips[0]:
        sys.exit(f"the round trip on FOO: {trips}")


main()
