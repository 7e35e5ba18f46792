// Index expressions and conditions on them, made canonical and small: sums sorted and collected,
// divisions, remainders and comparisons resolved by divisibility and bounds. Equal positions
// written in different ways become one Node, and a view that has a direct index keeps no div or
// mod. Called by schedule/ after movement has become indices, and by every codegen pass that makes
// new ones. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "tenon/ir/node.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/rewrite.h"

namespace tenon {

class IndexSimplifier;

/// One rule: for a node of `op` with canonical sources, the canonical replacement, or null. The
/// driver takes it if it is no larger.
struct IndexRule {
  std::string_view name;
  Op op;
  Node (*apply)(const Node& node, IndexSimplifier& simplifier);
};

/// A rule on sums: changes the form in place and says so.
struct SumRule {
  std::string_view name;
  bool (*apply)(AffineForm& sum, IndexSimplifier& simplifier);
};

std::span<const IndexRule> index_rules();
std::span<const SumRule> sum_rules();

/// Rewrites all idx expressions and conditions on them inside an expression of any dtype (indices
/// and gates of loads too); the values computed from loads are left alone. Idempotent; the result
/// is an expression with the same values, and no more nodes as a tree. Keep one for all expressions
/// of a kernel: it remembers what it did.
class IndexSimplifier {
 public:
  Node run(const Node& root);
  /// A fact, itself simplified, that holds wherever this simplifier is used. Call it before run().
  void assume(const Node& condition);

  // For the rules: an expression of canonical sources, in canonical form.
  Node make(Op op, std::span<const Node> srcs);
  Node make(Op op, const Node& a, const Node& b);
  Node make(const AffineForm& sum);
  std::optional<AffineForm> affine(const Node& node);
  bool simplify_sum(AffineForm& sum);
  /// Nodes of the expression written out as a tree; saturates.
  int64_t size(const Node& node);
  StructuralOrder& order() { return order_; }
  BoundsMemo& bounds() { return bounds_; }

  /// Called with the name of every rule that fires (tests count them); null: not called.
  void (*on_rule)(std::string_view name) = nullptr;

 private:
  Node simplify(const Node& node);
  Node simplify_gated_load(const Node& load);

  bool is_under_gate_ = false;
  Rewriter rewriter_;
  BoundsMemo bounds_;
  StructuralOrder order_;
  std::unordered_map<Node, int64_t, NodeHash> sizes_;
};

/// One-off form; `facts` are conditions that hold where the expression is used (an outer guard).
Node simplify_index(const Node& node, std::span<const Node> facts = {});

/// The difference a - b < 0 (or = 0) of a comparison as an affine form; used to compare guards.
std::optional<AffineForm> comparison_difference(const Node& comparison, StructuralOrder& order);

}  // namespace tenon
