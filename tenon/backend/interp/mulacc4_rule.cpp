// for k:n { t += a * b } becomes for q:n/4 { t = mulacc4(a, b of k = 4q, 4q+1, ..., t) } and the
// rest one at a time. The order of a sum is free (docs/ir.md). SPDX-License-Identifier: MIT

#include "tenon/backend/interp/mulacc4_rule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tenon/base/text.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/rules/simplify_index.h"

namespace tenon::interp {
namespace {

constexpr int64_t kProducts = 4;

/// The Comp, if the loop does nothing but add one product of f32 for each step.
const Comp* sum_of_products(const For& loop) {
  if (loop.body.size() != 1) return nullptr;
  if (axis_kind(loop.axis.axis) != AxisKind::kRed) return nullptr;
  const auto* comp = std::get_if<Comp>(&loop.body[0].node);
  if (comp == nullptr || comp->combine != Op::kAdd || comp->start) return nullptr;
  if (comp->value.op() != Op::kMul || comp->value.dtype() != DType::kF32) return nullptr;
  const auto is_plain = [](const AxisUse& use) {
    return axis_kind(use.axis) == AxisKind::kPar && use.role != Role::kUnit;
  };
  const auto is_free = [&](const Node& expr) { return !uses_axis(expr, loop.axis.axis); };
  const bool is_same_place =
      std::ranges::all_of(comp->index, is_free) && std::ranges::all_of(comp->guard, is_free);
  return is_same_place && std::ranges::all_of(comp->axes, is_plain) ? comp : nullptr;
}

std::optional<Body> fuse_four(const Stmt& stmt, Kernel& nest, const Target& target) {
  const auto* loop = std::get_if<For>(&stmt.node);
  const Comp* const sum =
      loop != nullptr && target.is_native(Op::kMulAcc4) ? sum_of_products(*loop) : nullptr;
  if (sum == nullptr || axis_extent(loop->axis.axis) < kProducts) return std::nullopt;
  const Node& step = loop->axis.axis;
  const auto loop_of = [&](int64_t most, const Node& extent, const auto& make_comp) {
    const std::string name = concat("q", nest.axis_names.size());
    const Node axis = nest.add_axis(name, most, AxisKind::kRed);
    return Stmt{For{.axis = {.axis = axis, .role = Role::kSeq, .dim = 0},
                    .extent = extent,
                    .body = {Stmt{make_comp(axis)}}}};
  };
  const auto at = [&](const Node& expr, const Node& place) {
    const std::pair<Node, Node> replaced[] = {{step, place}};
    return simplify_index(substitute(expr, replaced));
  };
  const auto fused = [&](const Node& quad) {
    const Node first = make_expr(Op::kMul, quad, idx_const(kProducts));
    std::vector<Node> operands;
    for (int64_t i = 0; i < kProducts; ++i) {
      for (size_t factor = 0; factor < 2; ++factor)
        operands.push_back(at(sum->value.src(factor), make_expr(Op::kAdd, first, idx_const(i))));
    }
    operands.push_back(make_load(sum->dst, DType::kF32, sum->index));
    Comp comp = *sum;
    comp.combine.reset();
    comp.value = make_expr(Op::kMulAcc4, operands);
    return comp;
  };
  const Node four = idx_const(kProducts);
  const Node quads = simplify_index(make_expr(Op::kFloorDiv, loop->extent, four));
  const Node rest = simplify_index(make_expr(Op::kFloorMod, loop->extent, four));
  Body body;
  body.push_back(loop_of(axis_extent(step) / kProducts, quads, fused));
  if (is_const(rest) && idx_value(rest) == 0) return body;
  const int64_t most = is_const(rest) ? idx_value(rest) : kProducts - 1;
  body.push_back(loop_of(most, rest, [&](const Node& axis) {
    Comp comp = *sum;
    comp.value = at(sum->value, make_expr(Op::kAdd, make_expr(Op::kMul, quads, four), axis));
    return comp;
  }));
  return body;
}

}  // namespace

const LoweringRule kMulAcc4Rule{.name = "mulacc4", .apply = fuse_four};

}  // namespace tenon::interp
