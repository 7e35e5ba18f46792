// SPDX-License-Identifier: MIT

#include "tenon/codegen/flatten_indices.h"

#include "tenon/base/planted_fault.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/rules/rewrite.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

Node flat(const BufferDecl& buffer, std::span<const Node> index) {
  if (is_planted(PlantedFault::kOuterDimsSwapped) && index.size() > 2 && buffer.layout.empty()) {
    BufferDecl swapped = buffer;
    std::swap(swapped.dims[1], swapped.dims[2]);
    return simplify_index(layout_offset(swapped, index));
  }
  return simplify_index(layout_offset(buffer, index));
}

}  // namespace

Kernel flatten_indices(const Kernel& nest) {
  Kernel result = nest;
  Rewriter rewriter;
  const auto rewrite = [&](const Node& expr) {
    return rewriter.run(expr, [&](const Node& node) {
      if (node.op() != Op::kLoad) return node;
      const LoadParts parts = load_parts(node);
      const Node index = flat(nest.buffers[static_cast<size_t>(parts.buffer)], parts.index);
      const std::span<const Node> indices(&index, 1);
      if (!parts.gated) return make_load(parts.buffer, node.dtype(), indices);
      return make_gated_load(parts.buffer, node.dtype(), indices, parts.gate, parts.alt);
    });
  };
  for_each_mutable_stmt(result.body, [&](Stmt& stmt) {
    rewrite_exprs(stmt, rewrite);
    if (auto* comp = std::get_if<Comp>(&stmt.node)) {
      comp->index = {flat(nest.buffers[static_cast<size_t>(comp->dst)], comp->index)};
    } else if (auto* combine = std::get_if<Combine>(&stmt.node)) {
      combine->dst_index = {
          flat(nest.buffers[static_cast<size_t>(combine->dst)], combine->dst_index)};
      combine->src_index = {
          flat(nest.buffers[static_cast<size_t>(combine->src)], combine->src_index)};
    }
  });
  for (BufferDecl& buffer : result.buffers) {
    buffer.dims = {layout_num_elements(buffer)};
    buffer.layout.clear();
  }
  return result;
}

}  // namespace tenon
