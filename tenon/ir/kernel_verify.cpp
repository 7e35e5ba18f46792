// The table of rules, and what they share. SPDX-License-Identifier: MIT

#include "tenon/ir/kernel_verify.h"

#include <algorithm>
#include <array>

#include "tenon/base/error.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_verify_rules.h"

namespace tenon {

namespace detail {

namespace {

// Collects statements; deeper than the limit they are left out (V11 reports that).
// NOLINTNEXTLINE(misc-no-recursion): no deeper than kMaxStmtDepth
void collect(const Body& body, int parent, bool in_else, int depth, std::vector<Site>& sites) {
  for (const Stmt& stmt : body) {
    sites.push_back({&stmt, parent, in_else, depth});
    if (depth > kMaxStmtDepth) continue;
    const int self = static_cast<int>(sites.size()) - 1;
    if (const auto* loop = std::get_if<For>(&stmt.node)) {
      collect(loop->body, self, false, depth + 1, sites);
    } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
      collect(branch->then_body, self, false, depth + 1, sites);
      collect(branch->else_body, self, true, depth + 1, sites);
    }
  }
}

struct Rule {
  std::string_view id;
  void (*verify)(Verifying&);
  bool others_rely_on_it;
};

constexpr std::array<Rule, 12> kRules{{{"V11", verify_depth, true},
                                       {"V10", verify_dtypes, true},
                                       {"V1", verify_axes, true},
                                       {"V2", verify_distinct, false},
                                       {"V3", verify_inside, false},
                                       {"V4", verify_registers, false},
                                       {"V5", verify_target, false},
                                       {"V6", verify_own_reads, false},
                                       {"V7", verify_written, false},
                                       {"V8", verify_barriers, false},
                                       {"V9", verify_roles, false},
                                       {"stage", verify_stage, false}}};

}  // namespace

std::string Verifying::name(size_t site) const {
  const Stmt& stmt = *sites[site].stmt;
  std::string what = "barrier";
  const auto buffer_name = [&](int number) {
    return static_cast<size_t>(number) < kernel.buffers.size() ? buffer(number).name
                                                               : concat("buffer ", number);
  };
  if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
    what = concat("write of '", buffer_name(comp->dst), "'");
  } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
    what = concat("for ", loop->axis.axis ? axis_name(loop->axis.axis) : "null");
  } else if (std::holds_alternative<If>(stmt.node)) {
    what = "if";
  } else if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
    what = concat("alloc of '", buffer_name(alloc->buffer), "'");
  } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
    what = concat("combine into '", buffer_name(combine->dst), "'");
  }
  return concat("statement ", site + 1, " (", what, ")");
}

std::string Verifying::axis_name(const Node& axis) const {
  const auto id = static_cast<size_t>(axis_id(axis));
  return id < kernel.axis_names.size() ? kernel.axis_names[id] : concat("axis", id);
}

std::vector<size_t> Verifying::enclosing(size_t site) const {
  std::vector<size_t> result;
  for (int at = sites[site].parent; at >= 0; at = sites[static_cast<size_t>(at)].parent)
    result.push_back(static_cast<size_t>(at));
  std::reverse(result.begin(), result.end());
  return result;
}

void Verifying::assume_conditions(size_t site, KernelBounds& bounds) const {
  size_t child = site;
  for (int at = sites[site].parent; at >= 0; at = sites[child].parent) {
    const Stmt& stmt = *sites[static_cast<size_t>(at)].stmt;
    if (const auto* loop = std::get_if<For>(&stmt.node)) {
      const bool is_whole = loop->extent == idx_const(axis_extent(loop->axis.axis));
      if (!is_whole) bounds.assume_less(loop->axis.axis, loop->extent);
    } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
      bounds.assume(branch->condition, !sites[child].in_else);
    }
    child = static_cast<size_t>(at);
  }
  if (const auto* comp = std::get_if<Comp>(&sites[site].stmt->node)) {
    for (const Node& guard : comp->guard)
      bounds.assume(guard);
  }
}

bool contains(std::span<const AxisUse> axes, const Node& axis) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](const AxisUse& use) { return use.axis == axis; });
}

std::vector<Node> nodes_of(const Node& expr, Op op) {
  std::vector<Node> result = topological_order(std::span(&expr, 1));
  std::erase_if(result, [&](const Node& node) { return node.op() != op; });
  return result;
}

std::vector<Access> accesses_of(const Stmt& stmt) {
  std::vector<Access> result;
  for_each_expr(stmt, [&](const Node& expr) {
    for (const Node& node : nodes_of(expr, Op::kLoad)) {
      const LoadParts load = load_parts(node);
      result.push_back({load.buffer, {load.index.begin(), load.index.end()}, load.gate, false});
    }
  });
  if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
    if (comp->combine && !comp->start) result.push_back({comp->dst, comp->index, {}, false});
    result.push_back({comp->dst, comp->index, {}, true});
  } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
    result.push_back({combine->src, combine->src_index, {}, false});
    result.push_back({combine->dst, combine->dst_index, {}, true});
  }
  return result;
}

}  // namespace detail

std::vector<Finding> verify_kernel(const Kernel& kernel, KernelStage stage, const Target* target) {
  detail::Verifying v{kernel, stage, target, {}};
  detail::collect(kernel.body, -1, false, 1, v.sites);
  for (const detail::Rule& rule : detail::kRules) {
    v.rule = rule.id;
    rule.verify(v);
    if (rule.others_rely_on_it && !v.findings.empty()) break;
  }
  return std::move(v.findings);
}

std::string to_text(std::span<const Finding> findings) {
  std::string text;
  for (const Finding& finding : findings) {
    append(text, finding.rule,
           finding.severity == Severity::kError ? " error: " : " unproven: ", finding.text, "\n");
  }
  return text;
}

void check_kernel(const Kernel& kernel, KernelStage stage, const Target* target) {
  std::vector<Finding> findings = verify_kernel(kernel, stage, target);
  std::erase_if(findings,
                [](const Finding& finding) { return finding.severity != Severity::kError; });
  if (findings.empty()) return;
  // A kernel whose Nodes are broken cannot be printed.
  const bool is_printable = findings[0].rule != "V10" && findings[0].rule != "V11";
  fail(ErrorCode::kInternal, "kernel '", kernel.name, "' breaks the rules of its level:\n",
       to_text(findings), is_printable ? to_text(kernel) : "");
}

}  // namespace tenon
