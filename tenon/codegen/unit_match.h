// Which comps a matrix unit can compute, found by their expression: acc += cast(a) * cast(b). Asked
// by the families of plans, by check_plan and by the passes that leave such comps as they are.
// SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <span>

#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

/// The load under bitcasts, or null.
Node load_under(Node value);

/// The narrow operands of a sum of products.
struct UnitFactors {
  Node a;
  Node b;
};

/// The operands of a comp that adds up products of two exactly widened values: `b` uses `column`,
/// an axis, and is a load, `a` does not use it and has whole numbers or a load. Before and after
/// lower_dtypes (which makes of a narrow float a bitcast of loaded bits). Nothing: no such comp.
std::optional<UnitFactors> unit_factors(const Comp& comp, const Node& column);

/// Number of the first unit on vectors with operands of these dtypes, and with n and k unless they
/// are 0; -1: none.
int find_vector_unit(std::span<const MatrixUnit> units, const UnitFactors& factors, DType acc,
                     int n, int k);

/// The axis with role unit; null: the comp has none.
Node unit_axis_of(std::span<const AxisUse> axes);

/// The axes of a unit on tiles: sides of the tile, and the depth in groups and within a group. Null
/// where the comp has no such parts; one that moves tiles has sides alone.
struct UnitAxes {
  Node row;
  Node column;
  Node groups;
  Node group;
};
UnitAxes unit_axes_of(std::span<const AxisUse> axes);

/// Number of the unit on tiles for these operands whose tiles have the extents of `axes`; -1: none.
int find_tile_unit(std::span<const MatrixUnit> units, const UnitFactors& factors, DType acc,
                   const UnitAxes& axes);

/// Why a comp of the placement cannot be given to a unit that its parts ask for; nothing if it can,
/// or asks for none.
std::optional<std::string> why_not_unit(const Placement& placement, const PlacedComp& comp,
                                        const Target& target);

}  // namespace tenon
