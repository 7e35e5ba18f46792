// Constants and ranges. SPDX-License-Identifier: MIT

#include "tenon/tensor/creation.h"

#include <cmath>
#include <limits>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

// Graphs without a buffer go where they are used; an explicit device is a copy to it.
Tensor placed(const Node& node, const TensorOptions& options) {
  const Tensor out(node);
  return options.device == nullptr ? out : out.to(*options.device);
}

bool is_whole(double value) {
  return value == std::trunc(value) && std::abs(value) < 0x1p53;
}

// Wide enough for every start, stop and step; starts, stops and lasts fit 64 bits.
using Int128 = __int128;

Int128 exact_int(const Scalar& value) {
  if (value.to_double() < 0) return static_cast<int64_t>(value.bits("arange", DType::kI64));
  return value.bits("arange", DType::kU64);
}

double int_length(Int128 start, Int128 stop, Int128 step) {
  const Int128 span = step > 0 ? stop - start : start - stop;
  const Int128 stride = step > 0 ? step : -step;
  TENON_ASSERT(stride != 0, "arange: step is 0");
  const Int128 length = span <= 0 ? 0 : (span - 1) / stride + 1;
  return static_cast<double>(length);
}

// start + i * step in the ring of the dtype: wraps where i * step does, so the sum is right
// whenever it fits.
Node int_range(const Scalar& start, const Scalar& step, int64_t count, DType dtype) {
  const Shape shape{count};
  const Node position = detail::cast_node(detail::position_node(shape, 0), dtype);
  const auto wrapped = [&](const Scalar& value) {
    const DType wide = dtype == DType::kU64 && value.to_double() >= 0 ? DType::kU64 : DType::kI64;
    return detail::full_node(dtype, canonical_bits(dtype, value.bits("arange", wide)), shape);
  };
  const Node scaled = tensor_binary(Op::kMul, position, wrapped(step));
  return tensor_binary(Op::kAdd, scaled, wrapped(start));
}

Tensor from_doubles(const std::vector<double>& values, DType dtype, const TensorOptions& options) {
  return Tensor::from_data(values, {std::ssize(values)},
                           {.dtype = dtype, .device = options.device});
}

}  // namespace

Tensor full(const Shape& shape, Scalar value, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(value.default_dtype());
  return placed(detail::full_node("full", value, dtype, shape), options);
}

Tensor zeros(const Shape& shape, const TensorOptions& options) {
  return full(shape, 0, {options.dtype.value_or(DType::kF32), options.device});
}

Tensor ones(const Shape& shape, const TensorOptions& options) {
  return full(shape, 1, {options.dtype.value_or(DType::kF32), options.device});
}

Tensor arange(Scalar start, Scalar stop, Scalar step, const TensorOptions& options) {
  const bool is_float_range = start.is_float() || stop.is_float() || step.is_float();
  const DType dtype = options.dtype.value_or(is_float_range ? DType::kF32 : DType::kI64);
  TENON_CHECK(dtype != DType::kBool, kInvalid, "arange: dtype bool has no range");
  const double from = start.to_double();
  const double by = step.to_double();
  TENON_CHECK(by != 0, kInvalid, "arange: step is 0; start is ", start, ", stop is ", stop);
  const double length = is_float_range
                            ? std::ceil((stop.to_double() - from) / by)
                            : int_length(exact_int(start), exact_int(stop), exact_int(step));
  TENON_CHECK(!std::isnan(length) && length < 0x1p53, kInvalid, "arange: ", length,
              " elements are too many; start is ", start, ", stop is ", stop, ", step is ", step);
  const int64_t count = length > 0 ? static_cast<int64_t>(length) : 0;
  if (is_int(dtype) && count > 0) {
    (void)start.bits("arange", dtype);
    if (is_float_range) {
      (void)Scalar(from + static_cast<double>(count - 1) * by).bits("arange", dtype);
    } else {
      const Int128 last = exact_int(start) + exact_int(step) * (count - 1);
      (void)(last < 0 ? Scalar(static_cast<int64_t>(last)) : Scalar(static_cast<uint64_t>(last)))
          .bits("arange", dtype);
    }
    return placed(int_range(start, step, count, dtype), options);
  }
  if (count == 0) return placed(detail::full_node(dtype, 0, Shape{0}), options);
  const double largest = std::max(std::abs(from), std::abs(from + static_cast<double>(count) * by));
  if (is_whole(from) && is_whole(by) && largest < 0x1p53) {
    const Node whole = int_range(static_cast<int64_t>(from), static_cast<int64_t>(by), count,
                                 largest < 0x1p31 ? DType::kI32 : DType::kI64);
    return placed(detail::cast_node(whole, dtype), options);
  }
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(from + static_cast<double>(i) * by);
  return from_doubles(values, dtype, options);
}

Tensor arange(Scalar stop, const TensorOptions& options) {
  return arange(0, stop, 1, options);
}

Tensor linspace(double start, double stop, int64_t num, bool has_endpoint,
                const TensorOptions& options) {
  TENON_CHECK(num >= 0, kInvalid, "linspace: num is ", num, ", expected 0 or more");
  const int64_t num_steps = has_endpoint ? num - 1 : num;
  const double step = num_steps > 0 ? (stop - start) / static_cast<double>(num_steps) : 0;
  std::vector<double> values;
  for (int64_t i = 0; i < num; ++i)
    values.push_back(start + static_cast<double>(i) * step);
  if (has_endpoint && num > 1) values.back() = stop;
  return from_doubles(values, options.dtype.value_or(DType::kF32), options);
}

Tensor eye(int64_t rows, std::optional<int64_t> columns, int64_t k, const TensorOptions& options) {
  const Shape shape{rows, columns.value_or(rows)};
  const Node row = tensor_index(DType::kI64, shape, 0);
  const Node column = tensor_index(DType::kI64, shape, 1);
  const Node shifted =
      tensor_binary(Op::kAdd, row, detail::full_node("eye", k, DType::kI64, shape));
  const Node is_one = tensor_binary(Op::kEq, column, shifted);
  return placed(detail::cast_node(is_one, options.dtype.value_or(DType::kF32)), options);
}

}  // namespace tenon
