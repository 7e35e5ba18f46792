// What a plan needs against what the Target has. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan.h"

namespace tenon {
namespace {

constexpr int64_t kScratchAlignBytes = 64;

int64_t group_bytes(const Kernel& nest) {
  int64_t bytes = 0;
  for (const BufferDecl& buffer : nest.buffers) {
    if (buffer.scope != Scope::kGroup) continue;
    const int64_t size = layout_num_elements(buffer) * dtype_size_bytes(buffer.dtype);
    bytes += (size + kScratchAlignBytes - 1) / kScratchAlignBytes * kScratchAlignBytes;
  }
  return bytes;
}

// A vector part's lanes of the comp's widest dtype must be a vector of the target.
std::optional<std::string> check_lanes(const PlacedComp& comp, const Target& target) {
  int64_t lanes = 1;
  for (const AxisUse& use : comp.instances) {
    if (use.role == Role::kVec) lanes = axis_extent(use.axis);
  }
  if (lanes == 1) return std::nullopt;
  int64_t width = 1;
  for (const Node& node : topological_order(std::span(&comp.comp->value, 1))) {
    if (node.dtype() == DType::kIdx || node.dtype() == DType::kBool) continue;
    width = std::max<int64_t>(width, dtype_size_bytes(node.dtype()));
  }
  if (lanes * width <= target.max_vector_bytes && (lanes & (lanes - 1)) == 0) return std::nullopt;
  return concat("comp ", comp.plan->comp, " computes with vectors of ", lanes, " elements of ",
                width, " bytes; the target's vectors have ", target.max_vector_bytes, " bytes");
}

// What the target cannot compute with is combined by statements that read what they write: points
// of red axes must come one after the other.
std::optional<std::string> check_combine(const PlacedComp& comp, const Target& target) {
  const DType dtype = comp.comp->value.dtype();
  if (!comp.comp->combine || target.can_compute(dtype)) return std::nullopt;
  for (const AxisUse& use : comp.instances) {
    if (axis_kind(use.axis) == AxisKind::kRed) {
      return concat("comp ", comp.plan->comp, " combines ", dtype_name(dtype),
                    ", which the target lacks: its red axes must be loops");
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> check_plan(const Kernel& kernel, const Plan& plan,
                                      const Target& target) {
  const Placement placement = place_comps(kernel, plan);
  if (!placement.reason.empty()) return placement.reason;
  for (const PlacedComp& comp : placement.comps) {
    if (auto reason = check_lanes(comp, target)) return reason;
    if (auto reason = check_combine(comp, target)) return reason;
  }
  const int64_t bytes = group_bytes(placement.nest);
  if (bytes > target.max_local_bytes) {
    return concat("intermediates take ", bytes, " bytes of group memory, the target has ",
                  target.max_local_bytes);
  }
  return std::nullopt;
}

}  // namespace tenon
