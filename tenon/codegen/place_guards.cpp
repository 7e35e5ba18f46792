// SPDX-License-Identifier: MIT

#include "tenon/codegen/place_guards.h"

#include <unordered_set>

#include "tenon/base/planted_fault.h"
#include "tenon/rules/fold.h"
#include "tenon/rules/rewrite.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

// True for expressions that simplify_index understands: idx, and conditions made of idx only.
bool is_index_condition(const Node& node) {
  if (node.dtype() == DType::kIdx) return true;
  return node.dtype() == DType::kBool && is_elementwise(node.op()) && node.op() != Op::kCast &&
         node.op() != Op::kBitcast;
}

Node simplify_load(const Node& node) {
  const LoadParts parts = load_parts(node);
  std::vector<Node> index;
  for (const Node& part : parts.index)
    index.push_back(simplify_index(part));
  if (!parts.gated) return make_load(parts.buffer, node.dtype(), index);
  const Node gate = simplify_index(parts.gate);
  const bool is_always = is_true(gate) || is_planted(PlantedFault::kLoadGateDropped);
  if (is_always) return make_load(parts.buffer, node.dtype(), index);
  if (is_false(gate)) return parts.alt;
  return make_gated_load(parts.buffer, node.dtype(), index, gate, parts.alt);
}

Node simplify_value(Rewriter& rewriter, const Node& value) {
  return rewriter.run(value, [](const Node& node) {
    if (node.op() == Op::kLoad) return simplify_load(node);
    if (node.op() == Op::kWhere && is_index_condition(node.src(0))) {
      const Node condition = simplify_index(node.src(0));
      if (is_true(condition)) return node.src(1);
      if (is_false(condition)) return node.src(2);
      return make_expr(Op::kWhere, condition, node.src(1), node.src(2));
    }
    if (node.op() == Op::kCast && node.src(0).dtype() == DType::kIdx) {
      return make_cast(simplify_index(node.src(0)), node.dtype());
    }
    return node;
  });
}

bool uses_any(const Node& expr, const std::unordered_set<const void*>& axes) {
  for (const Node& node : topological_order(std::span(&expr, 1))) {
    if (axes.contains(node.id())) return true;
  }
  return false;
}

class GuardPlacer {
 public:
  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  Body place(const Body& body) {
    Body result;
    for (const Stmt& stmt : body) {
      if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
        place_comp(*comp, result);
      } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
        For placed{loop->axis, simplify_index(loop->extent), place(loop->body)};
        if (!placed.body.empty()) result.push_back(Stmt{std::move(placed)});
      } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
        place_branch(*branch, result);
      } else {
        result.push_back(stmt);
      }
    }
    return result;
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void place_branch(const If& branch, Body& result) {
    const Node condition = simplify_index(branch.condition);
    if (is_true(condition) || is_false(condition)) {
      Body taken = place(is_true(condition) ? branch.then_body : branch.else_body);
      for (Stmt& stmt : taken)
        result.push_back(std::move(stmt));
      return;
    }
    result.push_back(Stmt{If{condition, place(branch.then_body), place(branch.else_body)}});
  }

  void place_comp(const Comp& source, Body& result) {
    Comp comp = source;
    std::unordered_set<const void*> own_axes;
    for (const AxisUse& use : comp.axes)
      own_axes.insert(use.axis.id());
    for (Node& index : comp.index)
      index = simplify_index(index);
    comp.value = simplify_value(rewriter_, comp.value);
    comp.guard.clear();
    Node hoisted;
    for (const Node& conjunct : source.guard) {
      const Node guard = simplify_index(conjunct);
      if (is_true(guard)) continue;
      if (is_false(guard)) return;
      if (uses_any(guard, own_axes)) {
        comp.guard.push_back(guard);
      } else {
        hoisted = hoisted ? make_expr(Op::kAnd, hoisted, guard) : guard;
      }
    }
    if (hoisted) {
      Body inner;
      inner.push_back(Stmt{std::move(comp)});
      result.push_back(Stmt{If{hoisted, std::move(inner), {}}});
    } else {
      result.push_back(Stmt{std::move(comp)});
    }
  }

  Rewriter rewriter_;
};

}  // namespace

Kernel place_guards(const Kernel& nest) {
  Kernel result = nest;
  result.body = GuardPlacer().place(nest.body);
  return result;
}

}  // namespace tenon
