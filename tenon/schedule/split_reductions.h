// Cuts reductions that give too few results to occupy all threads: partial results of equal pieces,
// stored, then a small reduction of these. Called by schedule.cpp. Made of ordinary graph ops; the
// count of pieces follows from shape and Target alone, so results do not depend on who runs them.
// SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "tenon/ir/node.h"
#include "tenon/schedule/choose_stores.h"

namespace tenon {

/// What takes the place of the nodes that change, by id. Looked up only, never iterated.
struct SplitReductions {
  std::unordered_map<const void*, Node> changed;  ///< cut reductions, and all computed from them
  std::unordered_set<const void*> partials;       ///< new nodes that hold results of pieces
};

/// `order`: sources before users. `choice` says what becomes of the graph as it is: a tmp is
/// computed with its row, and stays whole.
SplitReductions split_reductions(std::span<const Node> order,
                                 const std::function<bool(const Node&)>& is_given,
                                 const StoreChoice& choice, int threads);

}  // namespace tenon
