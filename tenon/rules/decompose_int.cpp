// Integer decompositions: sign, magnitude, flooring division. SPDX-License-Identifier: MIT

#include <bit>

#include "tenon/base/planted_fault.h"
#include "tenon/rules/decompose.h"
#include "tenon/rules/decompose_steps.h"

namespace tenon {

using words::Expr;
using words::integer;
using words::where;

namespace steps {

Expr int_neg(const Expr& x) {
  return integer(x.dtype(), 0) - x;
}

Expr int_abs(const Expr& x) {
  if (!is_signed_int(x.dtype())) return x;
  const Expr zero = integer(x.dtype(), 0);
  return where(x < zero, zero - x, x);
}

}  // namespace steps

namespace {

// Both operands not negative: flooring and truncating agree.
bool agrees_with_trunc(const Node& a, const Node& b, BoundsMemo& memo) {
  if (!is_signed_int(a.dtype())) return true;
  return memo.bounds(a).min >= 0 && memo.bounds(b).min >= 0;
}

// log2 of a constant power of two; -1 for all else.
int shift_of(const Node& b) {
  if (!is_const(b)) return -1;
  const uint64_t value = const_bits(b);
  const bool is_negative = is_signed_int(b.dtype()) && static_cast<int64_t>(value) < 0;
  return !is_negative && std::has_single_bit(value) ? std::countr_zero(value) : -1;
}

// Whether the truncated quotient is one too large: a remainder with a sign other than the
// divisor's.
Expr is_rounded_up(const Expr& remainder, const Expr& b) {
  const Expr zero = integer(b.dtype(), 0);
  // A constant divisor has a known sign; a remainder 0 has the divisor's or none.
  if (is_const(b.node)) {
    const bool is_negative = static_cast<int64_t>(const_bits(b.node)) < 0;
    return is_negative ? zero < remainder : remainder < zero;
  }
  return (!(remainder == zero)) & ((remainder ^ b) < zero);
}

}  // namespace

Node decompose_floordiv(const Node& a, const Node& b, BoundsMemo& memo) {
  if (const int shift = shift_of(b); shift >= 0) {
    return shift == 0 ? a : (Expr{a} >> integer(a.dtype(), shift)).node;
  }
  const Expr quotient = Expr{a} / Expr{b};
  const bool is_truncating = is_planted(PlantedFault::kFloorDivTruncates);
  if (is_truncating || agrees_with_trunc(a, b, memo)) return quotient.node;
  const Expr rounded_up = is_rounded_up(Expr{a} % Expr{b}, {b});
  return where(rounded_up, quotient - integer(a.dtype(), 1), quotient).node;
}

Node decompose_floormod(const Node& a, const Node& b, BoundsMemo& memo) {
  if (shift_of(b) >= 0) {
    const uint64_t mask = const_bits(b) - 1;
    return (Expr{a} & words::pattern(a.dtype(), mask)).node;
  }
  const Expr remainder = Expr{a} % Expr{b};
  if (agrees_with_trunc(a, b, memo)) return remainder.node;
  return where(is_rounded_up(remainder, {b}), remainder + Expr{b}, remainder).node;
}

}  // namespace tenon
