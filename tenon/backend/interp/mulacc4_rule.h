// The rule of INTERP's variant WIDE: a loop that adds up one product at a time adds four at once.
// An example of how a backend brings instructions of its own. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/codegen/lowering_rules.h"

namespace tenon::interp {

extern const LoweringRule kMulAcc4Rule;

}  // namespace tenon::interp
