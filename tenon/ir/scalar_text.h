// Spelling of scalars in IR text, exact both ways: integers in decimal, true and false, floats in
// the shortest form that reads back, nan, inf, -inf, and raw bits (0x7fc00001) for other NaNs.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/types/dtype.h"

namespace tenon {

/// `bits` in canonical form (ir/eval_op.h).
std::string scalar_text(DType dtype, uint64_t bits);

/// Canonical bits, or nothing if `text` is not a value of `dtype`: wrong spelling, an integer out
/// of range, a finite float that overflows. Raw bits are read for floats only. Decimal floats are
/// rounded to nearest even (f32 and f64 once; narrower dtypes by way of f64).
std::optional<uint64_t> parse_scalar(DType dtype, std::string_view text);

}  // namespace tenon
