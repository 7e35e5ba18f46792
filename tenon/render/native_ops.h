// What every renderer refuses alike: ops and casts that the Target does not have. Called by the
// renderers of this folder. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <string>

#include "tenon/ir/linear.h"
#include "tenon/types/target.h"

namespace tenon::detail {

/// Why this elementwise instruction cannot be printed for this Target, with what to do; or nothing.
std::optional<std::string> why_not_native(const LinearProgram& program, const Inst& inst,
                                          const Target& target);

/// Whether f16 values are floats in the text; if not, their bits are carried as u16.
bool has_half_type(const Target& target);

}  // namespace tenon::detail
