// SPDX-License-Identifier: MIT

#include "tenon/codegen/unit_match.h"

#include <algorithm>
#include <utility>

#include "tenon/base/text.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/embeds.h"

namespace tenon {
namespace {

// The load under bitcasts, or null.
Node load_under(Node value) {
  while (value.op() == Op::kBitcast)
    value = value.src(0);
  return value.op() == Op::kLoad ? value : Node();
}

Node narrow_value(const Node& factor, DType acc) {
  if (factor.op() != Op::kCast || factor.dtype() != acc) return {};
  const Node& value = factor.src(0);
  const bool is_narrow = dtype_bits(value.dtype()) < dtype_bits(acc) && embeds(value.dtype(), acc);
  return is_narrow ? value : Node();
}

// A narrow float is not computed with: it is loaded, or what a gate leaves of a load.
bool is_operand_a(const Node& value) {
  return is_int(value.dtype()) || is_const(value) || load_under(value);
}

// index = axis + a multiple of `count`.
bool is_aligned(const Node& index, const Node& axis, int64_t count) {
  StructuralOrder order;
  const auto form = to_affine(index, order);
  if (!form || form->offset % count != 0) return false;
  bool has_axis = false;
  for (const AffineTerm& term : form->terms) {
    const bool is_axis = term.node == axis;
    has_axis = has_axis || is_axis;
    if (is_axis ? term.coefficient != 1 : term.coefficient % count != 0) return false;
  }
  return has_axis;
}

}  // namespace

bool uses_axis(const Node& expr, const Node& axis) {
  const std::vector<Node> nodes = topological_order(std::span(&expr, 1));
  return std::find(nodes.begin(), nodes.end(), axis) != nodes.end();
}

std::optional<UnitFactors> unit_factors(const Comp& comp, const Node& column) {
  const Node& value = comp.value;
  if (comp.combine != Op::kAdd || value.op() != Op::kMul) return std::nullopt;
  UnitFactors factors{narrow_value(value.src(0), value.dtype()),
                      narrow_value(value.src(1), value.dtype())};
  if (!factors.a || !factors.b) return std::nullopt;
  if (uses_axis(factors.a, column)) std::swap(factors.a, factors.b);
  const bool fits = !uses_axis(factors.a, column) && uses_axis(factors.b, column) &&
                    load_under(factors.b) && is_operand_a(factors.a);
  return fits ? std::optional(factors) : std::nullopt;
}

int find_vector_unit(std::span<const MatrixUnit> units, const UnitFactors& factors, DType acc,
                     int n, int k) {
  for (size_t i = 0; i < units.size(); ++i) {
    const MatrixUnit& unit = units[i];
    const bool has_types =
        unit.a == factors.a.dtype() && unit.b == factors.b.dtype() && unit.acc == acc;
    const bool has_shape =
        unit.m == 1 && unit.k == unit.group && (n == 0 || unit.n == n) && (k == 0 || unit.k == k);
    if (has_types && has_shape && unit.place == UnitPlace::kVectors) return static_cast<int>(i);
  }
  return -1;
}

Node unit_axis_of(std::span<const AxisUse> axes) {
  for (const AxisUse& use : axes) {
    if (use.role == Role::kUnit) return use.axis;
  }
  return {};
}

std::optional<std::string> why_not_unit(const PlacedComp& comp, const Target& target) {
  const Comp& source = *comp.comp;
  const Node depth = unit_axis_of(comp.instances);
  if (!depth) return std::nullopt;
  const auto refused = [&](std::string_view why) {
    return concat("comp ", comp.plan->comp, " has a unit part, but ", why);
  };
  int vec_axis = -1;
  int depth_axis = -1;
  Node columns;  // the vec part
  int64_t lanes = 1;
  int64_t count = 1;
  for (size_t i = 0; i < comp.instances.size(); ++i) {
    const Role role = comp.instances[i].role;
    const int64_t extent = axis_extent(comp.instances[i].axis);
    if (role == Role::kVec) {
      vec_axis = comp.instance_parts[i].axis;
      lanes = extent;
      columns = comp.instances[i].axis;
    } else if (role == Role::kUnit) {
      depth_axis = comp.instance_parts[i].axis;
      count = extent;
    } else if (axis_kind(comp.instances[i].axis) != AxisKind::kPar) {
      return refused("other red instances");
    }
  }
  if (vec_axis < 0 || !comp.acc) return refused("no vec part or no accumulator");
  const Node& column = source.axes[static_cast<size_t>(vec_axis)].axis;
  const auto factors = unit_factors(source, column);
  if (!factors) return refused("does not add up products of widened operands");
  const int unit = find_vector_unit(target.units, *factors, source.value.dtype(),
                                    static_cast<int>(lanes), static_cast<int>(count));
  if (unit < 0) return refused("the target has no unit of this shape");
  // Operand b lies as the unit reads it: groups of the depth side by side for each column.
  const LoadParts b = load_parts(load_under(factors->b));
  const auto stage =
      std::find_if(comp.stages.begin(), comp.stages.end(),
                   [&](const PlacedStage& placed) { return placed.stage.buffer == b.buffer; });
  if (stage == comp.stages.end() || stage->stage.layout.size() < 2) {
    return refused("its operand along the vec part is not staged in a layout of the unit");
  }
  const LayoutPart& inner = stage->stage.layout.back();
  const LayoutPart& outer = stage->stage.layout[stage->stage.layout.size() - 2];
  const std::vector<Node> index = [&] {
    const auto values = axis_values(comp);
    std::vector<Node> placed;
    for (const Node& node : b.index)
      placed.push_back(substitute(node, values));
    return storage_index(stage->storage, placed);
  }();
  const bool fits = inner.extent == count && inner.pad == 0 && outer.extent % lanes == 0 &&
                    outer.pad == 0 && inner.dim != outer.dim &&
                    is_aligned(index[static_cast<size_t>(inner.dim)], depth, count) &&
                    is_aligned(index[static_cast<size_t>(outer.dim)], columns, lanes);
  if (!fits) return refused("the layout of its staged operand does not end in the unit's");
  // A tail of the depth needs zeros in both operands, or whole numbers.
  const bool has_tail = comp.guards[static_cast<size_t>(depth_axis)] != Node();
  const bool has_zeros = is_int(source.value.dtype()) || load_under(factors->a);
  return has_tail && !has_zeros ? std::optional(refused("has a tail")) : std::nullopt;
}

}  // namespace tenon
