// Makes a failing graph small: fewer outputs, fewer nodes, smaller dims, as long as it still fails.
// For property tests and `tenon diff`'s tests. SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "tenon/ir/tensor_ops.h"

namespace tenon::testing {

/// Tries simpler graphs in a fixed order and keeps those for which `still_fails` is true, until
/// nothing helps or `max_trials` calls were made. Every candidate is a sound graph whose inputs are
/// those that its outputs need; nodes that became inputs are named "s<N>" with the range "_int7".
TensorGraph shrink(const TensorGraph& graph,
                   const std::function<bool(const TensorGraph&)>& still_fails,
                   int max_trials = 2000);

}  // namespace tenon::testing
