// The family of plans for matrix units: a sum of products of narrow operands in a register tile
// whose instances are the unit's. choose_plan asks it first. SPDX-License-Identifier: MIT

#pragma once

#include <optional>

#include "tenon/codegen/plan.h"

namespace tenon {

/// A plan that check_plan accepts, or nothing: no unit of the Target fits, or its operands are used
/// too seldom to be worth laying out for it.
std::optional<Plan> unit_plan(const Kernel& kernel, const Target& target);

}  // namespace tenon
