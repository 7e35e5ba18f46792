// SPDX-License-Identifier: MIT

#include "tenon/codegen/choose_index_width.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/decompose.h"
#include "tenon/rules/rewrite.h"
#include "tenon/types/support.h"

namespace tenon {
DType choose_index_width(const Kernel& nest, const Target& target) {
  std::vector<Node> roots;
  for_each_stmt(nest.body, [&roots](const Stmt& stmt) {
    for_each_expr(stmt, [&roots](const Node& expr) { roots.push_back(expr); });
  });
  BoundsMemo memo;
  int64_t low = 0;
  int64_t high = 0;
  for (const Node& node : topological_order(roots)) {
    if (node.dtype() != DType::kIdx) continue;
    const IntRange interval = memo.bounds(node);
    // A loaded index is cast to idx before it is clipped or gated; its dtype's own width decides.
    if (node.op() == Op::kCast && dtype_bits(node.src(0).dtype()) == 64) high = INT64_MAX;
    TENON_CHECK(interval.is_bounded() || node.op() == Op::kCast, ErrorCode::kUnsupported,
                "choose_index_width: an index of kernel '", nest.name,
                "' may leave 64 bits; its bounds are ", interval.min, " to ", interval.max);
    low = std::min(low, interval.min);
    high = std::max(high, interval.max);
  }
  for (const BufferDecl& buffer : nest.buffers)
    high = std::max(high, layout_num_elements(buffer));
  if (low >= INT32_MIN && high <= INT32_MAX) return DType::kI32;
  require(supports(target, Limit::kIndex, high > INT32_MAX ? high : low),
          "choose_index_width: kernel '", nest.name, "' ");
  return DType::kI64;
}

Kernel give_indices_width(const Kernel& nest, DType width) {
  Kernel result = nest;
  Rewriter rewriter;
  BoundsMemo memo;
  const auto typed = [&](const Node& node) -> Node {
    const bool is_leaf = node.srcs().empty();
    if (node.op() == Op::kCast) {
      const Node& value = node.src(0);
      const DType to = node.dtype() == DType::kIdx ? width : node.dtype();
      return value.dtype() == to ? value : make_cast(value, to);
    }
    if (node.dtype() != DType::kIdx) return node;
    if (is_const(node)) return int_const(width, idx_value(node));
    if (is_leaf) return make_cast(node, width);
    if (node.op() == Op::kFloorDiv) return decompose_floordiv(node.src(0), node.src(1), memo);
    if (node.op() == Op::kFloorMod) return decompose_floormod(node.src(0), node.src(1), memo);
    return make_expr(node.op(), node.srcs());
  };
  for_each_mutable_stmt(result.body, [&](Stmt& stmt) {
    rewrite_exprs(stmt, [&](const Node& expr) { return rewriter.run(expr, typed); });
  });
  return result;
}

}  // namespace tenon
