// AffineForm forms of idx expressions, sum(coefficient * term) + offset, and the order of terms
// that makes their canonical text independent of where nodes lie in memory. Used by simplify_index.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/rules/bounds.h"

namespace tenon {

/// A total order of expressions by structure: axes by id, scalars by number, then all else by its
/// first axis and a hash of its structure; constants last. The same in every run.
class StructuralOrder {
 public:
  bool less(const Node& a, const Node& b);

 private:
  struct Key {
    int rank = 0;
    int64_t first = 0;
    uint64_t hash = 0;
  };
  const Key& key(const Node& node);
  Key compute(const Node& node) const;

  std::unordered_map<Node, Key, NodeHash> memo_;
};

struct AffineTerm {
  Node node;  ///< not a sum, a constant or a product with a constant
  int64_t coefficient = 0;
  friend bool operator==(const AffineTerm&, const AffineTerm&) = default;
};

/// Terms are distinct, in structural order, with coefficients that are not 0.
struct AffineForm {
  std::vector<AffineTerm> terms;
  int64_t offset = 0;
  friend bool operator==(const AffineForm&, const AffineForm&) = default;

  bool is_const() const { return terms.empty(); }
};

/// The affine form of an idx expression whose sources are canonical (else shared sums are walked
/// once per use); nothing if a coefficient overflows int64.
std::optional<AffineForm> to_affine(const Node& node, StructuralOrder& order);
/// a + scale * b; nothing on overflow.
std::optional<AffineForm> add_scaled(const AffineForm& a, const AffineForm& b, int64_t scale,
                                     StructuralOrder& order);
/// The canonical expression: equal coefficients factored out, then what is added, then what is
/// subtracted, then the offset.
Node to_node(const AffineForm& affine);

IntRange bounds(const AffineForm& affine, BoundsMemo& memo);

/// Greatest common divisor of the coefficients; 0 without terms.
int64_t coefficient_gcd(const AffineForm& affine);
/// All terms divided by `divisor`, which divides them; the offset is left at 0.
AffineForm divide_terms(const AffineForm& affine, int64_t divisor);
/// Terms with a coefficient divisible by `divisor`, and the others; both with offset 0.
std::pair<AffineForm, AffineForm> split_by_divisibility(const AffineForm& affine, int64_t divisor);

}  // namespace tenon
