// The promotion rules. SPDX-License-Identifier: MIT

#include "tenon/tensor/promotion.h"

#include <algorithm>

#include "tenon/base/error.h"

namespace tenon {
namespace {

DType wider(DType a, DType b) {
  return dtype_bits(a) >= dtype_bits(b) ? a : b;
}

DType signed_of_bits(int bits) {
  if (bits == 16) return DType::kI16;
  return bits == 32 ? DType::kI32 : DType::kI64;
}

}  // namespace

std::optional<DType> find_common_dtype(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  if (is_float(a) && is_float(b)) {
    if (dtype_bits(a) != dtype_bits(b)) return wider(a, b);
    return dtype_bits(a) == 8 ? DType::kF16 : DType::kF32;  // f16 holds both f8 formats
  }
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  if (is_signed_int(a) == is_signed_int(b)) return wider(a, b);
  const DType with_sign = is_signed_int(a) ? a : b;
  const int unsigned_bits = dtype_bits(is_signed_int(a) ? b : a);
  if (unsigned_bits == 64) return std::nullopt;
  return wider(with_sign, signed_of_bits(2 * unsigned_bits));
}

DType promote_types(DType a, DType b) {
  const std::optional<DType> common = find_common_dtype(a, b);
  TENON_CHECK(common.has_value(), ErrorCode::kInvalidArgument,
              "promote_types: ", dtype_long_name(a), " and ", dtype_long_name(b),
              " have no common integer dtype. Use astype on one of them");
  return *common;
}

DType promote_types(DType tensor, const Scalar& scalar) {
  if (scalar.is_float() && !is_float(tensor)) return DType::kF32;
  if (scalar.is_int() && tensor == DType::kBool) return DType::kI64;
  return tensor;
}

}  // namespace tenon
