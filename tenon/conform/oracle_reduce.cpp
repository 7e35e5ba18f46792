// Reductions in the oracle. The value is the exact result (long double) rounded to the accumulator
// and to the dtype; the radius covers every order of combining, since the order is free.
// Bounds: N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., SIAM 2002, sections
// 3.1 and 4.2. SPDX-License-Identifier: MIT

#include <algorithm>
#include <cmath>
#include <limits>

#include "tenon/base/error.h"
#include "tenon/conform/oracle_numeric.h"
#include "tenon/conform/oracle_parts.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon::detail {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The elements that one result combines.
struct Row {
  const uint64_t* bits;
  const double* radius;  // null: all 0
  size_t count;
  double radius_at(size_t i) const { return radius == nullptr ? 0 : radius[i]; }
};

struct Reduction {
  Op op;
  DType dtype;
  DType accumulator;
  bool has_rounded_products;
  bool are_unit_products;
  double most_flushed;
  const OracleDeviations& deviations;
};

// A float result before the cast to the dtype. Not `is_known`: an intermediate result may overflow
// in one order and not in another.
struct FloatResult {
  double value = 0;  // a value of the accumulator
  RealInterval ends{0, 0};
  bool is_known = true;
};

constexpr int kLeastNormalBit = -126;  // of f32

FloatResult exactly(double value) {
  return {value, {value, value}, true};
}
FloatResult unknown() {
  return {kNan, {kNan, kNan}, false};
}

// (1 + u)^n - 1, from above.
double growth(double n, double unit) {
  const double nu = n * unit;
  return nu < 0.5 ? nu / (1 - nu) : kInf;
}

FloatResult around(const Reduction& reduction, long double exact, long double error) {
  FloatResult result;
  result.value = oracle_round(reduction.accumulator, exact);
  if (error == 0) return exactly(result.value);
  result.ends.lo = std::nextafter(static_cast<double>(exact - error), -kInf);
  result.ends.hi = std::nextafter(static_cast<double>(exact + error), kInf);
  return result;
}

FloatResult sum_floats(const Reduction& reduction, const Row& row) {
  const DType accumulator = reduction.accumulator;
  long double sum = 0;
  long double magnitude = 0;
  long double radius = 0;
  int lowest_bit = std::numeric_limits<int>::max();
  int num_inf[2] = {0, 0};
  int num_finite[2] = {0, 0};
  for (size_t i = 0; i < row.count; ++i) {
    const double x = oracle_value(reduction.dtype, row.bits[i]);
    if (std::isnan(x)) return exactly(kNan);
    if (std::isinf(x)) {
      ++num_inf[x < 0 ? 1 : 0];
      continue;
    }
    radius += row.radius_at(i);
    if (x == 0) continue;
    ++num_finite[x < 0 ? 1 : 0];
    sum += x;
    magnitude += std::fabs(x);
    lowest_bit = std::min(lowest_bit, oracle_lowest_bit(x));
  }
  if (num_inf[0] > 0 && num_inf[1] > 0) return exactly(kNan);
  // Infinity times a denormal factor: NaN where that is flushed.
  if (reduction.are_unit_products && std::isinf(reduction.most_flushed)) return unknown();
  const double unit = oracle_unit_roundoff(accumulator);
  // One rounding a term: n - 1 additions, and the products that a fused multiply-add leaves out.
  const double relative = growth(static_cast<double>(row.count), unit);
  const bool may_overflow = (magnitude + radius) * (1 + static_cast<long double>(relative)) >
                            oracle_max_finite(accumulator);
  if (num_inf[0] + num_inf[1] > 0) {
    return may_overflow ? unknown() : exactly(num_inf[0] > 0 ? kInf : -kInf);
  }
  const bool is_one_sign = radius == 0 && (num_finite[0] == 0 || num_finite[1] == 0);
  if (may_overflow) {
    const long double least = std::fabs(sum) * (1 - static_cast<long double>(relative));
    const bool overflows = is_one_sign && least > 2.0L * oracle_max_finite(accumulator);
    if (!overflows) return unknown();
    return exactly(oracle_round(accumulator, sum < 0 ? -kInf : kInf));
  }
  // All terms are multiples of 2^lowest_bit; if their magnitudes sum to at most 2^p of these, every
  // partial sum in every order is exact.
  const bool are_products_exact = !reduction.has_rounded_products || reduction.dtype != accumulator;
  const bool is_exact =
      magnitude == 0 || magnitude <= std::ldexp(1.0L / static_cast<long double>(unit), lowest_bit);
  // A matrix unit may take denormal factors and partial sums for zeros; terms that are multiples of
  // a normal number have no such sums.
  const bool flushes = reduction.deviations.flushes_values_of(accumulator);
  const bool may_flush =
      (flushes && (lowest_bit < kLeastNormalBit || radius > 0)) ||
      (reduction.are_unit_products && (reduction.most_flushed > 0 || lowest_bit < kLeastNormalBit));
  if (is_exact && are_products_exact && radius == 0 && !may_flush) {
    return exactly(static_cast<double>(sum));
  }
  long double error = relative * (magnitude + radius) + radius;
  error += std::ldexp(magnitude, -63) * static_cast<long double>(row.count);  // of `sum` itself
  if (!are_products_exact) {
    error += oracle_denorm_min(accumulator) * static_cast<long double>(row.count);
  }
  if (may_flush) {
    const long double each = std::ldexp(1.0L, kLeastNormalBit) + reduction.most_flushed;
    error += 2 * each * static_cast<long double>(row.count);
  }
  return around(reduction, sum, error);
}

// Bits of |x| / 2^lowest_bit: 1 for a power of two.
int significant_bits(double x) {
  return std::ilogb(x) - oracle_lowest_bit(x) + 1;
}

FloatResult multiply_floats(const Reduction& reduction, const Row& row) {
  const DType accumulator = reduction.accumulator;
  long double product = 1;
  long double reach = 1;  // product of |x| + radius
  double log2_large = 0;  // of the product of the factors above 1, with their radii
  double log2_small = 0;  // of the product of those below 1
  int64_t num_odd_bits = 1;
  bool has_inf = false;
  bool has_zero = false;
  bool has_radius = false;
  for (size_t i = 0; i < row.count; ++i) {
    const double x = oracle_value(reduction.dtype, row.bits[i]);
    if (std::isnan(x)) return exactly(kNan);
    const double radius = row.radius_at(i);
    has_radius = has_radius || radius > 0;
    product *= x;
    reach *= std::fabs(x) + static_cast<long double>(radius);
    if (std::isinf(x)) {
      has_inf = true;
    } else if (x == 0 && radius == 0) {
      has_zero = true;
    } else {
      log2_large += std::max(0.0, std::log2(std::fabs(x) + radius));
      log2_small += x == 0 ? 0 : std::min(0.0, std::log2(std::fabs(x)));
      num_odd_bits += x == 0 ? 0 : significant_bits(x) - 1;
    }
  }
  if (has_inf && has_zero) return exactly(kNan);
  const int max_exponent = std::ilogb(oracle_max_finite(accumulator));
  const int min_exponent =
      std::ilogb(oracle_denorm_min(accumulator)) + float_format(accumulator).mantissa_bits;
  const bool may_overflow = log2_large > max_exponent - 0.01;
  const bool may_underflow = log2_small < min_exponent + 0.01;
  if (has_inf) {
    return has_radius || may_underflow ? unknown() : exactly(oracle_round(accumulator, product));
  }
  if (may_overflow) return unknown();
  if (has_zero) return exactly(static_cast<double>(product));  // a zero with its sign
  const bool is_exact =
      !may_underflow && num_odd_bits <= float_format(accumulator).mantissa_bits + 1;
  const auto count = static_cast<double>(row.count);
  long double error = reach - std::fabs(product);
  if (!is_exact) error += growth(count, oracle_unit_roundoff(accumulator)) * reach;
  if (may_underflow && reduction.deviations.flushes_values_of(accumulator)) error += reach;
  if (may_underflow) {
    error +=
        std::exp2(static_cast<long double>(log2_large)) * count * oracle_denorm_min(accumulator);
  }
  if (is_exact && !has_radius) return exactly(oracle_round(accumulator, product));
  error += std::ldexp(reach, -62) * count;
  return around(reduction, product, error);
}

double pick(Op op, double a, double b) {
  if (a == b) return (std::signbit(a) == (op == Op::kMin)) ? a : b;
  return (a < b) == (op == Op::kMin) ? a : b;
}

FloatResult pick_floats(const Reduction& reduction, const Row& row) {
  const double start = oracle_round(reduction.accumulator, reduction.op == Op::kMin ? kInf : -kInf);
  // A dtype without infinity starts at its largest or smallest value.
  const double limit = oracle_max_finite(reduction.accumulator);
  const double identity = std::isnan(start) ? (reduction.op == Op::kMin ? limit : -limit) : start;
  FloatResult result = exactly(identity);
  for (size_t i = 0; i < row.count; ++i) {
    const double x = oracle_value(reduction.dtype, row.bits[i]);
    if (std::isnan(x)) return exactly(kNan);
    const RealInterval ends =
        reduction.deviations.widened(reduction.dtype, interval_of(x, row.radius_at(i)), false);
    result.value = pick(reduction.op, result.value, x);
    result.ends.lo = pick(reduction.op, result.ends.lo, ends.lo);
    result.ends.hi = pick(reduction.op, result.ends.hi, ends.hi);
  }
  return result;
}

uint64_t int_identity(const Reduction& reduction) {
  const DType accumulator = reduction.accumulator;
  if (reduction.op == Op::kMul) return 1;
  if (reduction.op == Op::kMin) return int_max_bits(accumulator);
  if (reduction.op == Op::kMax) return int_min_bits(accumulator);
  if (reduction.op == Op::kAnd) return oracle_canonical(accumulator, ~uint64_t{0});
  return 0;
}

uint64_t reduce_ints(const Reduction& reduction, const Row& row) {
  uint64_t result = int_identity(reduction);
  const bool is_signed = is_signed_int(reduction.accumulator);
  for (size_t i = 0; i < row.count; ++i) {
    const uint64_t x = row.bits[i];  // canonical, so also the value in a wider accumulator
    const bool is_less =
        is_signed ? static_cast<int64_t>(x) < static_cast<int64_t>(result) : x < result;
    if (reduction.op == Op::kAdd) result += x;
    if (reduction.op == Op::kMul) result *= x;
    if (reduction.op == Op::kAnd) result &= x;
    if (reduction.op == Op::kOr) result |= x;
    if (reduction.op == Op::kMin && is_less) result = x;
    if (reduction.op == Op::kMax && !is_less) result = x;
  }
  // Wrapping to the accumulator and then to the dtype is wrapping to the narrower one, the dtype.
  return oracle_canonical(reduction.dtype, result);
}

void reduce_floats(const Reduction& reduction, const Row& row, OracleValue& out, size_t i) {
  FloatResult result;
  if (reduction.op == Op::kAdd) {
    result = sum_floats(reduction, row);
  } else if (reduction.op == Op::kMul) {
    result = multiply_floats(reduction, row);
  } else {
    result = pick_floats(reduction, row);
  }
  const double value = oracle_round(out.dtype, result.value);
  out.bits[i] = oracle_bits(out.dtype, value);
  if (!result.is_known) return exclude(out, i);
  const bool has_radius =
      row.radius != nullptr &&
      std::any_of(row.radius, row.radius + row.count, [](double radius) { return radius > 0; });
  const bool is_exact = result.ends.lo == result.ends.hi && !has_radius;
  if (is_exact || std::isnan(result.value)) return;
  // Both roundings, each of which keeps order.
  const RealInterval ends{oracle_round(reduction.accumulator, result.ends.lo),
                          oracle_round(reduction.accumulator, result.ends.hi)};
  set_radius(out, i, value, reduction.deviations.widened(out.dtype, ends, true));
}

}  // namespace

void evaluate_reduce(const Node& node, const OracleNode& source, const OracleDeviations& deviations,
                     OracleNode& out) {
  const Reduction reduction{reduce_op(node),
                            node.dtype(),
                            reduce_accumulator(node),
                            source.has_rounded_products,
                            source.is_unit_product,
                            source.most_flushed,
                            deviations};
  const OracleValue& x = source.value;
  // The reduced axes go last, so that each result has its elements in a row.
  OracleValue moved;
  std::vector<int64_t> strides;
  const std::vector<int64_t> of_source = strides_of(x.shape);
  const std::span<const int64_t> axes = reduce_axes(node);
  for (const bool is_reduced : {false, true}) {
    for (size_t axis = 0; axis < x.shape.size(); ++axis) {
      const bool is_axis = std::ranges::find(axes, static_cast<int64_t>(axis)) != axes.end();
      if (is_axis != is_reduced) continue;
      moved.shape.push_back(x.shape[axis]);
      strides.push_back(of_source[axis]);
    }
  }
  gather(x, 0, strides, moved);
  size_t length = 1;
  for (int64_t axis : axes)
    length *= static_cast<size_t>(x.shape[static_cast<size_t>(axis)]);
  OracleValue& value = out.value;
  value.bits.resize(count_of(value.shape));
  for (size_t i = 0; i < value.bits.size(); ++i) {
    const Row row{moved.bits.data() + i * length,
                  moved.radius.empty() ? nullptr : moved.radius.data() + i * length, length};
    const auto* excluded = moved.excluded.empty() ? nullptr : moved.excluded.data() + i * length;
    if (excluded != nullptr &&
        std::any_of(excluded, excluded + length, [](uint8_t flag) { return flag != 0; })) {
      exclude(value, i);
    } else if (is_float(value.dtype)) {
      reduce_floats(reduction, row, value, i);
    } else {
      value.bits[i] = reduce_ints(reduction, row);
    }
  }
}

}  // namespace tenon::detail
