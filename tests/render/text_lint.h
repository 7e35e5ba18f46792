// Lints on emitted text: nothing that the language leaves undefined may stand without its guard,
// and nothing may let the compiler change a result. SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/render/renderer.h"

namespace tenon::testing {

/// Findings, one line of text each: integer division, remainder and shifts outside the helpers
/// div_, mod_, shl_ and shr_, conversions of floats to integers outside cast_, and sums,
/// differences and products of signed numbers that are not computed as unsigned ones (places in an
/// array, which bounds keep small, may be; vectors wrap).
std::vector<std::string> lint_c(std::string_view text);

/// The same for LLVM IR: flags that make a result poison or a float inexact (nsw, fast, inbounds,
/// ...), undef and stray poison, calls that leave the module, and divisions, shifts and conversions
/// of floats to integers whose operand is neither a safe constant nor made by the select, and or
/// umin that guards it.
std::vector<std::string> lint_llvm(std::string_view text);

/// The lint of that renderer's language.
std::vector<std::string> lint_text(const Renderer& renderer, std::string_view text);

}  // namespace tenon::testing
