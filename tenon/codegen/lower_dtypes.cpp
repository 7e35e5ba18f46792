// SPDX-License-Identifier: MIT

#include "tenon/codegen/lower_dtypes.h"

#include "tenon/base/error.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/rules/lower_dtypes.h"
#include "tenon/rules/rewrite.h"

namespace tenon {
namespace {

// A combining Comp in a dtype that memory holds as something else becomes a plain `set`, so that
// the combining op is lowered like every other.
void spell_out_combine(Comp& comp, const BufferDecl& dst) {
  comp.value = make_expr(*comp.combine, make_load(comp.dst, dst.dtype, comp.index), comp.value);
  comp.combine.reset();
}

// What a matrix unit computes stays as it is; only memory holds narrow floats as bits.
Node stored_operands(const Node& value, const Target& target) {
  Rewriter rewriter;
  return rewriter.run(value, [&](const Node& node) {
    if (node.op() != Op::kLoad) return node;
    const DType storage = storage_dtype(node.dtype(), target);
    if (storage == node.dtype()) return node;
    const LoadParts parts = load_parts(node);
    if (!parts.gated)
      return make_bitcast(make_load(parts.buffer, storage, parts.index), node.dtype());
    const Node alt = bits_const(storage, const_bits(parts.alt));
    return make_bitcast(make_gated_load(parts.buffer, storage, parts.index, parts.gate, alt),
                        node.dtype());
  });
}

}  // namespace

Kernel lower_dtypes(const Kernel& nest, const Target& target) {
  Kernel result = nest;
  DTypeLowering lowering(target);
  for_each_mutable_stmt(result.body, [&](Stmt& stmt) {
    auto* comp = std::get_if<Comp>(&stmt.node);
    if (comp == nullptr) return;
    const BufferDecl& dst = nest.buffers[static_cast<size_t>(comp->dst)];
    with_context(
        [&] {
          if (comp->combine && !target.can_compute(dst.dtype)) spell_out_combine(*comp, dst);
          comp->value = unit_axis_of(comp->axes) ? stored_operands(comp->value, target)
                                                 : lowering.run_to_storage(comp->value);
        },
        "lowering the dtypes of kernel '", nest.name, "'");
  });
  for (BufferDecl& buffer : result.buffers)
    buffer.dtype = storage_dtype(buffer.dtype, target);
  return result;
}

}  // namespace tenon
