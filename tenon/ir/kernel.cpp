// Kernel as plain data: parameters, new axes, and where elements lie in a layout.
// SPDX-License-Identifier: MIT

#include "tenon/ir/kernel.h"

#include <algorithm>

#include "tenon/base/error.h"

namespace tenon {

int Kernel::num_parameters() const {
  return static_cast<int>(std::count_if(buffers.begin(), buffers.end(), [](const BufferDecl& decl) {
    return decl.access != BufferAccess::kTmp;
  }));
}

Node Kernel::add_axis(std::string axis_name, int64_t extent, AxisKind kind) {
  axis_names.push_back(std::move(axis_name));
  return make_axis(static_cast<int64_t>(axis_names.size()) - 1, extent, kind);
}

int Kernel::add_buffer(BufferDecl decl) {
  buffers.push_back(std::move(decl));
  return static_cast<int>(buffers.size()) - 1;
}

namespace {

// Fills `result`; returns why the layout is not one of this buffer, or nothing.
std::optional<std::string> build_layout(const BufferDecl& buffer, LayoutTerms& result) {
  std::vector<LayoutPart> parts = buffer.layout;
  if (parts.empty()) {
    for (size_t dim = 0; dim < buffer.dims.size(); ++dim)
      parts.push_back({.dim = static_cast<int>(dim), .extent = buffer.dims[dim], .pad = 0});
  }
  result.terms.resize(parts.size());
  std::vector<int64_t> covered(buffer.dims.size(), 1);  // of each dim, by the parts inside
  int64_t stride = 1;
  for (size_t i = parts.size(); i-- > 0;) {
    const LayoutPart& part = parts[i];
    if (part.dim < 0 || static_cast<size_t>(part.dim) >= buffer.dims.size() || part.extent < 1 ||
        part.pad < 0) {
      return concat("part ", i, " has dim ", part.dim, ", extent ", part.extent, ", pad ",
                    part.pad);
    }
    int64_t& inside = covered[static_cast<size_t>(part.dim)];
    result.terms[i] = {
        .dim = part.dim, .divisor = inside, .modulus = part.extent, .stride = stride};
    if (__builtin_mul_overflow(inside, part.extent, &inside) ||
        __builtin_mul_overflow(stride, part.extent, &stride) ||
        __builtin_add_overflow(stride, part.pad, &stride)) {
      return "its size does not fit 64 bits";
    }
  }
  for (size_t dim = 0; dim < covered.size(); ++dim) {
    if (covered[dim] < buffer.dims[dim]) {
      return concat("dim ", dim, " has ", buffer.dims[dim], " values, its parts hold ",
                    covered[dim]);
    }
  }
  // The outermost part of a dim takes what is left: no modulus needed.
  std::vector<bool> seen(buffer.dims.size(), false);
  for (LayoutTerm& term : result.terms) {
    if (!seen[static_cast<size_t>(term.dim)]) term.modulus = 0;
    seen[static_cast<size_t>(term.dim)] = true;
  }
  result.num_elements = stride;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_not_layout(const BufferDecl& buffer) {
  LayoutTerms ignored;
  return build_layout(buffer, ignored);
}

LayoutTerms layout_terms(const BufferDecl& buffer) {
  LayoutTerms result;
  const std::optional<std::string> reason = build_layout(buffer, result);
  TENON_ASSERT(!reason, "layout of ", buffer.name, ": ", *reason);
  return result;
}

Node layout_offset(const BufferDecl& buffer, std::span<const Node> index) {
  TENON_ASSERT(index.size() == buffer.dims.size(), buffer.name, ": ", index.size(),
               " indices for rank ", buffer.dims.size());
  Node offset;
  for (const LayoutTerm& term : layout_terms(buffer).terms) {
    if (buffer.dims[static_cast<size_t>(term.dim)] == 1) continue;
    Node value = index[static_cast<size_t>(term.dim)];
    if (term.divisor != 1) value = make_expr(Op::kFloorDiv, value, idx_const(term.divisor));
    if (term.modulus != 0) value = make_expr(Op::kFloorMod, value, idx_const(term.modulus));
    if (term.stride != 1) value = make_expr(Op::kMul, value, idx_const(term.stride));
    offset = offset ? make_expr(Op::kAdd, offset, value) : value;
  }
  return offset ? offset : idx_const(0);
}

int64_t layout_num_elements(const BufferDecl& buffer) {
  return layout_terms(buffer).num_elements;
}

}  // namespace tenon
