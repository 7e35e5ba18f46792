// The plan for loops in order, and its check. SPDX-License-Identifier: MIT

#include "tenon/codegen/plan.h"

#include <algorithm>

#include "tenon/base/text.h"

namespace tenon {
namespace {

// Elementary operations that a group should have at least. Estimated, not measured: to hand out a
// group is an atomic count and a call, about a hundred of them, a few percent of this.
constexpr int64_t kMinGroupWork = 4096;
// A thread that starts late or meets long groups then idles for a sixteenth of the time at most.
constexpr int64_t kGroupsPerThread = 16;
constexpr int kMaxGridDims = 3;           // of a linear program
constexpr int64_t kGroupAlignBytes = 64;  // of each buffer in group memory: a line of the cache

const Comp& comp_at(const Kernel& kernel, int number) {
  return std::get<Comp>(kernel.body[static_cast<size_t>(number)].node);
}

// Dim by dim, `comp` writes at a par axis of its own over the whole extent (dims of extent 1: at
// zero).
bool writes_along_own_axes(const Comp& comp, const std::vector<int64_t>& dims) {
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const Node& index = comp.index[dim];
    if (dims[dim] == 1 && is_const(index) && idx_value(index) == 0) continue;
    const bool is_whole_axis = index.op() == Op::kAxis && axis_kind(index) == AxisKind::kPar &&
                               axis_extent(index) == dims[dim];
    if (!is_whole_axis) return false;
    if (std::count(comp.index.begin(), comp.index.end(), index) != 1) return false;
  }
  return true;
}

// Every load of `buffer` in the value of `comp` is at the point that `comp` writes.
bool reads_pointwise(const Comp& comp, int buffer) {
  std::vector<Node> roots{comp.value};
  for (const Node& node : topological_order(roots)) {
    if (node.op() != Op::kLoad || load_parts(node).buffer != buffer) continue;
    if (!std::equal(comp.index.begin(), comp.index.end(), load_parts(node).index.begin(),
                    load_parts(node).index.end())) {
      return false;
    }
  }
  return true;
}

bool reads(const Comp& comp, int buffer) {
  std::vector<Node> roots{comp.value};
  for (const Node& node : topological_order(roots)) {
    if (node.op() == Op::kLoad && load_parts(node).buffer == buffer) return true;
  }
  return false;
}

// Comp `number` alone writes its buffer, and only the root reads it, pointwise.
bool is_read_by_root_alone(const Kernel& kernel, int number) {
  const int buffer = comp_at(kernel, number).dst;
  const int last = static_cast<int>(kernel.body.size()) - 1;
  for (int other = 0; other < last; ++other) {
    const Comp& comp = comp_at(kernel, other);
    if (other != number && comp.dst == buffer) return false;
    if (other > number && reads(comp, buffer)) return false;
  }
  return reads_pointwise(comp_at(kernel, last), buffer);
}

// The tmp of comp `number` can be computed point by point inside the loops of the root.
bool is_pointwise_producer(const Kernel& kernel, int number) {
  const Comp& comp = comp_at(kernel, number);
  const Comp& root = comp_at(kernel, static_cast<int>(kernel.body.size()) - 1);
  const BufferDecl& tmp = kernel.buffers[static_cast<size_t>(comp.dst)];
  const BufferDecl& out = kernel.buffers[static_cast<size_t>(root.dst)];
  if (tmp.access != BufferAccess::kTmp || tmp.dims != out.dims) return false;
  if (comp.combine && !comp.start) return false;
  if (!comp.guard.empty() || !root.guard.empty()) return false;
  return writes_along_own_axes(comp, tmp.dims) && writes_along_own_axes(root, tmp.dims) &&
         is_read_by_root_alone(kernel, number);
}

int64_t work_of(const Kernel& kernel) {
  int64_t work = 1;
  for (size_t i = 0; i + 1 < kernel.body.size(); ++i) {
    int64_t reduced = 1;
    for (const AxisUse& use : std::get<Comp>(kernel.body[i].node).axes) {
      if (axis_kind(use.axis) == AxisKind::kRed)
        reduced *= std::max<int64_t>(axis_extent(use.axis), 1);
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
    rest *= std::max<int64_t>(axis_extent(use.axis), 1);
  int64_t groups = 1;
  bool is_dealing = true;
  for (size_t i = 0; i < root.axes.size(); ++i) {
    const int axis = static_cast<int>(i);
    const int64_t extent = std::max<int64_t>(axis_extent(root.axes[i].axis), 1);
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
  for (size_t i = 0; i < comp.axes.size(); ++i) {
    parts.push_back({static_cast<int>(i), Role::kSeq, 1});
  }
  return parts;
}

// Part `i` is dealt over groups: of the root, the outermost of its axis, behind grid parts only.
std::optional<std::string> check_grid_part(const CompPlan& plan, size_t i, bool is_dealable) {
  if (plan.how != How::kRoot || !is_dealable)
    return concat("axis ", plan.parts[i].axis, " cannot be dealt over groups");
  if (i > 0 && plan.parts[i - 1].role != Role::kGrid) return "grid parts must come first";
  if (i >= kMaxGridDims) return concat("more than ", kMaxGridDims, " grid dimensions");
  return std::nullopt;
}

// The parts of one Comp: known axes, each covered down to step 1, outer steps multiples of inner.
std::optional<std::string> check_parts(const Comp& comp, const CompPlan& plan,
                                       const std::vector<bool>& needed) {
  std::vector<int64_t> last_step(comp.axes.size(), 0);
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Part& part = plan.parts[i];
    if (part.axis < 0 || static_cast<size_t>(part.axis) >= comp.axes.size()) {
      return concat("comp ", plan.comp, " has no axis ", part.axis);
    }
    const Node& axis = comp.axes[static_cast<size_t>(part.axis)].axis;
    int64_t& outer = last_step[static_cast<size_t>(part.axis)];
    if (part.step < 1 || (outer != 0 && (part.step >= outer || outer % part.step != 0))) {
      return concat("step ", part.step, " of axis ", part.axis,
                    " does not divide the step around it");
    }
    if (part.role != Role::kSeq && part.role != Role::kGrid)
      return "only grid and seq parts are built";
    if (part.role == Role::kGrid) {
      const bool is_dealable = axis_kind(axis) == AxisKind::kPar && outer == 0;
      if (auto reason = check_grid_part(plan, i, is_dealable)) return reason;
    }
    outer = part.step;
  }
  for (size_t i = 0; i < comp.axes.size(); ++i) {
    if (needed[i] && last_step[i] != 1)
      return concat("axis ", i, " of comp ", plan.comp, " is not covered");
    if (!needed[i] && last_step[i] != 0)
      return concat("axis ", i, " of comp ", plan.comp, " is bound twice");
    if (axis_kind(comp.axes[i].axis) == AxisKind::kScan) return "scan axes have no loop form yet";
  }
  return std::nullopt;
}

// Comp `i` stands in its order, as the root or before it, inside loops that the root has.
std::optional<std::string> check_place(const Kernel& kernel, const Plan& plan, size_t i) {
  const CompPlan& entry = plan.comps[i];
  const CompPlan& root = plan.comps.back();
  const bool is_root = i + 1 == plan.comps.size();
  if (entry.comp != static_cast<int>(i)) return "comps must be in the order of the kernel";
  if ((entry.how == How::kRoot) != is_root)
    return "the last comp is the root, all others are before it";
  if (is_root) return std::nullopt;
  if (entry.at < 0 || static_cast<size_t>(entry.at) > root.parts.size())
    return concat("comp ", i, " is placed inside ", entry.at, " of ", root.parts.size(), " loops");
  if (entry.at > 0 && !is_pointwise_producer(kernel, entry.comp))
    return concat("comp ", i, " is read at other places than the root's point; it must stand at 0");
  return std::nullopt;
}

// Per axis of comp `i`: its parts must cover it; the loops of the root around it do not.
std::vector<bool> axes_to_cover(const Kernel& kernel, const Plan& plan, size_t i) {
  const Comp& comp = comp_at(kernel, static_cast<int>(i));
  const CompPlan& entry = plan.comps[i];
  std::vector<bool> needed(comp.axes.size(), true);
  if (entry.how == How::kRoot || entry.at == 0) return needed;
  const std::vector<int64_t> box = producer_box(kernel, plan, entry.comp);
  for (size_t axis = 0; axis < comp.axes.size(); ++axis) {
    const auto dim = std::find(comp.index.begin(), comp.index.end(), comp.axes[axis].axis);
    if (dim == comp.index.end()) continue;
    needed[axis] = box[static_cast<size_t>(dim - comp.index.begin())] > 1;
  }
  return needed;
}

// What comp `i` takes of the group's memory; a single element stands in a register.
int64_t group_bytes_of(const Kernel& kernel, const Plan& plan, size_t i) {
  const CompPlan& entry = plan.comps[i];
  if (entry.how == How::kRoot) return 0;
  int64_t elements = 1;
  for (const int64_t extent : producer_box(kernel, plan, entry.comp))
    elements *= extent;
  if (elements <= 1) return 0;
  const Comp& comp = comp_at(kernel, entry.comp);
  const DType dtype = kernel.buffers[static_cast<size_t>(comp.dst)].dtype;
  return (elements * dtype_size_bytes(dtype) + kGroupAlignBytes - 1) / kGroupAlignBytes *
         kGroupAlignBytes;
}

}  // namespace

std::optional<std::string> check_plan(const Kernel& kernel, const Plan& plan,
                                      const Target& target) {
  if (plan.comps.size() != kernel.body.size()) return "the plan must name every comp once";
  int64_t group_bytes = 0;
  for (size_t i = 0; i < plan.comps.size(); ++i) {
    if (auto reason = check_place(kernel, plan, i)) return reason;
    const Comp& comp = comp_at(kernel, static_cast<int>(i));
    if (auto reason = check_parts(comp, plan.comps[i], axes_to_cover(kernel, plan, i)))
      return reason;
    group_bytes += group_bytes_of(kernel, plan, i);
  }
  if (group_bytes <= target.max_local_bytes) return std::nullopt;
  return concat("intermediates take ", group_bytes, " bytes of group memory, the target has ",
                target.max_local_bytes);
}

std::vector<int64_t> producer_box(const Kernel& kernel, const Plan& plan, int number) {
  const Comp& comp = comp_at(kernel, number);
  std::vector<int64_t> box = kernel.buffers[static_cast<size_t>(comp.dst)].dims;
  const CompPlan& entry = plan.comps[static_cast<size_t>(number)];
  const CompPlan& root = plan.comps.back();
  const Comp& root_comp = comp_at(kernel, root.comp);
  for (int i = 0; i < entry.at; ++i) {
    const Part& part = root.parts[static_cast<size_t>(i)];
    const Node& axis = root_comp.axes[static_cast<size_t>(part.axis)].axis;
    const auto dim = std::find(root_comp.index.begin(), root_comp.index.end(), axis);
    if (dim == root_comp.index.end()) continue;
    int64_t& extent = box[static_cast<size_t>(dim - root_comp.index.begin())];
    extent = std::min(extent, part.step);
  }
  return box;
}

Plan choose_plan(const Kernel& kernel, const Target& target) {
  Plan plan;
  const int last = static_cast<int>(kernel.body.size()) - 1;
  bool is_pointwise = true;
  for (int i = 0; i < last; ++i)
    is_pointwise = is_pointwise && is_pointwise_producer(kernel, i);
  const Comp& root = comp_at(kernel, last);
  // Intermediates that are not read point by point are computed whole, once: one group.
  const std::vector<Part> root_parts =
      is_pointwise ? deal_root(kernel, root, target) : loops_in_order(root);
  for (int i = 0; i < last; ++i) {
    const Comp& comp = comp_at(kernel, i);
    CompPlan entry{.comp = i, .how = How::kBefore};
    entry.at = is_pointwise ? static_cast<int>(root_parts.size()) : 0;
    for (size_t axis = 0; axis < comp.axes.size(); ++axis) {
      const bool is_covered = is_pointwise && std::count(comp.index.begin(), comp.index.end(),
                                                         comp.axes[axis].axis) != 0;
      if (!is_covered) entry.parts.push_back({static_cast<int>(axis), Role::kSeq, 1});
    }
    plan.comps.push_back(std::move(entry));
  }
  plan.comps.push_back({.comp = last, .how = How::kRoot, .at = 0, .parts = root_parts});
  return plan;
}

}  // namespace tenon
