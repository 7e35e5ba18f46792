// Makes a failing graph small: fewer outputs, fewer nodes, smaller dims, as long as it still fails.
// Called by `tenon diff` and by property tests. SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <string>

#include "tenon/ir/tensor_ops.h"

namespace tenon {

struct ShrinkOptions {
  int max_trials = 2000;        ///< calls of still_fails
  bool has_dims_first = false;  ///< before nodes: where a call takes long because sizes are large
  std::string suffix = {};      ///< of the names "s<N>" that nodes get which became inputs
};

/// Tries simpler graphs in a fixed order and keeps those for which `still_fails` is true, until
/// nothing helps or no trials are left. Every candidate is a sound graph whose inputs are those
/// that its outputs need; inputs that stay keep their names, whatever their size.
TensorGraph shrink_graph(const TensorGraph& graph,
                         const std::function<bool(const TensorGraph&)>& still_fails,
                         const ShrinkOptions& options = {});

}  // namespace tenon
