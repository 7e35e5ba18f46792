// What stands where in a linear program, for tests of what codegen makes.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/linear.h"

namespace tenon::test {

/// Instructions of an op in a region and those inside it.
int count_ops(const LinearProgram& program, RegionId region, Op op);
/// The region of the innermost loop that contains `op`.
RegionId innermost_loop_with(const LinearProgram& program, Op op);

}  // namespace tenon::test
