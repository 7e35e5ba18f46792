// Which axes of a kernel's comps move together because one reads what the other writes, maybe
// through others. For the price of Plans. SPDX-License-Identifier: MIT

#pragma once

#include <vector>

#include "tenon/codegen/walk.h"

namespace tenon {

class AxisMoves {
 public:
  /// `walks`: one for each comp of the kernel.
  explicit AxisMoves(const std::vector<Walk>& walks);

  /// For each axis of comp `from` that of comp `to` which moves with it; -1: none.
  const std::vector<int>& between(int from, int to) const {
    return axes_[static_cast<size_t>(from)][static_cast<size_t>(to)];
  }

 private:
  void add_through(size_t from, size_t middle, size_t to);

  std::vector<std::vector<std::vector<int>>> axes_;  // by comp and comp
};

}  // namespace tenon
