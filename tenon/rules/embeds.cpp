// SPDX-License-Identifier: MIT

#include "tenon/rules/embeds.h"

namespace tenon {
namespace {

// Bits of the magnitude of an integer or bool dtype: the largest magnitude is at most 2^bits.
int magnitude_bits(DType dtype) {
  if (dtype == DType::kBool) return 1;
  return is_signed_int(dtype) ? dtype_bits(dtype) - 1 : dtype_bits(dtype);
}

bool int_embeds_in_float(DType from, DType to) {
  const FloatFormat format = float_format(to);
  // The powers of two up to 2^bits must be finite, and all bits below kept.
  const int max_exponent = (1 << format.exponent_bits) - (format.finite_only ? 1 : 2) - format.bias;
  const int bits = magnitude_bits(from);
  const int needed_exponent = is_signed_int(from) ? bits : bits - 1;
  return bits <= format.mantissa_bits + 1 && needed_exponent <= max_exponent;
}

bool float_embeds(DType from, DType to) {
  const FloatFormat a = float_format(from);
  const FloatFormat b = float_format(to);
  const bool keeps_infinity = a.finite_only || !b.finite_only;
  // Smallest denormal: 2^(1 - bias - mantissa bits).
  const bool keeps_small = b.bias + b.mantissa_bits >= a.bias + a.mantissa_bits;
  const auto max_exponent = [](const FloatFormat& format) {
    return (1 << format.exponent_bits) - (format.finite_only ? 1 : 2) - format.bias;
  };
  return keeps_infinity && keeps_small && a.mantissa_bits <= b.mantissa_bits &&
         max_exponent(a) <= max_exponent(b);
}

}  // namespace

bool embeds(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::kIdx || to == DType::kIdx || to == DType::kBool) return false;
  if (is_float(from)) return is_float(to) && float_embeds(from, to);
  if (is_float(to)) return int_embeds_in_float(from, to);
  if (is_signed_int(from) && !is_signed_int(to)) return false;
  const int spare = is_signed_int(to) ? 1 : 0;
  return magnitude_bits(from) <= dtype_bits(to) - spare;
}

}  // namespace tenon
