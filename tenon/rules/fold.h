// Folding of value expressions: constants computed by the op table, and the algebra that changes no
// bit. Floats keep all that the law keeps (no x*0, x/x, x-x, x+0); integers wrap. Called by
// schedule/ on fused expressions and by codegen/ after each pass that makes new ones. idx: see
// simplify_index. SPDX-License-Identifier: MIT

#pragma once

#include <span>
#include <string_view>

#include "tenon/ir/node.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/rewrite.h"

namespace tenon {

/// One rule: the folded form of a node whose sources are folded, or null.
struct FoldRule {
  std::string_view name;
  Node (*apply)(const Node& node, BoundsMemo& memo);
};

/// All rules, in the order in which they are tried.
std::span<const FoldRule> fold_rules();

/// Folds all expressions of a kernel; remembers what it did. Iterative; every rule gives fewer or
/// as many nodes, and nothing that a rule applies to is left.
class Folder {
 public:
  Node run(const Node& root);

  /// Called with the name of every rule that fires (tests count them); null: not called.
  void (*on_rule)(std::string_view name) = nullptr;

 private:
  Node fold(const Node& node);

  Rewriter rewriter_;
  BoundsMemo bounds_;
};

/// One-off form.
Node fold_expr(const Node& root);

/// Constants of dtype bool.
Node bool_const(bool value);
bool is_true(const Node& node);
bool is_false(const Node& node);

}  // namespace tenon
