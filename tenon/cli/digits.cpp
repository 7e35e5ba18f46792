// x (B,28,28), h (B,C,H,W) between the layers. SPDX-License-Identifier: MIT

#include "tenon/cli/digits.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/tensor/nn_ops.h"

namespace tenon::cli {
namespace {

constexpr int64_t kPixels = kImageSide * kImageSide;
constexpr int64_t kNumFilters = 16;

/// The array of that name; dims of -1 may have any size.
Array array_of(const SafetensorsFile& file, const std::string& path, std::string_view name,
               DType dtype, const Shape& shape) {
  Array array = file.get(name);
  bool is_right = array.dtype == dtype && array.shape.size() == shape.size();
  for (size_t axis = 0; is_right && axis < shape.size(); ++axis)
    is_right = shape[axis] < 0 || shape[axis] == array.shape[axis];
  TENON_CHECK(is_right, ErrorCode::kInvalidArgument, path, ": '", name, "' is ",
              dtype_long_name(array.dtype), " ", format_shape(array.shape), "; expected ",
              dtype_long_name(dtype), " ", format_shape(shape));
  return array;
}

template <typename T>
std::vector<T> values_of(const Array& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

}  // namespace

DigitsImages load_digits(const std::string& path) {
  const SafetensorsFile file(path);
  DigitsImages digits;
  digits.pixels =
      values_of<uint8_t>(array_of(file, path, "images", DType::kU8, {-1, kImageSide, kImageSide}));
  digits.labels = values_of<uint8_t>(
      array_of(file, path, "labels", DType::kU8, {std::ssize(digits.pixels) / kPixels}));
  return digits;
}

std::vector<double> load_logits(const std::string& path, int64_t num_images) {
  const SafetensorsFile file(path);
  return values_of<double>(array_of(file, path, "logits", DType::kF64, {num_images, kNumClasses}));
}

DigitsNetwork::DigitsNetwork(const std::string& path, std::optional<int64_t> zero_filter) {
  TENON_CHECK(!zero_filter || (*zero_filter >= 0 && *zero_filter < kNumFilters),
              ErrorCode::kInvalidArgument, "zero filter ", zero_filter.value_or(0), ": conv1 has ",
              kNumFilters, " filters, numbered from 0");
  const SafetensorsFile file(path);
  const auto load = [&](std::string_view name, const Shape& shape, bool is_of_filters = false) {
    std::vector<float> values = values_of<float>(array_of(file, path, name, DType::kF32, shape));
    if (is_of_filters && zero_filter) {
      const int64_t size = std::ssize(values) / kNumFilters;
      std::fill_n(values.begin() + *zero_filter * size, size, 0.0F);
    }
    return Tensor::from_data(values, shape);
  };
  conv1_weight_ = load("conv1.weight", {kNumFilters, 1, 5, 5}, true);
  conv1_bias_ = load("conv1.bias", {kNumFilters}, true);
  conv2_weight_ = load("conv2.weight", {32, kNumFilters, 5, 5});
  conv2_bias_ = load("conv2.bias", {32});
  fc1_weight_ = load("fc1.weight", {64, 512});
  fc1_bias_ = load("fc1.bias", {64});
  fc2_weight_ = load("fc2.weight", {kNumClasses, 64});
  fc2_bias_ = load("fc2.bias", {kNumClasses});
}

Tensor DigitsNetwork::logits(const Tensor& images) const {
  const int64_t batch = images.dim(0);
  Tensor h = (images.astype(DType::kF32) / 255).reshape({batch, 1, kImageSide, kImageSide});
  h = max_pool2d(conv2d(h, conv1_weight_, {.bias = conv1_bias_}).relu(), {2, 2});  // (B,16,12,12)
  h = max_pool2d(conv2d(h, conv2_weight_, {.bias = conv2_bias_}).relu(), {2, 2});  // (B,32,4,4)
  h = (h.reshape({batch, 512}).matmul(fc1_weight_.transpose()) + fc1_bias_).relu();
  return h.matmul(fc2_weight_.transpose()) + fc2_bias_;
}

DigitsResult classify(const DigitsNetwork& network, const DigitsImages& images, int64_t batch,
                      const std::vector<int64_t>& order) {
  DigitsResult result;
  result.logits.resize(order.size() * kNumClasses);
  result.predictions.resize(order.size());
  const int64_t num_images = std::ssize(order);
  for (int64_t begin = 0; begin < num_images; begin += batch) {
    const int64_t count = std::min(batch, num_images - begin);
    std::vector<uint8_t> pixels;
    pixels.reserve(static_cast<size_t>(count * kPixels));
    for (int64_t i = 0; i < count; ++i) {
      const auto first = images.pixels.begin() + order[static_cast<size_t>(begin + i)] * kPixels;
      pixels.insert(pixels.end(), first, first + kPixels);
    }
    Tensor logits = network.logits(Tensor::from_data(pixels, {count, kImageSide, kImageSide}));
    Tensor predictions = logits.argmax(1);
    realize({&logits, &predictions});
    const std::vector<float> values = logits.to_vector<float>();
    const std::vector<int64_t> classes = predictions.to_vector<int64_t>();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t image = order[static_cast<size_t>(begin + i)];
      std::copy_n(values.begin() + i * kNumClasses, kNumClasses,
                  result.logits.begin() + image * kNumClasses);
      result.predictions[static_cast<size_t>(image)] = classes[static_cast<size_t>(i)];
    }
  }
  return result;
}

std::vector<int64_t> image_order(int64_t num_images, std::optional<uint64_t> seed) {
  std::vector<int64_t> order(static_cast<size_t>(num_images));
  std::iota(order.begin(), order.end(), 0);
  if (!seed) return order;
  uint64_t state = *seed;
  for (size_t i = order.size(); i > 1; --i) {
    // splitmix64: G. Steele, D. Lea, C. Flood, OOPSLA 2014.
    uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    std::swap(order[i - 1], order[(z ^ z >> 31) % i]);
  }
  return order;
}

}  // namespace tenon::cli
