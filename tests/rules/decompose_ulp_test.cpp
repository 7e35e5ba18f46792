// The bounded class in f32: measured errors of the decompositions against references of wider
// floats, over samples of every exponent, special values and the neighbours of hard cases, with and
// without a fused mulacc. DISABLED_ tests sweep all 2^32 inputs (--gtest_also_run_disabled_tests).
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <quadmath.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tenon/rules/decompose.h"
#include "tests/rules/expr_evaluator.h"
#include "tests/rules/test_targets.h"

namespace tenon {
namespace {

struct Case {
  Op op;
  double (*reference)(double);     // errors below 2^-50
  __float128 (*quad)(__float128);  // checks the reference
};

double sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
__float128 exp2_quad(__float128 x) {
  return powq(2, x);
}
__float128 sigmoid_quad(__float128 x) {
  return 1 / (1 + expq(-x));
}

const Case kCases[] = {
    {Op::kExp2, std::exp2, exp2_quad},
    {Op::kExp, std::exp, expq},
    {Op::kLog2, std::log2, log2q},
    {Op::kLog, std::log, logq},
    {Op::kSin, std::sin, sinq},
    {Op::kCos, std::cos, cosq},
    {Op::kTan, std::tan, tanq},
    {Op::kTanh, std::tanh, tanhq},
    {Op::kSigmoid, sigmoid, sigmoid_quad},
};

float as_float(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

// Spacing of f32 where the value lies.
double spacing(double value) {
  const double size = std::abs(value);
  if (size < 0x1p-126) return 0x1p-149;
  if (size >= 0x1p128) return 0x1p104;
  return std::ldexp(1.0, std::ilogb(size) - 23);
}

// Units in the last place between a result and its reference; infinite where kinds differ.
double ulp_error(float got, double reference) {
  if (std::isnan(reference) || std::isnan(got)) {
    return std::isnan(reference) && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  }
  // Infinity stands for 2^128: reached by every value that rounds to it.
  const auto limited = [](double value) { return std::max(-0x1p128, std::min(0x1p128, value)); };
  return std::abs(limited(got) - limited(reference)) / spacing(limited(reference));
}

std::vector<ScalarBits> special_inputs() {
  std::vector<ScalarBits> inputs;
  const auto add_around = [&](uint32_t bits) {
    for (uint32_t step = 0; step < 9; ++step) {
      inputs.push_back(bits - 4 + step);
      inputs.push_back((bits - 4 + step) ^ 0x80000000U);
    }
  };
  for (uint32_t exponent = 0; exponent < 256; ++exponent)
    add_around(exponent << 23);
  for (float value : {0.55F, 0.70710677F, 1.4142135F, 88.72284F, 87.33655F, 103.97208F, 104.0F,
                      9.010913F, 10.0F, 150.0F, 151.0F, 127.5F, 128.0F, 16.635532F, 0.7853982F}) {
    add_around(std::bit_cast<uint32_t>(value));
  }
  for (int i = 0; i < 2000; ++i)
    inputs.push_back(std::bit_cast<uint32_t>(static_cast<float>(i) - 1000));
  // The neighbours of multiples of pi/2, and of the f32 that lies nearest to one (J.-M. Muller,
  // "Elementary Functions", 3rd edition, 2016, table 11.1: 16367173 * 2^72).
  for (int k = 1; k < 4000; ++k)
    add_around(std::bit_cast<uint32_t>(static_cast<float>(k * 1.5707963267948966)));
  add_around(std::bit_cast<uint32_t>(std::ldexp(16367173.0F, 72)));
  return inputs;
}

// One input of every 2^32 / count neighbours, at a random place among them.
std::vector<ScalarBits> sample_inputs(size_t count) {
  std::mt19937 random(12345);
  std::vector<ScalarBits> inputs = special_inputs();
  const uint64_t step = (uint64_t{1} << 32) / count;
  for (uint64_t i = 0; i < count; ++i)
    inputs.push_back(i * step + random() % step);
  return inputs;
}

struct Measured {
  double max_ulp = 0;
  float worst = 0;
};

std::vector<double> references_of(const Case& test, const std::vector<ScalarBits>& inputs) {
  std::vector<double> references;
  for (const ScalarBits bits : inputs)
    references.push_back(test.reference(as_float(bits)));
  return references;
}

void measure(const ExprEvaluator& evaluator, const std::vector<ScalarBits>& inputs,
             const std::vector<double>& references, Measured& measured) {
  const std::vector<ScalarBits> results = evaluator.run(std::span(&inputs, 1));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double error = ulp_error(as_float(results[i]), references[i]);
    if (error > measured.max_ulp) measured = {error, as_float(inputs[i])};
  }
}

ExprEvaluator evaluator_of(Op op, bool fuses) {
  const Node x = unknown(0, DType::kF32);
  const Target target = fuses ? avx512_target() : baseline_target();
  const Node expr = decompose_expr(make_expr(op, x), target);
  return ExprEvaluator(expr, std::span(&x, 1), fuses);
}

class DecomposeUlp : public testing::TestWithParam<Case> {};

TEST_P(DecomposeUlp, StaysWithinTheDeclaredBound) {
  const Case& test = GetParam();
  static const std::vector<ScalarBits> inputs = sample_inputs(size_t{1} << 20);
  const std::vector<double> references = references_of(test, inputs);
  const Node x = unknown(0, DType::kF32);
  const Node expr = decompose_expr(make_expr(test.op, x), baseline_target());
  for (bool fuses : {false, true}) {
    Measured measured;
    measure(evaluator_of(test.op, fuses), inputs, references, measured);
    std::printf("%-8s %-7s max %.3f ulp at %a, bound %.1f, %d ops\n", op_name(test.op).data(),
                fuses ? "fused" : "unfused", measured.max_ulp, measured.worst, bounded_ulp(test.op),
                static_cast<int>(count_ops(expr)));
    EXPECT_LE(measured.max_ulp, bounded_ulp(test.op)) << "at " << measured.worst;
  }
}

TEST_P(DecomposeUlp, ReferenceAgreesWithQuadPrecision) {
  const Case& test = GetParam();
  for (ScalarBits bits : sample_inputs(4096)) {
    const float x = as_float(bits);
    const __float128 exact = test.quad(x);
    const double reference = test.reference(x);
    if (std::isnan(reference)) {
      EXPECT_TRUE(isnanq(exact)) << x;
    } else if (!std::isinf(reference) && std::abs(reference) > 0x1p-160) {
      EXPECT_LE(std::abs(static_cast<double>((exact - reference) / exact)), 0x1p-50) << x;
    }
  }
}

TEST_P(DecomposeUlp, PlainLoopsAgreeWithTheTable) {
  const Node x = unknown(0, DType::kF32);
  for (bool fuses : {false, true}) {
    const Target target = fuses ? avx512_target() : baseline_target();
    const Node expr = decompose_expr(make_expr(GetParam().op, x), target);
    const std::vector<ScalarBits> inputs = sample_inputs(1024);
    const ExprEvaluator fast(expr, std::span(&x, 1), fuses);
    const ExprEvaluator table(expr, std::span(&x, 1), fuses, true);
    EXPECT_EQ(fast.run(std::span(&inputs, 1)), table.run(std::span(&inputs, 1)));
  }
}

TEST_P(DecomposeUlp, DISABLED_EveryInputStaysWithinTheBound) {
  const Case& test = GetParam();
  const ExprEvaluator evaluators[] = {evaluator_of(test.op, false), evaluator_of(test.op, true)};
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::array<Measured, 2> all;
  // All threads take blocks of inputs; a reference serves both forms.
  const auto work = [&] {
    std::array<Measured, 2> own;
    std::vector<ScalarBits> inputs(size_t{1} << 14);
    std::vector<double> references(inputs.size());
    for (;;) {
      const uint64_t start = next.fetch_add(inputs.size());
      if (start >= uint64_t{1} << 32) break;
      for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i] = start + i;
        references[i] = test.reference(as_float(inputs[i]));
      }
      for (size_t form = 0; form < own.size(); ++form)
        measure(evaluators[form], inputs, references, own[form]);
    }
    const std::lock_guard lock(mutex);
    for (size_t form = 0; form < own.size(); ++form) {
      if (own[form].max_ulp > all[form].max_ulp) all[form] = own[form];
    }
  };
  {
    std::vector<std::jthread> threads(std::max(1U, std::thread::hardware_concurrency()));
    for (std::jthread& thread : threads)
      thread = std::jthread(work);
  }
  for (size_t form = 0; form < all.size(); ++form) {
    std::printf("%-8s %-7s max %.4f ulp at %a over all 2^32\n", op_name(test.op).data(),
                form == 1 ? "fused" : "unfused", all[form].max_ulp, all[form].worst);
    EXPECT_LE(all[form].max_ulp, bounded_ulp(test.op)) << "at " << all[form].worst;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, DecomposeUlp, testing::ValuesIn(kCases), [](const auto& instance) {
  return std::string(op_name(instance.param.op));
});

// --- special values -----------------------------------------------------------------------------

float eval(Op op, float x, bool fuses) {
  const ScalarBits bits = std::bit_cast<uint32_t>(x);
  return as_float(evaluator_of(op, fuses).at(std::span(&bits, 1)));
}

struct Expected {
  Op op;
  float x;
  float y;
};

TEST(DecomposeSpecial, ValuesAreExact) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Expected rows[] = {
      {Op::kExp, -kInf, 0},
      {Op::kExp, kInf, kInf},
      {Op::kExp, 89, kInf},
      {Op::kExp, -104, 0},
      {Op::kExp, 0, 1},
      {Op::kExp, -0.0F, 1},
      {Op::kExp, nan, nan},
      {Op::kExp2, -kInf, 0},
      {Op::kExp2, kInf, kInf},
      {Op::kExp2, -150, 0},
      {Op::kExp2, nan, nan},
      {Op::kLog, 0, -kInf},
      {Op::kLog, -0.0F, -kInf},
      {Op::kLog, -1, nan},
      {Op::kLog, kInf, kInf},
      {Op::kLog, -kInf, nan},
      {Op::kLog, nan, nan},
      {Op::kLog, 1, 0},
      {Op::kLog2, 0, -kInf},
      {Op::kLog2, -0.0F, -kInf},
      {Op::kLog2, -0x1p-149F, nan},
      {Op::kLog2, kInf, kInf},
      {Op::kLog2, nan, nan},
      {Op::kLog2, 1, 0},
      {Op::kSin, kInf, nan},
      {Op::kSin, -kInf, nan},
      {Op::kSin, nan, nan},
      {Op::kSin, 0, 0},
      {Op::kSin, -0.0F, -0.0F},
      {Op::kSin, 0x1p-149F, 0x1p-149F},
      {Op::kCos, kInf, nan},
      {Op::kCos, nan, nan},
      {Op::kCos, 0, 1},
      {Op::kCos, -0.0F, 1},
      {Op::kTan, kInf, nan},
      {Op::kTan, -0.0F, -0.0F},
      {Op::kTan, -0x1p-149F, -0x1p-149F},
      {Op::kTan, nan, nan},
      {Op::kTanh, kInf, 1},
      {Op::kTanh, -kInf, -1},
      {Op::kTanh, 3e38F, 1},
      {Op::kTanh, -0.0F, -0.0F},
      {Op::kTanh, 0x1p-149F, 0x1p-149F},
      {Op::kTanh, nan, nan},
      {Op::kSigmoid, kInf, 1},
      {Op::kSigmoid, -kInf, 0},
      {Op::kSigmoid, 0, 0.5F},
      {Op::kSigmoid, nan, nan},
  };
  for (bool fuses : {false, true}) {
    for (const Expected& row : rows) {
      const float got = eval(row.op, row.x, fuses);
      if (std::isnan(row.y)) {
        EXPECT_TRUE(std::isnan(got)) << op_name(row.op) << " " << row.x << " gives " << got;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(row.y))
            << op_name(row.op) << " " << row.x << " gives " << got;
      }
    }
    for (int n = -149; n < 128; ++n) {
      const float power = std::ldexp(1.0F, n);
      EXPECT_EQ(eval(Op::kExp2, static_cast<float>(n), fuses), power) << n;
      EXPECT_EQ(eval(Op::kLog2, power, fuses), static_cast<float>(n)) << n;
    }
  }
}

}  // namespace
}  // namespace tenon
