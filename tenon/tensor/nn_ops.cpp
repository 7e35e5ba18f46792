// Softmax, normalisation, one_hot. SPDX-License-Identifier: MIT

#include "tenon/tensor/nn_ops.h"

#include <limits>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/promotion.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr ReduceOptions kKeep{.keepdims = true, .dtype = {}};

DType float_dtype(const Tensor& x) {
  return is_float(x.dtype()) ? x.dtype() : DType::kF32;
}

Tensor widened(const Tensor& x) {
  return x.astype(detail::compute_dtype(x.dtype()));
}

// The last axes, after checking weight and bias against them.
Axes norm_axes(std::string_view name, const Tensor& x, const NormOptions& options) {
  TENON_CHECK(1 <= options.num_axes && options.num_axes <= x.ndim(), kInvalid, name, ": ",
              options.num_axes, " axes to normalise; x is ", x.shape());
  const Shape shape = x.shape();
  const Shape tail(shape.end() - options.num_axes, shape.end());
  for (const auto& side : {options.weight, options.bias}) {
    TENON_CHECK(!side || side->shape() == tail, kInvalid, name, ": weight or bias is ",
                side->shape(), ", expected ", tail, "; x is ", shape);
  }
  std::vector<int64_t> axes;
  for (int64_t i = 1; i <= options.num_axes; ++i)
    axes.push_back(-i);
  return axes;
}

Tensor scaled(Tensor x, const NormOptions& options, DType result) {
  if (options.weight) x = x * options.weight->astype(x.dtype());
  if (options.bias) x = x + options.bias->astype(x.dtype());
  return x.astype(result);
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis) {
  const Tensor wide = widened(x);
  const Tensor e = (wide - wide.max(axis, kKeep)).exp();
  return (e * e.sum(axis, kKeep).reciprocal()).astype(float_dtype(x));
}

Tensor log_softmax(const Tensor& x, int64_t axis) {
  const Tensor wide = widened(x);
  const Tensor shifted = wide - wide.max(axis, kKeep);
  return (shifted - shifted.exp().sum(axis, kKeep).log()).astype(float_dtype(x));
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims) {
  const Tensor wide = widened(x);
  const Tensor top = wide.max(axes, kKeep);
  // inf - inf would be NaN: infinite rows are not shifted.
  const Tensor shift = where(top.isfinite(), top, Scalar(0));
  const Tensor total = (wide - shift).exp().sum(axes, kKeep).log() + shift;
  const Tensor out = total.astype(float_dtype(x));
  return keepdims ? out : axes.is_all() ? out.reshape({}) : out.squeeze(axes);
}

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  const Tensor x = widened(a);
  const Tensor y = widened(b);
  const Tensor top = x.maximum(y);
  const Tensor shift = where(top.isfinite(), top, Scalar(0));
  const Tensor total = ((x - shift).exp() + (y - shift).exp()).log() + shift;
  return total.astype(promote_types(float_dtype(a), float_dtype(b)));
}

// As cumsum, with its own sum; where nothing lies before stands -inf, the log of 0.
Tensor logcumsumexp(const Tensor& x, int64_t axis) {
  const ShapeView dims = x.node().shape();
  const auto at = static_cast<size_t>(detail::normalize_axis("logcumsumexp", axis, dims));
  Tensor sums = widened(x);
  Pads shift(dims.size());
  std::vector<std::pair<int64_t, int64_t>> kept;
  for (const int64_t dim : dims)
    kept.emplace_back(0, dim);
  for (int64_t distance = 1; distance < dims[at]; distance *= 2) {
    shift[at] = {distance, 0};
    const Tensor before = sums.pad(shift, -std::numeric_limits<double>::infinity()).shrink(kept);
    sums = logaddexp(sums, before).contiguous();
  }
  return sums.astype(float_dtype(x));
}

Tensor layernorm(const Tensor& x, const NormOptions& options) {
  const Axes axes = norm_axes("layernorm", x, options);
  const Tensor wide = widened(x);
  const Tensor centered = wide - wide.mean(axes, kKeep);
  const Tensor variance = centered.square().mean(axes, kKeep);
  return scaled(centered * (variance + options.eps).rsqrt(), options, float_dtype(x));
}

Tensor rmsnorm(const Tensor& x, const NormOptions& options) {
  TENON_CHECK(!options.bias, kInvalid, "rmsnorm: has no bias; one of shape ", options.bias->shape(),
              " was given. Add it to the result");
  const Axes axes = norm_axes("rmsnorm", x, options);
  const Tensor wide = widened(x);
  const Tensor power = wide.square().mean(axes, kKeep);
  return scaled(wide * (power + options.eps).rsqrt(), options, float_dtype(x));
}

Tensor one_hot(const Tensor& labels, int64_t num_classes, std::optional<DType> dtype) {
  TENON_CHECK(is_int(labels.dtype()), kInvalid, "one_hot: labels are ",
              dtype_long_name(labels.dtype()), ", expected an integer dtype");
  TENON_CHECK(num_classes >= 1, kInvalid, "one_hot: num_classes is ", num_classes,
              ", expected 1 or more; labels are ", labels.shape());
  // In 64 bits, whatever the labels are: class 256 must not look like class 0 of a uint8.
  const Tensor classes = arange(num_classes);
  const Tensor is_label = labels.astype(DType::kI64).expand_dims(-1) == classes;
  return is_label.astype(dtype.value_or(DType::kF32));
}

}  // namespace tenon
