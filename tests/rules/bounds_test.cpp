// Bounds of single ops against all values of small operands, and the saturating ends.
// SPDX-License-Identifier: MIT
#include "tenon/rules/bounds.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"
#include "tests/rules/expr_evaluator.h"

namespace tenon {
namespace {

// min(max(x, low), high): an unknown with bounds that the memo can see.
Node between(int buffer, DType dtype, int64_t low, int64_t high) {
  const Node above = make_expr(Op::kMax, unknown(buffer, dtype), int_const(dtype, low));
  return make_expr(Op::kMin, above, int_const(dtype, high));
}

int64_t low_of(DType dtype) {
  return dtype_range(dtype).min;
}

struct Range {
  int64_t low;
  int64_t high;
};

std::vector<Range> ranges_of(DType dtype) {
  const IntRange whole = dtype_range(dtype);
  std::vector<Range> ranges = {
      {0, 5},    {1, 7}, {0, 0}, {3, 3}, {whole.min, whole.max}, {0, 1}, {whole.max - 3, whole.max},
      {100, 120}};
  if (is_signed_int(dtype)) {
    ranges.insert(ranges.end(), {{-6, -2}, {-4, 3}, {-1, -1}, {whole.min, whole.min + 2}, {-1, 0}});
  }
  return ranges;
}

void check_binary(Op op, DType dtype, Range a, Range b) {
  const Node expr =
      make_expr(op, between(0, dtype, a.low, a.high), between(1, dtype, b.low, b.high));
  const IntRange range = bounds(expr);
  for (int64_t x = a.low; x <= a.high; ++x) {
    for (int64_t y = b.low; y <= b.high; ++y) {
      const std::array<ScalarBits, 2> args{static_cast<ScalarBits>(x), static_cast<ScalarBits>(y)};
      const auto value = static_cast<int64_t>(eval_op(op, dtype, args));
      ASSERT_TRUE(range.contains(value))
          << op_name(op) << " " << dtype_name(dtype) << " of " << x << ", " << y << " is " << value
          << ", bounds " << range.min << ".." << range.max;
    }
  }
}

TEST(Bounds, HoldForEveryBinaryOpOnEightBits) {
  int64_t checked = 0;
  for (const OpInfo& info : all_ops()) {
    if (info.op_class != OpClass::kBinary || info.rule == DTypeRule::kSameFloat) continue;
    for (DType dtype : {DType::kI8, DType::kU8}) {
      for (Range a : ranges_of(dtype)) {
        for (Range b : ranges_of(dtype)) {
          check_binary(info.op, dtype, a, b);
          if (HasFatalFailure()) return;
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(Bounds, HoldForUnaryOpsAndCasts) {
  constexpr DType kTargets[] = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16, DType::kI32,
                                DType::kU32, DType::kI64, DType::kU64, DType::kBool};
  for (DType dtype : {DType::kI8, DType::kU8}) {
    for (Range a : ranges_of(dtype)) {
      std::vector<Node> exprs;
      const Node x = between(0, dtype, a.low, a.high);
      for (Op op : {Op::kNeg, Op::kAbs, Op::kNot})
        exprs.push_back(make_expr(op, x));
      for (DType target : kTargets)
        exprs.push_back(make_cast(x, target));
      for (const Node& expr : exprs) {
        const IntRange range = bounds(expr);
        for (int64_t value = a.low; value <= a.high; ++value) {
          const auto bits = static_cast<ScalarBits>(value);
          const ScalarBits result = expr.op() == Op::kCast
                                        ? eval_cast(bits, dtype, expr.dtype())
                                        : eval_op(expr.op(), dtype, std::span(&bits, 1));
          const bool is_large = expr.dtype() == DType::kU64 && result > INT64_MAX;
          ASSERT_TRUE(range.contains(is_large ? INT64_MAX : static_cast<int64_t>(result)))
              << op_name(expr.op()) << " to " << dtype_name(expr.dtype()) << " of " << value;
        }
      }
    }
  }
}

TEST(Bounds, AreTightWhereItMatters) {
  const Node i = make_axis(0, 64, AxisKind::kPar);
  const Node j = make_axis(1, 10, AxisKind::kPar);
  const Node flat = make_expr(Op::kAdd, make_expr(Op::kMul, j, idx_const(64)), i);
  EXPECT_EQ(bounds(flat), (IntRange{0, 639}));
  EXPECT_EQ(bounds(make_expr(Op::kFloorDiv, flat, idx_const(64))), (IntRange{0, 9}));
  EXPECT_EQ(bounds(make_expr(Op::kFloorMod, flat, idx_const(64))), (IntRange{0, 63}));
  EXPECT_EQ(bounds(make_expr(Op::kSub, i, j)), (IntRange{-9, 63}));
  EXPECT_EQ(bounds(make_expr(Op::kFloorDiv, make_expr(Op::kSub, i, j), idx_const(4))),
            (IntRange{-3, 15}));
  EXPECT_EQ(bounds(make_cast(flat, DType::kI32)), (IntRange{0, 639}));
  EXPECT_EQ(bounds(make_cast(flat, DType::kU8)), (IntRange{0, 255}));
  EXPECT_EQ(bounds(unknown(0, DType::kI16)), (IntRange{-32768, 32767}));
  EXPECT_EQ(bounds(make_scalar(0, 3, 17)), (IntRange{3, 17}));
}

TEST(Bounds, SaturateAndProveNothingBeyond) {
  const Node large = idx_const(INT64_MAX - 1);
  const Node i = make_axis(0, 4, AxisKind::kPar);
  const Node sum = make_expr(Op::kAdd, large, i);
  EXPECT_EQ(bounds(sum).max, INT64_MAX);
  EXPECT_FALSE(bounds(sum).has_max());
  EXPECT_EQ(bounds(make_expr(Op::kLt, sum, idx_const(INT64_MAX))), (IntRange{0, 1}));
  // A wrapped 64-bit sum may be anything.
  const Node wrapped = make_expr(Op::kAdd, unknown(0, DType::kI64), int_const(DType::kI64, 1));
  EXPECT_EQ(bounds(wrapped), IntRange{});
  // u64 constants above INT64_MAX compare as large.
  const Node huge = bits_const(DType::kU64, ~uint64_t{0});
  EXPECT_EQ(bounds(make_expr(Op::kLt, bits_const(DType::kU64, 5), huge)), (IntRange{1, 1}));
  EXPECT_EQ(bounds(make_expr(Op::kEq, huge, bits_const(DType::kU64, 1ULL << 63))),
            (IntRange{0, 1}));
  EXPECT_EQ(low_of(DType::kU64), 0);
}

TEST(Bounds, WalkDeepChainsAndTakeAssumptions) {
  Node sum = make_axis(0, 2, AxisKind::kPar);
  const Node one = make_axis(1, 2, AxisKind::kPar);
  for (int step = 0; step < 100000; ++step)
    sum = make_expr(Op::kAdd, sum, one);
  EXPECT_EQ(bounds(sum), (IntRange{0, 100001}));

  BoundsMemo memo;
  memo.assume(one, {1, 5});
  EXPECT_EQ(memo.bounds(one), (IntRange{1, 1}));
  EXPECT_EQ(memo.bounds(make_expr(Op::kAdd, one, idx_const(2))), (IntRange{3, 3}));
}

}  // namespace
}  // namespace tenon
