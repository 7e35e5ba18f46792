// Judging a device's result by the oracle's value. SPDX-License-Identifier: MIT

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tenon/base/error.h"
#include "tenon/conform/oracle.h"
#include "tenon/conform/oracle_numeric.h"

namespace tenon {
namespace {

bool is_right(DType dtype, uint64_t expected, double radius, uint64_t got) {
  if (got == expected) return true;
  if (!is_float(dtype)) return false;
  const double wanted = detail::oracle_value(dtype, expected);
  const double value = detail::oracle_value(dtype, got);
  if (std::isnan(wanted)) return std::isnan(value);
  return radius > 0 && std::fabs(value - wanted) <= radius;  // false for NaN
}

double distance_in_ulp(DType dtype, uint64_t expected, uint64_t got) {
  if (!is_float(dtype) || expected == got) return 0;
  const double wanted = detail::oracle_value(dtype, expected);
  const double value = detail::oracle_value(dtype, got);
  if (!std::isfinite(wanted) || !std::isfinite(value)) return 0;
  return std::fabs(value - wanted) / detail::oracle_ulp(dtype, wanted);
}

std::vector<int64_t> multi_index(ShapeView shape, int64_t index) {
  std::vector<int64_t> out(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    out[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return out;
}

std::string first_wrong_text(const OracleValue& expected, const Comparison& result, uint64_t got) {
  const auto i = static_cast<size_t>(result.first_wrong);
  const DType dtype = expected.dtype;
  std::string text =
      concat("element ", format_shape(multi_index(expected.shape, result.first_wrong)), " of ",
             dtype_name(dtype), " ", format_shape(expected.shape), ": expected ",
             element_text(dtype, expected.bits[i]));
  if (expected.radius_at(i) > 0) text += fmt::format(" +- {:.3g}", expected.radius_at(i));
  append(text, ", got ", element_text(dtype, got));
  if (is_float(dtype)) {
    text += fmt::format(", {:.3g} ulp off", distance_in_ulp(dtype, expected.bits[i], got));
  }
  append(text, "; ", result.failed, " of ", result.compared, " elements are wrong");
  if (result.excluded > 0) append(text, ", ", result.excluded, " excluded");
  return text;
}

}  // namespace

std::string element_text(DType dtype, uint64_t bits) {
  if (dtype == DType::kBool) return bits != 0 ? "true" : "false";
  if (is_unsigned_int(dtype)) return concat(bits);
  if (is_signed_int(dtype)) return concat(static_cast<int64_t>(bits));
  const double value = detail::oracle_value(dtype, bits);
  return fmt::format("{:.{}g} (0x{:0{}x})", value, dtype == DType::kF64 ? 17 : 9, bits,
                     dtype_bits(dtype) / 4);
}

Comparison compare(const OracleValue& expected, std::span<const std::byte> got) {
  const auto size_bytes = static_cast<size_t>(dtype_size_bytes(expected.dtype));
  TENON_CHECK(got.size() == expected.bits.size() * size_bytes, ErrorCode::kInvalidArgument,
              "compare: result has ", got.size(), " bytes, expected ",
              expected.bits.size() * size_bytes, " for ", dtype_name(expected.dtype), " ",
              format_shape(expected.shape));
  Comparison result;
  for (size_t i = 0; i < expected.bits.size(); ++i) {
    if (expected.is_excluded(i)) {
      ++result.excluded;
      continue;
    }
    ++result.compared;
    uint64_t bits = detail::oracle_read(expected.dtype, got.data() + i * size_bytes);
    // A stored bool is 0 or 1: other bytes are wrong, not true.
    if (expected.dtype == DType::kBool) bits = std::to_integer<uint64_t>(got[i]);
    result.max_ulp =
        std::max(result.max_ulp, distance_in_ulp(expected.dtype, expected.bits[i], bits));
    if (is_right(expected.dtype, expected.bits[i], expected.radius_at(i), bits)) continue;
    if (result.failed++ == 0) result.first_wrong = static_cast<int64_t>(i);
    if (result.elements.size() < kMaxListedElements) {
      result.elements.push_back({static_cast<int64_t>(i), expected.bits[i], bits});
    }
  }
  if (result.failed > 0) result.text = first_wrong_text(expected, result, result.elements[0].got);
  return result;
}

}  // namespace tenon
