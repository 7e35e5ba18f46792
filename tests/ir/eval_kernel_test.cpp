// eval_kernel against plain loops written here: kernels and nests from tests/golden/kernel, and one
// small kernel for each rule of its meaning. SPDX-License-Identifier: MIT

#include "tenon/ir/eval_kernel.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "tests/ir/kernel_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::argument;
using testing::golden_kernel;
using testing::integers;
using testing::kPoison;
using testing::scalar_argument;

// y = max(a b + bias, 0), a (m,k), b (k,n)
std::vector<float> matmul_bias_relu(const std::vector<float>& a, const std::vector<float>& b,
                                    const std::vector<float>& bias, size_t m, size_t k, size_t n) {
  std::vector<float> y(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t q = 0; q < k; ++q)
        sum += a[i * k + q] * b[q * n + j];
      y[i * n + j] = std::max(sum + bias[j], 0.0F);
    }
  }
  return y;
}

void expect_matmul(const std::string& file, size_t m, size_t k, size_t n) {
  const Kernel kernel = golden_kernel(file);
  std::vector<float> a = integers(m * k, 1);
  std::vector<float> b = integers(k * n, 2);
  std::vector<float> bias = integers(n, 3);
  const std::vector<float> want = matmul_bias_relu(a, b, bias, m, k, n);
  ASSERT_GT(std::count(want.begin(), want.end(), 0.0F), 0);
  ASSERT_LT(std::count(want.begin(), want.end(), 0.0F), static_cast<int64_t>(m * n));
  for (const uint64_t seed : {0U, 1U, 2U, 77U}) {
    std::vector<float> y(m * n, kPoison);
    const std::array<KernelArgument, 4> arguments{argument(a), argument(b), argument(bias),
                                                  argument(y)};
    eval_kernel(kernel, arguments, seed);
    EXPECT_EQ(y, want) << file << " seed " << seed;
  }
}

TEST(EvalKernel, MatmulAsComps) {
  expect_matmul("matmul_bias_relu.tk", 13, 17, 11);
}

TEST(EvalKernel, MatmulNestWithStagingClampAndCarry) {
  expect_matmul("matmul_nest.tk", 22, 20, 32);
}

TEST(EvalKernel, MatmulNestWithLanes) {
  expect_matmul("matmul_lanes.tk", 16, 12, 16);
}

// Values whose exponentials differ much; the reference in f64, the bound for f32 sums of f32 terms.
void expect_softmax(const std::string& file, size_t rows, size_t cols) {
  const Kernel kernel = golden_kernel(file);
  std::vector<float> x(rows * cols);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((i * 7919) % 101) / 16.0F - 3.0F;
  std::vector<float> y(rows * cols, kPoison);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  eval_kernel(kernel, arguments, 5);
  for (size_t r = 0; r < rows; ++r) {
    const auto begin = x.begin() + static_cast<int64_t>(r * cols);
    const double highest = *std::max_element(begin, begin + static_cast<int64_t>(cols));
    double sum = 0;
    for (size_t c = 0; c < cols; ++c)
      sum += std::exp(x[r * cols + c] - highest);
    for (size_t c = 0; c < cols; ++c) {
      const double want = std::exp(x[r * cols + c] - highest) / sum;
      EXPECT_NEAR(y[r * cols + c], want, want * 1e-5) << file << " " << r << "," << c;
    }
  }
}

TEST(EvalKernel, SoftmaxAsComps) {
  expect_softmax("softmax.tk", 7, 50);
}

TEST(EvalKernel, SoftmaxNestWithTrimAndPeeledTail) {
  expect_softmax("softmax_nest.tk", 35, 104);
}

TEST(EvalKernel, SoftmaxNestWithLaneFolds) {
  expect_softmax("softmax_lanes.tk", 5, 50);
}

void run(const std::string& text, std::span<const KernelArgument> arguments, uint64_t seed = 0) {
  eval_kernel(parse_kernel(text, "test"), arguments, seed);
}

TEST(EvalKernel, GateGivesTheAlternativeWithoutTouchingMemory) {
  std::vector<float> x = integers(5, 4);
  std::vector<float> y(9, kPoison);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  run("kernel k { in x: f32[5] out y: f32[9] "
      "y[i] = x[i-2 if 2 <= i & i < 7 else -0.5] over i:9 }",
      arguments);
  for (size_t i = 0; i < 9; ++i)
    EXPECT_EQ(y[i], i >= 2 && i < 7 ? x[i - 2] : -0.5F) << i;
}

TEST(EvalKernel, GuardSkipsPoints) {
  std::vector<float> x = integers(5, 4);
  std::vector<float> y(8, kPoison);
  const std::array<KernelArgument, 3> arguments{argument(x), argument(y), scalar_argument(3)};
  run("kernel k { in x: f32[5] out y: f32[8] scalar n: i64 in 1..5 y[i] = x[i] over i:8 guard i < "
      "n "
      "}",
      arguments);
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(y[i], i < 3 ? x[i] : kPoison) << i;
}

TEST(EvalKernel, ReductionOfNothingIsItsStart) {
  std::vector<float> x = integers(12, 4);
  std::vector<float> y(3, kPoison);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  run("kernel k { in x: f32[3,4] out y: f32[3] y[r] += x[r,c] over r:3, c:4 red start 7 "
      "guard c + r < 2 }",
      arguments);
  EXPECT_EQ(y, (std::vector<float>{7 + x[0] + x[1], 7 + x[4], 7}));
}

TEST(EvalKernel, WithoutStartTheDestinationIsUpdated) {
  std::vector<float> x = integers(4, 9);
  std::vector<float> y{100, 200};
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  run("kernel k { in x: f32[2,2] inout y: f32[2] y[r] += x[r,c] over c:2 red, r:2 }", arguments);
  EXPECT_EQ(y, (std::vector<float>{100 + x[0] + x[1], 200 + x[2] + x[3]}));
}

TEST(EvalKernel, ScanStoresTheRunningValue) {
  std::vector<int32_t> x{3, -1, 4, 1, -5, 9};
  std::vector<int32_t> sums(6, 99);
  std::vector<int32_t> highest(6, 99);
  const std::array<KernelArgument, 3> arguments{argument(x), argument(sums), argument(highest)};
  run("kernel k { in x: i32[2,3] out s: i32[2,3] out h: i32[3,2] "
      "s[r,c] += x[r,c] over c:3 scan, r:2 start 0 "
      "h[c,r] max= x[r,c] over r, c start -100 }",
      arguments);
  EXPECT_EQ(sums, (std::vector<int32_t>{3, 2, 6, 1, -4, 5}));
  EXPECT_EQ(highest, (std::vector<int32_t>{3, 1, 3, 1, 4, 9}));
}

TEST(EvalKernel, LoopExtentsMayDependOnOuterAxesAndScalars) {
  std::vector<int32_t> y(16, -1);
  const std::array<KernelArgument, 2> arguments{argument(y), scalar_argument(3)};
  run("nest k grid() lanes() { out y: i32[4,4] scalar n: i64 in 0..4 "
      "for i:4 to n { for j:4 to i+1 { y[i,j] = i32(10*i + j) } } }",
      arguments);
  EXPECT_EQ(y,
            (std::vector<int32_t>{0, -1, -1, -1, 10, 11, -1, -1, 20, 21, 22, -1, -1, -1, -1, -1}));
}

TEST(EvalKernel, EachStatementRunsForAllLanesBeforeTheNext) {
  std::vector<int32_t> y(8, -1);
  const std::array<KernelArgument, 1> arguments{argument(y)};
  run("nest k grid(g:2) lanes(l:4) { out y: i32[2,4] alloc t: i32[4] group "
      "t[l] = i32(100*g + l)  barrier  y[g,l] = t[3-l] }",
      arguments, 3);
  EXPECT_EQ(y, (std::vector<int32_t>{3, 2, 1, 0, 103, 102, 101, 100}));
}

TEST(EvalKernel, BranchesOfLanesRunEachForItsLanes) {
  std::vector<int32_t> y(4, -1);
  const std::array<KernelArgument, 1> arguments{argument(y)};
  run("nest k grid() lanes(l:4) { out y: i32[4] alloc r: i32[] reg "
      "if l < 1 { r[] = 7 } else { r[] = i32(l) } y[l] = r[] * 2 }",
      arguments);
  EXPECT_EQ(y, (std::vector<int32_t>{14, 2, 4, 6}));
}

TEST(EvalKernel, AnAxisWithALaneRoleIsTheLaneNumber) {
  std::vector<int32_t> y(12, -1);
  const std::array<KernelArgument, 1> arguments{argument(y)};
  run("nest k grid() lanes(l:2, m:3) { out y: i32[3,4] "
      "y[q,2*j+l] = i32(10*q + l) over q:2 lane1, j:2 }",
      arguments);
  EXPECT_EQ(y, (std::vector<int32_t>{0, 1, 0, 1, 10, 11, 10, 11, -1, -1, -1, -1}));
}

// Rounding tells the trees apart: in f16, 2048 + 1 is 2048 and 2048 + 2 is exact.
TEST(EvalKernel, FoldsInTheFixedTree) {
  std::vector<float> x{16777216.0F, 1, 1, 1, 1};
  std::vector<float> y(1, kPoison);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  run("nest k grid() lanes() { in x: f32[5] out y: f32[1] alloc t: f32[5] reg alloc s: f32[] reg "
      "t[u] = x[u] over u:5 unroll  combine s = add t[u] over u  y[0] = s[] }",
      arguments);
  // h = 3: (x0 + x3) + ... : items x0+x3 = 2^24 (tie to even), x1+x4 = 2, x2; h = 2: 2^24 + 1, 2.
  EXPECT_EQ(y[0], 16777218.0F);
}

TEST(EvalKernel, FoldsUnrollThenVecThenLanes) {
  std::vector<float> y(4, kPoison);
  std::vector<float> x = integers(48, 8);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  run("nest k grid() lanes(l:2, m:2) { in x: f32[2,2,3,4] out y: f32[2,2] "
      "alloc t: f32[3,4] reg alloc s: f32[] reg alloc p: f32[4] group "
      "t[u,v] = x[l,m,u,v] * f32(u+1) over u:3 unroll, v:4 vec "
      "combine s = add t[u,v] over u, v, m via p  y[l,m] = s[] }",
      arguments);
  std::array<float, 2> want{};
  for (size_t i = 0; i < 48; ++i)
    want[i / 24] += x[i] * static_cast<float>(i / 4 % 3 + 1);
  EXPECT_EQ(y, (std::vector<float>{want[0], want[0], want[1], want[1]}));
}

TEST(EvalKernel, FoldKeepsTheAxesOfItsDestination) {
  std::vector<float> y(3, kPoison);
  std::vector<float> x = integers(12, 8);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  run("nest k grid() lanes() { in x: f32[3,4] out y: f32[3] alloc t: f32[3,4] reg "
      "alloc s: f32[3] reg t[i,v] = x[i,v] over i:3 unroll, v:4 vec "
      "combine s[i] = max t[i,v] over i, v  y[i] = s[i] over i }",
      arguments);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(y[i], *std::max_element(x.begin() + static_cast<int64_t>(4 * i),
                                      x.begin() + static_cast<int64_t>(4 * i + 4)));
}

TEST(EvalKernel, TmpMemoryIsPoisonedAtEachAlloc) {
  std::vector<float> y(2, 0.0F);
  const std::array<KernelArgument, 1> arguments{argument(y)};
  run("nest k grid() lanes() { out y: f32[2] for i:2 { alloc t: f32[2] reg "
      "if i == 0 { t[0] = 5 } y[i] = t[0] } }",
      arguments);
  EXPECT_EQ(y[0], 5.0F);
  EXPECT_TRUE(std::isnan(y[1]));
}

TEST(EvalKernel, LayoutsOnlyMoveElements) {
  std::vector<float> x = integers(96, 6);
  std::vector<float> y(96, kPoison);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  run("nest k grid() lanes() { in x: f32[8,12] out y: f32[8,12] "
      "alloc t: f32[n:12,k:8] group [n/4][k/4][n:2][k:2+3][n:2][k:2] "
      "t[j,i] = x[i,j] over i:8, j:12  y[i,j] = t[j,i] over i, j }",
      arguments);
  EXPECT_EQ(y, x);
}

TEST(EvalKernel, ArgumentsInALayoutOfTheirOwn) {
  std::vector<float> x = integers(20, 6);  // 3 rows of pitch 6, with 5 used
  std::vector<float> y(15, kPoison);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  run("kernel k { in x: f32[3,5] [d0][d1+1] out y: f32[3,5] y[i,j] = x[i,j] over i:3, j:5 }",
      arguments);
  for (size_t i = 0; i < 15; ++i)
    EXPECT_EQ(y[i], x[i / 5 * 6 + i % 5]);
}

TEST(EvalKernel, EveryFeatureOfTheText) {
  std::vector<float> x = integers(24, 11);
  std::vector<int32_t> ids{-2, 6, 7, 0, 5, 100, -100, 3};
  std::vector<uint16_t> h(24, 0x3c00);  // 1.0
  std::vector<float> y(48, kPoison);
  std::vector<float> total(24, kPoison);
  std::vector<uint8_t> flags(8, 0xaa);
  std::vector<int64_t> n64(8, -1);
  const std::array<KernelArgument, 8> arguments{argument(x),   argument(ids),     argument(h),
                                                argument(y),   argument(total),   argument(flags),
                                                argument(n64), scalar_argument(5)};
  eval_kernel(golden_kernel("features.tk"), arguments);
  for (size_t p = 0; p < 6; ++p) {
    for (size_t q = 0; q < 8; ++q) {
      const bool inside = p >= 1 && p < 5 && q >= 1 && q < 7;
      EXPECT_EQ(y[p * 8 + q], inside ? x[(p - 1) * 6 + q - 1] : -0.5F);
    }
  }
  for (size_t t = 0; t < 8; ++t) {
    const bool is_nan = t == 0;
    const bool want = is_nan != (ids[t] >> 1 == 3);
    EXPECT_EQ(flags[t], t < 5 ? (want ? 1 : 0) : 0xaa) << t;
    EXPECT_EQ(n64[t], ids[t] == -2 ? static_cast<int64_t>(t) * 3 : 0x7ff8000000000000) << t;
  }
}

TEST(EvalKernel, OutOfBoundsSaysWhere) {
  std::vector<float> x(5);
  std::vector<float> y(8);
  const std::array<KernelArgument, 2> arguments{argument(x), argument(y)};
  const std::string head = "kernel k { in xx: f32[5] out y: f32[8] ";
  EXPECT_ERROR(run(head + "y[ii] = xx[ii] over ii:8 }", arguments), ErrorCode::kInternal, "'k'",
               "read of 'xx'", "is 5", "0..4", "ii=5");
  EXPECT_ERROR(run(head + "y[ii-1] = xx[0] over ii:8 }", arguments), ErrorCode::kInternal,
               "write of 'y'", "is -1");
  EXPECT_ERROR(run(head + "xx[ii] = y[0] over ii:2 }", arguments), ErrorCode::kInternal, "input",
               "xx");
}

TEST(EvalKernel, IndexOverflowIsAnError) {
  std::vector<float> y(8);
  const std::array<KernelArgument, 1> arguments{argument(y)};
  EXPECT_ERROR(
      run("kernel k { out y: f32[8] y[(9223372036854775807 + i) % 8] = 0 over i:8 }", arguments),
      ErrorCode::kInternal, "add", "64 bits");
  EXPECT_ERROR(run("kernel k { out y: f32[8] y[i // (i-1)] = 0 over i:8 }", arguments),
               ErrorCode::kInternal, "floordiv");
}

TEST(EvalKernel, LanesMustAgreeOnBarriersAndFolds) {
  std::vector<float> y(4);
  const std::array<KernelArgument, 1> arguments{argument(y)};
  const std::string head = "nest k grid() lanes(l:4) { out y: f32[4] alloc t: f32[] reg ";
  EXPECT_ERROR(run(head + "if l < 2 { barrier } }", arguments), ErrorCode::kInternal, "barrier",
               "2 lanes of 4");
  EXPECT_ERROR(run(head + "t[] = 1 if l < 3 { combine t = add t over l } }", arguments),
               ErrorCode::kInternal, "fold", "3 of 4");
}

TEST(EvalKernel, ArgumentsAreChecked) {
  std::vector<float> y(7);
  const Kernel kernel =
      parse_kernel("kernel k { out y: f32[8] scalar n: i64 in 1..5 y[i] = 0 over i:8 }", "test");
  const std::array<KernelArgument, 1> few{argument(y)};
  EXPECT_ERROR(eval_kernel(kernel, few), ErrorCode::kInvalidArgument, "got 1", "expected 2");
  const std::array<KernelArgument, 2> small{argument(y), scalar_argument(1)};
  EXPECT_ERROR(eval_kernel(kernel, small), ErrorCode::kInvalidArgument, "'y'", "28", "32");
  std::vector<float> enough(8);
  const std::array<KernelArgument, 2> outside{argument(enough), scalar_argument(6)};
  EXPECT_ERROR(eval_kernel(kernel, outside), ErrorCode::kInvalidArgument, "'n'", "6", "1..5");
}

}  // namespace
}  // namespace tenon
