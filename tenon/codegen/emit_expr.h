// Emits kernel expressions as instructions: the part of emit_linear that knows axes, scalars, loads
// and register values. SPDX-License-Identifier: MIT

#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"

namespace tenon {

class ExprEmitter {
 public:
  ExprEmitter(const Kernel& nest, LinearBuilder& builder, DType index_dtype)
      : nest_(nest), builder_(builder), index_(index_dtype) {}

  void bind_pointer(int buffer, ValueId pointer) { pointers_[buffer] = pointer; }
  void bind_scalar(int64_t number, ValueId value) { scalars_[number] = value; }
  void bind_axis(const Node& axis, ValueId value) { axes_[axis_id(axis)] = value; }
  ValueId pointer(int buffer) const { return pointers_.at(buffer); }

  /// Axes that are constants from now on (the instance of unroll and vec axes being emitted).
  void set_instance(std::vector<std::pair<Node, int64_t>> coordinates);
  const std::vector<std::pair<Node, int64_t>>& instance() const { return coordinates_; }

  /// Current SSA value of an element of a register buffer, which was written before.
  ValueId reg_value(int buffer, int64_t element) const;
  bool has_reg(int buffer, int64_t element) const { return regs_.contains({buffer, element}); }
  void set_reg(int buffer, int64_t element, ValueId value);
  /// As if it had never been written.
  void forget_reg(int buffer, int64_t element) { regs_.erase({buffer, element}); }

  /// Emits `expr` at the builder's place; equal nodes of the region and those around it are emitted
  /// once (loads only within one call: a store may stand between).
  ValueId emit(const Node& expr);
  /// The value of an index that is constant in this instance.
  int64_t constant_index(const Node& index) const;

  /// Values emitted inside a region are forgotten when it is left.
  using Mark = size_t;
  Mark enter_region() { return log_.size(); }
  void leave_region(Mark mark);

 private:
  ValueId emit_node(const Node& node);
  ValueId emit_load(const Node& load);
  ValueId value_of(const Node& node) const { return values_.at(node); }
  void remember(const Node& node, ValueId value);
  Node at_instance(const Node& expr) const;

  const Kernel& nest_;
  LinearBuilder& builder_;
  DType index_;
  std::unordered_map<int, ValueId> pointers_;
  std::unordered_map<int64_t, ValueId> scalars_;
  std::unordered_map<int64_t, ValueId> axes_;
  std::map<std::pair<int, int64_t>, ValueId> regs_;
  std::vector<std::pair<Node, int64_t>> coordinates_;
  std::vector<std::pair<Node, Node>> replacements_;  // axes of the instance -> constants
  std::unordered_map<Node, ValueId, NodeHash> values_;
  std::vector<Node> log_;  // order in which values_ grew
};

}  // namespace tenon
