// The rules together, in the order in which codegen runs them: dtypes lowered, ops decomposed,
// folded. SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/rules/decompose.h"
#include "tenon/rules/fold.h"
#include "tenon/rules/lower_dtypes.h"
#include "tenon/rules/simplify_index.h"
#include "tests/rules/expr_evaluator.h"
#include "tests/rules/test_targets.h"

namespace tenon {
namespace {

Node lower(const Node& root, const Target& target) {
  DTypeLowering lowering(target);
  return fold_expr(decompose_expr(fold_expr(lowering.run_to_storage(root)), target));
}

// Steps between two numbers of a narrow dtype; equal NaNs are 0 apart.
int64_t steps_apart(ScalarBits a, ScalarBits b, DType dtype) {
  const double x = float_to_double(a, dtype);
  const double y = float_to_double(b, dtype);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y) ? 0 : INT64_MAX;
  const auto place = [&](ScalarBits bits) {
    const auto sign = ScalarBits{1} << (dtype_bits(dtype) - 1);
    const auto size = static_cast<int64_t>(bits & (sign - 1));
    return (bits & sign) != 0 ? -size : size;
  };
  return std::abs(place(a) - place(b));
}

TEST(RulesPipeline, BoundedOpsOnNarrowFloatsAreAtMostOneStepOff) {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF8E5M2, DType::kF8E4M3}) {
    for (const Target& target : {baseline_target(), avx512_target()}) {
      for (Op op : {Op::kExp, Op::kExp2, Op::kLog, Op::kLog2, Op::kSin, Op::kCos, Op::kTan,
                    Op::kTanh, Op::kSigmoid}) {
        const Node expr = lower(make_expr(op, unknown(0, dtype)), target);
        const Node input = unknown(0, storage_dtype(dtype, target));
        std::vector<ScalarBits> values;
        // All patterns once, without fused sums; a part of them with.
        const uint64_t step = target.fuses_mulacc && dtype_bits(dtype) == 16 ? 13 : 1;
        for (uint64_t bits = 0; bits < uint64_t{1} << dtype_bits(dtype); bits += step)
          values.push_back(bits);
        const ExprEvaluator evaluator(expr, std::span(&input, 1), target.fuses_mulacc);
        const std::vector<ScalarBits> got = evaluator.run(std::span(&values, 1));
        for (size_t i = 0; i < values.size(); ++i) {
          const ScalarBits expected = eval_op(op, dtype, std::span(&values[i], 1));
          ASSERT_LE(steps_apart(got[i], expected, dtype), 1)
              << op_name(op) << " " << dtype_name(dtype) << " "
              << float_to_double(values[i], dtype);
        }
      }
    }
  }
}

TEST(RulesPipeline, FoldingKeepsTheBitsOfDecompositions) {
  const Node x = unknown(0, DType::kF32);
  std::vector<ScalarBits> values;
  for (uint64_t i = 0; i < 100000; ++i)
    values.push_back(i * 42949 & 0xffffffffU);
  for (const OpInfo& info : all_ops()) {
    if (info.op_class != OpClass::kUnary || !has_level(info.op, kKernelLevel)) continue;
    if (why_not_expr(info.op, std::span(&x, 1))) continue;
    const Node expr = decompose_expr(make_expr(info.op, x), baseline_target());
    const Node folded = fold_expr(expr);
    EXPECT_LE(count_ops(folded), count_ops(expr));
    EXPECT_EQ(ExprEvaluator(expr, std::span(&x, 1)).run(std::span(&values, 1)),
              ExprEvaluator(folded, std::span(&x, 1)).run(std::span(&values, 1)))
        << op_name(info.op);
  }
}

// Nodes after decomposition are instructions of every instance: a rise must be a decision.
TEST(RulesPipeline, DecompositionsStaySmall) {
  const auto ops_of = [](Op op) {
    const Node expr = make_expr(op, unknown(0, DType::kF32));
    return count_ops(fold_expr(decompose_expr(expr, avx512_target())));
  };
  EXPECT_LE(ops_of(Op::kExp), 26);
  EXPECT_LE(ops_of(Op::kExp2), 24);
  EXPECT_LE(ops_of(Op::kLog), 32);
  EXPECT_LE(ops_of(Op::kLog2), 30);
  EXPECT_LE(ops_of(Op::kSigmoid), 31);
  EXPECT_LE(ops_of(Op::kTanh), 38);
  EXPECT_LE(ops_of(Op::kSin), 63);
  EXPECT_LE(ops_of(Op::kTan), 64);
  EXPECT_LE(ops_of(Op::kFloor), 4);
  EXPECT_LE(ops_of(Op::kNeg), 1);
}

// Chains as users build them in loops: no deep stack anywhere.
TEST(RulesPipeline, LongChainsAreWalkedIteratively) {
  constexpr int kLength = 100000;
  const Node x = unknown(0, DType::kF16);
  Node sum = x;
  for (int i = 0; i < kLength; ++i)
    sum = make_expr(i % 2 == 0 ? Op::kAdd : Op::kMax, sum, x);
  const Node lowered = lower(sum, baseline_target());
  EXPECT_EQ(lowered.dtype(), DType::kU16);
  EXPECT_GT(count_ops(lowered), kLength);

  const Node i = make_axis(0, 7, AxisKind::kPar);
  Node index = i;
  for (int step = 0; step < kLength; ++step)
    index = make_expr(step % 2 == 0 ? Op::kAdd : Op::kSub, index, idx_const(step % 5));
  const Node simplified = simplify_index(index);
  EXPECT_EQ(bounds(simplified).max - bounds(simplified).min, 6);
}

}  // namespace
}  // namespace tenon
