// Encoding and comparison. SPDX-License-Identifier: MIT

#include "tests/cases/values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon::cases {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

Scalar generated_element(const Generated& generated, int64_t i) {
  if (!generated.is_range) return generated.start;
  if (generated.start.is_float() || generated.step.is_float()) {
    return generated.start.to_double() + static_cast<double>(i) * generated.step.to_double();
  }
  const auto integer = [](const Scalar& x) {
    return static_cast<int64_t>(x.bits("gen", DType::kI64));
  };
  return integer(generated.start) + i * integer(generated.step);
}

uint64_t encode_element(const Scalar& value, DType dtype) {
  const uint64_t bits = value.bits("case file", dtype);
  if (is_float(dtype) && dtype_bits(dtype) < 32) {
    const double wanted = value.to_double();
    const double got = decode_float(bits, dtype);
    TENON_CHECK(got == wanted || (std::isnan(got) && std::isnan(wanted)), kInvalid,
                "case file: ", dtype_long_name(dtype), " cannot hold ", wanted);
  }
  return bits;
}

std::string element_text(uint64_t bits, DType dtype) {
  if (is_float(dtype)) return concat(decode_float(bits, dtype));
  if (is_signed_int(dtype)) {
    const int unused_bits = 64 - dtype_bits(dtype);
    return concat(static_cast<int64_t>(bits << unused_bits) >> unused_bits);
  }
  return concat(bits);
}

bool is_equal(uint64_t got, uint64_t want, DType dtype, bool compare_bits,
              const Tolerance& tolerance) {
  if (!is_float(dtype)) return got == want;
  const double x = decode_float(got, dtype);
  const double y = decode_float(want, dtype);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (compare_bits) return got == want;
  if (x == y) return !tolerance.signed_zero || std::signbit(x) == std::signbit(y);
  return !tolerance.exact && std::isfinite(x) && std::isfinite(y) &&
         std::abs(x - y) <= tolerance.atol + tolerance.rtol * std::abs(y);
}

}  // namespace

DType dtype_named(const std::string& name) {
  const std::optional<DType> dtype = find_dtype(name);
  if (!dtype) throw Inexpressible{concat("dtype ", name)};
  return *dtype;
}

std::vector<std::byte> encode(const CaseArray& array, DType dtype) {
  const auto count = static_cast<size_t>(num_elements(array.shape));
  const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
  const size_t given = !array.bits.empty() ? array.bits.size() : array.data.size();
  TENON_CHECK(array.generated || given == count, kInvalid, "case file: array '", array.name,
              "' has ", given, " elements, its shape is ", array.shape);
  std::vector<std::byte> bytes(count * width);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits =
        !array.bits.empty() ? array.bits[i]
        : array.generated
            ? encode_element(generated_element(*array.generated, static_cast<int64_t>(i)), dtype)
            : encode_element(array.data[i], dtype);
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}

double decode_float(uint64_t bits, DType dtype) {
  if (dtype == DType::kF64) return std::bit_cast<double>(bits);
  if (dtype == DType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const FloatFormat format = float_format(dtype);
  const int mantissa_bits = format.mantissa_bits;
  const auto mantissa = static_cast<double>(bits & ((uint64_t{1} << mantissa_bits) - 1));
  const int top = (1 << format.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & top;
  const bool is_negative = (bits >> (mantissa_bits + format.exponent_bits) & 1) != 0;
  const double full = std::ldexp(1.0, mantissa_bits);
  double value = std::ldexp(exponent == 0 ? mantissa : full + mantissa,
                            std::max(exponent, 1) - format.bias - mantissa_bits);
  if (exponent == top && format.finite_only && mantissa == full - 1) value = std::nan("");
  if (exponent == top && !format.finite_only) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  }
  return is_negative ? -value : value;
}

uint64_t element_bits(const std::vector<std::byte>& bytes, size_t i, DType dtype) {
  const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width, width);
  return bits;
}

std::string find_difference(const Tensor& got, const CaseArray& want, const Tolerance& tolerance) {
  const DType dtype = dtype_named(want.dtype);
  if (got.dtype() != dtype) {
    return concat(want.name, ": dtype is ", dtype_long_name(got.dtype()), ", expected ",
                  dtype_long_name(dtype));
  }
  if (got.shape() != want.shape) {
    return concat(want.name, ": shape is ", got.shape(), ", expected ", want.shape);
  }
  const std::vector<std::byte> got_bytes = got.to_bytes();
  const std::vector<std::byte> want_bytes = encode(want, dtype);
  const auto count = static_cast<size_t>(got.size());
  size_t num_wrong = 0;
  std::string first;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t x = element_bits(got_bytes, i, dtype);
    const uint64_t y = element_bits(want_bytes, i, dtype);
    if (is_equal(x, y, dtype, !want.bits.empty(), tolerance)) continue;
    if (num_wrong++ == 0) {
      first = concat(want.name, "[", i, "] is ", element_text(x, dtype), ", expected ",
                     element_text(y, dtype));
    }
  }
  return num_wrong < 2 ? first : concat(first, " (", num_wrong, " of ", count, " wrong)");
}

}  // namespace tenon::cases
