// SPDX-License-Identifier: MIT

#include "tenon/codegen/stage_copy.h"

#include <algorithm>

#include "tenon/base/integer.h"
#include "tenon/base/text.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/codegen/walk.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

class StageCopy {
 public:
  StageCopy(Kernel& nest, const PlacedStage& stage, int lanes, bool is_for_unit)
      : nest_(nest),
        stage_(stage),
        lanes_(lanes),
        is_for_unit_(is_for_unit),
        decl_(nest.buffers[dst()]) {
    copy_.dst = stage.storage.buffer;
    copy_.index.resize(decl_.dims.size());
  }

  Body run() {
    const size_t source_dim = decl_.dims.size() - 1;
    const size_t copy_dim =
        decl_.layout.empty() ? source_dim : static_cast<size_t>(decl_.layout.back().dim);
    if (!nest_.lanes.empty()) return dealt();
    if (const int64_t group = group_size(); group > 1) return grouped(group);
    const int64_t run = decl_.layout.empty() ? decl_.dims[copy_dim] : decl_.layout.back().extent;
    const bool is_vector =
        lanes_ > 1 && decl_.dims[copy_dim] >= lanes_ && (run % lanes_ == 0 || decl_.layout.empty());
    for (size_t dim = 0; dim < decl_.dims.size(); ++dim) {
      const bool is_block =
          is_vector && (dim == copy_dim || dim == source_dim) && decl_.dims[dim] >= lanes_;
      // Rows that are copied as they lie: several at once, so that memory has several to fetch.
      const bool is_row = is_vector && copy_dim == source_dim && dim + 1 == source_dim;
      const int64_t block = is_block ? lanes_ : is_row ? rows_at_once(decl_.dims[dim]) : 1;
      open_dim(dim, block, dim == copy_dim ? Role::kVec : Role::kUnroll);
    }
    return looped();
  }

 private:
  size_t dst() const { return static_cast<size_t>(stage_.storage.buffer); }

  // The largest power of two that divides them, up to kRowsAtOnce.
  static int64_t rows_at_once(int64_t rows) { return std::min(rows & -rows, kRowsAtOnce); }

  // A layout that ends in a few places of one dim for each of many of another, as matrix units read
  // them: [.., d1:64][d0:2] has groups of 2. 1: it does not.
  int64_t group_size() const {
    const std::vector<LayoutPart>& layout = decl_.layout;
    if (layout.size() < 2 || lanes_ == 1 || !is_for_unit_) return 1;
    const LayoutPart& inner = layout.back();
    const bool is_group =
        inner.pad == 0 && inner.extent < lanes_ && layout[layout.size() - 2].extent % lanes_ == 0;
    return is_group ? inner.extent : 1;
  }

  // The source in rows of lanes, of which a group is stored side by side; or, where the group lies
  // side by side in the source, a group at a time.
  Body grouped(int64_t group) {
    const auto group_dim = static_cast<size_t>(decl_.layout.back().dim);
    const auto row_dim = static_cast<size_t>(decl_.layout[decl_.layout.size() - 2].dim);
    const bool is_by_rows = row_dim == decl_.dims.size() - 1;
    for (size_t dim = 0; dim < decl_.dims.size(); ++dim) {
      if (dim == group_dim) {
        open_dim(dim, group, is_by_rows ? Role::kUnroll : Role::kVec);
      } else {
        open_dim(dim, dim == row_dim && is_by_rows ? lanes_ : 1, Role::kVec);
      }
    }
    return looped();
  }

  // All elements in the order of the source, neighbours to neighbouring lanes.
  Body dealt() {
    const size_t last = decl_.dims.size() - 1;
    const bool is_along =
        decl_.layout.empty() || (static_cast<size_t>(decl_.layout.back().dim) == last &&
                                 decl_.layout.back().extent % lanes_ == 0);
    const int64_t block = is_along && decl_.dims[last] % lanes_ == 0 ? lanes_ : 1;
    int64_t num_lanes = 1;
    Node number = idx_const(0);
    for (const AxisUse& use : nest_.lanes) {
      number = make_expr(Op::kAdd, number, make_expr(Op::kMul, use.axis, idx_const(num_lanes)));
      num_lanes *= axis_extent(use.axis);
    }
    int64_t count = 1;
    for (const int64_t dim : decl_.dims)
      count *= dim;
    count /= block;
    const int64_t runs = ceil_div(count, num_lanes);
    const int64_t at_once = std::min(runs, kRowsAtOnce);
    // Axes of the copy itself, which writes each place once: no lane waits between its runs.
    const auto add_runs = [&](int64_t extent, int64_t step, Role role) {
      if (extent == 1) return;
      copy_.axes.push_back({add_axis(last, extent), role, 0});
      number = make_expr(Op::kAdd, number,
                         make_expr(Op::kMul, copy_.axes.back().axis, idx_const(step * num_lanes)));
    };
    add_runs(ceil_div(runs, at_once), at_once, Role::kSeq);
    add_runs(at_once, 1, Role::kUnroll);
    if (ceil_div(runs, at_once) * at_once * num_lanes != count) {
      copy_.guard.push_back(make_expr(Op::kLt, number, idx_const(count)));
    }
    for (size_t dim = decl_.dims.size(); dim-- > 0;) {
      const Node length = idx_const(dim == last ? decl_.dims[dim] / block : decl_.dims[dim]);
      copy_.index[dim] = dim == 0 ? number : make_expr(Op::kFloorMod, number, length);
      number = make_expr(Op::kFloorDiv, number, length);
    }
    if (block > 1) {
      copy_.axes.push_back({add_axis(last, block), Role::kVec, 0});
      copy_.index[last] =
          make_expr(Op::kAdd, make_expr(Op::kMul, copy_.index[last], idx_const(block)),
                    copy_.axes.back().axis);
    }
    for (Node& index : copy_.index)
      index = simplify_index(index);
    return looped();
  }

  Body looped() {
    finish_value();
    Body body;
    body.push_back(Stmt{std::move(copy_)});
    for (size_t i = loops_.size(); i-- > 0;) {
      Body outer;
      outer.push_back(
          Stmt{For{loops_[i], idx_const(axis_extent(loops_[i].axis)), std::move(body)}});
      body = std::move(outer);
    }
    return body;
  }

  void open_dim(size_t dim, int64_t block, Role role) {
    const int64_t length = decl_.dims[dim];
    Node index = idx_const(0);
    const int64_t count = ceil_div(length, block);
    if (count > 1) {
      const Node axis = add_axis(dim, count);
      loops_.push_back({axis, Role::kSeq, 0});
      index = make_expr(Op::kMul, axis, idx_const(block));
    }
    if (block > 1) {
      const Node axis = add_axis(dim, block);
      copy_.axes.push_back({axis, role, 0});
      index = make_expr(Op::kAdd, index, axis);
      if (length % block != 0) {
        copy_.guard.push_back(make_expr(Op::kLt, index, idx_const(length)));
      }
    }
    copy_.index[dim] = simplify_index(index);
  }

  Node add_axis(size_t dim, int64_t extent) {
    return nest_.add_axis(concat("s", dim, "_", nest_.axis_names.size()), extent, AxisKind::kPar);
  }

  void finish_value() {
    const BufferDecl& source = nest_.buffers[static_cast<size_t>(stage_.stage.buffer)];
    std::vector<Node> index;
    Node gate;
    bool is_outside = false;  // all of it
    const auto add_condition = [&](const Node& a, const Node& b) {
      const Node inside = simplify_index(make_expr(Op::kLt, a, b));
      if (is_const(inside)) {
        is_outside = is_outside || const_bits(inside) == 0;
        return;
      }
      gate = gate ? make_expr(Op::kAnd, gate, inside) : inside;
    };
    for (size_t dim = 0; dim < source.dims.size(); ++dim) {
      const AxisRange& range = stage_.storage.box[dim];
      index.push_back(simplify_index(make_expr(Op::kAdd, range.base, copy_.index[dim])));
      add_condition(idx_const(stage_.first[dim] - 1), index.back());
      add_condition(index.back(), idx_const(stage_.end[dim]));
    }
    const int buffer = stage_.stage.buffer;
    const Node zero = bits_const(source.dtype, 0);
    copy_.value = is_outside ? zero
                  : gate     ? make_gated_load(buffer, source.dtype, index, gate, zero)
                             : make_load(buffer, source.dtype, index);
  }

  Kernel& nest_;
  const PlacedStage& stage_;
  const int64_t lanes_;
  const bool is_for_unit_;
  const BufferDecl decl_;
  Comp copy_;
  std::vector<AxisUse> loops_;
};

/// The places that a load reads, by dim: first .. end - 1.
struct Window {
  std::vector<int64_t> first;
  std::vector<int64_t> end;
  friend bool operator==(const Window&, const Window&) = default;
};

// Takes a condition `a < b` or `a <= b` on an index of the load into the window.
bool narrow(Window& window, const LoadParts& load, const Node& condition) {
  StructuralOrder order;
  if (condition.op() != Op::kLt && condition.op() != Op::kLe) return false;
  const auto left = to_affine(condition.src(0), order);
  const auto right = to_affine(condition.src(1), order);
  const auto difference = left && right ? add_scaled(*left, *right, -1, order) : std::nullopt;
  for (size_t dim = 0; difference && dim < load.index.size(); ++dim) {
    const auto index = to_affine(load.index[dim], order);
    if (!index || index->is_const()) continue;
    // index + c < 0, or -index + c < 0
    const int64_t last = condition.op() == Op::kLe ? -1 : 0;
    const auto below = add_scaled(*difference, *index, -1, order);
    const auto above = add_scaled(*difference, *index, 1, order);
    constexpr int64_t kFar = INT64_MAX / 2;
    const auto is_far = [](const auto& form) {
      return form->offset > kFar || form->offset < -kFar;
    };
    if ((below && is_far(below)) || (above && is_far(above))) return false;
    if (below && below->is_const()) {
      window.end[dim] = std::min(window.end[dim], -(below->offset + last));
      return true;
    }
    if (above && above->is_const()) {
      window.first[dim] = std::max(window.first[dim], above->offset + last + 1);
      return true;
    }
  }
  return false;
}

// A gate leaves zeros outside of a window; no other gate can be staged.
Window window_of(const Node& node, std::span<const int64_t> dims) {
  const LoadParts load = load_parts(node);
  Window window;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const IntRange range = bounds(load.index[dim]);
    window.first.push_back(std::clamp<int64_t>(range.min, 0, dims[dim]));
    window.end.push_back(std::clamp<int64_t>(range.max, -1, dims[dim] - 1) + 1);
  }
  if (!load.gated) return window;
  const bool leaves_zeros = is_const(load.alt) && const_bits(load.alt) == 0;
  std::vector<Node> conditions{load.gate};
  while (!conditions.empty()) {
    const Node condition = conditions.back();
    conditions.pop_back();
    if (condition.op() == Op::kAnd) {
      conditions.insert(conditions.end(), condition.srcs().begin(), condition.srcs().end());
    } else if (!leaves_zeros || !narrow(window, load, condition)) {
      refuse_plan("an operand with a gate that leaves more than zeros around is not staged");
    }
  }
  return window;
}

}  // namespace

PlacedStage place_stage(const Kernel& kernel, const PlacedComp& comp, const Stage& stage,
                        const std::unordered_set<const void*>& outer, Kernel& nest) {
  const auto values = axis_values(comp);
  PlacedStage placed_stage{stage, {}, {}, {}, {}};
  StorageBox& storage = placed_stage.storage;
  const std::vector<Node> loads = loads_of(*comp.comp, stage.buffer);
  if (loads.empty() ||
      kernel.buffers[static_cast<size_t>(stage.buffer)].access != BufferAccess::kIn) {
    refuse_plan("comp ", comp.plan->comp, " reads no such operand to stage");
  }
  for (const Node& load : loads) {
    const Window window = window_of(load, kernel.buffers[static_cast<size_t>(stage.buffer)].dims);
    const bool is_gated = load_parts(load).gated;
    const bool is_other =
        !storage.box.empty() && window != Window{placed_stage.first, placed_stage.end};
    if (is_other && (is_gated || load_parts(loads.front()).gated)) {
      refuse_plan("an operand with several gates is not staged");
    }
    for (size_t dim = 0; dim < load_parts(load).index.size(); ++dim) {
      auto range = range_of(substitute(load_parts(load).index[dim], values), outer);
      if (range && storage.box.size() > dim) range = hull(storage.box[dim], *range);
      if (!range || (!is_gated && bounds(range->base).min < 0)) {
        refuse_plan("dim ", dim, " of the staged operand is not affine");
      }
      if (storage.box.size() > dim) {
        storage.box[dim] = *range;
        placed_stage.first[dim] = std::min(placed_stage.first[dim], window.first[dim]);
        placed_stage.end[dim] = std::max(placed_stage.end[dim], window.end[dim]);
      } else {
        storage.box.push_back(*range);
        placed_stage.first.push_back(window.first[dim]);
        placed_stage.end.push_back(window.end[dim]);
      }
    }
  }
  BufferDecl decl = kernel.buffers[static_cast<size_t>(stage.buffer)];
  decl.name = concat(decl.name, "_staged");
  decl.access = BufferAccess::kTmp;
  decl.scope = Scope::kGroup;
  for (size_t dim = 0; dim < decl.dims.size(); ++dim)
    decl.dims[dim] = storage.box[dim].length;
  decl.layout = stage.layout;
  // A dim in one piece is as long as the layout has it.
  for (const LayoutPart& part : stage.layout) {
    const bool is_known = part.dim >= 0 && static_cast<size_t>(part.dim) < decl.dims.size();
    const auto is_same = [&](const LayoutPart& other) { return other.dim == part.dim; };
    if (!is_known || std::ranges::count_if(stage.layout, is_same) != 1) continue;
    int64_t& length = decl.dims[static_cast<size_t>(part.dim)];
    length = std::max(length, part.extent);
  }
  if (const auto reason = why_not_layout(decl)) refuse_plan("stage: ", *reason);
  storage.buffer = nest.add_buffer(decl);
  return placed_stage;
}

Body stage_copy(Kernel& nest, const PlacedStage& stage, int lanes, bool is_for_unit) {
  return StageCopy(nest, stage, lanes, is_for_unit).run();
}

}  // namespace tenon
