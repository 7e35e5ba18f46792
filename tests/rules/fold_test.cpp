// Fold rules: what the law allows and what it forbids, and random expressions of every dtype
// compared with their folded form, over all values of 8-bit dtypes and a grid of special values of
// the others. SPDX-License-Identifier: MIT
#include "tenon/rules/fold.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tests/rules/expr_evaluator.h"

namespace tenon {
namespace {

Node op(Op kind, const Node& a, const Node& b) {
  return make_expr(kind, a, b);
}
Node number(DType dtype, double value) {
  return number_const(dtype, value);
}

void expect_folds(const Node& from, const Node& to, const std::string& what) {
  EXPECT_TRUE(fold_expr(from) == to) << what;
}

TEST(Fold, FloatsKeepEveryBit) {
  for (DType dtype : {DType::kF16, DType::kF32, DType::kF64, DType::kF8E4M3}) {
    const Node x = unknown(0, dtype);
    const Node y = unknown(1, dtype);
    const Node zero = number(dtype, 0);
    const Node minus_zero = number(dtype, -0.0);
    for (const Node& kept :
         {op(Op::kMul, x, zero), op(Op::kDiv, x, x), op(Op::kSub, x, x), op(Op::kAdd, x, zero),
          op(Op::kSub, x, minus_zero), op(Op::kEq, x, x), op(Op::kLe, x, x),
          make_expr(Op::kNot, op(Op::kLt, x, y)), op(Op::kAdd, op(Op::kAdd, x, y), y),
          op(Op::kAdd, op(Op::kAdd, x, number(dtype, 1)), number(dtype, 2))}) {
      expect_folds(kept, kept, std::string(op_name(kept.op())));
    }
    expect_folds(op(Op::kAdd, x, minus_zero), x, "x + -0");
    expect_folds(op(Op::kAdd, minus_zero, x), x, "-0 + x");
    expect_folds(op(Op::kSub, x, zero), x, "x - 0");
    expect_folds(op(Op::kMul, x, number(dtype, 1)), x, "x * 1");
    expect_folds(op(Op::kDiv, x, number(dtype, 1)), x, "x / 1");
    expect_folds(op(Op::kDiv, x, number(dtype, 4)), op(Op::kMul, x, number(dtype, 0.25)), "x / 4");
    expect_folds(op(Op::kDiv, x, number(dtype, 3)), op(Op::kDiv, x, number(dtype, 3)), "x / 3");
    expect_folds(op(Op::kLt, x, x), bits_const(DType::kBool, 0), "x < x");
    expect_folds(op(Op::kMax, x, x), x, "max(x, x)");
  }
}

TEST(Fold, IntegersFoldWhatIsProven) {
  const DType dtype = DType::kI32;
  const Node x = unknown(0, dtype);
  const Node zero = number(dtype, 0);
  const Node positive = op(Op::kMax, x, number(dtype, 1));
  expect_folds(op(Op::kDiv, x, x), op(Op::kDiv, x, x), "x / x may be 0 / 0");
  expect_folds(op(Op::kDiv, positive, positive), number(dtype, 1), "x / x, x > 0");
  expect_folds(op(Op::kMod, x, x), zero, "x % x");
  expect_folds(op(Op::kDiv, x, zero), zero, "x / 0");
  expect_folds(op(Op::kAdd, op(Op::kAdd, x, number(dtype, 3)), number(dtype, -3)), x, "x + 3 - 3");
  expect_folds(op(Op::kLt, x, int_const(dtype, INT32_MIN)), bits_const(DType::kBool, 0), "x < min");
  expect_folds(op(Op::kLt, unknown(0, DType::kU8), bits_const(DType::kU8, 0)),
               bits_const(DType::kBool, 0), "u8 < 0");
}

TEST(Fold, ConstantsAreComputedButBoundedOnesWait) {
  const Node two = number(DType::kF32, 2);
  expect_folds(make_expr(Op::kSqrt, number(DType::kF32, 9)), number(DType::kF32, 3), "sqrt");
  expect_folds(make_cast(number(DType::kF32, 300), DType::kU8), bits_const(DType::kU8, 255),
               "cast");
  expect_folds(make_expr(Op::kExp, two), make_expr(Op::kExp, two), "exp");
  expect_folds(make_expr(Op::kMulAcc, two, two, two), make_expr(Op::kMulAcc, two, two, two),
               "mulacc");
  expect_folds(make_expr(Op::kFma, two, two, two), number(DType::kF32, 6), "fma");
}

TEST(Fold, CastChainsFoldOnlyWhenExact) {
  const auto chain = [](DType from, DType middle, DType to) {
    return make_cast(make_cast(unknown(0, from), middle), to);
  };
  expect_folds(chain(DType::kI8, DType::kF32, DType::kF64),
               make_cast(unknown(0, DType::kI8), DType::kF64), "widening");
  expect_folds(chain(DType::kBF16, DType::kF32, DType::kBF16), unknown(0, DType::kBF16),
               "round trip");
  expect_folds(chain(DType::kI64, DType::kI32, DType::kI8),
               make_cast(unknown(0, DType::kI64), DType::kI8), "wrapping");
  for (const auto& [from, middle, to] : {std::array{DType::kF32, DType::kF16, DType::kF32},
                                         {DType::kF64, DType::kF32, DType::kF16},
                                         {DType::kI32, DType::kF32, DType::kI32},
                                         {DType::kI32, DType::kI8, DType::kI32},
                                         {DType::kF16, DType::kF32, DType::kF64},
                                         {DType::kBool, DType::kF32, DType::kF16}}) {
    const Node kept = chain(from, middle, to);
    expect_folds(kept, kept, "inexact, or no cast that hardware has");
  }
}

// --- random expressions -------------------------------------------------------------------------

// One that 8 bits hold, one that they do not.
Node position(size_t number) {
  return make_axis(static_cast<int64_t>(number), number == 0 ? 100 : 300, AxisKind::kPar);
}

constexpr DType kDTypes[] = {DType::kBool, DType::kI8,     DType::kU8,    DType::kI32,
                             DType::kU64,  DType::kI64,    DType::kF32,   DType::kF16,
                             DType::kF64,  DType::kF8E4M3, DType::kF8E5M2};

std::vector<ScalarBits> values_of(DType dtype) {
  std::vector<ScalarBits> values;
  if (dtype == DType::kBool) return {0, 1};
  if (dtype_bits(dtype) == 8) {
    for (uint64_t bits = 0; bits < 256; ++bits)
      values.push_back(canonical_bits(dtype, bits));
    return values;
  }
  for (double value :
       {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -7.25, 100.0, 65504.0, 1e-7, 1e30, -1e300,
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    values.push_back(eval_cast(std::bit_cast<uint64_t>(value), DType::kF64, dtype));
  }
  for (uint64_t bits :
       {uint64_t{1}, uint64_t{2}, ~uint64_t{0}, ~uint64_t{0} - 1,
        uint64_t{1} << (dtype_bits(dtype) - 1), (uint64_t{1} << (dtype_bits(dtype) - 1)) - 1}) {
    values.push_back(canonical_bits(dtype, bits));
  }
  return values;
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Node expr(DType dtype, int depth) {
    if (depth == 0) return leaf(dtype);
    const size_t kind = below(12);
    if (kind == 0) return leaf(dtype);
    if (kind == 1)
      return make_expr(Op::kWhere, expr(DType::kBool, depth - 1), expr(dtype, depth - 1),
                       repeat(dtype, depth));
    if (kind == 2) return conversion(dtype, depth);
    if (dtype == DType::kBool && kind < 6) return comparison(depth);
    for (int attempt = 0; attempt < 100; ++attempt) {
      const OpInfo& info = all_ops()[below(all_ops().size())];
      const bool gives_other = info.rule == DTypeRule::kCompare || info.rule == DTypeRule::kTest ||
                               info.rule == DTypeRule::kWhere || info.op == Op::kMulAcc;
      if (!is_elementwise(info.op) || gives_other || is_bounded_class(info.op)) continue;
      std::vector<Node> srcs;
      for (int i = 0; i < info.arity; ++i)
        srcs.push_back(i > 0 ? repeat(dtype, depth) : expr(dtype, depth - 1));
      if (!why_not_expr(info.op, srcs) && is_defined(info.op, dtype)) {
        last_ = make_expr(info.op, srcs);
        return last_;
      }
    }
    return leaf(dtype);
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }

  // Arithmetic on bool is not a kernel's: comparisons, logic and selection are.
  static bool is_defined(Op kind, DType dtype) {
    return dtype != DType::kBool || kind == Op::kAnd || kind == Op::kOr || kind == Op::kXor ||
           kind == Op::kNot || kind == Op::kMin || kind == Op::kMax;
  }
  Node leaf(DType dtype) {
    if (is_int(dtype) && below(6) == 0) return make_cast(position(below(2)), dtype);
    if (below(2) == 0) return unknown(static_cast<int>(below(2)), dtype);
    const std::vector<ScalarBits> values = values_of(dtype);
    if (below(2) == 0) return bits_const(dtype, values[below(values.size())]);
    if (dtype == DType::kBool) return bits_const(dtype, below(2));
    return number(dtype, std::array{0.0, -0.0, 1.0, 2.0, -1.0, 0.5, 4.0}[below(7)]);
  }
  // Often what stood before, so that operands are equal.
  Node repeat(DType dtype, int depth) {
    if (last_ && last_.dtype() == dtype && below(2) == 0) return last_;
    return last_ = expr(dtype, depth - 1);
  }
  Node comparison(int depth) {
    constexpr Op kOps[] = {Op::kLt, Op::kLe, Op::kEq, Op::kNe};
    const DType dtype = kDTypes[below(std::size(kDTypes))];
    const Node a = expr(dtype, depth - 1);
    return op(kOps[below(4)], a, below(4) == 0 ? a : repeat(dtype, depth));
  }
  Node conversion(DType dtype, int depth) {
    const DType from = kDTypes[below(std::size(kDTypes))];
    const bool same_width =
        dtype_bits(from) == dtype_bits(dtype) && (from == DType::kBool) == (dtype == DType::kBool);
    const Node source = expr(from, depth - 1);
    return same_width && below(2) == 0 ? make_bitcast(source, dtype) : make_cast(source, dtype);
  }

  std::mt19937_64 random_;
  Node last_;
};

std::map<std::string_view, int64_t>& fired() {
  static auto* counts = new std::map<std::string_view, int64_t>;
  return *counts;
}

bool is_same(DType dtype, ScalarBits a, ScalarBits b) {
  if (a == b) return true;
  return is_float(dtype) && std::isnan(float_to_double(a, dtype)) &&
         std::isnan(float_to_double(b, dtype));
}

// Whether the bits of a computed NaN may be seen: its sign and payload are not specified.
bool sees_computed_nan(const Node& root) {
  for (const Node& node : topological_order(std::span(&root, 1))) {
    if (node.op() != Op::kBitcast || !is_float(node.src(0).dtype())) continue;
    const Op source = node.src(0).op();
    if (source != Op::kLoad && source != Op::kConst && source != Op::kBitcast) return true;
  }
  return false;
}

// Values for both unknowns of every dtype: all of an 8-bit dtype for the first one.
struct Inputs {
  std::vector<Node> nodes;
  std::vector<std::vector<ScalarBits>> columns;
};

Inputs make_inputs() {
  constexpr size_t kNumRows = 256;
  Inputs inputs;
  std::mt19937_64 random(1);
  for (DType dtype : kDTypes) {
    const std::vector<ScalarBits> values = values_of(dtype);
    for (int buffer = 0; buffer < 2; ++buffer) {
      inputs.nodes.push_back(unknown(buffer, dtype));
      inputs.columns.emplace_back();
      for (size_t row = 0; row < kNumRows; ++row) {
        const size_t index = buffer == 0 ? row : random();
        inputs.columns.back().push_back(values[index % values.size()]);
      }
    }
  }
  for (const size_t number : {0U, 1U}) {
    inputs.nodes.push_back(position(number));
    inputs.columns.emplace_back();
    for (size_t row = 0; row < kNumRows; ++row)
      inputs.columns.back().push_back(number == 0 ? row % 100 : 299 - row);
  }
  return inputs;
}

std::string text(const Node& root) {
  std::map<uint64_t, std::string> words;
  for (const Node& node : topological_order(std::span(&root, 1))) {
    std::string word(dtype_name(node.dtype()));
    word += "." + std::string(op_name(node.op()));
    if (node.op() == Op::kLoad) word += std::to_string(node.attr(0));
    if (node.op() == Op::kAxis) word += std::to_string(axis_id(node));
    if (is_const(node)) word += std::to_string(const_bits(node));
    if (is_elementwise(node.op())) {
      word += "(";
      for (size_t i = 0; i < node.srcs().size(); ++i)
        word += (i == 0 ? "" : ", ") + words.at(node.src(i).serial());
      word += ")";
    }
    words[node.serial()] = word;
  }
  return words.at(root.serial());
}

void check(const Node& original, uint64_t seed) {
  static const Inputs inputs = make_inputs();
  Folder folder;
  folder.on_rule = [](std::string_view name) { ++fired()[name]; };
  const Node folded = folder.run(original);
  ASSERT_TRUE(fold_expr(folded) == folded) << "seed " << seed << ": not idempotent";
  ASSERT_LE(count_ops(folded), count_ops(original)) << "seed " << seed;
  const std::vector<ScalarBits> before =
      ExprEvaluator(original, inputs.nodes, false, true).run(inputs.columns);
  const std::vector<ScalarBits> after =
      ExprEvaluator(folded, inputs.nodes, false, true).run(inputs.columns);
  for (size_t row = 0; row < before.size(); ++row) {
    ASSERT_TRUE(is_same(original.dtype(), before[row], after[row]))
        << "seed " << seed << " row " << row << ": " << text(original) << " -> " << text(folded)
        << std::hex << ": " << before[row] << " became " << after[row];
  }
}

TEST(Fold, RandomExpressionsKeepTheirValues) {
  constexpr uint64_t kNumSeeds = 60000;
  int64_t checked = 0;
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    Generator generator(seed);
    const DType dtype = kDTypes[seed % std::size(kDTypes)];
    const Node expr = generator.expr(dtype, 1 + static_cast<int>(seed / 11 % 3));
    if (sees_computed_nan(expr)) continue;
    check(expr, seed);
    if (HasFatalFailure()) return;
    ++checked;
  }
  EXPECT_GT(checked, 30000);
  for (const FoldRule& rule : fold_rules())
    EXPECT_GT(fired()[rule.name], 0) << "no seed reached " << rule.name;
}

}  // namespace
}  // namespace tenon
