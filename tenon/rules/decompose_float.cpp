// Float decompositions of the exact class: sign, tests, rounding to integers, sqrt, fma. Bit-exact
// for all inputs, -0, denormals, infinities and NaN included. SPDX-License-Identifier: MIT

#include "tenon/rules/decompose_steps.h"

namespace tenon::steps {

using namespace words;  // NOLINT(google-build-using-namespace): the words it is written in

Expr float_neg(const Expr& x) {
  // -0 - x is -x for every x, zeros included.
  return number(x.dtype(), -0.0) - x;
}

Expr float_abs(const Expr& x) {
  return magnitude(x);
}

Expr is_nan(const Expr& x) {
  return !(x == x);
}

Expr is_inf(const Expr& x) {
  if (float_format(x.dtype()).finite_only) return pattern(DType::kBool, 0);
  return magnitude(x) == pattern(x.dtype(), infinity_bits(x.dtype()));
}

Expr is_finite(const Expr& x) {
  if (float_format(x.dtype()).finite_only) return x == x;
  return magnitude(x) < pattern(x.dtype(), infinity_bits(x.dtype()));
}

namespace {

// 2^mantissa_bits: from here on every value is an integer, and the sum with a smaller value rounds
// that to an integer.
Expr first_integer_power(DType dtype) {
  const FloatFormat format = float_format(dtype);
  const auto exponent = static_cast<uint64_t>(int64_t{format.mantissa_bits} + format.bias);
  return pattern(dtype, exponent << format.mantissa_bits);
}

// |x| rounded to an integer, ties to even; right below the power above.
Expr round_magnitude(const Expr& size) {
  const Expr power = first_integer_power(size.dtype());
  return (size + power) - power;
}

// NaN fails the comparison, too.
Expr unless_integer(const Expr& x, const Expr& size, const Expr& rounded_size) {
  const Expr rounded = with_sign(rounded_size, sign_of(x));
  return where(size < first_integer_power(x.dtype()), rounded, x);
}

}  // namespace

Expr round_even(const Expr& x) {
  const Expr size = magnitude(x);
  return unless_integer(x, size, round_magnitude(size));
}

Expr trunc(const Expr& x, const Target& target) {
  if (target.is_native(Op::kTrunc)) return {make_expr(Op::kTrunc, x.node)};
  const Expr size = magnitude(x);
  const Expr rounded = round_magnitude(size);
  const Expr one = number(x.dtype(), 1);
  return unless_integer(x, size, where(size < rounded, rounded - one, rounded));
}

Expr floor(const Expr& x, const Target& target) {
  const Expr whole = trunc(x, target);
  return where(x < whole, whole - number(x.dtype(), 1), whole);
}

Expr ceil(const Expr& x, const Target& target) {
  const Expr whole = trunc(x, target);
  // Rounded up from (-1, 0) gives -0: `whole` keeps the sign there, as whole < x adds 1 only to
  // whole = -0 or +0 when x > 0.
  return where(whole < x, whole + number(x.dtype(), 1), whole);
}

namespace {

// floor(sqrt(value * 2^(mantissa_bits + 2))) of an integer below 2^(mantissa_bits + 2), bit by bit:
// each is kept if the square of what is there so far, with it, still fits (restoring square root).
Expr root_bits(const Expr& value, int mantissa_bits) {
  const DType dtype = value.dtype();
  Expr rest = value + value;
  Expr twice_root = integer(dtype, 0);
  for (int bit = mantissa_bits + 1; bit >= 0; --bit) {
    const Expr step = integer(dtype, int64_t{1} << bit);
    const Expr tried = twice_root + step;
    const Expr is_too_large = rest < tried;
    twice_root = where(is_too_large, twice_root, tried + step);
    rest = where(is_too_large, rest, rest - tried);
    rest = rest + rest;
  }
  return twice_root >> integer(dtype, 1);
}

}  // namespace

Expr sqrt(const Expr& x) {
  const FloatFormat format = float_format(x.dtype());
  const int width = format.mantissa_bits;
  const DType word = unsigned_of_same_width(x.dtype());
  const auto whole = [&](int64_t value) { return integer(word, value); };
  // Denormals times an even power of two are normal.
  const int half_scale = width / 2 + 1;
  const Expr smallest_normal = pattern(x.dtype(), uint64_t{1} << width);
  const Expr is_denormal = x < smallest_normal;
  const Expr scale = number(x.dtype(), static_cast<double>(uint64_t{1} << (2 * half_scale)));
  const Expr bits = bits_of(where(is_denormal, x * scale, x));
  const Expr exponent = bits >> whole(width);
  const Expr mantissa = (bits & whole((int64_t{1} << width) - 1)) | whole(int64_t{1} << width);
  // The bias is odd: where the field is even the exponent is odd, and one power of it goes into the
  // mantissa.
  const Expr shifted = mantissa << ((exponent & whole(1)) ^ whole(1));
  const Expr root_exponent = (exponent + whole(format.bias)) >> whole(1);
  const Expr scaled_exponent = root_exponent - where(is_denormal, whole(half_scale), whole(0));
  // One bit more than the result has: no root lies half-way between two results, so it decides.
  const Expr rounded = (root_bits(shifted, width) + whole(1)) >> whole(1);
  const Expr root = ((scaled_exponent - whole(1)) << whole(width)) + rounded;
  const Expr zero = number(x.dtype(), 0);
  const Expr is_usual = (zero < x) & (x < pattern(x.dtype(), infinity_bits(x.dtype())));
  const Expr nan = pattern(x.dtype(), quiet_nan_bits(x.dtype()));
  return where(is_usual, bitcast(root, x.dtype()), where(x < zero, nan, x));
}

// The product of two f32 is exact in f64. The sum is rounded to odd in f64 (S. Boldo, G. Melquiond,
// "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd", 2008), so
// that one more rounding, to f32 or narrower, is as if it were the only one. TwoSum (Knuth) gives
// the error.
Expr fma_to_odd(const Expr& a, const Expr& b, const Expr& c) {
  const Expr product = cast(a, DType::kF64) * cast(b, DType::kF64);
  const Expr addend = cast(c, DType::kF64);
  const Expr sum = product + addend;
  const Expr part = sum - product;
  const Expr error = (product - (sum - part)) + (addend - part);
  const Expr zero = number(DType::kF64, 0);
  const Expr bits = bits_of(sum);
  const Expr one = integer(DType::kU64, 1);
  // An inexact even sum moves one step towards the true value; odd ones stay. Infinite and NaN sums
  // have a NaN error, which is neither below nor above 0.
  const Expr is_even = (bits & one) == integer(DType::kU64, 0);
  const Expr towards_zero = (error < zero) ^ (sum < zero);
  const Expr is_inexact = (error < zero) | (zero < error);
  const Expr moved = where(towards_zero, bits - one, bits + one);
  return bitcast(where(is_inexact & is_even, moved, bits), DType::kF64);
}

}  // namespace tenon::steps
