// Cuts kernels that would read more buffers than the device binds: says which values inside them to
// store, so that they become kernels of their own. Called by schedule.cpp, until all kernels fit.
// SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/schedule/choose_stores.h"

namespace tenon {

/// Nodes to store beside those of `choice`, so that no kernel reads and writes more than
/// `max_arguments` buffers: of what feeds a node with too many, the part that reads most. Empty:
/// all fit, or those that do not cannot be cut (a node with more stored sources than that).
/// `order`: sources before users.
std::vector<Node> values_to_store(std::span<const Node> order,
                                  const std::function<bool(const Node&)>& is_given,
                                  const StoreChoice& choice, int max_arguments);

}  // namespace tenon
