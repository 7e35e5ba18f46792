// SPDX-License-Identifier: MIT

#include "bench/compile_bench.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "bench/start_up.h"
#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/schedule/schedule.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/tensor.h"

namespace tenon::bench {
namespace {

constexpr int kRepeats = 20;

/// Nanoseconds of each part of one lowering.
struct LowerTimes {
  int64_t schedule_ns = 0;
  int64_t lower_ns = 0;
  int64_t render_ns = 0;
  int64_t total_ns = 0;  ///< with building and releasing everything
  int64_t num_kernels = 0;
  KernelSource source = {};  ///< of the last kernel
};

/// From graph to source, as the engine does it. `build` makes the graph.
LowerTimes lower(const EngineDevice& device, const std::function<Tensor()>& build) {
  LowerTimes times;
  const ScopedTimer total(times.total_ns);
  const Tensor result = build();
  const Node outputs[] = {result.node()};
  Schedule schedule;
  {
    const ScopedTimer timer(times.schedule_ns);
    schedule = schedule_graph(outputs, schedule_options(device.target()));
  }
  for (const ScheduledCall& call : schedule.calls) {
    LinearProgram program;
    {
      const ScopedTimer timer(times.lower_ns);
      program = lower_for(device, call.kernel);
    }
    const ScopedTimer timer(times.render_ns);
    RenderedSource source = device.renderer().renderer->render(program, device.target());
    times.source = {std::move(source.entry), std::move(source.text)};
    ++times.num_kernels;
  }
  return times;
}

Row time_row(std::string name, std::string unit, double scale, const std::vector<double>& times_ns,
             double goal = 0) {
  Row row{.name = std::move(name), .group = "compile", .unit = std::move(unit)};
  row.is_lower_better = true;
  const Summary summary = summarize(times_ns);
  row.tenon = Figure{.name = "tenon",
                     .best = summary.best * scale,
                     .median = summary.median * scale,
                     .invalid = {}};
  row.windows = summary.windows;
  row.goal = goal;
  return row;
}

/// Distinct Nodes of the nest that emit_linear reads: the kernel after the last pass on kernels.
double count_nest_nodes(const EngineDevice& device, const Tensor& result) {
  const Node outputs[] = {result.node()};
  const Schedule schedule = schedule_graph(outputs, schedule_options(device.target()));
  double count = 0;
  CodegenOptions options;
  options.on_kernel = [&](std::string_view, const Kernel& kernel) {
    std::unordered_set<const void*> seen;
    std::vector<Node> todo;
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      for_each_expr(stmt, [&](const Node& node) { todo.push_back(node); });
    });
    while (!todo.empty()) {
      const Node node = todo.back();
      todo.pop_back();
      if (!seen.insert(node.id()).second) continue;
      for (const Node& source : node.srcs())
        todo.push_back(source);
    }
    count = static_cast<double>(seen.size());
  };
  lower_for(device, schedule.calls.at(0).kernel, options);
  return count;
}

void add_matmul_rows(EngineDevice& device, bool is_quick, std::vector<Row>& rows) {
  const int64_t size = is_quick ? 64 : 1024;
  const Tensor a = zeros({size, size}).contiguous().realize();
  const Tensor b = ones({size, size}).contiguous().realize();
  const auto build = [&] { return a.matmul(b); };
  // Not the first kernel of the process: tables that are filled once are no part of a kernel.
  lower(device, [&] { return (a + b).relu(); });
  std::vector<double> schedule;
  std::vector<double> lowering;
  std::vector<double> render;
  std::vector<double> total;
  KernelSource source;
  for (int i = 0; i < (is_quick ? 3 : kRepeats); ++i) {
    LowerTimes times = lower(device, build);
    schedule.push_back(static_cast<double>(times.schedule_ns));
    lowering.push_back(static_cast<double>(times.lower_ns));
    render.push_back(static_cast<double>(times.render_ns));
    total.push_back(static_cast<double>(times.total_ns));
    source = std::move(times.source);
  }
  std::vector<double> compile;
  for (int i = 0; i < (is_quick ? 1 : 5); ++i) {
    const int64_t start_ns = now_ns();
    device.compiler().compile({&source, 1});
    compile.push_back(static_cast<double>(now_ns() - start_ns));
  }
  const std::string name = concat("matmul_", size);
  Row nodes = time_row(name + "_nest_nodes", "nodes", 1, {count_nest_nodes(device, build())}, 200);
  rows.push_back(nodes);
  rows.push_back(time_row(name + "_graph_to_source", "ms", 1e-6, total, 5));
  rows.push_back(time_row(name + "_schedule", "ms", 1e-6, schedule));
  rows.push_back(time_row(name + "_lower", "ms", 1e-6, lowering));
  rows.push_back(time_row(name + "_render", "ms", 1e-6, render));
  rows.push_back(time_row(concat(name, "_compile_", device.renderer().name), "ms", 1e-6, compile));
}

/// A chain of `length` ops that nothing can fold, from one buffer.
Tensor chain(const Tensor& x, int64_t length) {
  Tensor y = x;
  for (int64_t i = 0; i < length; i += 3)
    y = (y * x + x).maximum(x);  // three ops
  return y;
}

void add_chain_rows(const EngineDevice& device, const CompileBenchOptions& options,
                    std::vector<Row>& rows) {
  const Tensor x = arange(64, {.dtype = DType::kF32}).contiguous().realize();
  double last_s = 0;
  for (const int64_t length : options.is_quick ? std::vector<int64_t>{100, 1000}
                                               : std::vector<int64_t>{1000, 10'000, 100'000}) {
    const std::string name = concat("chain_", length);
    if (last_s * 10 > options.budget_s * 20) {
      Row row{.name = name, .group = "compile", .unit = "us/op", .is_lower_better = true};
      row.note = concat("skipped: the last one took ", last_s, " s");
      rows.push_back(row);
      continue;
    }
    std::vector<double> times;
    int64_t num_kernels = 0;
    for (int i = 0; i < (length < 100'000 && !options.is_quick ? 3 : 1); ++i) {
      const LowerTimes lowered = lower(device, [&] { return chain(x, length); });
      times.push_back(static_cast<double>(lowered.total_ns));
      num_kernels = lowered.num_kernels;
    }
    Row row = time_row(name, "us/op", 1e-3 / static_cast<double>(length), times);
    row.kernels = num_kernels;
    last_s = row.tenon->best * 1e-6 * static_cast<double>(length);
    rows.push_back(row);
  }
}

}  // namespace

std::vector<Row> compile_rows(Device& device, const CompileBenchOptions& options) {
  const ScopedSetting verify(Setting::kVerifyIr, "0");
  std::vector<Row> rows;
  add_matmul_rows(engine_device(device), options.is_quick, rows);
  add_chain_rows(engine_device(device), options, rows);
  for (const bool is_warm : {true, false}) {
    const int repeats = options.is_quick ? 2 : is_warm ? kRepeats : 5;
    const StartUps starts = time_start_ups(device.name(), is_warm, repeats);
    Row row = time_row(is_warm ? "start_up_warm" : "start_up_cold", "ms", 1e-6, starts.times_ns,
                       is_warm ? 15 : 150);
    row.kernels = starts.kernels;
    rows.push_back(row);
  }
  for (Row& row : rows)
    row.goal = options.is_quick ? 0 : row.goal;  // goals are those of the full sizes
  return rows;
}

std::vector<Row> launch_rows(bool is_quick) {
  const Tensor x = {1, 2, 3};
  const int64_t runs = is_quick ? 20 : 2000;
  std::vector<double> times;
  Tensor y;
  const int64_t kernels_before = total_stats().kernels;
  int64_t num_runs = 0;
  const auto run = [&] {
    y = Tensor();  // the value would be found again
    y = x + 1;
    y.realize();
    ++num_runs;
  };
  run();
  for (int window = 0; window < (is_quick ? 3 : 21); ++window) {
    const int64_t start_ns = now_ns();
    for (int64_t i = 0; i < runs; ++i)
      run();
    times.push_back(static_cast<double>(now_ns() - start_ns) / static_cast<double>(runs));
  }
  const int64_t kernels = total_stats().kernels - kernels_before;
  Row row = time_row("launch_steady", "us", 1e-3, times, 10);
  row.group = "launch";
  row.kernels = kernels / num_runs;
  const std::vector<int32_t> result = y.to_vector<int32_t>();
  if (kernels != num_runs || result != std::vector<int32_t>{2, 3, 4}) {
    row.has_failed = true;
    row.note = concat(kernels, " kernels in ", num_runs, " runs; the result is ", result);
  }
  return {row};
}

int first_result() {
  const Tensor x = {1, 2, 3};
  const std::vector<int32_t> result = (x + 1).to_vector<int32_t>();
  print_first_result(total_stats().kernels, result);
  return 0;
}

}  // namespace tenon::bench
