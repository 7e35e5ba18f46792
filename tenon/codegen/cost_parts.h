// The two halves of a Plan's price, which cost.cpp puts together. SPDX-License-Identifier: MIT

#pragma once

#include <vector>

#include "tenon/codegen/cost.h"
#include "tenon/codegen/plan_nests.h"

namespace tenon {

/// Operations, instructions, groups and copied bytes.
void add_instructions(const Kernel& kernel, const Target& target,
                      const std::vector<PlanNest>& nests, PlanCost& cost);

/// Bytes that come into each cache. Returns the seconds that one thread would take to bring all of
/// them in, by cache.
std::vector<double> add_traffic(const Kernel& kernel, const Target& target,
                                const std::vector<PlanNest>& nests, PlanCost& cost);

}  // namespace tenon
