// Reductions of Tensor. SPDX-License-Identifier: MIT

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"
#include "tenon/tensor/tensor.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

std::vector<int64_t> reduced_axes(std::string_view where, const Axes& axes, ShapeView shape) {
  if (!axes.is_all()) return detail::normalize_axes(where, axes.list(), shape);
  std::vector<int64_t> out(shape.size());
  std::iota(out.begin(), out.end(), 0);
  return out;
}

int64_t reduced_count(std::span<const int64_t> axes, ShapeView shape) {
  int64_t count = 1;
  for (const int64_t axis : axes)
    count *= shape[static_cast<size_t>(axis)];
  return count;
}

// Reduced axes keep size 1 or go away.
Tensor reduce(Op op, std::string_view where, const Tensor& x, const Axes& axes, bool keepdims) {
  const Node& node = x.node();
  const std::vector<int64_t> list = reduced_axes(where, axes, node.shape());
  if (list.empty()) return x;
  const DType accumulator = detail::is_narrow_float(x.dtype()) && (op == Op::kAdd || op == Op::kMul)
                                ? DType::kF32
                                : x.dtype();
  const Tensor out(tensor_reduce(op, node, list, accumulator));
  return keepdims ? out : out.squeeze(list);
}

// Of sums and products: `dtype` if given; bool and short integers in 64 bits.
DType sum_dtype(std::string_view where, DType source, std::optional<DType> dtype) {
  DType result = dtype.value_or(source);
  if (!dtype && !is_float(result)) {
    result = is_unsigned_int(result) ? DType::kU64 : DType::kI64;
  }
  TENON_CHECK(result != DType::kBool, kInvalid, where,
              ": dtype bool cannot hold it. Use any or all, or an integer dtype");
  return result;
}

Tensor accumulate(Op op, std::string_view where, const Tensor& x, const Axes& axes,
                  const ReduceOptions& options) {
  const DType dtype = sum_dtype(where, x.dtype(), options.dtype);
  return reduce(op, where, x.astype(dtype), axes, options.keepdims);
}

Tensor extreme(Op op, std::string_view where, const Tensor& x, const Axes& axes,
               const ReduceOptions& options) {
  const ShapeView shape = x.node().shape();
  const std::vector<int64_t> list = reduced_axes(where, axes, shape);
  TENON_CHECK(reduced_count(list, shape) > 0, kInvalid, where,
              ": there is none of no elements; x is ", x.shape(), ", axes are ", list);
  return reduce(op, where, x.astype(options.dtype.value_or(x.dtype())), axes, options.keepdims);
}

Tensor truth(Op op, std::string_view where, const Tensor& x, const Axes& axes,
             const ReduceOptions& options) {
  return reduce(op, where, x.astype(DType::kBool), axes, options.keepdims)
      .astype(options.dtype.value_or(DType::kBool));
}

DType mean_dtype(const Tensor& x, const ReduceOptions& options, std::string_view where) {
  const DType dtype = options.dtype.value_or(is_float(x.dtype()) ? x.dtype() : DType::kF32);
  TENON_CHECK(is_float(dtype), kInvalid, where, ": the result is a float, dtype ",
              dtype_long_name(dtype), " was asked for");
  return dtype;
}

Tensor position_of_extreme(Op op, std::string_view name, const Tensor& source,
                           std::optional<int64_t> axis, const ReduceOptions& options) {
  const Tensor x = axis ? source : source.flatten();
  const int64_t at = detail::normalize_axis(name, axis.value_or(0), x.node().shape());
  const Tensor best = extreme(op, name, x, at, {.keepdims = true, .dtype = {}});
  // If there is a NaN, best is NaN and equals nothing: then NaNs are what is looked for.
  Tensor is_best = x == best;
  if (is_float(x.dtype())) is_best = is_best.logical_or(x.isnan());
  const Tensor position(detail::position_node(x.shape(), at));
  const Tensor candidates = tenon::where(is_best, position, x.dim(at));
  const Tensor out = candidates.min(at, {.keepdims = options.keepdims, .dtype = {}})
                         .astype(options.dtype.value_or(DType::kI64));
  return options.keepdims && !axis ? out.reshape(Shape(source.node().shape().size(), 1)) : out;
}

}  // namespace

Tensor Tensor::sum(const Axes& axes, const ReduceOptions& options) const {
  return accumulate(Op::kAdd, "sum", *this, axes, options);
}

Tensor Tensor::prod(const Axes& axes, const ReduceOptions& options) const {
  return accumulate(Op::kMul, "prod", *this, axes, options);
}

// W. Hillis, G. Steele, "Data Parallel Algorithms", CACM 1986, p. 1172. Each round is stored, or
// the fused expression would read n elements for each position.
Tensor Tensor::cumsum(std::optional<int64_t> axis, std::optional<DType> dtype) const {
  const Tensor x = axis ? *this : flatten();
  const ShapeView shape = x.node().shape();
  const auto at = static_cast<size_t>(detail::normalize_axis("cumsum", axis.value_or(0), shape));
  const DType result = sum_dtype("cumsum", x.dtype(), dtype);
  Tensor sums = x.astype(result).astype(detail::is_narrow_float(result) ? DType::kF32 : result);
  Pads shift(shape.size());
  std::vector<std::pair<int64_t, int64_t>> kept;
  for (const int64_t dim : shape)
    kept.emplace_back(0, dim);
  for (int64_t distance = 1; distance < shape[at]; distance *= 2) {
    shift[at] = {distance, 0};
    sums = (sums + sums.pad(shift).shrink(kept)).contiguous();
  }
  return sums.astype(result);
}

Tensor Tensor::max(const Axes& axes, const ReduceOptions& options) const {
  return extreme(Op::kMax, "max", *this, axes, options);
}

Tensor Tensor::min(const Axes& axes, const ReduceOptions& options) const {
  return extreme(Op::kMin, "min", *this, axes, options);
}

Tensor Tensor::any(const Axes& axes, const ReduceOptions& options) const {
  return truth(Op::kOr, "any", *this, axes, options);
}

Tensor Tensor::all(const Axes& axes, const ReduceOptions& options) const {
  return truth(Op::kAnd, "all", *this, axes, options);
}

Tensor Tensor::mean(const Axes& axes, const ReduceOptions& options) const {
  const DType dtype = mean_dtype(*this, options, "mean");
  const int64_t count = reduced_count(reduced_axes("mean", axes, node().shape()), node().shape());
  const Tensor x = astype(detail::compute_dtype(dtype));
  const Tensor total = x.sum(axes, {.keepdims = options.keepdims, .dtype = {}});
  return (total / static_cast<double>(count)).astype(dtype);
}

Tensor Tensor::var(const Axes& axes, double correction, const ReduceOptions& options) const {
  const DType dtype = mean_dtype(*this, options, "var");
  const int64_t count = reduced_count(reduced_axes("var", axes, node().shape()), node().shape());
  const Tensor x = astype(detail::compute_dtype(dtype));
  const Tensor centered = x - x.mean(axes, {.keepdims = true, .dtype = {}});
  const Tensor total = centered.square().sum(axes, {.keepdims = options.keepdims, .dtype = {}});
  return (total / std::max(static_cast<double>(count) - correction, 0.0)).astype(dtype);
}

Tensor Tensor::std(const Axes& axes, double correction, const ReduceOptions& options) const {
  const DType dtype = mean_dtype(*this, options, "std");
  const ReduceOptions wide{.keepdims = options.keepdims, .dtype = detail::compute_dtype(dtype)};
  return var(axes, correction, wide).sqrt().astype(dtype);
}

Tensor Tensor::argmax(std::optional<int64_t> axis, const ReduceOptions& options) const {
  return position_of_extreme(Op::kMax, "argmax", *this, axis, options);
}

Tensor Tensor::argmin(std::optional<int64_t> axis, const ReduceOptions& options) const {
  return position_of_extreme(Op::kMin, "argmin", *this, axis, options);
}

}  // namespace tenon
