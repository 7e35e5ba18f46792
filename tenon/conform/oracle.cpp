// The oracle's walk over the graph. SPDX-License-Identifier: MIT

#include "tenon/conform/oracle.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "tenon/base/error.h"
#include "tenon/conform/oracle_numeric.h"
#include "tenon/conform/oracle_parts.h"

namespace tenon {
namespace {

using detail::OracleNode;

constexpr size_t kMaxElements = size_t{1} << 28;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

void read_buffer(const Node& node, const OracleInputs& inputs, OracleNode& out) {
  TENON_ASSERT(inputs.buffer, "oracle: the graph has buffers, but no data was given");
  const std::span<const std::byte> bytes = inputs.buffer(node);
  const size_t count = detail::count_of(node.shape());
  const auto size_bytes = static_cast<size_t>(dtype_size_bytes(node.dtype()));
  TENON_CHECK(bytes.size() == count * size_bytes, kInvalid, "oracle: input of shape ",
              format_shape(node.shape()), " and dtype ", dtype_name(node.dtype()), " has ",
              bytes.size(), " bytes, expected ", count * size_bytes);
  out.value.bits.resize(count);
  for (size_t i = 0; i < count; ++i)
    out.value.bits[i] = detail::oracle_read(node.dtype(), bytes.data() + i * size_bytes);
  out.is_raw = true;
}

void read_variable(const Node& node, const OracleInputs& inputs, OracleNode& out) {
  TENON_CHECK(inputs.variable, kInvalid, "oracle: the graph has variable ", node.attr(0),
              ", but no values for variables were given");
  const int64_t value = inputs.variable(node);
  TENON_CHECK(value >= node.attr(1) && value <= node.attr(2), kInvalid, "oracle: variable ",
              node.attr(0), " is ", value, ", outside its bounds ", node.attr(1), " to ",
              node.attr(2));
  out.value.bits = {static_cast<uint64_t>(value)};
}

void fill_index(const Node& node, OracleNode& out) {
  const auto axis = static_cast<size_t>(node.attr(0));
  const auto dim = static_cast<uint64_t>(node.shape()[axis]);
  const auto stride = static_cast<uint64_t>(detail::strides_of(node.shape())[axis]);
  out.value.bits.resize(detail::count_of(node.shape()));
  for (size_t i = 0; i < out.value.bits.size(); ++i)
    out.value.bits[i] = detail::oracle_canonical(node.dtype(), i / stride % dim);
}

OracleNode evaluate_node(const Node& node, std::span<const OracleNode* const> srcs,
                         const OracleInputs& inputs) {
  size_t count = 1;
  for (int64_t dim : node.shape()) {
    TENON_CHECK(dim == 0 || count <= kMaxElements / static_cast<size_t>(dim),
                ErrorCode::kUnsupported, "oracle: ", op_name(node.op()), " of shape ",
                format_shape(node.shape()), " has more than 2^28 elements");
    count *= static_cast<size_t>(dim);
  }
  OracleNode out;
  out.value.dtype = node.dtype();
  out.value.shape.assign(node.shape().begin(), node.shape().end());
  const Op op = node.op();
  if (op == Op::kBuffer) {
    read_buffer(node, inputs, out);
  } else if (op == Op::kVariable) {
    read_variable(node, inputs, out);
  } else if (op == Op::kConst) {
    out.value.bits = {detail::oracle_canonical(node.dtype(), static_cast<uint64_t>(node.attr(0)))};
    out.is_raw = true;
  } else if (op == Op::kIndex) {
    fill_index(node, out);
  } else if (is_movement(op)) {
    detail::evaluate_movement(node, srcs[0]->value, out.value);
    out.is_raw = srcs[0]->is_raw;
    out.has_rounded_products = srcs[0]->has_rounded_products;
  } else if (op == Op::kReduce) {
    detail::evaluate_reduce(node, *srcs[0], out);
  } else if (op == Op::kContiguous || op == Op::kCopy || op == Op::kAssign) {
    out = *srcs.back();  // stored, so products are rounded for good
    out.has_rounded_products = false;
  } else {
    TENON_ASSERT(is_elementwise(op), "oracle: no value for ", op_name(op));
    detail::evaluate_elementwise(node, srcs, out);
  }
  return out;
}

}  // namespace

OracleInputs bind_inputs(std::span<const Node> buffers,
                         std::span<const std::vector<std::byte>> data) {
  TENON_ASSERT(buffers.size() == data.size(), "oracle: ", buffers.size(), " buffers, data for ",
               data.size());
  OracleInputs inputs;
  inputs.buffer = [buffers, data](const Node& node) -> std::span<const std::byte> {
    const auto found = std::ranges::find(buffers, node);
    TENON_CHECK(found != buffers.end(), kInvalid, "oracle: no data for a buffer of shape ",
                format_shape(node.shape()), ". It is not among the inputs");
    return data[static_cast<size_t>(found - buffers.begin())];
  };
  return inputs;
}

std::vector<OracleValue> evaluate_oracle(std::span<const Node> outputs,
                                         const OracleInputs& inputs) {
  const std::vector<Node> order = topological_order(outputs);
  std::unordered_map<const void*, size_t> position;
  std::vector<size_t> last_use(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    position.emplace(order[i].id(), i);
    for (const Node& src : order[i].srcs())
      last_use[position.at(src.id())] = i;
  }
  for (const Node& output : outputs)
    last_use[position.at(output.id())] = std::numeric_limits<size_t>::max();
  std::vector<OracleNode> values(order.size());
  std::vector<const OracleNode*> srcs;
  for (size_t i = 0; i < order.size(); ++i) {
    srcs.clear();
    for (const Node& src : order[i].srcs())
      srcs.push_back(&values[position.at(src.id())]);
    values[i] = evaluate_node(order[i], srcs, inputs);
    for (const Node& src : order[i].srcs()) {
      const size_t source = position.at(src.id());
      if (last_use[source] == i) values[source] = OracleNode();
    }
  }
  std::vector<OracleValue> results;
  for (const Node& output : outputs)
    results.push_back(values[position.at(output.id())].value);
  return results;
}

std::vector<std::byte> to_bytes(const OracleValue& value) {
  const auto size_bytes = static_cast<size_t>(dtype_size_bytes(value.dtype));
  std::vector<std::byte> bytes(value.bits.size() * size_bytes);
  for (size_t i = 0; i < value.bits.size(); ++i)
    detail::oracle_write(value.dtype, value.bits[i], bytes.data() + i * size_bytes);
  return bytes;
}

}  // namespace tenon
