// What a set of graphs covers: ops, dtypes, sizes and shapes of computation, so that a generator's
// claims are measured. SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tenon/ir/tensor_ops.h"

namespace tenon::testing {

struct GraphCoverage {
  std::map<Op, int64_t> nodes_of_op;
  std::map<DType, int64_t> nodes_of_dtype;
  std::map<int64_t, int64_t> graphs_with_dim;
  std::vector<int64_t> node_counts;  ///< one a graph
  int64_t num_broadcast_back = 0;    ///< graphs that expand a reduction to what it reduced
  int64_t num_triple_movement = 0;   ///< graphs with three ops in a row that move_something

  void add(const TensorGraph& graph);
  int64_t num_graphs() const { return static_cast<int64_t>(node_counts.size()); }
  int64_t median_nodes() const;
};

/// Several lines for a test's log.
std::string to_text(const GraphCoverage& coverage);

}  // namespace tenon::testing
