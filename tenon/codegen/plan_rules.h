// What the parts of one entry of a Plan must be like, whatever they are placed in, and how a Plan
// is refused. Called by placement.cpp. SPDX-License-Identifier: MIT

#pragma once

#include <span>
#include <string>
#include <vector>

#include "tenon/base/text.h"
#include "tenon/codegen/plan.h"

namespace tenon {

/// Thrown and caught inside of place_comps: why there is no placement.
struct PlanRefusal {
  std::string reason;
};

template <class... Parts>
[[noreturn]] void refuse_plan(const Parts&... parts) {
  throw PlanRefusal{concat(parts...)};
}

/// The distinct loads of `buffer` in the value and the guards.
std::vector<Node> loads_of(const Comp& comp, int buffer);

bool uses_axis(const Node& expr, const Node& axis);
/// Whether each dim of the index that moves with the axis moves with no other of the comp: beyond
/// the axis it is beyond all that the comp reads there.
bool moves_alone(const Comp& comp, std::span<const Node> index, size_t axis);

/// Every entry names a comp of the kernel, once, at a place of an earlier one. By comp: its entry,
/// or -1. Throws PlanRefusal.
std::vector<int> check_entries(const Kernel& kernel, const Plan& plan);

/// Known axes, roles in their order, tails where they have a meaning. Throws PlanRefusal.
void check_parts(const Kernel& kernel, const CompPlan& entry, std::span<const int64_t> lanes);

}  // namespace tenon
