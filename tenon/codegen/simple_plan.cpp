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

// Deals the outer axes of the root, in the given order, over groups until there is work for all
// threads and each group has enough of it; the rest are loops.
std::vector<Part> deal_root(const Kernel& kernel, const Comp& root, const std::vector<size_t>& axes,
                            const Target& target) {
  std::vector<Part> grid;
  std::vector<Part> loops;
  int64_t rest = work_of(kernel);
  for (const AxisUse& use : root.axes)
    rest *= extent_of(use);
  int64_t groups = 1;
  bool is_dealing = true;
  for (const size_t i : axes) {
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

using Labels = std::vector<int>;  // by axis of a comp: the root's axis that it stands for, or -1

Labels axis_labels(const Kernel& kernel, int number, const std::vector<Labels>& known) {
  const Comp& comp = comp_at(kernel, number);
  constexpr int kUnknown = -2;
  Labels by_dim(comp.index.size(), kUnknown);
  for (size_t reader = static_cast<size_t>(number) + 1; reader < kernel.body.size(); ++reader) {
    const Comp& reading = comp_at(kernel, static_cast<int>(reader));
    for (const Node& node : topological_order(std::span(&reading.value, 1))) {
      if (node.op() != Op::kLoad || load_parts(node).buffer != comp.dst) continue;
      for (size_t dim = 0; dim < by_dim.size(); ++dim) {
        int label = -1;
        for (size_t axis = 0; axis < reading.axes.size(); ++axis) {
          if (reading.axes[axis].axis == load_parts(node).index[dim]) label = known[reader][axis];
        }
        by_dim[dim] = by_dim[dim] == kUnknown || by_dim[dim] == label ? label : -1;
      }
    }
  }
  Labels labels(comp.axes.size(), -1);
  for (size_t axis = 0; axis < labels.size(); ++axis) {
    for (size_t dim = 0; dim < by_dim.size(); ++dim) {
      if (comp.index[dim] == comp.axes[axis].axis) labels[axis] = std::max(by_dim[dim], -1);
    }
  }
  return labels;
}

}  // namespace

std::vector<std::vector<int>> row_labels(const Kernel& kernel) {
  const size_t last = kernel.body.size() - 1;
  std::vector<Labels> labels(kernel.body.size());
  const size_t num_axes = comp_at(kernel, static_cast<int>(last)).axes.size();
  for (size_t axis = 0; axis < num_axes; ++axis)
    labels[last].push_back(static_cast<int>(axis));
  for (size_t number = last; number-- > 0;)
    labels[number] = axis_labels(kernel, static_cast<int>(number), labels);
  return labels;
}

std::vector<bool> row_axes(const Kernel& kernel) {
  const std::vector<Labels> labels = row_labels(kernel);
  std::vector<bool> is_row(labels.back().size(), true);
  for (const Labels& own : labels) {
    for (size_t axis = 0; axis < is_row.size(); ++axis) {
      const bool is_there = std::find(own.begin(), own.end(), static_cast<int>(axis)) != own.end();
      is_row[axis] = is_row[axis] && is_there;
    }
  }
  return is_row;
}

Plan simple_plan(const Kernel& kernel, const Target& target) {
  const int last = static_cast<int>(kernel.body.size()) - 1;
  const Comp& root = comp_at(kernel, last);
  const auto plan_with = [&](const std::vector<Part>& root_parts, int depth) {
    Plan plan;
    plan.comps.push_back({.comp = last, .how = How::kRoot, .at = {}, .parts = root_parts});
    // Readers before what they read.
    for (int i = last - 1; i >= 0; --i) {
      const LoopPlace place{last, depth};
      CompPlan entry{.comp = i, .how = How::kBefore, .at = place};
      const auto ranges = ranges_at(kernel, plan, i, How::kBefore, place);
      if (ranges) entry.parts = free_loops(comp_at(kernel, i), *ranges);
      plan.comps.push_back(std::move(entry));
    }
    return plan;
  };
  // Rows are dealt and looped over outside; intermediates stand where one row is computed. Without
  // row axes they are computed whole, once: one group.
  const std::vector<bool> is_row = row_axes(kernel);
  std::vector<size_t> rows;
  std::vector<size_t> others;
  for (size_t axis = 0; axis < is_row.size(); ++axis)
    (is_row[axis] ? rows : others).push_back(axis);
  if (rows.empty() && last > 0) return plan_with(loops_in_order(root), 0);
  std::vector<Part> parts = deal_root(kernel, root, rows, target);
  const int depth = static_cast<int>(parts.size());
  for (const size_t axis : others)
    parts.push_back({static_cast<int>(axis), Role::kSeq, 1});
  return plan_with(parts, depth);
}

}  // namespace tenon
