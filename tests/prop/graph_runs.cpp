// SPDX-License-Identifier: MIT

#include "tests/prop/graph_runs.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/conform/graph_shrink.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/ir/graph_text.h"
#include "tests/prop/graph_case.h"
#include "tests/support/graph_coverage.h"
#include "tests/support/random_graph.h"

namespace tenon::prop {
namespace {

constexpr int64_t kMaxReports = 5;

bool is_failed(const Verdict& verdict) {
  return verdict.kind == Verdict::Kind::kFailed;
}

void print(std::string_view text) {
  std::cout << text << std::flush;
}

// The failing graph made small, and what is wrong with it.
void report(const DevicePair& devices, const TensorGraph& graph, uint64_t seed,
            const Verdict& verdict, const RunOptions& options) {
  print(concat("FAILED seed ", seed, " on ", devices.first.name(), "\n  ", verdict.text,
               "\n  repeat: tenon_prop --seed ", seed, "\n"));
  const TensorGraph small =
      shrink_graph(graph,
                   [&](const TensorGraph& candidate) {
                     return is_failed(check_graph(devices, candidate, seed));
                   },
                   {.max_trials = static_cast<int>(options.max_shrink_trials), .suffix = "_int7"});
  const Verdict last = check_graph(devices, small, seed);
  print(concat("  made small (inputs of seed ", seed, "):\n", to_text(small), "  ", last.text,
               "\n  wrong first: ", blame(devices, small, seed), "\n"));
}

// Compiles all cases at once; if that fails, the ones that fail alone are failures.
std::map<const GraphCase*, Verdict> compile_batch(const DevicePair& devices,
                                                  std::span<GraphCase* const> cases) {
  std::map<const GraphCase*, Verdict> failures;
  const auto compile = [&](std::span<GraphCase* const> some) {
    return guarded([&] {
      compile_cases(devices, some);
      return Verdict();
    });
  };
  if (compile(cases).kind == Verdict::Kind::kPassed) return failures;
  for (GraphCase* const& one : cases) {
    Verdict verdict = compile({&one, 1});
    if (verdict.kind != Verdict::Kind::kPassed) failures.emplace(one, std::move(verdict));
  }
  return failures;
}

std::vector<Verdict> judge_batch(const DevicePair& devices, std::span<GraphCase* const> cases) {
  const auto failures = compile_batch(devices, cases);
  std::vector<Verdict> verdicts;
  for (GraphCase* const one : cases) {
    const auto failure = failures.find(one);
    verdicts.push_back(failure != failures.end() ? failure->second : guarded([&] {
      return judge_case(devices, *one);
    }));
  }
  return verdicts;
}

// Counts of one property run.
class Tally {
 public:
  void add(const TensorGraph& graph, int64_t num_crossings, const Verdict& verdict) {
    ++graphs_;
    crossings_ += num_crossings;
    crossing_graphs_ += num_crossings > 0 ? 1 : 0;
    if (verdict.kind == Verdict::Kind::kRejected) {
      ++rejected_;
      ++reasons_[verdict.text.substr(0, verdict.text.find('\n'))];
      return;
    }
    coverage_.add(graph);
    elements_ += verdict.elements;
    excluded_ += verdict.excluded;
    telling_ += verdict.is_telling ? 1 : 0;
    failed_ += is_failed(verdict) ? 1 : 0;
  }

  int64_t failed() const { return failed_; }

  void print_all() const {
    print(to_text(coverage_));
    print(concat("rejected ", rejected_, ", telling ", telling_, " of ", graphs_, ", elements ",
                 elements_, ", excluded ", excluded_, ", failed ", failed_, "\n"));
    for (const auto& [reason, count] : reasons_)
      print(concat("  rejected ", count, " times: ", reason, "\n"));
    print(concat("copies between devices ", crossings_, " in ", crossing_graphs_, " graphs\n"));
  }

  // What the graphs must cover; few of them show only that every op occurs.
  bool check_promises() const {
    bool is_good = true;
    const auto expect = [&](bool holds, std::string_view promise) {
      if (!holds) print(concat("BROKEN PROMISE: ", promise, "\n"));
      is_good = is_good && holds;
    };
    const int64_t accepted = coverage_.num_graphs();
    expect(coverage_.median_nodes() >= 8, "median of 8 nodes");
    expect(coverage_.num_broadcast_back * 10 >= accepted * 3,
           "30 % with a reduction broadcast back");
    expect(coverage_.num_triple_movement * 10 >= accepted * 3,
           "30 % with three movement ops in a row");
    expect(rejected_ * 20 < graphs_, "fewer than 5 % rejected");
    expect(telling_ * 10 >= graphs_ * 8, "80 % with a telling output");
    expect(excluded_ * 100 <= elements_, "at most 1 % of the elements excluded");
    for (const int64_t dim : {0, 1, 3, 7, 31, 33, 1000}) {
      const auto found = coverage_.graphs_with_dim.find(dim);
      expect(found != coverage_.graphs_with_dim.end(), concat("size ", dim, " is hit"));
    }
    const int64_t wanted = graphs_ >= 2000 ? 50 : 1;
    for (const OpInfo& info : all_ops()) {
      if (!has_level(info.op, kTensorLevel) || info.op == Op::kVariable) continue;
      const auto found = coverage_.nodes_of_op.find(info.op);
      const int64_t count = found == coverage_.nodes_of_op.end() ? 0 : found->second;
      expect(count >= wanted, concat(info.name, " occurs ", wanted, " times"));
    }
    return is_good;
  }

 private:
  testing::GraphCoverage coverage_;
  std::map<std::string, int64_t> reasons_;
  int64_t graphs_ = 0;
  int64_t crossings_ = 0;
  int64_t crossing_graphs_ = 0;
  int64_t rejected_ = 0;
  int64_t telling_ = 0;
  int64_t elements_ = 0;
  int64_t excluded_ = 0;
  int64_t failed_ = 0;
};

// Random graphs have no variables as long as this holds.
bool are_variables_refused(const DevicePair& devices) {
  TensorGraph graph{.name = "variable"};
  graph.inputs = {tensor_buffer(DType::kI64, Shape{})};
  graph.input_names = {"x_any"};
  graph.outputs = {tensor_binary(Op::kAdd, graph.inputs[0], tensor_variable(0, -5, 9))};
  graph.output_names = {"y"};
  const Verdict verdict = check_graph(devices, graph, 0);
  print(concat("a variable: ", verdict.text, "\n"));
  return verdict.kind == Verdict::Kind::kRejected;
}

}  // namespace

TensorGraph graph_of_seed(uint64_t seed) {
  testing::RandomGraphOptions options;
  options.integer_valued = seed % 2 == 0;
  options.has_variables = false;
  if (seed % 20 == 7 || seed % 20 == 12) {  // enough work for several groups in two dimensions
    options.max_elements = 200'000;
    options.max_total = 1'500'000;
  }
  return testing::random_graph(seed, options);
}

bool run_property(const DevicePair& devices, const RunOptions& options) {
  const ScopedMemoryChecks checks;
  const int64_t start_ns = now_ns();
  Tally tally;
  for (int64_t done = 0; done < options.count; done += options.batch) {
    std::vector<std::unique_ptr<GraphCase>> cases;
    std::vector<GraphCase*> lowered;
    const int64_t end = std::min(options.count, done + options.batch);
    const auto settle = [&](const GraphCase& one, const Verdict& verdict) {
      tally.add(one.graph, one.num_crossings, verdict);
      if (is_failed(verdict) && tally.failed() <= kMaxReports) {
        report(devices, one.graph, one.seed, verdict, options);
      }
    };
    for (int64_t i = done; i < end; ++i) {
      const uint64_t seed = options.first_seed + static_cast<uint64_t>(i);
      auto one = std::make_unique<GraphCase>(make_case(devices, graph_of_seed(seed), seed));
      const Verdict verdict = guarded([&] {
        lower_case(devices, *one, true);
        return Verdict();
      });
      if (verdict.kind == Verdict::Kind::kPassed) {
        lowered.push_back(one.get());
        cases.push_back(std::move(one));
      } else {
        settle(*one, verdict);
      }
    }
    const std::vector<Verdict> verdicts = judge_batch(devices, lowered);
    for (size_t i = 0; i < lowered.size(); ++i)
      settle(*lowered[i], verdicts[i]);
  }
  print(concat("device ", devices.first.name(), ", copies to ", devices.second.name(),
               ", seeds from ", options.first_seed, "\n"));
  tally.print_all();
  print(concat("seconds ", (now_ns() - start_ns) / 1'000'000'000, "\n"));
  const bool is_covered = tally.check_promises();
  return are_variables_refused(devices) && is_covered && tally.failed() == 0;
}

bool run_graph(const DevicePair& devices, const TensorGraph& graph, uint64_t seed,
               const RunOptions& options) {
  const ScopedMemoryChecks checks;
  const Verdict verdict = check_graph(devices, graph, seed);
  if (is_failed(verdict)) {
    print(to_text(graph));
    report(devices, graph, seed, verdict, options);
    return false;
  }
  const bool is_rejected = verdict.kind == Verdict::Kind::kRejected;
  print(concat(graph.name, ": ", is_rejected ? "rejected: " : "right", verdict.text, "\n"));
  return !is_rejected;
}

bool hunt_fault(const DevicePair& devices, PlantedFault fault, const RunOptions& options) {
  // Found without the verifier: by values, a crash or an assertion, which the report tells apart.
  // Nothing wrong may stay on the disk.
  const ScopedSetting verify(Setting::kVerifyIr, "0");
  const ScopedSetting cache(Setting::kCache, "0");
  const ScopedMemoryChecks checks;
  int64_t num_changed = 0;
  std::vector<std::unique_ptr<GraphCase>> pending;
  std::vector<int64_t> numbers;
  size_t batch = 4;
  const auto found = [&](int64_t number, const Verdict& verdict) {
    print(concat("found by ", verdict.is_wrong_value ? "a wrong value" : "an error", " at graph ",
                 number + 1, " (seed ", options.first_seed + static_cast<uint64_t>(number),
                 ", changed ", num_changed, "): ", verdict.text.substr(0, 160), "\n"));
    return true;
  };
  for (int64_t i = 0; i < options.count || !pending.empty(); ++i) {
    if (i < options.count) {
      const uint64_t seed = options.first_seed + static_cast<uint64_t>(i);
      auto one = std::make_unique<GraphCase>(make_case(devices, graph_of_seed(seed), seed));
      const auto lower = [&] {
        return guarded([&] {
          lower_case(devices, *one, false);
          return Verdict();
        });
      };
      if (lower().kind != Verdict::Kind::kPassed) continue;
      const std::string right = one->lowered;
      const ScopedPlantedFault planted(fault);
      const Verdict verdict = lower();
      if (verdict.kind == Verdict::Kind::kRejected) continue;
      if (one->lowered == right && !is_failed(verdict)) continue;
      ++num_changed;
      if (is_failed(verdict)) return found(i, verdict);
      pending.push_back(std::move(one));
      numbers.push_back(i);
    }
    if (pending.size() < batch && i + 1 < options.count) continue;
    const ScopedPlantedFault planted(fault);
    std::vector<GraphCase*> cases;
    for (const auto& one : pending)
      cases.push_back(one.get());
    print(concat("compiling ", cases.size(), " changed graphs up to graph ",
                 std::min(i + 1, options.count), "\n"));
    const auto failures = compile_batch(devices, cases);
    for (size_t k = 0; k < cases.size(); ++k) {
      print(concat("running graph ", numbers[k] + 1, "\n"));
      const auto failure = failures.find(cases[k]);
      const Verdict verdict = failure != failures.end()
                                  ? failure->second
                                  : guarded([&] { return judge_case(devices, *cases[k]); });
      if (is_failed(verdict)) return found(numbers[k], verdict);
    }
    pending.clear();
    numbers.clear();
    batch = std::min<size_t>(batch * 2, 32);
  }
  print(concat("survived ", options.count, " graphs; it changed the programs of ", num_changed,
               "\n"));
  return false;
}

void dump_texts(const DevicePair& devices, const std::string& path, const RunOptions& options) {
  std::string text;
  for (int64_t i = 0; i < options.count; ++i) {
    const uint64_t seed = options.first_seed + static_cast<uint64_t>(i);
    GraphCase one = make_case(devices, graph_of_seed(seed), seed);
    const Verdict verdict = guarded([&] {
      lower_case(devices, one, false);
      return Verdict();
    });
    append(text, "# seed ", seed, "\n", to_text(one.graph), one.lowered, verdict.text, "\n");
  }
  write_file_atomic(path, text);
}

}  // namespace tenon::prop
