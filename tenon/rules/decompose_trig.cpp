// sin, cos and tan for f32, right for every argument up to 3.4e38: M. Payne, R. Hanek, "Radian
// reduction for trigonometric functions", 1983. The mantissa is multiplied with the 96 bits of 2/pi
// that matter at its exponent, in 64-bit integers; the bits are chosen by shifts and `where` from
// four constants, so no table is read and no branch taken, and one path serves all arguments from 1
// on. SPDX-License-Identifier: MIT

#include "tenon/rules/decompose_steps.h"

namespace tenon::steps {

using namespace words;  // NOLINT(google-build-using-namespace): the words it is written in

namespace {

// (sin(r) / r - 1) / r^2 in r^2, r up to 1; relative error of sin 2^-31.5.
constexpr double kSin[] = {-0x1.555556p-3, 0x1.11113ep-7, -0x1.a01ffep-13, 0x1.6de9f6p-19};
// (cos(r) - 1 + r^2 / 2) / r^4 in r^2, r up to 1; relative error of cos 2^-35.2.
constexpr double kCos[] = {0x1.555556p-5, -0x1.6c1712p-10, 0x1.a02c1ep-16, -0x1.2680ecp-22};

// 2/pi * 2^-25, 256 bits: bit 0 has the weight at which the product with a mantissa of exponent 0
// (as a number in [1, 2)) counts whole turns.
constexpr uint64_t kTwoOverPi[] = {0x000000517cc1b727, 0x220a94fe13abe8fa, 0x9a6ee06db14acc9e,
                                   0x21c820ff28b1d5ef};
constexpr double kHalfPi = 0x1.921fb54442d18p0;

struct Reduced {
  Expr quadrant;  // u32, modulo 4
  Expr angle;     // |x| = quadrant * pi/2 + angle; |angle| <= pi/4, or below 1 with quadrant 0
};

Expr u64(uint64_t value) {
  return pattern(DType::kU64, value);
}

// The 64 bits from bit `shift` of (high, low); shift in [0, 63], so that no count is out of range.
Expr funnel(const Expr& high, const Expr& low, const Expr& shift) {
  return (high << shift) | ((low >> u64(1)) >> (shift ^ u64(63)));
}

// |x| * 2/pi modulo 4 in units of 2^-62, for |x| >= 1.
Expr turns(const Expr& size_bits) {
  const Expr mantissa =
      (size_bits & integer(DType::kU32, 0x7fffff)) | integer(DType::kU32, 0x800000);
  const Expr exponent = (size_bits >> integer(DType::kU32, 23)) - integer(DType::kU32, 127);
  const Expr is_low = exponent < integer(DType::kU32, 64);
  const Expr shift = cast(exponent & integer(DType::kU32, 63), DType::kU64);
  const auto word = [&](size_t i) {
    return where(is_low, u64(kTwoOverPi[i]), u64(kTwoOverPi[i + 1]));
  };
  const Expr middle = word(1);
  const Expr high = funnel(word(0), middle, shift);
  const Expr low = funnel(middle, word(2), shift) >> u64(32);
  const Expr wide = cast(mantissa, DType::kU64);
  return wide * high + ((wide * low) >> u64(32));
}

Reduced reduce(const Expr& x) {
  const Expr size_bits = magnitude_bits(x);
  const Expr size = bitcast(size_bits, DType::kF32);
  const Expr is_small = size < f32(1);
  const Expr product = turns(size_bits);
  const Expr quadrant = cast((product + u64(uint64_t{1} << 61)) >> u64(62), DType::kU32);
  // The fraction of a quadrant, signed, in units of 2^-64. f64 carries it to the angle, so that
  // only the last step rounds visibly.
  const Expr fraction = cast(bitcast(product << u64(2), DType::kI64), DType::kF64);
  const Expr angle = cast(fraction * number(DType::kF64, kHalfPi * 0x1p-64), DType::kF32);
  return {where(is_small, integer(DType::kU32, 0), quadrant), where(is_small, size, angle)};
}

Expr sin_near_zero(const Expr& r, const Expr& square) {
  return mulacc(polynomial(square, kSin) * square, r, r);
}

Expr cos_near_zero(const Expr& square) {
  const Expr start = mulacc(square, f32(-0.5), f32(1));
  return mulacc(polynomial(square, kCos), square * square, start);
}

Expr is_odd(const Expr& quadrant) {
  return (quadrant & integer(DType::kU32, 1)) == integer(DType::kU32, 1);
}

// The sign bit where bit 1 of the quadrant is set.
Expr half_turn_sign(const Expr& quadrant) {
  return (quadrant & integer(DType::kU32, 2)) << integer(DType::kU32, 30);
}

Expr finish(const Expr& x, const Expr& value, const Expr& sign) {
  const Expr signed_value = bitcast(bits_of(value) ^ sign, DType::kF32);
  const Expr nan = pattern(DType::kF32, quiet_nan_bits(DType::kF32));
  return where(magnitude(x) < pattern(DType::kF32, infinity_bits(DType::kF32)), signed_value, nan);
}

}  // namespace

Expr sin(const Expr& x) {
  const auto [quadrant, angle] = reduce(x);
  const Expr square = angle * angle;
  const Expr value = where(is_odd(quadrant), cos_near_zero(square), sin_near_zero(angle, square));
  return finish(x, value, half_turn_sign(quadrant) ^ sign_of(x));
}

Expr cos(const Expr& x) {
  const Reduced reduced = reduce(x);
  const Expr quadrant = reduced.quadrant + integer(DType::kU32, 1);
  const Expr square = reduced.angle * reduced.angle;
  const Expr value =
      where(is_odd(quadrant), cos_near_zero(square), sin_near_zero(reduced.angle, square));
  return finish(x, value, half_turn_sign(quadrant));
}

Expr tan(const Expr& x) {
  const auto [quadrant, angle] = reduce(x);
  const Expr square = angle * angle;
  const Expr sine = sin_near_zero(angle, square);
  const Expr cosine = cos_near_zero(square);
  const Expr odd = is_odd(quadrant);
  // tan(r + pi/2) = -cos(r) / sin(r)
  const Expr value = where(odd, cosine, sine) / where(odd, sine, cosine);
  const Expr sign = (quadrant & integer(DType::kU32, 1)) << integer(DType::kU32, 31);
  return finish(x, value, sign ^ sign_of(x));
}

}  // namespace tenon::steps
