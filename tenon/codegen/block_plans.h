// The plan of a kernel whose rows are computed by a contraction, so that some rows are computed at
// once: attention, or a product and what its rows are scaled by. Called by choose_plan.
// SPDX-License-Identifier: MIT

#pragma once

#include <optional>

#include "tenon/codegen/plan.h"

namespace tenon {

/// Nothing if no tmp is a contraction over an operand that rows share, or nothing fits the target.
std::optional<Plan> block_plan(const Kernel& kernel, const Target& target);

}  // namespace tenon
