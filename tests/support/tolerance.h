// How far a right result may be from the exact one, derived. For all tests of values that are not
// exact. SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "tenon/types/dtype.h"

namespace tenon::testing {

/// Half the distance from 1 to the next value: what a rounding to nearest moves a value by at most,
/// relative to its size. Called u below.
inline double roundoff_of(DType dtype) {
  return std::ldexp(1.0, -float_format(dtype).mantissa_bits - 1);
}

/// `err` sums, over all roundings on the way to a result, the size of what is rounded times how
/// much the result moves with it: for a sum of n terms in any order (n - 1) * the sum of their
/// sizes, for n products, quotients or roots n * |expected|, for an op of b ulp 2 b * |expected|,
/// as an ulp is at most 2 u of the value (N. Higham, "Accuracy and Stability of Numerical
/// Algorithms", 2002, chapters 2 to 4). Narrow floats are computed in float32 and rounded once
/// more. Products of errors add less than a 1024th, as long as there are under 2^13 roundings.
inline double allowed_error(DType dtype, double err, double expected) {
  const bool is_narrow = dtype_bits(dtype) < 32;
  const double error = roundoff_of(is_narrow ? DType::kF32 : dtype) * err * (1 + 0x1p-10);
  return is_narrow ? error + roundoff_of(dtype) * (std::abs(expected) + error) : error;
}

}  // namespace tenon::testing
