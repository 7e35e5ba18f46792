// Scalars: their value in a dtype, checked. SPDX-License-Identifier: MIT

#include "tenon/tensor/operand.h"

#include <bit>
#include <cmath>

#include "tenon/base/error.h"
#include "tenon/tensor/tensor.h"

namespace tenon {
namespace {

// Whether an integer dtype holds the integer that `bits` are in 64 bits.
bool fits_int(uint64_t bits, bool is_negative, DType dtype) {
  if (is_negative) {
    return is_signed_int(dtype) &&
           static_cast<int64_t>(bits) >= static_cast<int64_t>(int_min_bits(dtype));
  }
  return bits <= int_max_bits(dtype);
}

}  // namespace

Operand::Operand(const Tensor& tensor) : node_(tensor.node()) {}

DType Scalar::default_dtype() const {
  if (is_bool()) return DType::kBool;
  return is_float() ? DType::kF32 : DType::kI64;
}

double Scalar::to_double() const {
  return std::visit([](auto value) { return static_cast<double>(value); }, value_);
}

ScalarBits Scalar::bits(std::string_view where, DType dtype) const {
  // As bits of a dtype that holds the value exactly, then one conversion.
  DType exact = DType::kF64;
  uint64_t exact_bits = 0;
  if (const auto* as_double = std::get_if<double>(&value_)) {
    exact_bits = std::bit_cast<uint64_t>(*as_double);
  } else if (const auto* as_signed = std::get_if<int64_t>(&value_)) {
    exact = DType::kI64;
    exact_bits = static_cast<uint64_t>(*as_signed);
  } else if (const auto* as_unsigned = std::get_if<uint64_t>(&value_)) {
    exact = DType::kU64;
    exact_bits = *as_unsigned;
  } else {
    exact = DType::kBool;
    exact_bits = std::get<bool>(value_) ? 1 : 0;
  }
  if (tenon::is_int(dtype)) {
    bool fits = true;
    if (exact == DType::kF64) {
      const double value = std::get<double>(value_);
      const bool is_negative = value < 0;
      const bool in_64_bits =
          is_negative ? value >= -0x1p63 : value < (is_signed_int(dtype) ? 0x1p63 : 0x1p64);
      fits = value == std::trunc(value) && in_64_bits;
      if (fits) {
        exact_bits = is_negative ? static_cast<uint64_t>(static_cast<int64_t>(value))
                                 : static_cast<uint64_t>(value);
        fits = fits_int(exact_bits, is_negative, dtype);
      }
    } else {
      fits =
          fits_int(exact_bits, exact == DType::kI64 && static_cast<int64_t>(exact_bits) < 0, dtype);
    }
    TENON_CHECK(fits, ErrorCode::kInvalidArgument, where, ": scalar ", *this, " does not fit ",
                dtype_long_name(dtype), ". Use astype on the tensor first, or another value");
    return canonical_bits(dtype, exact_bits);
  }
  return eval_cast(exact_bits, exact, dtype);
}

std::string to_string(const Scalar& scalar) {
  return std::visit([](auto value) { return concat(value); }, scalar.value_);
}

}  // namespace tenon
