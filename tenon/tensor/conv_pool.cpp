// Convolution and pooling: padding, windows over both image axes, one reduction.
// SPDX-License-Identifier: MIT

#include <limits>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

void check_at_least(std::string_view name, std::string_view what, const Pair& values,
                    int64_t least) {
  TENON_CHECK(values[0] >= least && values[1] >= least, kInvalid, name, ": ", what, " is ", values,
              ", expected ", least, " or more");
}

// One image axis of a pooling: how it is padded and how many windows there are.
struct PoolAxis {
  int64_t before = 0;
  int64_t after = 0;       ///< asked for
  int64_t after_ceil = 0;  ///< with what the last window of ceil_mode needs
  int64_t num_windows = 0;
};

struct PoolPlan {
  Pair kernel, stride, dilation;
  std::array<PoolAxis, 2> axes;
};

PoolAxis plan_axis(std::string_view name, int64_t dim, int64_t extent, int64_t stride,
                   const Pair& padding, bool ceil_mode) {
  PoolAxis axis{.before = padding[0], .after = padding[1], .after_ceil = padding[1]};
  const int64_t padded = dim + padding[0] + padding[1];
  TENON_CHECK(padded >= extent, kInvalid, name, ": the window of ", extent,
              " is larger than the padded axis of ", padded, " (", dim, " and padding ", padding,
              ")");
  TENON_CHECK(padding[0] < extent && padding[1] < extent, kInvalid, name, ": padding ", padding,
              " is not smaller than the window of ", extent);
  const int64_t room = padded - extent;
  axis.num_windows = room / stride + 1;
  // One more if it would start in x or in the padding before it.
  if (ceil_mode && room % stride != 0 && axis.num_windows * stride < dim + padding[0]) {
    axis.after_ceil += axis.num_windows * stride + extent - padded;
    ++axis.num_windows;
  }
  return axis;
}

PoolPlan plan_pool(std::string_view name, const Tensor& x, const Pair& kernel,
                   const Pool2dOptions& options) {
  TENON_CHECK(x.ndim() == 4, kInvalid, name, ": x is ", x.shape(), ", expected (N,C,H,W)");
  PoolPlan plan{.kernel = kernel,
                .stride = options.stride.value_or(kernel),
                .dilation = options.dilation,
                .axes = {}};
  check_at_least(name, "kernel", kernel, 1);
  check_at_least(name, "stride", plan.stride, 1);
  check_at_least(name, "dilation", plan.dilation, 1);
  for (size_t i = 0; i < 2; ++i) {
    check_at_least(name, "padding", options.padding[i], 0);
    const int64_t extent = plan.dilation[i] * (kernel[i] - 1) + 1;
    plan.axes[i] = plan_axis(name, x.dim(static_cast<int64_t>(i) + 2), extent, plan.stride[i],
                             options.padding[i], options.ceil_mode);
  }
  return plan;
}

// (N,C,H,W) -> (N,C,OH,OW,KH,KW)
Tensor windows(const Tensor& x, const Pair& kernel, const Pair& stride, const Pair& dilation) {
  return x.window(2, kernel[0], stride[0], dilation[0])
      .window(3, kernel[1], stride[1], dilation[1]);
}

Tensor pool_windows(const Tensor& x, const PoolPlan& plan, Scalar fill) {
  const auto& [height, width] = plan.axes;
  const Pads pads{
      {0, 0}, {0, 0}, {height.before, height.after_ceil}, {width.before, width.after_ceil}};
  return windows(x.pad(pads, fill), plan.kernel, plan.stride, plan.dilation);
}

// Lowest value of a dtype, as a scalar.
Scalar lowest(DType dtype) {
  if (is_float(dtype)) {
    const bool has_infinity = !float_format(dtype).finite_only;
    return has_infinity ? -std::numeric_limits<double>::infinity() : -448.0;  // of e4m3fn
  }
  return is_signed_int(dtype) ? Scalar(static_cast<int64_t>(int_min_bits(dtype))) : Scalar(0);
}

// How many elements (of x, or of x and its padding) lie under each window of one axis.
Tensor count_under_windows(const PoolPlan& plan, size_t i, int64_t dim, bool include_pad,
                           DType dtype) {
  const PoolAxis& axis = plan.axes[i];
  const int64_t inside = include_pad ? dim + axis.before + axis.after : dim;
  const Pads pads{
      {include_pad ? 0 : axis.before, axis.after_ceil - (include_pad ? axis.after : 0)}};
  return ones({inside}, {.dtype = dtype, .device = nullptr})
      .pad(pads)
      .window(0, plan.kernel[i], plan.stride[i], plan.dilation[i])
      .sum(-1);
}

}  // namespace

// x -> windows (N,G,1,OH,OW,C/G,KH,KW), weight -> (1,G,O/G,1,1,C/G,KH,KW); the last three are
// summed.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options) {
  TENON_CHECK(x.ndim() == 4 && weight.ndim() == 4, kInvalid, "conv2d: x is ", x.shape(),
              ", weight is ", weight.shape(), "; expected (N,C,H,W) and (O,C/G,KH,KW)");
  check_at_least("conv2d", "stride", options.stride, 1);
  check_at_least("conv2d", "dilation", options.dilation, 1);
  check_at_least("conv2d", "padding", options.padding[0], 0);
  check_at_least("conv2d", "padding", options.padding[1], 0);
  const int64_t groups = options.groups;
  TENON_CHECK(groups >= 1 && weight.dim(0) % groups == 0 && weight.dim(1) * groups == x.dim(1),
              kInvalid, "conv2d: channels do not fit ", groups, " groups; x is ", x.shape(),
              ", weight is ", weight.shape(), "; expected (N,C,H,W) and (O,C/G,KH,KW)");
  const DType result = detail::common_dtype("conv2d", x, weight);
  TENON_CHECK(result != DType::kBool, kInvalid, "conv2d: bool has no sum. Use astype first");
  const DType compute = detail::is_narrow_float(result) ? DType::kF32 : result;
  const auto& [height, width] = options.padding;
  const Pair kernel{weight.dim(2), weight.dim(3)};
  const Tensor padded =
      x.astype(compute).pad({{0, 0}, {0, 0}, {height[0], height[1]}, {width[0], width[1]}});
  TENON_CHECK(options.dilation[0] * (kernel[0] - 1) < padded.dim(2) &&
                  options.dilation[1] * (kernel[1] - 1) < padded.dim(3) && kernel[0] >= 1 &&
                  kernel[1] >= 1,
              kInvalid, "conv2d: the kernel does not fit; padded x is ", padded.shape(),
              ", weight is ", weight.shape(), ", dilation is ", options.dilation);
  const Tensor wide = windows(padded, kernel, options.stride, options.dilation);
  const int64_t batch = x.dim(0);
  const int64_t channels = weight.dim(1);
  const int64_t outputs = weight.dim(0);
  const Tensor lhs =
      wide.reshape({batch, groups, 1, channels, wide.dim(2), wide.dim(3), kernel[0], kernel[1]})
          .permute({0, 1, 2, 4, 5, 3, 6, 7});
  const Tensor rhs = weight.astype(compute).reshape(
      {1, groups, outputs / groups, 1, 1, channels, kernel[0], kernel[1]});
  Tensor out = (lhs * rhs)
                   .sum({-3, -2, -1}, {.keepdims = false, .dtype = compute})
                   .reshape({batch, outputs, wide.dim(2), wide.dim(3)});
  if (options.bias) {
    TENON_CHECK(options.bias->shape() == Shape{outputs}, kInvalid, "conv2d: bias is ",
                options.bias->shape(), ", expected ", Shape{outputs});
    out = out + options.bias->astype(compute).reshape({1, outputs, 1, 1});
  }
  return out.astype(result);
}

Tensor max_pool2d(const Tensor& x, const Pair& kernel, const Pool2dOptions& options) {
  const PoolPlan plan = plan_pool("max_pool2d", x, kernel, options);
  TENON_CHECK(x.dtype() != DType::kBool, kInvalid, "max_pool2d: x is bool. Use astype first");
  return pool_windows(x, plan, lowest(x.dtype())).max({-2, -1});
}

Tensor avg_pool2d(const Tensor& x, const Pair& kernel, const Pool2dOptions& options) {
  const PoolPlan plan = plan_pool("avg_pool2d", x, kernel, options);
  const Tensor wide = x.astype(detail::compute_dtype(x.dtype()));
  const Tensor total = pool_windows(wide, plan, 0).sum({-2, -1});
  const auto count = [&](size_t i) {
    return count_under_windows(plan, i, x.dim(static_cast<int64_t>(i) + 2),
                               options.count_include_pad, wide.dtype());
  };
  const auto is_whole = [](const PoolAxis& axis, bool include_pad) {
    const int64_t outside =
        include_pad ? axis.after_ceil - axis.after : axis.before + axis.after_ceil;
    return outside == 0;
  };
  const DType result = is_float(x.dtype()) ? x.dtype() : DType::kF32;
  if (is_whole(plan.axes[0], options.count_include_pad) &&
      is_whole(plan.axes[1], options.count_include_pad)) {
    return (total / (kernel[0] * kernel[1])).astype(result);
  }
  return (total / (count(0).expand_dims(1) * count(1))).astype(result);
}

}  // namespace tenon
