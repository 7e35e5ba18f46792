// How LLVM IR spells each elementwise op, exact as ir/eval_op.h defines it, as one or more
// instructions. Read by llvm_ops.cpp; the same for scalars and vectors.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/render/c_like.h"

namespace tenon::detail {

/// One op on operands of one kind; the first row that fits is taken. In the text:
///   $0 $1 $2  operands
///   $D        the result, which the last line defines; $D.x names a step on the way to it
///   $T $M     the operands' type (where: of the two values); i1 with as many lanes
///   $m        the type as it ends the names of intrinsics, "v16f32"
///   $z $o $n  0, 1, -1 of that type; $b $B: its bits less one, its bits; $<: its smallest value
struct LlvmOpText {
  Op op;
  uint8_t kinds;
  std::string_view text;
  bool for_safe_constant = false;  ///< operand 1 is a constant that needs no guard
};

inline constexpr LlvmOpText kLlvmTable[] = {
    {Op::kAdd, kOnFloat, "$D = fadd $T $0, $1"},
    {Op::kSub, kOnFloat, "$D = fsub $T $0, $1"},
    {Op::kMul, kOnFloat, "$D = fmul $T $0, $1"},
    {Op::kDiv, kOnFloat, "$D = fdiv $T $0, $1"},
    {Op::kMulAcc, kOnFloat, "$D.p = fmul $T $0, $1\n$D = fadd $T $D.p, $2"},
    {Op::kFma, kOnFloat, "$D = call $T @llvm.fma.$m($T $0, $T $1, $T $2)"},
    {Op::kSqrt, kOnFloat, "$D = call $T @llvm.sqrt.$m($T $0)"},
    {Op::kTrunc, kOnFloat, "$D = call $T @llvm.trunc.$m($T $0)"},

    {Op::kAdd, kOnInt, "$D = add $T $0, $1"},
    {Op::kSub, kOnInt, "$D = sub $T $0, $1"},
    {Op::kMul, kOnInt, "$D = mul $T $0, $1"},

    // x / 0 = x % 0 = 0; MIN / -1 = MIN, MIN % -1 = 0.
    {Op::kDiv, kOnUnsigned, "$D = udiv $T $0, $1", true},
    {Op::kMod, kOnUnsigned, "$D = urem $T $0, $1", true},
    {Op::kDiv, kOnSigned, "$D = sdiv $T $0, $1", true},
    {Op::kMod, kOnSigned, "$D = srem $T $0, $1", true},
    {Op::kDiv, kOnUnsigned,
     "$D.z = icmp eq $T $1, $z\n"
     "$D.d = select $M $D.z, $T $o, $T $1\n"
     "$D.q = udiv $T $0, $D.d\n"
     "$D = select $M $D.z, $T $z, $T $D.q"},
    {Op::kMod, kOnUnsigned,
     "$D.z = icmp eq $T $1, $z\n"
     "$D.d = select $M $D.z, $T $o, $T $1\n"
     "$D = urem $T $0, $D.d"},
    {Op::kDiv, kOnSigned,
     "$D.z = icmp eq $T $1, $z\n"
     "$D.m = icmp eq $T $0, $<\n"
     "$D.n = icmp eq $T $1, $n\n"
     "$D.w = and $M $D.m, $D.n\n"
     "$D.b = or $M $D.z, $D.w\n"
     "$D.d = select $M $D.b, $T $o, $T $1\n"
     "$D.q = sdiv $T $0, $D.d\n"
     "$D = select $M $D.z, $T $z, $T $D.q"},
    {Op::kMod, kOnSigned,
     "$D.z = icmp eq $T $1, $z\n"
     "$D.n = icmp eq $T $1, $n\n"
     "$D.b = or $M $D.z, $D.n\n"
     "$D.d = select $M $D.b, $T $o, $T $1\n"
     "$D = srem $T $0, $D.d"},

    // NaN wins, +0 is greater than -0.
    {Op::kMin, kOnFloat, "$D = call $T @llvm.minimum.$m($T $0, $T $1)"},
    {Op::kMax, kOnFloat, "$D = call $T @llvm.maximum.$m($T $0, $T $1)"},
    {Op::kMin, kOnSigned, "$D = call $T @llvm.smin.$m($T $0, $T $1)"},
    {Op::kMax, kOnSigned, "$D = call $T @llvm.smax.$m($T $0, $T $1)"},
    {Op::kMin, kOnUnsigned, "$D = call $T @llvm.umin.$m($T $0, $T $1)"},
    {Op::kMax, kOnUnsigned, "$D = call $T @llvm.umax.$m($T $0, $T $1)"},
    {Op::kMin, kOnBool, "$D = and $T $0, $1"},
    {Op::kMax, kOnBool, "$D = or $T $0, $1"},
    {Op::kMul, kOnBool, "$D = and $T $0, $1"},
    {Op::kAdd, kOnBool, "$D = or $T $0, $1"},

    {Op::kAnd, kOnBool | kOnInt, "$D = and $T $0, $1"},
    {Op::kOr, kOnBool | kOnInt, "$D = or $T $0, $1"},
    {Op::kXor, kOnBool | kOnInt, "$D = xor $T $0, $1"},
    {Op::kNot, kOnBool | kOnInt, "$D = xor $T $0, $n"},

    // A count outside [0, bits) gives 0, or the sign.
    {Op::kShl, kOnInt, "$D = shl $T $0, $1", true},
    {Op::kShr, kOnUnsigned, "$D = lshr $T $0, $1", true},
    {Op::kShr, kOnSigned, "$D = ashr $T $0, $1", true},
    {Op::kShl, kOnInt,
     "$D.f = icmp ult $T $1, $B\n"
     "$D.n = and $T $1, $b\n"
     "$D.s = shl $T $0, $D.n\n"
     "$D = select $M $D.f, $T $D.s, $T $z"},
    {Op::kShr, kOnUnsigned,
     "$D.f = icmp ult $T $1, $B\n"
     "$D.n = and $T $1, $b\n"
     "$D.s = lshr $T $0, $D.n\n"
     "$D = select $M $D.f, $T $D.s, $T $z"},
    {Op::kShr, kOnSigned,
     "$D.n = call $T @llvm.umin.$m($T $1, $T $b)\n"
     "$D = ashr $T $0, $D.n"},

    {Op::kLt, kOnFloat, "$D = fcmp olt $T $0, $1"},
    {Op::kLe, kOnFloat, "$D = fcmp ole $T $0, $1"},
    {Op::kEq, kOnFloat, "$D = fcmp oeq $T $0, $1"},
    {Op::kLt, kOnSigned, "$D = icmp slt $T $0, $1"},
    {Op::kLe, kOnSigned, "$D = icmp sle $T $0, $1"},
    {Op::kLt, kOnUnsigned | kOnBool, "$D = icmp ult $T $0, $1"},
    {Op::kLe, kOnUnsigned | kOnBool, "$D = icmp ule $T $0, $1"},
    {Op::kEq, kOnInt | kOnBool, "$D = icmp eq $T $0, $1"},
    {Op::kWhere, kOnBool | kOnInt | kOnFloat, "$D = select $M $0, $T $1, $T $2"},
};

}  // namespace tenon::detail
