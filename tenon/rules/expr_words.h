// Words in which decompositions are written: `Expr` is a Node with the operators of C++, and dtypes
// as they stand (no promotion). Included by the decompose_*.cpp and lower_dtypes files alone.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>

#include "tenon/ir/kernel.h"

namespace tenon::words {

struct Expr {
  Node node;
  DType dtype() const { return node.dtype(); }
};

inline Expr apply(Op op, const Expr& a, const Expr& b) {
  return {make_expr(op, a.node, b.node)};
}
inline Expr operator+(const Expr& a, const Expr& b) {
  return apply(Op::kAdd, a, b);
}
inline Expr operator-(const Expr& a, const Expr& b) {
  return apply(Op::kSub, a, b);
}
inline Expr operator*(const Expr& a, const Expr& b) {
  return apply(Op::kMul, a, b);
}
inline Expr operator/(const Expr& a, const Expr& b) {
  return apply(Op::kDiv, a, b);
}
inline Expr operator%(const Expr& a, const Expr& b) {
  return apply(Op::kMod, a, b);
}
inline Expr operator&(const Expr& a, const Expr& b) {
  return apply(Op::kAnd, a, b);
}
inline Expr operator|(const Expr& a, const Expr& b) {
  return apply(Op::kOr, a, b);
}
inline Expr operator^(const Expr& a, const Expr& b) {
  return apply(Op::kXor, a, b);
}
inline Expr operator<<(const Expr& a, const Expr& b) {
  return apply(Op::kShl, a, b);
}
inline Expr operator>>(const Expr& a, const Expr& b) {
  return apply(Op::kShr, a, b);
}
inline Expr operator<(const Expr& a, const Expr& b) {
  return apply(Op::kLt, a, b);
}
inline Expr operator==(const Expr& a, const Expr& b) {
  return apply(Op::kEq, a, b);
}
inline Expr operator!(const Expr& a) {
  return {make_expr(Op::kNot, a.node)};
}
inline Expr where(const Expr& condition, const Expr& a, const Expr& b) {
  return {make_expr(Op::kWhere, condition.node, a.node, b.node)};
}
inline Expr mulacc(const Expr& a, const Expr& b, const Expr& c) {
  return {make_expr(Op::kMulAcc, a.node, b.node, c.node)};
}
inline Expr cast(const Expr& a, DType dtype) {
  return a.dtype() == dtype ? a : Expr{make_cast(a.node, dtype)};
}
inline Expr bitcast(const Expr& a, DType dtype) {
  return a.dtype() == dtype ? a : Expr{make_bitcast(a.node, dtype)};
}

inline Expr integer(DType dtype, int64_t value) {
  return {int_const(dtype, value)};
}
/// A constant by its bit pattern: masks, infinities, NaN, constants above INT64_MAX.
inline Expr pattern(DType dtype, uint64_t bits) {
  return {bits_const(dtype, bits)};
}
inline Expr number(DType dtype, double value) {
  return {number_const(dtype, value)};
}
inline Expr f32(double value) {
  return number(DType::kF32, value);
}

/// Bit patterns of a float format.
inline uint64_t sign_bit(DType dtype) {
  return uint64_t{1} << (dtype_bits(dtype) - 1);
}
inline uint64_t infinity_bits(DType dtype) {
  const FloatFormat format = float_format(dtype);
  return ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
}
inline uint64_t quiet_nan_bits(DType dtype) {
  const FloatFormat format = float_format(dtype);
  const uint64_t all_ones = sign_bit(dtype) - 1;
  return format.finite_only ? all_ones
                            : infinity_bits(dtype) | uint64_t{1} << (format.mantissa_bits - 1);
}
inline Expr bits_of(const Expr& value) {
  return bitcast(value, unsigned_of_same_width(value.dtype()));
}
inline Expr magnitude_bits(const Expr& value) {
  return bits_of(value) &
         pattern(unsigned_of_same_width(value.dtype()), sign_bit(value.dtype()) - 1);
}
inline Expr sign_of(const Expr& value) {
  return bits_of(value) & pattern(unsigned_of_same_width(value.dtype()), sign_bit(value.dtype()));
}
inline Expr magnitude(const Expr& value) {
  return bitcast(magnitude_bits(value), value.dtype());
}
/// `value`, which is not negative, with the sign bits `sign`.
inline Expr with_sign(const Expr& value, const Expr& sign) {
  return bitcast(bits_of(value) | sign, value.dtype());
}

}  // namespace tenon::words
