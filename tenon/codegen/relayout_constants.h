// Layouts in which a kernel reads operands that stay the same from call to call. Pass a of
// docs/ir.md for constants; the copies are made by ordinary graph ops (engine). Called by the
// engine before a kernel is lowered. SPDX-License-Identifier: MIT

#pragma once

#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

/// The kernel with a layout for each of the parameters `is_constant` (by buffer) that its Plan
/// reads faster from panels: by at least a tenth of the kernel's estimated time. Panels divide the
/// dim that they cut, so a layout takes as many elements as the array. All else stays as it is.
Kernel relayout_constants(const Kernel& kernel, const std::vector<bool>& is_constant,
                          const Target& target);

}  // namespace tenon
