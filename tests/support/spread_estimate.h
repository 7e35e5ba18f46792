// How many different values the elements of a tensor node take, guessed from the graph alone: the
// generator of random graphs keeps to steps whose results still tell one element from another. A
// guess; what graphs really say is measured on the oracle. SPDX-License-Identifier: MIT
#pragma once

#include <unordered_map>

#include "tenon/ir/tensor_ops.h"

namespace tenon::testing {

class SpreadEstimate {
 public:
  /// `is_integer_valued`: all floats of the graph hold integers.
  explicit SpreadEstimate(bool is_integer_valued) : is_integer_valued_(is_integer_valued) {}

  /// From how many values an input is drawn, before its first node is asked for.
  void set_input(const Node& buffer, double num_values) { values_[buffer] = num_values; }

  /// Different values among the elements.
  double num_values(const Node& node);

  /// Whether it has elements, not one alone, and well over half of them look distinct.
  bool is_rich(const Node& node);

 private:
  double estimate(const Node& node) const;
  double of(const Node& node, size_t src) const { return values_.at(node.src(src)); }

  bool is_integer_valued_;
  std::unordered_map<Node, double, NodeHash> values_;  // that an element may have
};

}  // namespace tenon::testing
