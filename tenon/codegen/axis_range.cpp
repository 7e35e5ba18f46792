// SPDX-License-Identifier: MIT

#include "tenon/codegen/axis_range.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tenon/rules/affine.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {

std::optional<AxisRange> range_of(const Node& index, const std::unordered_set<const void*>& outer) {
  StructuralOrder order;
  const auto form = to_affine(simplify_index(index), order);
  if (!form) return std::nullopt;
  AffineForm base;
  base.offset = form->offset;
  AxisRange range;
  range.length = 1;
  for (const AffineTerm& term : form->terms) {
    const bool is_axis = term.node.op() == Op::kAxis;
    if (is_axis && !outer.contains(term.node.id())) {
      const int64_t reach = axis_extent(term.node) - 1;
      range.length += std::abs(term.coefficient) * reach;
      if (term.coefficient < 0) base.offset += term.coefficient * reach;
      continue;
    }
    if (!is_axis) {
      for (const Node& node : topological_order(std::span(&term.node, 1))) {
        const bool is_inner = node.op() == Op::kAxis && !outer.contains(node.id());
        if (is_inner || node.op() == Op::kLoad) return std::nullopt;
      }
    }
    base.terms.push_back(term);
  }
  range.base = to_node(base);
  range.is_bound = true;
  return range;
}

int64_t step_of(const Node& index, const std::unordered_set<const void*>& outer) {
  StructuralOrder order;
  const auto form = to_affine(simplify_index(index), order);
  if (!form) return 0;
  std::vector<std::pair<int64_t, int64_t>> digits;  // step, last value
  int64_t step = 0;
  for (const AffineTerm& term : form->terms) {
    if (term.node.op() != Op::kAxis || outer.contains(term.node.id())) continue;
    digits.emplace_back(std::abs(term.coefficient), axis_extent(term.node) - 1);
    step = std::gcd(step, term.coefficient);
  }
  std::ranges::sort(digits);
  int64_t reach = 0;
  for (const auto& [size, last] : digits) {
    if (size > reach + step) return 0;
    reach += size * last;
  }
  return std::max<int64_t>(step, 1);
}

AxisRange whole_range(int64_t extent) {
  return {idx_const(0), extent};
}

// The smallest range that holds both; nothing if their distance is not known.
std::optional<AxisRange> hull(const AxisRange& a, const AxisRange& b) {
  const Node distance = simplify_index(make_expr(Op::kSub, b.base, a.base));
  if (!is_const(distance)) return std::nullopt;
  const int64_t shift = idx_value(distance);
  AxisRange range = a;
  if (shift < 0) range.base = b.base;
  range.length = std::max(a.length, b.length + shift) - std::min<int64_t>(0, shift);
  return range;
}

// A range inside 0 .. extent - 1 or running over its end, else the whole.
AxisRange settled_range(std::optional<AxisRange> range, int64_t extent, bool starts_inside) {
  if (!range || range->length >= extent || bounds(range->base).min < 0) return whole_range(extent);
  StructuralOrder order;
  const auto form = to_affine(range->base, order);
  const int64_t step = form ? coefficient_gcd(*form) : 1;
  const bool is_aligned = form && step % range->length == 0 && form->offset % range->length == 0;
  const bool is_inside = bounds(range->base).max + range->length <= extent;
  range->is_exact = is_inside || (starts_inside && is_aligned && extent % range->length == 0);
  return *range;
}

}  // namespace tenon
