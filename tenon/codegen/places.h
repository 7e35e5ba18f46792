// What stands where while a Plan is worked out: what placement.cpp, which places comps, and
// place_tmps.cpp, which gives tmps memory, ask again and again. SPDX-License-Identifier: MIT

#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tenon/codegen/placement.h"

namespace tenon {

struct PlacingState {
  const Kernel& kernel;
  const Plan& plan;
  Placement result{};
  std::vector<int> entry_of{};  ///< by comp: its entry of the plan
  /// Of tmps that stand before a reader: what is read of them there, by dim.
  std::unordered_map<int, std::vector<AxisRange>> boxes{};
};

class Places {
 protected:
  explicit Places(PlacingState& state)
      : kernel_(state.kernel),
        plan_(state.plan),
        result_(state.result),
        entry_of_(state.entry_of),
        boxes_(state.boxes) {}

  const Comp& comp_of(int number) const {
    return std::get<Comp>(kernel_.body[static_cast<size_t>(number)].node);
  }

  PlacedComp& placed(int number) {
    return result_.comps[static_cast<size_t>(entry_of_[static_cast<size_t>(number)])];
  }

  // Named by the plan so far, and placed.
  bool has_place(int number) {
    const int entry = entry_of_[static_cast<size_t>(number)];
    return entry >= 0 && result_.comps[static_cast<size_t>(entry)].plan != nullptr;
  }

  /// Axes of the loops that stand around the place.
  std::unordered_set<const void*> loops_around(LoopPlace place);
  bool is_inside(int number, LoopPlace place);
  /// All that the comp's place fixes lies inside its axes.
  static bool starts_inside(const PlacedComp& comp);
  /// What the comp writes inside its first `depth` loops, by dim of its buffer.
  std::vector<AxisRange> own_box(const PlacedComp& comp, int depth);

  const Kernel& kernel_;
  const Plan& plan_;
  Placement& result_;
  std::vector<int>& entry_of_;
  std::unordered_map<int, std::vector<AxisRange>>& boxes_;
};

/// Where each tmp, accumulator and stage lies, and its buffer in the nest. Before: all comps have
/// their place. Throws PlanRefusal.
void place_tmps(PlacingState& state);

}  // namespace tenon
