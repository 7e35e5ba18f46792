// SPDX-License-Identifier: MIT

#include "tenon/codegen/insert_barriers.h"

#include <algorithm>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/codegen/lane_access.h"
#include "tenon/ir/kernel_walk.h"

namespace tenon {
namespace {

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
