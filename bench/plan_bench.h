// `tenon bench --plans`: is the Plan that the cost model chooses the fastest of those it prices?
// Times are printed, nothing is asserted. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tenon/engine/engine.h"

namespace tenon::bench {

struct PlanBenchOptions {
  std::vector<std::string> names;  ///< of its kernels; empty: all
  bool is_quick = false;           ///< small sizes
  bool is_list = false;            ///< each plan, not only the ratio
  size_t num_plans = 4;            ///< the chosen one and those after it
};

/// For kernels of all families the time of the chosen Plan and of the next ones, in turn, and a
/// table of chosen / fastest.
void plan_rows(Device& device, const PlanBenchOptions& options);

}  // namespace tenon::bench
