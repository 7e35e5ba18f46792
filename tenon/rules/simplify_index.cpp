// The driver of the index rules: which apply to a node, and what holds under the gate of a load.
// SPDX-License-Identifier: MIT

#include "tenon/rules/simplify_index.h"

#include <algorithm>
#include <array>

#include "tenon/base/error.h"
#include "tenon/ir/kernel.h"
#include "tenon/rules/simplify_rules.h"

namespace tenon {
namespace {

// A value that bounds leave no choice about.
Node fold_by_bounds(const Node& node, IndexSimplifier& simplifier) {
  const bool is_condition = node.dtype() == DType::kBool;
  if (is_const(node) || (node.dtype() != DType::kIdx && !is_condition)) return {};
  const IntRange range = simplifier.bounds().bounds(node);
  if (!range.is_value()) return {};
  if (is_condition) return bits_const(DType::kBool, static_cast<uint64_t>(range.min));
  return idx_const(range.min);
}

Node normalise_sum(const Node& node, IndexSimplifier& simplifier) {
  if (node.dtype() != DType::kIdx) return {};
  std::optional<AffineForm> sum = simplifier.affine(node);
  if (!sum) return {};
  simplifier.simplify_sum(*sum);
  const Node result = to_node(*sum);
  return result == node ? Node() : result;
}

// x * y -> y * x: factors that are no constants stand in structural order
Node sort_factors(const Node& node, IndexSimplifier& simplifier) {
  if (node.dtype() != DType::kIdx || !simplifier.order().less(node.src(1), node.src(0))) return {};
  return make_expr(Op::kMul, node.src(1), node.src(0));
}

constexpr IndexRule kSumShapeRules[] = {
    {"sum collected", Op::kAdd, normalise_sum},
    {"difference collected", Op::kSub, normalise_sum},
    {"product distributed", Op::kMul, normalise_sum},
    {"y * x -> x * y", Op::kMul, sort_factors},
};

const std::vector<IndexRule>& all_rules() {
  static const auto* rules = [] {
    auto* table = new std::vector<IndexRule>;  // leaked: needed until the last thread ends
    for (std::span<const IndexRule> part : {std::span<const IndexRule>(kSumShapeRules),
                                            detail::divmod_rules(), detail::condition_rules()}) {
      table->insert(table->end(), part.begin(), part.end());
    }
    return table;
  }();
  return *rules;
}

// Rules by op: most nodes have none or a few.
std::span<const IndexRule> rules_of(Op op) {
  static const auto* by_op = [] {
    auto* table = new std::array<std::vector<IndexRule>, 256>;  // leaked, as above
    for (const IndexRule& rule : all_rules())
      (*table)[static_cast<size_t>(rule.op)].push_back(rule);
    return table;
  }();
  return (*by_op)[static_cast<size_t>(op)];
}

void collect_conjuncts(const Node& root, std::vector<Node>& parts) {
  std::vector<Node> stack{root};
  while (!stack.empty()) {
    const Node node = stack.back();
    stack.pop_back();
    if (node.op() != Op::kAnd) {
      parts.push_back(node);
      continue;
    }
    stack.push_back(node.src(1));
    stack.push_back(node.src(0));
  }
}

// What a conjunct says about one expression: k*x + c < 0 bounds x. False if it says nothing.
bool assume_conjunct(const Node& conjunct, BoundsMemo& bounds, StructuralOrder& order) {
  const std::optional<AffineForm> sum = comparison_difference(conjunct, order);
  if (!sum || sum->terms.size() != 1 || sum->offset == INT64_MAX) return false;
  const auto& [node, k] = sum->terms[0];
  // k > 0: x <= (-c - 1) // k;  k < 0: x >= ceil((c + 1) / -k)
  const int64_t c = sum->offset;
  IntRange range;
  if (k > 0) range.max = floor_div(-(c + 1), k);
  if (k < 0) range.min = -floor_div(-(c + 1), -k);
  bounds.assume(node, range);
  return true;
}

bool has_load(const Node& root) {
  const std::vector<Node> nodes = topological_order({&root, 1});
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node& node) { return node.op() == Op::kLoad; });
}

}  // namespace

std::span<const IndexRule> index_rules() {
  return all_rules();
}

int64_t IndexSimplifier::size(const Node& root) {
  constexpr int64_t kLimit = int64_t{1} << 40;
  if (const auto found = sizes_.find(root); found != sizes_.end()) return found->second;
  std::vector<std::pair<Node, size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < node.srcs().size()) {
      const Node src = node.src(next++);
      if (!sizes_.contains(src)) stack.emplace_back(src, 0);
      continue;
    }
    int64_t total = 1;
    for (const Node& src : node.srcs())
      total = std::min(kLimit, total + sizes_.at(src));
    sizes_.emplace(std::move(node), total);
    stack.pop_back();
  }
  return sizes_.at(root);
}

Node IndexSimplifier::simplify(const Node& node) {
  if (Node value = fold_by_bounds(node, *this)) return value;
  for (const IndexRule& rule : rules_of(node.op())) {
    Node result = rule.apply(node, *this);
    if (!result || size(result) > size(node)) continue;
    if (on_rule != nullptr) on_rule(rule.name);
    if (Node value = fold_by_bounds(result, *this)) return value;
    return result;
  }
  return node;
}

Node IndexSimplifier::make(Op op, std::span<const Node> srcs) {
  return simplify(make_expr(op, srcs));
}

Node IndexSimplifier::make(Op op, const Node& a, const Node& b) {
  return simplify(make_expr(op, a, b));
}

Node IndexSimplifier::make(const AffineForm& sum) {
  AffineForm simplified = sum;
  simplify_sum(simplified);
  return to_node(simplified);
}

std::optional<AffineForm> IndexSimplifier::affine(const Node& node) {
  return to_affine(node, order_);
}

bool IndexSimplifier::simplify_sum(AffineForm& sum) {
  bool changed = false;
  for (bool again = true; again;) {
    again = false;
    for (const SumRule& rule : sum_rules()) {
      if (!rule.apply(sum, *this)) continue;
      if (on_rule != nullptr) on_rule(rule.name);
      again = changed = true;
    }
  }
  return changed;
}

void IndexSimplifier::assume(const Node& condition) {
  std::vector<Node> parts;
  collect_conjuncts(condition, parts);
  for (const Node& part : parts)
    assume_conjunct(part, bounds_, order_);
}

// Where the gate is false the memory is not touched, so the indices may use what the gate says. An
// index that is loaded itself may not: that load is done whatever the gate says.
// NOLINTNEXTLINE(misc-no-recursion): an index under a gate, which looks at no other gate
Node IndexSimplifier::simplify_gated_load(const Node& load) {
  const LoadParts parts = load_parts(load);
  if (is_const(parts.gate)) {
    if (const_bits(parts.gate) == 0) return parts.alt;
    return make_load(parts.buffer, load.dtype(), parts.index);
  }
  // Loads inside the index have had their own gates looked at; once more would double the work per
  // level.
  if (is_under_gate_) return {};
  std::vector<Node> conjuncts;
  collect_conjuncts(parts.gate, conjuncts);
  IndexSimplifier under_gate;
  under_gate.is_under_gate_ = true;
  under_gate.on_rule = on_rule;
  bool has_facts = false;
  for (const Node& conjunct : conjuncts)
    has_facts |= assume_conjunct(conjunct, under_gate.bounds_, under_gate.order_);
  if (!has_facts) return {};
  std::vector<Node> index;
  for (const Node& node : parts.index)
    index.push_back(has_load(node) ? node : under_gate.run(node));
  return make_gated_load(parts.buffer, load.dtype(), index, parts.gate, parts.alt);
}

// NOLINTNEXTLINE(misc-no-recursion): an index under a gate, which looks at no other gate
Node IndexSimplifier::run(const Node& root) {
  // NOLINTNEXTLINE(misc-no-recursion): an index under a gate, which looks at no other gate
  return rewriter_.run(root, [this](const Node& node) -> Node {
    if (node.op() == Op::kLoad && load_parts(node).gated) return simplify_gated_load(node);
    return simplify(node);
  });
}

// NOLINTNEXTLINE(misc-no-recursion): facts have none of their own
Node simplify_index(const Node& node, std::span<const Node> facts) {
  IndexSimplifier simplifier;
  for (const Node& fact : facts)
    simplifier.assume(simplify_index(fact));
  return simplifier.run(node);
}

}  // namespace tenon
