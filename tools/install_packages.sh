#!/usr/bin/env bash
# Installs the Debian packages that are missing, through apt, as root or with sudo.
# usage: tools/install_packages.sh GROUP...    groups: build test format check bench
#   build: compile and run the `tenon` command   test: build and run the tests
#   format: the formatter, for `make format` and CI   check: what else `make check-all` needs
#   bench: what tenon bench compares with (CMake option TENON_BENCH)
# Nothing to do costs one dpkg-query (10 ms). Says what it installs, and how to get what apt lacks.
# SPDX-License-Identifier: MIT
set -euo pipefail

build=(g++ cmake ninja-build libfmt-dev libcli11-dev nlohmann-json3-dev libxxhash-dev clang-22
  libllvm22)
test=(python3 libgtest-dev libgmock-dev libclang-rt-22-dev llvm-22)
format=(clang-format)
check=("${format[@]}" clang-tidy ccache qemu-user)
bench=(libopenblas-dev libdnnl-dev)

packages=()
for group in "$@"; do
  case "$group" in
    build) packages+=("${build[@]}") ;;
    test) packages+=("${test[@]}") ;;
    format) packages+=("${format[@]}") ;;
    check) packages+=("${check[@]}") ;;
    bench) packages+=("${bench[@]}") ;;
    *) echo "install_packages: no group '$group'; groups are build, test, format, check, bench" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "install_packages: not a Debian system; needed, by Debian's names: ${packages[*]}" >&2
  exit 0
fi

# Names among the arguments whose state is not "installed".
missing_of() {
  local installed
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk '$2 == "installed" { print $1 }' || true)
  for package in "$@"; do
    grep -qxF -- "$package" <<<"$installed" || echo "$package"
  done
}

mapfile -t missing < <(missing_of "${packages[@]}")
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_packages: missing ${missing[*]}" >&2
    echo "Neither root nor sudo here; ask an administrator for: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install_packages: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q >/dev/null ||
  echo "install_packages: apt-get update failed; going on with the old lists" >&2

unknown=()
for package in "${missing[@]}"; do
  apt-cache show "$package" >/dev/null 2>&1 || unknown+=("$package")
done
if [ ${#unknown[@]} -gt 0 ]; then
  echo "install_packages: apt does not know ${unknown[*]}" >&2
  case "${unknown[*]}" in *22*)
    echo "clang-22 comes with Debian 12's security updates: add to /etc/apt/sources.list" >&2
    echo "  deb http://deb.debian.org/debian-security bookworm-security main" >&2
    echo "or, on other releases, the repository described on https://apt.llvm.org" >&2 ;;
  esac
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "install_packages: apt-get install failed (above)" >&2
  exit 1
fi
