// SPDX-License-Identifier: MIT

#include "tenon/codegen/lane_access.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tenon/ir/kernel_bounds.h"

namespace tenon {
namespace {

LaneAccess substituted(const LaneAccess& access,
                       std::span<const std::pair<Node, Node>> replacements) {
  LaneAccess result = access;
  for (Node& node : result.index)
    node = substitute(node, replacements);
  for (auto& [condition, truth] : result.conditions)
    condition = substitute(condition, replacements);
  return result;
}

/// `difference` = 0 only if the lane is the same in both, i.e. `lane` = `other`: in a number system
/// whose digits are the terms, the lane's place is known.
bool fixes_lane(const Affine& difference, const Node& lane, const Node& other,
                KernelBounds& bounds) {
  const int64_t step = std::abs(difference.coefficient(lane));
  if (step == 0 || difference.coefficient(lane) != -difference.coefficient(other)) return false;
  const Interval lanes = bounds.bounds(make_expr(Op::kSub, lane, other));
  int64_t low = difference.constant;
  int64_t high = difference.constant;
  int64_t larger = 0;  // what all larger digits are multiples of; 0: there are none
  for (const auto& [atom, coefficient] : difference.terms) {
    if (atom == lane || atom == other) continue;
    if (std::abs(coefficient) > step) {
      larger = std::gcd(larger, coefficient);
      continue;
    }
    const Interval range = bounds.bounds(atom);
    constexpr int64_t kFar = int64_t{1} << 40;
    if (range.low < -kFar || range.high > kFar || step > kFar) return false;
    low += coefficient * (coefficient > 0 ? range.low : range.high);
    high += coefficient * (coefficient > 0 ? range.high : range.low);
  }
  const int64_t smaller = std::max(-low, high);  // and smaller ones reach at most that far
  const int64_t reach = std::max(-lanes.low, lanes.high) * step + smaller;
  return smaller < step && (larger == 0 || reach < larger);
}

}  // namespace

LaneAccesses::LaneAccesses(const Kernel& nest)
    : nest_(nest), next_id_(static_cast<int64_t>(nest.axis_names.size())) {
  for (const AxisUse& use : nest.lanes)
    other_lanes_.emplace_back(use.axis, renamed(use.axis));
}

Node LaneAccesses::renamed(const Node& axis) {
  return make_axis(next_id_++, axis_extent(axis), axis_kind(axis));
}

bool LaneAccesses::uses_lanes(const Node& expr) const {
  const std::vector<Node> nodes = topological_order(std::span(&expr, 1));
  return std::ranges::any_of(nest_.lanes, [&](const AxisUse& use) {
    return std::ranges::find(nodes, use.axis) != nodes.end();
  });
}

// Memory that nothing writes needs no barrier, registers are a lane's own.
bool LaneAccesses::is_shared(int buffer) const {
  const BufferDecl& decl = nest_.buffers[static_cast<size_t>(buffer)];
  return decl.scope == Scope::kGroup ||
         (decl.scope == Scope::kGlobal && decl.access != BufferAccess::kIn);
}

std::vector<LaneAccess> LaneAccesses::of(const Comp& comp,
                                         const std::vector<Assumption>& conditions) {
  std::vector<LaneAccess> accesses;
  std::vector<Assumption> own = conditions;
  std::vector<std::pair<Node, Node>> axes;
  for (const AxisUse& use : comp.axes)
    axes.emplace_back(use.axis, renamed(use.axis));
  for (const Node& guard : comp.guard)
    own.emplace_back(guard, true);
  std::vector<Node> roots{comp.value};
  roots.insert(roots.end(), comp.index.begin(), comp.index.end());
  roots.insert(roots.end(), comp.guard.begin(), comp.guard.end());
  for (const Node& node : topological_order(roots)) {
    if (node.op() != Op::kLoad || !is_shared(load_parts(node).buffer)) continue;
    const LoadParts parts = load_parts(node);
    LaneAccess access{parts.buffer, false, {parts.index.begin(), parts.index.end()}, own};
    if (parts.gated) access.conditions.emplace_back(parts.gate, true);
    accesses.push_back(substituted(access, axes));
  }
  if (is_shared(comp.dst)) accesses.push_back(substituted({comp.dst, true, comp.index, own}, axes));
  return accesses;
}

void LaneAccesses::leave_run(std::vector<LaneAccess>& accesses, const Node& axis) {
  const std::pair<Node, Node> replacement[] = {{axis, renamed(axis)}};
  for (LaneAccess& access : accesses)
    access = substituted(access, replacement);
}

bool LaneAccesses::may_meet(const LaneAccess& a, const LaneAccess& b) const {
  if (a.buffer != b.buffer || (!a.is_write && !b.is_write)) return false;
  const LaneAccess other = substituted(b, other_lanes_);
  KernelBounds bounds;
  for (const LaneAccess* access : {&a, &other}) {
    for (const auto& [condition, truth] : access->conditions)
      bounds.assume(condition, truth);
  }
  if (bounds.is_contradictory()) return false;
  std::vector<Affine> differences;
  for (size_t dim = 0; dim < a.index.size(); ++dim) {
    const Node difference = make_expr(Op::kSub, a.index[dim], other.index[dim]);
    const Interval range = bounds.bounds(difference);
    if (range.low > 0 || range.high < 0) return false;
    if (auto form = affine_of(difference)) differences.push_back(std::move(*form));
  }
  return !std::ranges::all_of(other_lanes_, [&](const auto& lane) {
    const Interval range = bounds.bounds(make_expr(Op::kSub, lane.first, lane.second));
    if (range.low == 0 && range.high == 0) return true;
    return std::ranges::any_of(differences, [&](const Affine& difference) {
      return fixes_lane(difference, lane.first, lane.second, bounds);
    });
  });
}

}  // namespace tenon
