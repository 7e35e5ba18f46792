// SPDX-License-Identifier: MIT

#include "tests/support/special_values.h"

#include <algorithm>
#include <cmath>

#include "tenon/ir/eval_op.h"

namespace tenon::testing {
namespace {

/// Keeps the first of equals.
class Values {
 public:
  explicit Values(DType dtype) : dtype_(dtype) {}

  void add(uint64_t bits) {
    bits = canonical_bits(dtype_, bits);
    if (std::find(bits_.begin(), bits_.end(), bits) == bits_.end()) bits_.push_back(bits);
  }
  /// A pattern of a float format with both signs.
  void add_both(uint64_t magnitude) {
    add(magnitude);
    add(magnitude | uint64_t{1} << (dtype_bits(dtype_) - 1));
  }
  /// Both signs of a number, if the format holds it exactly.
  void add_number(double value) {
    const uint64_t bits = double_to_float(value, dtype_);
    if (float_to_double(bits, dtype_) == value) add_both(bits);
  }
  std::vector<uint64_t> take() { return std::move(bits_); }

 private:
  DType dtype_;
  std::vector<uint64_t> bits_;
};

/// Bit patterns at the ends of the format: they need no rounding.
void add_format_ends(Values& values, const FloatFormat& format) {
  const uint64_t fraction = (uint64_t{1} << format.mantissa_bits) - 1;
  const uint64_t top = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t inf = top << format.mantissa_bits;
  const uint64_t max = format.finite_only ? (inf | fraction) - 1 : inf - 1;
  const uint64_t one = static_cast<uint64_t>(format.bias) << format.mantissa_bits;
  for (const uint64_t bits : {uint64_t{0}, uint64_t{1}, uint64_t{2}, fraction, fraction + 1,
                              fraction + 2, one, one + 1, one - 1, max, max - 1, max + 1}) {
    values.add_both(bits);  // max + 1: infinity, or the NaN of a finite-only format
  }
  values.add_both(inf | fraction);
  if (!format.finite_only) {
    values.add_both(inf | (uint64_t{1} << (format.mantissa_bits - 1)));  // a quiet NaN
    values.add_both(inf | 1);                                            // a signalling one
  }
}

/// Ties of rounding to `narrow`, and their neighbours: near 1, where it overflows, where it
/// underflows.
void add_ties(Values& values, DType dtype, DType narrow) {
  const FloatFormat format = float_format(narrow);
  const double half_step = std::ldexp(1.0, -format.mantissa_bits - 1);
  const double own_step = std::ldexp(1.0, -float_format(dtype).mantissa_bits);
  const int top_exponent = (1 << format.exponent_bits) - (format.finite_only ? 1 : 2) - format.bias;
  const double top = std::ldexp(1.0, top_exponent);
  const double max = top * (2 - (format.finite_only ? 4 : 2) * half_step);
  const double denormal = std::ldexp(1.0, 1 - format.bias - format.mantissa_bits);
  for (const double sign : {-1.0, 0.0, 1.0}) {
    values.add_number(1 + half_step + sign * own_step);
    values.add_number(1 + 3 * half_step + sign * own_step);
    values.add_number(max + top * (half_step + sign * own_step));
    values.add_number(denormal * (0.5 + sign * own_step / 2));
    values.add_number(denormal * (1.5 + sign * own_step));
  }
  values.add_number(max);
  values.add_number(denormal);
  values.add_number(denormal * (std::ldexp(1.0, format.mantissa_bits) - 0.5));
}

std::vector<uint64_t> float_values(DType dtype) {
  Values values(dtype);
  add_format_ends(values, float_format(dtype));
  for (const double value : {0.25, 0.5, 0.75, 1.5, 2.0, 2.5, 3.0, 3.5, 7.0, 10.0, 100.0})
    values.add_number(value);
  for (const DType narrow :
       {DType::kF8E4M3, DType::kF8E5M2, DType::kF16, DType::kBF16, DType::kF32}) {
    if (float_format(narrow).mantissa_bits < float_format(dtype).mantissa_bits) {
      add_ties(values, dtype, narrow);
    }
  }
  for (const int bits : {7, 8, 15, 16, 24, 31, 32, 53, 63, 64}) {  // limits of the integers
    const double limit = std::ldexp(1.0, bits);
    for (const double value : {limit - 1, limit - 0.5, limit, limit + 1, std::nextafter(limit, 0),
                               static_cast<double>(std::nextafter(static_cast<float>(limit), 0))}) {
      values.add_number(value);
    }
  }
  return values.take();
}

std::vector<uint64_t> int_values(DType dtype) {
  Values values(dtype);
  const uint64_t min = int_min_bits(dtype);
  const uint64_t max = int_max_bits(dtype);
  for (const uint64_t bits : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, min, max, min + 1, max - 1,
                              uint64_t{3}, ~uint64_t{2}, uint64_t{10}, ~uint64_t{6}}) {
    values.add(bits);
  }
  const auto width = static_cast<uint64_t>(dtype_bits(dtype));
  for (const uint64_t bits : {width - 1, width, width + 1, ~width + 1, 2 * width, uint64_t{255}})
    values.add(bits);  // shift counts; also what a masked count would be
  for (uint64_t bit = 1; bit < width; bit += bit < 4 ? 1 : width / 8) {
    values.add(uint64_t{1} << bit);
    values.add((uint64_t{1} << bit) - 1);
    values.add(~(uint64_t{1} << bit) + 1);
  }
  if (width > 24) values.add((uint64_t{1} << 24) + 1);  // no float32
  if (width > 53) values.add((uint64_t{1} << 53) + 1);  // no float64
  return values.take();
}

}  // namespace

std::vector<uint64_t> special_values(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  return is_float(dtype) ? float_values(dtype) : int_values(dtype);
}

std::vector<uint64_t> edge_values(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  Values values(dtype);
  if (is_float(dtype)) {
    const FloatFormat format = float_format(dtype);
    const uint64_t end = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
    const uint64_t fraction = (uint64_t{1} << format.mantissa_bits) - 1;
    values.add_both(0);
    for (const double value : {1.0, 2.0})
      values.add_number(value);
    values.add(double_to_float(0.5, dtype));
    values.add(double_to_float(-2.5, dtype));
    values.add(1);
    values.add_both(format.finite_only ? end | (fraction - 1) : end);  // infinity, or the largest
    values.add(end | fraction);
    return values.take();
  }
  const auto width = static_cast<uint64_t>(dtype_bits(dtype));
  for (const uint64_t bits :
       {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, int_min_bits(dtype), int_max_bits(dtype),
        uint64_t{2}, uint64_t{7}, ~uint64_t{2}, width - 1, width}) {
    values.add(bits);
  }
  return values.take();
}

}  // namespace tenon::testing
