// What the sources of tensor/ share: axes, broadcasting and promotion of nodes. Not part of the
// public API. Each function that can fail takes `where`, the first word of its error text.
// SPDX-License-Identifier: MIT

#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/node.h"
#include "tenon/tensor/operand.h"

namespace tenon::detail {

/// Below 32 bits: arithmetic of many steps on it is done in f32.
bool is_narrow_float(DType dtype);
/// The dtype in which compositions compute: f32 for narrow floats and for what is no float.
DType compute_dtype(DType dtype);

/// `axis` counted from the front; negative ones count from the back.
int64_t normalize_axis(std::string_view where, int64_t axis, ShapeView shape);
/// The same for several, which must differ; ascending.
std::vector<int64_t> normalize_axes(std::string_view where, std::span<const int64_t> axes,
                                    ShapeView shape);

/// The common shape by NumPy's rule, or nothing.
std::optional<Shape> find_broadcast_shape(ShapeView a, ShapeView b);
/// The same; kInvalidArgument with both shapes if there is none.
Shape broadcast_shapes(std::string_view where, ShapeView a, ShapeView b);

/// These return `x` itself where nothing is to do.
Node cast_node(const Node& x, DType dtype);
Node reshape_node(const Node& x, ShapeView shape);
/// `shape` must be one that x's shape broadcasts to.
Node broadcast_node(const Node& x, ShapeView shape);

/// A constant tensor.
Node full_node(DType dtype, ScalarBits bits, ShapeView shape);
Node full_node(std::string_view where, const Scalar& value, DType dtype, ShapeView shape);

/// Dtype of a binary op before anything is converted.
DType common_dtype(std::string_view where, const Operand& a, const Operand& b);
/// Both operands cast to `dtype` and broadcast to one shape.
std::array<Node, 2> match(std::string_view where, const Operand& a, const Operand& b, DType dtype);

/// Position along `axis` of `shape`, in i32 if that holds it, else i64.
Node position_node(ShapeView shape, int64_t axis);

}  // namespace tenon::detail
