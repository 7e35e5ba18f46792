// The programs of tests/tir, executed and compared with plain loops. They show that the linear
// level can say what code generation must: packing, register tiles, masks, trees, shuffles.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cmath>

#include "tenon/ir/linear_verify.h"
#include "tests/ir/linear_support.h"

namespace tenon {
namespace {

using testing::buffer_argument;
using testing::poisoned;
using testing::tir_program;
using testing::tir_text;

// Small whole numbers, so that sums of products are exact in f32 in any order.
std::vector<float> whole_numbers(size_t count, int64_t multiplier) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int64_t>(i) * multiplier % 23 - 11);
  }
  return values;
}

void run(const LinearProgram& program, std::vector<std::vector<float>*> buffers,
         const EvalLinearOptions& options = {}) {
  std::vector<ArgumentValue> arguments;
  for (std::vector<float>* buffer : buffers) {
    arguments.push_back(buffer_argument(DType::kF32, *buffer));
  }
  eval_linear(program, arguments, options);
}

const EvalLinearOptions kAllOptions[] = {
    {},
    {.fused_mulacc = true},
    {.reverse_groups = true},
    {.reverse_lanes = true},
};

TEST(LinearPrograms, FollowTheRules) {
  for (const std::string& name : testing::tir_files()) {
    EXPECT_EQ(verify_linear(tir_program(name)), std::vector<std::string>()) << name;
  }
}

TEST(LinearPrograms, MatmulWithPackedPanelsAndTailsIsExact) {
  constexpr int M = 31, N = 100, K = 70;
  std::vector<float> a = whole_numbers(M * K, 7);
  std::vector<float> b = whole_numbers(K * N, 5);
  std::vector<float> bias = whole_numbers(N, 3);
  int num_positive = 0;
  for (const EvalLinearOptions& options : kAllOptions) {
    std::vector<float> y = poisoned<float>(M * N + 16);  // the last 16 must stay as they are
    const std::vector<float> before = y;
    run(tir_program("matmul.tir"), {&a, &b, &bias, &y}, options);
    for (int m = 0; m < M; ++m) {
      for (int n = 0; n < N; ++n) {
        int64_t sum = static_cast<int64_t>(bias[static_cast<size_t>(n)]);
        for (int k = 0; k < K; ++k) {
          sum += static_cast<int64_t>(a[static_cast<size_t>(m * K + k)]) *
                 static_cast<int64_t>(b[static_cast<size_t>(k * N + n)]);
        }
        const auto expected = static_cast<float>(std::max<int64_t>(sum, 0));
        ASSERT_EQ(y[static_cast<size_t>(m * N + n)], expected) << m << "," << n;
        num_positive += sum > 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(std::memcmp(&y[M * N], &before[M * N], 16 * sizeof(float)), 0);
  }
  EXPECT_GT(num_positive, M * N);      // of 4 * M * N: the relu neither idles
  EXPECT_LT(num_positive, 3 * M * N);  // nor takes all
}

TEST(LinearPrograms, SoftmaxIsWithinItsBound) {
  constexpr int R = 7, C = 100;
  std::vector<float> x(R * C);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 9.0F * std::sin(static_cast<float>(i) * 0.731F) + static_cast<float>(i / C) * 40;
  }
  for (const bool fused : {false, true}) {
    std::vector<float> y = poisoned<float>(R * C);
    run(tir_program("softmax.tir"), {&x, &y}, {.fused_mulacc = fused});
    for (size_t r = 0; r < R; ++r) {
      double largest = -1e30;
      for (size_t c = 0; c < C; ++c)
        largest = std::max(largest, double{x[r * C + c]});
      double sum = 0;
      for (size_t c = 0; c < C; ++c)
        sum += std::exp(double{x[r * C + c]} - largest);
      for (size_t c = 0; c < C; ++c) {
        const double distance = largest - double{x[r * C + c]};
        const double expected = std::exp(-distance) / sum;
        // Polynomial, scaling, the sum of 100 terms and the division: 8 ulp; and x - m is rounded
        // once, an absolute error that exp makes a relative one.
        const double bound = 8 * 0x1p-23 + distance * 0x1p-24;
        ASSERT_NEAR(y[r * C + c], expected, bound * expected) << r << "," << c;
      }
    }
  }
}

TEST(LinearPrograms, TransposeMovesEveryBit) {
  constexpr size_t R = 37, C = 50;
  std::vector<uint32_t> x(R * C);  // bit patterns, NaNs with payloads among them
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<uint32_t>(i * 2654435761U + 0x7f800001U);
  std::vector<uint32_t> y = poisoned<uint32_t>(R * C);
  const ArgumentValue arguments[] = {buffer_argument(DType::kF32, x),
                                     buffer_argument(DType::kF32, y)};
  eval_linear(tir_program("transpose.tir"), arguments);
  for (size_t r = 0; r < R; ++r) {
    for (size_t c = 0; c < C; ++c)
      ASSERT_EQ(y[c * R + r], x[r * C + c]) << r << "," << c;
  }
}

std::vector<float> tree_sums(const std::vector<float>& x) {
  std::vector<float> sums;
  for (size_t g = 0; g < 5; ++g) {
    std::vector<float> part(256, 0.0F);
    for (size_t c = 0; c < 1000; ++c)
      part[c % 256] += x[g * 1000 + c];
    for (size_t half = 128; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i)
        part[i] += part[i + half];
    }
    sums.push_back(part[0]);
  }
  return sums;
}

std::vector<float> unequal_floats(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i)) * 1000.0F;
  return values;
}

TEST(LinearPrograms, TreeSumAddsInTheSpecifiedOrder) {
  std::vector<float> x = unequal_floats(5000);
  for (const EvalLinearOptions& options : kAllOptions) {
    std::vector<float> y = poisoned<float>(5);
    run(tir_program("tree_sum.tir"), {&x, &y}, options);
    EXPECT_EQ(y, tree_sums(x));  // bit-equal: the order is part of the meaning
  }
}

TEST(LinearPrograms, AMissingBarrierShowsInOneOrderOfLanes) {
  const std::string text = tir_text("tree_sum.tir");
  for (const std::string_view barrier : {"\n  barrier", "\n    barrier"}) {
    const size_t at = text.find(barrier);  // before the loop, and with four spaces inside it
    ASSERT_NE(at, std::string::npos);
    std::string broken = text;
    broken.erase(at, barrier.size());
    std::vector<float> x = unequal_floats(5000);
    bool is_noticed = false;
    for (const bool reverse : {false, true}) {
      std::vector<float> y = poisoned<float>(5);
      run(parse_linear(broken), {&x, &y}, {.reverse_lanes = reverse});
      is_noticed = is_noticed || y != tree_sums(x);
    }
    EXPECT_TRUE(is_noticed) << barrier;
  }
}

}  // namespace
}  // namespace tenon
