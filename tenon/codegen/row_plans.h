// The plan of a kernel with reductions (or other tmps) in front of the last comp, each computed
// once for each row. Called by choose_plan. SPDX-License-Identifier: MIT

#pragma once

#include <optional>

#include "tenon/codegen/plan.h"

namespace tenon {

/// Nothing if the tmps have no rows in common (see row_axes), or no plan of rows fits the target.
std::optional<Plan> row_plan(const Kernel& kernel, const Target& target);

}  // namespace tenon
