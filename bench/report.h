// The rows of `tenon bench` as a table and as JSON. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/statistics.h"

namespace tenon::bench {

/// Who reached what, in the row's unit.
struct Figure {
  std::string name;  ///< "tenon", "openblas", "f32 FMA AVX2"
  double best = 0;
  double median = 0;
  /// Why it must not be compared with (a peer that does not work as it should here); empty: it may.
  std::string invalid;
};

struct Row {
  std::string name;
  std::string group;
  std::string unit;
  /// A time or a count; then there are no peers and no limit, but in rows of plan_bench.h.
  bool is_lower_better = false;
  std::optional<Figure> tenon;
  std::vector<Figure> peers;
  std::optional<Figure> limit;
  std::optional<double> ratio;  ///< to the best valid peer, or to the limit
  double goal = 0;              ///< of the ratio; if lower is better, of the median; 0: none
  double mean_goal = 0;         ///< of the geometric mean of the group's ratios; 0: none
  int windows = 0;
  int64_t kernels = 0;  ///< launches of one run
  std::string note;     ///< why there is no figure or no peer, or what went wrong
  bool has_failed = false;
};

/// The figure of a rate: best and median change places with those of the times.
Figure rate_figure(std::string name, double work, const Summary& times_s);

/// Fills `ratio`: Tenon's best to the best of the valid peers, or to the limit.
void set_ratio(Row& row, bool is_against_limit);

/// Whether the goal is reached; nothing where there is none or no figure for it.
std::optional<bool> is_goal_met(const Row& row);

/// The table; below it each group's geometric mean and worst ratio, and the goals that are missed.
std::string table_text(const std::vector<Row>& rows);

/// A list of objects: name, group, unit, tenon, tenon_median, peers (name to best), limit,
/// limit_name, ratio, goal, windows, kernels, note, failed. Absent figures are null.
std::string json_text(const std::vector<Row>& rows);

}  // namespace tenon::bench
