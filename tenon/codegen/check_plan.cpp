// What a plan needs against what the Target has. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/base/integer.h"
#include "tenon/base/text.h"
#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/rules/access.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/decompose.h"
#include "tenon/rules/lower_dtypes.h"

namespace tenon {
namespace {

constexpr int64_t kScratchAlignBytes = 64;

int64_t group_bytes(const Kernel& nest) {
  int64_t bytes = 0;
  for (const BufferDecl& buffer : nest.buffers) {
    if (buffer.scope != Scope::kGroup) continue;
    const int64_t count = layout_num_elements(buffer);
    if (count > int64_t{1} << 40) return INT64_MAX;  // by far, and products stay in 64 bits
    bytes += round_up(count * dtype_size_bytes(buffer.dtype), kScratchAlignBytes);
  }
  return bytes;
}

// Whether all positions of the kernel fit 32 bits, as choose_index_width will find.
bool has_wide_index(const Kernel& kernel) {
  BoundsMemo memo;
  const auto is_wide = [&](const Node& index) {
    for (const Node& node : topological_order(std::span(&index, 1))) {
      if (node.dtype() != DType::kIdx) continue;
      const IntRange range = memo.bounds(node);
      if (range.min < INT32_MIN || range.max > INT32_MAX) return true;
    }
    return false;
  };
  for (const Stmt& stmt : kernel.body) {
    const Comp& comp = std::get<Comp>(stmt.node);
    for (const Node& node : topological_order(std::span(&comp.value, 1))) {
      if (node.op() != Op::kLoad) continue;
      const LoadParts parts = load_parts(node);
      const BufferDecl& buffer = kernel.buffers[static_cast<size_t>(parts.buffer)];
      if (is_wide(layout_offset(buffer, parts.index))) return true;
    }
    if (is_wide(layout_offset(kernel.buffers[static_cast<size_t>(comp.dst)], comp.index))) {
      return true;
    }
  }
  return false;
}

// What no Target would take.
Reason broken(std::string text) {
  Reason reason;
  reason.text = std::move(text);
  return reason;
}

// A vector part's lanes of the comp's widest element must be a vector of the target.
Support check_lanes(const Kernel& kernel, const PlacedComp& comp, const Target& target) {
  int64_t lanes = 1;
  for (const AxisUse& use : comp.instances) {
    if (use.role == Role::kVec) lanes = axis_extent(use.axis);
  }
  if (lanes == 1) return {};
  const int64_t width = widest_element_bytes(kernel, *comp.comp, target);
  const std::string here = concat("comp ", comp.plan->comp, " computes with vectors of ", lanes,
                                  " elements of ", width, " bytes");
  if ((lanes & (lanes - 1)) != 0) return broken(here + "; vectors have powers of two");
  Support fits = supports(target, Limit::kVectorBytes, lanes * width);
  return fits ? fits : Support(fits.reason().about(here + ": "));
}

// Several instances of one point would write one place; tiles of a unit are padded.
std::optional<std::string> check_single_points(const PlacedComp& comp) {
  if (unit_axes_of(comp.instances).column) return std::nullopt;
  for (size_t i = 0; i < comp.instances.size(); ++i) {
    const AxisUse& use = comp.comp->axes[static_cast<size_t>(comp.instance_parts[i].axis)];
    if (axis_extent(comp.instances[i].axis) == 1 || axis_extent(use.axis) != 1) continue;
    return concat("comp ", comp.plan->comp, " has several instances of axis ",
                  comp.instance_parts[i].axis, ", which has one point");
  }
  return std::nullopt;
}

// What the target cannot compute with is combined by statements that read what they write: points
// of red axes must come one after the other.
std::optional<std::string> check_combine(const PlacedComp& comp, const Target& target) {
  const DType dtype = comp.comp->value.dtype();
  if (!comp.comp->combine || target.can_compute(dtype)) return std::nullopt;
  const auto is_red = [](const AxisUse& use) { return axis_kind(use.axis) == AxisKind::kRed; };
  if (std::ranges::none_of(comp.instances, is_red) && !comp.via) return std::nullopt;
  return concat("comp ", comp.plan->comp, " combines ", dtype_name(dtype),
                ", which the target lacks: its red axes must be loops");
}

// Accumulators stay in registers along their loops, beside an operand.
std::optional<std::string> check_registers(const Placement& placement, const PlacedComp& comp,
                                           const Target& target) {
  if (!comp.acc || unit_axes_of(comp.instances).column) return std::nullopt;
  int64_t lanes = 1;
  for (const AxisUse& use : comp.instances) {
    if (use.role == Role::kVec) lanes = axis_extent(use.axis);
  }
  const StorageBox& tile = comp.partials ? *comp.partials : *comp.acc;
  const BufferDecl& decl = placement.nest.buffers[static_cast<size_t>(tile.buffer)];
  const int64_t count = ceil_div(layout_num_elements(decl), lanes);
  if (count == 1 || count < target.vector_registers) return std::nullopt;
  return concat("the accumulators of comp ", comp.plan->comp, " take ", count,
                " registers; the target has ", target.vector_registers, ", one for an operand");
}

}  // namespace

Node machine_value(const Comp& comp, const Target& target) {
  DTypeLowering lowering(target);
  Decomposer decomposer(target);
  return decomposer.run(lowering.run_to_storage(comp.value));
}

int64_t widest_element_bytes(const Kernel& kernel, const Comp& comp, const Target& target) {
  int64_t bytes = 1;
  bool has_position = false;
  const auto widen = [&](const Node& root) {
    for (const Node& node : topological_order(std::span(&root, 1))) {
      const bool reads_index =
          node.dtype() != DType::kIdx && !node.srcs().empty() && node.src(0).dtype() == DType::kIdx;
      if (reads_index && node.op() != Op::kLoad) has_position = true;
      if (node.dtype() == DType::kIdx || node.dtype() == DType::kBool) continue;
      bytes = std::max<int64_t>(bytes, dtype_size_bytes(node.dtype()));
    }
  };
  widen(machine_value(comp, target));
  if (comp.combine) {
    // A sum of narrow floats is computed wide, one addition at a time.
    Comp step = comp;
    step.value = make_expr(*comp.combine, comp.value, comp.value);
    widen(machine_value(step, target));
  }
  for (const Node& guard : comp.guard)
    widen(guard);
  for (const Access& access : analyze_access(kernel, comp)) {
    for (size_t axis = 0; axis < comp.axes.size(); ++axis) {
      const bool is_contiguous =
          !access.is_irregular[axis] && access.strides[axis] <= 1 && access.strides[axis] >= 0;
      has_position = has_position || access.is_gated || (access.uses(axis) && !is_contiguous);
    }
  }
  if (!has_position) return bytes;
  return std::max<int64_t>(bytes, has_wide_index(kernel) ? 8 : 4);
}

Support supports(const Target& target, const Kernel& kernel, const Plan& plan) {
  int64_t lanes = 1;
  for (const int64_t extent : plan.lanes)
    lanes = std::min(extent, target.max_lanes + 1) * std::min(lanes, target.max_lanes + 1);
  if (Support fits = supports(target, Limit::kLanes, lanes); !fits) return fits;
  const Placement placement = place_comps(kernel, plan);
  if (!placement.reason.empty()) return broken(placement.reason);
  for (const PlacedComp& comp : placement.comps) {
    if (Support fits = check_lanes(kernel, comp, target); !fits) return fits;
    if (auto reason = check_single_points(comp)) return broken(*reason);
    if (auto reason = check_combine(comp, target)) return broken(*reason);
    if (auto reason = check_registers(placement, comp, target)) return broken(*reason);
    if (auto reason = why_not_unit(placement, comp, target)) return broken(*reason);
  }
  return supports(target, Limit::kLocalBytes, group_bytes(placement.nest));
}

std::optional<std::string> check_plan(const Kernel& kernel, const Plan& plan,
                                      const Target& target) {
  const Support fits = supports(target, kernel, plan);
  return fits ? std::nullopt : std::optional(fits.reason().text);
}

}  // namespace tenon
