// Saturation: a clip in the dtype of x, where that dtype reaches further than the result's.
// SPDX-License-Identifier: MIT

#include "tenon/tensor/cast.h"

#include <cmath>

#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

double largest_finite(DType dtype) {
  const FloatFormat format = float_format(dtype);
  const int top = (1 << format.exponent_bits) - (format.finite_only ? 1 : 2);
  const double mantissa = 2 - std::ldexp(format.finite_only ? 2 : 1, -format.mantissa_bits);
  return std::ldexp(mantissa, top - format.bias);
}

// The ends of a dtype as integers; of float dtypes only those that end below 2^63.
Scalar lowest_int(DType dtype) {
  if (is_float(dtype)) return -static_cast<int64_t>(largest_finite(dtype));
  return is_signed_int(dtype) ? Scalar(static_cast<int64_t>(int_min_bits(dtype))) : Scalar(0);
}

Scalar largest_int(DType dtype) {
  if (is_float(dtype)) return static_cast<int64_t>(largest_finite(dtype));
  return is_signed_int(dtype) ? Scalar(static_cast<int64_t>(int_max_bits(dtype)))
                              : Scalar(int_max_bits(dtype));
}

}  // namespace

Tensor saturate_cast(const Tensor& x, DType dtype) {
  const DType from = x.dtype();
  if (dtype == DType::kBool || from == DType::kBool) return x.astype(dtype);
  if (is_float(from)) {
    // To integers astype saturates already.
    if (!is_float(dtype) || largest_finite(from) < largest_finite(dtype)) return x.astype(dtype);
    const double most = largest_finite(dtype);
    return x.clip(-most, most).astype(dtype);
  }
  // Float dtypes from bfloat16 on hold every integer, rounded.
  if (is_float(dtype) && largest_finite(dtype) > 0x1p64) return x.astype(dtype);
  Tensor out = x;
  if (lowest_int(from).to_double() < lowest_int(dtype).to_double()) {
    out = out.maximum(lowest_int(dtype));
  }
  if (largest_int(from).to_double() > largest_int(dtype).to_double()) {
    out = out.minimum(largest_int(dtype));
  }
  return out.astype(dtype);
}

}  // namespace tenon
