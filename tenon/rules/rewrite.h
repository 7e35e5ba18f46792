// The bottom-up rewrite that every table of rules runs under: iterative, memoised, sharing kept.
// Rules see a node whose sources are already rewritten and return its final form.
// SPDX-License-Identifier: MIT

#pragma once

#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/ir/node.h"

namespace tenon {

/// A memoised bottom-up rewrite. The memo holds its nodes, so it may live across many roots (all
/// expressions of a kernel) but not across passes.
class Rewriter {
 public:
  /// `rule(node)` or `rule(node, original)` returns the replacement of a node with rewritten
  /// sources, or null to keep it. It is not applied again to what it returns.
  template <class Rule>
  // NOLINTNEXTLINE(misc-no-recursion): a rule may rewrite what is below with a Rewriter of its own
  Node run(const Node& root, Rule&& rule) {
    stack_.emplace_back(root, 0);
    while (!stack_.empty()) {
      auto& [node, next] = stack_.back();
      if (memo_.contains(node)) {
        stack_.pop_back();
        continue;
      }
      if (next < node.srcs().size()) {
        const Node src = node.src(next++);
        if (!memo_.contains(src)) stack_.emplace_back(src, 0);
        continue;
      }
      const Node original = node;
      stack_.pop_back();
      const Node rebuilt = rebuild(original);
      Node replacement = apply(rule, rebuilt, original);
      if (!replacement) replacement = rebuilt;
      memo_.emplace(original, std::move(replacement));
    }
    return memo_.at(root);
  }

 private:
  template <class Rule>
  // NOLINTNEXTLINE(misc-no-recursion): see run
  static Node apply(Rule& rule, const Node& rebuilt, const Node& original) {
    if constexpr (std::is_invocable_v<Rule&, const Node&, const Node&>) {
      return rule(rebuilt, original);
    } else {
      return rule(rebuilt);
    }
  }

  Node rebuild(const Node& node) const {
    if (node.srcs().empty()) return node;
    std::vector<Node> srcs;
    srcs.reserve(node.srcs().size());
    for (const Node& src : node.srcs())
      srcs.push_back(memo_.at(src));
    return with_srcs(node, srcs);
  }

  std::unordered_map<Node, Node, NodeHash> memo_;
  std::vector<std::pair<Node, size_t>> stack_;
};

}  // namespace tenon
