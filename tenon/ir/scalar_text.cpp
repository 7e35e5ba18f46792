// Spelling and reading of scalars. SPDX-License-Identifier: MIT

#include "tenon/ir/scalar_text.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "tenon/base/text.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

// The whole of `text` as a number that fits T.
template <typename T, typename... Base>
std::optional<T> parse_number(std::string_view text, Base... base) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

uint64_t quiet_nan_bits(DType dtype) {
  return double_to_float(std::nan(""), dtype);
}

std::string hex_text(uint64_t bits) {
  char digits[16];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, bits, 16);
  return "0x" + std::string(digits, error == std::errc() ? end : digits);
}

std::string float_text(DType dtype, uint64_t bits) {
  const double value = float_to_double(bits, dtype);
  if (std::isnan(value)) return bits == quiet_nan_bits(dtype) ? "nan" : hex_text(bits);
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (dtype == DType::kF64) return concat(value);
  return concat(static_cast<float>(value));  // exact for all narrower dtypes
}

std::optional<uint64_t> parse_float(DType dtype, std::string_view text) {
  if (text == "nan") return quiet_nan_bits(dtype);
  if (text.starts_with("0x")) {
    const auto bits = parse_number<uint64_t>(text.substr(2), 16);
    if (!bits || canonical_bits(dtype, *bits) != *bits) return std::nullopt;
    return bits;
  }
  const bool is_negative = text.starts_with('-');
  if (text.substr(is_negative ? 1 : 0) == "inf") {
    const double inf = is_negative ? -HUGE_VAL : HUGE_VAL;
    const uint64_t bits = double_to_float(inf, dtype);
    if (!std::isinf(float_to_double(bits, dtype))) return std::nullopt;
    return bits;
  }
  // from_chars would also take other spellings of inf and nan.
  if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  uint64_t bits = 0;
  if (dtype == DType::kF32) {
    const auto value = parse_number<float>(text);
    if (!value) return std::nullopt;
    bits = std::bit_cast<uint32_t>(*value);
  } else {
    const auto value = parse_number<double>(text);
    if (!value) return std::nullopt;
    bits = double_to_float(*value, dtype);
  }
  if (!std::isfinite(float_to_double(bits, dtype))) return std::nullopt;
  return bits;
}

}  // namespace

std::string scalar_text(DType dtype, uint64_t bits) {
  if (dtype == DType::kBool) return bits != 0 ? "true" : "false";
  if (is_float(dtype)) return float_text(dtype, bits);
  if (is_unsigned_int(dtype)) return concat(bits);
  return concat(static_cast<int64_t>(bits));
}

std::optional<uint64_t> parse_scalar(DType dtype, std::string_view text) {
  if (dtype == DType::kBool) {
    if (text == "true") return 1;
    if (text == "false") return 0;
    return std::nullopt;
  }
  if (is_float(dtype)) return parse_float(dtype, text);
  if (is_unsigned_int(dtype)) {
    const auto value = parse_number<uint64_t>(text);
    if (!value || *value > int_max_bits(dtype)) return std::nullopt;
    return value;
  }
  const auto value = parse_number<int64_t>(text);
  if (!value) return std::nullopt;
  const auto bits = static_cast<uint64_t>(*value);
  if (dtype != DType::kIdx && canonical_bits(dtype, bits) != bits) return std::nullopt;
  return bits;
}

}  // namespace tenon
