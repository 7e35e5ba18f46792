// Checked builders of tensor-graph nodes (.tg): the only way graphs are made. They check shapes,
// dtypes and attributes and never simplify: what was written stays readable and judgeable by the
// oracle. Promotion and broadcasting are the public API's (tensor/): here shapes and dtypes are
// equal. All throw kInvalidArgument (both shapes in the text) on what does not fit: also a rank
// over kMaxRank, and a shape whose non-zero dims multiply to more than 2^62.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/ir/node.h"

namespace tenon {

constexpr size_t kMaxRank = 32;

/// A buffer of `shape`; each call is a node of its own. `storage` may be null (a graph read from
/// text: inputs are bound by position). attr: identity.
Node tensor_buffer(DType dtype, ShapeView shape, const Ref<Attachment>& storage = {});
/// A 0-d constant from its canonical bits (ir/eval_op.h).
Node tensor_const(DType dtype, uint64_t bits);
/// A bounded symbolic number, 0-d int64. attr: id, min, max.
Node tensor_variable(int64_t id, int64_t min, int64_t max);
/// Position along `axis` as values of an integer dtype, which must hold the last position.
Node tensor_index(DType dtype, ShapeView shape, int64_t axis);

/// Elementwise: sources of one shape; dtypes by op.def's rule. Of the ops that take any dtype, bool
/// knows min, max, the comparisons and where; arithmetic on bool is refused (cast, or use
/// and/or/xor).
Node tensor_elementwise(Op op, std::span<const Node> srcs);
Node tensor_unary(Op op, const Node& x);
Node tensor_binary(Op op, const Node& a, const Node& b);
Node tensor_where(const Node& condition, const Node& a, const Node& b);
Node tensor_cast(const Node& x, DType dtype);
/// Same storage width; bool is refused.
Node tensor_bitcast(const Node& x, DType dtype);

/// x -> same elements in row-major order; counts are equal.
Node tensor_reshape(const Node& x, ShapeView shape);
/// Result axis i is source axis axes[i].
Node tensor_permute(const Node& x, std::span<const int64_t> axes);
/// Axes of size 1 become the given size (same rank); others stay.
Node tensor_expand(const Node& x, ShapeView shape);
/// `before[i]` and `after[i]` (>= 0) elements of value `fill_bits` around axis i.
Node tensor_pad(const Node& x, std::span<const int64_t> before, std::span<const int64_t> after,
                uint64_t fill_bits);
/// Elements begin[i] <= position < end[i].
Node tensor_shrink(const Node& x, std::span<const int64_t> begin, std::span<const int64_t> end);
/// Reverses the axes whose flag is not 0.
Node tensor_flip(const Node& x, std::span<const int64_t> flags);
/// out[..., p, ..., w] = x[..., p * step + w * dilation, ...]: `axis` holds the positions, a new
/// last axis the window. Number of positions: (dim - dilation * (size - 1) - 1) / step + 1, or 0 if
/// the window does not fit; size, step, dilation >= 1.
Node tensor_window(const Node& x, int64_t axis, int64_t size, int64_t step, int64_t dilation);

/// Combines over `axes` (unique; kept in ascending order), which keep size 1. The accumulator
/// starts at identity_of(op) in `accumulator`, each element is cast to it, the result cast back to
/// x's dtype. `accumulator` is x's dtype or a wider one of its kind. and/or: integers and bool;
/// add/mul: not bool. attr: op number, accumulator dtype number, axes.
Node tensor_reduce(Op op, const Node& x, std::span<const int64_t> axes, DType accumulator);
inline Op reduce_op(const Node& node) {
  return static_cast<Op>(node.attr(0));
}
inline DType reduce_accumulator(const Node& node) {
  return static_cast<DType>(node.attr(1));
}
inline std::span<const int64_t> reduce_axes(const Node& node) {
  return node.attr().subspan(2);
}

/// The same value, stored: a kernel boundary.
Node tensor_contiguous(const Node& x);
/// The same value on another device (number of the engine's device table).
Node tensor_copy(const Node& x, int64_t device);
/// The buffer's memory takes `value`; the node's value is `value`. `buffer` is a buffer node.
Node tensor_assign(const Node& buffer, const Node& value);

/// Product of the dims (1 for 0-d). Throws kInvalidArgument on a negative dim or beyond 2^62.
int64_t num_elements(ShapeView shape);

/// The op and attributes of `node` (a reshape or expand: its shape; a cast: its dtype) on other
/// sources, checked. Leaves come back as they are, after the same checks.
Node rebuild_tensor_node(const Node& node, std::span<const Node> srcs);

/// A graph with named inputs and outputs, as .tg files hold it.
struct TensorGraph {
  std::string name;
  std::vector<Node> inputs;  ///< buffer nodes without storage
  std::vector<std::string> input_names;
  std::vector<Node> outputs;
  std::vector<std::string> output_names;
};

/// What a graph must obey (op table, shapes, dtypes, attributes); findings as text, empty if sound.
/// Rebuilding each node with the checked builders must give the node itself.
std::vector<std::string> verify_graph(std::span<const Node> outputs);
/// The same of these nodes alone.
std::vector<std::string> verify_nodes(std::span<const Node> nodes);

}  // namespace tenon
