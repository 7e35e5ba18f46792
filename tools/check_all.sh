#!/usr/bin/env bash
# Everything that can be checked, for before a change is called done: slow (tens of minutes).
# usage: tools/check_all.sh [STEP...]     without STEP: all, in the order of `steps`
# Each step is a function named step_<name>; add one here and its name to `steps`. Every step runs,
# also after a failure; the table at the end says which failed, and the exit status is 1 then.
# SPDX-License-Identifier: MIT
set -uo pipefail
cd "$(dirname "$0")/.."
export TENON_CACHE_DIR="$PWD/build/check-cache"  # not the user's

steps=(lint format dev release clang asan tsan renderers interp order older_cpus bench prop graphs sweeps fuzz tidy size)
jobs=$(nproc)

# Configures, builds and tests a preset; further words go to ctest.
preset() {
  local name=$1
  shift
  cmake --preset "$name" && cmake --build --preset "$name" &&
    ctest --preset "$name" --parallel "$jobs" "$@"
}

step_lint() { python3 tools/lint.py; }
step_format() { tools/format.sh --check; }
step_dev() { preset dev; }
step_release() { preset release; }
step_asan() { preset asan; }
# Single-threaded long runs, which have their own step, would take an hour here.
step_tsan() { preset tsan --label-exclude '^prop$' --timeout 1500; }

# The other compiler: its warnings and its reading of the standard.
step_clang() {
  cmake -S . -B build/clang -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=clang++-22 &&
    cmake --build build/clang &&
    ctest --test-dir build/clang --output-on-failure --parallel "$jobs"
}

# All tests, the reported faults and the digits on the renderer that is not the default.
step_renderers() {
  cmake --preset release && cmake --build --preset release || return 1
  local -x DEV=CPU:CLANG TENON_VERIFY_IR=1
  # But for the pages, which show what the default prints.
  ctest --preset release --parallel "$jobs" --label-exclude '^docs$' || return 1
  # Products without the matrix units that the CPU may have.
  DEV=CPU::native,-avx512bf16,-avx512vnni,-avxvnni,-amx-tile \
    build/release/tests/conform/unit_values_test --gtest_brief=1 || return 1
  build/release/tenon_cases tests/cases/reported_faults.json --buffer --const \
    --baseline tests/cases/baseline.txt >build/cases.log || { cat build/cases.log; return 1; }
  build/release/tenon run digits --check
}

# What takes too long with the checked interpreter for every run: special values, the reported
# faults, the digits.
step_interp() {
  local device
  cmake --preset release && cmake --build --preset release || return 1
  for device in INTERP INTERP::CPU; do
    local -x DEV=$device
    build/release/tests/conform/special_values_test --gtest_brief=1 || return 1
    build/release/tenon_cases tests/cases/reported_faults.json --buffer --const \
      --baseline tests/cases/baseline.txt >build/cases.log || { cat build/cases.log; return 1; }
    build/release/tenon run digits --check || return 1
  done
}

# Each test program as one process, in five orders: tests must not lean on each other. CTest gives
# each test its own process, so this step alone sees it.
step_order() {
  local test seed
  cmake --preset release && cmake --build --preset release || return 1
  for test in build/release/tests/*/*_test build/release/tests/*/*/*_test; do
    for seed in 1 2 3 4 5; do
      TENON_VERIFY_IR=1 "$test" --gtest_shuffle --gtest_random_seed=$seed --gtest_brief=1 \
        >build/order.log 2>&1 || { echo "$test, seed $seed:"; cat build/order.log; return 1; }
    done
  done
}

# clang-tidy's checks (.clang-tidy) over tenon/: half an hour. What it says of the library's own
# templates, where no NOLINT can stand, does not count.
step_tidy() {
  cmake --preset release || return 1
  find "$PWD/tenon" -name '*.cpp' | sort |
    xargs -P "$jobs" -n 1 clang-tidy-14 --quiet -p build/release >build/tidy.log 2>&1 ||
    { cat build/tidy.log; return 1; }
  if grep -E "^$PWD/.*(warning|error):" build/tidy.log | sort -u; then return 1; fi
}

# Values on emulated CPUs with AVX2 and with neither AVX nor FMA: an instruction that they lack ends
# the test.
step_older_cpus() {
  local cpu test
  cmake --preset release && cmake --build --preset release || return 1
  for cpu in Haswell Nehalem; do
    for test in tensor/tensor_test webnn/webnn_test conform/special_values_test \
      conform/row_values_test conform/unit_values_test; do
      qemu-x86_64 -cpu "$cpu" "build/release/tests/$test" --gtest_brief=1 2>build/qemu.log ||
        { cat build/qemu.log; return 1; }
    done
  done
}

# The benchmark with all that it compares with: do they load, as what they are by themselves here,
# are all results right? No speeds.
step_bench() {
  tools/install_packages.sh bench && cmake --preset bench -DBUILD_TESTING=ON &&
    cmake --build --preset bench --target tenon bench_run_test || return 1
  build/bench/tests/bench/bench_run_test --gtest_filter='*Peers*' | tee build/bench.log
  [ "${PIPESTATUS[0]}" = 0 ] && ! grep SKIPPED build/bench.log || return 1
  build/bench/tenon bench --quick | tee build/bench.log
  [ "${PIPESTATUS[0]}" = 0 ] && ! grep -E 'not loaded|is wrong' build/bench.log
}

# Property tests with other seeds than the fixed one of everyday runs. CHECK_SEEDS says how many.
step_prop() {
  local seed
  cmake --preset release && cmake --build --preset release || return 1
  for seed in $(seq 1 "${CHECK_SEEDS:-4}"); do
    TENON_SEED=$seed ctest --preset release -L '^prop$' --parallel "$jobs" >build/prop.log 2>&1 ||
      { echo "TENON_SEED=$seed:"; cat build/prop.log; return 1; }
  done
  # 1,000 random kernels with every order of each Comp's loops and six random Plans each: after every
  # pass, and compiled.
  local test
  for test in codegen/codegen_prop_test backend/cpu/compiled_kernels_test; do
    build/release/tests/$test --gtest_also_run_disabled_tests --gtest_filter='*Thousand*' || return 1
  done
}

# 2,000 random graphs against the oracle on every device that computes, all planted faults found
# within as many, and equal texts from two processes. Nothing comes from a cache.
step_graphs() {
  cmake --preset release && cmake --build --preset release --target tenon_prop || return 1
  local prop=build/release/tenon_prop
  TENON_VERIFY_IR=1 TENON_CACHE=0 $prop --count 2000 && $prop --count 2000 --device INTERP &&
    $prop --count 2000 --hunt all &&
    $prop --count 2000 --same-text
}

# Every f32 through the decompositions of the bounded class: 2^32 values an op.
step_sweeps() {
  cmake --preset release && cmake --build --preset release --target rules_ulp_test || return 1
  build/release/tests/rules/rules_ulp_test --gtest_also_run_disabled_tests
}

# Each fuzz target for CHECK_FUZZ_SECONDS; a corpus grows in build/corpus from run to run.
step_fuzz() {
  local target corpus
  cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers || return 1
  for target in build/fuzz/fuzz/*_fuzz; do
    [ -x "$target" ] || continue
    corpus=build/corpus/$(basename "$target")
    mkdir -p "$corpus"
    echo "-- $target"
    "$target" -max_total_time="${CHECK_FUZZ_SECONDS:-60}" -print_final_stats=1 \
      -artifact_prefix="$corpus-" "$corpus" >build/fuzz.log 2>&1 || { cat build/fuzz.log; return 1; }
    grep -E 'number_of_executed_units|new_units_added' build/fuzz.log
  done
}

step_size() { python3 tools/size.py; }

[ $# -eq 0 ] || steps=("$@")
results=()
status=0
for step in "${steps[@]}"; do
  if ! declare -F "step_$step" >/dev/null; then
    echo "check_all: no step '$step'" >&2
    exit 2
  fi
  printf '\n==== %s\n' "$step"
  start=$SECONDS
  if "step_$step"; then verdict=ok; else verdict=FAILED; status=1; fi
  results+=("$(printf '%-10s %-6s %5d s' "$step" "$verdict" $((SECONDS - start)))")
done
printf '\n==== check-all\n'
printf '%s\n' "${results[@]}"
exit $status
