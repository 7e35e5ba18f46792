// Measuring of graphs. SPDX-License-Identifier: MIT

#include "tests/support/graph_coverage.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tenon/base/text.h"
#include "tests/support/random_graph.h"

namespace tenon::testing {
namespace {

// The reduction that is spread here by `expand`, if it is spread over what it reduced.
bool is_broadcast_back(const Node& expand) {
  Node source = expand.src(0);
  while (is_movement(source.op()) || source.op() == Op::kDiv)
    source = source.src(source.srcs().size() - 1);
  return source.op() == Op::kReduce && std::ranges::equal(source.src(0).shape(), expand.shape()) &&
         !std::ranges::equal(source.shape(), expand.shape());
}

}  // namespace

void GraphCoverage::add(const TensorGraph& graph) {
  std::set<int64_t> dims;
  std::unordered_map<const void*, int> movements_in_a_row;
  bool has_broadcast_back = false;
  bool has_triple_movement = false;
  const std::vector<Node> order = topological_order(graph.outputs);
  for (const Node& node : order) {
    ++nodes_of_op[node.op()];
    ++nodes_of_dtype[node.dtype()];
    dims.insert(node.shape().begin(), node.shape().end());
    int& row = movements_in_a_row[node.id()];
    row = moves_something(node) ? movements_in_a_row[node.src(0).id()] + 1 : 0;
    has_triple_movement = has_triple_movement || row >= 3;
    if (node.op() == Op::kExpand && is_broadcast_back(node)) has_broadcast_back = true;
  }
  for (int64_t dim : dims)
    ++graphs_with_dim[dim];
  node_counts.push_back(std::ssize(order));
  num_broadcast_back += has_broadcast_back ? 1 : 0;
  num_triple_movement += has_triple_movement ? 1 : 0;
}

int64_t GraphCoverage::median_nodes() const {
  std::vector<int64_t> sorted = node_counts;
  std::ranges::sort(sorted);
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

std::string to_text(const GraphCoverage& coverage) {
  std::string text =
      concat("graphs ", coverage.num_graphs(), ", median nodes ", coverage.median_nodes(),
             ", reduction broadcast back ", coverage.num_broadcast_back,
             ", three movements in a row ", coverage.num_triple_movement, "\nops:");
  for (const auto& [op, count] : coverage.nodes_of_op)
    append(text, " ", op_name(op), " ", count);
  text += "\ndtypes:";
  for (const auto& [dtype, count] : coverage.nodes_of_dtype)
    append(text, " ", dtype_name(dtype), " ", count);
  text += "\ngraphs with dim:";
  for (const int64_t dim : {0, 1, 3, 7, 31, 33, 1000}) {
    const auto found = coverage.graphs_with_dim.find(dim);
    append(text, " ", dim, ": ", found == coverage.graphs_with_dim.end() ? 0 : found->second);
  }
  return text + "\n";
}

}  // namespace tenon::testing
