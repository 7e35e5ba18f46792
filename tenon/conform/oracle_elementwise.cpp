// Elementwise ops in the oracle. Each float op is computed in double (long double for the bounded
// class) and rounded once to its dtype, which for +, -, *, / and sqrt of f32 and narrower is the
// correct rounding (S. Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3),
// 1995). Radii come from the same op on the ends of the operands' intervals.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tenon/base/error.h"
#include "tenon/conform/oracle_numeric.h"
#include "tenon/conform/oracle_parts.h"

namespace tenon::detail {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ULPs that a device may be off, for each op of the bounded class (docs/ir.md). Stated here once
// more, since the oracle takes nothing from rules/; a test holds them against bounded_ulp.
double ulp_bound(Op op) {
  if (op == Op::kSin || op == Op::kCos) return 2;
  if (op == Op::kTan) return 4;
  return op == Op::kTanh || op == Op::kSigmoid ? 3 : 1.5;  // exp, exp2, log, log2
}

double min_of(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  if (a == b) return std::signbit(a) ? a : b;  // -0 is less than +0
  return a < b ? a : b;
}

double max_of(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// The exact class, before the rounding to the dtype.
double float_op(Op op, double a, double b) {
  if (op == Op::kAdd) return a + b;
  if (op == Op::kSub) return a - b;
  if (op == Op::kMul) return a * b;
  if (op == Op::kDiv) return a / b;
  if (op == Op::kMin) return min_of(a, b);
  if (op == Op::kMax) return max_of(a, b);
  if (op == Op::kNeg) return -a;
  if (op == Op::kAbs) return std::fabs(a);
  if (op == Op::kSqrt) return std::sqrt(a);
  if (op == Op::kTrunc) return std::trunc(a);
  if (op == Op::kFloor) return std::floor(a);
  if (op == Op::kCeil) return std::ceil(a);
  TENON_ASSERT(op == Op::kRound, "oracle: no float value for ", op_name(op));
  return std::nearbyint(a);
}

bool is_step(Op op) {
  return op == Op::kTrunc || op == Op::kFloor || op == Op::kCeil || op == Op::kRound;
}

// Ends of the op's values over the box a x b; NaN ends where it is undefined somewhere.
RealInterval float_ends(Op op, RealInterval a, RealInterval b) {
  if (op == Op::kSub) return {a.lo - b.hi, a.hi - b.lo};
  if (op == Op::kNeg) return {-a.hi, -a.lo};
  if (op == Op::kAbs) {
    const double hi = std::max(std::fabs(a.lo), std::fabs(a.hi));
    return {a.lo <= 0 && a.hi >= 0 ? 0 : std::min(std::fabs(a.lo), std::fabs(a.hi)), hi};
  }
  if (op == Op::kDiv && b.lo <= 0 && b.hi >= 0) return {-kInf, kInf};
  if (op == Op::kMul || op == Op::kDiv) {
    const std::array corners{float_op(op, a.lo, b.lo), float_op(op, a.lo, b.hi),
                             float_op(op, a.hi, b.lo), float_op(op, a.hi, b.hi)};
    RealInterval ends{corners[0], corners[0]};
    for (double corner : corners)
      ends = {min_of(ends.lo, corner), max_of(ends.hi, corner)};
    return ends;
  }
  return {float_op(op, a.lo, b.lo), float_op(op, a.hi, b.hi)};  // grows with each operand
}

long double bounded_op(Op op, long double x) {
  if (op == Op::kExp2) return std::exp2(x);
  if (op == Op::kLog2) return std::log2(x);
  if (op == Op::kSin) return std::sin(x);
  if (op == Op::kExp) return std::exp(x);
  if (op == Op::kLog) return std::log(x);
  if (op == Op::kCos) return std::cos(x);
  if (op == Op::kTan) return std::tan(x);
  if (op == Op::kTanh) return std::tanh(x);
  TENON_ASSERT(op == Op::kSigmoid, "oracle: no bounded value for ", op_name(op));
  return 1 / (1 + std::exp(-x));
}

// The special values are exact: f(NaN), f(+-inf), sin(0) and its like, log(x <= 0).
bool is_special(Op op, double x) {
  if (std::isnan(x) || std::isinf(x)) return true;
  if (op == Op::kSin || op == Op::kTan || op == Op::kTanh) return x == 0;
  return (op == Op::kLog || op == Op::kLog2) && x <= 0;
}

// Ends of a bounded op over x, before the ULP bound.
RealInterval bounded_ends(Op op, double value, RealInterval x) {
  const auto f = [op](double at) { return static_cast<double>(bounded_op(op, at)); };
  if (op == Op::kSin || op == Op::kCos) {  // the slope is at most 1
    const double reach = std::max(x.hi - value, value - x.lo);
    return {f(value) - reach, f(value) + reach};
  }
  if (op == Op::kTan) {
    // Growing between two poles; an interval over a pole shows as a fall or as more than pi wide.
    const bool is_one_branch = x.hi - x.lo < 3 && f(x.lo) <= f(value) && f(value) <= f(x.hi);
    if (!is_one_branch) return {-kInf, kInf};
  }
  return {f(x.lo), f(x.hi)};
}

void evaluate_bounded(const Node& node, const OracleValue& x, const OracleDeviations& deviations,
                      OracleValue& out) {
  const Op op = node.op();
  const double ulps = deviations.ulp_of(op, ulp_bound(op));
  const DType dtype = out.dtype;
  const bool is_positive = op == Op::kExp || op == Op::kExp2 || op == Op::kSigmoid;
  out.radius.assign(out.bits.size(), 0);
  for (size_t i = 0; i < out.bits.size(); ++i) {
    const double operand = oracle_value(dtype, x.bits[i]);
    const double radius = x.radius_at(i);
    const long double exact = bounded_op(op, operand);
    const double value = oracle_round(dtype, exact);
    out.bits[i] = oracle_bits(dtype, value);
    if (radius == 0 && is_special(op, operand)) continue;
    RealInterval ends{static_cast<double>(exact), static_cast<double>(exact)};
    const RealInterval taken = deviations.widened(dtype, interval_of(operand, radius), false);
    if (taken.lo != taken.hi) ends = bounded_ends(op, operand, taken);
    if (std::isfinite(ends.lo)) ends.lo -= ulps * oracle_ulp(dtype, ends.lo);
    if (std::isfinite(ends.hi)) ends.hi += ulps * oracle_ulp(dtype, ends.hi);
    if (is_positive) ends.lo = std::max(ends.lo, 0.0);
    set_radius(out, i, value, deviations.widened(dtype, ends, true));
  }
}

struct FloatOperands {
  std::array<std::vector<double>, 2> values;
  std::array<const OracleValue*, 2> sources{};

  const OracleDeviations& deviations;

  FloatOperands(std::span<const OracleNode* const> srcs, const OracleDeviations& declared)
      : deviations(declared) {
    for (size_t s = 0; s < 2; ++s) {
      const OracleValue& x = srcs[std::min(s, srcs.size() - 1)]->value;
      sources[s] = &x;
      values[s].resize(x.bits.size());
      for (size_t i = 0; i < x.bits.size(); ++i)
        values[s][i] = oracle_value(x.dtype, x.bits[i]);
    }
  }
  bool has_radius(size_t i) const {
    if (sources[0]->radius_at(i) > 0 || sources[1]->radius_at(i) > 0) return true;
    if (!deviations.flushes) return false;
    return interval(0, i).lo != interval(0, i).hi || interval(1, i).lo != interval(1, i).hi;
  }
  RealInterval interval(size_t s, size_t i) const {
    const RealInterval values_of = interval_of(values[s][i], sources[s]->radius_at(i));
    return deviations.widened(sources[s]->dtype, values_of, false);
  }
};

// In all dtypes but f64 a double holds the product.
bool is_product_exact(DType dtype, double a, double b, double rounded) {
  if (!std::isfinite(rounded)) return true;
  return dtype == DType::kF64 ? std::fma(a, b, -rounded) == 0 : a * b == rounded;
}

void evaluate_float(const Node& node, std::span<const OracleNode* const> srcs,
                    const OracleDeviations& deviations, OracleNode& out) {
  const Op op = node.op();
  const DType dtype = out.value.dtype;
  const FloatOperands operands(srcs, deviations);
  for (size_t i = 0; i < out.value.bits.size(); ++i) {
    const double a = operands.values[0][i];
    const double b = operands.values[1][i];
    const double value = oracle_round(dtype, float_op(op, a, b));
    out.value.bits[i] = oracle_bits(dtype, value);
    const bool has_radius = operands.has_radius(i);
    if (op == Op::kMul && !out.has_rounded_products) {
      out.has_rounded_products = has_radius || !is_product_exact(dtype, a, b, value);
    }
    const RealInterval only = deviations.widened(dtype, {value, value}, true);
    if (!has_radius && !(only.lo < only.hi)) continue;
    const RealInterval ends = float_ends(op, operands.interval(0, i), operands.interval(1, i));
    if (is_step(op) && ends.lo != ends.hi) {
      exclude(out.value, i);
    } else {
      set_radius(out.value, i, value, deviations.widened(dtype, ends, true));
    }
  }
}

bool compare_op(Op op, bool is_less, bool is_equal) {
  if (op == Op::kLt) return is_less;
  if (op == Op::kLe) return is_less || is_equal;
  return op == Op::kEq ? is_equal : !is_equal;
}

void compare_floats(Op op, std::span<const OracleNode* const> srcs,
                    const OracleDeviations& deviations, OracleValue& out) {
  const FloatOperands operands(srcs, deviations);
  for (size_t i = 0; i < out.bits.size(); ++i) {
    const double a = operands.values[0][i];
    const double b = operands.values[1][i];
    out.bits[i] = compare_op(op, a < b, a == b) ? 1 : 0;
    if (!operands.has_radius(i) || std::isnan(a) || std::isnan(b)) continue;
    const RealInterval x = operands.interval(0, i);
    const RealInterval y = operands.interval(1, i);
    if (x.hi >= y.lo && y.hi >= x.lo) exclude(out, i);
  }
}

void test_floats(Op op, const OracleValue& x, OracleValue& out) {
  for (size_t i = 0; i < out.bits.size(); ++i) {
    const double value = oracle_value(x.dtype, x.bits[i]);
    const bool result = op == Op::kIsNan   ? std::isnan(value)
                        : op == Op::kIsInf ? std::isinf(value)
                                           : std::isfinite(value);
    out.bits[i] = result ? 1 : 0;
  }
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// Quotient and remainder of canonical values; by 0: both 0. `floors`: towards minus infinity.
struct Division {
  uint64_t quotient = 0;
  uint64_t remainder = 0;
};
Division divide(bool is_signed, bool floors, uint64_t a, uint64_t b) {
  if (b == 0) return {};
  if (!is_signed) return {a / b, a % b};
  const auto sa = static_cast<int64_t>(a);
  const auto sb = static_cast<int64_t>(b);
  // Magnitudes are unsigned, so INT_MIN / -1 wraps to INT_MIN without a trap.
  const uint64_t quotient = magnitude(sa) / magnitude(sb);
  const uint64_t remainder = magnitude(sa) % magnitude(sb);
  Division result{(sa < 0) != (sb < 0) ? 0 - quotient : quotient,
                  sa < 0 ? 0 - remainder : remainder};
  if (floors && remainder != 0 && (sa < 0) != (sb < 0)) {
    result.quotient -= 1;
    result.remainder += b;
  }
  return result;
}

uint64_t shift(Op op, DType dtype, uint64_t a, uint64_t count) {
  // A negative count is a large unsigned one.
  const bool is_inside = count < static_cast<uint64_t>(dtype_bits(dtype));
  if (op == Op::kShl) return is_inside ? a << count : 0;
  if (is_unsigned_int(dtype)) return is_inside ? a >> count : 0;
  return static_cast<uint64_t>(static_cast<int64_t>(a) >> (is_inside ? count : 63));
}

// Integers and bool: canonical operands, the result before it is brought to canonical form.
uint64_t int_op(Op op, DType dtype, uint64_t a, uint64_t b) {
  const bool is_signed = is_signed_int(dtype);
  const auto sa = static_cast<int64_t>(a);
  const auto sb = static_cast<int64_t>(b);
  const bool is_less = is_signed ? sa < sb : a < b;
  if (op == Op::kAdd) return a + b;
  if (op == Op::kSub) return a - b;
  if (op == Op::kMul) return a * b;
  if (op == Op::kDiv) return divide(is_signed, false, a, b).quotient;
  if (op == Op::kMod) return divide(is_signed, false, a, b).remainder;
  if (op == Op::kFloorDiv) return divide(is_signed, true, a, b).quotient;
  if (op == Op::kFloorMod) return divide(is_signed, true, a, b).remainder;
  if (op == Op::kMin) return is_less ? a : b;
  if (op == Op::kMax) return is_less ? b : a;
  if (op == Op::kNeg) return 0 - a;
  if (op == Op::kAbs) return is_signed ? magnitude(sa) : a;
  if (op == Op::kAnd) return a & b;
  if (op == Op::kOr) return a | b;
  if (op == Op::kXor) return a ^ b;
  if (op == Op::kNot) return dtype == DType::kBool ? a ^ 1 : ~a;
  if (op == Op::kShl || op == Op::kShr) return shift(op, dtype, a, b);
  return compare_op(op, is_less, a == b) ? 1 : 0;
}

void evaluate_int(const Node& node, std::span<const OracleNode* const> srcs, OracleValue& out) {
  const OracleValue& a = srcs.front()->value;
  const OracleValue& b = srcs.back()->value;
  for (size_t i = 0; i < out.bits.size(); ++i) {
    out.bits[i] = oracle_canonical(out.dtype, int_op(node.op(), a.dtype, a.bits[i], b.bits[i]));
  }
}

void evaluate_cast(const OracleValue& x, const OracleDeviations& deviations, OracleValue& out) {
  const bool may_flush =
      deviations.flushes_values_of(x.dtype) || deviations.flushes_values_of(out.dtype);
  for (size_t i = 0; i < out.bits.size(); ++i) {
    out.bits[i] = oracle_convert(x.dtype, out.dtype, x.bits[i]);
    const double radius = x.radius_at(i);
    if (radius == 0 && !(may_flush && is_float(x.dtype))) continue;
    RealInterval ends = interval_of(oracle_value(x.dtype, x.bits[i]), radius);
    ends = deviations.widened(x.dtype, ends, false);
    if (is_float(out.dtype)) ends = deviations.widened(out.dtype, ends, true);
    if (!(ends.lo < ends.hi)) continue;
    if (is_float(out.dtype)) {
      set_radius(out, i, oracle_value(out.dtype, out.bits[i]), ends);
      continue;
    }
    const bool has_zero = ends.lo <= 0 && ends.hi >= 0;
    const bool is_one_value =
        oracle_convert_value(out.dtype, ends.lo) == oracle_convert_value(out.dtype, ends.hi);
    if (out.dtype == DType::kBool ? has_zero : !is_one_value) exclude(out, i);
  }
}

void evaluate_bitcast(const OracleNode& source, OracleValue& out) {
  const OracleValue& x = source.value;
  const bool is_from_float = is_float(x.dtype);
  for (size_t i = 0; i < out.bits.size(); ++i) {
    // Storage bits: zero-extended for floats and unsigned integers, sign-extended for signed ones.
    out.bits[i] = oracle_canonical(out.dtype, x.bits[i]);
    const bool is_free_nan =
        is_from_float && !source.is_raw && std::isnan(oracle_value(x.dtype, x.bits[i]));
    if (x.radius_at(i) > 0 || is_free_nan) exclude(out, i);
  }
}

void evaluate_where(std::span<const OracleNode* const> srcs, OracleValue& out) {
  const OracleValue& condition = srcs[0]->value;
  const OracleValue& yes = srcs[1]->value;
  const OracleValue& no = srcs[2]->value;
  if (!yes.radius.empty() || !no.radius.empty()) out.radius.assign(out.bits.size(), 0);
  for (size_t i = 0; i < out.bits.size(); ++i) {
    const OracleValue& taken = condition.bits[i] != 0 ? yes : no;
    out.bits[i] = taken.bits[i];
    if (!out.radius.empty()) out.radius[i] = taken.radius_at(i);
    const bool is_same = yes.bits[i] == no.bits[i] && yes.radius_at(i) == 0 &&
                         no.radius_at(i) == 0 && !yes.is_excluded(i) && !no.is_excluded(i);
    if (taken.is_excluded(i) || (condition.is_excluded(i) && !is_same)) exclude(out, i);
  }
}

void spread_exclusion(std::span<const OracleNode* const> srcs, OracleValue& out) {
  for (const OracleNode* src : srcs) {
    if (src->value.excluded.empty()) continue;
    for (size_t i = 0; i < out.bits.size(); ++i) {
      if (src->value.excluded[i] != 0) exclude(out, i);
    }
  }
}

}  // namespace

RealInterval interval_of(double value, double radius) {
  if (radius == 0) return {value, value};
  return {std::nextafter(value - radius, -kInf), std::nextafter(value + radius, kInf)};
}

void exclude(OracleValue& out, size_t i) {
  if (out.excluded.empty()) out.excluded.assign(out.bits.size(), 0);
  out.excluded[i] = 1;
  if (!out.radius.empty()) out.radius[i] = 0;
}

void set_radius(OracleValue& out, size_t i, double value, RealInterval ends) {
  const double lo = oracle_round(out.dtype, ends.lo);
  const double hi = oracle_round(out.dtype, ends.hi);
  const bool is_finite = std::isfinite(lo) && std::isfinite(hi) && std::isfinite(value);
  if (!is_finite) {
    const bool is_sure =
        (std::isnan(lo) && std::isnan(hi) && std::isnan(value)) || (lo == hi && lo == value);
    if (!is_sure) exclude(out, i);
    return;
  }
  double radius = std::max({value - lo, hi - value, 0.0});
  // Outward; and where all is zero, its sign is free.
  if (radius > 0 || value == 0) radius = std::nextafter(radius, kInf);
  if (radius == 0) return;
  if (out.radius.empty()) out.radius.assign(out.bits.size(), 0);
  out.radius[i] = radius;
}

OracleDeviations::OracleDeviations(std::span<const Deviation> declared) : all(declared) {
  for (const Deviation& deviation : declared) {
    flushes = flushes || deviation.kind == Deviation::Kind::kFlush;
    flushes_units = flushes_units || deviation.kind == Deviation::Kind::kUnitFlush;
  }
}

double OracleDeviations::ulp_of(Op op, double least) const {
  double ulp = least;
  for (const Deviation& deviation : all) {
    const bool is_of_op = deviation.kind == Deviation::Kind::kUlp && deviation.op == op;
    if (is_of_op) ulp = std::max<double>(ulp, deviation.ulp);
  }
  return ulp;
}

bool OracleDeviations::flushes_values_of(DType dtype) const {
  return flushes && (dtype == DType::kF32 || dtype == DType::kBF16);
}

// Tininess may be seen before the rounding: a result that is rounded up to the least normal number
// may count as zero, too.
RealInterval OracleDeviations::widened(DType dtype, RealInterval values, bool is_result) const {
  constexpr double kLeastNormal = 0x1p-126;  // of f32 and bf16
  if (!flushes_values_of(dtype)) return values;
  const double reach = is_result ? std::nextafter(kLeastNormal, 1) : kLeastNormal;
  const bool has_denormals = values.lo < reach && values.hi > -reach;
  if (!has_denormals) return values;
  return {std::min(values.lo, 0.0), std::max(values.hi, 0.0)};
}

void evaluate_elementwise(const Node& node, std::span<const OracleNode* const> srcs,
                          const OracleDeviations& deviations, OracleNode& out) {
  const Op op = node.op();
  const OracleValue& x = srcs[0]->value;
  OracleValue& value = out.value;
  value.bits.resize(x.bits.size());
  if (op == Op::kWhere) return evaluate_where(srcs, value);
  if (op == Op::kBitcast) {
    evaluate_bitcast(*srcs[0], value);
    out.is_raw = srcs[0]->is_raw;
  } else if (op == Op::kCast) {
    evaluate_cast(x, deviations, value);
  } else if (!is_float(x.dtype)) {
    evaluate_int(node, srcs, value);
  } else if (is_bounded_class(op)) {
    evaluate_bounded(node, x, deviations, value);
  } else if (op == Op::kIsNan || op == Op::kIsInf || op == Op::kIsFinite) {
    test_floats(op, x, value);
  } else if (op == Op::kLt || op == Op::kLe || op == Op::kEq || op == Op::kNe) {
    compare_floats(op, srcs, deviations, value);
  } else {
    evaluate_float(node, srcs, deviations, out);
  }
  spread_exclusion(srcs, value);
}

}  // namespace tenon::detail
