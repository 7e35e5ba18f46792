// eval_op on floats: every value of the 8- and 16-bit formats against definitions written in exact
// doubles, and f32 and f64 against the processor. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

ScalarBits eval(Op op, DType dtype, std::initializer_list<ScalarBits> args) {
  return eval_op(op, dtype, std::vector<ScalarBits>(args));
}

// What a format is, in numbers of its definition.
struct Narrow {
  DType dtype;
  int num_bits;
  int mantissa_bits;
  int bias;
  uint64_t largest;   // code of the largest finite value
  uint64_t overflow;  // code that overflow gives: infinity, or NaN in e4m3fn
  uint64_t nan;       // canonical NaN
};

constexpr Narrow kNarrow[] = {
    {DType::kF8E4M3, 8, 3, 7, 0x7e, 0x7f, 0x7f},
    {DType::kF8E5M2, 8, 2, 15, 0x7b, 0x7c, 0x7e},
    {DType::kF16, 16, 10, 15, 0x7bff, 0x7c00, 0x7e00},
    {DType::kBF16, 16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0},
};

// The value of a code by the textbook formula.
double value_of(const Narrow& format, uint64_t code) {
  const uint64_t sign = uint64_t{1} << (format.num_bits - 1);
  const uint64_t magnitude = code & (sign - 1);
  const auto mantissa = static_cast<double>(magnitude & ((1U << format.mantissa_bits) - 1));
  const auto field = static_cast<int>(magnitude >> format.mantissa_bits);
  double value = 0;
  if (magnitude > format.largest) {
    const bool is_inf = magnitude == format.overflow && format.overflow != format.nan;
    value = is_inf ? kInf : std::numeric_limits<double>::quiet_NaN();
  } else if (field == 0) {
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(1 + std::ldexp(mantissa, -format.mantissa_bits), field - format.bias);
  }
  return (code & sign) != 0 ? -value : value;
}

uint64_t num_codes(const Narrow& format) {
  return uint64_t{1} << format.num_bits;
}

uint64_t bits_of(double value) {
  return std::bit_cast<uint64_t>(value);
}
uint64_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}
double double_of(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
float float_of(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

TEST(EvalFloat, WideningIsExactForEveryCode) {
  for (const Narrow& format : kNarrow) {
    for (uint64_t code = 0; code < num_codes(format); ++code) {
      const double value = value_of(format, code);
      const double widened = float_to_double(code, format.dtype);
      const uint64_t f32 = eval_cast(code, format.dtype, DType::kF32);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(widened));
        ASSERT_EQ(f32, 0x7fc00000U);
        continue;
      }
      ASSERT_EQ(bits_of(widened), bits_of(value)) << dtype_name(format.dtype) << " " << code;
      ASSERT_EQ(f32, bits_of(static_cast<float>(value)));
      ASSERT_EQ(double_to_float(value, format.dtype), code);
    }
  }
}

// Between every two neighbours: the midpoint goes to the even code, anything beside it to the
// nearer.
TEST(EvalFloat, NarrowingIsRightAroundEveryMidpoint) {
  for (const Narrow& format : kNarrow) {
    const uint64_t sign = uint64_t{1} << (format.num_bits - 1);
    for (uint64_t code = 0; code <= format.largest; ++code) {
      const double low = value_of(format, code);
      const bool is_last = code == format.largest;
      const double high =
          is_last ? low + (low - value_of(format, code - 1)) : value_of(format, code + 1);
      const uint64_t above = is_last ? format.overflow : code + 1;
      const double middle = low + (high - low) / 2;
      const uint64_t even = code % 2 == 0 ? code : above;
      ASSERT_EQ(double_to_float(middle, format.dtype), even) << middle;
      ASSERT_EQ(double_to_float(std::nextafter(middle, 0), format.dtype), code);
      ASSERT_EQ(double_to_float(std::nextafter(middle, kInf), format.dtype), above);
      ASSERT_EQ(double_to_float(-middle, format.dtype), even | sign);
      ASSERT_EQ(double_to_float(std::nextafter(-middle, 0), format.dtype), code | sign);
      ASSERT_EQ(double_to_float(std::nextafter(-middle, -kInf), format.dtype), above | sign);
      const auto f32 = static_cast<float>(middle);
      const auto cast = [&](float x) { return eval_cast(bits_of(x), DType::kF32, format.dtype); };
      const float up = std::numeric_limits<float>::infinity();
      ASSERT_EQ(static_cast<double>(f32), middle);
      ASSERT_EQ(cast(f32), even);
      ASSERT_EQ(cast(std::nextafter(f32, 0.0F)), code);
      // Above the midpoint between the largest bf16 and infinity there is still a finite f32.
      ASSERT_EQ(cast(std::nextafter(f32, up)), above);
    }
    EXPECT_EQ(double_to_float(1e300, format.dtype), format.overflow);
    EXPECT_EQ(double_to_float(-1e300, format.dtype), format.overflow | sign);
    EXPECT_EQ(double_to_float(-kInf, format.dtype), format.overflow | sign);
    EXPECT_EQ(double_to_float(std::nan(""), format.dtype), format.nan);
    EXPECT_EQ(double_to_float(-5e-324, format.dtype), sign);
  }
}

TEST(EvalFloat, RoundingToIntegersForEveryCode) {
  for (const Narrow& format : kNarrow) {
    for (uint64_t code = 0; code < num_codes(format); ++code) {
      const double x = value_of(format, code);
      const auto expect = [&](Op op, double value) {
        const uint64_t result = eval(op, format.dtype, {code});
        if (std::isnan(x)) return result == format.nan;
        return bits_of(value_of(format, result)) == bits_of(value);
      };
      ASSERT_TRUE(expect(Op::kTrunc, std::trunc(x))) << x;
      ASSERT_TRUE(expect(Op::kFloor, std::floor(x))) << x;
      ASSERT_TRUE(expect(Op::kCeil, std::ceil(x))) << x;
      ASSERT_TRUE(expect(Op::kRound, std::nearbyint(x))) << x;
    }
  }
}

TEST(EvalFloat, TestsSignOpsAndBoolForEveryCode) {
  for (const Narrow& format : kNarrow) {
    const uint64_t sign = uint64_t{1} << (format.num_bits - 1);
    for (uint64_t code = 0; code < num_codes(format); ++code) {
      const double x = value_of(format, code);
      ASSERT_EQ(eval(Op::kIsNan, format.dtype, {code}) != 0, std::isnan(x));
      ASSERT_EQ(eval(Op::kIsInf, format.dtype, {code}) != 0, std::isinf(x));
      ASSERT_EQ(eval(Op::kIsFinite, format.dtype, {code}) != 0, std::isfinite(x));
      ASSERT_EQ(eval(Op::kNeg, format.dtype, {code}), code ^ sign);
      ASSERT_EQ(eval(Op::kAbs, format.dtype, {code}), code & ~sign);
      ASSERT_EQ(eval_cast(code, format.dtype, DType::kBool) != 0, x != 0 || std::isnan(x));
    }
  }
}

TEST(EvalFloat, ToIntegersTruncatesAndSaturatesForEveryCode) {
  for (const Narrow& format : kNarrow) {
    for (const DType to : storage_dtypes()) {
      if (!is_int(to)) continue;
      const double low =
          is_signed_int(to) ? static_cast<double>(static_cast<int64_t>(int_min_bits(to))) : 0.0;
      const double beyond = std::ldexp(1.0, dtype_bits(to) - (is_signed_int(to) ? 1 : 0));
      for (uint64_t code = 0; code < num_codes(format); ++code) {
        const double x = std::trunc(value_of(format, code));
        uint64_t expected = 0;
        if (x >= beyond) {
          expected = int_max_bits(to);
        } else if (x <= low) {
          expected = int_min_bits(to);
        } else if (x == x) {
          expected = static_cast<uint64_t>(static_cast<__int128>(x));
        }
        ASSERT_EQ(eval_cast(code, format.dtype, to), expected) << x << " " << dtype_name(to);
      }
    }
  }
}

// --- fp8: every pair -----------------------------------------------------------------------------

// The code nearest to p / q (q > 0), by comparing p with midpoint * q, all exact in doubles.
uint64_t nearest_code(const Narrow& format, double p, double q) {
  const uint64_t sign = uint64_t{1} << (format.num_bits - 1);
  const uint64_t sign_of_result = std::signbit(p) ? sign : 0;
  p = std::fabs(p);
  uint64_t code = 0;
  // Largest code whose value is not above p / q.
  for (uint64_t step = sign / 2; step > 0; step /= 2) {
    if (code + step <= format.largest && value_of(format, code + step) * q <= p) code += step;
  }
  const double low = value_of(format, code);
  const bool is_last = code == format.largest;
  const double high = is_last ? 2 * low - value_of(format, code - 1) : value_of(format, code + 1);
  const double middle = (low + high) / 2 * q;
  const bool is_up = p > middle || (p == middle && code % 2 == 1);
  return sign_of_result | (!is_up ? code : (is_last ? format.overflow : code + 1));
}

TEST(EvalFloat, EveryPairOfFp8) {
  for (const Narrow& format : {kNarrow[0], kNarrow[1]}) {
    const uint64_t sign = 0x80;
    const bool has_inf = format.overflow != format.nan;
    for (uint64_t a = 0; a < 256; ++a) {
      for (uint64_t b = 0; b < 256; ++b) {
        const double x = value_of(format, a);
        const double y = value_of(format, b);
        // Infinities and NaN follow IEEE 754, which the host's double arithmetic has too.
        const auto expected = [&](double result, double p, double q) {
          if (std::isnan(result)) return format.nan;
          if (std::isinf(result)) return format.overflow | (result < 0 ? sign : 0);
          return nearest_code(format, p, q);
        };
        ASSERT_EQ(eval(Op::kAdd, format.dtype, {a, b}), expected(x + y, x + y, 1)) << x << " " << y;
        ASSERT_EQ(eval(Op::kSub, format.dtype, {a, b}), expected(x - y, x - y, 1)) << x << " " << y;
        ASSERT_EQ(eval(Op::kMul, format.dtype, {a, b}), expected(x * y, x * y, 1)) << x << " " << y;
        const double p = std::isinf(y) ? x / y : std::copysign(x, x / y);
        const double q = std::isinf(y) ? 1.0 : std::fabs(y);
        // x / 0 is an infinity, and e4m3fn has NaN in its place.
        ASSERT_EQ(eval(Op::kDiv, format.dtype, {a, b}), expected(x / y, p, q)) << x << " " << y;
        ASSERT_EQ(eval(Op::kLt, format.dtype, {a, b}) != 0, x < y);
        ASSERT_EQ(eval(Op::kLe, format.dtype, {a, b}) != 0, x <= y);
        ASSERT_EQ(eval(Op::kEq, format.dtype, {a, b}) != 0, x == y);
        ASSERT_EQ(eval(Op::kNe, format.dtype, {a, b}) != 0, x != y);
      }
    }
    EXPECT_EQ(has_inf, format.dtype == DType::kF8E5M2);
  }
}

TEST(EvalFloat, MinAndMaxPropagateNanAndOrderZeros) {
  for (const Narrow& format : kNarrow) {
    const uint64_t sign = uint64_t{1} << (format.num_bits - 1);
    const uint64_t step = format.num_bits == 8 ? 1 : 251;
    for (uint64_t a = 0; a < num_codes(format); a += step) {
      for (const uint64_t b : {uint64_t{0}, sign, uint64_t{1}, format.largest, format.overflow,
                               format.overflow | sign, format.nan, a}) {
        const double x = value_of(format, a);
        const double y = value_of(format, b);
        const bool is_a_first = x < y || (x == y && std::signbit(x) && !std::signbit(y));
        const bool has_nan = std::isnan(x) || std::isnan(y);
        ASSERT_EQ(eval(Op::kMin, format.dtype, {a, b}), has_nan ? format.nan : is_a_first ? a : b);
        ASSERT_EQ(eval(Op::kMax, format.dtype, {a, b}), has_nan ? format.nan : is_a_first ? b : a);
      }
    }
  }
  EXPECT_EQ(eval(Op::kMax, DType::kF32, {0x80000000, 0}), 0U);
  EXPECT_EQ(eval(Op::kMin, DType::kF32, {0, 0x80000000}), 0x80000000U);
  EXPECT_EQ(eval(Op::kMax, DType::kF64, {0x7ff0000000000001, 0}), 0x7ff8000000000000U);
}

// --- f32 and f64 against the processor -----------------------------------------------------------

// Bits that are often special and often near each other.
template <class Bits>
std::vector<Bits> sample_bits(int mantissa_bits, int count) {
  std::mt19937_64 random(7);
  const Bits exponent_top = static_cast<Bits>((~Bits{0} >> 1) >> mantissa_bits);
  const Bits inf = static_cast<Bits>(exponent_top << mantissa_bits);
  const Bits one = static_cast<Bits>((exponent_top >> 1) << mantissa_bits);
  std::vector<Bits> bits = {0,
                            1,
                            2,
                            (Bits{1} << mantissa_bits) - 1,
                            Bits{1} << mantissa_bits,
                            one,
                            one + 1,
                            one - 1,
                            inf,
                            inf - 1,
                            inf + 1,
                            inf | (inf >> 1)};
  const size_t num_specials = bits.size();
  for (size_t i = 0; i < num_specials; ++i)
    bits.push_back(bits[i] | ~(~Bits{0} >> 1));
  while (bits.size() < static_cast<size_t>(count)) {
    auto value = static_cast<Bits>(random());
    if (bits.size() % 2 == 0) {  // near one
      value = static_cast<Bits>((value & ~inf) | (one + ((random() % 9 - 4) << mantissa_bits)));
    }
    bits.push_back(value);
  }
  return bits;
}

template <class Float>
void check_against_host(DType dtype, int mantissa_bits) {
  using Bits = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;
  const std::vector<Bits> sample = sample_bits<Bits>(mantissa_bits, 700);
  const auto is_right = [&](ScalarBits result, Float expected) {
    const uint64_t nan = dtype == DType::kF32 ? 0x7fc00000U : 0x7ff8000000000000U;
    return result == (std::isnan(expected) ? nan : bits_of(expected));
  };
  for (const Bits a : sample) {
    const Float x = std::bit_cast<Float>(a);
    ASSERT_TRUE(is_right(eval(Op::kSqrt, dtype, {a}), std::sqrt(x))) << x;
    ASSERT_TRUE(is_right(eval(Op::kTrunc, dtype, {a}), std::trunc(x))) << x;
    ASSERT_TRUE(is_right(eval(Op::kFloor, dtype, {a}), std::floor(x))) << x;
    ASSERT_TRUE(is_right(eval(Op::kCeil, dtype, {a}), std::ceil(x))) << x;
    ASSERT_TRUE(is_right(eval(Op::kRound, dtype, {a}), std::nearbyint(x))) << x;
    for (size_t i = 0; i < sample.size(); ++i) {
      const Bits b = sample[i];
      const Float y = std::bit_cast<Float>(b);
      ASSERT_TRUE(is_right(eval(Op::kAdd, dtype, {a, b}), x + y)) << x << " " << y;
      ASSERT_TRUE(is_right(eval(Op::kSub, dtype, {a, b}), x - y)) << x << " " << y;
      ASSERT_TRUE(is_right(eval(Op::kMul, dtype, {a, b}), x * y)) << x << " " << y;
      ASSERT_TRUE(is_right(eval(Op::kDiv, dtype, {a, b}), x / y)) << x << " " << y;
      ASSERT_EQ(eval(Op::kLt, dtype, {a, b}) != 0, x < y);
      ASSERT_EQ(eval(Op::kEq, dtype, {a, b}) != 0, x == y);
      const Float z = i % 3 == 0 ? -(x * y) : std::bit_cast<Float>(sample[(i * 31 + 5) % 700]);
      const std::array<ScalarBits, 3> args = {
          a, b,
          sizeof(Float) == 4 ? bits_of(static_cast<float>(z)) : bits_of(static_cast<double>(z))};
      ASSERT_TRUE(is_right(eval_op(Op::kFma, dtype, args), std::fma(x, y, z)))
          << x << " " << y << " " << z;
      ASSERT_TRUE(is_right(eval_op(Op::kMulAcc, dtype, args), x * y + z));
      ASSERT_TRUE(is_right(eval_fused_mulacc(dtype, a, b, args[2]), std::fma(x, y, z)));
    }
  }
}

TEST(EvalFloat, F32EqualsTheProcessor) {
  check_against_host<float>(DType::kF32, 23);
}

TEST(EvalFloat, F64EqualsTheProcessor) {
  check_against_host<double>(DType::kF64, 52);
}

TEST(EvalFloat, ConversionsOfWideTypesEqualTheProcessor) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t bits = random() >> (random() % 64);
    ASSERT_EQ(eval_cast(bits, DType::kU64, DType::kF32), bits_of(static_cast<float>(bits)));
    ASSERT_EQ(eval_cast(bits, DType::kU64, DType::kF64), bits_of(static_cast<double>(bits)));
    const auto value = static_cast<int64_t>(bits ^ (random() % 2 == 0 ? 0 : ~uint64_t{0}));
    const auto signed_bits = static_cast<uint64_t>(value);
    ASSERT_EQ(eval_cast(signed_bits, DType::kI64, DType::kF32), bits_of(static_cast<float>(value)));
    ASSERT_EQ(eval_cast(signed_bits, DType::kI64, DType::kF64),
              bits_of(static_cast<double>(value)));
    const double x = double_of(random());
    if (std::isnan(x)) continue;
    ASSERT_EQ(eval_cast(bits_of(x), DType::kF64, DType::kF32), bits_of(static_cast<float>(x)));
    const double narrow = float_of(random());
    ASSERT_EQ(std::isnan(narrow) ||
                  float_to_double(bits_of(static_cast<float>(narrow)), DType::kF32) == narrow,
              true);
  }
}

TEST(EvalFloat, HostRoundingModeDoesNotMatter) {
  const uint64_t one = bits_of(1.0F);
  const uint64_t three = bits_of(3.0F);
  std::vector<std::array<uint64_t, 4>> results;
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    results.push_back({eval(Op::kDiv, DType::kF32, {one, three}),
                       eval(Op::kAdd, DType::kF32, {one, 0x33000000}),
                       eval(Op::kSqrt, DType::kF32, {three}),
                       eval_cast(uint64_t{1} << 24 | 1, DType::kI64, DType::kF32)});
  }
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  EXPECT_EQ(results[0][0], 0x3eaaaaabU);
  for (size_t i = 1; i < results.size(); ++i)
    EXPECT_EQ(results[i], results[0]);
}

// --- bounded class -------------------------------------------------------------------------------

struct Bounded {
  Op op;
  long double (*reference)(long double);
  double low;
  double high;
};

long double sigmoid_reference(long double x) {
  return 1 / (1 + std::exp(-x));
}

const Bounded kBounded[] = {
    {Op::kExp2, [](long double x) { return std::exp2(x); }, -1100, 1030},
    {Op::kLog2, [](long double x) { return std::log2(x); }, 0, 1e30},
    {Op::kSin, [](long double x) { return std::sin(x); }, -1e6, 1e6},
    {Op::kExp, [](long double x) { return std::exp(x); }, -750, 712},
    {Op::kLog, [](long double x) { return std::log(x); }, 0, 1e30},
    {Op::kCos, [](long double x) { return std::cos(x); }, -1e6, 1e6},
    {Op::kTan, [](long double x) { return std::tan(x); }, -1e6, 1e6},
    {Op::kTanh, [](long double x) { return std::tanh(x); }, -30, 30},
    {Op::kSigmoid, sigmoid_reference, -740, 740},
};

TEST(EvalFloat, BoundedOpsAreWithinAnUlpOfLongDouble) {
  std::mt19937_64 random(5);
  for (const Bounded& bounded : kBounded) {
    std::uniform_real_distribution<double> inputs(bounded.low, bounded.high);
    for (int i = 0; i < 3000; ++i) {
      const double scale = i % 2 == 0 ? 1.0 : 1e-2;
      const double x = inputs(random) * scale;
      const auto wanted = static_cast<double>(bounded.reference(x));
      const double result = double_of(eval(bounded.op, DType::kF64, {bits_of(x)}));
      const double ulp = std::nextafter(std::fabs(wanted), kInf) - std::fabs(wanted);
      const bool is_near = std::fabs(result - wanted) <= 2 * ulp;
      ASSERT_TRUE(std::isinf(wanted) ? result == wanted : is_near)
          << op_name(bounded.op) << " " << x;
      const auto x32 = static_cast<float>(x);
      const auto wanted32 = static_cast<float>(bounded.reference(x32));
      const float result32 = float_of(eval(bounded.op, DType::kF32, {bits_of(x32)}));
      if (std::isinf(wanted32)) {
        ASSERT_EQ(result32, wanted32);
        continue;
      }
      const float ulp32 =
          std::nextafter(std::fabs(wanted32), std::numeric_limits<float>::infinity()) -
          std::fabs(wanted32);
      ASSERT_LE(std::fabs(result32 - wanted32), ulp32) << op_name(bounded.op) << " " << x32;
    }
  }
}

TEST(EvalFloat, BoundedOpsHaveRightSpecialValues) {
  const uint64_t inf = 0x7c00;
  const uint64_t minus_inf = 0xfc00;
  const uint64_t nan = 0x7e00;
  const uint64_t one = 0x3c00;
  const auto f16 = [](Op op, uint64_t x) { return eval(op, DType::kF16, {x}); };
  EXPECT_EQ(f16(Op::kExp2, minus_inf), 0U);
  EXPECT_EQ(f16(Op::kExp2, inf), inf);
  EXPECT_EQ(f16(Op::kExp2, 0), one);
  EXPECT_EQ(f16(Op::kLog2, 0), minus_inf);
  EXPECT_EQ(f16(Op::kLog2, 0x8000), minus_inf);
  EXPECT_EQ(f16(Op::kLog2, 0xbc00), nan);
  EXPECT_EQ(f16(Op::kLog, inf), inf);
  EXPECT_EQ(f16(Op::kSin, inf), nan);
  EXPECT_EQ(f16(Op::kSin, 0x8000), 0x8000U);
  EXPECT_EQ(f16(Op::kCos, 0), one);
  EXPECT_EQ(f16(Op::kTanh, minus_inf), 0xbc00U);
  EXPECT_EQ(f16(Op::kSigmoid, minus_inf), 0U);
  EXPECT_EQ(f16(Op::kSigmoid, inf), one);
  EXPECT_EQ(f16(Op::kSigmoid, 0), 0x3800U);
  for (const Bounded& bounded : kBounded)
    EXPECT_EQ(f16(bounded.op, 0xfe01), nan) << op_name(bounded.op);
}

}  // namespace
}  // namespace tenon
