// Axes, broadcasting and promotion of nodes. SPDX-License-Identifier: MIT

#include "tenon/tensor/build.h"

#include <algorithm>
#include <limits>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/promotion.h"

namespace tenon::detail {

bool is_narrow_float(DType dtype) {
  return is_float(dtype) && dtype_bits(dtype) < 32;
}

DType compute_dtype(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

int64_t normalize_axis(std::string_view where, int64_t axis, ShapeView shape) {
  const int64_t rank = std::ssize(shape);
  TENON_CHECK(-rank <= axis && axis < rank, ErrorCode::kInvalidArgument, where, ": axis ", axis,
              " is out of range; x is ", format_shape(shape), " of rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> normalize_axes(std::string_view where, std::span<const int64_t> axes,
                                    ShapeView shape) {
  std::vector<int64_t> out;
  for (const int64_t axis : axes)
    out.push_back(normalize_axis(where, axis, shape));
  std::ranges::sort(out);
  const auto twice = std::ranges::adjacent_find(out);
  TENON_CHECK(twice == out.end(), ErrorCode::kInvalidArgument, where, ": axis ", *twice,
              " appears twice in axes ", format_shape(axes), "; x is ", format_shape(shape));
  return out;
}

std::optional<Shape> find_broadcast_shape(ShapeView a, ShapeView b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {  // counted from the last axis
    const int64_t dim_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t dim_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (dim_a != dim_b && dim_a != 1 && dim_b != 1) return std::nullopt;
    out[out.size() - 1 - i] = dim_a == 1 ? dim_b : dim_a;
  }
  return out;
}

Shape broadcast_shapes(std::string_view where, ShapeView a, ShapeView b) {
  const std::optional<Shape> shape = find_broadcast_shape(a, b);
  TENON_CHECK(shape.has_value(), ErrorCode::kInvalidArgument, where,
              ": shapes do not broadcast; lhs is ", format_shape(a), ", rhs is ", format_shape(b),
              ". Sizes must be equal or 1, counted from the last axis");
  return *shape;
}

Node cast_node(const Node& x, DType dtype) {
  return x.dtype() == dtype ? x : tensor_cast(x, dtype);
}

Node reshape_node(const Node& x, ShapeView shape) {
  return std::ranges::equal(x.shape(), shape) ? x : tensor_reshape(x, shape);
}

Node broadcast_node(const Node& x, ShapeView shape) {
  Shape padded(shape.size() - x.shape().size(), 1);
  padded.insert(padded.end(), x.shape().begin(), x.shape().end());
  const Node same_rank = reshape_node(x, padded);
  return std::ranges::equal(padded, shape) ? same_rank : tensor_expand(same_rank, shape);
}

Node full_node(DType dtype, ScalarBits bits, ShapeView shape) {
  return broadcast_node(tensor_const(dtype, bits), shape);
}

Node full_node(std::string_view where, const Scalar& value, DType dtype, ShapeView shape) {
  return full_node(dtype, value.bits(where, dtype), shape);
}

DType common_dtype(std::string_view where, const Operand& a, const Operand& b) {
  if (a.is_scalar() && b.is_scalar()) {
    return promote_types(a.scalar().default_dtype(), b.scalar().default_dtype());
  }
  if (a.is_scalar()) return promote_types(b.node().dtype(), a.scalar());
  if (b.is_scalar()) return promote_types(a.node().dtype(), b.scalar());
  const auto common = find_common_dtype(a.node().dtype(), b.node().dtype());
  TENON_CHECK(common.has_value(), ErrorCode::kInvalidArgument, where, ": ",
              dtype_long_name(a.node().dtype()), " and ", dtype_long_name(b.node().dtype()),
              " have no common integer dtype. Use astype on one of them");
  return *common;
}

std::array<Node, 2> match(std::string_view where, const Operand& a, const Operand& b, DType dtype) {
  const ShapeView none;
  const ShapeView shape_a = a.is_scalar() ? none : a.node().shape();
  const ShapeView shape_b = b.is_scalar() ? none : b.node().shape();
  const Shape shape = broadcast_shapes(where, shape_a, shape_b);
  const auto convert = [&](const Operand& x) {
    if (x.is_scalar()) return full_node(where, x.scalar(), dtype, shape);
    return broadcast_node(cast_node(x.node(), dtype), shape);
  };
  return {convert(a), convert(b)};
}

Node position_node(ShapeView shape, int64_t axis) {
  const bool is_short = shape[static_cast<size_t>(axis)] <= std::numeric_limits<int32_t>::max();
  return tensor_index(is_short ? DType::kI32 : DType::kI64, shape, axis);
}

}  // namespace tenon::detail
