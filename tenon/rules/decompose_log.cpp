// log2 and log for f32: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), then a polynomial in m - 1.
// SPDX-License-Identifier: MIT

#include "tenon/rules/decompose_steps.h"

namespace tenon::steps {

using namespace words;  // NOLINT(google-build-using-namespace): the words it is written in

namespace {

// log2(1 + f) / f - 1, f = m - 1; relative error of log2(1 + f) 2^-27.0.
constexpr double kLog2[] = {0x1.c551dap-2, -0x1.715476p-1, 0x1.ec702cp-2, -0x1.71570ep-2,
                            0x1.278a8ap-2, -0x1.eb5a8ep-3, 0x1.a228d8p-3, -0x1.821f6cp-3,
                            0x1.7eea8cp-3, -0x1.daf36cp-4};
// (log(1 + f) - f) / f^2; relative error of log(1 + f) 2^-27.8.
constexpr double kLog[] = {-0x1.fffff8p-2, 0x1.555550p-2,  -0x1.000430p-2,
                           0x1.99a3dap-3,  -0x1.5425f4p-3, 0x1.2274f6p-3,
                           -0x1.0f4642p-3, 0x1.0830d0p-3,  -0x1.37a6f6p-4};
constexpr double kLn2High = 0x1.63p-1;  // 9 bits: the product with an exponent is exact
constexpr double kLn2Low = -0x1.bd0106p-13;
constexpr int64_t kSqrtHalfBits = 0x3f3504f3;

struct LogParts {
  Expr exponent;  // as f32
  Expr fraction;  // f = m - 1, exact
};

LogParts log_parts(const Expr& x) {
  const Expr is_denormal = x < f32(0x1p-126);
  const Expr bits = bitcast(where(is_denormal, x * f32(0x1p23), x), DType::kI32);
  const Expr width = integer(DType::kI32, 23);
  const Expr exponent = (bits - integer(DType::kI32, kSqrtHalfBits)) >> width;
  const Expr m = bitcast(bits - (exponent << width), DType::kF32);
  const Expr correction = where(is_denormal, f32(-23), f32(0));
  return {cast(exponent, DType::kF32) + correction, m - f32(1)};
}

// 0 gives -inf, negatives and NaN give NaN, inf gives inf.
Expr with_special_values(const Expr& x, const Expr& value) {
  const Expr infinity = pattern(DType::kF32, infinity_bits(DType::kF32));
  const Expr nan = pattern(DType::kF32, quiet_nan_bits(DType::kF32));
  const Expr minus_infinity =
      pattern(DType::kF32, infinity_bits(DType::kF32) | sign_bit(DType::kF32));
  const Expr positive = where(x < infinity, value, infinity);
  return where(f32(0) < x, positive, where(x == f32(0), minus_infinity, nan));
}

}  // namespace

Expr log2(const Expr& x) {
  const LogParts parts = log_parts(x);
  const Expr& f = parts.fraction;
  const Expr value = parts.exponent + mulacc(polynomial(f, kLog2), f, f);
  return with_special_values(x, value);
}

Expr log(const Expr& x) {
  const LogParts parts = log_parts(x);
  const Expr& f = parts.fraction;
  const Expr tail = mulacc(polynomial(f, kLog), f * f, parts.exponent * f32(kLn2Low));
  return with_special_values(x, mulacc(parts.exponent, f32(kLn2High), f + tail));
}

}  // namespace tenon::steps
