// Indices of placed comps and of their storage. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/placement.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {

std::vector<std::pair<Node, Node>> axis_values(const PlacedComp& comp) {
  std::vector<std::pair<Node, Node>> values;
  for (size_t i = 0; i < comp.exprs.size(); ++i)
    values.emplace_back(comp.comp->axes[i].axis, comp.exprs[i]);
  return values;
}

bool has_red_axis(const Node& expr) {
  const std::vector<Node> nodes = topological_order(std::span(&expr, 1));
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return node.op() == Op::kAxis && axis_kind(node) == AxisKind::kRed;
  });
}

std::vector<Node> storage_index(const StorageBox& storage, std::span<const Node> index) {
  std::vector<Node> result;
  if (!storage.alias.empty()) {
    std::vector<std::pair<Node, Node>> values;
    for (size_t dim = 0; dim < storage.dims.size(); ++dim) {
      if (storage.dims[dim].op() == Op::kAxis) values.emplace_back(storage.dims[dim], index[dim]);
    }
    for (const Node& dim : storage.alias)
      result.push_back(simplify_index(substitute(dim, values)));
    return result;
  }
  for (size_t dim = 0; dim < index.size(); ++dim) {
    result.push_back(storage.box[dim].length == 1
                         ? idx_const(0)
                         : simplify_index(make_expr(Op::kSub, index[dim], storage.box[dim].base)));
  }
  return result;
}

}  // namespace tenon
