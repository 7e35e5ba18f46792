// SPDX-License-Identifier: MIT

#include "tenon/codegen/product_sum.h"

#include <algorithm>

#include "tenon/codegen/plan_families.h"

namespace tenon {

ProductSum::ProductSum(const Kernel& source)
    : kernel(source),
      sum(walk_of(source, 0)),
      last(walk_of(source, static_cast<int>(source.body.size()) - 1)) {}

// Each par axis of the sum is one of the last comp.
bool ProductSum::find_columns() {
  consumer = consumer_axes(sum, last);
  column = none();
  for (size_t i = 0; i < none(); ++i) {
    if (sum.is_red(i)) continue;
    if (consumer[i] == last.num_axes()) return false;
    if (last.accesses[0].strides[consumer[i]] == 1 && sum.extent(i) > 1) column = i;
  }
  return column < none();
}

bool ProductSum::find_operands() {
  const auto found = unit_factors(*sum.comp, axis(column));
  if (!found) return false;
  factors = *found;
  const auto operand_of = [](const Node& factor) -> std::optional<Operand> {
    const Node load = load_under(factor);
    if (!load) return std::nullopt;
    const LoadParts parts = load_parts(load);
    return Operand{parts.buffer, {parts.index.begin(), parts.index.end()}};
  };
  const auto loaded = operand_of(factors.b);
  if (!loaded) return false;
  b = *loaded;
  a = operand_of(factors.a);
  const Node load = load_under(factors.b);
  // The depth: a red axis of both operands, which one dim of b runs along; the longest.
  depth = none();
  for (size_t i = 0; i < none(); ++i) {
    const bool is_shared = uses_axis(factors.a, axis(i)) && uses_axis(load, axis(i));
    if (!sum.is_red(i) || !is_shared || dim_of(b, i) < 0) continue;
    if (depth == none() || sum.extent(i) > sum.extent(depth)) depth = i;
  }
  if (depth == none() || dim_of(b, column) < 0 || dim_of(b, column) == dim_of(b, depth)) {
    return false;
  }
  // Panels are cut by columns: affine, as is what a group of the depth is.
  for (const size_t i : {column, depth}) {
    const Node& index = b.index[static_cast<size_t>(dim_of(b, i))];
    if (staged_extent(sum, index, {}, 0) == 0) return false;
  }
  // Rows share operand b.
  row = none();
  for (size_t i = 0; i < none(); ++i) {
    if (i == column || sum.is_red(i) || uses_axis(load, axis(i))) continue;
    if (row == none() || sum.extent(i) > sum.extent(row)) row = i;
  }
  return true;
}

int ProductSum::dim_of(const Operand& operand, size_t axis_number) const {
  int result = -1;
  for (int dim = 0; dim < static_cast<int>(operand.index.size()); ++dim) {
    if (!uses_axis(operand.index[static_cast<size_t>(dim)], axis(axis_number))) continue;
    if (result >= 0) return -1;
    result = dim;
  }
  return result;
}

int ProductSum::stage_depth(const Operand& operand, const CompPlan& entry, int num_loops) const {
  const auto moves = [&](const Part& part) {
    return std::ranges::any_of(operand.index, [&](const Node& index) {
      return uses_axis(index, axis(static_cast<size_t>(part.axis)));
    });
  };
  for (; num_loops > 0; --num_loops) {
    const Part& part = entry.parts[static_cast<size_t>(num_loops - 1)];
    if (part.role == Role::kGrid || moves(part)) break;
  }
  return num_loops;
}

std::vector<LayoutPart> ProductSum::panels(const Operand& operand, size_t side, int64_t panel,
                                           int64_t group, const CompPlan& entry,
                                           int num_loops) const {
  const int side_dim = dim_of(operand, side);
  const int depth_dim = dim_of(operand, depth);
  const auto length = [&](int dim) {
    return staged_extent(sum, operand.index[static_cast<size_t>(dim)], entry, num_loops);
  };
  const bool is_aligned = operand.index[static_cast<size_t>(side_dim)] == axis(side);
  const int64_t places = is_aligned ? panel : round_up(length(side_dim), panel);
  std::vector<LayoutPart> layout{{side_dim, ceil_div(length(side_dim), places), 0}};
  for (int dim = 0; dim < static_cast<int>(operand.index.size()); ++dim) {
    if (dim != side_dim && dim != depth_dim) layout.push_back({dim, length(dim), 0});
  }
  layout.push_back({depth_dim, ceil_div(length(depth_dim), group), 0});
  layout.push_back({side_dim, places, 0});
  layout.push_back({depth_dim, group, 0});
  return layout;
}

std::vector<Part> ProductSum::deal_others(CompPlan& entry, int64_t& groups) const {
  std::vector<Part> loops;
  for (size_t i = 0; i < none(); ++i) {
    if (sum.is_red(i) || i == column || i == row) continue;
    const bool is_dealt = entry.parts.size() + 2 < kMaxGridDims;
    (is_dealt ? entry.parts : loops)
        .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, 1});
    if (is_dealt) groups *= sum.extent(i);
  }
  return loops;
}

}  // namespace tenon
