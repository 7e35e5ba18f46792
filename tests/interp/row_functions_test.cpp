// Row functions give the bits of eval_op: every op and dtype, at special values and at random ones,
// and elements survive memory. SPDX-License-Identifier: MIT

#include "tenon/interp/row_functions.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/eval_unit.h"
#include "tests/support/random.h"
#include "tests/support/special_values.h"

namespace tenon {
namespace {

using testing::Random;
using Words = std::vector<uint64_t>;

/// Special values of the dtype, and random bits of all exponents.
Words some_values(DType dtype, Random& random) {
  Words values = dtype == DType::kBool ? Words{0, 1} : testing::special_values(dtype);
  for (int i = 0; i < 40; ++i)
    values.push_back(canonical_bits(dtype, random.next()));
  return values;
}

/// Each of `a` with each of `b`, and with a third at random.
using Columns = std::array<Words, kMaxScalarOperands>;

Columns pairs_of(const Words& a, const Words& b, Random& random) {
  Columns columns;
  for (const uint64_t x : a) {
    for (const uint64_t y : b) {
      columns[0].push_back(x);
      columns[1].push_back(y);
      for (size_t i = 2; i < columns.size(); ++i)
        columns[i].push_back(random.pick_from(b));
    }
  }
  return columns;
}

/// The first difference between the row function and eval_row, or nothing.
std::string difference(const RowOp& op, const Columns& columns) {
  std::array<const uint64_t*, kMaxScalarOperands> src;
  for (size_t i = 0; i < src.size(); ++i)
    src[i] = columns[i].data();
  const size_t count = columns[0].size();
  Words want(count, 0xeeee);
  Words got(count, 0xdddd);
  eval_row(op, want.data(), src.data(), count);
  find_row_function(op)(op, got.data(), src.data(), count);
  for (size_t i = 0; i < count; ++i) {
    if (got[i] == want[i]) continue;
    return concat(op_name(op.op), " ", dtype_name(op.dtype), " to ", dtype_name(op.result), " of ",
                  columns[0][i], ", ", columns[1][i], ", ", columns[2][i], ": ", got[i],
                  ", expected ", want[i]);
  }
  return "";
}

bool is_defined(const RowOp& op) {
  const std::array<uint64_t, kMaxScalarOperands> zeros{};
  try {
    eval_op(op.op, op.dtype, {zeros.data(), op.num_args});
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(RowFunctions, GiveTheBitsOfEvalOp) {
  Random random(1);
  int num_fast = 0;
  int num_slow = 0;
  for (const OpInfo& info : all_ops()) {
    const bool is_cast = info.op == Op::kCast || info.op == Op::kBitcast;
    if (!is_elementwise(info.op) || !has_level(info.op, kLinearLevel) || is_cast) continue;
    for (const DType dtype : storage_dtypes()) {
      for (const bool fuses : {false, true}) {
        const RowOp op{.op = info.op,
                       .dtype = dtype,
                       .result = dtype,
                       .num_args = static_cast<uint8_t>(info.arity),
                       .fuses_mulacc = fuses};
        if (!is_defined(op) || (fuses && info.op != Op::kMulAcc)) continue;
        ++(find_row_function(op) == eval_row ? num_slow : num_fast);
        const Words values = some_values(dtype, random);
        const Words first = info.op == Op::kWhere ? Words{0, 1} : values;
        EXPECT_EQ(difference(op, pairs_of(first, values, random)), "");
      }
    }
  }
  EXPECT_GT(num_fast, 150);  // 13 of integers, 10 of floats, 3 comparisons, where
  EXPECT_GT(num_slow, 40);   // narrow floats, the bounded class
}

TEST(RowFunctions, GiveTheBitsOfEvalCast) {
  Random random(2);
  int num_fast = 0;
  for (const DType from : storage_dtypes()) {
    const Words values = some_values(from, random);
    for (const DType to : storage_dtypes()) {
      Columns same;
      same.fill(values);
      RowOp op{.op = Op::kCast, .dtype = from, .result = to, .num_args = 1};
      num_fast += find_row_function(op) != eval_row ? 1 : 0;
      EXPECT_EQ(difference(op, same), "");
      if (dtype_bits(from) != dtype_bits(to)) continue;
      op.op = Op::kBitcast;
      EXPECT_EQ(difference(op, same), "");
    }
  }
  EXPECT_EQ(num_fast, 11 * 10);
}

TEST(RowFunctions, UnitsGiveTheSameBitsWithTheHostsFma) {
  Random random(4);
  const Words numbers = some_values(DType::kBF16, random);
  const Words sums = some_values(DType::kF32, random);
  for (const UnitSum sum : {UnitSum::kOddFirst, UnitSum::kTwoSums, UnitSum::kFree}) {
    for (const bool flushes : {false, true}) {
      const MatrixUnit unit{.a = DType::kBF16,
                            .b = DType::kBF16,
                            .acc = DType::kF32,
                            .n = 4,
                            .k = 6,
                            .group = 2,
                            .sum = sum,
                            .flushes_denormals = flushes};
      for (int i = 0; i < 2000; ++i) {
        Words a(6);
        Words b(24);
        Words want(4);
        for (Words* words : {&a, &b}) {
          for (uint64_t& word : *words)
            word = random.pick_from(numbers);
        }
        for (uint64_t& word : want)
          word = random.pick_from(sums);
        Words got = want;
        eval_unit(unit, a, b, want);
        eval_unit(unit, a, b, got, fused_f32);
        ASSERT_EQ(got, want) << to_text(unit) << ", case " << i;
      }
    }
  }
}

TEST(RowFunctions, TheResultMayTakeThePlaceOfAnOperand) {
  const RowOp op{.op = Op::kSub, .dtype = DType::kI8, .result = DType::kI8};
  Words a{5, canonical_bits(DType::kI8, 0x80), 7};
  const Words b{7, 1, 7};
  const std::array<const uint64_t*, 3> src{a.data(), b.data(), nullptr};
  find_row_function(op)(op, a.data(), src.data(), a.size());
  EXPECT_EQ(a, (Words{~uint64_t{1}, 127, 0}));
}

TEST(RowFunctions, ElementsSurviveMemory) {
  Random random(3);
  for (const DType dtype : storage_dtypes()) {
    const Words values = some_values(dtype, random);
    const auto size = static_cast<size_t>(dtype_size_bytes(dtype));
    std::vector<std::byte> bytes(values.size() * size + 1, std::byte{0xee});
    const ElementMoves moves = find_element_moves(dtype);
    moves.store(bytes.data(), values.data(), values.size());
    EXPECT_EQ(bytes.back(), std::byte{0xee});
    Words back(values.size());
    moves.load(back.data(), bytes.data(), values.size());
    EXPECT_EQ(back, values) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace tenon
