#!/usr/bin/env bash
# Formats the C++ files of the tree in place; with --check, names those that would change and fails.
# usage: tools/format.sh [--check]
# SPDX-License-Identifier: MIT
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "format: no clang-format; run make format"; exit 1; }
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.h' '*.cpp')
existing=()
for file in "${files[@]}"; do
  [ -f "$file" ] && existing+=("$file")
done
[ ${#existing[@]} -gt 0 ] || exit 0
if [ "${1:-}" = --check ]; then
  bad=$({ clang-format --dry-run --Werror "${existing[@]}" 2>&1 || true; } |
    sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1: not formatted; run make format/p' | sort -u)
  [ -z "$bad" ] || { echo "$bad"; exit 1; }
else
  clang-format -i "${existing[@]}"
fi
