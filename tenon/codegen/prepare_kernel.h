// What is done with a kernel before a Plan for it is chosen, so that everybody who makes, prints or
// reads Plans means the same comps and axes. SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <string_view>

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

/// The kernel that Plans are for. A prepared kernel stays as it is. `after` is called after each
/// pass.
Kernel prepare_kernel(const Kernel& kernel, const Target& target,
                      const std::function<void(std::string_view, const Kernel&)>& after = {});

}  // namespace tenon
