// How a comp of a kernel walks memory, and what the families of plans decide by: shared by
// choose_plan and row_plans. SPDX-License-Identifier: MIT

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tenon/base/integer.h"
#include "tenon/ir/kernel.h"
#include "tenon/rules/access.h"
#include "tenon/types/target.h"

namespace tenon {

// Groups for each thread: enough to even out their times, few enough to cost nothing.
inline constexpr int64_t kGroupsPerThread = 4;
// Bytes that a group of a streaming kernel should move at least: some 2 us of work.
inline constexpr int64_t kMinGroupBytes = 64 << 10;
// Rows that are read side by side with nothing lost: as many as memory is asked ahead for.
inline constexpr int64_t kRowsAtOnce = 8;

/// Instructions, loads and stores apart, that depend on the same axes of a comp.
struct OpGroup {
  std::vector<bool> axes;
  double count = 0;
  int gate_of = -1;  ///< the buffer whose loads' gates alone need them; -1: others too
};

/// A comp with what its axes are and how it walks memory.
struct Walk {
  const Comp* comp = nullptr;
  int number = 0;
  std::vector<Access> accesses;
  int64_t lanes = 1;  ///< of a vector in which everything that the comp computes fits
  double flops = 0;   ///< operations at one point, as the kernel has them
  std::vector<OpGroup> ops;

  size_t num_axes() const { return comp->axes.size(); }
  int64_t extent(size_t axis) const {
    return std::max<int64_t>(axis_extent(comp->axes[axis].axis), 1);
  }
  bool is_red(size_t axis) const { return axis_kind(comp->axes[axis].axis) == AxisKind::kRed; }
  int64_t points() const {
    int64_t count = 1;
    for (size_t i = 0; i < num_axes(); ++i)
      count *= extent(i);
    return count;
  }
};

/// Without lanes and operations.
Walk walk_of(const Kernel& kernel, int number);
/// Lanes of a vector in which everything that the comp computes fits.
int64_t lanes_of(const Walk& walk, const Kernel& kernel, const Target& target);
/// Lanes of the narrowest vector that covers so many elements, or else `lanes`: the last places of
/// a vector wider than its axis are masked, which is faster than narrow vectors or scalars.
int64_t lanes_over(int64_t extent, int64_t lanes);
/// One for each comp, complete.
std::vector<Walk> walks_of(const Kernel& kernel, const Target& target);

/// Blocks of an axis that are dealt, in places, a multiple of `step`: at least `pieces` of them and
/// at most twice as many, each for `others` groups, so that no thread's share is longer than it
/// must be; large ones.
int64_t even_block(int64_t length, int64_t step, int64_t pieces, int64_t others,
                   const Target& target);

/// Places of the axis in a panel of an operand that is packed: the innermost part of its layout
/// that runs along the axis.
int64_t panel_of(const Kernel& kernel, const Access& access, const Node& axis);

/// Whether the comp loads from the buffer.
bool is_read(const Walk& walk, int buffer);
/// Bytes that the access touches in all.
int64_t bytes_of(const Access& access, const Walk& walk);
int64_t bytes_per_point(const Walk& walk);
/// The comp's stores could pass by the caches: it writes whole lines that it does not read, in
/// large numbers.
bool may_bypass(const Walk& walk, const Target& target);
/// An axis along which the operands are contiguous where they are not along the vec axis; the
/// number of axes: none.
size_t crossed_axis(const Walk& walk, size_t vec);

}  // namespace tenon
