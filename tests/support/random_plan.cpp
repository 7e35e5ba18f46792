// SPDX-License-Identifier: MIT

#include "tests/support/random_plan.h"

#include <algorithm>

#include "tenon/base/error.h"

namespace tenon::test {
namespace {

std::vector<Part> parts_in_order(const std::vector<int>& axes) {
  std::vector<Part> parts;
  for (const int axis : axes)
    parts.push_back({axis, Role::kSeq, 1});
  return parts;
}

std::vector<int> axes_of(const CompPlan& entry) {
  std::vector<int> axes;
  for (const Part& part : entry.parts)
    axes.push_back(part.axis);
  std::sort(axes.begin(), axes.end());
  return axes;
}

// Whole loops in the order of the kernel; producers before them, or as far inside as they may.
Plan ordered_plan(const Kernel& kernel, const Target& target, bool inside) {
  Plan plan = choose_plan(kernel, target);
  const auto axes_of_comp = [&](size_t comp) {
    std::vector<int> axes(std::get<Comp>(kernel.body[comp].node).axes.size());
    for (size_t i = 0; i < axes.size(); ++i)
      axes[i] = static_cast<int>(i);
    return axes;
  };
  const size_t last = plan.comps.size() - 1;
  plan.comps[last].parts = parts_in_order(axes_of_comp(last));
  const auto depth = static_cast<int>(plan.comps[last].parts.size());
  for (size_t i = 0; i < last; ++i) {
    CompPlan& entry = plan.comps[i];
    // choose_plan puts producers before all loops if they may stand nowhere else.
    const bool may_move = entry.at > 0;
    entry.at = inside && may_move ? depth : 0;
    if (entry.at == 0) entry.parts = parts_in_order(axes_of_comp(i));
  }
  const auto reason = check_plan(kernel, plan, target);
  TENON_ASSERT(!reason, "random plan: ", *reason);
  return plan;
}

size_t num_orders(const Plan& plan) {
  size_t count = 1;
  for (const CompPlan& entry : plan.comps) {
    for (size_t i = 2; i <= entry.parts.size(); ++i)
      count *= i;
    if (count > 1'000'000) return count;
  }
  return count;
}

void add_all_orders(const Plan& start, std::vector<Plan>& plans) {
  std::vector<std::vector<int>> orders;
  for (const CompPlan& entry : start.comps)
    orders.push_back(axes_of(entry));
  for (;;) {
    Plan plan = start;
    for (size_t i = 0; i < orders.size(); ++i)
      plan.comps[i].parts = parts_in_order(orders[i]);
    plans.push_back(std::move(plan));
    size_t comp = 0;  // next_permutation as an odometer over the comps
    while (comp < orders.size() && !std::next_permutation(orders[comp].begin(), orders[comp].end()))
      ++comp;
    if (comp == orders.size()) return;
  }
}

}  // namespace

LoopOrders loop_orders(const Kernel& kernel, const Target& target, size_t max_orders,
                       std::mt19937_64& random) {
  std::vector<Plan> starts{ordered_plan(kernel, target, false)};
  const Plan inside = ordered_plan(kernel, target, true);
  if (!(inside == starts[0])) starts.push_back(inside);
  size_t total = 0;
  for (const Plan& start : starts)
    total += num_orders(start);
  LoopOrders result{.plans = {}, .is_complete = total <= max_orders};
  if (result.is_complete) {
    for (const Plan& start : starts)
      add_all_orders(start, result.plans);
    return result;
  }
  for (size_t i = 0; i < max_orders; ++i) {
    Plan plan = starts[i % starts.size()];
    for (CompPlan& entry : plan.comps)
      std::shuffle(entry.parts.begin(), entry.parts.end(), random);
    result.plans.push_back(std::move(plan));
  }
  return result;
}

Plan random_plan(const Kernel& kernel, const Target& target, std::mt19937_64& random) {
  Plan plan = choose_plan(kernel, target);
  CompPlan& root = plan.comps.back();
  const Comp& root_comp = std::get<Comp>(kernel.body.back().node);
  // Root: a random order of its axes; some split, a random prefix of whole or outer parts dealt.
  std::vector<int> order(root_comp.axes.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<int>(i);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Part> grid;
  std::vector<Part> loops;
  const size_t num_grid = random() % (std::min<size_t>(order.size(), 3) + 1);
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t extent = axis_extent(root_comp.axes[static_cast<size_t>(order[i])].axis);
    const int64_t step =
        random() % 2 == 0 ? 1 : 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(extent));
    if (i < num_grid) {
      grid.push_back({order[i], Role::kGrid, step});
      if (step > 1) loops.push_back({order[i], Role::kSeq, 1});
    } else {
      if (step > 1) loops.push_back({order[i], Role::kSeq, step});
      loops.push_back({order[i], Role::kSeq, 1});
    }
  }
  // Inner parts may move outwards past other axes, but not past outer parts of their own.
  for (size_t tries = 0; tries < 4 && loops.size() > 1; ++tries) {
    const size_t at = random() % (loops.size() - 1);
    if (loops[at].axis != loops[at + 1].axis) std::swap(loops[at], loops[at + 1]);
  }
  root.parts = grid;
  root.parts.insert(root.parts.end(), loops.begin(), loops.end());
  for (size_t i = 0; i + 1 < plan.comps.size(); ++i) {
    CompPlan& entry = plan.comps[i];
    const Comp& comp = std::get<Comp>(kernel.body[i].node);
    const auto place = [&](int at) {
      entry.at = at;
      const std::vector<int64_t> box = producer_box(kernel, plan, static_cast<int>(i));
      entry.parts.clear();
      for (size_t axis = 0; axis < comp.axes.size(); ++axis) {
        const auto dim = std::find(comp.index.begin(), comp.index.end(), comp.axes[axis].axis);
        const bool is_fixed = at > 0 && dim != comp.index.end() &&
                              box[static_cast<size_t>(dim - comp.index.begin())] == 1;
        if (!is_fixed) entry.parts.push_back({static_cast<int>(axis), Role::kSeq, 1});
      }
      std::shuffle(entry.parts.begin(), entry.parts.end(), random);
    };
    // Above the loops of the grid a producer is computed by each group: now and then only.
    const size_t lowest = random() % 8 == 0 ? 0 : grid.size();
    place(static_cast<int>(lowest + random() % (root.parts.size() + 1 - lowest)));
    if (check_plan(kernel, plan, target)) place(0);
  }
  return plan;
}

ManyPlans many_plans(const Kernel& kernel, const Target& target, uint64_t seed) {
  constexpr size_t kMaxOrders = 24;
  std::mt19937_64 random(seed);
  LoopOrders orders = loop_orders(kernel, target, kMaxOrders, random);
  if (!orders.is_complete) orders.plans.resize(4);
  ManyPlans result{.plans = {choose_plan(kernel, target)}, .has_every_order = orders.is_complete};
  for (Plan& plan : orders.plans)
    result.plans.push_back(std::move(plan));
  for (int i = 0; i < 2; ++i)
    result.plans.push_back(random_plan(kernel, target, random));
  return result;
}

}  // namespace tenon::test
