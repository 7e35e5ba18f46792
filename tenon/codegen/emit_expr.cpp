// SPDX-License-Identifier: MIT

#include "tenon/codegen/emit_expr.h"

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

// True if the expression reads memory or registers, so that its value may change between
// statements.
bool depends_on_memory(const Node& node, const std::unordered_map<const void*, bool>& known) {
  if (node.op() == Op::kLoad) return true;
  for (const Node& src : node.srcs()) {
    const auto found = known.find(src.id());
    if (found != known.end() && found->second) return true;
  }
  return false;
}

}  // namespace

void ExprEmitter::set_instance(std::vector<std::pair<Node, int64_t>> coordinates) {
  coordinates_ = std::move(coordinates);
  replacements_.clear();
  for (const auto& [axis, value] : coordinates_) {
    replacements_.emplace_back(axis, idx_const(value));
  }
}

Node ExprEmitter::at_instance(const Node& expr) const {
  return substitute(expr, replacements_);
}

int64_t ExprEmitter::constant_index(const Node& index) const {
  const Node root = at_instance(index);
  std::unordered_map<const void*, ScalarBits> values;
  for (const Node& node : topological_order(std::span(&root, 1))) {
    std::vector<ScalarBits> args;
    for (const Node& src : node.srcs())
      args.push_back(values.at(src.id()));
    if (is_const(node)) {
      values.emplace(node.id(), const_bits(node));
    } else if (node.op() == Op::kCast) {
      values.emplace(node.id(), eval_cast(args[0], node.src(0).dtype(), node.dtype()));
    } else {
      TENON_ASSERT(is_elementwise(node.op()), "emit_linear: a register buffer of '", nest_.name,
                   "' is indexed by a loop");
      values.emplace(node.id(), eval_op(node.op(), node.src(node.srcs().size() - 1).dtype(), args));
    }
  }
  return static_cast<int64_t>(values.at(root.id()));
}

ValueId ExprEmitter::reg_value(int buffer, int64_t element) const {
  const auto found = regs_.find({buffer, element});
  TENON_ASSERT(found != regs_.end(), "emit_linear: element ", element, " of register buffer '",
               nest_.buffers[static_cast<size_t>(buffer)].name, "' of '", nest_.name,
               "' is read before it is written");
  return found->second;
}

void ExprEmitter::set_reg(int buffer, int64_t element, ValueId value) {
  regs_[{buffer, element}] = value;
}

void ExprEmitter::leave_region(Mark mark) {
  while (log_.size() > mark) {
    values_.erase(log_.back());
    log_.pop_back();
  }
}

void ExprEmitter::remember(const Node& node, ValueId value) {
  values_.emplace(node, value);
  log_.push_back(node);
}

ValueId ExprEmitter::emit(const Node& expr) {
  const Node root = at_instance(expr);
  std::unordered_map<const void*, bool> reads_memory;
  std::vector<Node> passing;  // values that may not outlive this call
  for (const Node& node : topological_order(std::span(&root, 1))) {
    const bool reads = depends_on_memory(node, reads_memory);
    reads_memory.emplace(node.id(), reads);
    if (values_.contains(node)) continue;
    const ValueId value = emit_node(node);
    if (reads) {
      values_.emplace(node, value);
      passing.push_back(node);
    } else {
      remember(node, value);
    }
  }
  const ValueId result = value_of(root);
  for (const Node& node : passing)
    values_.erase(node);
  return result;
}

ValueId ExprEmitter::emit_node(const Node& node) {
  if (node.op() == Op::kConst) {
    return builder_.constant(value_type(node.dtype()), const_bits(node));
  }
  if (node.op() == Op::kAxis) return axes_.at(axis_id(node));
  if (node.op() == Op::kScalar) return scalars_.at(node.attr(0));
  if (node.op() == Op::kLoad) return emit_load(node);
  if (node.op() == Op::kCast) {
    const ValueId value = value_of(node.src(0));
    const DType from = node.src(0).dtype() == DType::kIdx ? index_ : node.src(0).dtype();
    return from == node.dtype() ? value : builder_.cast(value, node.dtype());
  }
  if (node.op() == Op::kBitcast) return builder_.bitcast(value_of(node.src(0)), node.dtype());
  TENON_ASSERT(has_level(node.op(), kLinearLevel), "emit_linear: '", op_name(node.op()),
               "' was not decomposed");
  if (node.srcs().size() == 1) return builder_.unary(node.op(), value_of(node.src(0)));
  const ValueId a = value_of(node.src(0));
  const ValueId b = value_of(node.src(1));
  if (node.srcs().size() == 2) return builder_.binary(node.op(), a, b);
  return builder_.ternary(node.op(), a, b, value_of(node.src(2)));
}

ValueId ExprEmitter::emit_load(const Node& load) {
  const LoadParts parts = load_parts(load);
  const BufferDecl& buffer = nest_.buffers[static_cast<size_t>(parts.buffer)];
  if (buffer.scope == Scope::kReg) {
    const ValueId value = reg_value(parts.buffer, constant_index(parts.index[0]));
    if (!parts.gated) return value;
    return builder_.ternary(Op::kWhere, value_of(parts.gate), value, value_of(parts.alt));
  }
  const ValueId pointer = pointers_.at(parts.buffer);
  const ValueId index = value_of(parts.index[0]);
  const LinearType type = value_type(load.dtype());
  if (!parts.gated) return builder_.load(type, pointer, index);
  return builder_.gated_load(type, pointer, index, value_of(parts.gate), value_of(parts.alt));
}

}  // namespace tenon
