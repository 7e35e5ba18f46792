// Statements here; expressions in emit_expr.cpp. SPDX-License-Identifier: MIT

#include "tenon/codegen/emit_linear.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/codegen/emit_expr.h"
#include "tenon/codegen/emit_fold.h"
#include "tenon/codegen/emit_regs.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/ir/linear_unit.h"

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
  Emitter(const Kernel& nest, DType index_dtype, std::span<const MatrixUnit> units)
      : nest_(nest),
        units_(units),
        builder_(program_),
        regs_(nest),
        exprs_(nest, program_, builder_, regs_, index_dtype),
        index_(index_dtype) {
    program_.name = nest.name;
    program_.signature = make_signature(nest);
    program_.grid = extents_of(nest.grid);
    program_.lanes = extents_of(nest.lanes);
  }

  LinearProgram run() {
    bind_parameters();
    set_up_units();
    emit_body(nest_.body);
    builder_.finish();
    return std::move(program_);
  }

 private:
  static constexpr size_t kDone = SIZE_MAX;  // what a count down from 0 ends at

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
    for (const AxisUse& use : nest_.lanes)
      exprs_.bind_axis(use.axis, builder_.lane_id(use.dim, index_));
    for (size_t i = 0; i < nest_.buffers.size(); ++i) {
      const BufferDecl& buffer = nest_.buffers[i];
      if (buffer.scope != Scope::kGroup) continue;
      const auto align = static_cast<uint32_t>(std::max<int64_t>(buffer.align_bytes, kGroupAlign));
      exprs_.bind_pointer(static_cast<int>(i), builder_.alloc(buffer.dtype, Scope::kGroup,
                                                              layout_num_elements(buffer), align));
    }
  }

  // Which unit each accumulator in tiles belongs to; the units are set up.
  void set_up_units() {
    for_each_stmt(nest_.body, [&](const Stmt& stmt) {
      const auto* comp = std::get_if<Comp>(&stmt.node);
      if (comp == nullptr || !comp->combine || !unit_axes_of(comp->axes).column) return;
      const UnitAxes axes = unit_axes_of(comp->axes);
      const auto factors = unit_factors(*comp, axes.column);
      const int unit = factors ? find_tile_unit(units_, *factors, comp->value.dtype(), axes) : -1;
      TENON_ASSERT(unit >= 0, "emit_linear: no unit on tiles for a Comp of '", nest_.name, "'");
      const bool is_set_up =
          std::ranges::any_of(unit_of_, [&](const auto& entry) { return entry.second == unit; });
      unit_of_[comp->dst] = unit;
      if (is_set_up || !units_[static_cast<size_t>(unit)].needs_setup) return;
      builder_.append({.op = Op::kUnitSetup, .imm = unit}, {}, {});
    });
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
      } else if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
        regs_.forget_buffer(alloc->buffer);
      } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
        emit_combine(*combine);
      } else if (std::holds_alternative<Barrier>(stmt.node)) {
        builder_.barrier();
      }
    }
  }

  // --- Comps ---

  void emit_comp(const Comp& comp) {
    std::vector<AxisUse> loops;
    std::vector<AxisUse> axes;
    for (const AxisUse& use : comp.axes) {
      const bool is_instance =
          use.role == Role::kUnroll || use.role == Role::kVec || use.role == Role::kUnit;
      TENON_ASSERT(is_instance || use.role == Role::kSeq, "emit_linear: a Comp of '", nest_.name,
                   "' binds an axis that is neither seq nor unroll nor vec");
      TENON_ASSERT(is_instance || axes.empty() || axis_kind(use.axis) == AxisKind::kPar,
                   "emit_linear: a Comp of '", nest_.name,
                   "' combines over a seq axis inside an unroll or vec axis; put it outside");
      (is_instance ? axes : loops).push_back(use);
    }
    const std::vector<RegKey> carried = regs_.is_reg(comp.dst) && !loops.empty()
                                            ? regs_.written_by(comp.dst, comp.index[0], axes)
                                            : std::vector<RegKey>();
    emit_loops(loops, carried, [&] {
      exprs_.open(comp, axes);
      const size_t grouped = grouped_axis(comp, axes);
      for_each_point(axes, [&](const std::vector<int64_t>& point) {
        if (grouped < axes.size()) {
          if (point[grouped] == 0) emit_group(comp, axes[grouped].axis, grouped, point);
        } else if (exprs_.move_to(point)) {
          emit_point(comp);
        }
      });
      exprs_.close();
    });
  }

  // Calls `emit` for each point of the axes in row-major order; vec and unit axes stay at 0.
  template <class Emit>
  void for_each_point(const std::vector<AxisUse>& axes, Emit&& emit) {
    const Node vec = vec_axis_of(axes, nest_.name);
    std::vector<int64_t> point(axes.size(), 0);
    for (size_t moved = 0; moved != kDone;) {
      emit(point);
      for (moved = axes.size(); moved-- > 0;) {
        const bool is_fixed = (vec && axes[moved].axis == vec) || axes[moved].role == Role::kUnit;
        if (!is_fixed && ++point[moved] < axis_extent(axes[moved].axis)) break;
        point[moved] = 0;
      }
    }
  }

  void emit_point(const Comp& comp) {
    if (unit_axes_of(comp.axes).column) {
      emit_tile(comp);
    } else if (regs_.is_reg(comp.dst)) {
      emit_to_register(comp);
    } else {
      emit_to_memory(comp);
    }
  }

  // The unroll axis whose points lie side by side in memory, with those of the vec axis around
  // them: all of them are one vector. The number of axes: none, or the Comp is not a plain set.
  size_t grouped_axis(const Comp& comp, const std::vector<AxisUse>& axes) {
    const Node vec = vec_axis_of(axes, nest_.name);
    if (!vec || regs_.is_reg(comp.dst) || comp.combine || !comp.guard.empty()) return axes.size();
    const int64_t width = dtype_size_bytes(nest_.buffers[static_cast<size_t>(comp.dst)].dtype);
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t count = axis_extent(axes[i].axis);
      const bool is_group = axes[i].role == Role::kUnroll && count > 1 &&
                            (count & (count - 1)) == 0 &&
                            count * axis_extent(vec) * width <= widest_operand() &&
                            exprs_.stride(comp.index[0], axes[i].axis) == 1 &&
                            exprs_.stride(comp.index[0], vec) == count;
      if (is_group) return i;
    }
    return axes.size();
  }

  // Bytes of the vectors that units read: a store is no wider.
  int64_t widest_operand() const {
    int64_t bytes = 0;
    for (const MatrixUnit& unit : units_)
      bytes = std::max(bytes, int64_t{unit.n} * unit.group * dtype_size_bytes(unit.b));
    return bytes;
  }

  void emit_group(const Comp& comp, const Node& axis, size_t number, std::vector<int64_t> point) {
    std::vector<ValueId> values;
    for (int64_t i = 0; i < axis_extent(axis); ++i) {
      point[number] = i;
      exprs_.move_to(point);
      values.push_back(exprs_.widen(exprs_.emit(comp.value), exprs_.lanes()));
    }
    point[number] = 0;
    exprs_.move_to(point);
    const BufferDecl& buffer = nest_.buffers[static_cast<size_t>(comp.dst)];
    const Address at = exprs_.place_along(comp.index[0], buffer.dtype, axis);
    builder_.store(exprs_.pointer(comp.dst), at.index,
                   side_by_side(builder_, program_, std::move(values)), at.offset, kNoId, at.align,
                   comp.store == StoreKind::kNonTemporal);
  }

  void emit_to_register(const Comp& comp) {
    const BufferDecl& buffer = nest_.buffers[static_cast<size_t>(comp.dst)];
    const int64_t element = exprs_.reg_element(comp.index[0]);
    const bool is_vector = exprs_.reg_stride(comp.index[0]) != 0;
    const int lanes = is_vector ? exprs_.lanes() : 1;
    TENON_ASSERT(regs_.width(comp.dst) == lanes, "emit_linear: register buffer '", buffer.name,
                 "' of '", nest_.name, "' is written as ", lanes,
                 " lanes, it is read as vectors of ", regs_.width(comp.dst));
    const RegKey key = regs_.key(comp.dst, element);
    TENON_ASSERT(key.first == element, "emit_linear: register buffer '", buffer.name, "' of '",
                 nest_.name, "' is written at element ", element, " as vectors of ", lanes);
    const ValueId old = comp.combine ? exprs_.reg_vector(comp.dst, element) : regs_.find(key);
    ValueId value = combined(comp, old);
    if (is_vector) value = exprs_.widen(value, lanes);
    const ValueId gate = exprs_.whole(exprs_.guard());
    // A register that was never written may take any value where the guard is false.
    if (gate != kNoId && old != kNoId) {
      value = exprs_.apply(Op::kWhere, std::array{gate, value, old});
    }
    TENON_ASSERT(
        exprs_.lanes_of(value) == lanes && (is_vector || !comp.combine || exprs_.lanes() == 1),
        "emit_linear: a Comp of '", nest_.name, "' writes one element of '", buffer.name,
        "' at all points of its vec axis; use an element for each and a combine");
    regs_.set(key, value);
  }

  void emit_to_memory(const Comp& comp) {
    const BufferDecl& buffer = nest_.buffers[static_cast<size_t>(comp.dst)];
    const int lanes = exprs_.lanes();
    const ValueId gate = exprs_.whole(exprs_.guard());
    const Address at = exprs_.place(comp.index[0], buffer.dtype);
    if (lanes > 1 && at.kind == Address::Kind::kScalar) return emit_to_element(comp, at, gate);
    ValueId old = kNoId;
    if (comp.combine) {
      const LinearType type = value_type(buffer.dtype, lanes);
      old = exprs_.load(type, comp.dst, at, gate, exprs_.constant(type, 0));
    }
    const ValueId value = exprs_.widen(combined(comp, old), lanes);
    builder_.store(exprs_.pointer(comp.dst), at.index, value, at.offset, gate, at.align,
                   comp.store == StoreKind::kNonTemporal);
  }

  // One element for all points of the vec axis, of which the guard leaves at most one.
  void emit_to_element(const Comp& comp, const Address& at, ValueId gate) {
    const int lanes = exprs_.lanes();
    TENON_ASSERT(!comp.combine && gate != kNoId && exprs_.lanes_of(gate) == lanes,
                 "emit_linear: a Comp of '", nest_.name, "' writes one element of '",
                 nest_.buffers[static_cast<size_t>(comp.dst)].name,
                 "' at all points of its vec axis");
    const ValueId value = exprs_.widen(combined(comp, kNoId), lanes);
    for (int lane = 0; lane < lanes; ++lane) {
      builder_.store(exprs_.pointer(comp.dst), at.index, builder_.extract(value, lane), at.offset,
                     builder_.extract(gate, lane));
    }
  }

  // The value of the Comp, combined with the old one where it combines. A sum of products is the
  // one place where mulacc is made (docs/ir.md, determinism).
  ValueId combined(const Comp& comp, ValueId old) {
    if (!comp.combine) return exprs_.emit(comp.value);
    if (unit_axis_of(comp.axes)) return emit_mma(comp, old);
    const bool is_product = comp.value.op() == Op::kMul && is_float(comp.value.dtype());
    if (*comp.combine == Op::kAdd && is_product) {
      const ValueId a = exprs_.emit(comp.value.src(0));
      const size_t second = is_planted(PlantedFault::kMulAccOperandTwice) ? 0 : 1;
      const ValueId b = exprs_.emit(comp.value.src(second));
      return exprs_.apply(Op::kMulAcc, std::array{a, b, old});
    }
    return exprs_.apply(*comp.combine, old, exprs_.emit(comp.value));
  }

  ValueId emit_mma(const Comp& comp, ValueId old) {
    const Node depth = unit_axis_of(comp.axes);
    const Node column = vec_axis_of(comp.axes, nest_.name);
    const auto factors = column ? unit_factors(comp, column) : std::nullopt;
    const int unit = factors
                         ? find_vector_unit(units_, *factors, comp.value.dtype(), exprs_.lanes(),
                                            static_cast<int>(axis_extent(depth)))
                         : -1;
    TENON_ASSERT(unit >= 0, "emit_linear: no unit for a Comp of '", nest_.name, "'");
    const ValueId a = exprs_.emit_along(factors->a, depth);
    const ValueId b = exprs_.emit_grouped(factors->b, depth);
    const std::array operands{a, b, old};
    return builder_.append_value({.op = Op::kMma, .type = program_.type_of(old), .imm = unit},
                                 operands);
  }

  // A tile is set to zeros, loaded, added to by its unit or stored.
  void emit_tile(const Comp& comp) {
    const UnitAxes axes = unit_axes_of(comp.axes);
    if (!regs_.is_reg(comp.dst)) {
      const LoadParts parts = load_parts(comp.value);
      const ValueId tile = regs_.find(regs_.key(parts.buffer, exprs_.reg_element(parts.index[0])));
      const ExprEmitter::TilePlace at = exprs_.tile_place(comp.dst, comp.index[0], axes.row);
      builder_.append(
          {.op = Op::kTileStore, .type = program_.type_of(tile), .imm = unit_of_.at(parts.buffer)},
          std::array{at.pointer, at.index, at.stride, tile}, {});
      return;
    }
    const int unit = unit_of_.at(comp.dst);
    const RegKey key = regs_.key(comp.dst, exprs_.reg_element(comp.index[0]));
    const LinearType type = regs_.type(comp.dst);
    if (!comp.combine) {
      return regs_.set(key, comp.value.op() == Op::kConst
                                ? builder_.constant(type, const_bits(comp.value))
                                : exprs_.emit_tile(comp.value, axes.row, unit, type));
    }
    const MatrixUnit& record = units_[static_cast<size_t>(unit)];
    const auto factors = unit_factors(comp, axes.column);
    const std::array operands{
        exprs_.emit_tile(factors->a, axes.row, unit, unit_type_of_a(record)),
        exprs_.emit_tile(factors->b, axes.groups, unit, unit_type_of_b(record)), regs_.find(key)};
    regs_.set(key, builder_.append_value({.op = Op::kMma, .type = type, .imm = unit}, operands));
  }

  // --- loops and branches ---

  // What loops and branches carry of registers; one that was not written yet begins as zero.
  std::vector<ValueId> values_of(const std::vector<RegKey>& keys) {
    std::vector<ValueId> values;
    for (const RegKey& key : keys) {
      const ValueId value = regs_.find(key);
      values.push_back(value != kNoId ? value : exprs_.constant(regs_.type(key.buffer), 0));
    }
    return values;
  }

  void set_values(const std::vector<RegKey>& keys, const std::vector<ValueId>& values) {
    for (size_t i = 0; i < keys.size(); ++i)
      regs_.set(keys[i], values[i]);
  }

  // NOLINTBEGIN(misc-no-recursion): statement depth is at most 64, a Comp has few seq axes
  template <class Emit>
  void emit_loop(const Node& axis, const Node& extent, const std::vector<RegKey>& carried,
                 Emit&& emit) {
    const ValueId begin = exprs_.constant(value_type(index_), 0);
    ValueId end =
        extent ? exprs_.emit(extent)
               : exprs_.constant(value_type(index_), static_cast<uint64_t>(axis_extent(axis)));
    if (is_planted(PlantedFault::kLastIterationLost) && !carried.empty()) {
      end = builder_.binary(Op::kSub, end, builder_.constant(value_type(index_), 1));
    }
    const LinearBuilder::Loop opened = builder_.begin_for(begin, end, values_of(carried));
    for (size_t i = 0; i < carried.size(); ++i) {
      // What was not written before may not be read before it is.
      if (regs_.find(carried[i]) != kNoId) regs_.set(carried[i], opened.carried[i]);
    }
    const ExprEmitter::Mark mark = exprs_.enter_region();
    exprs_.bind_axis(axis, opened.index);
    emit();
    const std::vector<ValueId> yielded = values_of(carried);
    exprs_.leave_region(mark);
    set_values(carried, builder_.end_for(opened, yielded));
  }

  void emit_for(const For& loop) {
    emit_loop(loop.axis.axis, loop.extent, regs_.written_in(loop.body),
              [&] { emit_body(loop.body); });
  }

  // The seq axes of a Comp, outer to inner, around what `emit` emits.
  void emit_loops(std::span<const AxisUse> axes, const std::vector<RegKey>& carried,
                  const std::function<void()>& emit) {
    if (axes.empty()) return emit();
    emit_loop(axes[0].axis, {}, carried, [&] { emit_loops(axes.subspan(1), carried, emit); });
  }
  // NOLINTEND(misc-no-recursion)

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void emit_if(const If& branch) {
    std::vector<RegKey> carried = regs_.written_in(branch.then_body);
    const std::vector<RegKey>& in_else = regs_.written_in(branch.else_body);
    carried.insert(carried.end(), in_else.begin(), in_else.end());
    std::ranges::sort(carried);
    carried.erase(std::unique(carried.begin(), carried.end()), carried.end());
    std::vector<ValueId> before;
    std::vector<LinearType> types;
    for (const RegKey& key : carried) {
      before.push_back(regs_.find(key));
      types.push_back(regs_.type(key.buffer));
    }
    const LinearBuilder::Branch opened = builder_.begin_if(exprs_.emit(branch.condition), types);
    builder_.begin_else(opened, emit_branch(branch.then_body, carried));
    for (size_t i = 0; i < carried.size(); ++i) {
      if (before[i] == kNoId) {
        regs_.forget(carried[i]);
      } else {
        regs_.set(carried[i], before[i]);
      }
    }
    const std::vector<ValueId> yielded = emit_branch(branch.else_body, carried);
    set_values(carried, builder_.end_if(opened, yielded));
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  std::vector<ValueId> emit_branch(const Body& body, const std::vector<RegKey>& carried) {
    const ExprEmitter::Mark mark = exprs_.enter_region();
    emit_body(body);
    std::vector<ValueId> yielded = values_of(carried);
    exprs_.leave_region(mark);
    return yielded;
  }

  // --- Combine ---

  // The axes that the destination uses are looped over, the others folded: unroll, then vec.
  void emit_combine(const Combine& combine) {
    TENON_ASSERT(regs_.is_reg(combine.dst) && regs_.is_reg(combine.src),
                 "emit_linear: a Combine of '", nest_.name,
                 "' from or to memory; expected register buffers");
    const RegIndex& dst = regs_.index(combine.dst_index[0]);
    const RegIndex& src = regs_.index(combine.src_index[0]);
    const Node vec = vec_axis_of(combine.axes, nest_.name);
    // Along this axis the source's registers are vectors.
    const bool has_vectors = vec && src.coefficient(vec) == 1 && regs_.width(combine.src) > 1;
    std::vector<AxisUse> kept;
    std::vector<AxisUse> unroll;
    std::vector<AxisUse> lanes;
    for (const AxisUse& use : combine.axes) {
      TENON_ASSERT(use.role == Role::kUnroll || use.role == Role::kVec,
                   "emit_linear: a Combine over lanes");
      if (has_vectors && use.axis == vec) continue;
      if (dst.coefficient(use.axis) != 0) {
        kept.push_back(use);
      } else {
        (use.role == Role::kVec ? lanes : unroll).push_back(use);
      }
    }
    for (const auto& [dst_element, from] : pairs_of(dst, src, kept)) {
      std::vector<ValueId> row;  // by vec item
      for (const auto& [unused, lane] : pairs_of({}, src, lanes)) {
        std::vector<ValueId> column;  // by unroll item
        for (const auto& [unused_too, item] : pairs_of({}, src, unroll)) {
          const int64_t element = src.offset + from + lane + item;
          column.push_back(has_vectors ? exprs_.reg_vector(combine.src, element)
                                       : exprs_.reg_scalar(combine.src, element));
        }
        row.push_back(fold_items(builder_, combine.op, std::move(column)));
      }
      ValueId value = fold_items(builder_, combine.op, std::move(row));
      if (has_vectors && dst.coefficient(vec) == 0) {
        value = fold_lanes(builder_, combine.op, value, program_.type_of(value));
      }
      const RegKey key = regs_.key(combine.dst, dst.offset + dst_element);
      TENON_ASSERT(program_.type_of(value) == regs_.type(combine.dst) &&
                       key.first == dst.offset + dst_element,
                   "emit_linear: a Combine of '", nest_.name, "' writes ",
                   program_.type_of(value).lanes, " lanes to '",
                   nest_.buffers[static_cast<size_t>(combine.dst)].name, "', whose registers have ",
                   regs_.width(combine.dst));
      regs_.set(key, value);
    }
  }

  // What the points of `axes` add to two register indices, in row-major order.
  std::vector<std::pair<int64_t, int64_t>> pairs_of(const RegIndex& a, const RegIndex& b,
                                                    const std::vector<AxisUse>& axes) {
    std::vector<std::pair<int64_t, int64_t>> pairs{{0, 0}};
    for (const AxisUse& use : axes) {
      std::vector<std::pair<int64_t, int64_t>> longer;
      for (const auto& [first, second] : pairs) {
        for (int64_t i = 0; i < axis_extent(use.axis); ++i) {
          longer.emplace_back(first + i * a.coefficient(use.axis),
                              second + i * b.coefficient(use.axis));
        }
      }
      pairs = std::move(longer);
    }
    return pairs;
  }

  const Kernel& nest_;
  std::span<const MatrixUnit> units_;
  LinearProgram program_;
  LinearBuilder builder_;
  RegFile regs_;
  ExprEmitter exprs_;
  DType index_;
  std::map<int, int> unit_of_;  // by accumulator in tiles
};

}  // namespace

LinearProgram emit_linear(const Kernel& nest, DType index_dtype,
                          std::span<const MatrixUnit> units) {
  return Emitter(nest, index_dtype, units).run();
}

}  // namespace tenon
