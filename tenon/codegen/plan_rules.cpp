// SPDX-License-Identifier: MIT

#include "tenon/codegen/plan_rules.h"

#include <algorithm>

namespace tenon {

int CompPlan::num_loops() const {
  return static_cast<int>(std::count_if(parts.begin(), parts.end(),
                                        [](const Part& part) { return is_loop(part.role); }));
}

std::vector<Node> loads_of(const Comp& comp, int buffer) {
  std::vector<Node> roots{comp.value};
  roots.insert(roots.end(), comp.guard.begin(), comp.guard.end());
  std::vector<Node> loads;
  for (const Node& node : topological_order(roots)) {
    if (node.op() == Op::kLoad && load_parts(node).buffer == buffer) loads.push_back(node);
  }
  return loads;
}

bool uses_axis(const Node& expr, const Node& axis) {
  const std::vector<Node> nodes = topological_order(std::span(&expr, 1));
  return std::find(nodes.begin(), nodes.end(), axis) != nodes.end();
}

bool moves_alone(const Comp& comp, std::span<const Node> index, size_t axis) {
  for (const Node& dim : index) {
    if (!uses_axis(dim, comp.axes[axis].axis)) continue;
    for (size_t i = 0; i < comp.axes.size(); ++i) {
      if (i != axis && uses_axis(dim, comp.axes[i].axis)) return false;
    }
  }
  return true;
}

std::vector<int> check_entries(const Kernel& kernel, const Plan& plan) {
  std::vector<int> entry_of(kernel.body.size(), -1);
  if (plan.lanes.size() > kMaxGridDims) refuse_plan("more than ", kMaxGridDims, " lane dims");
  for (size_t i = 0; i < plan.comps.size(); ++i) {
    const CompPlan& entry = plan.comps[i];
    if (entry.comp < 0 || static_cast<size_t>(entry.comp) >= kernel.body.size()) {
      refuse_plan("there is no comp ", entry.comp);
    }
    int& known = entry_of[static_cast<size_t>(entry.comp)];
    if (known >= 0) refuse_plan("comp ", entry.comp, " is named twice");
    if ((entry.how == How::kRoot) != (i == 0))
      refuse_plan("the first entry is the root, and no other");
    if (i > 0) {
      const int around = entry.at.comp;
      if (around < 0 || static_cast<size_t>(around) >= kernel.body.size() ||
          entry_of[static_cast<size_t>(around)] < 0) {
        refuse_plan("comp ", entry.comp, " is placed at a comp that has no place yet");
      }
      const CompPlan& at = plan.comps[static_cast<size_t>(entry_of[static_cast<size_t>(around)])];
      if (entry.at.depth < 0 || entry.at.depth > at.num_loops()) {
        refuse_plan("comp ", entry.comp, " is placed inside ", entry.at.depth, " of ",
                    at.num_loops(), " loops");
      }
    }
    known = static_cast<int>(i);
    check_parts(kernel, entry, plan.lanes);
  }
  return entry_of;
}

void check_parts(const Kernel& kernel, const CompPlan& entry, std::span<const int64_t> lanes) {
  const Comp& comp = std::get<Comp>(kernel.body[static_cast<size_t>(entry.comp)].node);
  bool has_instance = false;
  bool has_seq = false;
  size_t num_grid = 0;
  int num_vec = 0;
  std::vector<bool> has_dim(lanes.size(), false);
  int num_depth = 0;  // unit parts, of red and of par axes
  int num_sides = 0;
  int64_t depth_step = 1;
  for (const Part& part : entry.parts) {
    if (part.axis < 0 || static_cast<size_t>(part.axis) >= comp.axes.size()) {
      refuse_plan("comp ", entry.comp, " has no axis ", part.axis);
    }
    if (part.step < 1) refuse_plan("a step of axis ", part.axis, " is ", part.step);
    const AxisKind kind = axis_kind(comp.axes[static_cast<size_t>(part.axis)].axis);
    if (kind == AxisKind::kScan) refuse_plan("scan axes have no loop form yet");
    if (is_loop(part.role)) {
      if (has_instance) refuse_plan("loops must stand outside of unroll and vec parts");
      if (part.role == Role::kGrid) {
        if (entry.how != How::kRoot || kind != AxisKind::kPar) {
          refuse_plan("axis ", part.axis, " of comp ", entry.comp, " cannot be dealt over groups");
        }
        if (has_seq) refuse_plan("grid parts must come first");
        if (++num_grid > kMaxGridDims) refuse_plan("more than ", kMaxGridDims, " grid dimensions");
      } else {
        has_seq = true;
      }
    } else if (part.role == Role::kLane) {
      has_instance = true;
      const auto dim = static_cast<size_t>(part.dim);
      if (dim >= lanes.size()) refuse_plan("there is no lane dim ", part.dim);
      if (has_dim[dim]) refuse_plan("comp ", entry.comp, " deals to lane dim ", part.dim, " twice");
      has_dim[dim] = true;
    } else if (part.role == Role::kUnit) {
      if (!lanes.empty()) refuse_plan("lanes have no matrix units");
      has_instance = true;
      (kind == AxisKind::kRed ? num_depth : num_sides) += 1;
      if (kind == AxisKind::kRed) depth_step = part.step;
      if (kind == AxisKind::kPar && part.step != 1) depth_step = 0;
    } else if (part.role == Role::kUnroll || part.role == Role::kVec) {
      has_instance = true;
      if (part.role == Role::kVec && ++num_vec > 1) {
        refuse_plan("comp ", entry.comp, " has more than one vec part");
      }
      if (part.role == Role::kVec && part.step != 1) refuse_plan("a vec part has step 1");
    } else {
      refuse_plan("parts are grid, seq, lane, unroll, vec or unit");
    }
    if (part.tail == Tail::kPeel && part.role != Role::kSeq) refuse_plan("only loops are peeled");
    if (part.tail == Tail::kClamp && (part.role != Role::kUnroll || kind != AxisKind::kPar)) {
      refuse_plan("only par unroll parts are clamped");
    }
  }
  const bool is_on_vectors = num_depth == 1 && num_sides == 0;
  const bool is_on_tiles = num_depth == 2 && num_sides == 2 && num_vec == 0;
  const bool is_none = num_depth + num_sides == 0;
  if (!is_none && (depth_step != 1 || (!is_on_vectors && !is_on_tiles))) {
    refuse_plan("comp ", entry.comp, " has ", num_sides, " unit parts of par and ", num_depth,
                " of red axes down to step ", depth_step,
                "; a unit on vectors has 0 and 1, one on tiles 2 and 2 and no vec part, all down "
                "to step 1");
  }
}

}  // namespace tenon
