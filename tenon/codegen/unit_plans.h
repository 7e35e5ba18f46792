// The families of plans for matrix units: a sum of products of narrow operands whose instances are
// the unit's. Units on vectors here, units on tiles in unit_tile_plans.cpp; choose_plan prices them
// beside the others. SPDX-License-Identifier: MIT

#pragma once

#include <optional>

#include "tenon/codegen/plan_families.h"
#include "tenon/codegen/product_sum.h"

namespace tenon {

/// Plans for each unit of the Target that fits, on vectors first. Nothing: none fits, or operands
/// are used too seldom to be worth laying out.
void add_unit_plans(const Kernel& kernel, const Target& target, std::vector<Candidate>& plans);

/// Those for one unit on tiles: both operands staged in tiles, zeros around them, sums stored in
/// tiles and read as vectors by what comes after. They vary the blocks.
void add_unit_tile_plans(const ProductSum& sum, const MatrixUnit& unit, const Target& target,
                         std::vector<Candidate>& plans);

/// The first of add_unit_plans that check_plan accepts.
std::optional<Plan> unit_plan(const Kernel& kernel, const Target& target);

}  // namespace tenon
