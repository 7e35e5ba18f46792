// The family of plans for matrix units: a sum of products of narrow operands in a register tile
// whose instances are the unit's. choose_plan asks it first. SPDX-License-Identifier: MIT

#pragma once

#include <optional>

#include "tenon/codegen/plan.h"

namespace tenon {

/// A plan that check_plan accepts, or nothing: no unit of the Target fits, or its operands are used
/// too seldom to be worth laying out for it.
std::optional<Plan> unit_plan(const Kernel& kernel, const Target& target);

/// The axis of the first comp, a sum of products, that the last comp writes side by side: the
/// columns of a unit's tiles. Null: there is none, or axes of the sum that the last comp does not
/// have.
Node unit_column(const Kernel& kernel);

/// The kernel that a plan is to be chosen for: with products offset (offset_products.h) where that
/// makes a plan for a unit, else as it is.
Kernel prepared_for_units(const Kernel& kernel, const Target& target);

}  // namespace tenon
