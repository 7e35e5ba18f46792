// SPDX-License-Identifier: MIT

#include "tenon/codegen/build_nest.h"

#include <algorithm>
#include <functional>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/codegen/expand_combine.h"
#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/codegen/stage_copy.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/rules/rewrite.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

Node conjunction(const Node& a, const Node& b) {
  return a ? make_expr(Op::kAnd, a, b) : b;
}

void append_body(Body& body, Body more) {
  body.insert(body.end(), std::make_move_iterator(more.begin()),
              std::make_move_iterator(more.end()));
}

/// The expressions of one comp with loops and instances in place of its axes, and storage in place
/// of tmps and staged operands.
class PlacedExprs {
 public:
  PlacedExprs(const Placement& placement, const PlacedComp& comp, bool is_guarded)
      : placement_(placement), comp_(comp), is_guarded_(is_guarded) {}

  Node run(const Node& expr) {
    return rewriter_.run(expr, [this](const Node& rebuilt, const Node& original) {
      return rewrite<true>(rebuilt, original);
    });
  }

  std::vector<Node> indices(std::span<const Node> index) {
    std::vector<Node> result;
    for (const Node& node : index)
      result.push_back(run(node));
    return result;
  }

 private:
  // Inside of a clamped index everything is clamped already: `kClamps` is false there.
  template <bool kClamps>
  Node rewrite(const Node& rebuilt, const Node& original) {
    if (original.op() == Op::kAxis) {
      return axis_value(original, kClamps ? comp_.exprs : comp_.clamped);
    }
    if (original.op() != Op::kLoad) return rebuilt;
    const LoadParts parts = load_parts(rebuilt);
    if (const StorageBox* const storage = storage_of(parts.buffer)) {
      return load_storage(rebuilt, original, *storage);
    }
    const LoadParts source = load_parts(original);
    std::vector<Node> index(parts.index.begin(), parts.index.end());
    Node gate;
    bool is_clamped = false;
    for (size_t i = 0; i < comp_.exprs.size(); ++i) {
      if (!comp_.guards[i] || !reads(source.index, i)) continue;
      if (comp_.clamped[i] != comp_.exprs[i]) {
        is_clamped = true;
      } else if (is_unguarded(i)) {
        gate = conjunction(gate, comp_.guards[i]);
      }
    }
    Node own = parts.gate;
    if constexpr (kClamps) {
      for (size_t dim = 0; is_clamped && dim < index.size(); ++dim)
        index[dim] = clamped(source.index[dim]);
      if (is_clamped && parts.gated) own = clamped(source.gate);
    }
    if (parts.gated) gate = gate ? conjunction(own, gate) : own;
    if (!gate) return make_load(parts.buffer, rebuilt.dtype(), index);
    const Node alt = parts.gated ? parts.alt : bits_const(rebuilt.dtype(), 0);
    return make_gated_load(parts.buffer, rebuilt.dtype(), index, gate, alt);
  }

  Node axis_value(const Node& axis, const std::vector<Node>& values) const {
    for (size_t i = 0; i < comp_.comp->axes.size(); ++i) {
      if (comp_.comp->axes[i].axis == axis) return values[i];
    }
    return axis;
  }

  bool reads(std::span<const Node> index, size_t axis) const {
    return std::any_of(index.begin(), index.end(), [&](const Node& node) {
      return uses_axis(node, comp_.comp->axes[axis].axis);
    });
  }

  // Where the comp itself is guarded, points beyond a par axis are not computed.
  bool is_unguarded(size_t axis) const {
    return !is_guarded_ || axis_kind(comp_.comp->axes[axis].axis) == AxisKind::kRed;
  }

  Node clamped(const Node& index) {
    return clamped_.run(index, [this](const Node& rebuilt, const Node& original) {
      return rewrite<false>(rebuilt, original);
    });
  }

  const StorageBox* storage_of(int buffer) const {
    const auto tmp = placement_.storage.find(buffer);
    if (tmp != placement_.storage.end()) return &tmp->second;
    for (const PlacedStage& stage : comp_.stages) {
      if (stage.stage.buffer == buffer) return &stage.storage;
    }
    return nullptr;
  }

  // Register places that no point has written are read by points that are not kept only.
  Node load_storage(const Node& rebuilt, const Node& original, const StorageBox& storage) {
    const LoadParts parts = load_parts(rebuilt);
    const std::vector<Node> index = storage_index(storage, parts.index);
    const bool is_staged = !placement_.storage.contains(parts.buffer);
    // The copy has zeros where the gate is false.
    if (is_staged) return make_load(storage.buffer, rebuilt.dtype(), index);
    Node gate = parts.gated ? parts.gate : Node();
    if (!storage.is_reg) {
      for (size_t i = 0; i < comp_.exprs.size(); ++i) {
        if (comp_.guards[i] && is_unguarded(i) && reads(load_parts(original).index, i)) {
          gate = conjunction(gate, comp_.guards[i]);
        }
      }
    }
    if (!gate) return make_load(storage.buffer, rebuilt.dtype(), index);
    const Node alt = parts.gated ? parts.alt : bits_const(rebuilt.dtype(), 0);
    return make_gated_load(storage.buffer, rebuilt.dtype(), index, gate, alt);
  }

  const Placement& placement_;
  const PlacedComp& comp_;
  bool is_guarded_;
  Rewriter rewriter_;
  Rewriter clamped_;
};

class NestBuilder {
 public:
  explicit NestBuilder(Placement placement) : placement_(std::move(placement)) {}

  Kernel run() {
    placement_.nest.body = level(placement_.comps.front(), 0);
    if (!placement_.lane_axes.empty()) {
      for_each_mutable_stmt(placement_.nest.body, [&](Stmt& stmt) {
        rewrite_exprs(stmt,
                      [&](const Node& expr) { return substitute(expr, placement_.lane_axes); });
      });
    }
    return std::move(placement_.nest);
  }

 private:
  // --- loops
  // ---------------------------------------------------------------------------------------

  // What stands inside the first `depth` loops of the comp.
  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  Body level(const PlacedComp& comp, int depth) {
    Body body;
    for (const PlacedComp& reader : placement_.comps) {
      for (const PlacedStage& stage : reader.stages) {
        if (!(stage.at == LoopPlace{comp.plan->comp, depth})) continue;
        body.push_back(Stmt{Alloc{stage.storage.buffer}});
        append_body(body, stage_copy(placement_.nest, stage, copy_lanes(reader, stage),
                                     bool{unit_axis_of(reader.instances)}));
      }
    }
    for (const int entry : comp.before) {
      const PlacedComp& producer = placement_.comps[static_cast<size_t>(entry)];
      if (producer.plan->at.depth != depth) continue;
      append_body(body, level(producer, 0));
    }
    if (depth == comp.start_depth) start(comp, body);
    const bool is_reduction = comp.comp->combine.has_value();
    if (comp.acc && comp.plan->acc->depth == depth) open_acc(comp, body);
    append_body(body, loop(comp, depth));
    if (comp.acc && comp.plan->acc->depth == depth) {
      close_acc(comp, body);
    } else if (is_reduction && depth == comp.start_depth) {
      append_body(body, consumers(comp));
    }
    return body;
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  Body loop(const PlacedComp& comp, int depth) {
    if (static_cast<size_t>(depth) == comp.loops.size()) return own_statement(comp);
    const PlacedLoop& loop = comp.loops[static_cast<size_t>(depth)];
    Body inner = level(comp, depth + 1);
    if (loop.part.role == Role::kGrid) return inner;
    return looped(loop, std::move(inner), comp.carry.has_value());
  }

  static bool is_single(const PlacedLoop& loop) {
    return is_const(loop.extent) && idx_value(loop.extent) == 1;
  }

  // `is_carried`: the body asks whether it runs first, or last.
  Body looped(const PlacedLoop& loop, Body inner, bool is_carried) {
    const Node& axis = loop.use.axis;
    if (is_single(loop)) {
      replace(inner, axis, idx_const(0));
      return inner;
    }
    Body body;
    if (loop.part.tail != Tail::kPeel || !is_const(loop.extent)) {
      body.push_back(Stmt{For{loop.use, loop.extent, std::move(inner)}});
      return body;
    }
    // Full tiles with an axis that ends before the last, then the last one.
    const int64_t last = idx_value(loop.extent) - 1;
    Body tail = inner;
    replace(tail, axis, idx_const(last));
    if (last == 1 && !is_carried) {
      replace(inner, axis, idx_const(0));
      body = std::move(inner);
    } else {
      const std::string name = placement_.nest.axis_names[static_cast<size_t>(axis_id(axis))];
      const Node full = placement_.nest.add_axis(concat(name, "_full"), last, axis_kind(axis));
      replace(inner, axis, full);
      body.push_back(Stmt{For{{full, loop.use.role, 0}, idx_const(last), std::move(inner)}});
    }
    append_body(body, std::move(tail));
    return body;
  }

  static void replace(Body& body, const Node& axis, const Node& value) {
    const std::pair<Node, Node> replacement[] = {{axis, value}};
    IndexSimplifier simplifier;
    for_each_mutable_stmt(body, [&](Stmt& stmt) {
      rewrite_exprs(stmt, [&](const Node& expr) { return substitute(expr, replacement); });
      // A gate that is constant now may leave an index that is outside: the load goes.
      // What a Comp reads of its own destination must stay the place that it writes.
      if (auto* comp = std::get_if<Comp>(&stmt.node)) {
        comp->value = simplifier.run(comp->value);
        for (Node& index : comp->index)
          index = simplifier.run(index);
      }
    });
  }

  static int vec_lanes(const PlacedComp& comp) {
    for (const AxisUse& use : comp.instances) {
      if (use.role == Role::kVec) return static_cast<int>(axis_extent(use.axis));
    }
    return 1;
  }

  // Elements that a copy moves at a time: a row of a tile, or of as many columns.
  static int copy_lanes(const PlacedComp& reader, const PlacedStage& stage) {
    const Node column = unit_axes_of(reader.instances).column;
    if (!column) return vec_lanes(reader);
    const std::vector<LayoutPart>& layout = stage.stage.layout;
    const bool is_along_source =
        !layout.empty() && static_cast<size_t>(layout.back().dim) + 1 == stage.storage.box.size();
    const int64_t row = is_along_source ? layout.back().extent : 1;
    return static_cast<int>(std::max(row, axis_extent(column)));
  }

  // --- statements
  // ----------------------------------------------------------------------------------

  // The comp itself at one point of its loops.
  Body own_statement(const PlacedComp& comp) {
    const Comp& source = *comp.comp;
    Comp result;
    result.store = comp.plan->store;
    result.axes = comp.instances;
    result.combine = source.combine;
    const StorageBox* const target = target_of(comp);
    const bool is_reg = target != nullptr && target->is_reg;
    PlacedExprs exprs(placement_, comp, !is_reg);
    result.dst = target == nullptr ? source.dst : target->buffer;
    result.index = index_of(comp, target, exprs);
    result.value = exprs.run(source.value);
    for (const Node& guard : source.guard)
      result.guard.push_back(exprs.run(guard));
    if (!is_reg) add_guards(comp, result);
    if (source.combine) result.value = identity_beyond(comp, result.value);
    guard_lanes(comp, result, true);
    Body body;
    body.push_back(Stmt{std::move(result)});
    return body;
  }

  // Where the comp's updates go: partial accumulators, the tile, the tmp; null: a parameter.
  const StorageBox* target_of(const PlacedComp& comp) const {
    if (comp.partials) return &*comp.partials;
    if (comp.acc) return &*comp.acc;
    const auto tmp = placement_.storage.find(comp.comp->dst);
    return tmp == placement_.storage.end() ? nullptr : &tmp->second;
  }

  static std::vector<Node> index_of(const PlacedComp& comp, const StorageBox* target,
                                    PlacedExprs& exprs) {
    std::vector<Node> index = exprs.indices(comp.comp->index);
    if (target == nullptr) {
      for (Node& node : index)
        node = simplify_index(node);
      return index;
    }
    index = storage_index(*target, index);
    if (comp.partials && target == &*comp.partials) {
      for (const AxisUse& use : comp.instances) {
        if (is_partial(comp, use)) index.push_back(use.axis);
      }
    }
    return index;
  }

  void add_guards(const PlacedComp& comp, Comp& result) const {
    for (size_t i = 0; i < comp.guards.size(); ++i) {
      const bool is_par = axis_kind(comp.comp->axes[i].axis) == AxisKind::kPar;
      if (comp.guards[i] && is_par) result.guard.push_back(comp.guards[i]);
    }
  }

  // Lanes without a point idle. What not all lanes of a dim compute apart, one of them stores;
  // `is_update`: red axes count, else all lanes have the whole.
  void guard_lanes(const PlacedComp& comp, Comp& result, bool is_update) const {
    const bool is_reg =
        placement_.nest.buffers[static_cast<size_t>(result.dst)].scope == Scope::kReg;
    for (size_t dim = 0; dim < placement_.nest.lanes.size(); ++dim) {
      const Node& axis = placement_.nest.lanes[dim].axis;
      const PlacedLane* const lane = comp.lane_of(dim);
      const bool is_dealt = lane != nullptr && (is_update || !lane->is_red(comp));
      const int64_t count = is_dealt ? lane->count() : is_reg ? axis_extent(axis) : 1;
      if (count < axis_extent(axis)) {
        result.guard.push_back(make_expr(Op::kLt, axis, idx_const(count)));
      }
    }
  }

  // Points beyond a red axis contribute the identity. A product of loads that read 0 there is +0,
  // which changes no sum.
  Node identity_beyond(const PlacedComp& comp, const Node& value) const {
    Node inside;
    for (size_t i = 0; i < comp.guards.size(); ++i) {
      const bool is_red = axis_kind(comp.comp->axes[i].axis) == AxisKind::kRed;
      if (comp.guards[i] && is_red) inside = conjunction(inside, comp.guards[i]);
    }
    if (!inside) return value;
    const Op combine = *comp.comp->combine;
    if (combine == Op::kAdd && value.op() == Op::kMul) {
      // A whole number times 0 is 0; NaN and infinity times 0 are not.
      const bool first = is_zero_beyond(comp, value.src(0));
      const bool second = is_zero_beyond(comp, value.src(1));
      if (is_int(value.dtype()) ? first || second : first && second) return value;
    }
    return make_expr(Op::kWhere, inside, value, identity_of(combine, value.dtype()));
  }

  // A load, maybe cast, that gives 0 at all points beyond red axes: gated, or staged with zeros.
  bool is_zero_beyond(const PlacedComp& comp, Node value) const {
    while (value.op() == Op::kCast)
      value = value.src(0);
    if (value.op() != Op::kLoad) return false;
    const LoadParts parts = load_parts(value);
    const auto stage = std::ranges::find_if(comp.stages, [&](const PlacedStage& placed) {
      return placed.storage.buffer == parts.buffer;
    });
    for (size_t i = 0; i < comp.guards.size(); ++i) {
      const bool is_red = axis_kind(comp.comp->axes[i].axis) == AxisKind::kRed;
      if (!comp.guards[i] || !is_red) continue;
      const bool is_staged = stage != comp.stages.end() && reads_part_of(comp, parts.index, i) &&
                             ends_with(*comp.comp, stage->stage.buffer, i);
      if (is_staged) continue;
      const bool is_zero = parts.gated && is_const(parts.alt) && const_bits(parts.alt) == 0;
      if (!is_zero || !has_conjunct(parts.gate, comp.guards[i])) return false;
    }
    return true;
  }

  // What the stage of a buffer copies ends where the axis does.
  static bool ends_with(const Comp& comp, int buffer, size_t axis) {
    return std::ranges::all_of(loads_of(comp, buffer), [&](const Node& load) {
      return moves_alone(comp, load_parts(load).index, axis);
    });
  }

  static bool has_conjunct(const Node& gate, const Node& conjunct) {
    std::vector<Node> todo{gate};
    while (!todo.empty()) {
      const Node node = todo.back();
      todo.pop_back();
      if (node == conjunct) return true;
      if (node.op() == Op::kAnd) todo.insert(todo.end(), node.srcs().begin(), node.srcs().end());
    }
    return false;
  }

  // The index moves with an instance of the axis.
  static bool reads_part_of(const PlacedComp& comp, std::span<const Node> index, size_t axis) {
    for (size_t i = 0; i < comp.instances.size(); ++i) {
      if (static_cast<size_t>(comp.instance_parts[i].axis) != axis) continue;
      for (const Node& node : index) {
        if (uses_axis(node, comp.instances[i].axis)) return true;
      }
    }
    return false;
  }

  // The start of a reduction's tmp where updates go to it directly, in loops over its par axes.
  void start(const PlacedComp& comp, Body& body) {
    const auto tmp = placement_.storage.find(comp.comp->dst);
    if (tmp == placement_.storage.end()) return;
    const bool is_own = tmp->second.alias.empty();
    const bool is_tile = comp.acc && comp.acc->buffer == tmp->second.buffer;
    if (is_own && !is_tile) body.push_back(Stmt{Alloc{comp.comp->dst}});
    if (!comp.comp->combine || comp.acc || !comp.comp->start) return;
    Comp first;
    first.dst = tmp->second.buffer;
    PlacedExprs exprs(placement_, comp, true);
    first.index = storage_index(tmp->second, exprs.indices(comp.comp->index));
    first.value = is_planted(PlantedFault::kReductionStartZero)
                      ? bits_const(comp.comp->start.dtype(), 0)
                      : comp.comp->start;
    for (const AxisUse& use : comp.instances) {
      if (axis_kind(use.axis) == AxisKind::kPar) first.axes.push_back(use);
    }
    if (!tmp->second.is_reg) add_guards(comp, first);
    // A guard of a red axis says what is combined, not what has a start.
    for (const Node& guard : comp.comp->guard) {
      if (!has_red_axis(guard)) first.guard.push_back(exprs.run(guard));
    }
    guard_lanes(comp, first, false);
    Body inner;
    inner.push_back(Stmt{std::move(first)});
    for (size_t i = comp.loops.size(); i-- > static_cast<size_t>(comp.start_depth);) {
      if (axis_kind(comp.loops[i].use.axis) != AxisKind::kPar) continue;
      Body outer;
      outer.push_back(Stmt{For{comp.loops[i].use, comp.loops[i].extent, std::move(inner)}});
      inner = std::move(outer);
    }
    append_body(body, std::move(inner));
  }

  // --- accumulators
  // --------------------------------------------------------------------------------

  std::vector<AxisUse> par_instances(const PlacedComp& comp) const {
    std::vector<AxisUse> axes;
    for (const AxisUse& use : comp.instances) {
      if (axis_kind(use.axis) == AxisKind::kPar) axes.push_back(use);
    }
    return axes;
  }

  // A statement that moves the tile, point by point.
  Comp tile_statement(const PlacedComp& comp, const StorageBox& target, const Node& value) {
    Comp result;
    result.dst = target.buffer;
    PlacedExprs exprs(placement_, comp, true);
    result.index = storage_index(target, exprs.indices(comp.comp->index));
    result.value = value;
    result.axes = par_instances(comp);
    // Tiles are whole, and so is what they are stored to.
    if (!target.is_reg && target.tile.row < 0) add_guards(comp, result);
    guard_lanes(comp, result, false);
    return result;
  }

  Node load_tile(const PlacedComp& comp, const StorageBox& storage, bool is_guarded) {
    PlacedExprs exprs(placement_, comp, is_guarded);
    const std::vector<Node> index = storage_index(storage, exprs.indices(comp.comp->index));
    const DType dtype = comp.comp->value.dtype();
    Node gate;
    for (size_t i = 0; i < comp.guards.size(); ++i) {
      const bool is_par = axis_kind(comp.comp->axes[i].axis) == AxisKind::kPar;
      const bool is_cut = comp.guards[i] && is_par && storage.tile.row < 0;
      if (is_cut && !is_guarded) gate = conjunction(gate, comp.guards[i]);
    }
    if (!gate) return make_load(storage.buffer, dtype, index);
    return make_gated_load(storage.buffer, dtype, index, gate, bits_const(dtype, 0));
  }

  void open_acc(const PlacedComp& comp, Body& body) {
    body.push_back(Stmt{Alloc{comp.acc->buffer}});
    const StorageBox& target = comp.partials ? *comp.partials : *comp.acc;
    if (comp.partials) body.push_back(Stmt{Alloc{target.buffer}});
    if (comp.via) body.push_back(Stmt{Alloc{*comp.via}});
    const Node first = is_planted(PlantedFault::kReductionStartZero)
                           ? bits_const(comp.comp->start.dtype(), 0)
                           : comp.comp->start;
    Comp start = tile_statement(comp, target, first);
    if (comp.partials) {
      for (const AxisUse& use : comp.instances) {
        if (!is_partial(comp, use)) continue;
        start.index.push_back(use.axis);
        start.axes.push_back(use);
      }
    }
    const Node is_first = comp.carry ? at_end(comp, false) : Node();
    if (!is_first) {
      body.push_back(Stmt{std::move(start)});
      return;
    }
    Body fresh;
    fresh.push_back(Stmt{std::move(start)});
    Body reload;
    reload.push_back(Stmt{tile_statement(comp, target, load_tile(comp, *comp.carry, false))});
    body.push_back(Stmt{If{is_first, std::move(fresh), std::move(reload)}});
  }

  // The reduce loops outside of the accumulator are in their first, or last, iteration; null: they
  // have one.
  Node at_end(const PlacedComp& comp, bool is_last) const {
    Node condition;
    for (size_t i = 0; i < static_cast<size_t>(comp.plan->acc->depth); ++i) {
      const PlacedLoop& loop = comp.loops[i];
      if (axis_kind(loop.use.axis) != AxisKind::kRed || is_single(loop)) continue;
      const Node end = is_last ? make_expr(Op::kSub, loop.extent, idx_const(1)) : idx_const(0);
      condition = conjunction(condition, make_expr(Op::kEq, loop.use.axis, simplify_index(end)));
    }
    return condition;
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void close_acc(const PlacedComp& comp, Body& body) {
    if (comp.partials || comp.via) {
      const StorageBox& source = comp.partials ? *comp.partials : *comp.acc;
      Combine fold;
      fold.dst = comp.acc->buffer;
      fold.src = source.buffer;
      fold.op = *comp.comp->combine;
      PlacedExprs exprs(placement_, comp, true);
      fold.dst_index = storage_index(*comp.acc, exprs.indices(comp.comp->index));
      fold.src_index = index_of(comp, &source, exprs);
      for (const AxisUse& use : comp.instances) {
        const bool is_par = axis_kind(use.axis) == AxisKind::kPar;
        if (is_par || is_partial(comp, use)) fold.axes.push_back(use);
      }
      if (comp.via) fold_lanes(comp, fold);
      body.push_back(Stmt{std::move(fold)});
    }
    const bool is_finished_here = comp.plan->acc->depth == comp.start_depth;
    const auto tmp = placement_.storage.find(comp.comp->dst);
    const bool is_tile = tmp->second.buffer == comp.acc->buffer;
    Body finished;
    if (!is_tile) {
      finished.push_back(Stmt{tile_statement(comp, tmp->second, load_tile(comp, *comp.acc, true))});
    }
    if (is_finished_here) append_body(finished, consumers(comp));
    const bool is_carried_elsewhere = comp.carry && comp.carry->buffer != tmp->second.buffer;
    const Node is_last = is_carried_elsewhere ? at_end(comp, true) : Node();
    if (!is_last) {
      append_body(body, std::move(finished));
      return;
    }
    Body carried;
    carried.push_back(Stmt{tile_statement(comp, *comp.carry, load_tile(comp, *comp.acc, true))});
    body.push_back(Stmt{If{is_last, std::move(finished), std::move(carried)}});
  }

  // Lanes with neighbouring numbers fold last.
  void fold_lanes(const PlacedComp& comp, Combine& fold) {
    for (size_t dim = placement_.nest.lanes.size(); dim-- > 0;) {
      const PlacedLane* const lane = comp.lane_of(dim);
      if (lane != nullptr && lane->is_red(comp)) fold.axes.push_back(placement_.nest.lanes[dim]);
    }
    fold.via = comp.via;
    placement_.nest.buffers[static_cast<size_t>(*comp.via)].dims = via_dims(placement_.nest, fold);
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  Body consumers(const PlacedComp& comp) {
    Body body;
    for (const int entry : comp.after)
      append_body(body, level(placement_.comps[static_cast<size_t>(entry)], 0));
    return body;
  }

  Placement placement_;
};

}  // namespace

Kernel split_root(const Kernel& kernel) {
  const Comp& root = std::get<Comp>(kernel.body.back().node);
  if (!root.combine) return kernel;
  Kernel result = kernel;
  const BufferDecl& out = kernel.buffers[static_cast<size_t>(root.dst)];
  const int tmp =
      result.add_buffer({.name = concat("t_root"), .dtype = out.dtype, .dims = out.dims});
  Comp copy{.dst = root.dst, .store = root.store};
  std::vector<std::pair<Node, Node>> renamed;
  for (const AxisUse& use : root.axes) {
    if (axis_kind(use.axis) != AxisKind::kPar) continue;
    const std::string name = kernel.axis_names[static_cast<size_t>(axis_id(use.axis))];
    const Node axis = result.add_axis(concat(name, "_root"), axis_extent(use.axis), AxisKind::kPar);
    renamed.emplace_back(use.axis, axis);
    copy.axes.push_back({axis, Role::kNone, 0});
  }
  for (const Node& index : root.index)
    copy.index.push_back(substitute(index, renamed));
  copy.value = make_load(tmp, out.dtype, copy.index);
  std::get<Comp>(result.body.back().node).dst = tmp;
  result.body.push_back(Stmt{std::move(copy)});
  return result;
}

Kernel build_nest(const Kernel& kernel, const Plan& plan) {
  Placement placement = place_comps(kernel, plan);
  TENON_ASSERT(placement.reason.empty(), "build_nest: the plan for '", kernel.name,
               "' was not checked: ", placement.reason);
  return NestBuilder(std::move(placement)).run();
}

}  // namespace tenon
