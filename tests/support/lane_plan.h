// Random Plans that deal parts of axes to lanes. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <random>

#include "tenon/codegen/plan.h"

namespace tenon::test {

/// A legal plan like random_plan's in which at least one comp has lanes; nothing if none was found.
std::optional<Plan> random_lane_plan(const Kernel& kernel, const Target& target,
                                     std::mt19937_64& random);

}  // namespace tenon::test
