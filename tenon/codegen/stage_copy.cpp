// SPDX-License-Identifier: MIT

#include "tenon/codegen/stage_copy.h"

#include "tenon/base/integer.h"
#include "tenon/base/text.h"
#include "tenon/codegen/plan_rules.h"
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
    if (const int64_t group = group_size(); group > 1) return grouped(group);
    const int64_t run = decl_.layout.empty() ? decl_.dims[copy_dim] : decl_.layout.back().extent;
    const bool is_vector =
        lanes_ > 1 && decl_.dims[copy_dim] >= lanes_ && (run % lanes_ == 0 || decl_.layout.empty());
    for (size_t dim = 0; dim < decl_.dims.size(); ++dim) {
      const bool is_block =
          is_vector && (dim == copy_dim || dim == source_dim) && decl_.dims[dim] >= lanes_;
      open_dim(dim, is_block ? lanes_ : 1, dim == copy_dim ? Role::kVec : Role::kUnroll);
    }
    return looped();
  }

 private:
  size_t dst() const { return static_cast<size_t>(stage_.storage.buffer); }

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
    for (size_t dim = 0; dim < source.dims.size(); ++dim) {
      const AxisRange& range = stage_.storage.box[dim];
      index.push_back(simplify_index(make_expr(Op::kAdd, range.base, copy_.index[dim])));
      const Node inside =
          simplify_index(make_expr(Op::kLt, index.back(), idx_const(source.dims[dim])));
      if (is_const(inside) && const_bits(inside) != 0) continue;
      gate = gate ? make_expr(Op::kAnd, gate, inside) : inside;
    }
    const int buffer = stage_.stage.buffer;
    copy_.value =
        gate ? make_gated_load(buffer, source.dtype, index, gate, bits_const(source.dtype, 0))
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

}  // namespace

PlacedStage place_stage(const Kernel& kernel, const PlacedComp& comp, const Stage& stage,
                        const std::unordered_set<const void*>& outer, Kernel& nest) {
  const auto values = axis_values(comp);
  PlacedStage placed_stage{stage, {}, {}};
  StorageBox& storage = placed_stage.storage;
  const std::vector<Node> loads = loads_of(*comp.comp, stage.buffer);
  if (loads.empty() ||
      kernel.buffers[static_cast<size_t>(stage.buffer)].access != BufferAccess::kIn) {
    refuse_plan("comp ", comp.plan->comp, " reads no such operand to stage");
  }
  for (const Node& load : loads) {
    if (load_parts(load).gated) refuse_plan("a gated operand is not staged");
    for (size_t dim = 0; dim < load_parts(load).index.size(); ++dim) {
      auto range = range_of(substitute(load_parts(load).index[dim], values), outer);
      if (range && storage.box.size() > dim) range = hull(storage.box[dim], *range);
      if (!range || bounds(range->base).min < 0) {
        refuse_plan("dim ", dim, " of the staged operand is not affine");
      }
      if (storage.box.size() > dim) {
        storage.box[dim] = *range;
      } else {
        storage.box.push_back(*range);
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
  if (const auto reason = why_not_layout(decl)) refuse_plan("stage: ", *reason);
  storage.buffer = nest.add_buffer(decl);
  return placed_stage;
}

Body stage_copy(Kernel& nest, const PlacedStage& stage, int lanes, bool is_for_unit) {
  return StageCopy(nest, stage, lanes, is_for_unit).run();
}

}  // namespace tenon
