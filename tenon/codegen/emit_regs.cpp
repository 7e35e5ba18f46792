// SPDX-License-Identifier: MIT

#include "tenon/codegen/emit_regs.h"

#include <algorithm>
#include <set>

#include "tenon/base/error.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/ir/kernel_walk.h"

namespace tenon {

int64_t RegIndex::coefficient(const Node& axis) const {
  for (const auto& [node, coefficient] : terms) {
    if (node == axis) return coefficient;
  }
  return 0;
}

Node vec_axis_of(const std::vector<AxisUse>& axes, const std::string& nest_name) {
  Node result;
  for (const AxisUse& use : axes) {
    if (use.role != Role::kVec || axis_extent(use.axis) == 1) continue;
    TENON_ASSERT(!result, "emit_linear: a statement of '", nest_name,
                 "' has two vec axes; expected at most one");
    TENON_ASSERT(axis_extent(use.axis) <= kMaxVectorLanes, "emit_linear: a vec axis of '",
                 nest_name, "' has ", axis_extent(use.axis), " points; vectors have at most ",
                 kMaxVectorLanes, " lanes");
    result = use.axis;
  }
  return result;
}

RegFile::RegFile(const Kernel& nest)
    : nest_(nest), widths_(nest.buffers.size(), 1), is_tile_(nest.buffers.size(), false) {
  for_each_stmt(nest.body, [&](const Stmt& stmt) {
    if (const auto* comp = std::get_if<Comp>(&stmt.node)) note_widths(*comp);
  });
  // After the Comps: a Combine follows what they say.
  for_each_stmt(nest.body, [&](const Stmt& stmt) {
    if (const auto* combine = std::get_if<Combine>(&stmt.node)) note_kept_width(*combine);
  });
}

bool RegFile::is_reg(int buffer) const {
  return nest_.buffers[static_cast<size_t>(buffer)].scope == Scope::kReg;
}

LinearType RegFile::type(int buffer) const {
  LinearType type =
      value_type(nest_.buffers[static_cast<size_t>(buffer)].dtype, static_cast<int>(width(buffer)));
  if (is_tile(buffer)) type.kind = TypeKind::kTile;
  return type;
}

RegKey RegFile::key(int buffer, int64_t element) const {
  return {buffer, element - element % width(buffer)};
}

const RegIndex& RegFile::index(const Node& index) {
  const auto [found, is_new] = indices_.try_emplace(index.id());
  RegIndex& result = found->second;
  if (!is_new) return result;
  const auto form = to_affine(index, order_);
  TENON_ASSERT(form, "emit_linear: an index of a register buffer of '", nest_.name, "' overflows");
  result.offset = form->offset;
  for (const AffineTerm& term : form->terms) {
    const Node& axis = term.node.op() == Op::kCast ? term.node.src(0) : term.node;
    TENON_ASSERT(axis.op() == Op::kAxis, "emit_linear: a register buffer of '", nest_.name,
                 "' is indexed by '", op_name(axis.op()), "'; expected a sum of axes");
    result.terms.emplace_back(axis, term.coefficient);
  }
  return result;
}

void RegFile::note_width(int buffer, const Node& index, const Node& vec) {
  const int64_t coefficient = this->index(index).coefficient(vec);
  if (coefficient == 0) return;
  const std::string& name = nest_.buffers[static_cast<size_t>(buffer)].name;
  TENON_ASSERT(coefficient == 1, "emit_linear: register buffer '", name, "' of '", nest_.name,
               "' is addressed along a vec axis with stride ", coefficient, "; expected 0 or 1");
  int64_t& width = widths_[static_cast<size_t>(buffer)];
  TENON_ASSERT(width == 1 || width == axis_extent(vec), "emit_linear: register buffer '", name,
               "' of '", nest_.name, "' is addressed as vectors of ", width, " and of ",
               axis_extent(vec), "; expected one width");
  width = axis_extent(vec);
}

void RegFile::note_tile(int buffer, const Node& index, const Node& row, const Node& column) {
  const RegIndex& form = this->index(index);
  TENON_ASSERT(form.coefficient(column) == 1 && form.coefficient(row) == axis_extent(column),
               "emit_linear: register buffer '", nest_.buffers[static_cast<size_t>(buffer)].name,
               "' of '", nest_.name, "' does not hold its tiles in one piece each");
  widths_[static_cast<size_t>(buffer)] = axis_extent(row) * axis_extent(column);
  is_tile_[static_cast<size_t>(buffer)] = true;
}

void RegFile::note_widths(const Comp& comp) {
  const Node vec = vec_axis_of(comp.axes, nest_.name);
  const UnitAxes unit = unit_axes_of(comp.axes);
  if (!vec && !unit.column) return;
  const auto note = [&](int buffer, const Node& index) {
    if (!is_reg(buffer)) return;
    unit.column ? note_tile(buffer, index, unit.row, unit.column) : note_width(buffer, index, vec);
  };
  note(comp.dst, comp.index[0]);
  for (const Node& node : topological_order(std::span(&comp.value, 1))) {
    if (node.op() == Op::kLoad) note(load_parts(node).buffer, load_parts(node).index[0]);
  }
}

void RegFile::note_kept_width(const Combine& combine) {
  const Node vec = vec_axis_of(combine.axes, nest_.name);
  if (!vec || !is_reg(combine.dst) || width(combine.src) == 1) return;
  note_width(combine.dst, combine.dst_index[0], vec);
}

ValueId RegFile::find(const RegKey& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? kNoId : found->second;
}

void RegFile::forget_buffer(int buffer) {
  values_.erase(values_.lower_bound({buffer, 0}), values_.lower_bound({buffer + 1, 0}));
}

std::vector<RegKey> RegFile::written_by(int buffer, const Node& index,
                                        const std::vector<AxisUse>& axes) {
  const RegIndex& form = this->index(index);
  std::vector<int64_t> elements{form.offset};
  for (const AxisUse& use : axes) {
    const int64_t coefficient = form.coefficient(use.axis);
    const bool is_lane = use.role == Role::kUnit || (use.role == Role::kVec && width(buffer) > 1);
    if (coefficient == 0 || is_lane) continue;
    std::vector<int64_t> more;
    for (const int64_t element : elements) {
      for (int64_t i = 0; i < axis_extent(use.axis); ++i)
        more.push_back(element + coefficient * i);
    }
    elements = std::move(more);
  }
  std::vector<RegKey> keys;
  for (const int64_t element : elements)
    keys.push_back(key(buffer, element));
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
const std::vector<RegKey>& RegFile::written_in(const Body& body) {
  if (const auto found = written_.find(&body); found != written_.end()) return found->second;
  std::set<RegKey> keys;
  std::set<int> inner;
  const auto add = [&](const std::vector<RegKey>& more) { keys.insert(more.begin(), more.end()); };
  for (const Stmt& stmt : body) {
    if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      inner.insert(alloc->buffer);
    } else if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
      if (is_reg(comp->dst)) add(written_by(comp->dst, comp->index[0], comp->axes));
    } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
      if (is_reg(combine->dst)) add(written_by(combine->dst, combine->dst_index[0], combine->axes));
    }
    for (const Body* nested : bodies_of(stmt))
      add(written_in(*nested));
  }
  std::vector<RegKey>& result = written_[&body];
  for (const RegKey& key : keys) {
    if (!inner.contains(key.buffer)) result.push_back(key);
  }
  return result;
}

}  // namespace tenon
