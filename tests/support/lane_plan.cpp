// SPDX-License-Identifier: MIT

#include "tests/support/lane_plan.h"

#include <algorithm>

#include "tests/support/random_plan.h"

namespace tenon::test {
namespace {

// One to three dims; now and then of all the lanes there are, which take long to evaluate.
std::vector<int64_t> random_lanes(const Target& target, std::mt19937_64& random) {
  std::vector<int64_t> lanes;
  int64_t left = random() % 8 == 0 ? target.max_lanes : std::min<int64_t>(target.max_lanes, 24);
  do {
    constexpr int64_t kCounts[] = {1, 2, 3, 4, 5, 8, 16, 25, 31, 32, 63, 64};
    const int64_t count = std::min(left, kCounts[random() % std::size(kCounts)]);
    lanes.push_back(count);
    left /= count;
  } while (lanes.size() < 3 && left > 1 && random() % 2 == 0);
  return lanes;
}

// Deals the steps of a loop, or an unrolled part, to the lanes of the dim, or to some of them.
bool deal(CompPlan& entry, int dim, int64_t lanes, std::mt19937_64& random) {
  if (entry.parts.empty()) return false;
  const size_t at = random() % entry.parts.size();
  Part part = entry.parts[at];
  if (part.role == Role::kVec || part.role == Role::kLane) return false;
  if (part.role == Role::kUnroll) {
    entry.parts.erase(entry.parts.begin() + static_cast<ptrdiff_t>(at));
  } else {
    entry.parts[at].step *= random() % 4 == 0 ? 1 + static_cast<int64_t>(random()) % lanes : lanes;
    entry.parts[at].step = std::max<int64_t>(entry.parts[at].step, part.step);
  }
  part.role = Role::kLane;
  part.tail = Tail::kNone;
  part.dim = dim;
  entry.parts.insert(entry.parts.begin() + entry.num_loops(), part);
  return true;
}

}  // namespace

std::optional<Plan> random_lane_plan(const Kernel& kernel, const Target& target,
                                     std::mt19937_64& random) {
  for (int tries = 0; tries < 40; ++tries) {
    const auto without = random_plan(kernel, target, random);
    if (!without) continue;
    Plan plan = *without;
    plan.lanes = random_lanes(target, random);
    bool is_dealt = false;
    for (CompPlan& entry : plan.comps) {
      for (size_t dim = 0; dim < plan.lanes.size(); ++dim) {
        if (random() % 4 == 0) continue;
        CompPlan dealt = entry;
        if (!deal(dealt, static_cast<int>(dim), plan.lanes[dim], random)) continue;
        Plan changed = plan;
        changed.comps[static_cast<size_t>(&entry - plan.comps.data())] = dealt;
        if (check_plan(kernel, changed, target)) continue;
        entry = std::move(dealt);
        is_dealt = true;
      }
    }
    if (is_dealt && !check_plan(kernel, plan, target)) return plan;
  }
  return std::nullopt;
}

}  // namespace tenon::test
