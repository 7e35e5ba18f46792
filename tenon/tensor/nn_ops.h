// Compositions that neural networks are made of, as graph over Tensor's public methods: softmax,
// normalisation, convolution, pooling. f16, bf16 and f8 are computed in f32 and rounded once at the
// end; integers become f32. Letters: N batch, C channels, H and W image, O output channels, G
// groups. SPDX-License-Identifier: MIT

#pragma once

#include <array>
#include <optional>

#include "tenon/tensor/tensor.h"

namespace tenon {

/// e * (1/s) with e = exp(x - max(x)) and s = sum(e), along `axis`.
Tensor softmax(const Tensor& x, int64_t axis = -1);
Tensor log_softmax(const Tensor& x, int64_t axis = -1);
/// log(sum(exp(x))) without overflow; -inf over nothing but -inf, inf where there is an inf.
Tensor logsumexp(const Tensor& x, const Axes& axes = kAllAxes, bool keepdims = false);

/// log(exp(a) + exp(b)) without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);
/// Running logsumexp along `axis`: log2(n) kernels, as cumsum.
Tensor logcumsumexp(const Tensor& x, int64_t axis = -1);

struct NormOptions {
  std::optional<Tensor> weight = std::nullopt;  ///< shape of the normalised axes
  std::optional<Tensor> bias = std::nullopt;    ///< the same; layernorm only
  double eps = 1e-5;
  int64_t num_axes = 1;  ///< how many of the last axes are normalised
};

/// (x - mean) / sqrt(var + eps) * weight + bias over the last axes.
Tensor layernorm(const Tensor& x, const NormOptions& options = {});
/// x / sqrt(mean(x^2) + eps) * weight over the last axes.
Tensor rmsnorm(const Tensor& x, const NormOptions& options = {});

/// (...) of integers -> (...,num_classes), 1 where the class is the label; labels out of range give
/// a row of 0. float32 without `dtype`.
Tensor one_hot(const Tensor& labels, int64_t num_classes, std::optional<DType> dtype = {});

using Pair = std::array<int64_t, 2>;  ///< height, width

struct Conv2dOptions {
  Pair stride = {1, 1};
  std::array<Pair, 2> padding = {};  ///< {top, bottom}, {left, right}
  Pair dilation = {1, 1};
  int64_t groups = 1;
  std::optional<Tensor> bias = std::nullopt;  ///< (O)
};

/// x (N,C,H,W), weight (O,C/G,KH,KW) -> (N,O,OH,OW), OH = (H + pads - dilation*(KH-1) - 1) / stride
/// + 1. Both sides must have one float or integer dtype.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options = {});

struct ConvTranspose2dOptions {
  Pair stride = {1, 1};
  std::array<Pair, 2> padding = {};  ///< {top, bottom}, {left, right}: cut off the result
  Pair output_padding = {0, 0};      ///< more rows at the bottom, columns at the right
  Pair dilation = {1, 1};
  int64_t groups = 1;
  std::optional<Tensor> bias = std::nullopt;  ///< (O)
};

/// The gradient of conv2d by its x: x (N,C,H,W), weight (C,O/G,KH,KW) -> (N,O,OH,OW), OH = (H-1) *
/// stride - pads + dilation*(KH-1) + 1 + output_padding. As in conv2d, the zeros between and around
/// the elements take part: they make NaN of infinite weights.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose2dOptions& options = {});

struct Pool2dOptions {
  std::optional<Pair> stride = std::nullopt;  ///< without: the kernel
  std::array<Pair, 2> padding = {};           ///< {top, bottom}, {left, right}
  Pair dilation = {1, 1};
  /// Sizes round up: a last window may reach past the end, if it starts in x or the padding before.
  bool ceil_mode = false;
  bool count_include_pad = false;  ///< average: padding counts as zeros
};

/// (N,C,H,W) -> (N,C,OH,OW). Padding never wins: it is the lowest value of the dtype.
Tensor max_pool2d(const Tensor& x, const Pair& kernel, const Pool2dOptions& options = {});
/// (N,C,H,W) -> (N,C,OH,OW): mean of the elements of x under the window.
Tensor avg_pool2d(const Tensor& x, const Pair& kernel, const Pool2dOptions& options = {});

}  // namespace tenon
