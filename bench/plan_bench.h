// `tenon bench --plans`: is the Plan that the cost model chooses the fastest of those it prices,
// and does each compute what it should? Times are printed, no speed is asserted.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/workload.h"
#include "tenon/engine/engine.h"

namespace tenon::bench {

struct PlanBenchOptions {
  std::vector<std::string> names;  ///< of its kernels; empty: all
  bool is_quick = false;           ///< small sizes
  bool is_list = false;            ///< prints each plan, not only the ratio
  size_t num_plans = 4;            ///< the chosen one and those after it
};

struct PlanCase {
  std::string name;
  std::function<Case()> prepare;
};

/// Kernels of all families; products for a matrix unit where the Target has one.
std::vector<PlanCase> plan_cases(const Target& target, bool is_quick);

/// The chosen Plan of the case's heaviest kernel and the next ones, run in turn. Before they are
/// timed each one's result, on a poisoned output, is compared with the case's own sums. As a row of
/// the group "plans": microseconds; `tenon` is the chosen one, peers are the others by number and
/// family, the limit is the estimate, the ratio is chosen over fastest. A wrong result fails it.
Row plan_row(const PlanCase& plan_case, Device& device, const PlanBenchOptions& options);

/// A row for each kernel that is asked for. Throws kInvalidArgument for a name that none has.
std::vector<Row> plan_rows(Device& device, const PlanBenchOptions& options);

/// As a table; below it the worst ratio.
std::string plan_table(const std::vector<Row>& rows);

}  // namespace tenon::bench
