// How a comp walks memory: for each load and the store the step in elements along every axis.
// Pass 1 of docs/ir.md; what choose_plan decides by. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <vector>

#include "tenon/ir/kernel.h"

namespace tenon {

struct Access {
  int buffer = 0;
  bool is_store = false;
  bool is_gated = false;
  /// The buffer lies in panels of a dim (relayout_constants) and its dims are whole axes; the
  /// strides are those within a panel.
  bool is_packed = false;
  DType dtype = DType::kF32;
  Node load;                     ///< null for the store
  std::vector<int64_t> strides;  ///< elements, by axis of the comp; 0: not used
  /// By axis: the step is not constant (a division, a gather).
  std::vector<bool> is_irregular;

  bool uses(size_t axis) const { return strides[axis] != 0 || is_irregular[axis]; }
};

/// The store first, then each distinct load of the value in the order of topological_order.
std::vector<Access> analyze_access(const Kernel& kernel, const Comp& comp);

}  // namespace tenon
