// What a Plan costs, from the kernel's walks over memory and the Target's facts alone: no IR is
// built. Called by choose_plans for every candidate. docs/plans.md has the rules.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/codegen/axis_moves.h"
#include "tenon/codegen/plan.h"
#include "tenon/codegen/walk.h"

namespace tenon {

struct PlanCost {
  /// Bytes that come into each cache of the Target from what lies behind it, all threads together.
  std::vector<int64_t> traffic;
  int64_t copied_bytes = 0;  ///< into stages
  double flops = 0;          ///< operations on elements that the kernel asks for
  double vector_ops = 0;     ///< instructions that the plan takes, in multiply-adds of a vector
  int64_t groups = 1;
  double compute_s = 0;  ///< of one thread's share, as is memory_s
  double memory_s = 0;   ///< the slowest level's, without copies
  double copy_s = 0;     ///< moving into stages, while nothing is computed
  std::string slowest_level = "";
  double seconds = 0;
};

class CostModel {
 public:
  /// All three must outlive the model.
  CostModel(const Kernel& kernel, const std::vector<Walk>& walks, const Target& target);

  PlanCost estimate(const Plan& plan) const;

 private:
  const Kernel& kernel_;
  const std::vector<Walk>& walks_;
  const Target& target_;
  AxisMoves moves_;
};

/// "L1 12.3 MB, L2 4.0 MB, L3 0 B, 268 Mflop, 1.15 ms": what explain prints.
std::string to_text(const PlanCost& cost);
/// Why it takes that long, in words, most weighty first.
std::vector<std::string> reasons_of(const PlanCost& cost, const Target& target);

}  // namespace tenon
