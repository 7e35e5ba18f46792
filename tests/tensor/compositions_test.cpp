// saturate_cast, interpolate, conv_transpose2d, logaddexp and logcumsumexp: values worked out from
// their definitions, and errors. More of conv_transpose2d: tests/webnn.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tenon/rules/decompose.h"
#include "tenon/tensor/cast.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"
#include "tenon/tensor/resize.h"
#include "tests/support/expect_error.h"
#include "tests/support/tolerance.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(SaturateCast, StopsAtTheEndsOfTheDType) {
  const Tensor ints({300, -300, 127, -128, 255, 0});
  EXPECT_EQ(saturate_cast(ints, DType::kI8).to_vector<int8_t>(),
            (std::vector<int8_t>{127, -128, 127, -128, 127, 0}));
  EXPECT_EQ(saturate_cast(ints, DType::kU8).to_vector<uint8_t>(),
            (std::vector<uint8_t>{255, 0, 127, 0, 255, 0}));
  EXPECT_EQ(saturate_cast(ints, DType::kU64).to_vector<uint64_t>(),
            (std::vector<uint64_t>{300, 0, 127, 0, 255, 0}));
  const Tensor large({INT64_MAX, INT64_MIN, int64_t{65504}, int64_t{-70000}});
  EXPECT_EQ(saturate_cast(large, DType::kF16).astype(DType::kF32).to_vector<float>(),
            (std::vector<float>{65504, -65504, 65504, -65504}));
  EXPECT_EQ(
      saturate_cast(Tensor({uint64_t{1} << 63, uint64_t{5}}), DType::kI32).to_vector<int32_t>(),
      (std::vector<int32_t>{INT32_MAX, 5}));
}

TEST(SaturateCast, KeepsNanAndMakesInfinitiesFinite) {
  const Tensor x({kInf, -kInf, 1e9F, -1e9F, kNan, 1.5F});
  const auto narrow = [&](DType dtype) {
    return saturate_cast(x, dtype).astype(DType::kF32).to_vector<float>();
  };
  for (const auto& [dtype, most] :
       {std::pair{DType::kF8E4M3, 448.0F}, {DType::kF8E5M2, 57344.0F}, {DType::kF16, 65504.0F}}) {
    const auto got = narrow(dtype);
    EXPECT_EQ((std::vector<float>{got[0], got[1], got[2], got[3], got[5]}),
              (std::vector<float>{most, -most, most, -most, 1.5F}));
    EXPECT_TRUE(std::isnan(got[4]));
  }
  // float16 reaches less far than float32: nothing to stop.
  EXPECT_EQ(saturate_cast(x.astype(DType::kF16), DType::kF32).to_vector<float>()[0], kInf);
}

TEST(Interpolate, KeepsBitsOfTheNearest) {
  const Tensor x = Tensor::from_data(std::vector<float>{-0.0F, kInf, 2, kNan}, {4, 1});
  const auto got = interpolate(x, {{0, 8}}).to_vector<float>();
  EXPECT_TRUE(std::signbit(got[0]) && std::signbit(got[1]));
  EXPECT_EQ(got[2], kInf);
  EXPECT_EQ(got[5], 2);
  EXPECT_TRUE(std::isnan(got[7]));
  EXPECT_EQ(interpolate(Tensor({true, false}), {{0, 3}}).to_vector<bool>(),
            (std::vector<bool>{true, true, false}));
}

TEST(Interpolate, LinearWeighsTheTwoAround) {
  const Tensor x({0.0F, 4.0F});
  EXPECT_EQ(interpolate(x, {{0, 4}}, Interpolation::kLinear).to_vector<float>(),
            (std::vector<float>{0, 1, 3, 4}));
  EXPECT_EQ(interpolate(Tensor({1, 2, 3, 4}), {{0, 2}}, Interpolation::kLinear).to_vector<float>(),
            (std::vector<float>{1.5F, 3.5F}));
  // What has weight 0 does not count.
  EXPECT_EQ(
      interpolate(Tensor({5.0F, kInf, 7.0F}), {{0, 3}}, Interpolation::kLinear).to_vector<float>(),
      (std::vector<float>{5, kInf, 7}));
  EXPECT_ERROR(interpolate(x, {{0, 0}}), kInvalid, "axis 0", "to size 0");
}

TEST(ConvTranspose2d, IsTheGradientOfConv2d) {
  // <conv2d(x), y> == <x, conv_transpose2d(y)> for every x and y, in exact integers.
  const Tensor x = (arange(1 * 4 * 7 * 6) % 11 - 5).reshape({1, 4, 7, 6});
  const Tensor weight = (arange(6 * 2 * 3 * 2) % 7 - 3).reshape({6, 2, 3, 2});
  const Conv2dOptions forward{.stride = {2, 3},
                              .padding = {Pair{1, 0}, Pair{2, 1}},
                              .dilation = {1, 2},
                              .groups = 2,
                              .bias = std::nullopt};
  const Tensor out = conv2d(x, weight, forward);
  const Tensor y = (arange(out.size()) % 5 - 2).reshape(out.shape());
  ConvTranspose2dOptions back{.stride = {2, 3},
                              .padding = {Pair{1, 0}, Pair{2, 1}},
                              .output_padding = {0, 0},
                              .dilation = {1, 2},
                              .groups = 2,
                              .bias = std::nullopt};
  const Tensor least = conv_transpose2d(y, weight, back);
  back.output_padding = {7 - least.dim(2), 6 - least.dim(3)};
  const Tensor gradient = conv_transpose2d(y, weight, back);
  EXPECT_EQ(gradient.shape(), x.shape());
  EXPECT_EQ((out * y).sum().item<int64_t>(), (x * gradient).sum().item<int64_t>());
  EXPECT_ERROR(conv_transpose2d(x, weight, back), kInvalid, "channels differ", "(1,4,7,6)");
  back.groups = 4;
  EXPECT_ERROR(conv_transpose2d(y, weight, back), kInvalid, "6 channels", "4 groups");
  back.groups = 2;
  back.padding[0] = {50, 50};
  EXPECT_ERROR(conv_transpose2d(y, weight, back), kInvalid, "cuts off", "axis 2");
  back.padding[0] = {-1, 0};
  EXPECT_ERROR(conv_transpose2d(y, weight, back), kInvalid, "padding", "0 or more");
  back.stride = {0, 1};
  EXPECT_ERROR(conv_transpose2d(y, weight, back), kInvalid, "stride", "1 or more");
  EXPECT_ERROR(conv_transpose2d(y.flatten(), weight, back), kInvalid, "expected (N,C,H,W)");
}

TEST(LogCumSumExp, SumsWhatLiesBefore) {
  std::vector<float> values;
  for (int i = 0; i < 37; ++i)
    values.push_back(static_cast<float>(100 * std::sin(i)));
  const auto got = logcumsumexp(Tensor::from_data(values, {37})).to_vector<float>();
  double sum = 0;
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += std::exp(static_cast<double>(values[i]));
    largest = std::max(largest, std::abs(static_cast<double>(values[i])));
    // Six rounds to 37 of top + log(exp(a - top) + exp(b - top)). What a and b are off by counts by
    // their weight, so does the difference d (at most 0.28 = max of d * exp(-d) / (1 + exp(-d))),
    // exp and the sum; log is at most ln 2; the result is no larger than the largest + log(i + 1).
    const double result = largest + std::log(static_cast<double>(i) + 1);
    const double err = 6 * (0.28 + 2 * bounded_ulp(Op::kExp) + 1 +
                            2 * bounded_ulp(Op::kLog) * std::numbers::ln2 + result);
    const double expected = std::log(sum);
    EXPECT_NEAR(got[i], expected, testing::allowed_error(DType::kF32, err, expected)) << i;
  }
  const Tensor x({{-kInf, 0.0F}, {-kInf, kInf}});
  EXPECT_EQ(logcumsumexp(x, 0).to_vector<float>(), (std::vector<float>{-kInf, 0, -kInf, kInf}));
  EXPECT_EQ(logaddexp(x, x.flip(1)).to_vector<float>(), (std::vector<float>{0, 0, kInf, kInf}));
}

}  // namespace
}  // namespace tenon
