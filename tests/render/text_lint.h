// A lint on emitted C: nothing that C leaves undefined may stand outside the helpers that guard it.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon::testing {

/// Findings, one line of text each: integer division, remainder and shifts outside the helpers
/// div_, mod_, shl_ and shr_, and conversions of floats to integers outside cast_.
std::vector<std::string> lint_c(std::string_view text);

}  // namespace tenon::testing
