// Before: a nest with as many groups as its Plan makes. After: at most as many as one launch may
// have; each runs several of those that were, one after the other, in loops around its body. Stands
// before place_guards, which decides the guards of trimmed loops. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

Kernel limit_grid(const Kernel& nest, const Target& target);

}  // namespace tenon
