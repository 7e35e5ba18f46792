// The rules that every kernel obeys between passes (docs/ir.md, V1 to V11), as a table. Passes call
// check_kernel before and after themselves where TENON_VERIFY_IR is on; tests call verify_kernel.
// SPDX-License-Identifier: MIT

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/types/support.h"

namespace tenon {

/// Where in the pipeline a kernel is. kComps: 2a, Comps only, nothing placed. kNest: after
/// build_nest, everything placed. kFlat: after choose_index_width, no idx but axes under casts.
enum class KernelStage : uint8_t { kComps, kNest, kFlat };

enum class Severity : uint8_t {
  kError,     ///< the rule is broken
  kUnproven,  ///< neither proven nor refuted here; INTERP decides at run time
};

struct Finding {
  std::string_view rule;  ///< "V3"
  Severity severity = Severity::kError;
  std::string text;
  Support support = {};  ///< where it is a field of the Target that says no
};

/// Everything found, in the order of the rules. The dtype and depth rules go first: if they fail,
/// the others, which rely on them, do not run. Without a target V5 has nothing to say.
std::vector<Finding> verify_kernel(const Kernel& kernel, KernelStage stage,
                                   const Target* target = nullptr);

/// Throws kInternal with all errors and the kernel's text if there are any; unproven is accepted.
void check_kernel(const Kernel& kernel, KernelStage stage, const Target* target = nullptr);

/// "V3 error: ...", one finding a line.
std::string to_text(std::span<const Finding> findings);

}  // namespace tenon
