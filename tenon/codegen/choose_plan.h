// Which Plan a kernel gets. Pass 2 of docs/ir.md. SPDX-License-Identifier: MIT

#pragma once

#include <string_view>
#include <vector>

#include "tenon/codegen/cost.h"
#include "tenon/codegen/plan.h"

namespace tenon {

struct PlanChoice {
  Plan plan;
  std::string_view family;  ///< "tile", ...
  PlanCost cost;
};

/// The cheapest plans that fit, at most `count` and at least one, cheapest first; equal ones in the
/// order of their generation. Before: the root has no reduce axes (see split_root).
std::vector<PlanChoice> choose_plans(const Kernel& kernel, const Target& target, size_t count);

/// The first of them.
Plan choose_plan(const Kernel& kernel, const Target& target);

/// What a plan that was given costs.
PlanCost cost_of(const Kernel& kernel, const Plan& plan, const Target& target);

/// Scalars, loops in order: the outer axes of the root are dealt over groups, every reduction is
/// computed in a register where its value is used. What TENON_PLAN=simple takes.
Plan simple_plan(const Kernel& kernel, const Target& target);

/// By comp and axis: the index, a function of the root's axes (the last comp's), at which all
/// readers of the comp's tmp read there; null if there is none.
std::vector<std::vector<Node>> row_indices(const Kernel& kernel);

/// By axis of the root: every tmp is read at it, in all readers, so that what is
/// computed inside its loop is one row of each tmp, and nothing is computed twice.
std::vector<bool> row_axes(const Kernel& kernel);

}  // namespace tenon
