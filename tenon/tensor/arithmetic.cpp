// Elementwise methods and operators of Tensor: operands are promoted and broadcast, then one node
// or a short composition is built. SPDX-License-Identifier: MIT

#include <cmath>
#include <numbers>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"
#include "tenon/tensor/tensor.h"

namespace tenon {
namespace {

using detail::cast_node;
using detail::common_dtype;
using detail::match;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

Tensor binary(Op op, std::string_view where, const Operand& a, const Operand& b, DType dtype) {
  const auto [lhs, rhs] = match(where, a, b, dtype);
  return Tensor(tensor_binary(op, lhs, rhs));
}

Tensor binary(Op op, std::string_view where, const Operand& a, const Operand& b) {
  return binary(op, where, a, b, common_dtype(where, a, b));
}

// Add, sub, mul: bool has no arithmetic, `on_bool` is what NumPy does instead (kConst: nothing).
Tensor arithmetic(Op op, std::string_view where, const Operand& a, const Operand& b, Op on_bool) {
  const DType dtype = common_dtype(where, a, b);
  TENON_CHECK(dtype != DType::kBool || on_bool != Op::kConst, kInvalid, where, ": bool has no ",
              where, ". Use logical_xor, or astype to an integer");
  return binary(dtype == DType::kBool ? on_bool : op, where, a, b, dtype);
}

Tensor integers_only(Op op, std::string_view where, const Operand& a, const Operand& b) {
  const DType dtype = common_dtype(where, a, b);
  TENON_CHECK(is_int(dtype), is_float(dtype) ? ErrorCode::kUnsupported : kInvalid, where,
              ": wants integers, got ", dtype_long_name(dtype),
              is_float(dtype) ? ". Divide with / and use floor or trunc" : ". Use astype first");
  return binary(op, where, a, b, dtype);
}

Tensor bitwise(Op op, std::string_view where, const Operand& a, const Operand& b) {
  const DType dtype = common_dtype(where, a, b);
  TENON_CHECK(!is_float(dtype), kInvalid, where, ": wants an integer dtype or bool, got ",
              dtype_long_name(dtype), ". Use bitcast first");
  return binary(op, where, a, b, dtype);
}

Tensor logical(Op op, std::string_view where, const Tensor& a, const Operand& b) {
  const auto truth = [](const Operand& x) {
    if (x.is_scalar()) return Operand(Scalar(x.scalar().to_double() != 0));
    return Operand(Tensor(cast_node(x.node(), DType::kBool)));
  };
  return binary(op, where, truth(a), truth(b), DType::kBool);
}

// Floats as they are, everything else as f32.
Tensor of_float(Op op, const Tensor& x) {
  const Node& node = x.node();
  return Tensor(tensor_unary(op, is_float(node.dtype()) ? node : cast_node(node, DType::kF32)));
}

Tensor rounding(Op op, const Tensor& x) {
  return is_float(x.dtype()) ? Tensor(tensor_unary(op, x.node())) : x;
}

Tensor test(Op op, const Tensor& x, bool of_integers) {
  if (is_float(x.dtype())) return Tensor(tensor_unary(op, x.node()));
  return Tensor(detail::full_node(DType::kBool, of_integers ? 1 : 0, x.shape()));
}

Tensor& in_place(Tensor& target, Tensor value, std::string_view where) {
  TENON_CHECK(value.dtype() == target.dtype(), kInvalid, where, ": the target is ",
              dtype_long_name(target.dtype()), ", the result ", dtype_long_name(value.dtype()),
              ". Use x = x op y to change the dtype");
  TENON_CHECK(value.shape() == target.shape(), kInvalid, where, ": the target is ", target.shape(),
              ", the result ", value.shape(), ". In-place arithmetic keeps the shape");
  return target = std::move(value);
}

}  // namespace

Tensor operator+(const Operand& a, const Operand& b) {
  return arithmetic(Op::kAdd, "add", a, b, Op::kOr);
}

Tensor operator-(const Operand& a, const Operand& b) {
  return arithmetic(Op::kSub, "sub", a, b, Op::kConst);
}

Tensor operator*(const Operand& a, const Operand& b) {
  return arithmetic(Op::kMul, "mul", a, b, Op::kAnd);
}

Tensor operator/(const Operand& a, const Operand& b) {
  const DType dtype = common_dtype("div", a, b);
  return binary(Op::kDiv, "div", a, b, is_float(dtype) ? dtype : DType::kF32);
}

Tensor operator%(const Operand& a, const Operand& b) {
  return integers_only(Op::kFloorMod, "remainder", a, b);
}

Tensor operator&(const Operand& a, const Operand& b) {
  return bitwise(Op::kAnd, "bitwise_and", a, b);
}

Tensor operator|(const Operand& a, const Operand& b) {
  return bitwise(Op::kOr, "bitwise_or", a, b);
}

Tensor operator^(const Operand& a, const Operand& b) {
  return bitwise(Op::kXor, "bitwise_xor", a, b);
}

Tensor operator<<(const Operand& a, const Operand& b) {
  return integers_only(Op::kShl, "bitwise_left_shift", a, b);
}

Tensor operator>>(const Operand& a, const Operand& b) {
  return integers_only(Op::kShr, "bitwise_right_shift", a, b);
}

Tensor operator==(const Operand& a, const Operand& b) {
  return binary(Op::kEq, "equal", a, b);
}

Tensor operator!=(const Operand& a, const Operand& b) {
  return binary(Op::kNe, "not_equal", a, b);
}

Tensor operator<(const Operand& a, const Operand& b) {
  return binary(Op::kLt, "less", a, b);
}

Tensor operator<=(const Operand& a, const Operand& b) {
  return binary(Op::kLe, "less_equal", a, b);
}

Tensor operator>(const Operand& a, const Operand& b) {
  return binary(Op::kLt, "greater", b, a);
}

Tensor operator>=(const Operand& a, const Operand& b) {
  return binary(Op::kLe, "greater_equal", b, a);
}

Tensor Tensor::operator-() const {
  TENON_CHECK(dtype() != DType::kBool, kInvalid, "neg: bool has no neg. Use ~x for not");
  return Tensor(tensor_unary(Op::kNeg, node()));
}

Tensor Tensor::operator~() const {
  TENON_CHECK(!is_float(dtype()), kInvalid, "bitwise_invert: wants an integer dtype or bool, got ",
              dtype_long_name(dtype()), ". Use bitcast first");
  return Tensor(tensor_unary(Op::kNot, node()));
}

Tensor& Tensor::operator+=(const Operand& other) {
  return in_place(*this, *this + other, "add in place");
}

Tensor& Tensor::operator-=(const Operand& other) {
  return in_place(*this, *this - other, "sub in place");
}

Tensor& Tensor::operator*=(const Operand& other) {
  return in_place(*this, *this * other, "mul in place");
}

Tensor& Tensor::operator/=(const Operand& other) {
  return in_place(*this, *this / other, "div in place");
}

Tensor Tensor::floor_divide(const Operand& other) const {
  return integers_only(Op::kFloorDiv, "floor_divide", *this, other);
}

Tensor Tensor::remainder(const Operand& other) const {
  return *this % other;
}

Tensor Tensor::trunc_divide(const Operand& other) const {
  return integers_only(Op::kDiv, "trunc_divide", *this, other);
}

Tensor Tensor::fmod(const Operand& other) const {
  return integers_only(Op::kMod, "fmod", *this, other);
}

Tensor Tensor::minimum(const Operand& other) const {
  return binary(Op::kMin, "minimum", *this, other);
}

Tensor Tensor::maximum(const Operand& other) const {
  return binary(Op::kMax, "maximum", *this, other);
}

Tensor Tensor::clip(const Operand& lo, const Operand& hi) const {
  return maximum(lo).minimum(hi);
}

Tensor Tensor::logical_and(const Operand& other) const {
  return logical(Op::kAnd, "logical_and", *this, other);
}

Tensor Tensor::logical_or(const Operand& other) const {
  return logical(Op::kOr, "logical_or", *this, other);
}

Tensor Tensor::logical_xor(const Operand& other) const {
  return logical(Op::kXor, "logical_xor", *this, other);
}

Tensor Tensor::logical_not() const {
  return ~astype(DType::kBool);
}

Tensor Tensor::abs() const {
  return dtype() == DType::kBool ? *this : Tensor(tensor_unary(Op::kAbs, node()));
}

Tensor Tensor::sign() const {
  TENON_CHECK(dtype() != DType::kBool, kInvalid, "sign: bool has no sign. Use astype first");
  if (is_unsigned_int(dtype())) return (*this != 0).astype(dtype());
  const Tensor nonzero = where(*this > 0, Scalar(1), where(*this < 0, Scalar(-1), *this));
  return where(*this == 0, Scalar(0), nonzero);  // of -0 too
}

Tensor Tensor::square() const {
  return *this * *this;
}

Tensor Tensor::reciprocal() const {
  return Operand(1) / *this;
}

Tensor Tensor::relu() const {
  return maximum(0);
}

Tensor Tensor::floor() const {
  return rounding(Op::kFloor, *this);
}

Tensor Tensor::ceil() const {
  return rounding(Op::kCeil, *this);
}

Tensor Tensor::trunc() const {
  return rounding(Op::kTrunc, *this);
}

Tensor Tensor::round() const {
  return rounding(Op::kRound, *this);
}

Tensor Tensor::isnan() const {
  return test(Op::kIsNan, *this, false);
}

Tensor Tensor::isinf() const {
  return test(Op::kIsInf, *this, false);
}

Tensor Tensor::isfinite() const {
  return test(Op::kIsFinite, *this, true);
}

Tensor Tensor::sqrt() const {
  return of_float(Op::kSqrt, *this);
}

Tensor Tensor::rsqrt() const {
  return sqrt().reciprocal();
}

Tensor Tensor::exp() const {
  return of_float(Op::kExp, *this);
}

Tensor Tensor::exp2() const {
  return of_float(Op::kExp2, *this);
}

Tensor Tensor::log() const {
  return of_float(Op::kLog, *this);
}

Tensor Tensor::log2() const {
  return of_float(Op::kLog2, *this);
}

Tensor Tensor::log10() const {
  return log2() * (std::numbers::ln2 / std::numbers::ln10);
}

Tensor Tensor::sin() const {
  return of_float(Op::kSin, *this);
}

Tensor Tensor::cos() const {
  return of_float(Op::kCos, *this);
}

Tensor Tensor::tan() const {
  return of_float(Op::kTan, *this);
}

Tensor Tensor::tanh() const {
  return of_float(Op::kTanh, *this);
}

Tensor Tensor::sigmoid() const {
  return of_float(Op::kSigmoid, *this);
}

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  TENON_CHECK(condition.dtype() == DType::kBool, kInvalid, "where: the condition is ",
              dtype_long_name(condition.dtype()), ", expected bool. Compare, or use astype");
  const auto [lhs, rhs] = match("where", a, b, common_dtype("where", a, b));
  const Shape shape = detail::broadcast_shapes("where", condition.node().shape(), lhs.shape());
  return Tensor(tensor_where(detail::broadcast_node(condition.node(), shape),
                             detail::broadcast_node(lhs, shape),
                             detail::broadcast_node(rhs, shape)));
}

}  // namespace tenon
