// Cutting of graphs for block-wise evaluation. SPDX-License-Identifier: MIT

#include "tenon/conform/oracle_blocks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon::detail {
namespace {

constexpr int64_t kWhole = -1;  // as an axis: the node is not cut

int64_t product_before(ShapeView shape, size_t axis) {
  int64_t product = 1;
  for (size_t i = 0; i < axis; ++i)
    product *= shape[i];
  return product;
}

// The source axis that the result axis of a reshape is, or nothing.
std::optional<int64_t> reshaped_axis(const Node& node, size_t axis) {
  const ShapeView source = node.src(0).shape();
  for (size_t i = 0; i < source.size(); ++i) {
    const bool is_same = source[i] == node.shape()[axis] &&
                         product_before(source, i) == product_before(node.shape(), axis);
    if (is_same) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

// Along which axis the sources of `node` must be cut so that `node` can be cut along `axis`;
// nothing if it cannot.
std::optional<int64_t> source_axis(const Node& node, int64_t axis) {
  const auto at = static_cast<size_t>(axis);
  const std::span<const int64_t> attr = node.attr();
  const size_t rank = node.shape().size();
  const Op op = node.op();
  bool can_cut = is_elementwise(op) || op == Op::kContiguous || op == Op::kCopy;
  if (op == Op::kIndex) can_cut = attr[0] != axis;
  if (op == Op::kReduce)
    can_cut = std::ranges::find(reduce_axes(node), axis) == reduce_axes(node).end();
  if (op == Op::kFlip) can_cut = attr[at] == 0;
  if (op == Op::kPad) can_cut = attr[at] == 0 && attr[rank + at] == 0;
  if (op == Op::kShrink) can_cut = attr[at] == 0 && attr[rank + at] == node.src(0).shape()[at];
  if (op == Op::kWindow) can_cut = axis != attr[0] && at + 1 != rank;
  if (op == Op::kPermute) return attr[at];
  if (op == Op::kExpand) return node.src(0).shape()[at] == node.shape()[at] ? axis : kWhole;
  if (op == Op::kReshape) return reshaped_axis(node, at);
  return can_cut ? std::optional(axis) : std::nullopt;
}

bool is_boundary(const Node& node, int64_t axis) {
  return axis == kWhole || count_of(node.shape()) <= kLargeElements || node.op() == Op::kBuffer ||
         !source_axis(node, axis);
}

// A node and the axis along which it is cut; by serial, so that the order is that of creation.
using Cut = std::pair<uint64_t, int64_t>;
Cut cut_of(const Node& node, int64_t axis) {
  return {node.serial(), axis};
}

// Calls body(node, axis) for everything that is cut, sources first, boundary included.
template <typename Body>
void for_each_cut(const Node& root, int64_t root_axis, Body&& body) {
  std::map<Cut, bool> seen;
  struct Visit {
    Node node;
    int64_t axis;
    bool is_done;
  };
  std::vector<Visit> stack{{root, root_axis, false}};
  while (!stack.empty()) {
    const Visit visit = stack.back();
    stack.pop_back();
    if (visit.is_done) {
      body(visit.node, visit.axis);
      continue;
    }
    if (!seen.emplace(cut_of(visit.node, visit.axis), true).second) continue;
    stack.push_back({visit.node, visit.axis, true});
    if (!(visit.node == root) && is_boundary(visit.node, visit.axis)) continue;
    const int64_t axis = source_axis(visit.node, visit.axis).value();
    for (const Node& src : visit.node.srcs())
      stack.push_back({src, axis, false});
  }
}

Shape resized(ShapeView shape, int64_t axis, int64_t size) {
  Shape result(shape.begin(), shape.end());
  result[static_cast<size_t>(axis)] = size;
  return result;
}

Node cut_stand_in(const Node& stand_in, int64_t axis, int64_t begin, int64_t end) {
  if (axis == kWhole) return stand_in;
  const ShapeView shape = stand_in.shape();
  return tensor_shrink(stand_in, resized(Shape(shape.size(), 0), axis, begin),
                       resized(shape, axis, end));
}

Node cut_node(const Node& node, std::span<const Node> srcs, int64_t axis, int64_t size) {
  const Shape shape = resized(node.shape(), axis, size);
  if (node.op() == Op::kExpand) return tensor_expand(srcs[0], shape);
  if (node.op() == Op::kReshape) return tensor_reshape(srcs[0], shape);
  if (node.op() == Op::kIndex) return tensor_index(node.dtype(), shape, node.attr(0));
  if (node.op() == Op::kShrink) {
    const size_t rank = shape.size();
    return tensor_shrink(srcs[0], node.attr().first(rank),
                         resized(node.attr().subspan(rank), axis, size));
  }
  return rebuild_tensor_node(node, srcs);
}

template <typename T>
void place_one(const std::vector<T>& block, ShapeView block_shape, ShapeView shape, int64_t axis,
               int64_t begin, std::vector<T>& out) {
  if (block.empty()) return;
  out.resize(count_of(shape));
  const auto at = static_cast<size_t>(axis);
  const auto inner = static_cast<int64_t>(count_of(shape.subspan(at + 1)));
  const int64_t length = block_shape[at] * inner;
  const int64_t outer = product_before(shape, at);
  for (int64_t i = 0; i < outer; ++i) {
    std::copy_n(block.begin() + i * length, length, out.begin() + (i * shape[at] + begin) * inner);
  }
}

}  // namespace

std::optional<BlockPlan> plan_blocks(const Node& node) {
  if (node.op() != Op::kReduce || count_of(node.src(0).shape()) <= kLargeElements) {
    return std::nullopt;
  }
  for (int64_t axis = 0; axis < std::ssize(node.shape()); ++axis) {
    if (node.shape()[static_cast<size_t>(axis)] < 2 || !source_axis(node, axis)) continue;
    if (is_boundary(node.src(0), axis)) continue;  // nothing above is cut, so nothing is gained
    BlockPlan plan{axis, {}};
    for_each_cut(node, axis, [&](const Node& cut, int64_t cut_axis) {
      const bool is_new = std::ranges::find(plan.boundary, cut) == plan.boundary.end();
      if (!(cut == node) && is_new && is_boundary(cut, cut_axis)) plan.boundary.push_back(cut);
    });
    return plan;
  }
  return std::nullopt;
}

Node make_block(const Node& node, const BlockPlan& plan, std::span<const Node> stand_ins,
                int64_t begin, int64_t end) {
  std::map<Cut, Node> done;
  for_each_cut(node, plan.axis, [&](const Node& cut, int64_t axis) {
    if (!(cut == node) && is_boundary(cut, axis)) {
      const auto found = std::ranges::find(plan.boundary, cut);
      const Node& stand_in = stand_ins[static_cast<size_t>(found - plan.boundary.begin())];
      done.emplace(cut_of(cut, axis), cut_stand_in(stand_in, axis, begin, end));
      return;
    }
    const int64_t above = source_axis(cut, axis).value();
    std::vector<Node> srcs;
    for (const Node& src : cut.srcs())
      srcs.push_back(done.at(cut_of(src, above)));
    done.emplace(cut_of(cut, axis), cut_node(cut, srcs, axis, end - begin));
  });
  return done.at(cut_of(node, plan.axis));
}

void place_block(const OracleNode& block, int64_t axis, int64_t begin, OracleNode& out) {
  const OracleValue& part = block.value;
  OracleValue& whole = out.value;
  place_one(part.bits, part.shape, whole.shape, axis, begin, whole.bits);
  place_one(part.radius, part.shape, whole.shape, axis, begin, whole.radius);
  place_one(part.excluded, part.shape, whole.shape, axis, begin, whole.excluded);
}

}  // namespace tenon::detail
