// Candidates of all families, priced and in order. SPDX-License-Identifier: MIT

#include "tenon/codegen/choose_plan.h"

#include <algorithm>
#include <numeric>

#include "tenon/codegen/plan_families.h"
#include "tenon/codegen/unit_plans.h"

namespace tenon {
namespace {

bool has_packed(const std::vector<Walk>& walks) {
  return std::ranges::any_of(walks, [](const Walk& walk) {
    return std::ranges::any_of(walk.accesses, &Access::is_packed);
  });
}

std::vector<Candidate> candidates(const PlanInput& input) {
  std::vector<Candidate> plans;
  const std::vector<Walk>& walks = input.walks;
  const bool is_pair = walks.size() == 2 && is_read(walks[1], walks[0].comp->dst);
  // Panels are for the tiles that they were cut for; the other families go by strides.
  const bool is_packed = has_packed(walks);
  if (input.target.max_lanes > 1) {
    add_lane_plans(input, plans);
  } else if (input.target.max_vector_bytes > 0) {
    if (is_pair) add_tile_plans(input, plans);
    if (!is_packed) {
      add_unit_plans(input.kernel, input.target, plans);
      if (walks.size() == 1) add_stream_plans(input, plans);
      if (is_pair) add_dot_plans(input, plans);
      add_row_plans(input, plans);
      add_block_plans(input, plans);
    }
  }
  plans.push_back({simple_plan(input.kernel, input.target), "simple"});
  return plans;
}

}  // namespace

std::vector<PlanChoice> choose_plans(const Kernel& kernel, const Target& target, size_t count) {
  const std::vector<Walk> walks = walks_of(kernel, target);
  std::vector<Candidate> plans = candidates({kernel, target, walks});
  const CostModel model(kernel, walks, target);
  std::vector<PlanCost> costs;
  for (const Candidate& candidate : plans)
    costs.push_back(model.estimate(candidate.plan));
  std::vector<size_t> order(plans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return costs[a].seconds < costs[b].seconds; });
  std::vector<PlanChoice> choices;
  for (const size_t i : order) {
    if (choices.size() == count) break;
    // Checking places the comps, which takes longer than pricing: only until enough fit.
    const bool is_known = std::any_of(choices.begin(), choices.end(), [&](const PlanChoice& known) {
      return known.plan == plans[i].plan;
    });
    if (is_known || check_plan(kernel, plans[i].plan, target)) continue;
    choices.push_back({std::move(plans[i].plan), plans[i].family, std::move(costs[i])});
  }
  if (choices.empty()) {
    Plan simple = simple_plan(kernel, target);
    PlanCost cost = model.estimate(simple);
    choices.push_back({std::move(simple), "simple", std::move(cost)});
  }
  return choices;
}

Plan choose_plan(const Kernel& kernel, const Target& target) {
  return choose_plans(kernel, target, 1).front().plan;
}

PlanCost cost_of(const Kernel& kernel, const Plan& plan, const Target& target) {
  const std::vector<Walk> walks = walks_of(kernel, target);
  return CostModel(kernel, walks, target).estimate(plan);
}

}  // namespace tenon
