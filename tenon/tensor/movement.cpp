// Movement methods of Tensor, and the functions that put tensors together by selection.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <numeric>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"
#include "tenon/tensor/promotion.h"
#include "tenon/tensor/tensor.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

std::vector<int64_t> axes_of(std::string_view where, const Axes& axes, ShapeView shape) {
  if (!axes.is_all()) return detail::normalize_axes(where, axes.list(), shape);
  std::vector<int64_t> out(shape.size());
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// The dtype of what is put together, and each source in it.
std::vector<Node> in_one_dtype(std::string_view where, const std::vector<Tensor>& tensors) {
  TENON_CHECK(!tensors.empty(), kInvalid, where, ": no tensors given; at least one is needed");
  DType dtype = tensors[0].dtype();
  for (const Tensor& tensor : tensors)
    dtype = detail::common_dtype(where, Tensor(detail::full_node(dtype, 0, {})), tensor);
  std::vector<Node> nodes;
  nodes.reserve(tensors.size());
  for (const Tensor& tensor : tensors)
    nodes.push_back(detail::cast_node(tensor.node(), dtype));
  return nodes;
}

}  // namespace

Tensor Tensor::reshape(const Shape& shape) const {
  Shape result = shape;
  const auto unknown = std::ranges::find(result, -1);
  if (unknown != result.end()) {
    TENON_CHECK(std::find(unknown + 1, result.end(), -1) == result.end(), kInvalid,
                "reshape: more than one dim is -1 in new shape ", shape, "; x is ", this->shape());
    *unknown = 1;
    const int64_t known = num_elements(result);
    TENON_CHECK(known != 0 && size() % known == 0, kInvalid, "reshape: -1 has no value; x is ",
                this->shape(), " with ", size(), " elements, new shape is ", shape);
    *unknown = size() / known;
  }
  if (std::ranges::equal(result, node().shape())) return *this;
  return Tensor(tensor_reshape(node(), result));
}

Tensor Tensor::flatten() const {
  return reshape({size()});
}

Tensor Tensor::permute(const std::vector<int64_t>& axes) const {
  const ShapeView dims = node().shape();
  TENON_CHECK(axes.size() == dims.size(), kInvalid, "permute: axes ", axes, " has ", axes.size(),
              " entries; x is ", shape(), " of rank ", ndim());
  detail::normalize_axes("permute", axes, dims);  // each once
  std::vector<int64_t> order;
  order.reserve(axes.size());
  for (const int64_t axis : axes)
    order.push_back(detail::normalize_axis("permute", axis, dims));
  return std::ranges::is_sorted(order) ? *this : Tensor(tensor_permute(node(), order));
}

Tensor Tensor::transpose() const {
  std::vector<int64_t> axes(node().shape().size());
  std::iota(axes.rbegin(), axes.rend(), 0);
  return permute(axes);
}

Tensor Tensor::swapaxes(int64_t axis1, int64_t axis2) const {
  const ShapeView dims = node().shape();
  std::vector<int64_t> axes(dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<size_t>(detail::normalize_axis("swapaxes", axis1, dims))],
            axes[static_cast<size_t>(detail::normalize_axis("swapaxes", axis2, dims))]);
  return permute(axes);
}

Tensor Tensor::matrix_transpose() const {
  TENON_CHECK(ndim() >= 2, kInvalid, "matrix_transpose: x is ", shape(),
              ", expected two dims or more");
  return swapaxes(-2, -1);
}

Tensor Tensor::squeeze(const Axes& axes) const {
  const ShapeView dims = node().shape();
  const std::vector<int64_t> given = axes_of("squeeze", axes, dims);
  Shape result;
  for (int64_t axis = 0; axis < std::ssize(dims); ++axis) {
    const int64_t dim = dims[static_cast<size_t>(axis)];
    const bool is_given = std::ranges::binary_search(given, axis);
    TENON_CHECK(!is_given || axes.is_all() || dim == 1, kInvalid, "squeeze: axis ", axis,
                " has size ", dim, ", expected 1; x is ", shape());
    if (!is_given || dim != 1) result.push_back(dim);
  }
  return reshape(result);
}

Tensor Tensor::expand_dims(int64_t axis) const {
  Shape result = shape();
  Shape with_axis = result;
  with_axis.push_back(1);
  result.insert(result.begin() + detail::normalize_axis("expand_dims", axis, with_axis), 1);
  return reshape(result);
}

Tensor Tensor::broadcast_to(const Shape& shape) const {
  TENON_CHECK(detail::find_broadcast_shape(node().shape(), shape) == shape, kInvalid,
              "broadcast_to: x is ", this->shape(), " and does not broadcast to ", shape);
  return Tensor(detail::broadcast_node(node(), shape));
}

Tensor Tensor::flip(const Axes& axes) const {
  std::vector<int64_t> flags(node().shape().size(), 0);
  for (const int64_t axis : axes_of("flip", axes, node().shape()))
    flags[static_cast<size_t>(axis)] = 1;
  return Tensor(tensor_flip(node(), flags));
}

Tensor Tensor::pad(const Pads& pads, Scalar value) const {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  for (const auto& [first, second] : pads) {
    before.push_back(first);
    after.push_back(second);
  }
  return Tensor(tensor_pad(node(), before, after, value.bits("pad", dtype())));
}

Tensor Tensor::shrink(const std::vector<std::pair<int64_t, int64_t>>& ranges) const {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
  for (const auto& [first, second] : ranges) {
    begin.push_back(first);
    end.push_back(second);
  }
  return Tensor(tensor_shrink(node(), begin, end));
}

Tensor Tensor::window(int64_t axis, int64_t size, int64_t step, int64_t dilation) const {
  return Tensor(tensor_window(node(), detail::normalize_axis("window", axis, node().shape()), size,
                              step, dilation));
}

// Each source is padded to the whole; where its part begins it is selected. Nothing is added, so
// -0 and NaN come through.
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t axis) {
  const std::vector<Node> nodes = in_one_dtype("concatenate", tensors);
  const ShapeView first = nodes[0].shape();
  const auto at = static_cast<size_t>(detail::normalize_axis("concatenate", axis, first));
  Shape shape(first.begin(), first.end());
  shape[at] = 0;
  for (const Node& node : nodes) {
    bool fits = node.shape().size() == first.size();
    for (size_t i = 0; fits && i < first.size(); ++i)
      fits = i == at || node.shape()[i] == first[i];
    TENON_CHECK(fits, kInvalid, "concatenate: shapes differ besides axis ", at, "; one is ",
                format_shape(first), ", another ", format_shape(node.shape()));
    shape[at] += node.shape()[at];
  }
  if (nodes.size() == 1) return tensors[0];
  Node out;
  int64_t offset = 0;
  for (const Node& node : nodes) {
    const int64_t dim = node.shape()[at];
    if (dim == 0) continue;
    std::vector<int64_t> before(shape.size(), 0);
    std::vector<int64_t> after(shape.size(), 0);
    before[at] = offset;
    after[at] = shape[at] - offset - dim;
    const Node placed = tensor_pad(node, before, after, 0);
    if (!out) {
      out = placed;
    } else {
      const Node position = detail::position_node(shape, static_cast<int64_t>(at));
      const Node bound = detail::full_node("concatenate", offset, position.dtype(), shape);
      out = tensor_where(tensor_binary(Op::kLt, position, bound), out, placed);
    }
    offset += dim;
  }
  return Tensor(out ? out : detail::full_node(nodes[0].dtype(), 0, shape));
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t axis) {
  const std::vector<Node> nodes = in_one_dtype("stack", tensors);
  Shape shape(nodes[0].shape().begin(), nodes[0].shape().end());
  shape.push_back(1);
  const int64_t at = detail::normalize_axis("stack", axis, shape);
  shape = tensors[0].expand_dims(at).shape();
  shape[static_cast<size_t>(at)] = std::ssize(nodes);
  Node out;
  for (size_t i = nodes.size(); i-- > 0;) {
    TENON_CHECK(std::ranges::equal(nodes[i].shape(), nodes[0].shape()), kInvalid,
                "stack: shapes differ; one is ", format_shape(nodes[0].shape()), ", another ",
                format_shape(nodes[i].shape()));
    const Node wide = Tensor(nodes[i]).expand_dims(at).broadcast_to(shape).node();
    if (!out) {
      out = wide;
    } else {
      const Node position = detail::position_node(shape, at);
      const Node number = detail::full_node("stack", i, position.dtype(), shape);
      out = tensor_where(tensor_binary(Op::kEq, position, number), wide, out);
    }
  }
  return Tensor(out);
}

}  // namespace tenon
