// Which op is decomposed how, for which Target. SPDX-License-Identifier: MIT

#include "tenon/rules/decompose.h"

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/rules/decompose_steps.h"
#include "tenon/rules/supports.h"

namespace tenon {
namespace {

using words::Expr;

Expr bounded_f32(Op op, const Expr& x) {
  if (op == Op::kExp2) return steps::exp2(x);
  if (op == Op::kLog2) return steps::log2(x);
  if (op == Op::kSin) return steps::sin(x);
  if (op == Op::kExp) return steps::exp(x);
  if (op == Op::kLog) return steps::log(x);
  if (op == Op::kCos) return steps::cos(x);
  if (op == Op::kTan) return steps::tan(x);
  if (op == Op::kTanh) return steps::tanh(x);
  TENON_ASSERT(op == Op::kSigmoid, op_name(op), " has no decomposition");
  return steps::sigmoid(x);
}

// Narrow floats are computed in f32 and rounded once more.
Expr bounded(Op op, const Expr& x) {
  return words::cast(bounded_f32(op, words::cast(x, DType::kF32)), x.dtype());
}

// An op on idx stays: what becomes of it is decided when indices get a width.
bool is_value_op(const Node& node) {
  return is_elementwise(node.op()) && node.dtype() != DType::kIdx;
}

Node decompose_float_op(Op op, const Expr& x, const Target& target) {
  if (op == Op::kNeg) return steps::float_neg(x).node;
  if (op == Op::kAbs) return steps::float_abs(x).node;
  if (op == Op::kIsNan) return steps::is_nan(x).node;
  if (op == Op::kIsInf) return steps::is_inf(x).node;
  if (op == Op::kIsFinite) return steps::is_finite(x).node;
  if (op == Op::kTrunc) return steps::trunc(x, target).node;
  if (op == Op::kFloor) return steps::floor(x, target).node;
  if (op == Op::kCeil) return steps::ceil(x, target).node;
  if (op == Op::kRound) return steps::round_even(x).node;
  if (op == Op::kSqrt && !target.is_native(op)) return steps::sqrt(x).node;
  return {};
}

}  // namespace

double bounded_ulp(Op op) {
  if (op == Op::kExp2 || op == Op::kExp || op == Op::kLog2 || op == Op::kLog) return 1.5;
  if (op == Op::kSin || op == Op::kCos) return 2;
  if (op == Op::kTan) return 4;
  TENON_ASSERT(op == Op::kTanh || op == Op::kSigmoid, op_name(op), " is of the exact class");
  return 3;
}

// What a planted fault makes of the node; null: nothing.
Node planted_value(const Node& node) {
  const Node& x = node.src(0);
  const bool is_cast = node.op() == Op::kCast && x.dtype() != DType::kIdx;
  if (is_cast && is_planted(PlantedFault::kFloatToIntWraps) && is_float(x.dtype()) &&
      is_int(node.dtype()) && dtype_bits(node.dtype()) < 64) {
    return make_cast(make_cast(x, DType::kI64), node.dtype());
  }
  if (is_cast && is_planted(PlantedFault::kSignLostInWidening) && is_signed_int(x.dtype()) &&
      is_int(node.dtype()) && dtype_bits(x.dtype()) < dtype_bits(node.dtype())) {
    return make_cast(make_cast(x, unsigned_of_same_width(x.dtype())), node.dtype());
  }
  if (node.op() == Op::kMax && is_planted(PlantedFault::kMaxLosesNan) && is_float(node.dtype())) {
    const Expr a{x};
    const Expr b{node.src(1)};
    return words::where(a == a, words::where(a < b, b, a), b).node;
  }
  return {};
}

Node Decomposer::decompose(const Node& node) {
  const Op op = node.op();
  if (!is_value_op(node) || node.srcs().empty()) return {};
  const Expr x{node.src(0)};
  if (Node wrong = planted_value(node)) return wrong;
  if (op == Op::kNe) return (!words::apply(Op::kEq, x, {node.src(1)})).node;
  const DType dtype = node.src(node.srcs().size() - 1).dtype();
  if (dtype == DType::kIdx) return {};
  require(supports(*target_, op, dtype));
  if (is_bounded_class(op)) return target_->is_native(op) ? Node() : bounded(op, x).node;
  if (op == Op::kFma && !target_->is_native(op)) {
    return words::cast(steps::fma_to_odd(x, {node.src(1)}, {node.src(2)}), DType::kF32).node;
  }
  if (is_float(dtype)) return decompose_float_op(op, x, *target_);
  if (op == Op::kNeg) return steps::int_neg(x).node;
  if (op == Op::kAbs) return steps::int_abs(x).node;
  if (op == Op::kFloorDiv) return decompose_floordiv(node.src(0), node.src(1), bounds_);
  if (op == Op::kFloorMod) return decompose_floormod(node.src(0), node.src(1), bounds_);
  return {};
}

Node Decomposer::run(const Node& root) {
  return rewriter_.run(root, [this](const Node& node) { return decompose(node); });
}

Node decompose_expr(const Node& root, const Target& target) {
  return Decomposer(target).run(root);
}

}  // namespace tenon
