// Divisions of sizes and counts that round up. SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <type_traits>

namespace tenon {

/// a / b, rounded up; a >= 0, b > 0, and their sum fits.
template <std::integral T>
constexpr T ceil_div(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}
/// The smallest multiple of b from a on.
template <std::integral T>
constexpr T round_up(T a, std::type_identity_t<T> b) {
  return ceil_div(a, b) * b;
}

}  // namespace tenon
