// How C11 with Clang's vectors spells each elementwise op, exact as ir/eval_op.h defines it.
// Read by c.cpp. Scalars and vectors share most rows. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/render/c_like.h"

namespace tenon::detail {

/// Integers wrap, so they are computed unsigned; narrow ones are cut back from int each time.
inline constexpr OpText kCTable[] = {
    {Op::kAdd, kOnFloat, kAnyForm, "$0 + $1"},
    {Op::kSub, kOnFloat, kAnyForm, "$0 - $1"},
    {Op::kMul, kOnFloat, kAnyForm, "$0 * $1"},
    {Op::kDiv, kOnFloat, kAnyForm, "$0 / $1"},
    {Op::kMulAcc, kOnFloat, kAnyForm, "$0 * $1 + $2"},
    {Op::kFma, kOnFloat, kAnyForm, "__builtin_elementwise_fma($0, $1, $2)"},
    {Op::kSqrt, kOnFloat, kAnyForm, "__builtin_elementwise_sqrt($0)"},
    {Op::kTrunc, kOnFloat, kAnyForm, "__builtin_elementwise_trunc($0)"},

    {Op::kAdd, kOnUnsigned, kWide | kVector, "$0 + $1"},
    {Op::kSub, kOnUnsigned, kWide | kVector, "$0 - $1"},
    {Op::kMul, kOnUnsigned, kWide | kVector, "$0 * $1"},
    {Op::kAdd, kOnInt, kAnyForm, "add_$S($0, $1)",
     "HELPER $S add_$S($S a, $S b) {\n  return ($S)(($W)a + ($W)b);\n}"},
    {Op::kSub, kOnInt, kAnyForm, "sub_$S($0, $1)",
     "HELPER $S sub_$S($S a, $S b) {\n  return ($S)(($W)a - ($W)b);\n}"},
    {Op::kMul, kOnInt, kAnyForm, "mul_$S($0, $1)",
     "HELPER $S mul_$S($S a, $S b) {\n  return ($S)(($W)a * ($W)b);\n}"},

    // x / 0 = x % 0 = 0; MIN / -1 = MIN, MIN % -1 = 0. A constant divisor leaves no guard.
    {Op::kDiv, kOnUnsigned, kScalar, "div_$S($0, $1)",
     "HELPER $S div_$S($S a, $S b) {\n  return b == 0 ? 0 : a / b;\n}"},
    {Op::kMod, kOnUnsigned, kScalar, "mod_$S($0, $1)",
     "HELPER $S mod_$S($S a, $S b) {\n  return b == 0 ? 0 : a % b;\n}"},
    {Op::kDiv, kOnSigned, kScalar, "div_$S($0, $1)",
     "HELPER $S div_$S($S a, $S b) {\n  const $S d = b == 0 || (a == $< && b == -1) ? 1 : b;\n"
     "  return b == 0 ? 0 : a / d;\n}"},
    {Op::kMod, kOnSigned, kScalar, "mod_$S($0, $1)",
     "HELPER $S mod_$S($S a, $S b) {\n  const $S d = b == 0 || b == -1 ? 1 : b;\n"
     "  return a % d;\n}"},
    {Op::kDiv, kOnUnsigned, kVector, "div_$S($0, $1)",
     "HELPER $S div_$S($S a, $S b) {\n  const $M zero = __builtin_convertvector(b == ($S)0, $M);\n"
     "  return zero ? ($S)0 : a / (zero ? ($S)1 : b);\n}"},
    {Op::kMod, kOnUnsigned, kVector, "mod_$S($0, $1)",
     "HELPER $S mod_$S($S a, $S b) {\n  const $M zero = __builtin_convertvector(b == ($S)0, $M);\n"
     "  return a % (zero ? ($S)1 : b);\n}"},
    {Op::kDiv, kOnSigned, kVector, "div_$S($0, $1)",
     "HELPER $S div_$S($S a, $S b) {\n  const $M zero = __builtin_convertvector(b == ($S)0, $M);\n"
     "  const $M wraps = __builtin_convertvector((a == $<) & (b == ($S)-1), $M);\n"
     "  return zero ? ($S)0 : a / (zero | wraps ? ($S)1 : b);\n}"},
    {Op::kMod, kOnSigned, kVector, "mod_$S($0, $1)",
     "HELPER $S mod_$S($S a, $S b) {\n"
     "  const $M bad = __builtin_convertvector((b == ($S)0) | (b == ($S)-1), $M);\n"
     "  return a % (bad ? ($S)1 : b);\n}"},

    // NaN wins, +0 is greater than -0.
    {Op::kMin, kOnFloat, kAnyForm, "__builtin_elementwise_minimum($0, $1)"},
    {Op::kMax, kOnFloat, kAnyForm, "__builtin_elementwise_maximum($0, $1)"},
    {Op::kMin, kOnInt, kAnyForm, "min_$S($0, $1)",
     "HELPER $S min_$S($S a, $S b) {\n  return __builtin_elementwise_min(a, b);\n}"},
    {Op::kMax, kOnInt, kAnyForm, "max_$S($0, $1)",
     "HELPER $S max_$S($S a, $S b) {\n  return __builtin_elementwise_max(a, b);\n}"},
    {Op::kMin, kOnBool, kAnyForm, "$0 & $1"},
    {Op::kMax, kOnBool, kAnyForm, "$0 | $1"},
    {Op::kMul, kOnBool, kAnyForm, "$0 & $1"},
    {Op::kAdd, kOnBool, kAnyForm, "$0 | $1"},

    {Op::kAnd, kOnBool | kOnInt, kAnyForm, "$0 & $1"},
    {Op::kOr, kOnBool | kOnInt, kAnyForm, "$0 | $1"},
    {Op::kXor, kOnBool | kOnInt, kAnyForm, "$0 ^ $1"},
    {Op::kNot, kOnBool, kScalar, "!$0"},
    {Op::kNot, kOnBool, kVector, "~$0"},
    {Op::kNot, kOnInt, kAnyForm, "($R)~$0"},

    // A count outside [0, bits) gives 0, or the sign.
    {Op::kShl, kOnInt, kScalar, "shl_$S($0, $1)",
     "HELPER $S shl_$S($S a, $S n) {\n  return ($U)n < $B ? ($S)(($W)a << n) : 0;\n}"},
    {Op::kShr, kOnUnsigned, kScalar, "shr_$S($0, $1)",
     "HELPER $S shr_$S($S a, $S n) {\n  return n < $B ? ($S)(a >> n) : 0;\n}"},
    {Op::kShr, kOnSigned, kScalar, "shr_$S($0, $1)",
     "HELPER $S shr_$S($S a, $S n) {\n  return ($S)(a >> (($U)n < $B ? n : $B - 1));\n}"},
    {Op::kShl, kOnInt, kVector, "shl_$S($0, $1)",
     "HELPER $S shl_$S($S a, $S n) {\n"
     "  const $M fits = __builtin_convertvector(($U)n < ($U)$B, $M);\n"
     "  return fits ? ($S)(($U)a << ($U)(n & ($S)($B - 1))) : ($S)0;\n}"},
    {Op::kShr, kOnUnsigned, kVector, "shr_$S($0, $1)",
     "HELPER $S shr_$S($S a, $S n) {\n"
     "  const $M fits = __builtin_convertvector(n < ($S)$B, $M);\n"
     "  return fits ? a >> (n & ($S)($B - 1)) : ($S)0;\n}"},
    {Op::kShr, kOnSigned, kVector, "shr_$S($0, $1)",
     "HELPER $S shr_$S($S a, $S n) {\n"
     "  const $M fits = __builtin_convertvector(($U)n < ($U)$B, $M);\n"
     "  return a >> (fits ? n : ($S)($B - 1));\n}"},

    // A mask is a vector of bool.
    {Op::kLt, kOnBool, kVector, "~$0 & $1"},
    {Op::kLe, kOnBool, kVector, "~$0 | $1"},
    {Op::kEq, kOnBool, kVector, "~($0 ^ $1)"},
    {Op::kLt, kOnBool | kOnInt | kOnFloat, kScalar, "$0 < $1"},
    {Op::kLe, kOnBool | kOnInt | kOnFloat, kScalar, "$0 <= $1"},
    {Op::kEq, kOnBool | kOnInt | kOnFloat, kScalar, "$0 == $1"},
    {Op::kLt, kOnInt | kOnFloat, kVector, "lt_$S($0, $1)",
     "HELPER $M lt_$S($S a, $S b) {\n  return __builtin_convertvector(a < b, $M);\n}"},
    {Op::kLe, kOnInt | kOnFloat, kVector, "le_$S($0, $1)",
     "HELPER $M le_$S($S a, $S b) {\n  return __builtin_convertvector(a <= b, $M);\n}"},
    {Op::kEq, kOnInt | kOnFloat, kVector, "eq_$S($0, $1)",
     "HELPER $M eq_$S($S a, $S b) {\n  return __builtin_convertvector(a == b, $M);\n}"},
    {Op::kWhere, kOnBool | kOnInt | kOnFloat, kAnyForm, "$0 ? $1 : $2"},

    {Op::kRamp, kOnInt, kAnyForm, "ramp_$R($0, $1)",
     "HELPER $R ramp_$R($S base, $S step) {\n"
     "  return ($R)(($U)base + ($U){$#} * ($U)step);\n}"},
};

}  // namespace tenon::detail
