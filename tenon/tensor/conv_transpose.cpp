// Transposed convolution: the elements of x spread out by the stride, then conv2d with the kernel
// turned round. SPDX-License-Identifier: MIT
//
// Source: V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016,
// section 4.

#include "tenon/base/error.h"
#include "tenon/tensor/nn_ops.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

void check_options(const Tensor& x, const Tensor& weight, const ConvTranspose2dOptions& options) {
  TENON_CHECK(x.ndim() == 4 && weight.ndim() == 4, kInvalid, "conv_transpose2d: x is ", x.shape(),
              ", weight is ", weight.shape(), "; expected (N,C,H,W) and (C,O/G,KH,KW)");
  TENON_CHECK(weight.dim(0) == x.dim(1), kInvalid, "conv_transpose2d: channels differ; x is ",
              x.shape(), ", weight is ", weight.shape(), "; expected (N,C,H,W) and (C,O/G,KH,KW)");
  TENON_CHECK(options.groups >= 1 && x.dim(1) % options.groups == 0, kInvalid,
              "conv_transpose2d: ", x.dim(1), " channels do not fit ", options.groups, " groups");
  for (size_t i = 0; i < 2; ++i) {
    TENON_CHECK(options.stride[i] >= 1 && options.dilation[i] >= 1, kInvalid,
                "conv_transpose2d: stride is ", options.stride, ", dilation is ", options.dilation,
                ", expected 1 or more");
    TENON_CHECK(
        options.padding[i][0] >= 0 && options.padding[i][1] >= 0 && options.output_padding[i] >= 0,
        kInvalid, "conv_transpose2d: padding is ", options.padding[i], ", output_padding is ",
        options.output_padding, ", expected 0 or more");
  }
}

// (N,C,H,W) -> (N,C,(H-1)*stride+1,...), zeros between the elements.
Tensor spread(const Tensor& x, const Pair& stride) {
  const int64_t height = x.dim(2);
  const int64_t width = x.dim(3);
  return x.expand_dims(3)
      .expand_dims(5)
      .pad({{0, 0}, {0, 0}, {0, 0}, {0, stride[0] - 1}, {0, 0}, {0, stride[1] - 1}})
      .reshape({x.dim(0), x.dim(1), height * stride[0], width * stride[1]})
      .getitem({kEllipsis, Slice{0, (height - 1) * stride[0] + 1},
                Slice{0, (width - 1) * stride[1] + 1}});
}

// Adds `amount` elements of zero to one end of an axis, or cuts as many off if it is negative.
Tensor resized(const Tensor& x, int64_t axis, int64_t before, int64_t after) {
  std::vector<std::pair<int64_t, int64_t>> pads(4);
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (int64_t i = 0; i < 4; ++i)
    ranges.emplace_back(0, x.dim(i));
  const auto at = static_cast<size_t>(axis);
  ranges[at] = {std::max<int64_t>(-before, 0), x.dim(axis) - std::max<int64_t>(-after, 0)};
  pads[at] = {std::max<int64_t>(before, 0), std::max<int64_t>(after, 0)};
  TENON_CHECK(ranges[at].first <= ranges[at].second, kInvalid,
              "conv_transpose2d: the padding cuts off more than there is along axis ", axis,
              "; between its elements spread out x is ", x.shape());
  return x.shrink(ranges).pad(pads);
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose2dOptions& options) {
  check_options(x, weight, options);
  Tensor wide = spread(x, options.stride);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = options.dilation[i] * (weight.dim(static_cast<int64_t>(i) + 2) - 1);
    wide = resized(wide, static_cast<int64_t>(i) + 2, reach - options.padding[i][0],
                   reach - options.padding[i][1] + options.output_padding[i]);
  }
  const int64_t groups = options.groups;
  const int64_t outputs = weight.dim(1);
  const Tensor turned =
      weight.reshape({groups, x.dim(1) / groups, outputs, weight.dim(2), weight.dim(3)})
          .swapaxes(1, 2)
          .reshape({groups * outputs, x.dim(1) / groups, weight.dim(2), weight.dim(3)})
          .flip({2, 3});
  return conv2d(wide, turned,
                {.stride = {1, 1},
                 .padding = {},
                 .dilation = options.dilation,
                 .groups = groups,
                 .bias = options.bias});
}

}  // namespace tenon
