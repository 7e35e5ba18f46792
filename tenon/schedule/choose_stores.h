// Decides which nodes of a tensor graph get memory of their own and which are intermediates of one
// kernel; everything else is computed where it is read. Called by schedule.cpp. The only place
// where that is decided, by rules with reasons. SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/types/matrix_unit.h"

namespace tenon {

/// Stored nodes with their reasons, and the nodes that are tmps of the one kernel that reads them.
/// Looked up only, never iterated.
class StoreChoice {
 public:
  /// With a reason already: the new one.
  void add(const Node& node, std::string reason) {
    reasons_.insert_or_assign(node.id(), std::move(reason));
  }
  bool has(const Node& node) const { return reasons_.contains(node.id()); }
  const std::string& reason(const Node& node) const { return reasons_.at(node.id()); }
  void add_tmp(const Node& node) { tmps_.insert(node.id()); }
  bool is_tmp(const Node& node) const { return tmps_.contains(node.id()); }

 private:
  std::unordered_set<const void*> tmps_;
  std::unordered_map<const void*, std::string> reasons_;
};

/// `order`: the nodes of the graph, sources before users; nodes for which `is_given` holds are in
/// memory already and nothing below them is looked at.
///
/// A tmp is computed once for each row: a value of the root axes at which all tmps of the kernel
/// are read, in every reader. What of the tmps is not fixed by the row must fit half of
/// `max_local_bytes` (of `block_rows` rows all of it, with the operands, where a tmp is a
/// contraction), and there must be rows enough to be worth dealing out.
///
/// After: outputs, explicit stores and copies are stored; a reduction that is neither stored nor a
/// tmp is read through exactly one chain of reshape, permute, flip and shrink, so it can be
/// computed over the axes of its reader; no elementwise node is recomputed at a cost above
/// kRecomputeCost (casts of operands of `units`, the Target's, cost nothing). A tmp is read by one
/// kernel, which has no contraction (matmul, convolution) unless its rows are much wider than the
/// contraction's operands: softmax(q k) v is one kernel.
StoreChoice choose_stores(std::span<const Node> order, std::span<const Node> outputs,
                          const std::function<bool(const Node&)>& is_given, int64_t max_local_bytes,
                          int64_t block_rows, std::span<const MatrixUnit> units);

}  // namespace tenon
