// Walks over statements. SPDX-License-Identifier: MIT

#include "tenon/ir/kernel_walk.h"

namespace tenon {

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void for_each_stmt(const Body& body, const std::function<void(const Stmt&)>& visit) {
  for (const Stmt& stmt : body) {
    visit(stmt);
    for (const Body* inner : bodies_of(stmt))
      for_each_stmt(*inner, visit);
  }
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void for_each_mutable_stmt(Body& body, const std::function<void(Stmt&)>& visit) {
  for (Stmt& stmt : body) {
    visit(stmt);
    for (const Body* inner : bodies_of(stmt))
      for_each_mutable_stmt(const_cast<Body&>(*inner), visit);
  }
}

std::vector<const Body*> bodies_of(const Stmt& stmt) {
  if (const auto* loop = std::get_if<For>(&stmt.node)) return {&loop->body};
  if (const auto* branch = std::get_if<If>(&stmt.node)) {
    return {&branch->then_body, &branch->else_body};
  }
  return {};
}

std::span<const AxisUse> axes_of(const Stmt& stmt) {
  if (const auto* comp = std::get_if<Comp>(&stmt.node)) return comp->axes;
  if (const auto* loop = std::get_if<For>(&stmt.node)) return {&loop->axis, 1};
  if (const auto* combine = std::get_if<Combine>(&stmt.node)) return combine->axes;
  return {};
}

namespace {

/// Of a Stmt or a const one; `apply` gets Nodes of the same constness.
template <class AnyStmt, class Apply>
void apply_to_exprs(AnyStmt& stmt, const Apply& apply_to) {
  const auto apply = [&](auto& node) {
    if (node) apply_to(node);
  };
  const auto apply_all = [&](auto& nodes) {
    for (auto& node : nodes)
      apply(node);
  };
  if (auto* comp = std::get_if<Comp>(&stmt.node)) {
    apply_all(comp->index);
    apply(comp->value);
    apply(comp->start);
    apply_all(comp->guard);
  } else if (auto* loop = std::get_if<For>(&stmt.node)) {
    apply(loop->extent);
  } else if (auto* branch = std::get_if<If>(&stmt.node)) {
    apply(branch->condition);
  } else if (auto* combine = std::get_if<Combine>(&stmt.node)) {
    apply_all(combine->dst_index);
    apply_all(combine->src_index);
  }
}

}  // namespace

void rewrite_exprs(Stmt& stmt, const std::function<Node(const Node&)>& rewrite) {
  apply_to_exprs(stmt, [&](Node& node) { node = rewrite(node); });
}

void for_each_expr(const Stmt& stmt, const std::function<void(const Node&)>& visit) {
  apply_to_exprs(stmt, visit);
}

namespace {

void rewrite_axes(std::span<AxisUse> axes, const std::function<Node(const Node&)>& rewrite) {
  for (AxisUse& use : axes) {
    if (use.axis) use.axis = rewrite(use.axis);
  }
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void rewrite_body(Body& body, const std::function<Node(const Node&)>& rewrite) {
  for (Stmt& stmt : body) {
    rewrite_exprs(stmt, rewrite);
    if (auto* comp = std::get_if<Comp>(&stmt.node)) {
      rewrite_axes(comp->axes, rewrite);
    } else if (auto* loop = std::get_if<For>(&stmt.node)) {
      rewrite_axes({&loop->axis, 1}, rewrite);
      rewrite_body(loop->body, rewrite);
    } else if (auto* branch = std::get_if<If>(&stmt.node)) {
      rewrite_body(branch->then_body, rewrite);
      rewrite_body(branch->else_body, rewrite);
    } else if (auto* combine = std::get_if<Combine>(&stmt.node)) {
      rewrite_axes(combine->axes, rewrite);
    }
  }
}

}  // namespace

void rewrite_kernel(Kernel& kernel, const std::function<Node(const Node&)>& rewrite) {
  rewrite_axes(kernel.grid, rewrite);
  rewrite_axes(kernel.lanes, rewrite);
  rewrite_body(kernel.body, rewrite);
}

}  // namespace tenon
