// Text form of Plans: what `tenon explain` shows.
// SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <string_view>

#include "tenon/codegen/plan.h"

namespace tenon {

/// One line a comp, in the order of placing:
///
///     plan NAME {
///       2 t0 root m@grid 6, n@seq 64, k@seq 1, m@unroll 1 clamp, n@unroll 16, n@vec 1; acc 2
///       3 y after 2 at 2 m@unroll 1, n@unroll 16, n@vec 1; store nt
///     }
///
/// A comp is named by its number and its buffer, a part by axis, role, step and tail. Then, each
/// behind a `;`: `acc DEPTH [sequential] [carry BUFFER]`, `stage BUFFER at DEPTH [layout
/// DIM:EXTENT[+PAD] ...]`, `keep BUFFER`, `store nt`.
std::string to_text(const Plan& plan, const Kernel& kernel);

/// The inverse for a kernel of this name with these comps, buffers and axes; check_plan says
/// whether the plan fits. Throws kInvalidArgument "source:line: ..." for anything else.
Plan parse_plan(std::string_view text, const Kernel& kernel, std::string_view source_name = "plan");

}  // namespace tenon
