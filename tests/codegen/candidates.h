// Every candidate Plan of a kernel against the kernel's meaning. For tests of families of Plans.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <vector>

#include "tenon/codegen/choose_plan.h"

namespace tenon::test {

/// Lowers the kernel under each of its candidates, at most so many, verified; runs it on inputs of
/// the seed into poisoned outputs between guard zones and compares with eval_kernel. Each Plan's
/// text must read back as the Plan.
std::vector<PlanChoice> expect_candidates_keep_value(const Kernel& kernel, const Target& target,
                                                     uint64_t seed, size_t most);

/// The same under one Plan of the prepared kernel.
void expect_value_kept(const Kernel& kernel, const Target& target, const Plan& plan, uint64_t seed);

}  // namespace tenon::test
