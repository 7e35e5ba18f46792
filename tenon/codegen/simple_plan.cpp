// The plan of scalar loops in order. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/placement.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

// Elementary operations that a group should have at least, so that the loop over groups costs
// nothing against its body.
constexpr int64_t kMinGroupWork = 4096;
constexpr int64_t kSimpleGroupsPerThread = 16;

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
    if (!is_dealing || grid.size() == kMaxGridDims) {
      loops.push_back({axis, Role::kSeq, 1});
      continue;
    }
    const int64_t step = std::clamp<int64_t>(kMinGroupWork / std::max<int64_t>(rest, 1), 1, extent);
    grid.push_back({axis, Role::kGrid, step});
    if (step > 1) loops.push_back({axis, Role::kSeq, 1});
    groups *= (extent + step - 1) / step;
    is_dealing = step == 1 && groups < kSimpleGroupsPerThread * target.threads;
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

using RowIndex = std::vector<Node>;  // by axis of a comp

// The index as a function of the root's axes; null: it is none.
Node in_root_axes(const Node& index, const Comp& reading, const RowIndex& known) {
  std::vector<std::pair<Node, Node>> values;
  for (const Node& node : topological_order(std::span(&index, 1))) {
    if (node.op() == Op::kLoad) return Node();
    if (node.op() != Op::kAxis) continue;
    for (size_t axis = 0; axis < reading.axes.size(); ++axis) {
      if (!(reading.axes[axis].axis == node)) continue;
      if (!known[axis]) return Node();
      values.emplace_back(node, known[axis]);
    }
  }
  return simplify_index(substitute(index, values));
}

RowIndex row_index(const Kernel& kernel, int number, const std::vector<RowIndex>& known) {
  const Comp& comp = comp_at(kernel, number);
  std::vector<Node> by_dim(comp.index.size());
  bool is_first = true;
  for (size_t reader = static_cast<size_t>(number) + 1; reader < kernel.body.size(); ++reader) {
    const Comp& reading = comp_at(kernel, static_cast<int>(reader));
    for (const Node& node : topological_order(std::span(&reading.value, 1))) {
      if (node.op() != Op::kLoad || load_parts(node).buffer != comp.dst) continue;
      for (size_t dim = 0; dim < by_dim.size(); ++dim) {
        const Node index = in_root_axes(load_parts(node).index[dim], reading, known[reader]);
        by_dim[dim] = is_first || by_dim[dim] == index ? index : Node();
      }
      is_first = false;
    }
  }
  RowIndex result(comp.axes.size());
  for (size_t axis = 0; axis < result.size(); ++axis) {
    for (size_t dim = 0; dim < by_dim.size(); ++dim) {
      if (comp.index[dim] == comp.axes[axis].axis) result[axis] = by_dim[dim];
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<Node>> row_indices(const Kernel& kernel) {
  const size_t last = kernel.body.size() - 1;
  std::vector<RowIndex> indices(kernel.body.size());
  for (const AxisUse& use : comp_at(kernel, static_cast<int>(last)).axes)
    indices[last].push_back(use.axis);
  for (size_t number = last; number-- > 0;)
    indices[number] = row_index(kernel, static_cast<int>(number), indices);
  return indices;
}

std::vector<bool> row_axes(const Kernel& kernel) {
  const std::vector<RowIndex> indices = row_indices(kernel);
  const RowIndex& axes = indices.back();
  std::vector<bool> is_row(axes.size(), true);
  const auto number_of = [&](const Node& axis) {
    return static_cast<size_t>(std::find(axes.begin(), axes.end(), axis) - axes.begin());
  };
  for (std::vector<bool> before; before != is_row;) {
    before = is_row;
    for (const RowIndex& own : indices) {
      std::vector<bool> is_used(axes.size(), false);
      for (const Node& index : own) {
        if (!index) continue;
        std::vector<size_t> used;
        for (const Node& node : topological_order(std::span(&index, 1))) {
          if (node.op() == Op::kAxis) used.push_back(number_of(node));
        }
        const bool is_fixed =
            std::all_of(used.begin(), used.end(), [&](size_t axis) { return is_row[axis]; });
        for (const size_t axis : used)
          is_used[axis] = is_used[axis] || is_fixed;
      }
      for (size_t axis = 0; axis < is_row.size(); ++axis)
        is_row[axis] = is_row[axis] && is_used[axis];
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
