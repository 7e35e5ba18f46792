// The oracle's walk over the graph. SPDX-License-Identifier: MIT

#include "tenon/conform/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "tenon/base/error.h"
#include "tenon/conform/oracle_blocks.h"
#include "tenon/conform/oracle_numeric.h"
#include "tenon/conform/oracle_parts.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

using detail::OracleNode;

constexpr size_t kMaxElements = size_t{1} << 28;
constexpr double kLeastNormalF32 = 0x1p-126;
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

// Marks what a matrix unit may be given, and what it may flush of it.
void note_flushes(const Node& node, std::span<const OracleNode* const> srcs, OracleNode& out) {
  const bool is_cast = node.op() == Op::kCast && node.src(0).dtype() == DType::kBF16;
  out.is_widened = is_cast && node.dtype() == DType::kF32;
  out.is_unit_product = node.op() == Op::kMul && srcs[0]->is_widened && srcs[1]->is_widened;
  if (!out.is_unit_product) return;
  const auto value_of = [](const OracleNode& source, size_t i) {
    return detail::oracle_value(DType::kF32, source.value.bits[i]);
  };
  for (size_t i = 0; i < out.value.bits.size(); ++i) {
    const double a = value_of(*srcs[0], i);
    const double b = value_of(*srcs[1], i);
    const double least = std::min(std::fabs(a), std::fabs(b));
    if (least > 0 && least < kLeastNormalF32) {
      out.most_flushed = std::max(out.most_flushed, std::fabs(a * b));
    }
  }
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
  const detail::OracleDeviations deviations(inputs.deviations);
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
    out.is_widened = srcs[0]->is_widened;
    out.is_unit_product = srcs[0]->is_unit_product;
    out.most_flushed = srcs[0]->most_flushed;
  } else if (op == Op::kReduce) {
    detail::evaluate_reduce(node, *srcs[0], deviations, out);
  } else if (op == Op::kContiguous || op == Op::kCopy || op == Op::kAssign) {
    out = *srcs.back();  // stored, so products are rounded for good
    out.has_rounded_products = out.is_widened = out.is_unit_product = false;
  } else {
    TENON_ASSERT(is_elementwise(op), "oracle: no value for ", op_name(op));
    detail::evaluate_elementwise(node, srcs, deviations, out);
    if (deviations.flushes_units) note_flushes(node, srcs, out);
  }
  return out;
}

// Values that are known already, by node.
using Known = std::unordered_map<const void*, const OracleNode*>;

// One walk over a graph.
class Evaluation {
 public:
  Evaluation(std::span<const Node> outputs, const OracleInputs& inputs, const Known& known)
      : outputs_(outputs), inputs_(inputs), known_(known), order_(topological_order(outputs)) {
    for (size_t i = 0; i < order_.size(); ++i)
      position_.emplace(order_[i].id(), i);
    find_needed();
  }

  // NOLINTNEXTLINE(misc-no-recursion): blocks of blocks, at most one for each axis
  std::vector<OracleNode> run() {
    values_.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      if (!is_needed_[i]) continue;
      if (!known_.contains(order_[i].id())) values_[i] = evaluate(i);
      for (const size_t read : reads_[i]) {
        if (last_use_[read] == i) values_[read] = OracleNode();
      }
    }
    std::vector<OracleNode> results;
    for (const Node& output : outputs_)
      results.push_back(value_at(position_.at(output.id())));
    return results;
  }

 private:
  // Backwards from the outputs: which values are needed, what each reads, and which reductions are
  // evaluated in blocks, so that the large nodes above them are not needed whole.
  void find_needed() {
    is_needed_.assign(order_.size(), false);
    last_use_.assign(order_.size(), 0);
    reads_.resize(order_.size());
    plans_.resize(order_.size());
    for (const Node& output : outputs_) {
      is_needed_[position_.at(output.id())] = true;
      last_use_[position_.at(output.id())] = std::numeric_limits<size_t>::max();
    }
    for (size_t i = order_.size(); i-- > 0;) {
      if (!is_needed_[i] || known_.contains(order_[i].id())) continue;
      if (known_.empty()) plans_[i] = detail::plan_blocks(order_[i]);  // a block is not cut again
      const std::span<const Node> sources =
          plans_[i] ? std::span<const Node>(plans_[i]->boundary) : order_[i].srcs();
      for (const Node& src : sources) {
        const size_t read = position_.at(src.id());
        reads_[i].push_back(read);
        is_needed_[read] = true;
        last_use_[read] = std::max(last_use_[read], i);
      }
    }
  }

  const OracleNode& value_at(size_t i) const {
    const auto found = known_.find(order_[i].id());
    return found == known_.end() ? values_[i] : *found->second;
  }

  // NOLINTNEXTLINE(misc-no-recursion): blocks of blocks, at most one for each axis
  OracleNode evaluate(size_t i) const {
    if (plans_[i]) return evaluate_in_blocks(order_[i], *plans_[i], reads_[i]);
    std::vector<const OracleNode*> srcs;
    for (const size_t read : reads_[i])
      srcs.push_back(&value_at(read));
    return evaluate_node(order_[i], srcs, inputs_);
  }

  // NOLINTNEXTLINE(misc-no-recursion): blocks of blocks, at most one for each axis
  OracleNode evaluate_in_blocks(const Node& node, const detail::BlockPlan& plan,
                                const std::vector<size_t>& reads) const {
    std::vector<Node> stand_ins;
    Known known;
    for (size_t i = 0; i < reads.size(); ++i) {
      stand_ins.push_back(tensor_buffer(plan.boundary[i].dtype(), plan.boundary[i].shape()));
      known.emplace(stand_ins.back().id(), &value_at(reads[i]));
    }
    OracleNode out;
    out.value.dtype = node.dtype();
    out.value.shape.assign(node.shape().begin(), node.shape().end());
    const int64_t dim = node.shape()[static_cast<size_t>(plan.axis)];
    const auto count = static_cast<int64_t>(detail::count_of(node.src(0).shape()));
    const auto limit = static_cast<int64_t>(detail::kElementsOfBlock);
    const int64_t step = std::max<int64_t>(1, limit / (count / dim));
    for (int64_t begin = 0; begin < dim; begin += step) {
      const Node block =
          detail::make_block(node, plan, stand_ins, begin, std::min(begin + step, dim));
      const OracleNode value = std::move(Evaluation({&block, 1}, inputs_, known).run()[0]);
      detail::place_block(value, plan.axis, begin, out);
    }
    return out;
  }

  std::span<const Node> outputs_;
  const OracleInputs& inputs_;
  const Known& known_;
  std::vector<Node> order_;
  std::unordered_map<const void*, size_t> position_;
  std::vector<bool> is_needed_;
  std::vector<size_t> last_use_;
  std::vector<std::vector<size_t>> reads_;
  std::vector<std::optional<detail::BlockPlan>> plans_;
  std::vector<OracleNode> values_;
};

}  // namespace

OracleInputs bind_inputs(std::span<const Node> buffers,
                         std::span<const std::vector<std::byte>> data,
                         std::vector<Deviation> deviations) {
  TENON_ASSERT(buffers.size() == data.size(), "oracle: ", buffers.size(), " buffers, data for ",
               data.size());
  OracleInputs inputs;
  inputs.deviations = std::move(deviations);
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
  const Known nothing;
  std::vector<OracleNode> values = Evaluation(outputs, inputs, nothing).run();
  std::vector<OracleValue> results;
  for (OracleNode& value : values)
    results.push_back(std::move(value.value));
  return results;
}

std::vector<std::byte> to_bytes(const OracleValue& value) {
  const auto size_bytes = static_cast<size_t>(dtype_size_bytes(value.dtype));
  std::vector<std::byte> bytes(value.bits.size() * size_bytes);
  for (size_t i = 0; i < value.bits.size(); ++i)
    detail::oracle_write(value.dtype, value.bits[i], bytes.data() + i * size_bytes);
  return bytes;
}

OracleValue exact_value(DType dtype, ShapeView shape, std::span<const std::byte> bytes) {
  OracleValue value{.dtype = dtype, .shape = Shape(shape.begin(), shape.end())};
  const auto size_bytes = static_cast<size_t>(dtype_size_bytes(dtype));
  value.bits.resize(bytes.size() / size_bytes);
  for (size_t i = 0; i < value.bits.size(); ++i)
    value.bits[i] = detail::oracle_read(dtype, bytes.data() + i * size_bytes);
  return value;
}

}  // namespace tenon
