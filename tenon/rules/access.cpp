// SPDX-License-Identifier: MIT

#include "tenon/rules/access.h"

#include <algorithm>

#include "tenon/rules/affine.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

// The layout of relayout_constants: a dim of several is cut into panels, outermost and innermost.
bool has_panels(const BufferDecl& buffer) {
  const std::vector<LayoutPart>& layout = buffer.layout;
  if (buffer.dims.size() < 2 || layout.size() != buffer.dims.size() + 1) return false;
  std::vector<int64_t> covered(buffer.dims.size(), 1);
  for (const LayoutPart& part : layout) {
    if (part.pad != 0) return false;
    covered[static_cast<size_t>(part.dim)] *= part.extent;
  }
  const int64_t cut = std::ranges::count(layout, layout.back().dim, &LayoutPart::dim);
  return cut == 2 && layout.front().dim == layout.back().dim &&
         std::ranges::equal(covered, buffer.dims);
}

// The strides within a panel, where the dims are axes.
bool set_packed(Access& access, const BufferDecl& buffer, const Comp& comp,
                std::span<const Node> index) {
  if (access.is_store || !has_panels(buffer)) return false;
  std::vector<int64_t> strides(comp.axes.size(), 0);
  for (const LayoutTerm& term : layout_terms(buffer).terms) {
    const auto dim = static_cast<size_t>(term.dim);
    if (buffer.dims[dim] == 1) continue;
    const auto use = std::ranges::find(comp.axes, index[dim], &AxisUse::axis);
    const bool is_axis = use != comp.axes.end() && axis_extent(index[dim]) == buffer.dims[dim];
    if (!is_axis || std::ranges::count(index, index[dim]) != 1) return false;
    strides[static_cast<size_t>(use - comp.axes.begin())] = term.stride;
  }
  access.strides = std::move(strides);
  access.is_packed = true;
  return true;
}

void add_index(Access& access, const Kernel& kernel, const Comp& comp,
               std::span<const Node> index) {
  const BufferDecl& buffer = kernel.buffers[static_cast<size_t>(access.buffer)];
  access.dtype = buffer.dtype;
  access.strides.assign(comp.axes.size(), 0);
  access.is_irregular.assign(comp.axes.size(), false);
  const auto number_of = [&](const Node& axis) {
    for (size_t i = 0; i < comp.axes.size(); ++i) {
      if (comp.axes[i].axis == axis) return i;
    }
    return comp.axes.size();
  };
  if (set_packed(access, buffer, comp, index)) return;
  StructuralOrder order;
  const auto form = to_affine(simplify_index(layout_offset(buffer, index)), order);
  if (!form) {
    access.is_irregular.assign(comp.axes.size(), true);
    return;
  }
  for (const AffineTerm& term : form->terms) {
    if (const size_t axis = number_of(term.node); axis < comp.axes.size()) {
      access.strides[axis] = term.coefficient;
      continue;
    }
    for (const Node& node : topological_order(std::span(&term.node, 1))) {
      if (const size_t axis = number_of(node); axis < comp.axes.size()) {
        access.is_irregular[axis] = true;
      }
    }
  }
}

}  // namespace

std::vector<Access> analyze_access(const Kernel& kernel, const Comp& comp) {
  std::vector<Access> accesses;
  Access store{.buffer = comp.dst, .is_store = true};
  add_index(store, kernel, comp, comp.index);
  accesses.push_back(std::move(store));
  for (const Node& node : topological_order(std::span(&comp.value, 1))) {
    if (node.op() != Op::kLoad) continue;
    const LoadParts parts = load_parts(node);
    Access access{.buffer = parts.buffer, .is_gated = parts.gated, .load = node};
    add_index(access, kernel, comp, parts.index);
    accesses.push_back(std::move(access));
  }
  return accesses;
}

}  // namespace tenon
