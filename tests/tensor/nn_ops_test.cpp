// Softmax, norms, convolution and pooling against NumPy loops, and their errors.
// SPDX-License-Identifier: MIT

#include "tenon/tensor/nn_ops.h"

#include <limits>
#include <numbers>

#include "tenon/ir/eval_op.h"
#include "tenon/rules/decompose.h"
#include "tenon/tensor/creation.h"
#include "tests/support/expect_error.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

using testing::Array;
using testing::array_of;
using testing::expect_array;
using testing::expect_near;
using testing::expect_table;
using testing::table_tensor;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Softmax, AsNumpy) {
  const Tensor x = table_tensor("x");
  expect_table(softmax(x), "x_softmax");
  expect_table(softmax(x, 0), "x_softmax_0");
  expect_table(log_softmax(x, 1), "x_log_softmax");
  expect_table(logsumexp(x, {0, 2}), "x_logsumexp");
  EXPECT_EQ(logsumexp(x, {0, 2}, true).shape(), (Shape{1, 4, 1}));
  EXPECT_EQ(logsumexp(x).shape(), Shape{});
  EXPECT_EQ(softmax(x.astype(DType::kF16)).dtype(), DType::kF16);
  EXPECT_EQ(softmax(Tensor({1, 2})).dtype(), DType::kF32);
  EXPECT_ERROR(softmax(x, 3), kInvalid, "axis 3", "(3,4,5)");
}

TEST(Softmax, InfinitiesHaveWeightZero) {
  const Tensor x = Tensor({{0.0, -kInf, -kInf}, {1.0, 1.0, -kInf}}).astype(DType::kF32);
  const double exp_err = 2 * bounded_ulp(Op::kExp);
  const double log_err = 2 * bounded_ulp(Op::kLog);
  const double ln2 = std::numbers::ln2;
  // Two exps of 0, a sum of what is not 0, reciprocal, product: of 0.5, and of 1 without a sum.
  const double half = 0.5 * (2 * exp_err + 3);
  expect_near(softmax(x), array_of({2, 3}, {1.0, 0.0, 0.0, 0.5, 0.5, 0.0}),
              {2 * half, 0, 0, half, half, 0});
  // An error of the sum moves the log as it is, those of log and of the difference by ln 2.
  const double log_of_2 = exp_err + 1 + (log_err + 1) * ln2;
  expect_near(log_softmax(x), array_of({2, 3}, {0.0, -kInf, -kInf, -ln2, -ln2, -kInf}),
              {exp_err, 0, 0, log_of_2, log_of_2, 0});
  const Tensor a = Tensor({{-kInf, -kInf}, {kInf, 0.0}, {1000.0, 1000.0}}).astype(DType::kF32);
  expect_near(logsumexp(a, 1), array_of({3}, {-kInf, kInf, 1000 + ln2}), {0, 0, 1000 + log_of_2});
}

TEST(Norm, AsNumpy) {
  const Tensor x = table_tensor("x");
  const Tensor g = table_tensor("g");
  const Tensor h = table_tensor("h");
  expect_table(layernorm(x, {.weight = g, .bias = h}), "x_layernorm");
  expect_table(layernorm(x, {.eps = 1e-3, .num_axes = 2}), "x_layernorm2");
  expect_table(rmsnorm(x, {.weight = g}), "x_rmsnorm");
  EXPECT_ERROR(layernorm(x, {.weight = zeros({4})}), kInvalid, "(4)", "(5)");
  EXPECT_ERROR(layernorm(x, {.num_axes = 4}), kInvalid, "layernorm", "(3,4,5)");
  EXPECT_ERROR(rmsnorm(x, {.bias = h}), kInvalid, "rmsnorm", "bias");
}

TEST(OneHot, ComparesInFullWidth) {
  const Tensor labels({uint8_t{4}, uint8_t{255}, uint8_t{0}});
  const Tensor hot = one_hot(labels, 300, DType::kI32);
  EXPECT_EQ(hot.shape(), (Shape{3, 300}));
  expect_array(hot.sum(1, {.keepdims = false, .dtype = DType::kI32}), array_of({3}, {1, 1, 1}));
  expect_array(hot.argmax(1), array_of<int64_t>({3}, {4, 255, 0}));
  expect_array(one_hot(Tensor({1, -1, 3}), 3),
               array_of({3, 3}, {0.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F}));
  EXPECT_ERROR(one_hot(Tensor({1.0F}), 3), kInvalid, "one_hot", "float32");
  EXPECT_ERROR(one_hot(labels, 0), kInvalid, "num_classes", "(3)");
}

TEST(Conv2d, AsLoops) {
  const Tensor image = table_tensor("image");
  expect_table(conv2d(image, table_tensor("kernel")), "conv_plain");
  const Conv2dOptions options{.stride = {2, 1},
                              .padding = {{{1, 0}, {2, 3}}},
                              .dilation = {2, 2},
                              .groups = 2,
                              .bias = table_tensor("bias")};
  expect_table(conv2d(image, table_tensor("grouped"), options), "conv_full");
}

TEST(Conv2d, NarrowFloatsComputeInFloat32) {
  // Sums of 64 * 64 products that f32 holds exactly: near 16,000, where f16 has steps of 8.
  std::vector<double> image;
  for (int64_t i = 0; i < 64 * 9 * 8; ++i)
    image.push_back(static_cast<double>(37 * i % 31) / 8);
  std::vector<double> weights;
  for (int64_t i = 0; i < 2 * 64 * 64; ++i)
    weights.push_back(static_cast<double>(11 * i % 5));
  Array expected{DType::kF16, {1, 2, 2, 1}, {}};
  for (size_t channel = 0; channel < 2; ++channel) {
    for (size_t row = 0; row < 2; ++row) {
      double sum = 0;
      for (size_t i = 0; i < 64 * 64; ++i)
        sum += image[i / 64 * 72 + 8 * row + i % 64] * weights[channel * 64 * 64 + i];
      expected.bits.push_back(double_to_float(sum, DType::kF16));
    }
  }
  const TensorOptions f16{.dtype = DType::kF16, .device = nullptr};
  expect_array(conv2d(Tensor::from_data(image, {1, 64, 9, 8}, f16),
                      Tensor::from_data(weights, {2, 64, 8, 8}, f16)),
               expected);
}

TEST(Conv2d, ErrorsNameBothShapes) {
  const Tensor x = zeros({1, 4, 5, 5});
  EXPECT_ERROR(conv2d(x, zeros({2, 3, 3, 3})), kInvalid, "(1,4,5,5)", "(2,3,3,3)");
  EXPECT_ERROR(conv2d(x, zeros({3, 2, 3, 3}), {.groups = 2}), kInvalid, "groups", "(3,2,3,3)");
  EXPECT_ERROR(conv2d(x, zeros({2, 4, 6, 1})), kInvalid, "does not fit", "(2,4,6,1)");
  EXPECT_ERROR(conv2d(x, zeros({4, 3})), kInvalid, "(N,C,H,W)", "(4,3)");
  EXPECT_ERROR(conv2d(x, zeros({2, 4, 3, 3}), {.stride = {0, 1}}), kInvalid, "stride", "(0,1)");
  EXPECT_ERROR(conv2d(x, zeros({2, 4, 3, 3}), {.dilation = {1, 0}}), kInvalid, "dilation", "(1,0)");
  EXPECT_ERROR(conv2d(x, zeros({2, 4, 3, 3}), {.padding = {{{-1, 0}, {0, 0}}}}), kInvalid,
               "padding", "(-1,0)");
  EXPECT_ERROR(conv2d(x, zeros({2, 4, 3, 3}), {.bias = zeros({3})}), kInvalid, "bias", "(3)");
  EXPECT_ERROR(conv2d(x == 0, zeros({2, 4, 3, 3}) == 0), kInvalid, "conv2d", "bool");
}

TEST(Pool2d, AsLoops) {
  const Tensor image = table_tensor("image");
  expect_table(max_pool2d(image, {2, 3}), "pool_max");
  const Pool2dOptions full_options{
      .stride = Pair{2, 2}, .padding = {{{1, 2}, {0, 1}}}, .dilation = {1, 2}, .ceil_mode = true};
  expect_table(max_pool2d(image, {3, 2}, full_options), "pool_max_full");
  expect_table(avg_pool2d(image, {2, 2}), "pool_avg");
  Pool2dOptions average{.stride = Pair{2, 2}, .padding = {{{1, 2}, {0, 1}}}, .ceil_mode = true};
  expect_table(avg_pool2d(image, {3, 2}, average), "pool_avg_full");
  average.count_include_pad = true;
  expect_table(avg_pool2d(image, {3, 2}, average), "pool_avg_pad");
}

TEST(Pool2d, CeilModeStartsNoWindowInThePaddingBehind) {
  const Pool2dOptions options{
      .stride = Pair{1, 2}, .padding = {{{0, 0}, {1, 1}}}, .ceil_mode = true};
  const Tensor x = Tensor({1.0F, 2.0F, 3.0F}).reshape({1, 1, 1, 3});
  expect_array(max_pool2d(x, {1, 2}, options), array_of({1, 1, 1, 2}, {1.0F, 3.0F}));
  const Tensor w = Tensor({0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F}).reshape({1, 1, 1, 6});
  expect_array(max_pool2d(w, {1, 1}, {.stride = Pair{1, 2}, .ceil_mode = true}),
               array_of({1, 1, 1, 3}, {0.0F, 2.0F, 4.0F}));
  const Tensor low = Tensor({-5.0F, -6.0F}).reshape({1, 1, 1, 2});
  expect_array(max_pool2d(low, {1, 2}, options), array_of({1, 1, 1, 2}, {-5.0F, -6.0F}));
}

TEST(Pool2d, ErrorsNameWindowAndShape) {
  const Tensor x = zeros({1, 1, 4, 4});
  EXPECT_ERROR(max_pool2d(x, {5, 1}), kInvalid, "max_pool2d", "window of 5");
  EXPECT_ERROR(avg_pool2d(zeros({4, 4}), {1, 1}), kInvalid, "avg_pool2d", "(4,4)");
  EXPECT_ERROR(max_pool2d(x, {0, 1}), kInvalid, "kernel", "(0,1)");
  EXPECT_ERROR(max_pool2d(x, {2, 2}, {.stride = Pair{0, 1}}), kInvalid, "stride", "(0,1)");
  EXPECT_ERROR(max_pool2d(x, {2, 2}, {.dilation = {0, 1}}), kInvalid, "dilation", "(0,1)");
  EXPECT_ERROR(max_pool2d(x, {2, 2}, {.padding = {{{2, 0}, {0, 0}}}}), kInvalid, "padding",
               "smaller");
  EXPECT_ERROR(max_pool2d(x, {2, 2}, {.padding = {{{0, -1}, {0, 0}}}}), kInvalid, "padding",
               "(0,-1)");
  EXPECT_ERROR(max_pool2d(x == 0, {2, 2}), kInvalid, "max_pool2d", "bool");
}

}  // namespace
}  // namespace tenon
