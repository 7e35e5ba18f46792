// Narrow floats in f32: casts against exact rounding done here, ops against the op table of the
// narrow dtype, and what loads and stores become. SPDX-License-Identifier: MIT
#include "tenon/rules/lower_dtypes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/rules/embeds.h"
#include "tests/rules/expr_evaluator.h"
#include "tests/rules/test_targets.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

constexpr DType kNarrow[] = {DType::kF8E4M3, DType::kF8E5M2, DType::kF16, DType::kBF16};

// The value of a pattern, from the definition of the format.
long double value_of(uint64_t bits, DType dtype) {
  const FloatFormat format = float_format(dtype);
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const auto exponent =
      static_cast<int>(bits >> format.mantissa_bits & ((uint64_t{1} << format.exponent_bits) - 1));
  const bool is_top = exponent == (1 << format.exponent_bits) - 1;
  const bool is_all_ones = mantissa == (uint64_t{1} << format.mantissa_bits) - 1;
  const long double sign = bits >> (dtype_bits(dtype) - 1) != 0 ? -1 : 1;
  if (is_top && format.finite_only && is_all_ones) return NAN;
  if (is_top && !format.finite_only) return mantissa == 0 ? sign * INFINITY : NAN;
  const uint64_t hidden = exponent == 0 ? 0 : uint64_t{1} << format.mantissa_bits;
  const int scale = std::max(exponent, 1) - format.bias - format.mantissa_bits;
  return sign * std::ldexp(static_cast<long double>(mantissa | hidden), scale);
}

// Nearest pattern by search in the list of all magnitudes; ties to the even pattern. The number
// after the largest is infinity or, without infinities, NaN.
class Rounder {
 public:
  explicit Rounder(DType dtype) : dtype_(dtype) {
    const uint64_t count = uint64_t{1} << (dtype_bits(dtype) - 1);
    for (uint64_t bits = 0; bits < count && std::isfinite(value_of(bits, dtype)); ++bits)
      magnitudes_.push_back(value_of(bits, dtype));
    // Where the next number would be, were the format one longer.
    magnitudes_.push_back(2 * magnitudes_.back() - magnitudes_[magnitudes_.size() - 2]);
  }

  // Canonical bits; any NaN as -1.
  int64_t round(long double value) const {
    if (std::isnan(value)) return -1;
    const long double size = std::abs(value);
    const auto sign = static_cast<int64_t>(std::signbit(value)) << (dtype_bits(dtype_) - 1);
    const auto limit = static_cast<int64_t>(magnitudes_.size()) - 1;
    int64_t code = limit;
    if (size < magnitudes_.back()) {
      const auto above = std::upper_bound(magnitudes_.begin(), magnitudes_.end(), size);
      code = above - magnitudes_.begin() - 1;
      const long double low = size - magnitudes_[static_cast<size_t>(code)];
      const long double high = magnitudes_[static_cast<size_t>(code) + 1] - size;
      if (high < low || (high == low && code % 2 != 0)) ++code;
    }
    if (code == limit && float_format(dtype_).finite_only) return -1;
    return code | sign;
  }

 private:
  DType dtype_;
  std::vector<long double> magnitudes_;
};

int64_t as_code(uint64_t bits, DType dtype) {
  return std::isnan(value_of(bits, dtype)) ? -1 : static_cast<int64_t>(bits);
}

TEST(LowerDTypes, WideningIsExactForAllPatterns) {
  for (DType dtype : kNarrow) {
    const Node x = unknown(0, unsigned_of_same_width(dtype));
    const ExprEvaluator evaluator(widen_bits(x, dtype), std::span(&x, 1));
    std::vector<ScalarBits> inputs;
    for (uint64_t bits = 0; bits < uint64_t{1} << dtype_bits(dtype); ++bits)
      inputs.push_back(bits);
    const std::vector<ScalarBits> got = evaluator.run(std::span(&inputs, 1));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const float value = std::bit_cast<float>(static_cast<uint32_t>(got[i]));
      const long double expected = value_of(inputs[i], dtype);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << dtype_name(dtype) << " " << inputs[i];
      } else {
        ASSERT_EQ(value, expected) << dtype_name(dtype) << " " << inputs[i];
        ASSERT_EQ(std::signbit(value), std::signbit(expected));
      }
    }
  }
}

// Numbers of `from` around all values of `to` and half way between them, and random ones.
std::vector<ScalarBits> inputs_for(DType from, DType to) {
  std::vector<ScalarBits> inputs;
  std::mt19937_64 random(11);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t bits = random();
    inputs.push_back(canonical_bits(from, bits >> (is_float(from) ? 0 : random() % 64)));
  }
  const FloatFormat format = float_format(to);
  const uint64_t stride = dtype_bits(to) == 8 ? 1 : 7;
  for (uint64_t code = 0; code < uint64_t{1} << dtype_bits(to); code += stride) {
    const auto low = static_cast<double>(value_of(code, to));
    const auto high = static_cast<double>(value_of(code + 1, to));
    if (!std::isfinite(low)) continue;
    const double middle =
        std::isfinite(high) ? (low + high) / 2 : low * (1 + std::ldexp(0.5, -format.mantissa_bits));
    for (double value : {low, middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e30)}) {
      const ScalarBits bits = eval_cast(std::bit_cast<uint64_t>(value), DType::kF64, from);
      for (uint64_t step = 0; step < 3; ++step)
        inputs.push_back(canonical_bits(from, bits + step - 1));
    }
  }
  return inputs;
}

long double exact_value(ScalarBits bits, DType dtype) {
  if (is_float(dtype)) return value_of(bits, dtype);
  if (is_signed_int(dtype)) return static_cast<long double>(static_cast<int64_t>(bits));
  return static_cast<long double>(bits);
}

TEST(LowerDTypes, NarrowingRoundsOnceFromEveryDType) {
  for (DType to : kNarrow) {
    const Rounder rounder(to);
    for (DType from : storage_dtypes()) {
      if (is_narrow_float(from)) continue;
      const Node x = unknown(0, from);
      const std::vector<ScalarBits> inputs =
          from == DType::kBool ? std::vector<ScalarBits>{0, 1} : inputs_for(from, to);
      const auto got =
          ExprEvaluator(narrow_to_bits(x, to), std::span(&x, 1)).run(std::span(&inputs, 1));
      const auto rounded =
          ExprEvaluator(round_to_narrow(x, to), std::span(&x, 1)).run(std::span(&inputs, 1));
      for (size_t i = 0; i < inputs.size(); ++i) {
        const int64_t expected = rounder.round(exact_value(inputs[i], from));
        ASSERT_EQ(as_code(got[i], to), expected)
            << dtype_name(from) << " to " << dtype_name(to) << " of " << std::hex << inputs[i];
        // The same number as f32.
        const float value = std::bit_cast<float>(static_cast<uint32_t>(rounded[i]));
        ASSERT_EQ(rounder.round(value), expected) << std::hex << inputs[i];
        if (expected != -1) {
          ASSERT_EQ(static_cast<long double>(value), value_of(got[i], to)) << std::hex << inputs[i];
        }
      }
    }
  }
}

// The lowered expression over loads of `dtype`, with the loads as they became.
struct Lowered {
  Node expr;
  std::vector<Node> inputs;
};

Lowered lower_for_test(const Node& root, DType dtype, int count, const Target& target) {
  DTypeLowering lowering(target);
  Lowered result{lowering.run_to_storage(root), {}};
  for (int i = 0; i < count; ++i)
    result.inputs.push_back(unknown(i, storage_dtype(dtype, target)));
  return result;
}

void check_op(Op op, DType dtype, const Target& target,
              std::span<const std::vector<ScalarBits>> columns) {
  std::vector<Node> srcs;
  for (size_t i = 0; i < columns.size(); ++i)
    srcs.push_back(unknown(static_cast<int>(i), dtype));
  const Node original = make_expr(op, srcs);
  const auto [expr, inputs] =
      lower_for_test(original, dtype, static_cast<int>(srcs.size()), target);
  const std::vector<ScalarBits> got = ExprEvaluator(expr, inputs).run(columns);
  for (size_t i = 0; i < got.size(); ++i) {
    std::vector<ScalarBits> args;
    for (const std::vector<ScalarBits>& column : columns)
      args.push_back(column[i]);
    const ScalarBits expected = eval_op(op, dtype, args);
    if (original.dtype() == dtype) {
      ASSERT_EQ(as_code(got[i], dtype), as_code(expected, dtype))
          << op_name(op) << " " << dtype_name(dtype) << " " << std::hex << args[0] << " "
          << args.back();
    } else {
      ASSERT_EQ(got[i], expected) << op_name(op) << " " << std::hex << args[0] << " "
                                  << args.back();
    }
  }
}

std::vector<std::vector<ScalarBits>> random_rows(DType dtype, size_t arity) {
  std::vector<std::vector<ScalarBits>> columns(arity);
  std::mt19937_64 random(arity);
  const uint64_t count = uint64_t{1} << dtype_bits(dtype);
  if (arity == 1) {
    for (uint64_t bits = 0; bits < count; ++bits)
      columns[0].push_back(bits);
    return columns;
  }
  const bool all_pairs = arity == 2 && dtype_bits(dtype) == 8;
  const uint64_t rows = all_pairs ? count * count : 50000;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t bits = all_pairs ? row : random();
    columns[0].push_back(bits % count);
    columns[1].push_back(bits / count % count);
    // Half of the rows have near operands, where sums cancel and quotients are near 1.
    if (!all_pairs && row % 2 == 0) columns[1].back() = (columns[0].back() + random() % 64) % count;
    if (arity == 3) columns[2].push_back(random() % count);
  }
  return columns;
}

TEST(LowerDTypes, OpsRoundAsTheNarrowDType) {
  for (DType dtype : kNarrow) {
    for (const Target& target : {baseline_target(), avx512_target()}) {
      for (Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kMin, Op::kMax, Op::kLt, Op::kLe,
                    Op::kEq, Op::kNe}) {
        check_op(op, dtype, target, random_rows(dtype, 2));
      }
      for (Op op : {Op::kNeg, Op::kAbs, Op::kSqrt, Op::kTrunc, Op::kFloor, Op::kCeil, Op::kRound,
                    Op::kIsNan, Op::kIsInf, Op::kIsFinite}) {
        check_op(op, dtype, target, random_rows(dtype, 1));
      }
      for (Op op : {Op::kMulAcc, Op::kFma})
        check_op(op, dtype, target, random_rows(dtype, 3));
    }
  }
}

TEST(LowerDTypes, CastsBetweenAllDTypes) {
  for (const Target& target : {baseline_target(), avx512_target()}) {
    for (DType from : kNarrow) {
      for (DType to : storage_dtypes()) {
        const Node root = make_cast(unknown(0, from), to);
        const auto [expr, inputs] = lower_for_test(root, from, 1, target);
        const auto columns = random_rows(from, 1);
        const auto got = ExprEvaluator(expr, inputs).run(columns);
        for (size_t i = 0; i < got.size(); ++i) {
          const ScalarBits expected = eval_cast(columns[0][i], from, to);
          if (is_float(to)) {
            ASSERT_EQ(as_code(got[i], to), as_code(expected, to))
                << dtype_name(from) << dtype_name(to);
          } else {
            ASSERT_EQ(got[i], expected) << dtype_name(from) << " to " << dtype_name(to);
          }
        }
      }
    }
  }
}

TEST(LowerDTypes, NothingNarrowRemainsWithoutHardware) {
  for (const Target& target : {baseline_target(), avx512_target()}) {
    for (DType dtype : kNarrow) {
      const Node x = unknown(0, dtype);
      const Node y = unknown(1, dtype);
      Node expr = make_expr(Op::kMul, make_expr(Op::kAdd, x, y), make_expr(Op::kExp, x));
      expr = make_expr(Op::kWhere, make_expr(Op::kLt, x, y), expr, bits_const(dtype, 1));
      const Node stored = DTypeLowering(target).run_to_storage(expr);
      const bool in_hardware = storage_dtype(dtype, target) == dtype;
      EXPECT_EQ(in_hardware, dtype == DType::kF16 && target.fuses_mulacc);
      for (const Node& node : topological_order(std::span(&stored, 1))) {
        const bool is_allowed = in_hardware && (node.op() == Op::kCast || node.op() == Op::kLoad);
        EXPECT_TRUE(is_allowed || !is_narrow_float(node.dtype())) << op_name(node.op());
      }
    }
  }
}

TEST(LowerDTypes, CopiesAreCopiesAndStoresRoundOnce) {
  const Target target = baseline_target();
  for (DType dtype : kNarrow) {
    const Node x = unknown(0, dtype);
    EXPECT_TRUE(DTypeLowering(target).run_to_storage(x) ==
                unknown(0, unsigned_of_same_width(dtype)));
    const Node sum = make_expr(Op::kAdd, x, x);
    const Node value =
        make_expr(Op::kAdd, widen_bits(unknown(0, unsigned_of_same_width(dtype)), dtype),
                  widen_bits(unknown(0, unsigned_of_same_width(dtype)), dtype));
    EXPECT_TRUE(DTypeLowering(target).run_to_storage(sum) == narrow_to_bits(value, dtype));
  }
  // e4m3 -> f16 loses nothing, but the sum was rounded to e4m3 before.
  const Node x = unknown(0, DType::kF8E4M3);
  const Node wide = make_cast(make_expr(Op::kAdd, x, x), DType::kF16);
  EXPECT_TRUE(lower_dtype_expr(wide, target) == lower_dtype_expr(wide.src(0), target));
}

TEST(LowerDTypes, GatedLoadsAndBitcasts) {
  const Target target = baseline_target();
  const Node i = make_axis(0, 8, AxisKind::kPar);
  const Node gate = make_expr(Op::kLt, i, idx_const(5));
  const Node alt = number_const(DType::kF16, -1.5);
  const Node load = make_gated_load(2, DType::kF16, std::span(&i, 1), gate, alt);
  const Node stored = DTypeLowering(target).run_to_storage(load);
  EXPECT_TRUE(stored == make_gated_load(2, DType::kU16, std::span(&i, 1), gate,
                                        bits_const(DType::kU16, 0xbe00)));
  const Node bits = make_bitcast(unknown(0, DType::kBF16), DType::kI16);
  EXPECT_TRUE(lower_dtype_expr(bits, target) == make_bitcast(unknown(0, DType::kU16), DType::kI16));
  const Node back = make_bitcast(unknown(0, DType::kU16), DType::kBF16);
  EXPECT_TRUE(lower_dtype_expr(back, target) == widen_bits(unknown(0, DType::kU16), DType::kBF16));
}

TEST(LowerDTypes, PositionsBecomeNarrowFloats) {
  const Target target = baseline_target();
  const Rounder rounder(DType::kBF16);
  for (int64_t extent : {int64_t{1000}, int64_t{1} << 40}) {
    const Node i = make_axis(0, extent, AxisKind::kPar);
    const Node stored = DTypeLowering(target).run_to_storage(make_cast(i, DType::kBF16));
    for (int64_t value = 0; value < extent; value = value * 3 / 2 + 1) {
      const auto bits = static_cast<ScalarBits>(value);
      const ScalarBits got = ExprEvaluator(stored, std::span(&i, 1)).at(std::span(&bits, 1));
      EXPECT_EQ(as_code(got, DType::kBF16), rounder.round(static_cast<long double>(value)))
          << value;
    }
  }
}

TEST(LowerDTypes, RefusesWhatItCannotEmulate) {
  Target target = baseline_target();
  target.arithmetic.bits &= ~(1U << static_cast<int>(DType::kF64));
  EXPECT_ERROR(lower_dtype_expr(unknown(0, DType::kF64), target), ErrorCode::kUnsupported,
               "float64", "emulated");
  const Node fused = make_expr(Op::kFma, unknown(0, DType::kF16), unknown(0, DType::kF16),
                               unknown(0, DType::kF16));
  EXPECT_ERROR(lower_dtype_expr(fused, target), ErrorCode::kUnsupported, "fma", "float64");
}

TEST(Embeds, AgreesWithRoundTripsOfAllValues) {
  for (DType from : storage_dtypes()) {
    if (dtype_bits(from) > 16) continue;
    for (DType to : storage_dtypes()) {
      bool is_exact = true;
      const uint64_t count = from == DType::kBool ? 2 : uint64_t{1} << dtype_bits(from);
      for (uint64_t bits = 0; bits < count; ++bits) {
        const ScalarBits value = canonical_bits(from, bits);
        const ScalarBits there = eval_cast(value, from, to);
        const ScalarBits back = eval_cast(there, to, from);
        const bool is_nan = is_float(from) && std::isnan(float_to_double(value, from));
        is_exact &= is_nan ? is_float(to) : back == value;
        // Between integers a round trip of wrapping casts proves nothing: the number must be kept.
        if (!is_float(from) && !is_float(to)) is_exact &= there == value;
        const bool is_negative = is_signed_int(from) && static_cast<int64_t>(value) < 0;
        if (is_negative && is_unsigned_int(to)) is_exact = false;
      }
      EXPECT_EQ(embeds(from, to), is_exact) << dtype_name(from) << " in " << dtype_name(to);
    }
  }
}

}  // namespace
}  // namespace tenon
