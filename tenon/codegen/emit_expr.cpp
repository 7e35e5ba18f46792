// SPDX-License-Identifier: MIT

#include "tenon/codegen/emit_expr.h"

#include "tenon/base/error.h"
#include "tenon/rules/simplify_index.h"

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
  const Node value = simplify_index(at_instance(index));
  TENON_ASSERT(is_const(value), "emit_linear: a register buffer of '", nest_.name,
               "' is indexed by a loop");
  return idx_value(value);
}

ValueId ExprEmitter::reg_value(int buffer, int64_t element) {
  const auto found = regs_.find({buffer, element});
  if (found != regs_.end()) return found->second;
  const DType dtype = nest_.buffers[static_cast<size_t>(buffer)].dtype;
  return builder_.constant(value_type(dtype), 0);
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
  const bool is_index = node.dtype() == DType::kIdx;
  if (node.op() == Op::kConst) {
    if (is_index) return index_constant(idx_value(node));
    return builder_.constant(value_type(node.dtype()), const_bits(node));
  }
  if (node.op() == Op::kAxis) return axes_.at(axis_id(node));
  if (node.op() == Op::kScalar) return scalars_.at(node.attr(0));
  if (node.op() == Op::kLoad) return emit_load(node);
  if (node.op() == Op::kCast) {
    const ValueId value = value_of(node.src(0));
    const DType from = node.src(0).dtype() == DType::kIdx ? index_ : node.src(0).dtype();
    const DType to = is_index ? index_ : node.dtype();
    return from == to ? value : builder_.cast(value, to);
  }
  if (node.op() == Op::kBitcast) return builder_.bitcast(value_of(node.src(0)), node.dtype());
  if (node.src(0).dtype() == DType::kIdx || is_index) return emit_index_op(node);
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

ValueId ExprEmitter::emit_index_op(const Node& node) {
  const ValueId a = value_of(node.src(0));
  const ValueId b = value_of(node.src(1));
  if (node.op() == Op::kFloorDiv || node.op() == Op::kFloorMod) {
    return emit_floor_division(node, a, b);
  }
  if (node.op() == Op::kNe) return builder_.unary(Op::kNot, builder_.binary(Op::kEq, a, b));
  if (node.op() == Op::kWhere) return builder_.ternary(Op::kWhere, a, b, value_of(node.src(2)));
  return builder_.binary(node.op(), a, b);
}

// Linear div and mod truncate: the same where neither side is negative; else corrected.
ValueId ExprEmitter::emit_floor_division(const Node& node, ValueId a, ValueId b) {
  const bool is_div = node.op() == Op::kFloorDiv;
  const bool is_natural =
      bounds_.bounds(node.src(0)).min >= 0 && bounds_.bounds(node.src(1)).min >= 0;
  if (is_natural) return builder_.binary(is_div ? Op::kDiv : Op::kMod, a, b);
  const ValueId zero = index_constant(0);
  const ValueId quotient = builder_.binary(Op::kDiv, a, b);
  const ValueId rest = builder_.binary(Op::kMod, a, b);
  const ValueId is_rest = builder_.unary(Op::kNot, builder_.binary(Op::kEq, rest, zero));
  const ValueId signs = builder_.binary(Op::kXor, builder_.binary(Op::kLt, rest, zero),
                                        builder_.binary(Op::kLt, b, zero));
  const ValueId is_short = builder_.binary(Op::kAnd, is_rest, signs);
  const ValueId lower = is_div ? builder_.binary(Op::kSub, quotient, index_constant(1))
                               : builder_.binary(Op::kAdd, rest, b);
  return builder_.ternary(Op::kWhere, is_short, lower, is_div ? quotient : rest);
}

}  // namespace tenon
