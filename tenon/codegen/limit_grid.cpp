// SPDX-License-Identifier: MIT

#include "tenon/codegen/limit_grid.h"

#include <algorithm>
#include <utility>

#include "tenon/base/integer.h"
#include "tenon/base/text.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

/// The grid axis counts runs of `count` of its groups; a loop goes through a run.
void run_in_loop(Kernel& nest, AxisUse& use, int64_t count) {
  const Node groups = use.axis;
  const int64_t extent = axis_extent(groups);
  const std::string name = nest.axis_names[static_cast<size_t>(axis_id(groups))];
  const Node run = nest.add_axis(concat(name, "_run"), ceil_div(extent, count), AxisKind::kPar);
  const Node step = nest.add_axis(concat(name, "_step"), count, AxisKind::kPar);
  const Node first = make_expr(Op::kMul, run, idx_const(count));
  const std::pair<Node, Node> replaced[] = {{groups, make_expr(Op::kAdd, first, step)}};
  for_each_mutable_stmt(nest.body, [&](Stmt& stmt) {
    rewrite_exprs(stmt, [&](const Node& expr) {
      const Node changed = substitute(expr, replaced);
      if (changed == expr) return expr;
      // A guard stays a comparison, also where it is always true.
      if (changed.op() != Op::kLt) return simplify_index(changed);
      return make_expr(Op::kLt, simplify_index(changed.src(0)), simplify_index(changed.src(1)));
    });
  });
  const Node left = make_expr(Op::kSub, idx_const(extent), first);
  For loop{.axis = {.axis = step, .role = Role::kSeq, .dim = 0},
           .extent = simplify_index(make_expr(Op::kMin, idx_const(count), left)),
           .body = std::move(nest.body)};
  nest.body.clear();
  nest.body.push_back(Stmt{std::move(loop)});
  use.axis = run;
}

}  // namespace

Kernel limit_grid(const Kernel& nest, const Target& target) {
  Kernel result = nest;
  // The largest axis first: often it is enough.
  std::vector<size_t> order(nest.grid.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return axis_extent(nest.grid[i].axis); });
  for (const size_t dim : order) {
    int64_t others = 1;  // saturates
    for (size_t i = 0; i < result.grid.size(); ++i) {
      const int64_t extent = axis_extent(result.grid[i].axis);
      if (i != dim && __builtin_mul_overflow(others, extent, &others)) others = INT64_MAX;
    }
    const int64_t extent = axis_extent(result.grid[dim].axis);
    const int64_t most = std::max<int64_t>(1, target.max_groups / others);
    if (extent > most) run_in_loop(result, result.grid[dim], ceil_div(extent, most));
  }
  return result;
}

}  // namespace tenon
