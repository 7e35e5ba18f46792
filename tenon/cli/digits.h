// The main job: a small convolutional network that reads handwritten digits, on the public API
// alone. Data: data/README.md. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenon/io/safetensors.h"
#include "tenon/tensor/tensor.h"

namespace tenon::cli {

inline constexpr int64_t kImageSide = 28;
inline constexpr int64_t kNumClasses = 10;

/// Images and what they show, in host memory.
struct DigitsImages {
  std::vector<uint8_t> pixels;  ///< (N,28,28), 0 to 255
  std::vector<uint8_t> labels;  ///< (N)
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

/// Reads `images` and `labels`. Throws kInvalidArgument if dtypes or shapes are not as described.
DigitsImages load_digits(const std::string& path);

/// Expected logits, (N,10). Throws kInvalidArgument if their number is not `num_images`.
std::vector<double> load_logits(const std::string& path, int64_t num_images);

/// Weights on the calling thread's default device.
class DigitsNetwork {
 public:
  /// With `zero_filter` the weights and bias of that filter of conv1 are 0. Throws kInvalidArgument
  /// for a filter that is not there and for files of another shape.
  DigitsNetwork(const std::string& path, std::optional<int64_t> zero_filter);

  /// images (B,28,28) uint8 -> logits (B,10) float32
  Tensor logits(const Tensor& images) const;

 private:
  Tensor conv1_weight_, conv1_bias_, conv2_weight_, conv2_bias_;
  Tensor fc1_weight_, fc1_bias_, fc2_weight_, fc2_bias_;
};

struct DigitsResult {
  std::vector<float> logits;         ///< (N,10)
  std::vector<int64_t> predictions;  ///< (N)
};

/// Runs the network over all images, `batch` at a time, in the order of `order`; results are in the
/// order of `images`.
DigitsResult classify(const DigitsNetwork& network, const DigitsImages& images, int64_t batch,
                      const std::vector<int64_t>& order);

/// 0 to n-1, or with a seed those numbers shuffled (Fisher-Yates over splitmix64).
std::vector<int64_t> image_order(int64_t num_images, std::optional<uint64_t> seed);

}  // namespace tenon::cli
