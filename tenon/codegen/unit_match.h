// Which comps a matrix unit can compute, found by their expression: acc += cast(a) * cast(b). Asked
// by the families of plans, by check_plan and by the passes that leave such comps as they are.
// SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <span>

#include "tenon/codegen/placement.h"
#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

bool uses_axis(const Node& expr, const Node& axis);

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

/// Why a placed comp with a unit part cannot be given to a unit; nothing if it can, or has none.
std::optional<std::string> why_not_unit(const PlacedComp& comp, const Target& target);

}  // namespace tenon
