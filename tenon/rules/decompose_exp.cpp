// exp2, exp, tanh and sigmoid for f32. Polynomials are minimax fits of ours (Lawson iteration, then
// coefficients rounded to f32 one by one, the others fitted again); errors stand beside them.
// Ranges are reduced as in W. J. Cody, W. Waite, "Software Manual for the Elementary Functions",
// 1980. SPDX-License-Identifier: MIT

#include "tenon/rules/decompose_steps.h"

namespace tenon::steps {

using namespace words;  // NOLINT(google-build-using-namespace): the words it is written in

namespace {

// 1.5 * 2^23: x + kMagic holds round(x) in its low bits, for |x| < 2^22.
constexpr double kMagic = 0x1.8p23;

// (2^r - 1) / r on [-0.5, 0.5]; relative error of 2^r 2^-28.3.
constexpr double kExp2[] = {0x1.62e430p-1, 0x1.ebfbdcp-3,  0x1.c6af7ap-5,
                            0x1.3b2dd2p-7, 0x1.5f0948p-10, 0x1.417a70p-13};
// (e^r - 1 - r) / r^2 on [-0.3475, 0.3475]; relative error of e^r 2^-28.2.
constexpr double kExp[] = {0x1.fffffcp-2, 0x1.55548ap-3, 0x1.555850p-5, 0x1.123ec6p-7,
                           0x1.6ac36ep-10};
// (tanh(x) / x - 1) / x^2 in x^2, x up to 0.55; relative error of tanh 2^-29.7.
constexpr double kTanh[] = {-0x1.55554ap-2, 0x1.110ceep-3, -0x1.b91e7ep-5, 0x1.58e516p-6,
                            -0x1.992182p-8};

// ln 2 = high + low; high has 9 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.63p-1;
constexpr double kLn2Low = -0x1.bd0106p-13;
constexpr double kLog2E = 0x1.715476p0;

// x, but not below `low`; NaN stays.
Expr at_least(const Expr& x, double low) {
  return where(x < f32(low), f32(low), x);
}
Expr at_most(const Expr& x, double high) {
  return where(f32(high) < x, f32(high), x);
}

// 2^n as a float for n that stands in the low bits of `bits`; n in [-126, 127].
Expr power_of_two(const Expr& bits) {
  return bitcast((bits + integer(DType::kI32, 127)) << integer(DType::kI32, 23), DType::kF32);
}

// value * 2^n in two steps, each in range, so that results below the normal numbers are rounded
// once and results above become infinite. NaN stays NaN whatever its bits say of n.
Expr scale(const Expr& value, const Expr& rounded) {
  const Expr bits = bitcast(rounded, DType::kI32);  // kMagic's low 10 bits are 0: n modulo 2^9
  const Expr half = bits >> integer(DType::kI32, 1);
  return value * power_of_two(half) * power_of_two(bits - half);
}

struct ExpParts {
  Expr rounded;   // kMagic + n
  Expr fraction;  // e^r, x = n ln 2 + r
};

ExpParts exp_parts(const Expr& x) {
  const Expr rounded = mulacc(x, f32(kLog2E), f32(kMagic));
  const Expr n = rounded - f32(kMagic);
  const Expr r = mulacc(n, f32(-kLn2Low), mulacc(n, f32(-kLn2High), x));
  const Expr tail = mulacc(polynomial(r, kExp), r * r, r);
  return {rounded, f32(1) + tail};
}

}  // namespace

Expr polynomial(const Expr& x, std::span<const double> coefficients) {
  Expr sum = f32(coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;)
    sum = mulacc(sum, x, f32(coefficients[i]));
  return sum;
}

Expr exp2(const Expr& x) {
  // 2^-151 rounds to 0 and 2^129 to infinity.
  const Expr inside = at_most(at_least(x, -151), 129);
  const Expr rounded = inside + f32(kMagic);
  const Expr r = inside - (rounded - f32(kMagic));
  return scale(mulacc(polynomial(r, kExp2), r, f32(1)), rounded);
}

Expr exp(const Expr& x) {
  // e^-104 is below half of the smallest denormal, e^89 above the largest number.
  const ExpParts parts = exp_parts(at_most(at_least(x, -104), 89));
  return scale(parts.fraction, parts.rounded);
}

// Near 0 an odd polynomial; beyond, 1 - 2 / (e^(2|x|) + 1), which is 1 from 9.02 on.
Expr tanh(const Expr& x) {
  const Expr size = magnitude(x);
  const Expr square = size * size;
  const Expr near = mulacc(polynomial(square, kTanh) * square, size, size);
  const Expr inside = at_most(size, 10);
  const ExpParts parts = exp_parts(inside + inside);
  const Expr power = parts.fraction * power_of_two(bitcast(parts.rounded, DType::kI32));
  const Expr far = f32(1) - f32(2) / (power + f32(1));
  return with_sign(where(size < f32(0.55), near, far), sign_of(x));
}

// e / (1 + e) or 1 / (1 + e) with e = exp(-|x|) <= 1: small results keep their precision.
Expr sigmoid(const Expr& x) {
  const Expr negative =
      bitcast(bits_of(x) | pattern(DType::kU32, sign_bit(DType::kF32)), DType::kF32);
  const ExpParts parts = exp_parts(at_least(negative, -104));
  const Expr e = scale(parts.fraction, parts.rounded);
  return where(x < f32(0), e, f32(1)) / (f32(1) + e);
}

}  // namespace tenon::steps
