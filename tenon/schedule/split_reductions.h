// Cuts reductions that give too few results to occupy all threads: partial results of equal pieces,
// stored, then a small reduction of these. Called by schedule.cpp. Made of ordinary graph ops; the
// count of pieces follows from shape and Target alone, so results do not depend on who runs them.
// SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <span>
#include <unordered_map>

#include "tenon/ir/node.h"
#include "tenon/schedule/choose_stores.h"

namespace tenon {

/// The nodes of `order` (sources before users) that change, by id, with what takes their place:
/// reductions that are cut, and all that is computed from them. `choice` says what becomes of the
/// graph as it is: a tmp is computed with its row, and stays whole.
std::unordered_map<const void*, Node> split_reductions(
    std::span<const Node> order, const std::function<bool(const Node&)>& is_given,
    const StoreChoice& choice, int threads);

}  // namespace tenon
