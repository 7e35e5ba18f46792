// eval_op on integers and bool against exact 128-bit arithmetic, on floats against the table that
// tests/data/make_eval_op_cases.py computes with fractions. Floats exhaustively:
// eval_float_test.cpp. SPDX-License-Identifier: MIT

#include "tenon/ir/eval_op.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using Wide = __int128;

ScalarBits eval(Op op, DType dtype, std::initializer_list<ScalarBits> args) {
  return eval_op(op, dtype, std::vector<ScalarBits>(args));
}

std::vector<DType> int_dtypes() {
  std::vector<DType> dtypes;
  for (const DType dtype : storage_dtypes()) {
    if (is_int(dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}

// --- an exact model of integers ------------------------------------------------------------------

Wide value_of(DType dtype, ScalarBits bits) {
  return is_signed_int(dtype) ? Wide{static_cast<int64_t>(bits)} : Wide{bits};
}

// The bits of the value modulo 2^width in the dtype's range.
ScalarBits wrapped(DType dtype, Wide value) {
  const Wide modulus = Wide{1} << dtype_bits(dtype);
  Wide rest = value % modulus;
  if (rest < 0) rest += modulus;
  if (is_signed_int(dtype) && rest >= modulus / 2) rest -= modulus;
  return static_cast<ScalarBits>(rest);
}

// Some values with all extremes and a spread of widths; every value of 8-bit dtypes.
std::vector<ScalarBits> grid_of(DType dtype) {
  std::vector<ScalarBits> grid;
  if (dtype_bits(dtype) == 8) {
    for (int i = 0; i < 256; ++i)
      grid.push_back(wrapped(dtype, i));
    return grid;
  }
  for (int shift = 0; shift <= dtype_bits(dtype); shift += shift < 4 ? 1 : 5) {
    for (const int offset : {-1, 0, 1, 5}) {
      grid.push_back(wrapped(dtype, (Wide{1} << shift) + offset));
      grid.push_back(wrapped(dtype, -(Wide{1} << shift) - offset));
    }
  }
  for (const ScalarBits bits : {int_min_bits(dtype), int_max_bits(dtype)}) {
    grid.push_back(bits);
    grid.push_back(wrapped(dtype, value_of(dtype, bits) / 3));
  }
  return grid;
}

struct IntModel {
  Op op;
  Wide (*function)(Wide a, Wide b);
};

Wide euclid_floor_mod(Wide a, Wide b) {
  return b == 0 ? 0 : ((a % b) + b) % b;
}

const IntModel kIntModels[] = {
    {Op::kAdd, [](Wide a, Wide b) { return a + b; }},
    {Op::kSub, [](Wide a, Wide b) { return a - b; }},
    // Only the low 64 bits count, and 128-bit products of unsigned 64-bit values may overflow.
    {Op::kMul,
     [](Wide a, Wide b) {
       return static_cast<Wide>(static_cast<unsigned __int128>(a) *
                                static_cast<unsigned __int128>(b));
     }},
    {Op::kDiv, [](Wide a, Wide b) { return b == 0 ? 0 : a / b; }},
    {Op::kMod, [](Wide a, Wide b) { return b == 0 ? 0 : a % b; }},
    {Op::kFloorDiv, [](Wide a, Wide b) { return b == 0 ? 0 : (a - euclid_floor_mod(a, b)) / b; }},
    {Op::kFloorMod, euclid_floor_mod},
    {Op::kMin, [](Wide a, Wide b) { return a < b ? a : b; }},
    {Op::kMax, [](Wide a, Wide b) { return a < b ? b : a; }},
    {Op::kAnd, [](Wide a, Wide b) { return a & b; }},
    {Op::kOr, [](Wide a, Wide b) { return a | b; }},
    {Op::kXor, [](Wide a, Wide b) { return a ^ b; }},
};

TEST(EvalOpInt, BinaryOpsEqualExactArithmeticWrapped) {
  for (const DType dtype : int_dtypes()) {
    const std::vector<ScalarBits> grid = grid_of(dtype);
    for (const IntModel& model : kIntModels) {
      for (const ScalarBits a : grid) {
        for (const ScalarBits b : grid) {
          const Wide exact = model.function(value_of(dtype, a), value_of(dtype, b));
          ASSERT_EQ(eval(model.op, dtype, {a, b}), wrapped(dtype, exact))
              << op_name(model.op) << " " << dtype_name(dtype) << " " << a << " " << b;
        }
      }
    }
  }
}

TEST(EvalOpInt, ShiftsBeyondTheWidthGiveZeroOrTheSign) {
  for (const DType dtype : int_dtypes()) {
    const int width = dtype_bits(dtype);
    for (const ScalarBits a : grid_of(dtype)) {
      const Wide value = value_of(dtype, a);
      for (const ScalarBits count_bits : grid_of(dtype)) {
        const Wide count = value_of(dtype, count_bits);
        const bool is_inside = count >= 0 && count < width;
        const Wide power = is_inside ? Wide{1} << static_cast<int>(count) : 1;
        const Wide left = is_inside ? static_cast<Wide>(static_cast<unsigned __int128>(value) *
                                                        static_cast<unsigned __int128>(power))
                                    : 0;
        Wide right = value < 0 ? -1 : 0;
        if (is_inside) right = (value - euclid_floor_mod(value, power)) / power;
        ASSERT_EQ(eval(Op::kShl, dtype, {a, count_bits}), wrapped(dtype, left));
        ASSERT_EQ(eval(Op::kShr, dtype, {a, count_bits}), wrapped(dtype, right));
      }
    }
  }
}

TEST(EvalOpInt, ComparisonsAndUnaryOps) {
  for (const DType dtype : int_dtypes()) {
    const std::vector<ScalarBits> grid = grid_of(dtype);
    for (const ScalarBits a : grid) {
      const Wide x = value_of(dtype, a);
      ASSERT_EQ(eval(Op::kNeg, dtype, {a}), wrapped(dtype, -x));
      ASSERT_EQ(eval(Op::kAbs, dtype, {a}), wrapped(dtype, x < 0 ? -x : x));
      ASSERT_EQ(eval(Op::kNot, dtype, {a}), wrapped(dtype, -x - 1));
      for (const ScalarBits b : grid) {
        const Wide y = value_of(dtype, b);
        ASSERT_EQ(eval(Op::kLt, dtype, {a, b}), x < y ? 1U : 0U);
        ASSERT_EQ(eval(Op::kLe, dtype, {a, b}), x <= y ? 1U : 0U);
        ASSERT_EQ(eval(Op::kEq, dtype, {a, b}), x == y ? 1U : 0U);
        ASSERT_EQ(eval(Op::kNe, dtype, {a, b}), x != y ? 1U : 0U);
      }
    }
  }
}

TEST(EvalOpInt, CastsWrapAndToBoolTestForZero) {
  for (const DType from : int_dtypes()) {
    for (const ScalarBits a : grid_of(from)) {
      for (const DType to : int_dtypes()) {
        ASSERT_EQ(eval_cast(a, from, to), wrapped(to, value_of(from, a)));
      }
      ASSERT_EQ(eval_cast(a, from, DType::kBool), a != 0 ? 1U : 0U);
      ASSERT_EQ(eval_cast(a, from, DType::kIdx), wrapped(DType::kI64, value_of(from, a)));
      ASSERT_EQ(eval_cast(a, DType::kIdx, from), wrapped(from, static_cast<int64_t>(a)));
    }
  }
}

// The values that most systems get wrong, spelled out.
TEST(EvalOpInt, KnownHardCases) {
  const auto i32 = [](int64_t value) { return static_cast<ScalarBits>(value); };
  const ScalarBits least = i32(std::numeric_limits<int32_t>::min());
  EXPECT_EQ(eval(Op::kDiv, DType::kI32, {least, i32(-1)}), least);
  EXPECT_EQ(eval(Op::kFloorDiv, DType::kI32, {least, i32(-1)}), least);
  EXPECT_EQ(eval(Op::kFloorMod, DType::kI32, {least, i32(-1)}), 0U);
  EXPECT_EQ(eval(Op::kFloorDiv, DType::kI32, {i32(7), 0}), 0U);
  EXPECT_EQ(eval(Op::kFloorMod, DType::kI32, {i32(7), 0}), 0U);
  EXPECT_EQ(eval(Op::kFloorMod, DType::kI64, {i32(-10), i32(4)}), 2U);
  EXPECT_EQ(eval(Op::kFloorMod, DType::kI64, {i32(10), i32(-4)}), i32(-2));
  EXPECT_EQ(eval(Op::kAbs, DType::kI32, {least}), least);
  EXPECT_EQ(eval(Op::kNeg, DType::kU8, {6}), 250U);
  EXPECT_EQ(eval(Op::kAdd, DType::kU64, {uint64_t{1} << 63, uint64_t{1} << 63}), 0U);
  EXPECT_EQ(eval(Op::kShr, DType::kU16, {32768, 5}), 1024U);
  EXPECT_EQ(eval(Op::kShl, DType::kI32, {1, 31}), least);
  EXPECT_EQ(eval(Op::kShr, DType::kI64, {~uint64_t{0}, 64}), ~uint64_t{0});
  const ScalarBits least64 = uint64_t{1} << 63;
  EXPECT_EQ(eval(Op::kDiv, DType::kI64, {least64, ~uint64_t{0}}), least64);
  EXPECT_EQ(eval(Op::kMod, DType::kI64, {least64, ~uint64_t{0}}), 0U);
}

TEST(EvalOpInt, IndicesComputeAsSigned64) {
  const auto idx = [](int64_t value) { return static_cast<ScalarBits>(value); };
  EXPECT_EQ(eval(Op::kAdd, DType::kIdx, {idx(-3), idx(5)}), idx(2));
  EXPECT_EQ(eval(Op::kFloorDiv, DType::kIdx, {idx(-7), idx(2)}), idx(-4));
  EXPECT_EQ(eval(Op::kFloorMod, DType::kIdx, {idx(-7), idx(2)}), idx(1));
  EXPECT_EQ(eval(Op::kLt, DType::kIdx, {idx(-1), idx(0)}), 1U);
  EXPECT_EQ(eval(Op::kMin, DType::kIdx, {idx(-1), idx(0)}), idx(-1));
  EXPECT_EQ(eval(Op::kWhere, DType::kIdx, {1, idx(-9), idx(4)}), idx(-9));
}

// --- bool ----------------------------------------------------------------------------------------

TEST(EvalOpBool, AddAndMulAreLogical) {
  for (const ScalarBits a : {0U, 1U}) {
    for (const ScalarBits b : {0U, 1U}) {
      const auto is = [&](Op op) { return eval(op, DType::kBool, {a, b}) == 1; };
      EXPECT_EQ(is(Op::kAdd), a || b);
      EXPECT_EQ(is(Op::kOr), a || b);
      EXPECT_EQ(is(Op::kMax), a || b);
      EXPECT_EQ(is(Op::kMul), a && b);
      EXPECT_EQ(is(Op::kAnd), a && b);
      EXPECT_EQ(is(Op::kMin), a && b);
      EXPECT_EQ(is(Op::kXor), a != b);
      EXPECT_EQ(is(Op::kNe), a != b);
      EXPECT_EQ(is(Op::kEq), a == b);
      EXPECT_EQ(is(Op::kLt), a < b);
      EXPECT_EQ(is(Op::kLe), a <= b);
    }
    EXPECT_EQ(eval(Op::kNot, DType::kBool, {a}), 1 - a);
    EXPECT_EQ(eval(Op::kAbs, DType::kBool, {a}), a);
    EXPECT_EQ(eval_cast(a, DType::kBool, DType::kI64), a);
    EXPECT_EQ(eval_cast(a, DType::kBool, DType::kF32), a != 0 ? 0x3f800000U : 0U);
    EXPECT_EQ(eval_cast(a, DType::kBool, DType::kF8E4M3), a != 0 ? 0x38U : 0U);
  }
}

// --- all dtypes ----------------------------------------------------------------------------------

TEST(EvalOp, RefusesDTypesThatTheOpIsNotDefinedFor) {
  constexpr auto kBug = ErrorCode::kInternal;
  EXPECT_ERROR(eval(Op::kSub, DType::kBool, {1, 1}), kBug, "sub", "i1");
  EXPECT_ERROR(eval(Op::kNeg, DType::kBool, {1}), kBug, "neg", "i1");
  EXPECT_ERROR(eval(Op::kDiv, DType::kBool, {1, 1}), kBug, "div", "i1");
  EXPECT_ERROR(eval(Op::kShl, DType::kF32, {1, 1}), kBug, "shl", "f32");
  EXPECT_ERROR(eval(Op::kMod, DType::kF32, {1, 1}), kBug, "mod", "f32");
  EXPECT_ERROR(eval(Op::kSqrt, DType::kI32, {1}), kBug, "sqrt", "i32");
  EXPECT_ERROR(eval(Op::kXor, DType::kIdx, {1, 1}), kBug, "xor", "idx");
  EXPECT_ERROR(eval(Op::kAdd, DType::kI32, {1}), kBug, "add", "2 arguments");
  EXPECT_ERROR(eval(Op::kReduce, DType::kI32, {1}), kBug, "reduce");
  EXPECT_ERROR(eval(Op::kCast, DType::kI32, {1}), kBug, "cast");
  EXPECT_ERROR(eval_bitcast(1, DType::kI32, DType::kI64), kBug, "bitcast", "widths");
}

bool is_defined(Op op, DType dtype) {
  const DTypeKind kind = dtype_kind(dtype);
  const bool is_bool = kind == DTypeKind::kBool;
  const bool is_number = kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned;
  const DTypeRule rule = op_info(op).rule;
  if (rule == DTypeRule::kSameFloat || rule == DTypeRule::kTest) return is_float(dtype);
  if (rule == DTypeRule::kSameInt) return is_number;
  if (rule == DTypeRule::kSameIntOrBool) return is_number || is_bool;
  return !is_bool || (op != Op::kSub && op != Op::kDiv && op != Op::kNeg);
}

TEST(EvalOp, IsTotalGivesCanonicalBitsAndIgnoresBitsAboveTheWidth) {
  const std::array<uint64_t, 9> patterns = {0,
                                            1,
                                            0x80,
                                            0xff,
                                            0x7fc1,
                                            0x80000000,
                                            0xffffffffffffffff,
                                            0x7ff0000000000000,
                                            0x123456789abcdef0};
  int num_evaluated = 0;
  for (const OpInfo& info : all_ops()) {
    if (!is_elementwise(info.op) || info.rule == DTypeRule::kAttr) continue;
    const bool gives_bool = info.rule == DTypeRule::kCompare || info.rule == DTypeRule::kTest;
    for (const DType dtype : storage_dtypes()) {
      if (!is_defined(info.op, dtype)) continue;
      const DType result_dtype = gives_bool ? DType::kBool : dtype;
      for (const uint64_t a : patterns) {
        for (const uint64_t b : patterns) {
          std::array<uint64_t, kMaxScalarOperands> args = {a, b, a ^ b, b, a, a ^ b, a, b, b};
          std::vector<uint64_t> canonical;
          for (int i = 0; i < info.arity; ++i) {
            const bool is_condition = info.rule == DTypeRule::kWhere && i == 0;
            canonical.push_back(
                canonical_bits(is_condition ? DType::kBool : dtype, args[static_cast<size_t>(i)]));
          }
          const auto raw = std::span(args).first(static_cast<size_t>(info.arity));
          const ScalarBits result = eval_op(info.op, dtype, raw);
          ASSERT_EQ(result, canonical_bits(result_dtype, result)) << info.name;
          ASSERT_EQ(result, eval_op(info.op, dtype, canonical)) << info.name;
          ++num_evaluated;
        }
      }
    }
  }
  EXPECT_GT(num_evaluated, 20000);
}

TEST(EvalOp, WhereSelectsBitsUntouched) {
  const ScalarBits signalling = 0x7f800001;
  EXPECT_EQ(eval(Op::kWhere, DType::kF32, {1, signalling, 0}), signalling);
  EXPECT_EQ(eval(Op::kWhere, DType::kF32, {0, signalling, 0x80000000}), 0x80000000U);
}

TEST(EvalOp, BitcastKeepsTheBitsInTheOtherCanonicalForm) {
  EXPECT_EQ(eval_bitcast(0xc0000000, DType::kF32, DType::kI32), 0xffffffffc0000000U);
  EXPECT_EQ(eval_bitcast(0xffffffffc0000000, DType::kI32, DType::kF32), 0xc0000000U);
  EXPECT_EQ(eval_bitcast(0xff, DType::kU8, DType::kI8), ~uint64_t{0});
  EXPECT_EQ(eval_bitcast(~uint64_t{0}, DType::kI8, DType::kF8E5M2), 0xffU);
}

TEST(EvalOp, CanonicalFormExtendsByTheDTypesSign) {
  EXPECT_EQ(canonical_bits(DType::kI8, 0x1ff), ~uint64_t{0});
  EXPECT_EQ(canonical_bits(DType::kU8, 0x1ff), 0xffU);
  EXPECT_EQ(canonical_bits(DType::kF16, 0x1ffff), 0xffffU);
  EXPECT_EQ(canonical_bits(DType::kI64, ~uint64_t{0}), ~uint64_t{0});
  EXPECT_EQ(canonical_bits(DType::kIdx, ~uint64_t{0}), ~uint64_t{0});
  EXPECT_EQ(canonical_bits(DType::kBool, 2), 1U);
  EXPECT_EQ(canonical_bits(DType::kBool, 0x100), 0U);
}

// --- the table of exact float results ------------------------------------------------------------

uint64_t parse_hex(std::string_view text) {
  return std::stoull(std::string(text), nullptr, 16);
}

TEST(EvalOp, FloatResultsEqualExactFractionsRoundedOnce) {
  const std::string text =
      read_file(std::string(TENON_SOURCE_DIR) + "/tests/data/eval_op_cases.txt");
  int num_rows = 0;
  for (const std::string_view line : split(trim(text), '\n')) {
    const std::vector<std::string_view> words = split(line, ' ');
    const uint64_t expected = parse_hex(words.back());
    const std::optional<DType> dtype = find_dtype(words[1]);
    ASSERT_TRUE(dtype) << line;
    uint64_t result = 0;
    if (words[0] == "cast") {
      result = eval_cast(parse_hex(words[3]), *dtype, find_dtype(words[2]).value());
    } else {
      std::vector<ScalarBits> args;
      for (size_t i = 2; i + 1 < words.size(); ++i)
        args.push_back(parse_hex(words[i]));
      result = eval_op(find_op(words[0], kKernelLevel).value(), *dtype, args);
    }
    EXPECT_EQ(result, expected) << line << std::hex << ", got " << result;
    ++num_rows;
  }
  EXPECT_GT(num_rows, 7000);
}

}  // namespace
}  // namespace tenon
