// Interval bounds of idx expressions under conditions, for the verifier: affine forms over atoms
// (axes, scalars, and what is not affine), tightened by conditions that share their coefficients.
// Self-contained on purpose: the verifier does not trust what passes prove with rules/.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tenon/ir/kernel.h"

namespace tenon {

/// low <= value <= high; unbounded sides are at +-kUnbounded.
struct Interval {
  int64_t low;
  int64_t high;
  friend bool operator==(const Interval&, const Interval&) = default;
};
constexpr int64_t kUnbounded = int64_t{1} << 62;

/// constant + sum(coefficient * atom); `terms` is ordered by the atoms' serial numbers.
struct Affine {
  int64_t constant = 0;
  std::vector<std::pair<Node, int64_t>> terms;
  int64_t coefficient(const Node& atom) const;
};

/// The affine form of an idx expression; what is not affine becomes an atom. Nothing if a
/// coefficient leaves 62 bits.
std::optional<Affine> affine_of(const Node& expr);
Affine subtract(const Affine& a, const Affine& b);

/// Bounds of expressions while conditions hold.
class KernelBounds {
 public:
  /// Adds what `condition` (bool, of idx) says when it is `truth`: conjunctions are split, what is
  /// not a comparison of idx says nothing.
  void assume(const Node& condition, bool truth = true);
  /// Adds axis < extent.
  void assume_less(const Node& axis, const Node& extent);

  /// Sound, not always tight. Iterative in the size of the expression.
  Interval bounds(const Node& expr);

  /// Whether the conditions are seen not to hold together; bounds say nothing then.
  bool is_contradictory();

  size_t num_conditions() const { return conditions_.size(); }
  /// Forgets conditions added after there were `count`.
  void truncate(size_t count);

 private:
  void add_condition(const Node& low, const Node& high, int64_t gap);
  Interval atom_bounds(const Node& atom);
  Interval affine_bounds(const Affine& form);
  Interval plain_bounds(const Affine& form);

  std::vector<Affine> conditions_;  // each form <= 0
  std::unordered_map<const void*, Interval> memo_;
  std::vector<Node> kept_;  // keeps the nodes of memo_ alive
};

}  // namespace tenon
