// The exact class: decomposed ops give the bits of the op table, for all 8-bit integers, grids of
// wider ones and floats of every exponent; what remains is what the Target can do.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/rules/decompose.h"
#include "tenon/rules/supports.h"
#include "tests/rules/expr_evaluator.h"
#include "tests/rules/test_targets.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

std::vector<ScalarBits> all_of(DType dtype) {
  std::vector<ScalarBits> values;
  for (uint64_t bits = 0; bits < uint64_t{1} << dtype_bits(dtype); ++bits)
    values.push_back(canonical_bits(dtype, bits));
  return values;
}

// Ends of the range, zeros, small numbers, powers of two and their neighbours.
std::vector<ScalarBits> grid_of(DType dtype) {
  std::vector<ScalarBits> values;
  for (int shift = 0; shift < dtype_bits(dtype); ++shift) {
    for (uint64_t step = 0; step < 5; ++step) {
      values.push_back(canonical_bits(dtype, (uint64_t{1} << shift) + step - 2));
      values.push_back(canonical_bits(dtype, step - 2 - (uint64_t{1} << shift)));
    }
  }
  return values;
}

void check_pairs(Op op, DType dtype, const std::vector<ScalarBits>& left,
                 const std::vector<ScalarBits>& right) {
  const std::array<Node, 2> inputs{unknown(0, dtype), unknown(1, dtype)};
  const Node expr = decompose_expr(make_expr(op, inputs), baseline_target());
  std::vector<std::vector<ScalarBits>> columns(2);
  std::vector<ScalarBits> expected;
  for (ScalarBits a : left) {
    for (ScalarBits b : right) {
      columns[0].push_back(a);
      columns[1].push_back(b);
      expected.push_back(eval_op(op, dtype, std::array{a, b}));
    }
  }
  const std::vector<ScalarBits> got = ExprEvaluator(expr, inputs).run(columns);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], expected[i])
        << op_name(op) << " " << dtype_name(dtype) << " of " << static_cast<int64_t>(columns[0][i])
        << ", " << static_cast<int64_t>(columns[1][i]);
  }
}

TEST(DecomposeExact, FlooringDivisionOfIntegers) {
  for (Op op : {Op::kFloorDiv, Op::kFloorMod, Op::kNe}) {
    for (DType dtype : {DType::kI8, DType::kU8})
      check_pairs(op, dtype, all_of(dtype), all_of(dtype));
    for (DType dtype :
         {DType::kI16, DType::kI32, DType::kI64, DType::kU16, DType::kU32, DType::kU64})
      check_pairs(op, dtype, grid_of(dtype), grid_of(dtype));
  }
}

TEST(DecomposeExact, FlooringDivisionByConstants) {
  for (Op op : {Op::kFloorDiv, Op::kFloorMod}) {
    for (DType dtype : {DType::kI8, DType::kU8}) {
      const Node x = unknown(0, dtype);
      const std::vector<ScalarBits> values = all_of(dtype);
      for (ScalarBits divisor : values) {
        const Node expr =
            decompose_expr(make_expr(op, x, bits_const(dtype, divisor)), baseline_target());
        const std::vector<ScalarBits> got =
            ExprEvaluator(expr, std::span(&x, 1)).run(std::span(&values, 1));
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(got[i], eval_op(op, dtype, std::array{values[i], divisor}))
              << op_name(op) << " " << static_cast<int64_t>(values[i]) << ", "
              << static_cast<int64_t>(divisor);
        }
      }
    }
  }
}

TEST(DecomposeExact, ProvenSignsAndPowersOfTwoCostOneOp) {
  const Node x = unknown(0, DType::kI32);
  const Node position = make_cast(make_axis(0, 100, AxisKind::kPar), DType::kI32);
  const auto ops = [](Op op, const Node& a, int64_t b) {
    const Node expr = make_expr(op, a, int_const(DType::kI32, b));
    return count_ops(decompose_expr(expr, baseline_target())) - (a.op() == Op::kCast ? 1 : 0);
  };
  EXPECT_EQ(ops(Op::kFloorDiv, x, 8), 1);
  EXPECT_EQ(ops(Op::kFloorMod, x, 8), 1);
  EXPECT_EQ(ops(Op::kFloorDiv, position, 7), 1);
  EXPECT_EQ(ops(Op::kFloorMod, position, 7), 1);
  EXPECT_GT(ops(Op::kFloorDiv, x, 7), 1);
}

TEST(DecomposeExact, SignAndMagnitudeOfIntegers) {
  for (Op op : {Op::kNeg, Op::kAbs}) {
    for (DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
                        DType::kI64, DType::kU64}) {
      const Node x = unknown(0, dtype);
      const Node expr = decompose_expr(make_expr(op, x), baseline_target());
      const std::vector<ScalarBits> values =
          dtype_bits(dtype) <= 16 ? all_of(dtype) : grid_of(dtype);
      const auto got = ExprEvaluator(expr, std::span(&x, 1)).run(std::span(&values, 1));
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(got[i], eval_op(op, dtype, std::span(&values[i], 1))) << op_name(op) << values[i];
    }
  }
}

// --- floats -------------------------------------------------------------------------------------

// Neighbours of all powers of two and of halves up to 2^24, and random bits.
std::vector<ScalarBits> float_inputs(DType dtype) {
  std::vector<ScalarBits> inputs;
  const FloatFormat format = float_format(dtype);
  const uint64_t sign = uint64_t{1} << (dtype_bits(dtype) - 1);
  for (uint64_t exponent = 0; exponent < uint64_t{1} << format.exponent_bits; ++exponent) {
    for (uint64_t step = 0; step < 6; ++step) {
      const uint64_t bits = ((exponent << format.mantissa_bits) + step - 3) & (sign - 1);
      inputs.push_back(bits);
      inputs.push_back(bits | sign);
    }
  }
  for (int half = -4000; half < 4000; ++half)
    inputs.push_back(double_to_float(half * 0.5, dtype));
  for (int shift = 10; shift < 56; ++shift) {
    for (int half = -5; half < 5; ++half)
      inputs.push_back(double_to_float(std::ldexp(1.0, shift) + half * 0.5, dtype));
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i)
    inputs.push_back(canonical_bits(dtype, random()));
  return inputs;
}

bool is_nan_bits(DType dtype, ScalarBits bits) {
  return std::isnan(float_to_double(bits, dtype));
}

void check_float_op(Op op, DType dtype, const Target& target) {
  const Node x = unknown(0, dtype);
  const Node expr = decompose_expr(make_expr(op, x), target);
  const std::vector<ScalarBits> inputs = float_inputs(dtype);
  const auto got = ExprEvaluator(expr, std::span(&x, 1)).run(std::span(&inputs, 1));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ScalarBits expected = eval_op(op, dtype, std::span(&inputs[i], 1));
    if (expr.dtype() == dtype && is_nan_bits(dtype, expected)) {
      ASSERT_TRUE(is_nan_bits(dtype, got[i])) << op_name(op) << std::hex << inputs[i];
    } else {
      ASSERT_EQ(got[i], expected) << op_name(op) << " " << float_to_double(inputs[i], dtype);
    }
  }
}

TEST(DecomposeExact, SignTestsAndRoundingOfFloats) {
  for (Op op : {Op::kNeg, Op::kAbs, Op::kIsNan, Op::kIsInf, Op::kIsFinite, Op::kTrunc, Op::kFloor,
                Op::kCeil, Op::kRound}) {
    for (DType dtype : {DType::kF32, DType::kF64}) {
      check_float_op(op, dtype, baseline_target());
      check_float_op(op, dtype, avx512_target());
    }
  }
}

// Both libraries round correctly: squares and their neighbours, denormals, what else float_inputs
// has, and many at random.
TEST(DecomposeExact, SquareRootsAreCorrectlyRounded) {
  Target target = baseline_target();
  target.native_ops = {};
  std::mt19937_64 generator(5);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    check_float_op(Op::kSqrt, dtype, target);
    const Node x = unknown(0, dtype);
    const Node expr = decompose_expr(make_expr(Op::kSqrt, x), target);
    std::vector<ScalarBits> inputs;
    for (int i = 0; i < 100000; ++i) {
      const uint64_t random = generator();
      inputs.push_back(dtype == DType::kF32 ? random >> 32 : random);
      const auto root = static_cast<double>(generator() % 0x1000000);
      for (const int step : {-1, 0, 1})
        inputs.push_back(double_to_float(root * root, dtype) + static_cast<uint64_t>(step));
      inputs.push_back(i < 1000 ? static_cast<uint64_t>(i) : random >> (i % 64));
    }
    for (ScalarBits& bits : inputs)
      bits = canonical_bits(dtype, bits);
    const auto got = ExprEvaluator(expr, std::span(&x, 1)).run(std::span(&inputs, 1));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double value = float_to_double(inputs[i], dtype);
      const double expected =
          dtype == DType::kF32 ? std::sqrt(static_cast<float>(value)) : std::sqrt(value);
      if (std::isnan(expected)) {
        ASSERT_TRUE(is_nan_bits(dtype, got[i])) << value;
      } else {
        ASSERT_EQ(got[i], double_to_float(expected, dtype)) << std::hexfloat << value;
      }
    }
  }
}

TEST(DecomposeExact, RoundingAgreesWithTheMathLibrary) {
  struct Row {
    Op op;
    double (*reference)(double);
  };
  const Row rows[] = {{Op::kFloor, std::floor},
                      {Op::kCeil, std::ceil},
                      {Op::kTrunc, std::trunc},
                      {Op::kRound, std::nearbyint},
                      {Op::kAbs, std::fabs}};
  for (const Row& row : rows) {
    const Node x = unknown(0, DType::kF64);
    const Node expr = decompose_expr(make_expr(row.op, x), baseline_target());
    const std::vector<ScalarBits> inputs = float_inputs(DType::kF64);
    const auto got = ExprEvaluator(expr, std::span(&x, 1)).run(std::span(&inputs, 1));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double expected = row.reference(std::bit_cast<double>(inputs[i]));
      if (std::isnan(expected)) continue;
      ASSERT_EQ(got[i], std::bit_cast<uint64_t>(expected)) << op_name(row.op);
    }
  }
}

TEST(DecomposeExact, FusedMultiplyAddThroughDoubles) {
  const std::array<Node, 3> inputs{unknown(0, DType::kF32), unknown(1, DType::kF32),
                                   unknown(2, DType::kF32)};
  const Node expr = decompose_expr(make_expr(Op::kFma, inputs), baseline_target());
  std::vector<std::vector<ScalarBits>> columns(3);
  std::mt19937_64 generator(3);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  const auto add_row = [&](uint32_t a, uint32_t b, uint32_t c) {
    columns[0].push_back(a);
    columns[1].push_back(b);
    columns[2].push_back(c);
  };
  for (int i = 0; i < 300000; ++i) {
    add_row(random(), random(), random());
    // Sums near ties: a product of nearby exponents and an addend some 24 bits away.
    const uint32_t a = 0x3f800000U + random() % 0x1000000U;
    const uint32_t b = 0x3f800000U + (random() % 0x1000U << 12);
    add_row(a, b, 0x33000000U + random() % 0x20000000U + (random() & 0x80000000U));
  }
  const uint32_t specials[] = {0,           0x80000000U, 0x7f800000U, 0xff800000U,
                               0x7fc00000U, 1,           0x80000001U, 0x7f7fffffU,
                               0x00800000U, 0x3f800000U, 0xbf800000U, 0x3f800001U};
  for (uint32_t a : specials) {
    for (uint32_t b : specials) {
      for (uint32_t c : specials)
        add_row(a, b, c);
    }
  }
  const auto got = ExprEvaluator(expr, inputs).run(columns);
  for (size_t i = 0; i < got.size(); ++i) {
    const auto value = [&](size_t column) {
      return std::bit_cast<float>(static_cast<uint32_t>(columns[column][i]));
    };
    const float expected = std::fma(value(0), value(1), value(2));
    if (std::isnan(expected)) {
      ASSERT_TRUE(is_nan_bits(DType::kF32, got[i]));
    } else {
      ASSERT_EQ(got[i], std::bit_cast<uint32_t>(expected))
          << std::hexfloat << value(0) << " " << value(1) << " " << value(2);
    }
  }
}

// --- what remains -------------------------------------------------------------------------------

TEST(DecomposeExact, OnlyOpsOfTheTargetRemain) {
  Target bare_target = baseline_target();
  bare_target.native_ops = {};
  for (const Target& target : {bare_target, baseline_target(), avx512_target()}) {
    for (const OpInfo& info : all_ops()) {
      if (!is_elementwise(info.op) || !has_level(info.op, kKernelLevel) || info.op == Op::kCast ||
          info.op == Op::kBitcast) {
        continue;
      }
      for (DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kU8}) {
        std::vector<Node> srcs;
        for (int i = 0; i < info.arity; ++i)
          srcs.push_back(unknown(i, info.op == Op::kWhere && i == 0 ? DType::kBool : dtype));
        if (why_not_expr(info.op, srcs) || !supports(target, info.op, dtype)) continue;
        const Node expr = decompose_expr(make_expr(info.op, srcs), target);
        for (const Node& node : topological_order(std::span(&expr, 1))) {
          EXPECT_TRUE(has_level(node.op(), kLinearLevel)) << op_name(info.op) << op_name(node.op());
          const bool is_optional =
              node.op() == Op::kTrunc || node.op() == Op::kFma || node.op() == Op::kSqrt;
          EXPECT_TRUE(!is_optional || target.is_native(node.op())) << op_name(info.op);
          EXPECT_FALSE(is_bounded_class(node.op())) << op_name(info.op);
        }
      }
    }
  }
}

TEST(DecomposeExact, NativeOpsStay) {
  Target target = avx512_target();
  target.native_ops.push_back(Op::kExp2);
  const Node expr = make_expr(Op::kExp2, unknown(0, DType::kF32));
  EXPECT_TRUE(decompose_expr(expr, target) == expr);
  const Node whole = make_expr(Op::kTrunc, unknown(0, DType::kF32));
  EXPECT_TRUE(decompose_expr(whole, target) == whole);
  EXPECT_FALSE(decompose_expr(whole, baseline_target()) == whole);
}

TEST(DecomposeExact, IndexExpressionsStay) {
  const Node i = make_axis(0, 9, AxisKind::kPar);
  const Node expr = make_expr(Op::kFloorDiv, i, idx_const(4));
  EXPECT_TRUE(decompose_expr(expr, baseline_target()) == expr);
}

TEST(DecomposeExact, RefusesWithAReason) {
  const Node wide = make_expr(Op::kExp, unknown(0, DType::kF64));
  EXPECT_ERROR(decompose_expr(wide, baseline_target()), ErrorCode::kUnsupported, "exp", "float64");
  Target small = baseline_target();
  small.arithmetic = {};
  small.arithmetic.add(DType::kF32);
  small.arithmetic.add(DType::kI32);
  small.arithmetic.add(DType::kU32);
  EXPECT_FALSE(supports(small, Op::kSin, DType::kF32));
  EXPECT_TRUE(supports(small, Op::kExp, DType::kF32));
  EXPECT_FALSE(supports(small, Op::kFma, DType::kF32));
  EXPECT_FALSE(supports(baseline_target(), Op::kFma, DType::kF64));
  small.native_ops = {};
  EXPECT_TRUE(supports(small, Op::kSqrt, DType::kF32));
  EXPECT_FALSE(supports(small, Op::kSqrt, DType::kF64));
}

}  // namespace
}  // namespace tenon
