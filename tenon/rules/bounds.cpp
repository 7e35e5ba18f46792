// IntRange arithmetic behind bounds.h. SPDX-License-Identifier: MIT

#include "tenon/rules/bounds.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"

namespace tenon {
namespace {

constexpr IntRange kBoolInterval{0, 1};

int64_t clamp_wide(__int128 value) {
  if (value <= INT64_MIN) return INT64_MIN;
  if (value >= INT64_MAX) return INT64_MAX;
  return static_cast<int64_t>(value);
}

// An end of an interval as a wide number; ends without bound become far larger than any product of
// two bounded ones, so that they stay unbounded after clamping.
constexpr __int128 kFar = static_cast<__int128>(1) << 100;
__int128 wide_min(IntRange a) {
  return a.has_min() ? a.min : -kFar;
}
__int128 wide_max(IntRange a) {
  return a.has_max() ? a.max : kFar;
}

IntRange make_interval(__int128 min, __int128 max) {
  return {clamp_wide(min), clamp_wide(max)};
}

__int128 wide_mul(__int128 a, __int128 b) {
  // |a|, |b| <= 2^100: a product beyond is capped, 0 * far is 0.
  if (a == 0 || b == 0) return 0;
  const bool negative = (a < 0) != (b < 0);
  const bool is_far = a >= kFar || a <= -kFar || b >= kFar || b <= -kFar;
  if (is_far) return negative ? -kFar : kFar;
  return a * b;
}

IntRange negate(IntRange a) {
  return make_interval(-wide_max(a), -wide_min(a));
}

IntRange hull(IntRange a, IntRange b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}

// Truncating division by a divisor that may be 0 (giving 0).
IntRange trunc_div(IntRange a, IntRange b) {
  if (b.min > 0 && b.has_max() && a.min >= 0) {
    return {a.has_min() ? a.min / b.max : 0, a.has_max() ? a.max / b.min : INT64_MAX};
  }
  if (b.min > 0 && a.min >= 0) return {0, a.has_max() ? a.max / b.min : INT64_MAX};
  // The magnitude never grows.
  const __int128 reach = std::max(-wide_min(a), wide_max(a));
  return make_interval(-reach, reach);
}

// Truncating remainder: the sign of the dividend, smaller than the divisor in magnitude.
IntRange trunc_mod(IntRange a, IntRange b) {
  const __int128 reach_b = std::max(-wide_min(b), wide_max(b));
  const __int128 limit = reach_b > 0 ? reach_b - 1 : 0;
  const __int128 low = wide_min(a) >= 0 ? 0 : std::max(wide_min(a), -limit);
  const __int128 high = wide_max(a) <= 0 ? 0 : std::min(wide_max(a), limit);
  return make_interval(low, high);
}

// Smallest 2^k - 1 that is not below `value`.
int64_t all_ones_above(int64_t value) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value) + 1) - 1);
}

IntRange bit_op(Op op, IntRange a, IntRange b, IntRange whole) {
  if (op == Op::kAnd && (a.min >= 0 || b.min >= 0)) {
    if (a.min < 0) return {0, b.max};
    if (b.min < 0) return {0, a.max};
    return {0, std::min(a.max, b.max)};
  }
  if (op != Op::kAnd && a.min >= 0 && b.min >= 0 && a.has_max() && b.has_max()) {
    const int64_t high = all_ones_above(std::max(a.max, b.max));
    return {op == Op::kOr ? std::max(a.min, b.min) : 0, high};
  }
  return whole;
}

IntRange shift_op(Op op, IntRange a, IntRange b, DType dtype) {
  const IntRange whole = dtype_range(dtype);
  if (op == Op::kShr) {
    if (a.min >= 0) {
      const bool is_exact = b.is_value() && b.min >= 0 && b.min < dtype_bits(dtype);
      if (is_exact && a.has_max()) return {a.min >> b.min, a.max >> b.min};
      return {0, a.max};
    }
    return {a.min, std::max<int64_t>(a.max, 0)};
  }
  if (!b.is_value() || b.min < 0 || b.min >= dtype_bits(dtype) || b.min > 62) return whole;
  return mul(a, {int64_t{1} << b.min, int64_t{1} << b.min});
}

// -1: false, 1: true, 0: not known.
int decide_lt(IntRange a, IntRange b) {
  if (a.has_max() && b.has_min() && a.max < b.min) return 1;
  if (a.has_min() && b.has_max() && a.min >= b.max) return -1;
  return 0;
}

int decide_le(IntRange a, IntRange b) {
  if (a.has_max() && b.has_min() && a.max <= b.min) return 1;
  if (a.has_min() && b.has_max() && a.min > b.max) return -1;
  return 0;
}

int decide_eq(IntRange a, IntRange b) {
  if (a.is_value() && a == b) return 1;
  if (decide_lt(a, b) == 1 || decide_lt(b, a) == 1) return -1;
  return 0;
}

IntRange compare_op(Op op, IntRange a, IntRange b) {
  int decided = 0;
  if (op == Op::kLt) decided = decide_lt(a, b);
  if (op == Op::kLe) decided = decide_le(a, b);
  if (op == Op::kEq) decided = decide_eq(a, b);
  if (op == Op::kNe) decided = -decide_eq(a, b);
  if (decided == 0) return kBoolInterval;
  return decided > 0 ? IntRange{1, 1} : IntRange{0, 0};
}

// A result computed on exact integers, as the dtype holds it: it may wrap, then nothing is known.
IntRange wrapped(IntRange exact, DType dtype) {
  if (dtype == DType::kIdx) return exact;
  const IntRange whole = dtype_range(dtype);
  if (dtype == DType::kU64) {
    return exact.min >= 0 && exact.has_max() ? exact : whole;
  }
  if (dtype_bits(dtype) == 64) return exact.is_bounded() ? exact : whole;
  return exact.min >= whole.min && exact.max <= whole.max ? exact : whole;
}

IntRange leaf_bounds(const Node& node) {
  if (node.op() == Op::kAxis && is_planted(PlantedFault::kAxisBoundShort)) {
    return {0, std::max<int64_t>(axis_extent(node) - 2, 0)};
  }
  if (node.op() == Op::kAxis) return {0, axis_extent(node) - 1};
  if (node.op() == Op::kScalar) return {node.attr(1), node.attr(2)};
  const int64_t value = node.attr(0);
  const bool is_large = node.dtype() == DType::kU64 && value < 0;
  return is_large ? IntRange{INT64_MAX, INT64_MAX} : IntRange{value, value};
}

IntRange cast_bounds(const Node& node, IntRange source) {
  const DType from = node.src(0).dtype();
  const IntRange whole = dtype_range(node.dtype());
  if (is_float(from)) return whole;
  if (node.dtype() == DType::kBool) return compare_op(Op::kNe, source, {0, 0});
  const bool fits = source.min >= whole.min && source.max <= whole.max;
  const bool wraps_u64 = from == DType::kU64 && !source.has_max();
  const bool is_open = from == DType::kIdx && !source.is_bounded();
  if (wraps_u64 && node.dtype() != DType::kIdx) return whole;
  if (is_open && node.dtype() != DType::kIdx) return whole;
  return fits ? source : whole;
}

IntRange bool_op(Op op, IntRange a, IntRange b) {
  if (op == Op::kAnd || op == Op::kMin || op == Op::kMul) {
    return {std::min(a.min, b.min), std::min(a.max, b.max)};
  }
  if (op == Op::kOr || op == Op::kMax) return {std::max(a.min, b.min), std::max(a.max, b.max)};
  if (op == Op::kXor && a.is_value() && b.is_value()) return {a.min ^ b.min, a.min ^ b.min};
  return kBoolInterval;
}

IntRange binary_bounds(Op op, DType dtype, IntRange a, IntRange b) {
  if (dtype == DType::kBool) return bool_op(op, a, b);
  if (op == Op::kAdd) return wrapped(add(a, b), dtype);
  if (op == Op::kSub) return wrapped(sub(a, b), dtype);
  if (op == Op::kMul) return wrapped(mul(a, b), dtype);
  if (op == Op::kDiv) return wrapped(trunc_div(a, b), dtype);
  if (op == Op::kMod) return wrapped(trunc_mod(a, b), dtype);
  if (op == Op::kFloorDiv) return wrapped(floor_div(a, b), dtype);
  if (op == Op::kFloorMod) return wrapped(floor_mod(a, b), dtype);
  if (op == Op::kMin) return {std::min(a.min, b.min), std::min(a.max, b.max)};
  if (op == Op::kMax) return {std::max(a.min, b.min), std::max(a.max, b.max)};
  if (op == Op::kAnd || op == Op::kOr || op == Op::kXor) {
    return bit_op(op, a, b, dtype_range(dtype));
  }
  if (op == Op::kShl || op == Op::kShr) return wrapped(shift_op(op, a, b, dtype), dtype);
  return dtype_range(dtype);
}

IntRange unary_bounds(const Node& node, IntRange a) {
  const DType dtype = node.dtype();
  const Op op = node.op();
  if (op == Op::kNot && dtype == DType::kBool) {
    return a.is_value() ? IntRange{1 - a.min, 1 - a.min} : kBoolInterval;
  }
  if (op == Op::kNot && is_signed_int(dtype)) return sub({-1, -1}, a);
  if (op == Op::kNeg && dtype != DType::kBool) return wrapped(negate(a), dtype);
  if (op == Op::kAbs && dtype != DType::kBool) {
    if (a.min >= 0) return a;
    const IntRange negative = negate(a);
    const IntRange exact{a.max <= 0 ? negative.min : 0, std::max(a.max, negative.max)};
    return wrapped(exact, dtype);
  }
  return dtype_range(dtype);
}

bool has_bounds(DType dtype) {
  return !is_float(dtype);
}

// Whether the bounds of a node follow from those of its sources.
bool depends_on_srcs(const Node& node) {
  if (!is_elementwise(node.op()) || node.op() == Op::kBitcast) return false;
  return has_bounds(node.src(node.srcs().size() - 1).dtype());
}

}  // namespace

IntRange dtype_range(DType dtype) {
  if (dtype == DType::kIdx) return {};
  const auto min = static_cast<int64_t>(int_min_bits(dtype));
  const uint64_t max = int_max_bits(dtype);
  return {min, max > INT64_MAX ? INT64_MAX : static_cast<int64_t>(max)};
}

IntRange add(IntRange a, IntRange b) {
  return make_interval(wide_min(a) + wide_min(b), wide_max(a) + wide_max(b));
}

IntRange sub(IntRange a, IntRange b) {
  return make_interval(wide_min(a) - wide_max(b), wide_max(a) - wide_min(b));
}

IntRange mul(IntRange a, IntRange b) {
  const __int128 products[] = {
      wide_mul(wide_min(a), wide_min(b)), wide_mul(wide_min(a), wide_max(b)),
      wide_mul(wide_max(a), wide_min(b)), wide_mul(wide_max(a), wide_max(b))};
  return make_interval(*std::min_element(std::begin(products), std::end(products)),
                       *std::max_element(std::begin(products), std::end(products)));
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return a == INT64_MIN ? a : -a;
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

IntRange floor_div(IntRange a, IntRange b) {
  if (b.max < 0) {
    a = negate(a);
    b = negate(b);
  }
  if (b.min > 0) {
    // Monotone in a; in b it moves towards 0 (a >= 0) or -1 (a < 0).
    const int64_t low_divisor = a.min >= 0 ? b.max : b.min;
    const int64_t high_divisor = a.max >= 0 ? b.min : b.max;
    const int64_t low = a.has_min() ? floor_div(a.min, low_divisor) : INT64_MIN;
    const int64_t high = a.has_max() ? floor_div(a.max, high_divisor) : INT64_MAX;
    return {low, high};
  }
  const __int128 reach = std::max(-wide_min(a), wide_max(a));
  return make_interval(-reach, reach);
}

IntRange floor_mod(IntRange a, IntRange b) {
  if (b.min > 0) {
    if (b.is_value() && a.is_bounded() && floor_div(a.min, b.min) == floor_div(a.max, b.min)) {
      return {floor_mod(a.min, b.min), floor_mod(a.max, b.min)};
    }
    if (a.min >= 0 && a.has_max() && a.max < b.min) return a;
    const int64_t high = b.has_max() ? b.max - 1 : INT64_MAX;
    return {0, a.min >= 0 ? std::min(a.max, high) : high};
  }
  const int64_t high = b.max > 0 ? (b.has_max() ? b.max - 1 : INT64_MAX) : 0;
  const int64_t low = b.min < 0 ? (b.has_min() ? b.min + 1 : INT64_MIN) : 0;
  return {low, high};
}

void BoundsMemo::assume(const Node& node, IntRange interval) {
  const IntRange known = bounds(node);
  const IntRange both{std::max(known.min, interval.min), std::min(known.max, interval.max)};
  // Contradicting facts: the code is never reached, any bounds are right.
  if (both.min <= both.max) memo_[node] = both;
}

IntRange BoundsMemo::bounds(const Node& root) {
  TENON_ASSERT(has_bounds(root.dtype()), "bounds: ", op_name(root.op()), " is a float");
  if (const auto found = memo_.find(root); found != memo_.end()) return found->second;

  std::vector<std::pair<Node, size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    // The indices of a load and the sources of a test on floats do not matter.
    if (depends_on_srcs(node) && next < node.srcs().size()) {
      const Node src = node.src(next++);
      if (!memo_.contains(src)) stack.emplace_back(src, 0);
      continue;
    }
    const Node done = std::move(node);
    stack.pop_back();
    memo_.emplace(done, compute(done));
  }
  return memo_.at(root);
}

// The bounds of a node whose sources, as far as they matter, are in the memo.
IntRange BoundsMemo::compute(const Node& node) const {
  if (node.op() == Op::kConst || node.op() == Op::kAxis || node.op() == Op::kScalar) {
    return leaf_bounds(node);
  }
  if (!depends_on_srcs(node)) return dtype_range(node.dtype());
  const size_t count = node.srcs().size();
  const IntRange first = memo_.at(node.src(0));
  if (node.op() == Op::kCast) return cast_bounds(node, first);
  if (node.op() == Op::kWhere) {
    if (first.is_value()) return memo_.at(node.src(first.min == 1 ? 1 : 2));
    return hull(memo_.at(node.src(1)), memo_.at(node.src(2)));
  }
  if (count == 1) return unary_bounds(node, first);
  TENON_ASSERT(count == 2, "bounds: ", op_name(node.op()), " of integers");
  const IntRange second = memo_.at(node.src(1));
  if (op_info(node.op()).rule == DTypeRule::kCompare) {
    return compare_op(node.op(), first, second);
  }
  return binary_bounds(node.op(), node.dtype(), first, second);
}

IntRange bounds(const Node& node) {
  return BoundsMemo().bounds(node);
}

}  // namespace tenon
