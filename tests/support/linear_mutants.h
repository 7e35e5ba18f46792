// Programs with one fault: a barrier removed, a gate dropped, a bound of a loop or of a mask moved
// by one. What the checks of an interpreter are measured with. SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <vector>

#include "tenon/ir/linear.h"

namespace tenon::testing {

struct LinearMutant {
  std::string what;  ///< "gate of `store ...`"
  LinearProgram program;
};

/// Every one with a single such change.
std::vector<LinearMutant> linear_mutants(const LinearProgram& program);

}  // namespace tenon::testing
