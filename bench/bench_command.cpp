// `tenon bench`: declared in tenon/cli/commands.h with the other commands, and here because it may
// use other libraries. SPDX-License-Identifier: MIT

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include "bench/compile_bench.h"
#include "bench/harness.h"
#include "bench/interp_bench.h"
#include "bench/machine.h"
#include "bench/peers.h"
#include "bench/plan_bench.h"
#include "bench/report.h"
#include "bench/workload.h"
#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"
#include "tenon/cli/program_file.h"
#include "tenon/engine/compiler_id.h"

namespace tenon::cli {
namespace {

using namespace tenon::bench;  // NOLINT(google-build-using-namespace): the command is its front

constexpr int64_t kMaxThreads = 1024;

std::vector<Workload> workloads_of(const BenchOptions& options) {
  std::optional<uint32_t> draw;
  try {
    if (!options.draw.empty()) draw = draw_seed(options.draw);
    return chosen_workloads(all_workloads(options.is_quick, draw), options.names);
  } catch (const Error& error) {
    throw WrongUsage(error.what());
  }
}

void list(const std::vector<Workload>& workloads) {
  Table table;
  table.add({"name", "group", "unit"});
  for (const Workload& workload : workloads)
    table.add({workload.name, workload.group, workload.unit});
  print(table.text());
}

int finish(const std::vector<Row>& rows, const std::string& table, const std::string& json_file) {
  print(table);
  if (!json_file.empty()) {
    write_file_atomic(json_file, json_text(rows));
    print(concat("wrote ", json_file, "\n"));
  }
  const bool has_failed =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.has_failed; });
  return has_failed ? kExitFailed : kExitOk;
}

std::vector<Row> measure(const std::vector<Workload>& workloads, const BenchOptions& options,
                         int num_threads) {
  Peers loaded = load_peers(num_threads);
  loaded.list.push_back(make_loop_peer());
  for (const std::string& note : loaded.notes)
    print(concat("peer:      ", note, "\n"));
  if (loaded.list.size() == 1 && loaded.notes.empty()) {
    print("peers:     none: built without them (CMake option TENON_BENCH)\n");
  }
  std::vector<Peer*> peers;
  for (const auto& peer : loaded.list)
    peers.push_back(peer.get());
  HarnessOptions harness_options{.num_threads = num_threads, .budget_s = options.budget_s};
  if (options.is_quick) {
    harness_options.windows = 3;
    harness_options.window_s = 2e-4;
    harness_options.pause_ms = 1;  // its figures are no claims
    harness_options.warm_ms = 0;
    harness_options.has_goals = false;
  }
  Harness harness(harness_options, peers);
  // Small products do not tell whether a library is right; a quick run does not judge.
  print(options.is_quick ? harness.check_peers(64, 0) : harness.check_peers(512));
  constexpr int64_t kLargeBytes = int64_t{256} << 20;  // eight times the largest cache known to us
  constexpr int64_t kQuickBytes = int64_t{4} << 20;
  std::vector<Row> rows;
  if (options.names.empty()) {
    rows = harness.measure_limits(options.is_quick ? kQuickBytes : kLargeBytes);
  }
  for (const Workload& workload : workloads) {
    rows.push_back(harness.measure(workload));
    const Row& row = rows.back();
    print_note(concat(row.name,
                      row.tenon ? fmt::format(" {:.4g} {}", row.tenon->best, row.unit) : "",
                      row.note.empty() ? "" : ": ", row.note));
  }
  return rows;
}

/// For bench/frameworks.py, which has windows of several processes in turn: "Tenon", the seconds of
/// a run for each line of the input, and "right" behind the last.
int serve(const std::vector<Workload>& workloads, const BenchOptions& options) {
  if (workloads.size() != 1) throw WrongUsage("bench: --serve takes one workload");
  Device& device = chosen_device(options.device);
  const ScopedDefaultDevice scope(device);
  const Harness harness({.num_threads = device.target().threads}, {});
  bool is_first = true;
  const auto has_next = [&] {
    if (is_first) print("Tenon\n");
    is_first = false;
    std::string line;
    return static_cast<bool>(std::getline(std::cin, line));
  };
  const std::optional<std::string> why = harness.serve(
      workloads[0], has_next, [](double time_s) { print(fmt::format("{}\n", time_s)); });
  print(concat(why ? concat("wrong: ", *why) : "right", "\n"));
  return why ? kExitFailed : kExitOk;
}

}  // namespace

int bench_command(const BenchOptions& options) {
  if (options.is_first_result) {
    const ScopedDefaultDevice scope(chosen_device(options.device));
    return first_result();
  }
  if (options.threads && (*options.threads < 1 || *options.threads > kMaxThreads)) {
    throw WrongUsage(concat("bench: --threads must be 1 to ", kMaxThreads));
  }
  if (!(options.budget_s > 0)) throw WrongUsage("bench: --budget must be above 0 seconds");
  std::optional<ScopedSetting> threads;
  if (options.threads) threads.emplace(Setting::kThreads, std::to_string(*options.threads));
  // What cannot be written is better known before an hour of measuring.
  const auto try_json = [&] {
    if (!options.json_file.empty()) write_file_atomic(options.json_file, json_text({}));
  };
  if (options.is_plans) {
    try_json();
    Device& device = chosen_device(options.device);
    const ScopedDefaultDevice scope(device);
    const std::vector<Row> rows = plan_rows(device, {.names = options.names,
                                                     .is_quick = options.is_quick,
                                                     .is_list = options.is_list,
                                                     .num_plans = options.num_plans});
    return finish(rows, plan_table(rows), options.json_file);
  }
  const bool is_alone = options.is_compile || options.is_launch || options.is_interp;
  if (is_alone && (!options.names.empty() || !options.draw.empty())) {
    throw WrongUsage("bench: --compile, --launch and --interp take no workloads");
  }
  const std::vector<Workload> workloads = workloads_of(options);
  if (options.is_list) {
    list(workloads);
    return kExitOk;
  }
  if (options.is_serving) return serve(workloads, options);
  try_json();
  Device& device = chosen_device(options.device);
  const ScopedDefaultDevice scope(device);
  const int num_threads =
      static_cast<int>(options.threads.value_or(std::max(1, device.target().threads)));
  print(concat("tenon:     ", tenon_version(), ", sources ", compiler_id().substr(0, 12),
               "\ndevice:    ", device.name(), "\nthreads:   ", num_threads, "\n",
               describe_machine(device.target())));
  std::vector<Row> rows;
  if (!is_alone) rows = measure(workloads, options, num_threads);
  if (options.is_compile) {
    rows = compile_rows(device, {.is_quick = options.is_quick, .budget_s = options.budget_s});
  }
  if (options.is_launch) {
    for (const Row& row : launch_rows(options.is_quick))
      rows.push_back(row);
  }
  if (options.is_interp) {
    for (const Row& row : interp_rows(options.is_quick))
      rows.push_back(row);
  }
  return finish(rows, table_text(rows), options.json_file);
}

}  // namespace tenon::cli
