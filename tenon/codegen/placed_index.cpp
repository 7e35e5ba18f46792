// Indices of placed comps and of their storage. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/base/integer.h"
#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan_rules.h"
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

int64_t num_elements(const StorageBox& storage) {
  int64_t count = 1;
  for (const AxisRange& range : storage.box)
    count *= range.count();
  return count;
}

void lay_out(BufferDecl& decl, const StorageBox& storage, const std::vector<int64_t>& more) {
  decl.dims = {};
  for (const AxisRange& range : storage.box)
    decl.dims.push_back(range.count());
  decl.dims.insert(decl.dims.end(), more.begin(), more.end());
  const TileDims& tile = storage.tile;
  const bool is_vector =
      storage.vec_dim >= 0 && static_cast<size_t>(storage.vec_dim) + 1 != decl.dims.size();
  if (tile.row < 0 && !is_vector) return;
  const auto length = [&](int dim) { return decl.dims[static_cast<size_t>(dim)]; };
  for (int dim = 0; dim < static_cast<int>(decl.dims.size()); ++dim) {
    const bool is_inner =
        tile.row < 0 ? dim == storage.vec_dim : dim == tile.row || dim == tile.column;
    if (!is_inner) decl.layout.push_back({dim, length(dim), 0});
  }
  if (tile.row < 0) {
    decl.layout.push_back({storage.vec_dim, length(storage.vec_dim), 0});
    return;
  }
  decl.layout.push_back({tile.row, ceil_div(length(tile.row), tile.rows), 0});
  decl.layout.push_back({tile.column, ceil_div(length(tile.column), tile.columns), 0});
  decl.layout.push_back({tile.row, tile.rows, 0});
  decl.layout.push_back({tile.column, tile.columns, 0});
}

int dim_of(const PlacedComp& comp, std::span<const Node> index, const Node& axis) {
  const auto values = axis_values(comp);
  for (size_t dim = 0; dim < index.size(); ++dim) {
    if (uses_axis(substitute(index[dim], values), axis)) return static_cast<int>(dim);
  }
  return -1;
}

std::pair<int, int64_t> vec_dim(const PlacedComp& comp, std::span<const Node> index) {
  for (const AxisUse& use : comp.instances) {
    const int dim = use.role == Role::kVec ? dim_of(comp, index, use.axis) : -1;
    if (dim >= 0) return {dim, axis_extent(use.axis)};
  }
  return {-1, 1};
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
  for (size_t dim = 0; dim < index.size(); ++dim)
    result.push_back(storage.box[dim].length == 1 ? idx_const(0)
                                                  : local_index(storage.box[dim], index[dim]));
  return result;
}

Node local_index(const AxisRange& range, const Node& index) {
  const Node local = simplify_index(make_expr(Op::kSub, index, range.base));
  if (range.step == 1) return local;
  return simplify_index(make_expr(Op::kFloorDiv, local, idx_const(range.step)));
}

const PlacedLane* PlacedComp::lane_of(size_t dim) const {
  const auto lane = std::ranges::find_if(
      lanes, [&](const PlacedLane& own) { return static_cast<size_t>(own.part.dim) == dim; });
  return lane == lanes.end() ? nullptr : &*lane;
}

bool PlacedLane::is_red(const PlacedComp& comp) const {
  return axis_kind(comp.comp->axes[static_cast<size_t>(part.axis)].axis) == AxisKind::kRed;
}

}  // namespace tenon
