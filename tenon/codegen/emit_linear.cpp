// Statements here; expressions in emit_expr.cpp. SPDX-License-Identifier: MIT

#include "tenon/codegen/emit_linear.h"

#include <algorithm>
#include <map>
#include <set>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/codegen/emit_expr.h"
#include "tenon/ir/kernel_walk.h"

namespace tenon {
namespace {

constexpr uint32_t kGroupAlign = 64;

Signature make_signature(const Kernel& nest) {
  Signature signature;
  for (const BufferDecl& buffer : nest.buffers) {
    if (buffer.access == BufferAccess::kTmp) continue;
    Argument argument{.name = buffer.name, .dtype = buffer.dtype};
    argument.access = buffer.access == BufferAccess::kIn    ? ArgumentAccess::kRead
                      : buffer.access == BufferAccess::kOut ? ArgumentAccess::kWrite
                                                            : ArgumentAccess::kReadWrite;
    argument.num_elements = layout_num_elements(buffer);
    signature.arguments.push_back(std::move(argument));
  }
  for (const ScalarDecl& scalar : nest.scalars) {
    signature.arguments.push_back({.name = scalar.name,
                                   .dtype = scalar.dtype,
                                   .is_buffer = false,
                                   .min = scalar.min,
                                   .max = scalar.max});
  }
  return signature;
}

std::vector<int64_t> extents_of(const std::vector<AxisUse>& uses) {
  std::vector<int64_t> extents;
  for (const AxisUse& use : uses)
    extents.push_back(axis_extent(use.axis));
  if (extents.empty()) extents.push_back(1);
  return extents;
}

class Emitter {
 public:
  Emitter(const Kernel& nest, DType index_dtype)
      : nest_(nest), builder_(program_), exprs_(nest, builder_, index_dtype), index_(index_dtype) {
    program_.name = nest.name;
    program_.signature = make_signature(nest);
    program_.grid = extents_of(nest.grid);
    program_.lanes = extents_of(nest.lanes);
    TENON_ASSERT(nest.lanes.empty(), "emit_linear: lanes are not emitted yet");
  }

  LinearProgram run() {
    bind_parameters();
    emit_body(nest_.body);
    builder_.finish();
    return std::move(program_);
  }

 private:
  using RegKey = std::pair<int, int64_t>;  // register buffer, element

  void bind_parameters() {
    int argument = 0;
    for (size_t i = 0; i < nest_.buffers.size(); ++i) {
      if (nest_.buffers[i].access == BufferAccess::kTmp) continue;
      exprs_.bind_pointer(static_cast<int>(i), builder_.param(argument++));
    }
    for (size_t i = 0; i < nest_.scalars.size(); ++i) {
      const ValueId value = builder_.param(argument++);
      const bool is_index = nest_.scalars[i].dtype == index_;
      exprs_.bind_scalar(static_cast<int64_t>(i), is_index ? value : builder_.cast(value, index_));
    }
    for (const AxisUse& use : nest_.grid) {
      exprs_.bind_axis(use.axis, builder_.grid_id(use.dim, index_));
    }
    for (size_t i = 0; i < nest_.buffers.size(); ++i) {
      const BufferDecl& buffer = nest_.buffers[i];
      if (buffer.scope != Scope::kGroup) continue;
      const auto align = static_cast<uint32_t>(std::max<int64_t>(buffer.align_bytes, kGroupAlign));
      exprs_.bind_pointer(static_cast<int>(i), builder_.alloc(buffer.dtype, Scope::kGroup,
                                                              layout_num_elements(buffer), align));
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void emit_body(const Body& body) {
    for (const Stmt& stmt : body) {
      if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
        emit_comp(*comp);
      } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
        emit_for(*loop);
      } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
        emit_if(*branch);
      } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
        emit_combine(*combine);
      } else if (std::holds_alternative<Barrier>(stmt.node)) {
        builder_.barrier();
      }
    }
  }

  // Calls `emit` once for each point of the instance axes, with the axes bound to constants.
  template <class Emit>
  void for_each_instance(const std::vector<AxisUse>& axes, Emit&& emit) {
    int64_t count = 1;
    for (const AxisUse& use : axes)
      count *= axis_extent(use.axis);
    for (int64_t point = 0; point < count; ++point) {
      int64_t rest = point;
      std::vector<std::pair<Node, int64_t>> coordinates;
      for (size_t i = axes.size(); i-- > 0;) {
        const int64_t extent = axis_extent(axes[i].axis);
        coordinates.emplace_back(axes[i].axis, rest % extent);
        rest /= extent;
      }
      exprs_.set_instance(coordinates);
      emit();
    }
    exprs_.set_instance({});
  }

  void emit_comp(const Comp& comp) {
    for (const AxisUse& use : comp.axes) {
      TENON_ASSERT(use.role == Role::kUnroll || use.role == Role::kVec, "emit_linear: a Comp of '",
                   nest_.name, "' binds an axis that is no instance");
    }
    for_each_instance(comp.axes, [&] { emit_instance(comp); });
  }

  void emit_instance(const Comp& comp) {
    ValueId guard = kNoId;
    for (const Node& conjunct : comp.guard) {
      const ValueId condition = exprs_.emit(conjunct);
      guard = guard == kNoId ? condition : builder_.binary(Op::kAnd, guard, condition);
    }
    const bool is_reg = nest_.buffers[static_cast<size_t>(comp.dst)].scope == Scope::kReg;
    if (is_reg) {
      const int64_t element = exprs_.constant_index(comp.index[0]);
      const ValueId old = comp.combine ? exprs_.reg_value(comp.dst, element) : kNoId;
      ValueId value = combined(comp, old);
      if (guard != kNoId) {
        value = builder_.ternary(Op::kWhere, guard, value, exprs_.reg_value(comp.dst, element));
      }
      exprs_.set_reg(comp.dst, element, value);
      return;
    }
    const ValueId pointer = exprs_.pointer(comp.dst);
    const ValueId index = exprs_.emit(comp.index[0]);
    ValueId old = kNoId;
    if (comp.combine) {
      const LinearType type = program_.type_of(pointer);
      const LinearType value = value_type(type.dtype);
      old = guard == kNoId
                ? builder_.load(value, pointer, index)
                : builder_.gated_load(value, pointer, index, guard, builder_.constant(value, 0));
    }
    const ValueId value = combined(comp, old);
    builder_.store(pointer, index, value, 0, guard, 0, comp.store == StoreKind::kNonTemporal);
  }

  // The value of the Comp, combined with the old one where it combines. A sum of products is the
  // one place where mulacc is made (docs/ir.md, determinism).
  ValueId combined(const Comp& comp, ValueId old) {
    if (!comp.combine) return exprs_.emit(comp.value);
    const bool is_product = comp.value.op() == Op::kMul && is_float(comp.value.dtype());
    if (*comp.combine == Op::kAdd && is_product) {
      const ValueId a = exprs_.emit(comp.value.src(0));
      const size_t second = is_planted(PlantedFault::kMulAccOperandTwice) ? 0 : 1;
      const ValueId b = exprs_.emit(comp.value.src(second));
      return builder_.ternary(Op::kMulAcc, a, b, old);
    }
    return builder_.binary(*comp.combine, old, exprs_.emit(comp.value));
  }

  // Register elements that statements inside `bodies` write and that live outside of them.
  std::vector<RegKey> carried_by(std::initializer_list<const Body*> bodies) {
    std::set<int> inner;
    std::set<RegKey> written;
    for (const Body* body : bodies) {
      for_each_stmt(*body, [&](const Stmt& stmt) {
        if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) inner.insert(alloc->buffer);
        if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
          note_written(comp->dst, comp->index[0], comp->axes, written);
        }
        if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
          note_written(combine->dst, combine->dst_index[0], combine->axes, written);
        }
      });
    }
    std::vector<RegKey> result;
    for (const RegKey& key : written) {
      if (!inner.contains(key.first)) result.push_back(key);
    }
    return result;
  }

  void note_written(int buffer, const Node& index, const std::vector<AxisUse>& axes,
                    std::set<RegKey>& written) {
    if (nest_.buffers[static_cast<size_t>(buffer)].scope != Scope::kReg) return;
    for_each_instance(axes, [&] { written.emplace(buffer, exprs_.constant_index(index)); });
  }

  std::vector<ValueId> values_of(const std::vector<RegKey>& keys) const {
    std::vector<ValueId> values;
    for (const auto& [buffer, element] : keys)
      values.push_back(exprs_.reg_value(buffer, element));
    return values;
  }

  // After one side of a branch, which need not have written all.
  std::vector<ValueId> values_of(const std::vector<RegKey>& keys,
                                 const std::vector<ValueId>& before) const {
    std::vector<ValueId> values;
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto& [buffer, element] = keys[i];
      values.push_back(exprs_.has_reg(buffer, element) ? exprs_.reg_value(buffer, element)
                                                       : before[i]);
    }
    return values;
  }

  // Before a loop or a branch: where nothing was written yet a zero, since each carried value needs
  // one. It may not be read: so what was not written is forgotten inside.
  std::vector<ValueId> start_values(const std::vector<RegKey>& keys) {
    std::vector<ValueId> values;
    for (const auto& [buffer, element] : keys) {
      const DType dtype = nest_.buffers[static_cast<size_t>(buffer)].dtype;
      values.push_back(exprs_.has_reg(buffer, element) ? exprs_.reg_value(buffer, element)
                                                       : builder_.constant(value_type(dtype), 0));
    }
    return values;
  }

  std::vector<RegKey> unwritten_of(const std::vector<RegKey>& keys) const {
    std::vector<RegKey> result;
    for (const RegKey& key : keys) {
      if (!exprs_.has_reg(key.first, key.second)) result.push_back(key);
    }
    return result;
  }

  void forget(const std::vector<RegKey>& keys) {
    for (const auto& [buffer, element] : keys)
      exprs_.forget_reg(buffer, element);
  }

  void set_values(const std::vector<RegKey>& keys, const std::vector<ValueId>& values) {
    for (size_t i = 0; i < keys.size(); ++i) {
      exprs_.set_reg(keys[i].first, keys[i].second, values[i]);
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void emit_for(const For& loop) {
    const std::vector<RegKey> carried = carried_by({&loop.body});
    const ValueId begin = builder_.constant(value_type(index_), 0);
    ValueId end = exprs_.emit(loop.extent);
    if (is_planted(PlantedFault::kLastIterationLost) && !carried.empty()) {
      end = builder_.binary(Op::kSub, end, builder_.constant(value_type(index_), 1));
    }
    const std::vector<RegKey> unwritten = unwritten_of(carried);
    const LinearBuilder::Loop opened = builder_.begin_for(begin, end, start_values(carried));
    exprs_.bind_axis(loop.axis.axis, opened.index);
    set_values(carried, opened.carried);
    forget(unwritten);
    const ExprEmitter::Mark mark = exprs_.enter_region();
    emit_body(loop.body);
    exprs_.leave_region(mark);
    set_values(carried, builder_.end_for(opened, values_of(carried)));
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void emit_if(const If& branch) {
    const std::vector<RegKey> carried = carried_by({&branch.then_body, &branch.else_body});
    const std::vector<RegKey> unwritten = unwritten_of(carried);
    const std::vector<ValueId> before = start_values(carried);
    std::vector<LinearType> types;
    for (const ValueId value : before)
      types.push_back(program_.type_of(value));
    const LinearBuilder::Branch opened = builder_.begin_if(exprs_.emit(branch.condition), types);
    ExprEmitter::Mark mark = exprs_.enter_region();
    emit_body(branch.then_body);
    exprs_.leave_region(mark);
    builder_.begin_else(opened, values_of(carried, before));
    set_values(carried, before);
    forget(unwritten);
    mark = exprs_.enter_region();
    emit_body(branch.else_body);
    exprs_.leave_region(mark);
    set_values(carried, builder_.end_if(opened, values_of(carried, before)));
  }

  // The halving tree of docs/ir.md over the instances of unroll axes, then of vec axes.
  void emit_combine(const Combine& combine) {
    std::map<int64_t, std::map<std::pair<int64_t, int64_t>, ValueId>> items;
    for (const AxisUse& use : combine.axes) {
      TENON_ASSERT(use.role == Role::kUnroll || use.role == Role::kVec,
                   "emit_linear: a Combine over lanes");
    }
    const auto ordinal = [&](Role role, const std::vector<std::pair<Node, int64_t>>& point) {
      int64_t number = 0;
      for (size_t i = 0; i < combine.axes.size(); ++i) {
        const AxisUse& use = combine.axes[i];
        if (use.role != role || uses_axis(combine.dst_index[0], use.axis)) continue;
        number = number * axis_extent(use.axis) + point[combine.axes.size() - 1 - i].second;
      }
      return number;
    };
    for_each_instance(combine.axes, [&] {
      const auto& point = exprs_.instance();
      const int64_t dst = exprs_.constant_index(combine.dst_index[0]);
      const int64_t src = exprs_.constant_index(combine.src_index[0]);
      items[dst][{ordinal(Role::kVec, point), ordinal(Role::kUnroll, point)}] =
          exprs_.reg_value(combine.src, src);
    });
    for (const auto& [dst, by_place] : items) {
      std::map<int64_t, std::vector<ValueId>> columns;  // by vec item: its unroll items in order
      for (const auto& [place, value] : by_place)
        columns[place.first].push_back(value);
      std::vector<ValueId> folded;
      for (auto& [column, values] : columns)
        folded.push_back(halve(combine.op, values));
      exprs_.set_reg(combine.dst, dst, halve(combine.op, folded));
    }
  }

  static bool uses_axis(const Node& expr, const Node& axis) {
    for (const Node& node : topological_order(std::span(&expr, 1))) {
      if (node == axis) return true;
    }
    return false;
  }

  ValueId halve(Op op, std::vector<ValueId> items) {
    while (items.size() > 1) {
      const size_t half = (items.size() + 1) / 2;
      for (size_t i = 0; i < items.size() - half; ++i) {
        items[i] = builder_.binary(op, items[i], items[i + half]);
      }
      items.resize(half);
    }
    return items[0];
  }

  const Kernel& nest_;
  LinearProgram program_;
  LinearBuilder builder_;
  ExprEmitter exprs_;
  DType index_;
};

}  // namespace

LinearProgram emit_linear(const Kernel& nest, DType index_dtype) {
  return Emitter(nest, index_dtype).run();
}

}  // namespace tenon
