// SPDX-License-Identifier: MIT

#include "bench/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/memory_checks.h"

namespace tenon::bench {
namespace {

// Runs that are longer need no other before them to be steady.
constexpr double kLongRunS = 0.05;
constexpr int64_t kTenonPauseMs = 3;  // its threads spin for a while after a launch

double seconds(int64_t time_ns) {
  return static_cast<double>(time_ns) * 1e-9;
}

/// Builds and computes; `result` keeps the value. Returns nanoseconds.
int64_t run_once(const Case& inputs, Tensor& result) {
  result = Tensor();  // equal graphs are one node, and this one has its value already
  const int64_t start_ns = now_ns();
  result = inputs.build();
  result.realize();
  synchronize(result.device());
  return now_ns() - start_ns;
}

/// Of one more run, whose outputs are poisoned before.
std::optional<std::string> why_wrong_on_poison(const Case& inputs, Tensor& result) {
  const ScopedMemoryChecks checks({.poison_outputs = true});
  run_once(inputs, result);
  return inputs.why_wrong(result.to_bytes().data());
}

std::optional<Setting> find_setting(std::string_view variable) {
  for (const SettingInfo& info : settings_table())
    if (info.variable == variable) return info.setting;
  return std::nullopt;
}

void add_note(Row& row, const std::string& note) {
  append(row.note, row.note.empty() ? "" : "; ", note);
}

// Runs shorter than this say little about how time grows with work.
constexpr double kOverheadS = 0.01;

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

/// Runs at least once and at least for so long; the seconds of the fastest run.
double least_seconds(const std::function<int64_t()>& run, int64_t time_ns) {
  int64_t total_ns = 0;
  int64_t least_ns = INT64_MAX;
  do {
    const int64_t run_ns = run();
    total_ns += run_ns;
    least_ns = std::min(least_ns, run_ns);
  } while (total_ns < time_ns);
  return seconds(least_ns);
}

}  // namespace

/// One of those who take turns.
struct Harness::Contestant {
  std::string name;
  std::function<int64_t()> run;  ///< one run; returns nanoseconds
  double work = 0;
  /// What is wrong with what a run leaves in a poisoned output; probes: none.
  std::function<std::optional<std::string>()> why_wrong = {};
  int64_t pause_after_ms = 0;
  int64_t warm_ns = 0;
  int64_t runs_per_window = 1;
  bool is_long = false;
  std::vector<double> times_s = {};  ///< of one run, per window

  void find_runs(const HarnessOptions& options) {
    warm_ns = options.warm_ms * 1'000'000;
    const double one_run_s = least_seconds(run, warm_ns);
    is_long = one_run_s > kLongRunS;
    runs_per_window =
        std::max<int64_t>(1, std::llround(options.window_s / std::max(one_run_s, 1e-9)));
  }
  void run_window() {
    if (!is_long) least_seconds(run, warm_ns);  // wakes the threads, fills the caches
    int64_t total_ns = 0;
    for (int64_t i = 0; i < runs_per_window; ++i)
      total_ns += run();
    times_s.push_back(seconds(total_ns) / static_cast<double>(runs_per_window));
  }
};

void pause_ms(int64_t time_ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(time_ms));
}

Harness::Harness(HarnessOptions options, std::vector<Peer*> peers)
    : options_(options), peers_(std::move(peers)) {}

std::string Harness::check_peers(int64_t size, double least_share) {
  constexpr int kTries = 12;  // on a busy machine about 8 s until a peer is given up
  constexpr int kWindows = 8;
  const HostArray a(DType::kF32, {size, size}, Fill::kUniform, 1);
  const HostArray b(DType::kF32, {size, size}, Fill::kUniform, 2);
  HostArray out(DType::kF32, {size, size}, Fill::kPoison);
  const Probe peak = make_probes(LimitKind::kFmaF32, options_.num_threads, 0).at(0);
  const Job job{.kind = JobKind::kMatmul,
                .a = a.data(),
                .b = b.data(),
                .out = out.data(),
                .m = size,
                .n = size,
                .k = size};
  const double work = 2 * std::pow(static_cast<double>(size), 3);
  std::string text;
  for (Peer* peer : peers_) {
    const std::function<void()> run = peer->prepare(job);
    append(text, "peer:      ", peer->name(), ": ", peer->description());
    const auto time_run = [&] {
      const int64_t start_ns = now_ns();
      run();
      return now_ns() - start_ns;
    };
    double share = 0;
    double peak_s = 1e9;  // the best that was ever seen
    for (int attempt = 0; run && share < least_share && attempt < kTries; ++attempt) {
      double peer_s = 1e9;
      for (int window = 0; window < kWindows; ++window) {
        peer_s = std::min(peer_s, least_seconds(time_run, options_.warm_ms * 1'000'000));
        pause_ms(options_.pause_ms);
        peak_s = std::min(peak_s, seconds(peak.run()));
      }
      share = std::max(share, work / peer_s / (peak.work / peak_s));
    }
    if (run && least_share > 0) {
      append(text, fmt::format("; {:.0f} % of the FMA peak at {}^3", 100 * share, size));
      if (share < least_share) {
        invalid_peers_[peer->name()] = fmt::format("reaches {:.0f} % of the FMA peak, not {:.0f} %",
                                                   100 * share, 100 * least_share);
        append(text, ", below ", fmt::format("{:.0f}", 100 * least_share),
               " %: shown with '!', not compared with");
      }
    }
    append(text, "\n");
  }
  return text;
}

std::string Harness::why_too_long(const Workload& workload) const {
  const auto rate = seconds_per_work_.find(workload.group);
  if (rate == seconds_per_work_.end()) return {};
  const double expected_s = rate->second * workload.work;
  if (expected_s <= options_.budget_s) return {};
  return fmt::format("skipped: a run would take about {:.1f} s, budget {:g} s", expected_s,
                     options_.budget_s);
}

std::vector<Row> Harness::measure_limits(int64_t size_bytes) const {
  std::vector<Contestant> contestants;
  std::vector<const char*> units;
  for (const LimitKind kind : {LimitKind::kFmaF32, LimitKind::kDotBf16, LimitKind::kDotI8,
                               LimitKind::kRead, LimitKind::kCopy}) {
    Workload none;
    none.limit = kind;
    none.limit_bytes = size_bytes;
    add_probes(none, contestants);
    const bool is_memory = kind == LimitKind::kRead || kind == LimitKind::kCopy;
    units.resize(contestants.size(), is_memory ? "GB/s" : "GOP/s");
  }
  take_turns(contestants);
  std::vector<Row> rows;
  for (size_t i = 0; i < contestants.size(); ++i) {
    const Contestant& probe = contestants[i];
    Row row{.name = concat("limit: ", probe.name), .group = "limits", .unit = units[i]};
    row.limit = rate_figure(probe.name, probe.work, summarize(probe.times_s));
    row.windows = options_.windows;
    rows.push_back(row);
  }
  return rows;
}

std::optional<std::string> Harness::serve(const Workload& workload,
                                          const std::function<bool()>& has_next,
                                          const std::function<void(double)>& tell) const {
  const Case inputs = workload.prepare();
  Tensor result;
  Contestant tenon{.name = "tenon", .run = [&] { return run_once(inputs, result); }};
  tenon.run();
  tenon.find_runs(options_);
  while (has_next()) {
    tenon.run_window();
    tell(tenon.times_s.back());
  }
  return why_wrong_on_poison(inputs, result);
}

Row Harness::measure(const Workload& workload) {
  Row row{.name = workload.name, .group = workload.group, .unit = workload.unit};
  row.goal = options_.has_goals ? workload.goal : 0;
  row.mean_goal = options_.has_goals ? workload.mean_goal : 0;
  row.note = why_too_long(workload);
  if (!row.note.empty()) return row;
  try {
    return measure_case(workload, workload.prepare(), row);
  } catch (const Error& error) {
    row.has_failed = error.code() != ErrorCode::kNotFound;  // data that is not there is no failure
    row.note = first_line(error.what());
    return row;
  }
}

Row Harness::measure_case(const Workload& workload, const Case& inputs, Row row) {
  Tensor result;
  const auto run_tenon = [&] { return run_once(inputs, result); };
  run_tenon();  // lowers, compiles, takes memory
  const int64_t kernels_before = total_stats().kernels;
  double run_s = seconds(run_tenon());
  row.kernels = total_stats().kernels - kernels_before;
  TENON_CHECK(row.kernels > 0, ErrorCode::kInternal, "bench: a run launched no kernel");
  if (run_s > kOverheadS) {
    double& group_rate = seconds_per_work_[workload.group];
    group_rate = std::max(group_rate, run_s / workload.work);
  }
  if (run_s > options_.budget_s) {
    row.note =
        fmt::format("skipped: a run takes {:.2f} s, budget {:g} s", run_s, options_.budget_s);
    return row;
  }

  std::vector<Contestant> contestants;
  contestants.push_back({.name = "tenon",
                         .run = run_tenon,
                         .work = workload.work,
                         .why_wrong = [&] { return why_wrong_on_poison(inputs, result); },
                         .pause_after_ms = kTenonPauseMs});
  contestants[0].find_runs(options_);
  add_variants(workload, inputs, contestants);
  add_peers(workload, inputs, row, contestants);
  add_probes(workload, contestants);
  take_turns(contestants);

  row.windows = options_.windows;
  for (const Contestant& side : contestants) {
    Figure figure = rate_figure(side.name, side.work, summarize(side.times_s));
    if (!side.why_wrong) {  // a probe
      if (!row.limit || row.limit->best < figure.best) row.limit = figure;
      continue;
    }
    const auto invalid = invalid_peers_.find(side.name);
    if (invalid != invalid_peers_.end()) figure.invalid = invalid->second;
    if (const std::optional<std::string> why = side.why_wrong()) {
      figure.invalid = "wrong result";
      add_note(row, concat(side.name, " is wrong: ", *why));
    }
    if (&side == &contestants[0]) {
      row.has_failed = !figure.invalid.empty();
      row.tenon = figure;
    } else {
      row.peers.push_back(figure);
    }
  }
  if (!row.has_failed) set_ratio(row, workload.is_against_limit);
  return row;
}

void Harness::add_variants(const Workload& workload, const Case& inputs,
                           std::vector<Contestant>& contestants) const {
  for (const Variant& variant : workload.variants) {
    const std::optional<Setting> setting = find_setting(variant.variable);
    if (!setting) continue;
    const auto result = std::make_shared<Tensor>();
    const auto run = [=, &inputs, value = variant.value] {
      const ScopedSetting scope(*setting, value);
      return run_once(inputs, *result);
    };
    run();
    Contestant contestant{.name = variant.name,
                          .run = run,
                          .work = workload.work,
                          .why_wrong =
                              [=, &inputs, value = variant.value] {
                                const ScopedSetting scope(*setting, value);
                                return why_wrong_on_poison(inputs, *result);
                              },
                          .pause_after_ms = kTenonPauseMs};
    contestant.find_runs(options_);
    contestants.push_back(std::move(contestant));
  }
}

void Harness::add_peers(const Workload& workload, const Case& inputs, Row& row,
                        std::vector<Contestant>& contestants) const {
  for (Peer* peer : peers_) {
    Job job = inputs.job;
    if (job.kind == JobKind::kNone) return;
    const auto out =
        std::make_shared<HostArray>(inputs.out_dtype, Shape{inputs.out_size}, Fill::kPoison);
    job.out = out->data();
    const std::function<void()> call = peer->prepare(job);
    if (!call) continue;
    const auto run = [call] {
      const int64_t start_ns = now_ns();
      call();
      return now_ns() - start_ns;
    };
    run();
    if (const std::optional<std::string> why = inputs.why_wrong(out->data())) {
      add_note(row, concat(peer->name(), " is wrong: ", *why));
      continue;
    }
    Contestant contestant{.name = peer->name(),
                          .run = run,
                          .work = workload.work,
                          .why_wrong =
                              [out, run, &inputs] {
                                out->poison();
                                run();
                                return inputs.why_wrong(out->data());
                              },
                          .pause_after_ms = options_.pause_ms};
    contestant.find_runs(options_);
    pause_ms(options_.pause_ms);
    contestants.push_back(std::move(contestant));
  }
}

void Harness::add_probes(const Workload& workload, std::vector<Contestant>& contestants) const {
  for (Probe& probe : make_probes(workload.limit, options_.num_threads, workload.limit_bytes)) {
    Contestant contestant{.name = probe.name, .run = probe.run, .work = 1e-9 * probe.work};
    contestant.find_runs(options_);
    contestants.push_back(std::move(contestant));
  }
}

void Harness::take_turns(std::vector<Contestant>& contestants) const {
  for (int window = 0; window < options_.windows; ++window) {
    for (Contestant& contestant : contestants) {
      contestant.run_window();
      pause_ms(contestant.pause_after_ms);
    }
  }
}

}  // namespace tenon::bench
