// What explain prints of a cost. SPDX-License-Identifier: MIT

#include <fmt/format.h>

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/codegen/cost.h"

namespace tenon {

std::string to_text(const PlanCost& cost) {
  std::string text;
  for (size_t i = 0; i < cost.traffic.size(); ++i)
    append(text, "L", i + 1, " ", format_bytes(static_cast<uint64_t>(cost.traffic[i])), ", ");
  return text + fmt::format("{:.3g} Mflop, {} group{}, {:.3g} us", cost.flops * 1e-6, cost.groups,
                            cost.groups == 1 ? "" : "s", cost.seconds * 1e6);
}

std::vector<std::string> reasons_of(const PlanCost& cost, const Target& target) {
  std::vector<std::pair<double, std::string>> weighed;
  const auto add = [&](double seconds, std::string what) {
    weighed.emplace_back(seconds, fmt::format("{} {:.3g} us", what, seconds * 1e6));
  };
  add(cost.compute_s, "computing takes");
  add(cost.memory_s, "moving takes");
  if (cost.memory_s > 0) append(weighed.back().second, ", most of it ", cost.slowest_level);
  if (cost.copied_bytes > 0) {
    const std::string bytes = format_bytes(static_cast<uint64_t>(cost.copied_bytes));
    add(cost.copy_s, concat("copying ", bytes, " into stages takes"));
  }
  std::stable_sort(weighed.begin(), weighed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> reasons;
  for (auto& [seconds, text] : weighed)
    reasons.push_back(std::move(text));
  if (cost.groups < int64_t{2} * target.threads) {
    reasons.push_back(concat(cost.groups, " groups on ", target.threads, " threads"));
  }
  return reasons;
}

}  // namespace tenon
