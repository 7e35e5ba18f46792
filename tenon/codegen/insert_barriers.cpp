// SPDX-License-Identifier: MIT

#include "tenon/codegen/insert_barriers.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/ir/kernel_bounds.h"
#include "tenon/ir/kernel_walk.h"

namespace tenon {
namespace {

/// A condition that holds, or does not.
using Assumption = std::pair<Node, bool>;

struct LaneAccess {
  int buffer = 0;
  bool is_write = false;
  std::vector<Node> index;
  std::vector<Assumption> conditions;  ///< under which it happens

  friend bool operator==(const LaneAccess&, const LaneAccess&) = default;
};

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
    constexpr int64_t kFar = int64_t{1} << 28;
    if (range.low < -kFar || range.high > kFar || step > kFar) return false;
    low += coefficient * (coefficient > 0 ? range.low : range.high);
    high += coefficient * (coefficient > 0 ? range.high : range.low);
  }
  const int64_t smaller = std::max(-low, high);  // and smaller ones reach at most that far
  const int64_t reach = std::max(-lanes.low, lanes.high) * step + smaller;
  return smaller < step && (larger == 0 || reach < larger);
}

/// What statements touch in memory that lanes share.
class LaneAccesses {
 public:
  explicit LaneAccesses(const Kernel& nest)
      : nest_(nest), next_id_(static_cast<int64_t>(nest.axis_names.size())) {
    for (const AxisUse& use : nest.lanes)
      other_lanes_.emplace_back(use.axis, renamed(use.axis));
  }

  bool uses_lanes(const Node& expr) const {
    const std::vector<Node> nodes = topological_order(std::span(&expr, 1));
    return std::ranges::any_of(nest_.lanes, [&](const AxisUse& use) {
      return std::ranges::find(nodes, use.axis) != nodes.end();
    });
  }

  /// Those of a Comp that stands under `conditions`, its own axes replaced by new ones.
  std::vector<LaneAccess> of(const Comp& comp, const std::vector<Assumption>& conditions) {
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
    if (is_shared(comp.dst))
      accesses.push_back(substituted({comp.dst, true, comp.index, own}, axes));
    return accesses;
  }

  /// The same accesses in another run of the loop: its axis replaced by a new one.
  void leave_run(std::vector<LaneAccess>& accesses, const Node& axis) {
    const std::pair<Node, Node> replacement[] = {{axis, renamed(axis)}};
    for (LaneAccess& access : accesses)
      access = substituted(access, replacement);
  }

  /// Whether two different lanes may touch one place, one of them writing.
  bool may_meet(const LaneAccess& a, const LaneAccess& b) const {
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

 private:
  // Memory that nothing writes needs no barrier, registers are a lane's own.
  bool is_shared(int buffer) const {
    const BufferDecl& decl = nest_.buffers[static_cast<size_t>(buffer)];
    return decl.scope == Scope::kGroup ||
           (decl.scope == Scope::kGlobal && decl.access != BufferAccess::kIn);
  }

  Node renamed(const Node& axis) {
    return make_axis(next_id_++, axis_extent(axis), axis_kind(axis));
  }

  const Kernel& nest_;
  std::vector<std::pair<Node, Node>> other_lanes_;  // each lane axis with a second one
  int64_t next_id_ = 0;
};

using Pending = std::vector<LaneAccess>;  // since the last barrier

void add(Pending& pending, Pending more) {
  for (LaneAccess& access : more) {
    if (std::ranges::find(pending, access) == pending.end()) pending.push_back(std::move(access));
  }
}

class BarrierPlacer {
 public:
  explicit BarrierPlacer(Kernel& nest) : nest_(nest), accesses_(nest) {}

  void run() {
    for_each_stmt(nest_.body, [&](const Stmt& stmt) {
      if (std::holds_alternative<Barrier>(stmt.node)) may_be_unneeded_ = true;
    });
    place({});
    if (may_be_unneeded_) prune(nest_.body);
  }

 private:
  // Walks in the order of execution. `pending` is what was touched before, then after. Where two
  // lanes may meet a barrier is inserted, or, while inserting is off, `is_open_` is set.
  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void walk(Body& body, Pending& pending, const std::vector<Assumption>& conditions) {
    for (size_t i = 0; i < body.size(); ++i) {
      if (std::holds_alternative<Barrier>(body[i].node)) {
        pending.clear();
        continue;
      }
      Pending own;
      if (auto* comp = std::get_if<Comp>(&body[i].node)) {
        own = accesses_.of(*comp, conditions);
      } else if (auto* branch = std::get_if<If>(&body[i].node)) {
        if (!accesses_.uses_lanes(branch->condition)) {
          walk_branch(*branch, pending, conditions);
          continue;
        }
        own = inside(*branch, conditions);
      } else if (auto* loop = std::get_if<For>(&body[i].node)) {
        Pending after = pending;
        if (is_met([&] { walk_run(*loop, after, conditions); }) && separate(body, i, pending)) {
          ++i;
          after.clear();
          walk_run(std::get<For>(body[i].node), after, conditions);
        }
        pending = std::move(after);
        continue;
      } else {
        continue;
      }
      const bool meets = std::ranges::any_of(pending, [&](const LaneAccess& before) {
        return std::ranges::any_of(
            own, [&](const LaneAccess& access) { return accesses_.may_meet(before, access); });
      });
      if (meets && separate(body, i, pending)) ++i;
      add(pending, std::move(own));
    }
  }

  bool separate(Body& body, size_t place, Pending& pending) {
    is_open_ = true;
    if (!is_inserting_) return false;
    ++num_inserted_;
    pending.clear();
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(place), Stmt{Barrier{}});
    return true;
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void walk_branch(If& branch, Pending& pending, const std::vector<Assumption>& conditions) {
    Pending other = pending;
    std::vector<Assumption> inner = conditions;
    inner.emplace_back(branch.condition, true);
    walk(branch.then_body, pending, inner);
    inner.back().second = false;
    walk(branch.else_body, other, inner);
    add(pending, std::move(other));
  }

  // All that a branch touches which not all lanes take: no barrier may stand there.
  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  Pending inside(If& branch, const std::vector<Assumption>& conditions) {
    Pending touched;
    const bool meets = is_met([&] {
      settle_branch(branch, conditions);
      walk_branch(branch, touched, conditions);
    });
    TENON_CHECK(!meets, ErrorCode::kUnsupported, "insert_barriers: lanes of '", nest_.name,
                "' touch what others touch in a branch that not all of them take, where no barrier "
                "can stand");
    return touched;
  }

  // One run of a loop; then its axis has another value.
  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void walk_run(For& loop, Pending& pending, const std::vector<Assumption>& conditions) {
    const bool may_be_empty = !is_const(loop.extent) || idx_value(loop.extent) < 1;
    Pending before = may_be_empty ? pending : Pending();
    walk(loop.body, pending, conditions);
    accesses_.leave_run(pending, loop.axis.axis);
    add(pending, std::move(before));
  }

  // Barriers between the statements of one run of each loop, inner loops first, and between those
  // of one run and the next.
  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void settle(Body& body, const std::vector<Assumption>& conditions) {
    for (Stmt& stmt : body) {
      auto* branch = std::get_if<If>(&stmt.node);
      if (branch != nullptr && !accesses_.uses_lanes(branch->condition)) {
        settle_branch(*branch, conditions);
      }
      auto* loop = std::get_if<For>(&stmt.node);
      if (loop == nullptr) continue;
      settle(loop->body, conditions);
      for (int before = -1; before != num_inserted_;) {
        before = num_inserted_;
        Pending pending;
        walk_run(*loop, pending, conditions);
        const int forward = num_inserted_;
        walk_run(*loop, pending, conditions);
        may_be_unneeded_ = may_be_unneeded_ || num_inserted_ != forward;
      }
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void settle_branch(If& branch, const std::vector<Assumption>& conditions) {
    std::vector<Assumption> inner = conditions;
    inner.emplace_back(branch.condition, true);
    settle(branch.then_body, inner);
    inner.back().second = false;
    settle(branch.else_body, inner);
  }

  void place(const std::vector<Assumption>& conditions) {
    settle(nest_.body, conditions);
    Pending pending;
    walk(nest_.body, pending, conditions);
  }

  // Whether a walk finds two lanes that may meet, while it inserts nothing.
  template <class Visit>
  bool is_met(const Visit& visit) {
    const bool was_inserting = std::exchange(is_inserting_, false);
    const bool was_open = std::exchange(is_open_, false);
    visit();
    is_inserting_ = was_inserting;
    return std::exchange(is_open_, was_open);
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void prune(Body& body) {
    for (size_t i = 0; i < body.size(); ++i) {
      if (auto* loop = std::get_if<For>(&body[i].node)) prune(loop->body);
      if (auto* branch = std::get_if<If>(&body[i].node)) {
        prune(branch->then_body);
        prune(branch->else_body);
      }
      if (!std::holds_alternative<Barrier>(body[i].node)) continue;
      body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
      if (is_met([&] { place({}); })) {
        body.insert(body.begin() + static_cast<std::ptrdiff_t>(i), Stmt{Barrier{}});
      } else {
        --i;
      }
    }
  }

  Kernel& nest_;
  LaneAccesses accesses_;
  bool is_inserting_ = true;
  bool is_open_ = false;
  bool may_be_unneeded_ = false;  // barriers that were there, or that one between runs replaces
  int num_inserted_ = 0;
};

}  // namespace

Kernel insert_barriers(const Kernel& nest) {
  Kernel result = nest;
  BarrierPlacer(result).run();
  return result;
}

}  // namespace tenon
