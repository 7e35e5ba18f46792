// SPDX-License-Identifier: MIT

#include "tests/support/spread_estimate.h"

#include <algorithm>
#include <cmath>

#include "tenon/ir/eval_op.h"

namespace tenon::testing {
namespace {

constexpr double kFewValues = 6;

double count(const Node& node) {
  return static_cast<double>(num_elements(node.shape()));
}

// Values of a dtype that graphs come by.
double most_values(DType dtype) {
  if (dtype == DType::kBool) return 2;
  if (is_float(dtype)) return std::ldexp(1.0, float_format(dtype).mantissa_bits + 1);
  return std::ldexp(1.0, dtype_bits(dtype));
}

// What a reduction of `n` elements to one leaves of `values` different ones.
double reduced(Op op, DType dtype, double values, double n) {
  if (n <= 1) return values;
  if (op == Op::kAdd) return values * n;
  if (op == Op::kMul && is_float(dtype)) return values * 2;
  if (op == Op::kMul) return std::ldexp(most_values(dtype), -static_cast<int>(n));
  // Of n random bits the or is 0 with a chance of 2^-n.
  if (op == Op::kAnd || op == Op::kOr) return std::pow(most_values(dtype), (n + 2) * std::exp2(-n));
  return values * 1.5 / n;  // the extremes are near the end of the range
}

// Some elements of each; the same value in half of them leaves little more than the other half.
double mixed(const Node& node, double a, double b) {
  const bool is_half = std::min(a, b) < kFewValues;
  return is_half ? std::min(std::max(a, b), count(node) * 0.7) : (a + b) * 0.5;
}

// The node whose elements this one has, in the same order, but for signs and inverted bits.
Node origin(Node node) {
  for (;;) {
    const Op op = node.op();
    const bool keeps = op == Op::kReshape || op == Op::kContiguous || op == Op::kCopy ||
                       op == Op::kExpand || op == Op::kPad || op == Op::kShrink ||
                       op == Op::kReduce || op == Op::kAssign || op == Op::kNeg || op == Op::kNot ||
                       op == Op::kAbs || op == Op::kCast;
    if (!keeps) return node;
    const Node source = node.src(op == Op::kAssign ? 1 : 0);
    if (num_elements(source.shape()) != num_elements(node.shape())) return node;
    node = source;
  }
}

// Of two operands: both vary, or one is the same everywhere.
double combined(const Node& node, double a, double b) {
  const Op op = node.op();
  const bool is_plain = is_float(node.dtype());
  const bool is_arithmetic = op == Op::kAdd || op == Op::kSub || op == Op::kXor ||
                             (is_plain && (op == Op::kMul || op == Op::kDiv));
  if (is_arithmetic && op != Op::kAdd && origin(node.src(0)) == origin(node.src(1)))
    return op == Op::kMul ? a * 0.6 : 1;
  if (is_arithmetic) return std::max(a, b) * std::sqrt(std::min(a, b));
  if (op == Op::kMul) return std::max(a, b) * 0.7;
  if (op == Op::kMod || op == Op::kFloorMod) return b == 1 ? kFewValues : std::min(a, b) * 0.5;
  const bool is_cut = op == Op::kDiv || op == Op::kFloorDiv || op == Op::kShl || op == Op::kShr;
  if (is_cut) return b == 1 ? a * 0.2 : kFewValues;
  if (op == Op::kAnd && b == 1) return std::min(a, 16.0);
  return mixed(node, a, b);  // or, min, max
}

}  // namespace

double SpreadEstimate::estimate(const Node& node) const {
  if (node.srcs().empty()) {
    if (node.op() != Op::kIndex) return 1;
    return static_cast<double>(node.shape()[static_cast<size_t>(node.attr(0))]);
  }
  const OpInfo& info = op_info(node.op());
  const Node& source = node.src(0);
  const double first = of(node, 0);
  if (node.op() == Op::kReduce) {
    return reduced(reduce_op(node), node.dtype(), first,
                   count(source) / std::max(1.0, count(node)));
  }
  if (node.op() == Op::kAssign) return of(node, 1);
  if (count(source) == 0) return 1;
  const bool is_repeating = node.op() == Op::kExpand || node.op() == Op::kWindow ||
                            (node.op() == Op::kPad && count(node) > count(source) * 1.1);
  if (is_repeating) return std::min(first, count(source));
  if (info.rule == DTypeRule::kCompare || info.rule == DTypeRule::kTest) return 2;
  if (node.op() == Op::kWhere) {
    if (source.op() == Op::kIsFinite) return of(node, 1);
    if (source.op() == Op::kIsNan || source.op() == Op::kIsInf) return of(node, 2);
    return mixed(node, of(node, 1), of(node, 2));
  }
  if (node.op() == Op::kCast && is_float(source.dtype()) && !is_float(node.dtype())) {
    const bool is_lost = !is_integer_valued_ || first > most_values(node.dtype());
    return is_lost ? kFewValues : first;  // rounded, or beyond the range
  }
  if (node.op() == Op::kAbs) return is_unsigned_int(node.dtype()) ? first : first * 0.6;
  if (node.op() == Op::kSqrt || node.op() == Op::kCos) return first * 0.8;
  if (node.op() == Op::kTanh || node.op() == Op::kSigmoid) return first * 0.8;
  const bool is_rounding = node.op() == Op::kTrunc || node.op() == Op::kFloor ||
                           node.op() == Op::kCeil || node.op() == Op::kRound;
  // Integers in floats are rounded to themselves, fractions of them are not.
  const bool is_whole = is_integer_valued_ && source.op() != Op::kSqrt && source.op() != Op::kDiv;
  if (is_rounding) return is_whole ? first : kFewValues;
  if (info.arity == 2) return combined(node, first, of(node, 1));
  return first;
}

double SpreadEstimate::num_values(const Node& node) {
  for (const Node& each : topological_order({&node, 1})) {
    if (values_.contains(each)) continue;
    values_[each] = std::clamp(estimate(each), 1.0, most_values(each.dtype()));
  }
  const double values = values_.at(node);
  return values * -std::expm1(-count(node) / values);  // hit by so many draws
}

bool SpreadEstimate::is_rich(const Node& node) {
  return count(node) > 1 && num_values(node) >= count(node) * 0.6;
}

}  // namespace tenon::testing
