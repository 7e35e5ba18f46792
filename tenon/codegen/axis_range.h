// Boxes of Plans: what an affine index runs through while some loops stand still. All the bounds
// inference that there is (docs/ir.md). SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>

#include "tenon/ir/kernel.h"

namespace tenon {

/// The values base .. base + length - 1 of an axis or a dim, each `step`-th of them.
struct AxisRange {
  Node base;
  int64_t length = 0;
  bool is_bound = false;  ///< a place fixes it; else it is the whole axis
  bool is_exact = true;   ///< never runs beyond the axis
  int64_t step = 1;

  int64_t count() const { return (length - 1) / step + 1; }
};

/// The whole of an axis or a dim.
AxisRange whole_range(int64_t extent);

/// What `index`, an expression of loops and instances, runs through while the axes `outer` (by id)
/// stand still; nothing if it is not affine in the others.
std::optional<AxisRange> range_of(const Node& index, const std::unordered_set<const void*>& outer);

/// What the values of such a range, all of which there are, lie apart; 0: not evenly.
int64_t step_of(const Node& index, const std::unordered_set<const void*>& outer);

/// The smallest range that holds both; nothing if their distance is not known.
std::optional<AxisRange> hull(const AxisRange& a, const AxisRange& b);

/// The range if it lies inside 0 .. extent - 1 or runs over its end, else the whole.
/// `starts_inside`: its base is known to be inside wherever it is used (loops are trimmed, nothing
/// is gated).
AxisRange settled_range(std::optional<AxisRange> range, int64_t extent, bool starts_inside);

}  // namespace tenon
