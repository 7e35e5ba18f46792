// The oracle against values from outside: tables of exact rational arithmetic and NumPy
// (make_oracle_tables.py), and small cases worked out by hand. SPDX-License-Identifier: MIT

#include "tenon/conform/oracle.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "tenon/conform/oracle_numeric.h"
#include "tenon/ir/tensor_ops.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using Bits = std::vector<uint64_t>;
using List = std::vector<int64_t>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Bits floats(std::initializer_list<float> values) {
  Bits bits;
  for (float value : values)
    bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// A graph under construction with the data of its buffers.
class Program {
 public:
  Node input(DType dtype, const Shape& shape, const Bits& bits) {
    OracleValue value{dtype, shape, bits, {}, {}};
    buffers_.push_back(tensor_buffer(dtype, shape));
    data_.push_back(to_bytes(value));
    return buffers_.back();
  }
  Node input(const Shape& shape, std::initializer_list<float> values) {
    return input(DType::kF32, shape, floats(values));
  }
  /// 0, 1, 2, ... of i32.
  Node iota(const Shape& shape) {
    Bits bits(static_cast<size_t>(num_elements(shape)));
    for (size_t i = 0; i < bits.size(); ++i)
      bits[i] = i;
    return input(DType::kI32, shape, bits);
  }
  OracleValue run(const Node& output) const {
    return evaluate_oracle({&output, 1}, bind_inputs(buffers_, data_))[0];
  }

 private:
  std::vector<Node> buffers_;
  std::vector<std::vector<std::byte>> data_;
};

Comparison compare_bits(const OracleValue& expected, const Bits& got) {
  return compare(expected, to_bytes(OracleValue{expected.dtype, expected.shape, got, {}, {}}));
}

void expect_exactly(const OracleValue& value, const Bits& bits) {
  ASSERT_EQ(value.bits.size(), bits.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(value.radius_at(i), 0) << i;
    EXPECT_FALSE(value.is_excluded(i)) << i;
  }
  const Comparison comparison = compare_bits(value, bits);
  EXPECT_EQ(comparison.failed, 0) << comparison.text;
  EXPECT_EQ(comparison.compared, static_cast<int64_t>(bits.size()));
}

class Tables {
 public:
  Tables() {
    std::ifstream file(TENON_SOURCE_DIR "/tests/conform/oracle_tables.txt");
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      Row row;
      words >> row.kind;
      const bool is_grid = row.kind == "grid" || row.kind == "points";
      if (!is_grid) words >> row.op;
      words >> row.dtype;
      uint64_t bits = 0;
      while (words >> std::hex >> bits)
        row.bits.push_back(bits);
      if (is_grid) {
        (row.kind == "grid" ? grids : points)[row.dtype] = row.bits;
      } else {
        rows.push_back(row);
      }
    }
  }
  struct Row {
    std::string kind, op, dtype;
    Bits bits;
  };
  std::vector<Row> rows;
  std::map<std::string, Bits> grids, points;
};

// Bits of a table in canonical form.
Bits canonical(DType dtype, Bits bits) {
  for (uint64_t& b : bits)
    b = detail::oracle_canonical(dtype, b);
  return bits;
}

TEST(OracleTables, ElementwiseOpsOnGridsOfSpecialValues) {
  const Tables tables;
  int num_rows = 0;
  for (const Tables::Row& row : tables.rows) {
    if (row.kind != "unary" && row.kind != "binary") continue;
    SCOPED_TRACE(row.op + " " + row.dtype);
    const DType dtype = find_dtype(row.dtype).value();
    const Op op = find_op(row.op, kTensorLevel).value();
    const Bits& grid = tables.grids.at(row.dtype);
    Program program;
    const auto size = static_cast<int64_t>(grid.size());
    Node x = program.input(dtype, {size, 1}, grid);
    Node y = program.input(dtype, {1, size}, grid);
    const Shape shape{size, size};
    const Node out = row.kind == "unary"
                         ? tensor_unary(op, x)
                         : tensor_binary(op, tensor_expand(x, shape), tensor_expand(y, shape));
    expect_exactly(program.run(out), canonical(out.dtype(), row.bits));
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 213 + 85);
}

TEST(OracleTables, CastsBetweenAllDTypes) {
  const Tables tables;
  int num_rows = 0;
  for (const Tables::Row& row : tables.rows) {
    if (row.kind != "cast") continue;
    SCOPED_TRACE(row.op + " to " + row.dtype);
    const DType from = find_dtype(row.op).value();
    const DType to = find_dtype(row.dtype).value();
    const Bits& grid = tables.grids.at(row.op);
    Program program;
    const Node x = program.input(from, {static_cast<int64_t>(grid.size())}, grid);
    expect_exactly(program.run(tensor_cast(x, to)), canonical(to, row.bits));
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 15 * 15);
}

TEST(OracleTables, BoundedOpsAreNearNumPyAndSayHowFarADeviceMayBe) {
  const Tables tables;
  int num_rows = 0;
  for (const Tables::Row& row : tables.rows) {
    if (row.kind != "bounded") continue;
    SCOPED_TRACE(row.op);
    Bits points = tables.points.at("f32");
    if (row.op == "log" || row.op == "log2") {
      for (uint64_t& bits : points)
        bits &= 0x7fffffff;
    }
    Program program;
    const Node x = program.input(DType::kF32, {10}, points);
    const OracleValue value = program.run(tensor_unary(*find_op(row.op, kTensorLevel), x));
    const double bound = row.op == "tan"                           ? 4
                         : row.op == "tanh" || row.op == "sigmoid" ? 3
                         : row.op == "sin" || row.op == "cos"      ? 2
                                                                   : 1.5;
    for (size_t i = 0; i < points.size(); ++i) {
      const double got = detail::oracle_value(DType::kF32, value.bits[i]);
      const double wanted = detail::oracle_value(DType::kF32, row.bits[i]);
      const double ulp = detail::oracle_ulp(DType::kF32, wanted);
      EXPECT_LE(std::fabs(got - wanted), ulp);
      EXPECT_GE(value.radius[i], bound / 2 * ulp);  // just below a power of two
      EXPECT_LE(value.radius[i], (bound + 1) * ulp);
    }
    EXPECT_EQ(compare_bits(value, row.bits).failed, 0);
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 9);
}

TEST(Oracle, SpecialValuesOfBoundedOpsAreExact) {
  Program program;
  const Node x = program.input({5}, {0.0F, -0.0F, kInf, -kInf, kNan});
  const auto run = [&](Op op) { return program.run(tensor_unary(op, x)); };
  expect_exactly(run(Op::kSin), floats({0.0F, -0.0F, kNan, kNan, kNan}));
  expect_exactly(run(Op::kTanh), floats({0.0F, -0.0F, 1, -1, kNan}));
  expect_exactly(run(Op::kLog2), floats({-kInf, -kInf, kInf, kNan, kNan}));
  const Node big = program.input({4}, {kInf, -kInf, 300, kNan});
  expect_exactly(program.run(tensor_unary(Op::kExp2, big)), floats({kInf, 0, kInf, kNan}));
  expect_exactly(program.run(tensor_unary(Op::kSigmoid, program.input({2}, {kInf, -kInf}))),
                 floats({1, 0}));
}

TEST(Oracle, LeavesHaveTheirValues) {
  Program program;
  expect_exactly(program.run(tensor_const(DType::kI8, ~uint64_t{4})), {~uint64_t{4}});
  expect_exactly(program.run(tensor_index(DType::kU8, Shape{2, 3}, 1)), {0, 1, 2, 0, 1, 2});
  expect_exactly(program.run(tensor_index(DType::kI32, Shape{2, 3}, 0)), {0, 0, 0, 1, 1, 1});
  expect_exactly(program.run(tensor_index(DType::kI32, Shape{0, 3}, 0)), {});
  const Node variable = tensor_variable(3, -2, 9);
  OracleInputs inputs;
  inputs.variable = [](const Node&) { return int64_t{-2}; };
  EXPECT_EQ(evaluate_oracle({&variable, 1}, inputs)[0].bits, (Bits{~uint64_t{1}}));
  inputs.variable = [](const Node&) { return int64_t{10}; };
  EXPECT_ERROR(evaluate_oracle({&variable, 1}, inputs), ErrorCode::kInvalidArgument, "variable 3",
               "-2 to 9");
  EXPECT_ERROR(program.run(variable), ErrorCode::kInvalidArgument, "variable 3", "no values");
}

TEST(Oracle, MovementByHand) {
  Program program;
  const Node x = program.iota({2, 3});
  expect_exactly(program.run(tensor_reshape(x, Shape{3, 2})), {0, 1, 2, 3, 4, 5});
  expect_exactly(program.run(tensor_permute(x, List{1, 0})), {0, 3, 1, 4, 2, 5});
  expect_exactly(program.run(tensor_flip(x, List{0, 1})), {2, 1, 0, 5, 4, 3});
  expect_exactly(program.run(tensor_flip(x, List{1, 1})), {5, 4, 3, 2, 1, 0});
  expect_exactly(program.run(tensor_shrink(x, List{1, 1}, List{2, 3})), {4, 5});
  expect_exactly(program.run(tensor_shrink(x, List{1, 1}, List{1, 3})), {});
  expect_exactly(program.run(tensor_pad(x, List{0, 1}, List{1, 0}, 9)),
                 {9, 0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9});
  expect_exactly(program.run(tensor_pad(program.iota({0, 2}), List{1, 0}, List{0, 0}, 7)), {7, 7});
  expect_exactly(program.run(tensor_pad(program.iota({}), {}, {}, 7)), {0});
  const Node column = program.iota({2, 1});
  expect_exactly(program.run(tensor_expand(column, Shape{2, 3})), {0, 0, 0, 1, 1, 1});
  // Windows of 2 with step 2 and dilation 3 over 0..6: positions 0 and 2.
  expect_exactly(program.run(tensor_window(program.iota({7}), 0, 2, 2, 3)), {0, 3, 2, 5});
  // Over the first axis of (3,2): the window axis goes last.
  expect_exactly(program.run(tensor_window(program.iota({3, 2}), 0, 2, 1, 1)),
                 {0, 2, 1, 3, 2, 4, 3, 5});
  // A permute of rank 3: out[i,j,k] = x[k,i,j] of shape (3,4,2).
  const OracleValue moved = program.run(tensor_permute(program.iota({2, 3, 4}), List{1, 2, 0}));
  for (uint64_t i = 0; i < 24; ++i)
    EXPECT_EQ(moved.bits[i], i % 2 * 12 + i / 8 * 4 + i / 2 % 4);
}

TEST(Oracle, StructureKeepsValuesAndAssignReadsFirst) {
  Program program;
  const Node x = program.iota({3});
  const Node written = tensor_assign(x, tensor_binary(Op::kAdd, x, tensor_flip(x, List{1})));
  expect_exactly(program.run(written), {2, 2, 2});
  expect_exactly(program.run(tensor_binary(Op::kAdd, x, written)), {2, 3, 4});
  expect_exactly(program.run(tensor_copy(tensor_contiguous(x), 1)), {0, 1, 2});
}

TEST(Oracle, WhereSelectsAndNeverMixes) {
  Program program;
  const Node condition = program.input(DType::kBool, {3}, {1, 0, 1});
  const Node a = program.input({3}, {1, kNan, -0.0F});
  const Node b = program.input({3}, {kInf, 2, 3});
  expect_exactly(program.run(tensor_where(condition, a, b)), floats({1, 2, -0.0F}));
}

TEST(Oracle, BitcastKeepsBits) {
  Program program;
  const Node x = program.input(DType::kF32, {3}, {0xffc00001, 0x80000000, 0x3f800000});
  expect_exactly(program.run(tensor_bitcast(x, DType::kI32)),
                 {0xffffffffffc00001, 0xffffffff80000000, 0x3f800000});
  // The payload of a computed NaN is not specified.
  const OracleValue sum = program.run(tensor_bitcast(tensor_binary(Op::kAdd, x, x), DType::kU32));
  EXPECT_TRUE(sum.is_excluded(0));
  EXPECT_FALSE(sum.is_excluded(1));
  EXPECT_EQ(sum.bits[2], 0x40000000U);
}

TEST(OracleReduce, IntegersWrapInTheirAccumulator) {
  Program program;
  const Node x = program.input(DType::kI8, {2, 3}, {100, 100, 1, 2, ~uint64_t{2}, 5});
  const auto run = [&](Op op, List axes, DType accumulator) {
    return program.run(tensor_reduce(op, x, axes, accumulator));
  };
  expect_exactly(run(Op::kAdd, {1}, DType::kI8), {static_cast<uint64_t>(201 - 256), 4});
  expect_exactly(run(Op::kAdd, {1}, DType::kI32), {static_cast<uint64_t>(201 - 256), 4});
  expect_exactly(run(Op::kMul, {0}, DType::kI8),
                 {static_cast<uint64_t>(200 - 256), static_cast<uint64_t>(-300 + 256), 5});
  expect_exactly(run(Op::kMin, {0, 1}, DType::kI8), {~uint64_t{2}});
  expect_exactly(run(Op::kMax, {0, 1}, DType::kI32), {100});
  expect_exactly(run(Op::kAnd, {1}, DType::kI8), {0, 0});
  expect_exactly(run(Op::kOr, {1}, DType::kI8), {101, ~uint64_t{0}});
  const Node b = program.input(DType::kBool, {2, 2}, {1, 0, 1, 1});
  expect_exactly(program.run(tensor_reduce(Op::kAnd, b, List{1}, DType::kBool)), {0, 1});
  expect_exactly(program.run(tensor_reduce(Op::kMax, b, List{0}, DType::kBool)), {1, 1});
}

TEST(OracleReduce, EmptyReductionsGiveTheIdentity) {
  Program program;
  const Node f = program.input(DType::kF32, {2, 0}, {});
  const auto run = [&](Op op, const Node& x) {
    return program.run(tensor_reduce(op, x, List{1}, x.dtype()));
  };
  expect_exactly(run(Op::kAdd, f), floats({0, 0}));
  expect_exactly(run(Op::kMul, f), floats({1, 1}));
  expect_exactly(run(Op::kMax, f), floats({-kInf, -kInf}));
  expect_exactly(run(Op::kMin, f), floats({kInf, kInf}));
  const Node i = program.input(DType::kI8, {1, 0}, {});
  expect_exactly(run(Op::kMax, i), {static_cast<uint64_t>(-128)});
  expect_exactly(run(Op::kMin, i), {127});
  expect_exactly(run(Op::kAnd, i), {~uint64_t{0}});
  const Node u = program.input(DType::kU16, {1, 0}, {});
  expect_exactly(run(Op::kMin, u), {65535});
  expect_exactly(run(Op::kAnd, program.input(DType::kBool, {1, 0}, {})), {1});
  expect_exactly(program.run(tensor_reduce(Op::kAdd, program.input(DType::kF32, {0, 3}, {}),
                                           List{1}, DType::kF32)),
                 {});
}

TEST(OracleReduce, FloatSpecialValues) {
  Program program;
  const Node x =
      program.input({4, 3}, {1, kNan, 2, kInf, -kInf, 1, -0.0F, -0.0F, -0.0F, kInf, 5, -3});
  const auto run = [&](Op op) { return program.run(tensor_reduce(op, x, List{1}, DType::kF32)); };
  expect_exactly(run(Op::kAdd), floats({kNan, kNan, 0.0F, kInf}));
  expect_exactly(run(Op::kMul), floats({kNan, -kInf, -0.0F, -kInf}));
  expect_exactly(run(Op::kMax), floats({kNan, kInf, -0.0F, kInf}));
  expect_exactly(run(Op::kMin), floats({kNan, -kInf, -0.0F, -3}));
  const Node zeros = program.input({2, 2}, {0.0F, -0.0F, -0.0F, 0.0F});
  expect_exactly(program.run(tensor_reduce(Op::kMax, zeros, List{1}, DType::kF32)),
                 floats({0.0F, 0.0F}));
  expect_exactly(program.run(tensor_reduce(Op::kMin, zeros, List{1}, DType::kF32)),
                 floats({-0.0F, -0.0F}));
  const Node zero_inf = program.input({2}, {0, kInf});
  expect_exactly(program.run(tensor_reduce(Op::kMul, zero_inf, List{0}, DType::kF32)),
                 floats({kNan}));
}

TEST(OracleReduce, WiderAccumulatorsRoundOnceAtTheEnd) {
  Program program;
  // 2048 + 1 + 1 in f16: each step alone would round back to 2048.
  const Node x = program.input(DType::kF16, {3}, {0x6800, 0x3c00, 0x3c00});
  expect_exactly(program.run(tensor_reduce(Op::kAdd, x, List{0}, DType::kF32)), {0x6801});
}

TEST(OracleReduce, SmallIntegersInFloatsAreExactInAnyOrder) {
  Program program;
  Bits bits;
  for (int i = 0; i < 1000; ++i)
    bits.push_back(std::bit_cast<uint32_t>(static_cast<float>(i % 37 - 18)));
  double sum = 0;
  for (uint64_t b : bits)
    sum += detail::oracle_value(DType::kF32, b);
  const Node x = program.input(DType::kF32, {1000}, bits);
  expect_exactly(program.run(tensor_reduce(Op::kAdd, x, List{0}, DType::kF32)),
                 floats({static_cast<float>(sum)}));
  const Node powers = program.input({4}, {2, 0.5F, -3, 8});
  expect_exactly(program.run(tensor_reduce(Op::kMul, powers, List{0}, DType::kF32)), floats({-24}));
}

}  // namespace
}  // namespace tenon
