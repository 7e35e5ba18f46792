// Rebuilding of tensor-graph nodes through the checked builders, and the verifier that is made of
// it: a sound node is what its builder makes of its parts. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

void check_num_attrs(const Node& node, size_t wanted) {
  TENON_CHECK(node.attr().size() == wanted, ErrorCode::kInvalidArgument, op_name(node.op()),
              ": has ", node.attr().size(), " attributes, expected ", wanted);
}

// A buffer's identity is its own, so it is checked in place.
Node rebuild_buffer(const Node& node) {
  check_num_attrs(node, 1);
  tensor_buffer(node.dtype(), node.shape());
  return make_node(Op::kBuffer, node.dtype(), node.shape(), {}, node.attr(), node.attachment());
}

Node rebuild_movement(const Node& node, const Node& x) {
  const std::span<const int64_t> attr = node.attr();
  const size_t rank = x.shape().size();
  if (node.op() == Op::kReshape) return tensor_reshape(x, node.shape());
  if (node.op() == Op::kExpand) return tensor_expand(x, node.shape());
  if (node.op() == Op::kPermute) return tensor_permute(x, attr);
  if (node.op() == Op::kFlip) return tensor_flip(x, attr);
  if (node.op() == Op::kPad) {
    check_num_attrs(node, 2 * rank + 1);
    return tensor_pad(x, attr.first(rank), attr.subspan(rank, rank),
                      static_cast<uint64_t>(attr.back()));
  }
  if (node.op() == Op::kShrink) {
    check_num_attrs(node, 2 * rank);
    return tensor_shrink(x, attr.first(rank), attr.subspan(rank));
  }
  TENON_ASSERT(node.op() == Op::kWindow, "no builder for ", op_name(node.op()));
  check_num_attrs(node, 4);
  return tensor_window(x, attr[0], attr[1], attr[2], attr[3]);
}

Node rebuild_reduce(const Node& node, const Node& x) {
  const std::span<const int64_t> attr = node.attr();
  TENON_CHECK(attr.size() >= 2, ErrorCode::kInvalidArgument, "reduce: has ", attr.size(),
              " attributes, expected at least 2");
  TENON_CHECK(attr[0] >= 0 && attr[0] < 256 && op_from_number(static_cast<uint8_t>(attr[0])),
              ErrorCode::kInvalidArgument, "reduce: no op has number ", attr[0]);
  TENON_CHECK(attr[1] >= 0 && attr[1] < 256 && dtype_from_number(static_cast<uint8_t>(attr[1])),
              ErrorCode::kInvalidArgument, "reduce: no dtype has number ", attr[1]);
  return tensor_reduce(static_cast<Op>(attr[0]), x, attr.subspan(2), static_cast<DType>(attr[1]));
}

}  // namespace

Node rebuild_tensor_node(const Node& node, std::span<const Node> srcs) {
  const OpInfo& info = op_info(node.op());
  TENON_CHECK(has_level(node.op(), kTensorLevel) && node.op() != Op::kLoad,
              ErrorCode::kInvalidArgument, info.name, ": does not exist in tensor graphs");
  TENON_CHECK(std::ssize(srcs) == info.arity, ErrorCode::kInvalidArgument, info.name, ": takes ",
              info.arity, " sources, got ", srcs.size());
  const std::span<const int64_t> attr = node.attr();
  if (is_movement(node.op())) return rebuild_movement(node, srcs[0]);
  if (node.op() == Op::kReduce) return rebuild_reduce(node, srcs[0]);
  if (node.op() == Op::kCast) return tensor_cast(srcs[0], node.dtype());
  if (node.op() == Op::kBitcast) return tensor_bitcast(srcs[0], node.dtype());
  if (is_elementwise(node.op())) return tensor_elementwise(node.op(), srcs);
  if (node.op() == Op::kBuffer) return rebuild_buffer(node);
  if (node.op() == Op::kContiguous) return tensor_contiguous(srcs[0]);
  if (node.op() == Op::kAssign) return tensor_assign(srcs[0], srcs[1]);
  if (node.op() == Op::kVariable) {
    check_num_attrs(node, 3);
    return tensor_variable(attr[0], attr[1], attr[2]);
  }
  check_num_attrs(node, 1);  // const, index and copy
  if (node.op() == Op::kConst) {
    return tensor_const(node.dtype(), static_cast<uint64_t>(attr[0]));
  }
  if (node.op() == Op::kIndex) return tensor_index(node.dtype(), node.shape(), attr[0]);
  TENON_ASSERT(node.op() == Op::kCopy, "no builder for ", info.name);
  return tensor_copy(srcs[0], attr[0]);
}

std::vector<std::string> verify_graph(std::span<const Node> outputs) {
  if (std::ranges::find(outputs, Node()) != outputs.end()) return {"an output is null"};
  return verify_nodes(topological_order(outputs));
}

std::vector<std::string> verify_nodes(std::span<const Node> nodes) {
  std::vector<std::string> findings;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const std::string where = concat("node ", i, " (", op_name(node.op()), "): ");
    try {
      const Node rebuilt = rebuild_tensor_node(node, node.srcs());
      if (rebuilt == node) continue;
      findings.push_back(concat(where, "is ", dtype_name(node.dtype()), " ",
                                format_shape(node.shape()), ", its builder gives ",
                                dtype_name(rebuilt.dtype()), " ", format_shape(rebuilt.shape()),
                                " or other attributes"));
    } catch (const Error& error) {
      findings.push_back(where + error.what());
    }
  }
  return findings;
}

}  // namespace tenon
