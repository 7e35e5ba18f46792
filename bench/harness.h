// How a row is measured: inputs written first, outputs fresh, everyone's result checked, windows of
// Tenon, the peers and the limit in turn (A B C A B C), so that all see the same phases of a shared
// machine. SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/peer.h"
#include "bench/report.h"
#include "bench/workload.h"

namespace tenon::bench {

struct HarnessOptions {
  int num_threads = 1;
  int windows = 21;
  double window_s = 2e-3;  ///< a window has as many runs as fit, at least one
  /// After a call into a library, whose threads still spin (OpenBLAS and libgomp: some ms).
  int64_t pause_ms = 60;
  /// Runs before each window: some ticks of the scheduler, 4 ms each, at which it spreads threads
  /// that woke on one core.
  int64_t warm_ms = 20;
  double budget_s = 1;  ///< rows whose single run takes longer are left out
  bool has_goals = true;
};

class Harness {
 public:
  /// `peers` outlive the harness.
  Harness(HarnessOptions options, std::vector<Peer*> peers);

  /// OpenBLAS on this machine may be one that was built or set up wrong: each peer that multiplies
  /// f32 matrices must reach 60 % of the machine's peak, in one of a few tries. Prints
  /// nothing: returns lines for people. Peers that fail count as invalid in later rows.
  std::string check_peers(int64_t size, double least_share = 0.6);

  /// The machine's limits themselves, over `size_bytes` of memory: rows of the group "limits" whose
  /// only figure is the limit.
  std::vector<Row> measure_limits(int64_t size_bytes) const;

  /// Tenon alone: a window, with what goes before it, whenever `has_next` says so; `tell` gets its
  /// seconds of one run. Returns what is wrong with the result in the end, if anything.
  std::optional<std::string> serve(const Workload& workload, const std::function<bool()>& has_next,
                                   const std::function<void(double)>& tell) const;

  /// One row. Errors of Tenon's and wrong results make it a failed one.
  Row measure(const Workload& workload);

 private:
  struct Contestant;
  Row measure_case(const Workload& workload, const Case& inputs, Row row);
  void add_variants(const Workload& workload, const Case& inputs,
                    std::vector<Contestant>& contestants) const;
  void add_peers(const Workload& workload, const Case& inputs, Row& row,
                 std::vector<Contestant>& contestants) const;
  void add_probes(const Workload& workload, std::vector<Contestant>& contestants) const;
  void take_turns(std::vector<Contestant>& contestants) const;
  std::string why_too_long(const Workload& workload) const;

  const HarnessOptions options_;
  const std::vector<Peer*> peers_;
  std::map<std::string, std::string> invalid_peers_;  // name to reason
  std::map<std::string, double> seconds_per_work_;    // of each group, the slowest yet
};

/// Milliseconds of sleep.
void pause_ms(int64_t time_ms);

}  // namespace tenon::bench
