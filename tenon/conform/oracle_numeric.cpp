// Decoding, rounding and conversion of every dtype for the oracle. SPDX-License-Identifier: MIT

#include "tenon/conform/oracle_numeric.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include "tenon/base/error.h"

namespace tenon::detail {
namespace {

static_assert(LDBL_MANT_DIG >= 64, "sums and conversions of 64-bit integers need 64 bits");
static_assert(std::endian::native == std::endian::little, "elements are read as little-endian");

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Exponent of the smallest normal value, and of the smallest step.
int min_exponent(const FloatFormat& format) {
  return 1 - format.bias;
}
int step_exponent(const FloatFormat& format) {
  return min_exponent(format) - format.mantissa_bits;
}

// Largest exponent of a finite value: the top code is infinity and NaN, but not in e4m3fn.
int max_exponent(const FloatFormat& format) {
  return (1 << format.exponent_bits) - 1 - format.bias - (format.finite_only ? 0 : 1);
}

double decode_narrow(const FloatFormat& format, uint64_t bits) {
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const int code =
      static_cast<int>(bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const bool is_negative = (bits >> (format.mantissa_bits + format.exponent_bits) & 1) != 0;
  const int top_code = (1 << format.exponent_bits) - 1;
  double magnitude = 0;
  if (code == top_code && !format.finite_only) {
    // NOLINTNEXTLINE(bugprone-narrowing-conversions): a NaN of double is no narrower one
    magnitude = mantissa == 0 ? kInf : kNan;
  } else if (code == top_code && mantissa == (uint64_t{1} << format.mantissa_bits) - 1) {
    magnitude = kNan;
  } else if (code == 0) {
    magnitude = std::ldexp(static_cast<double>(mantissa), step_exponent(format));
  } else {
    const uint64_t whole = mantissa | uint64_t{1} << format.mantissa_bits;
    magnitude = std::ldexp(static_cast<double>(whole), code - 1 + step_exponent(format));
  }
  return is_negative ? -magnitude : magnitude;
}

uint64_t encode_narrow(const FloatFormat& format, double value) {
  const int sign_bit = format.mantissa_bits + format.exponent_bits;
  const uint64_t top_code = (uint64_t{1} << format.exponent_bits) - 1;
  if (std::isnan(value)) {
    const uint64_t mantissa = format.finite_only ? (uint64_t{1} << format.mantissa_bits) - 1
                                                 : uint64_t{1} << (format.mantissa_bits - 1);
    return top_code << format.mantissa_bits | mantissa;
  }
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << sign_bit : 0;
  if (value == 0) return sign;
  if (std::isinf(value)) {
    TENON_ASSERT(!format.finite_only, "infinity in a format without one");
    return sign | top_code << format.mantissa_bits;
  }
  const double magnitude = std::fabs(value);
  const int exponent = std::max(std::ilogb(magnitude), min_exponent(format));
  const double steps = std::ldexp(magnitude, format.mantissa_bits - exponent);
  const auto whole = static_cast<uint64_t>(steps);
  TENON_ASSERT(static_cast<double>(whole) == steps && exponent <= max_exponent(format), value,
               " is no value of the format");
  // The hidden bit, where there is one, adds the one that turns exponents into codes.
  const auto code_below = static_cast<uint64_t>(exponent - min_exponent(format));
  return sign | ((code_below << format.mantissa_bits) + whole);
}

double round_narrow(const FloatFormat& format, long double value) {
  if (std::isnan(value) || value == 0) return static_cast<double>(value);
  if (std::isinf(value)) return format.finite_only ? kNan : static_cast<double>(value);
  const int exponent = std::max(std::ilogb(value), min_exponent(format));
  const int step = exponent - format.mantissa_bits;
  const long double rounded = std::ldexp(std::rint(std::ldexp(value, -step)), step);
  const int top_steps = (2 << format.mantissa_bits) - (format.finite_only ? 2 : 1);
  const double max = std::ldexp(top_steps, max_exponent(format) - format.mantissa_bits);
  if (std::fabs(rounded) <= max) return static_cast<double>(rounded);
  if (format.finite_only) return kNan;
  return rounded > 0 ? kInf : -kInf;
}

}  // namespace

uint64_t oracle_canonical(DType dtype, uint64_t bits) {
  if (dtype == DType::kBool) return bits != 0 ? 1 : 0;
  const int shift = 64 - dtype_bits(dtype);
  if (is_signed_int(dtype)) {
    return static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
  }
  return bits << shift >> shift;
}

uint64_t oracle_read(DType dtype, const std::byte* bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, static_cast<size_t>(dtype_size_bytes(dtype)));
  return oracle_canonical(dtype, bits);
}

void oracle_write(DType dtype, uint64_t bits, std::byte* bytes) {
  std::memcpy(bytes, &bits, static_cast<size_t>(dtype_size_bytes(dtype)));
}

double oracle_value(DType dtype, uint64_t bits) {
  if (dtype == DType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (dtype == DType::kF64) return std::bit_cast<double>(bits);
  return decode_narrow(float_format(dtype), bits);
}

uint64_t oracle_bits(DType dtype, double value) {
  if (dtype == DType::kF32) {
    return std::isnan(value) ? 0x7fc00000U : std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  if (dtype == DType::kF64) {
    return std::isnan(value) ? uint64_t{0x7ff8} << 48 : std::bit_cast<uint64_t>(value);
  }
  return encode_narrow(float_format(dtype), value);
}

double oracle_round(DType dtype, long double value) {
  if (dtype == DType::kF32) return static_cast<float>(value);
  if (dtype == DType::kF64) return static_cast<double>(value);
  return round_narrow(float_format(dtype), value);
}

double oracle_round(DType dtype, double value) {
  if (dtype == DType::kF32) return static_cast<float>(value);
  if (dtype == DType::kF64) return value;
  return round_narrow(float_format(dtype), value);
}

uint64_t oracle_convert_value(DType to, double value) {
  if (to == DType::kBool) return value != 0 ? 1 : 0;  // true for NaN
  if (is_float(to)) return oracle_bits(to, oracle_round(to, value));
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  // 2^width or 2^(width-1): the first power above the range, a double exactly.
  const double limit = std::ldexp(1.0, dtype_bits(to) - (is_signed_int(to) ? 1 : 0));
  if (whole >= limit) return int_max_bits(to);
  if (is_signed_int(to)) {
    return whole <= -limit ? int_min_bits(to) : static_cast<uint64_t>(static_cast<int64_t>(whole));
  }
  return whole <= 0 ? 0 : static_cast<uint64_t>(whole);
}

uint64_t oracle_convert(DType from, DType to, uint64_t bits) {
  if (is_float(from)) return oracle_convert_value(to, oracle_value(from, bits));
  if (!is_float(to)) return oracle_canonical(to, bits);
  const auto value = is_signed_int(from) ? static_cast<long double>(static_cast<int64_t>(bits))
                                         : static_cast<long double>(bits);
  return oracle_bits(to, oracle_round(to, value));
}

double oracle_ulp(DType dtype, double value) {
  const FloatFormat format = float_format(dtype);
  if (!std::isfinite(value)) return kInf;
  const int exponent =
      value == 0 ? min_exponent(format) : std::max(std::ilogb(value), min_exponent(format));
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

double oracle_max_finite(DType dtype) {
  const FloatFormat format = float_format(dtype);
  const double steps = std::ldexp(2.0, format.mantissa_bits) - (format.finite_only ? 2 : 1);
  return std::ldexp(steps, max_exponent(format) - format.mantissa_bits);
}

double oracle_unit_roundoff(DType dtype) {
  return std::ldexp(1.0, -float_format(dtype).mantissa_bits - 1);
}

double oracle_denorm_min(DType dtype) {
  return std::ldexp(1.0, step_exponent(float_format(dtype)));
}

int oracle_lowest_bit(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto code = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (code == 0) return std::countr_zero(fraction) - 1074;
  return std::countr_zero(fraction | uint64_t{1} << 52) + code - 1075;
}

}  // namespace tenon::detail
