// Decompositions: scalar expressions rewritten until only linear-level ops remain that the Target
// does itself. Every op keeps its meaning: the exact class bit for bit, the bounded class within
// bounded_ulp. Before: dtypes that the Target computes with (lower_dtypes has run). After: what
// renderers can say. Runs before unrolling, so that exp is some 30 Nodes once and not once per
// instance. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/node.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/rewrite.h"
#include "tenon/types/target.h"

namespace tenon {

/// Units in the last place that the shared decomposition of a bounded-class op (f32) stays within,
/// on Targets that fuse mulacc and on those that do not. Tests measure it on a million inputs and
/// the hard ones, a disabled one on all 2^32.
double bounded_ulp(Op op);

/// Decomposes all expressions of a kernel for one Target; remembers what it did.
class Decomposer {
 public:
  explicit Decomposer(const Target& target) : target_(&target) {}
  /// Throws kUnsupported with the Reason of supports(target, op, dtype).
  Node run(const Node& root);

 private:
  Node decompose(const Node& node);

  const Target* target_;  // borrowed
  Rewriter rewriter_;
  BoundsMemo bounds_;
};

/// One-off form.
Node decompose_expr(const Node& root, const Target& target);

/// floordiv and floormod in terms of truncating div and mod (0 for a divisor 0), with fewer nodes
/// where `memo` proves signs; for integer dtypes. Also used when indices get a width.
Node decompose_floordiv(const Node& a, const Node& b, BoundsMemo& memo);
Node decompose_floormod(const Node& a, const Node& b, BoundsMemo& memo);

}  // namespace tenon
