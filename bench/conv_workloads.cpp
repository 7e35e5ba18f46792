// Convolutions, NCHW in and out, and the digits. SPDX-License-Identifier: MIT

#include <cmath>

#include "bench/cases.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/cli/data_folder.h"
#include "tenon/cli/digits.h"
#include "tenon/tensor/nn_ops.h"

namespace tenon::bench {
namespace {

constexpr int64_t kSize = 3;     // of the kernels, both ways
constexpr int64_t kPadding = 1;  // output as large as the input

/// As matmul: an element is a sum of `channels / groups * 9` products.
std::optional<std::string> why_wrong(const Convolution& conv, const HostArray& x,
                                     const HostArray& weight, const std::byte* out) {
  std::optional<std::string> why;
  const int64_t side = conv.side;
  const int64_t inner = conv.channels / conv.groups;
  const int64_t per_group = conv.out_channels / conv.groups;
  for (const int64_t position : sampled(conv.batch * conv.out_channels * side * side, 2000, 1)) {
    const int64_t column = position % side;
    const int64_t row = position / side % side;
    const int64_t filter = position / (side * side) % conv.out_channels;
    const int64_t image = position / (side * side * conv.out_channels);
    double sum = 0;
    double sum_of_sizes = 0;
    for (int64_t i = 0; i < inner * kSize * kSize; ++i) {
      const int64_t channel = i / (kSize * kSize);
      const int64_t from_row = row + i / kSize % kSize - kPadding;
      const int64_t from_column = column + i % kSize - kPadding;
      if (from_row < 0 || from_row >= side || from_column < 0 || from_column >= side) continue;
      const int64_t plane = image * conv.channels + filter / per_group * inner + channel;
      const double term = x.at((plane * side + from_row) * side + from_column) *
                          weight.at(filter * inner * kSize * kSize + i);
      sum += term;
      sum_of_sizes += std::abs(term);
    }
    const double bound =
        static_cast<double>(inner * kSize * kSize + 1) * unit_roundoff(DType::kF32) * sum_of_sizes;
    compare(HostArray::element(out, DType::kF32, position), sum, bound,
            concat("(", image, ",", filter, ",", row, ",", column, ")"), why);
  }
  return why;
}

}  // namespace

Case prepare_convolution(const Convolution& conv) {
  const auto a = std::make_shared<HostArray>(
      DType::kF32, Shape{conv.batch, conv.channels, conv.side, conv.side}, Fill::kUniform, 1);
  const auto b = std::make_shared<HostArray>(
      DType::kF32, Shape{conv.out_channels, conv.channels / conv.groups, kSize, kSize},
      Fill::kUniform, 2);
  const Tensor x = tensor_of(*a);
  const Tensor weight = tensor_of(*b);
  Case result;
  result.arrays = {a, b};
  result.build = [x, weight, groups = conv.groups] {
    Conv2dOptions options;
    options.padding = {Pair{kPadding, kPadding}, Pair{kPadding, kPadding}};
    options.groups = groups;
    return conv2d(x, weight, options);
  };
  result.job = {.kind = JobKind::kConv,
                .a = a->data(),
                .b = b->data(),
                .batch = conv.batch,
                .m = conv.out_channels,
                .channels = conv.channels,
                .height = conv.side,
                .width = conv.side,
                .groups = conv.groups,
                .size = kSize,
                .padding = kPadding};
  result.out_size = conv.batch * conv.out_channels * conv.side * conv.side;
  result.why_wrong = [=](const std::byte* out) { return why_wrong(conv, *a, *b, out); };
  return result;
}

namespace {

std::string name_of(const char* kind, const Convolution& conv) {
  return concat(kind, "_3x3_", conv.channels, "x", conv.out_channels, "_", conv.side, "_batch_",
                conv.batch);
}

/// Logits of the images of data/, all at once.
Case prepare_digits(int64_t num_images) {
  const std::string folder = cli::find_data_folder("", "digits_test.safetensors");
  cli::DigitsImages images = cli::load_digits(folder + "/digits_test.safetensors");
  const auto network =
      std::make_shared<cli::DigitsNetwork>(folder + "/digits_cnn.safetensors", std::nullopt);
  const std::vector<double> logits =
      cli::load_logits(folder + "/digits_expected.safetensors", images.size());
  TENON_CHECK(images.size() >= num_images, ErrorCode::kNotFound, "bench: ", images.size(),
              " images in ", folder, ", expected at least ", num_images);
  images.pixels.resize(static_cast<size_t>(num_images * cli::kImageSide * cli::kImageSide));
  Tensor pixels = Tensor::from_data(images.pixels, {num_images, cli::kImageSide, cli::kImageSide});
  pixels.realize();
  Case result;
  result.build = [pixels, network] { return network->logits(pixels); };
  result.out_size = num_images * cli::kNumClasses;
  result.why_wrong = [logits, size = result.out_size](const std::byte* out) {
    constexpr double kBound = 1e-4;  // data/README.md
    std::optional<std::string> why;
    for (int64_t i = 0; i < size; ++i) {
      compare(HostArray::element(out, DType::kF32, i), logits[static_cast<size_t>(i)], kBound,
              concat(i), why);
    }
    return why;
  };
  return result;
}

}  // namespace

std::vector<Workload> conv_workloads(bool is_quick) {
  const Convolution dense = is_quick ? Convolution{1, 8, 8, 1, 14} : Convolution{8, 64, 64, 1, 56};
  const Convolution depthwise =
      is_quick ? Convolution{1, 16, 16, 16, 14} : Convolution{8, 128, 128, 128, 56};
  const auto elements = [](const Convolution& conv) {
    return static_cast<double>(conv.batch * conv.out_channels * conv.side * conv.side);
  };
  std::vector<Workload> all(2);
  all[0].name = name_of("conv", dense);
  all[0].group = "conv";
  all[0].unit = "GFLOP/s";
  all[0].work = 2e-9 * elements(dense) * static_cast<double>(dense.channels * kSize * kSize);
  all[0].limit = LimitKind::kFmaF32;
  all[0].goal = 1.2;
  all[0].prepare = [dense] { return prepare_convolution(dense); };
  all[1].name = name_of("depthwise", depthwise);
  all[1].group = "depthwise";
  all[1].unit = "GB/s";  // of the input and the output
  all[1].work = 8e-9 * elements(depthwise);
  all[1].limit = LimitKind::kCopy;
  all[1].limit_bytes = static_cast<int64_t>(4 * elements(depthwise));
  all[1].goal = 3.0;
  all[1].prepare = [depthwise] { return prepare_convolution(depthwise); };
  return all;
}

Workload digits_workload(bool is_quick) {
  const int64_t num_images = is_quick ? 20 : 1000;
  Workload workload;
  workload.name = concat("digits_", num_images);
  workload.group = "digits";
  workload.unit = "images/s";
  workload.variants = {{.name = "simple", .variable = "TENON_PLAN", .value = "simple"}};
  workload.work = static_cast<double>(num_images);
  workload.prepare = [num_images] { return prepare_digits(num_images); };
  return workload;
}

}  // namespace tenon::bench
