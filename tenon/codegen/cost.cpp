// SPDX-License-Identifier: MIT

#include "tenon/codegen/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tenon/base/text.h"
#include "tenon/codegen/cost_parts.h"

namespace tenon {
namespace {

// What does not hide behind the slowest of computing and moving.
constexpr double kSerialShare = 0.2;

// Computing and moving overlap but for a share.
void finish(const std::vector<double>& levels_s, const Target& target, PlanCost& cost) {
  const auto threads = static_cast<double>(std::max(target.threads, 1));
  const auto groups = static_cast<double>(cost.groups);
  // The thread with most groups; twice as many groups as threads even out what differs.
  double share = std::ceil(groups / threads) / groups;
  if (groups < 2 * threads && groups > 1) share *= 1.05;
  cost.compute_s = cost.vector_ops / std::max(target.mulacc_rate, 1) * 1e-6 * share;
  double sum = cost.compute_s;
  double most = cost.compute_s;
  for (size_t i = 0; i < levels_s.size(); ++i) {
    const double level_s = levels_s[i] * share;
    if (level_s > cost.memory_s) {
      const bool is_last = i + 1 == levels_s.size();
      cost.slowest_level = is_last ? "from memory" : concat("from L", i + 2);
      cost.memory_s = level_s;
    }
    sum += level_s;
    most = std::max(most, level_s);
  }
  cost.seconds = most + kSerialShare * (sum - most);
  constexpr double kGroupS = 50e-9;
  cost.seconds += kGroupS * std::ceil(groups / threads);
  if (cost.groups > 1) cost.seconds += target.fork_ns * 1e-9;
}

}  // namespace

CostModel::CostModel(const Kernel& kernel, const std::vector<Walk>& walks, const Target& target)
    : kernel_(kernel), walks_(walks), target_(target), moves_(axis_moves(walks)) {}

PlanCost CostModel::estimate(const Plan& plan) const {
  PlanCost cost;
  const std::vector<PlanNest> nests = nests_of(plan, walks_, moves_);
  add_instructions(kernel_, target_, nests, cost);
  finish(add_traffic(kernel_, target_, nests, cost), target_, cost);
  return cost;
}

std::string to_text(const PlanCost& cost) {
  std::string text;
  for (size_t i = 0; i < cost.traffic.size(); ++i)
    append(text, "L", i + 1, " ", format_bytes(static_cast<uint64_t>(cost.traffic[i])), ", ");
  return text + fmt::format("{:.3g} Mflop, {} group{}, {:.3g} us", cost.flops * 1e-6, cost.groups,
                            cost.groups == 1 ? "" : "s", cost.seconds * 1e6);
}

std::vector<std::string> reasons_of(const PlanCost& cost, const Target& target) {
  std::vector<std::string> reasons;
  const std::string computing = fmt::format("computing takes {:.3g} us", cost.compute_s * 1e6);
  std::string moving = fmt::format("moving takes {:.3g} us", cost.memory_s * 1e6);
  if (cost.memory_s > 0) append(moving, ", most of it ", cost.slowest_level);
  const bool is_computing = cost.compute_s >= cost.memory_s;
  reasons.push_back(is_computing ? computing : moving);
  reasons.push_back(is_computing ? moving : computing);
  if (cost.copied_bytes > 0) {
    reasons.push_back(
        concat("copies ", format_bytes(static_cast<uint64_t>(cost.copied_bytes)), " into stages"));
  }
  if (cost.groups < int64_t{2} * target.threads) {
    reasons.push_back(concat(cost.groups, " groups on ", target.threads, " threads"));
  }
  return reasons;
}

}  // namespace tenon
