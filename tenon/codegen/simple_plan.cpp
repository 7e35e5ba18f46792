// The plan of scalar loops in order. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/placement.h"

namespace tenon {
namespace {

// Elementary operations that a group should have at least, so that the loop over groups costs
// nothing against its body.
constexpr int64_t kMinGroupWork = 4096;
constexpr int64_t kGroupsPerThread = 16;
constexpr int kMaxGridDims = 3;

const Comp& comp_at(const Kernel& kernel, int number) {
  return std::get<Comp>(kernel.body[static_cast<size_t>(number)].node);
}

int64_t extent_of(const AxisUse& use) {
  return std::max<int64_t>(axis_extent(use.axis), 1);
}

// Operations at one point of the root: all reductions in front of it.
int64_t work_of(const Kernel& kernel) {
  int64_t work = 1;
  for (size_t i = 0; i + 1 < kernel.body.size(); ++i) {
    int64_t reduced = 1;
    for (const AxisUse& use : comp_at(kernel, static_cast<int>(i)).axes) {
      if (axis_kind(use.axis) == AxisKind::kRed) reduced *= extent_of(use);
    }
    work += reduced;
  }
  return work;
}

// Deals the outer axes of the root over groups until there is work for all threads and each group
// has enough of it; the rest are loops.
std::vector<Part> deal_root(const Kernel& kernel, const Comp& root, const Target& target) {
  std::vector<Part> grid;
  std::vector<Part> loops;
  int64_t rest = work_of(kernel);
  for (const AxisUse& use : root.axes)
    rest *= extent_of(use);
  int64_t groups = 1;
  bool is_dealing = true;
  for (size_t i = 0; i < root.axes.size(); ++i) {
    const int axis = static_cast<int>(i);
    const int64_t extent = extent_of(root.axes[i]);
    rest /= extent;
    if (!is_dealing || static_cast<int>(grid.size()) == kMaxGridDims) {
      loops.push_back({axis, Role::kSeq, 1});
      continue;
    }
    const int64_t step = std::clamp<int64_t>(kMinGroupWork / std::max<int64_t>(rest, 1), 1, extent);
    grid.push_back({axis, Role::kGrid, step});
    if (step > 1) loops.push_back({axis, Role::kSeq, 1});
    groups *= (extent + step - 1) / step;
    is_dealing = step == 1 && groups < kGroupsPerThread * target.threads;
  }
  grid.insert(grid.end(), loops.begin(), loops.end());
  return grid;
}

std::vector<Part> loops_in_order(const Comp& comp) {
  std::vector<Part> parts;
  for (size_t i = 0; i < comp.axes.size(); ++i)
    parts.push_back({static_cast<int>(i), Role::kSeq, 1});
  return parts;
}

// Loops over the axes that the place does not fix, red ones inside.
std::vector<Part> free_loops(const Comp& comp, const std::vector<AxisRange>& ranges) {
  std::vector<Part> parts;
  for (size_t i = 0; i < comp.axes.size(); ++i) {
    if (!ranges[i].is_bound || ranges[i].length > 1) {
      parts.push_back({static_cast<int>(i), Role::kSeq, 1});
    }
  }
  return parts;
}

bool has_par_loop(const Comp& comp, const std::vector<Part>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
    return axis_kind(comp.axes[static_cast<size_t>(part.axis)].axis) == AxisKind::kPar;
  });
}

}  // namespace

Plan simple_plan(const Kernel& kernel, const Target& target) {
  const int last = static_cast<int>(kernel.body.size()) - 1;
  const Comp& root = comp_at(kernel, last);
  const auto plan_with = [&](const std::vector<Part>& root_parts, int depth) {
    Plan plan;
    plan.comps.push_back({.comp = last, .how = How::kRoot, .at = {}, .parts = root_parts});
    bool is_pointwise = true;
    // Readers before what they read.
    for (int i = last - 1; i >= 0; --i) {
      const LoopPlace place{last, depth};
      const Comp& comp = comp_at(kernel, i);
      CompPlan entry{.comp = i, .how = How::kBefore, .at = place};
      const auto ranges = ranges_at(kernel, plan, i, How::kBefore, place);
      if (ranges) entry.parts = free_loops(comp, *ranges);
      is_pointwise = is_pointwise && ranges && !has_par_loop(comp, entry.parts);
      plan.comps.push_back(std::move(entry));
    }
    return std::pair(plan, is_pointwise);
  };
  const std::vector<Part> dealt = deal_root(kernel, root, target);
  auto [plan, is_pointwise] = plan_with(dealt, static_cast<int>(dealt.size()));
  // Intermediates that are not read point by point are computed whole, once: one group.
  return is_pointwise ? plan : plan_with(loops_in_order(root), 0).first;
}

}  // namespace tenon
