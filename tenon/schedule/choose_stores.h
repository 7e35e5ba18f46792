// Decides which nodes of a tensor graph get memory of their own; everything else is computed where
// it is read. Called by schedule.cpp. The only place where that is decided, by rules with reasons.
// SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/ir/node.h"

namespace tenon {

/// Stored nodes with their reasons. Looked up only, never iterated.
class StoreChoice {
 public:
  void add(const Node& node, std::string reason) { reasons_.emplace(node.id(), std::move(reason)); }
  bool has(const Node& node) const { return reasons_.contains(node.id()); }
  const std::string& reason(const Node& node) const { return reasons_.at(node.id()); }

 private:
  std::unordered_map<const void*, std::string> reasons_;
};

/// `order`: the nodes of the graph, sources before users; nodes for which `is_given` holds are in
/// memory already and nothing below them is looked at.
///
/// After: outputs, explicit stores and copies are stored; a reduction that is not stored is read
/// through exactly one chain of reshape, permute, flip and shrink, so it can be computed in the
/// kernel of its reader; no elementwise node is recomputed at a cost above kRecomputeCost.
StoreChoice choose_stores(std::span<const Node> order, std::span<const Node> outputs,
                          const std::function<bool(const Node&)>& is_given);

}  // namespace tenon
