// Canonical numbers of axes and buffers, and structural equality. SPDX-License-Identifier: MIT

#include <algorithm>
#include <unordered_map>

#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_walk.h"

namespace tenon {

namespace {

class Numbering {
 public:
  explicit Numbering(const Kernel& kernel) : kernel_(kernel) {
    number_buffers();
    for (const AxisUse& use : kernel.grid)
      number_axis(use.axis);
    for (const AxisUse& use : kernel.lanes)
      number_axis(use.axis);
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      for (const AxisUse& use : axes_of(stmt))
        number_axis(use.axis);
    });
  }

  Kernel apply() {
    Kernel result = kernel_;
    rewrite_kernel(result, [&](const Node& node) { return rewrite(node); });
    result.buffers.clear();
    for (const int old_number : buffer_order_)
      result.buffers.push_back(kernel_.buffers[static_cast<size_t>(old_number)]);
    renumber_buffers(result.body);
    result.axis_names.clear();
    for (const int64_t id : axis_order_) {
      const bool has_name = static_cast<size_t>(id) < kernel_.axis_names.size();
      result.axis_names.push_back(has_name ? kernel_.axis_names[static_cast<size_t>(id)] : "");
    }
    return result;
  }

 private:
  void number_buffers() {
    std::vector<int> allocated;
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) allocated.push_back(alloc->buffer);
    });
    for (int i = 0; i < static_cast<int>(kernel_.buffers.size()); ++i) {
      const bool is_parameter =
          kernel_.buffers[static_cast<size_t>(i)].access != BufferAccess::kTmp;
      const bool has_alloc = std::find(allocated.begin(), allocated.end(), i) != allocated.end();
      if (is_parameter || !has_alloc) buffer_order_.push_back(i);
    }
    for (const int buffer : allocated) {
      const bool is_known =
          std::find(buffer_order_.begin(), buffer_order_.end(), buffer) != buffer_order_.end();
      if (!is_known && static_cast<size_t>(buffer) < kernel_.buffers.size()) {
        buffer_order_.push_back(buffer);
      }
    }
    new_buffer_.resize(kernel_.buffers.size());
    for (size_t i = 0; i < buffer_order_.size(); ++i)
      new_buffer_[static_cast<size_t>(buffer_order_[i])] = static_cast<int>(i);
  }

  int64_t number_axis(const Node& axis) {
    if (!axis) return 0;
    const auto [it, is_new] =
        new_axis_.emplace(axis_id(axis), static_cast<int64_t>(axis_order_.size()));
    if (is_new) axis_order_.push_back(axis_id(axis));
    return it->second;
  }

  int new_buffer(int old_number) const {
    const auto i = static_cast<size_t>(old_number);
    return i < new_buffer_.size() ? new_buffer_[i] : old_number;
  }

  Node rewrite(const Node& expr) {
    if (memo_.contains(expr.id())) return memo_.at(expr.id());
    std::vector<Node> srcs;
    for (const Node& node : topological_order(std::span(&expr, 1))) {
      if (memo_.contains(node.id())) continue;
      srcs.clear();
      for (const Node& src : node.srcs())
        srcs.push_back(memo_.at(src.id()));
      std::vector<int64_t> attr(node.attr().begin(), node.attr().end());
      if (node.op() == Op::kAxis) attr[0] = number_axis(node);
      if (node.op() == Op::kLoad) attr[0] = new_buffer(static_cast<int>(attr[0]));
      memo_.emplace(node.id(), make_node(node.op(), node.dtype(), {}, srcs, attr));
    }
    return memo_.at(expr.id());
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void renumber_buffers(Body& body) const {
    for (Stmt& stmt : body) {
      if (auto* comp = std::get_if<Comp>(&stmt.node)) {
        comp->dst = new_buffer(comp->dst);
      } else if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
        alloc->buffer = new_buffer(alloc->buffer);
      } else if (auto* combine = std::get_if<Combine>(&stmt.node)) {
        combine->dst = new_buffer(combine->dst);
        combine->src = new_buffer(combine->src);
        if (combine->via) combine->via = new_buffer(*combine->via);
      } else if (auto* loop = std::get_if<For>(&stmt.node)) {
        renumber_buffers(loop->body);
      } else if (auto* branch = std::get_if<If>(&stmt.node)) {
        renumber_buffers(branch->then_body);
        renumber_buffers(branch->else_body);
      }
    }
  }

  const Kernel& kernel_;
  std::vector<int> buffer_order_;  // old numbers in the new order
  std::vector<int> new_buffer_;
  std::vector<int64_t> axis_order_;
  std::unordered_map<int64_t, int64_t> new_axis_;
  std::unordered_map<const void*, Node> memo_;  // by nodes of kernel_, which outlives us
};

bool equal_bodies(const Body& a, const Body& b);

bool equal_stmts(const Stmt& a, const Stmt& b) {
  if (a.node.index() != b.node.index()) return false;
  if (const auto* x = std::get_if<Comp>(&a.node)) {
    const auto& y = std::get<Comp>(b.node);
    return x->dst == y.dst && x->index == y.index && x->value == y.value &&
           x->combine == y.combine && x->start == y.start && x->axes == y.axes &&
           x->guard == y.guard && x->store == y.store;
  }
  if (const auto* x = std::get_if<For>(&a.node)) {
    const auto& y = std::get<For>(b.node);
    return x->axis == y.axis && x->extent == y.extent && equal_bodies(x->body, y.body);
  }
  if (const auto* x = std::get_if<If>(&a.node)) {
    const auto& y = std::get<If>(b.node);
    return x->condition == y.condition && equal_bodies(x->then_body, y.then_body) &&
           equal_bodies(x->else_body, y.else_body);
  }
  if (const auto* x = std::get_if<Alloc>(&a.node)) {
    return x->buffer == std::get<Alloc>(b.node).buffer;
  }
  if (const auto* x = std::get_if<Combine>(&a.node)) {
    const auto& y = std::get<Combine>(b.node);
    return x->dst == y.dst && x->dst_index == y.dst_index && x->src == y.src &&
           x->src_index == y.src_index && x->op == y.op && x->axes == y.axes && x->via == y.via;
  }
  return true;
}

bool equal_bodies(const Body& a, const Body& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal_stmts);
}

}  // namespace

Kernel renumber_axes(const Kernel& kernel) {
  return Numbering(kernel).apply();
}

bool equal_kernels(const Kernel& a, const Kernel& b) {
  const auto equal_buffers = [](const BufferDecl& x, const BufferDecl& y) {
    return x.dtype == y.dtype && x.dims == y.dims && x.access == y.access && x.scope == y.scope &&
           x.layout == y.layout && x.align_bytes == y.align_bytes;
  };
  const auto equal_scalars = [](const ScalarDecl& x, const ScalarDecl& y) {
    return x.dtype == y.dtype && x.min == y.min && x.max == y.max;
  };
  return std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(),
                    equal_buffers) &&
         std::equal(a.scalars.begin(), a.scalars.end(), b.scalars.begin(), b.scalars.end(),
                    equal_scalars) &&
         a.grid == b.grid && a.lanes == b.lanes && a.is_nest == b.is_nest &&
         equal_bodies(a.body, b.body);
}

}  // namespace tenon
