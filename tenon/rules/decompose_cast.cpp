// Casts from and to narrow floats, by bits and by sums that round where the format does. All
// formats come from float_format; nothing here names one but where its values differ in kind.
// SPDX-License-Identifier: MIT

#include <bit>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/rules/decompose_steps.h"
#include "tenon/rules/lower_dtypes.h"

namespace tenon {

using namespace words;  // NOLINT(google-build-using-namespace): the words it is written in

namespace {

constexpr int kF32Mantissa = 23;
constexpr int kF32Bias = 127;

Expr u32(uint64_t value) {
  return pattern(DType::kU32, value);
}
Expr f32_bits(uint64_t bits) {
  return pattern(DType::kF32, bits);
}

uint64_t power_bits(int exponent) {
  return static_cast<uint64_t>(exponent + kF32Bias) << kF32Mantissa;
}

// How a narrow format lies in f32.
struct Narrow {
  DType dtype;
  FloatFormat format;
  int dropped;            // mantissa bits of f32 that the format lacks
  uint64_t min_normal;    // f32 bits of the smallest normal number
  bool shares_exponents;  // bf16: denormals, overflow and infinity are those of f32
};

Narrow narrow_of(DType dtype) {
  const FloatFormat format = float_format(dtype);
  return {dtype, format, kF32Mantissa - format.mantissa_bits, power_bits(1 - format.bias),
          format.exponent_bits == 8};
}

// Bits with half of the dropped part added, ties to even: their upper part is the rounded number.
Expr add_rounding(const Expr& bits, int dropped) {
  if (is_planted(PlantedFault::kBF16Truncated)) return bits;
  const Expr last = (bits >> u32(static_cast<uint64_t>(dropped))) & u32(1);
  return bits + u32((uint64_t{1} << (dropped - 1)) - 1) + last;
}

// A power of two so large that f32 numbers there are as far apart as the denormals of the format.
uint64_t denormal_magic_bits(const Narrow& narrow) {
  return power_bits(1 - narrow.format.bias - narrow.format.mantissa_bits + kF32Mantissa);
}

// f32 bits of the first magnitude that becomes infinity (or NaN): half a step above the largest
// number, where a tie goes to the even neighbour above, or stays (f8e4m3, whose largest number is
// even).
uint64_t overflow_bits(const Narrow& narrow) {
  const int bias = narrow.format.bias;
  const int max_exponent =
      (1 << narrow.format.exponent_bits) - (narrow.format.finite_only ? 1 : 2) - bias;
  const uint64_t next_power = power_bits(max_exponent + 1);
  const uint64_t half_step = uint64_t{1} << (narrow.dropped - 1);
  if (!narrow.format.finite_only) return next_power - half_step;
  // The pattern of all ones is NaN: the largest number is one step lower, and the tie belongs to
  // it.
  return next_power - 3 * half_step + 1;
}

}  // namespace

bool is_narrow_float(DType dtype) {
  return is_float(dtype) && dtype_bits(dtype) < 32;
}

Node widen_bits(const Node& bits, DType dtype) {
  TENON_ASSERT(bits.dtype() == unsigned_of_same_width(dtype),
               "widen_bits: ", dtype_name(bits.dtype()), " for ", dtype_name(dtype));
  const Narrow narrow = narrow_of(dtype);
  const Expr wide = cast({bits}, DType::kU32);
  const int width = dtype_bits(dtype);
  if (narrow.shares_exponents) {
    return bitcast(wide << u32(static_cast<uint64_t>(32 - width)), DType::kF32).node;
  }
  // The magnitude in the upper bits of a f32 is too small by a power of two, denormals included.
  const Expr sign = (wide & u32(sign_bit(dtype))) << u32(static_cast<uint64_t>(32 - width));
  const Expr code = wide & u32(sign_bit(dtype) - 1);
  const Expr shifted = code << u32(static_cast<uint64_t>(narrow.dropped));
  const Expr scale = f32_bits(power_bits(kF32Bias - narrow.format.bias));
  const Expr scaled = bits_of(bitcast(shifted, DType::kF32) * scale);
  const uint64_t first_special =
      narrow.format.finite_only ? sign_bit(dtype) - 1 : infinity_bits(dtype);
  // Infinity stays infinity, NaN keeps a mantissa that is not 0.
  const Expr special = shifted | u32(infinity_bits(DType::kF32));
  const Expr size = where(code < u32(first_special), scaled, special);
  return bitcast(size | sign, DType::kF32).node;
}

Node narrow_to_bits(const Node& value, DType dtype) {
  const Narrow narrow = narrow_of(dtype);
  const Expr x = steps::to_f32_for_narrowing({value});
  const DType result = unsigned_of_same_width(dtype);
  const auto dropped = static_cast<uint64_t>(narrow.dropped);
  if (narrow.shares_exponents) {
    const Expr rounded = add_rounding(bits_of(x), narrow.dropped) >> u32(dropped);
    return cast(where(x == x, rounded, u32(quiet_nan_bits(dtype))), result).node;
  }
  const Expr size = magnitude_bits(x);
  const Expr sign = sign_of(x) >> u32(static_cast<uint64_t>(32 - dtype_bits(dtype)));
  const Expr magic = f32_bits(denormal_magic_bits(narrow));
  const Expr denormal = bits_of(bitcast(size, DType::kF32) + magic) - bits_of(magic);
  const uint64_t rebias = static_cast<uint64_t>(kF32Bias - narrow.format.bias) << kF32Mantissa;
  const Expr rounded = add_rounding(size - u32(rebias), narrow.dropped) >> u32(dropped);
  const Expr finite = where(size < u32(narrow.min_normal), denormal, rounded);
  Expr code = where(size < u32(overflow_bits(narrow)), finite, u32(quiet_nan_bits(dtype)));
  if (!narrow.format.finite_only) {
    const Expr special = where(u32(infinity_bits(DType::kF32)) < size, u32(quiet_nan_bits(dtype)),
                               u32(infinity_bits(dtype)));
    code = where(size < u32(overflow_bits(narrow)), finite, special);
  }
  return cast(code | sign, result).node;
}

Node round_to_narrow(const Node& value, DType dtype) {
  const Narrow narrow = narrow_of(dtype);
  const Expr x = steps::to_f32_for_narrowing({value});
  const Expr kept = u32(~((uint64_t{1} << narrow.dropped) - 1));
  if (narrow.shares_exponents) {
    const Expr rounded = add_rounding(bits_of(x), narrow.dropped) & kept;
    return where(x == x, bitcast(rounded, DType::kF32), x).node;
  }
  const Expr size_bits = magnitude_bits(x);
  const Expr size = bitcast(size_bits, DType::kF32);
  const Expr magic = f32_bits(denormal_magic_bits(narrow));
  const Expr denormal = (size + magic) - magic;
  const Expr normal = bitcast(add_rounding(size_bits, narrow.dropped) & kept, DType::kF32);
  const Expr finite = where(size < f32_bits(narrow.min_normal), denormal, normal);
  // Overflow: NaN without infinities; else size + inf, which keeps NaN.
  const Expr special = narrow.format.finite_only ? f32_bits(quiet_nan_bits(DType::kF32))
                                                 : size + f32_bits(infinity_bits(DType::kF32));
  const Expr rounded = where(size < f32_bits(overflow_bits(narrow)), finite, special);
  return with_sign(rounded, sign_of(x)).node;
}

namespace steps {

namespace {

Expr signed_like(const Expr& x, const Expr& size) {
  if (!is_signed_int(x.dtype())) return size;
  return where(x < integer(x.dtype(), 0), float_neg(size), size);
}

Expr unsigned_magnitude(const Expr& x) {
  return bitcast(int_abs(x), unsigned_of_same_width(x.dtype()));
}

// size >> dropped with the last bit set if any dropped bit was.
Expr shift_sticky(const Expr& size, int dropped) {
  const auto constant = [&](int64_t value) { return integer(size.dtype(), value); };
  const Expr rest = size & constant((int64_t{1} << dropped) - 1);
  const Expr sticky = where(rest == constant(0), constant(0), constant(1));
  return (size >> constant(dropped)) | sticky;
}

// An integer of more bits than `wide` holds: a magnitude from 2^precision on loses `dropped` bits,
// the last kept one telling whether they were 0. What is left is far more than a narrow float
// needs.
Expr int_to_odd(const Expr& x, DType wide, int precision, int dropped) {
  const Expr size = unsigned_magnitude(x);
  const Expr is_exact = size < integer(size.dtype(), int64_t{1} << precision);
  const Expr kept = cast(where(is_exact, size, shift_sticky(size, dropped)), wide);
  const Expr scale =
      where(is_exact, number(wide, 1), number(wide, static_cast<double>(int64_t{1} << dropped)));
  return signed_like(x, kept * scale);
}

// f64 to f32, rounded to odd: where the nearest f32 is not exact and even, its odd neighbour on the
// other side of the value. Infinity for a finite value becomes the largest (odd) number.
Expr f64_to_odd_f32(const Expr& x) {
  const Expr nearest = cast(x, DType::kF32);
  const Expr back = magnitude(cast(nearest, DType::kF64));
  const Expr size = magnitude(x);
  const Expr is_above = size < back;
  const Expr is_inexact = is_above | (back < size);  // false for NaN
  const Expr bits = bits_of(nearest);
  const Expr one = integer(DType::kU32, 1);
  const Expr is_even = (bits & one) == integer(DType::kU32, 0);
  const Expr moved = where(is_above, bits - one, bits + one);
  return bitcast(where(is_inexact & is_even, moved, bits), DType::kF32);
}

}  // namespace

Expr to_f32_for_narrowing(const Expr& value) {
  const DType dtype = value.dtype();
  if (dtype == DType::kF32) return value;
  if (dtype == DType::kF64) return f64_to_odd_f32(value);
  if (dtype == DType::kI32 || dtype == DType::kU32) return int_to_odd(value, DType::kF32, 24, 8);
  if (dtype == DType::kI64 || dtype == DType::kU64) {
    return f64_to_odd_f32(int_to_odd(value, DType::kF64, 53, 11));
  }
  return cast(value, DType::kF32);
}

}  // namespace steps

}  // namespace tenon
