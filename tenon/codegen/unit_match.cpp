// SPDX-License-Identifier: MIT

#include "tenon/codegen/unit_match.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tenon/base/text.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/embeds.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

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

Node load_under(Node value) {
  while (value.op() == Op::kBitcast)
    value = value.src(0);
  return value.op() == Op::kLoad ? value : Node();
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

UnitAxes unit_axes_of(std::span<const AxisUse> axes) {
  UnitAxes result;
  for (const AxisUse& use : axes) {
    if (use.role != Role::kUnit) continue;
    const bool is_par = axis_kind(use.axis) == AxisKind::kPar;
    Node& first = is_par ? result.row : result.groups;
    (first ? is_par ? result.column : result.group : first) = use.axis;
  }
  return result;
}

int find_tile_unit(std::span<const MatrixUnit> units, const UnitFactors& factors, DType acc,
                   const UnitAxes& axes) {
  if (!axes.column || !axes.group) return -1;
  const int64_t group = axis_extent(axes.group);
  for (size_t i = 0; i < units.size(); ++i) {
    const MatrixUnit& unit = units[i];
    const bool has_types =
        unit.a == factors.a.dtype() && unit.b == factors.b.dtype() && unit.acc == acc;
    const bool has_shape = unit.m == axis_extent(axes.row) && unit.n == axis_extent(axes.column) &&
                           unit.group == group && unit.k == axis_extent(axes.groups) * group;
    if (has_types && has_shape && unit.place == UnitPlace::kTiles) return static_cast<int>(i);
  }
  return -1;
}

namespace {

constexpr std::string_view kSharedTail = "has a tail in a dim that another axis moves too";

// A unit on tiles.
class TileCheck {
 public:
  TileCheck(const Placement& placement, const PlacedComp& comp, const Target& target)
      : placement_(placement), comp_(comp), target_(target), axes_(unit_axes_of(comp.instances)) {}

  std::optional<std::string> reason() {
    const Comp& source = *comp_.comp;
    if (!comp_.acc || comp_.partials) return "no accumulator of its own";
    const bool starts_at_zero =
        source.start && is_const(source.start) && const_bits(source.start) == 0;
    if (!starts_at_zero) return "its sum does not start at 0";
    const auto factors = unit_factors(source, source.axes[part_of(axes_.column)].axis);
    if (!factors || uses_axis(factors->b, source.axes[part_of(axes_.row)].axis)) {
      return "does not add up products of widened operands, one of rows and one of columns";
    }
    const int number = find_tile_unit(target_.units, *factors, source.value.dtype(), axes_);
    if (number < 0) return "the target has no unit of this shape";
    const MatrixUnit& unit = target_.units[static_cast<size_t>(number)];
    if (int64_t{unit.n} * unit.group * dtype_size_bytes(unit.b) > target_.max_vector_bytes) {
      return "the target's vectors hold less than a row of a tile";
    }
    if (auto why = why_not_staged(factors->a, factors->b)) return why;
    if (auto why = why_not_staged(factors->b, factors->a)) return why;
    const int64_t group = unit.group;
    if (!lies_as(factors->a, {kAny, 0, group, 1}))
      return "its operand of rows is not staged in tiles";
    if (!lies_as(factors->b, {0, group, kAny, 1})) {
      return "its operand of columns is not staged in tiles";
    }
    const StorageBox& tmp = placement_.storage.at(source.dst);
    const bool is_in_group = tmp.alias.empty() && (!comp_.carry || comp_.carry->alias.empty());
    if (!is_in_group || !lies_as(tmp, source.index, {kAny, 1, 0, 0})) {
      return "its accumulators do not lie in tiles in group memory";
    }
    return why_no_registers(*factors);
  }

 private:
  // The axis of the comp that an instance is part of.
  size_t part_of(const Node& axis) const {
    size_t i = 0;
    while (comp_.instances[i].axis != axis)
      ++i;
    return static_cast<size_t>(comp_.instance_parts[i].axis);
  }

  const PlacedStage* stage_of(const Node& factor) const {
    const int buffer = load_parts(load_under(factor)).buffer;
    const auto stage = std::ranges::find_if(
        comp_.stages, [&](const PlacedStage& placed) { return placed.stage.buffer == buffer; });
    return stage == comp_.stages.end() ? nullptr : &*stage;
  }

  std::optional<std::string> why_not_staged(const Node& factor, const Node& other) const {
    const Node load = load_under(factor);
    if (!load) return "an operand is computed";
    const Node other_load = load_under(other);
    const bool is_same = other_load && load_parts(other_load).buffer == load_parts(load).buffer;
    if (is_same || stage_of(factor) == nullptr) return "an operand has no stage of its own";
    // Beyond the depth there must be zeros: the dim of the depth must end with it.
    const size_t depth = part_of(axes_.group);
    if (!comp_.guards[depth]) return std::nullopt;
    if (moves_alone(*comp_.comp, load_parts(load).index, depth)) return std::nullopt;
    return std::string(kSharedTail);
  }

  // By how much an index of memory moves with a row, a column, a group of the depth, in a group.
  using Steps = std::array<int64_t, 4>;
  static constexpr int64_t kAny = -1;  // whatever it is, if rows do not run backwards

  bool lies_as(const Node& factor, const Steps& wanted) const {
    return lies_as(stage_of(factor)->storage, load_parts(load_under(factor)).index, wanted);
  }

  bool lies_as(const StorageBox& storage, std::span<const Node> index, const Steps& wanted) const {
    const auto values = axis_values(comp_);
    std::vector<Node> placed;
    for (const Node& node : index)
      placed.push_back(substitute(node, values));
    placed = storage_index(storage, placed);
    const BufferDecl& decl = placement_.nest.buffers[static_cast<size_t>(storage.buffer)];
    for (size_t dim = 0; dim < placed.size(); ++dim) {
      if (bounds(placed[dim]).max >= decl.dims[dim]) return false;
    }
    StructuralOrder order;
    const auto form = to_affine(simplify_index(layout_offset(decl, placed)), order);
    if (!form) return false;
    const std::array axes{axes_.row, axes_.column, axes_.groups, axes_.group};
    Steps steps{};
    for (const AffineTerm& term : form->terms) {
      for (size_t i = 0; i < axes.size(); ++i) {
        if (term.node == axes[i]) {
          steps[i] = term.coefficient;
        } else if (uses_axis(term.node, axes[i])) {
          return false;
        }
      }
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      if (wanted[i] == kAny ? steps[i] <= 0 : steps[i] != wanted[i]) return false;
    }
    return true;
  }

  // Tiles of sums and of both operands are held at once.
  std::optional<std::string> why_no_registers(const UnitFactors& factors) const {
    int64_t sums = 1;
    int64_t of_a = 1;
    int64_t of_b = 1;
    for (size_t i = 0; i < comp_.instances.size(); ++i) {
      const AxisUse& use = comp_.instances[i];
      if (use.role == Role::kUnit) continue;
      if (axis_kind(use.axis) == AxisKind::kRed) return "has other red instances";
      const Node& axis = comp_.comp->axes[static_cast<size_t>(comp_.instance_parts[i].axis)].axis;
      sums *= axis_extent(use.axis);
      if (uses_axis(factors.a, axis)) of_a *= axis_extent(use.axis);
      if (uses_axis(factors.b, axis)) of_b *= axis_extent(use.axis);
    }
    if (sums + of_a + of_b <= target_.tiles.registers) return std::nullopt;
    return concat("it holds ", sums + of_a + of_b, " tiles, the target ", target_.tiles.registers);
  }

  const Placement& placement_;
  const PlacedComp& comp_;
  const Target& target_;
  UnitAxes axes_;
};

}  // namespace

std::optional<std::string> why_not_unit(const Placement& placement, const PlacedComp& comp,
                                        const Target& target) {
  const Comp& source = *comp.comp;
  const Node depth = unit_axis_of(comp.instances);
  if (!depth) return std::nullopt;
  const auto refused = [&](std::string_view why) {
    return concat("comp ", comp.plan->comp, " has a unit part, but ", why);
  };
  if (unit_axes_of(comp.instances).column) {
    const auto why = TileCheck(placement, comp, target).reason();
    return why ? std::optional(refused(*why)) : std::nullopt;
  }
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
  // A panel of all columns may be read from any of them.
  const auto column_dim = static_cast<size_t>(outer.dim);
  const bool is_whole = outer.extent >= stage->storage.box[column_dim].length;
  const bool fits = inner.extent == count && inner.pad == 0 && outer.extent % lanes == 0 &&
                    outer.pad == 0 && inner.dim != outer.dim &&
                    is_aligned(index[static_cast<size_t>(inner.dim)], depth, count) &&
                    is_aligned(index[column_dim], columns, is_whole ? 1 : lanes);
  if (!fits) return refused("the layout of its staged operand does not end in the unit's");
  // The last tile of a peeled loop has an offset, behind which no panel's end is seen.
  const bool is_peeled = std::ranges::any_of(comp.loops, [&](const PlacedLoop& loop) {
    return loop.part.axis == vec_axis && loop.part.tail == Tail::kPeel;
  });
  if (is_peeled && !is_whole) return refused("a loop over panels of its columns is peeled");
  // A tail of the depth needs zeros in both operands, or whole numbers and zeros in b.
  const auto depth_number = static_cast<size_t>(depth_axis);
  if (!comp.guards[depth_number]) return std::nullopt;
  if (!moves_alone(source, b.index, depth_number)) return refused(kSharedTail);
  const bool has_zeros = is_int(source.value.dtype()) || load_under(factors->a);
  return has_zeros ? std::nullopt : std::optional(refused("has a tail"));
}

}  // namespace tenon
