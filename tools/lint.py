#!/usr/bin/env python3
"""Checks what the compiler and the formatter do not: layers, file sizes, words, lists, heads.

usage: tools/lint.py [CHECK...] [--build FOLDER]     without CHECK: all of them
Run by CTest as lint.<check> and by `make lint`. Prints one line a fault; exits 1 if there is one.
SPDX-License-Identifier: MIT
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREES = ("tenon", "tests", "bench", "examples", "tools", "cmake", "docs", ".ci")
CODE = {".h", ".cpp", ".def", ".cmake", ".py", ".sh"}
TEXT = CODE | {".", ".md", ".txt", ".json", ".tg", ".tk", ".tir"}
LIMITS = {"header": 400, "source": 800, "test": 800, "function": 120}  # docs/style.md
# Functions and streams that library code may not use, and where they are at home.
FORBIDDEN = r"(std::(?:cout|cerr|clog)\b|(?<![\w.>])(?:f?printf|puts|abort|exit|getenv)(?=\s*\())"
MAY_USE_THEM = ("tenon/base/", "tenon/cli/", "tests/", "bench/", "examples/", "tools/")
GETENV_HOME = ("tenon/base/settings.cpp", *(t for t in MAY_USE_THEM if "tenon/" not in t))

faults = []

def fault(path, line, text):
    faults.append(f"{relative(path)}:{line}: {text}" if line else f"{relative(path)}: {text}")

def files(suffixes, trees=TREES):
    """Files with a suffix or, given as ".", without one (CMakeLists.txt counts as .cmake)."""
    found = [p for p in ROOT.glob("*") if p.is_file()] if trees is TREES else []
    found += [p for tree in trees for p in (ROOT / tree).rglob("*") if p.is_file()]
    def kind(path):
        return ".cmake" if path.name == "CMakeLists.txt" else path.suffix or "."
    return sorted(p for p in found if kind(p) in suffixes and "__pycache__" not in p.parts)

def relative(path):
    return path.relative_to(ROOT).as_posix()

def cmake_calls(path):
    """The tenon_module, tenon_test... calls of a CMakeLists.txt, each a dict of lists."""
    text = re.sub(r"#.*", "", path.read_text())
    for name, body in re.findall(r"(tenon_(?:module|backend|test|program|peer|fuzz|refuse))\s*\(([^)]*)\)", text):
        call, key = {"call": [name], "": []}, ""
        for word in body.split():
            key = word if word.isupper() else key
            call.setdefault(key, []).extend([] if word == key else [word])
        yield call

def modules():
    """name -> (folder, deps); folder -> set of names."""
    by_name, by_folder = {}, {}
    for path in sorted((ROOT / "tenon").rglob("CMakeLists.txt")):
        for call in cmake_calls(path):
            kind, name = call["call"][0], call.get("NAME", [""])[0]
            if kind in ("tenon_module", "tenon_backend", "tenon_program"):
                prefix = {"tenon_backend": "backend_", "tenon_program": f"{path.parent.name}/"}
                name = prefix.get(kind, "") + name
                by_name[name] = (path.parent, call.get("DEPS", []))
                by_folder.setdefault(path.parent, set()).add(name)
    return by_name, by_folder

def owner(path, by_folder):
    """The nearest folder above `path` that is a module."""
    return next((folder for folder in path.parents if folder in by_folder), None)

def closure(names, by_name):
    todo = [name for name in names if name in by_name]
    for name in todo:  # grows while it is read
        todo += [dep for dep in by_name[name][1] if dep in by_name and dep not in todo]
    return {by_name[name][0] for name in todo}

def check_layers(build):
    """Each #include "tenon/..." is covered by DEPS, DEPS point to the left in the root's list of
    folders, and CMake saw the same DEPS as this reading of the files."""
    by_name, by_folder = modules()
    order = re.search(r"set\(tenon_folders([^)]*)\)", (ROOT / "CMakeLists.txt").read_text())

    def rank_of(folder):
        part = folder.relative_to(ROOT / "tenon").parts[0]
        return order[1].split().index(part) if part in order[1].split() else 99

    for name, (folder, deps) in by_name.items():
        for dep in deps:
            if dep not in by_name:
                fault(folder / "CMakeLists.txt", 0, f"{name}: DEPS names '{dep}', no module")
            elif rank_of(by_name[dep][0]) > rank_of(folder):
                fault(folder / "CMakeLists.txt", 0, f"{name}: '{dep}' stands to its right")
        record = Path(build) / "layers" / f"{name}.txt" if build else None
        if record and record.exists():
            seen = record.read_text().split("deps ", 1)[1].replace(";", " ").split()
            if seen != deps:
                fault(folder / "CMakeLists.txt", 0, f"{name}: CMake saw DEPS {seen}, not {deps}")
    for path in files({".h", ".cpp", ".def"}, ("tenon",)):
        folder = owner(path, by_folder)
        if folder is None:
            fault(path, 0, "belongs to no tenon_module")
            continue
        allowed = closure(by_folder[folder], by_name)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            target = ROOT / match[1]
            if not target.exists():
                fault(path, number, f'"{match[1]}" is no file below the root')
                continue
            theirs = owner(target, by_folder)
            if theirs != folder and match[1].startswith("tenon/backend/"):
                fault(path, number, "nobody includes backend/")
            elif theirs not in allowed:
                fault(path, number, f'"{match[1]}" is not covered by DEPS of this folder')

def functions(lines):
    """(first line, length) of each function of formatted code: its body ends with } in column 0."""
    head, is_open = 0, False
    for number, line in enumerate(lines, 1):
        if is_open and line.startswith("}"):
            is_open = False
            if line == "}":
                yield head, number - head + 1
        elif not is_open:
            head = number if re.match(r"[A-Za-z_]", line) else head
            is_open = head > 0 and line.endswith("{") and not re.match("namespace|extern",
                                                                       lines[head - 1])

def check_sizes(_):
    for path in files({".h", ".cpp"}):
        lines = path.read_text().splitlines()
        kind = "header" if path.suffix == ".h" else "source"
        kind = "test" if relative(path).startswith("tests/") and kind == "source" else kind
        if len(lines) > LIMITS[kind]:
            fault(path, 0, f"{len(lines)} lines; a {kind} has at most {LIMITS[kind]}")
        for head, length in functions(lines):
            if length > LIMITS["function"]:
                fault(path, head, f"function of {length} lines; at most {LIMITS['function']}")

def strip(text):
    """C++ without comments and literals, lines kept."""
    pattern = r'R"\(.*?\)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda m: "\n" * m[0].count("\n"), text, flags=re.S)

def check_words(_):
    for path in files(TEXT):
        name, text = relative(path), path.read_text(encoding="utf-8", errors="surrogateescape")
        for number, line in enumerate(text.splitlines(), 1):
            if not line.isascii():
                fault(path, number, "not ASCII")
            if path.suffix in CODE and name != "tools/lint.py":
                if re.search(r"\b(FIXME|XXX|HACK)\b", line) or (
                        re.search(r"\bTODO\b", line) and not re.search(r"TODO\(#\d+\): \S", line)):
                    fault(path, number, "open ends are written TODO(#123): what and why")
        if path.suffix in (".h", ".cpp", ".def"):
            for number, line in enumerate(strip(text).splitlines(), 1):
                for word in re.findall(FORBIDDEN, line):
                    home = GETENV_HOME if word == "getenv" else MAY_USE_THEM
                    if not name.startswith(home):
                        fault(path, number, f"library code may not use {word}")

def check_lists(_):
    """SOURCES are sorted and, together, all .cpp files of the folder."""
    trees = ("tenon", "tests", "bench")
    homes = {p.parent for tree in trees for p in (ROOT / tree).rglob("CMakeLists.txt")}
    for home in sorted(homes):
        listed = set()
        for call in cmake_calls(home / "CMakeLists.txt"):
            sources = [s for s in call.get("SOURCES", []) if "$" not in s]
            if sources != sorted(sources):
                fault(home / "CMakeLists.txt", 0, f"SOURCES of {call['NAME'][0]} are not sorted")
            listed |= {home / s for s in sources}
        there = {p for p in home.rglob("*.cpp") if next(f for f in p.parents if f in homes) == home}
        for path in sorted(there - listed):
            fault(path, 0, "is in no SOURCES list")
        for path in sorted(p for p in listed if not p.exists()):
            fault(path, 0, "is listed but does not exist")

def check_heads(_):
    for path in files(CODE):
        head = path.read_text().splitlines()[:12]
        if not any("SPDX-License-Identifier: MIT" in line for line in head):
            fault(path, 1, "no SPDX-License-Identifier: MIT in the head comment")
        if path.suffix == ".h" and "#pragma once" not in head:
            fault(path, 1, "no #pragma once below the head comment")

CHECKS = {name[6:]: check for name, check in list(globals().items()) if name.startswith("check_")}

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checks", nargs="*", choices=[[], *CHECKS], metavar="CHECK")
    parser.add_argument("--build", help="build folder whose layer records are compared")
    options = parser.parse_args()
    for name in options.checks or CHECKS:
        CHECKS[name](options.build)
    print("\n".join(faults) if faults else "lint: no faults")
    sys.exit(1 if faults else 0)

if __name__ == "__main__":
    main()
