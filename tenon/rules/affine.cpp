// Extraction, canonical form and arithmetic of affine forms. SPDX-License-Identifier: MIT

#include "tenon/rules/affine.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tenon/base/error.h"
#include "tenon/ir/kernel.h"

namespace tenon {
namespace {

constexpr int kAxisRank = 0;
constexpr int kScalarRank = 1;
constexpr int kExprRank = 2;
constexpr int kConstRank = 3;

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

// Sorts, adds up equal terms, drops zeros; false on overflow.
bool normalise(std::vector<AffineTerm>& terms, StructuralOrder& order) {
  std::sort(terms.begin(), terms.end(),
            [&](const AffineTerm& a, const AffineTerm& b) { return order.less(a.node, b.node); });
  size_t kept = 0;
  for (size_t i = 0; i < terms.size();) {
    AffineTerm sum = terms[i++];
    while (i < terms.size() && terms[i].node == sum.node) {
      if (__builtin_add_overflow(sum.coefficient, terms[i++].coefficient, &sum.coefficient)) {
        return false;
      }
    }
    // INT64_MIN has no magnitude: treated as overflow.
    if (sum.coefficient == INT64_MIN) return false;
    if (sum.coefficient != 0) terms[kept++] = std::move(sum);
  }
  terms.resize(kept);
  return true;
}

int64_t magnitude(int64_t value) {
  return value < 0 ? -value : value;
}

Node scaled(const Node& node, int64_t coefficient) {
  if (coefficient == 1) return node;
  return make_expr(Op::kMul, node, idx_const(coefficient));
}

// An addend of the canonical sum: magnitude * (sum of the nodes added - sum of those subtracted).
struct Group {
  int64_t magnitude;
  std::vector<Node> added;
  std::vector<Node> subtracted;
  bool is_negative() const { return added.empty(); }
};

Node chain(Node sum, Op op, std::span<const Node> nodes) {
  for (const Node& node : nodes)
    sum = sum ? make_expr(op, sum, node) : node;
  return sum;
}

// The group without its sign: for a negative group the sum of what is subtracted.
Node group_node(const Group& group) {
  if (group.is_negative()) return scaled(chain({}, Op::kAdd, group.subtracted), group.magnitude);
  const Node sum = chain(chain({}, Op::kAdd, group.added), Op::kSub, group.subtracted);
  return scaled(sum, group.magnitude);
}

// Terms of magnitude 1 are groups of their own: nothing is gained by brackets.
std::vector<Group> make_groups(const AffineForm& affine) {
  std::vector<Group> groups;
  for (const AffineTerm& term : affine.terms) {
    const int64_t size = magnitude(term.coefficient);
    auto group = size == 1 ? groups.end()
                           : std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
                               return other.magnitude == size;
                             });
    if (group == groups.end()) {
      groups.push_back({size, {}, {}});
      group = groups.end() - 1;
    }
    (term.coefficient > 0 ? group->added : group->subtracted).push_back(term.node);
  }
  return groups;
}

}  // namespace

const StructuralOrder::Key& StructuralOrder::key(const Node& root) {
  if (const auto found = memo_.find(root); found != memo_.end()) return found->second;
  std::vector<std::pair<Node, size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < node.srcs().size()) {
      const Node src = node.src(next++);
      if (!memo_.contains(src)) stack.emplace_back(src, 0);
      continue;
    }
    const Node done = std::move(node);
    stack.pop_back();
    memo_.emplace(done, compute(done));
  }
  return memo_.at(root);
}

StructuralOrder::Key StructuralOrder::compute(const Node& node) const {
  if (node.op() == Op::kAxis)
    return {kAxisRank, axis_id(node), static_cast<uint64_t>(axis_extent(node))};
  if (node.op() == Op::kScalar) return {kScalarRank, node.attr(0), 0};
  uint64_t hash = mix(static_cast<uint64_t>(node.op()), static_cast<uint64_t>(node.dtype()));
  for (int64_t value : node.attr())
    hash = mix(hash, static_cast<uint64_t>(value));
  Key result{node.op() == Op::kConst ? kConstRank : kExprRank, INT64_MAX, 0};
  for (const Node& src : node.srcs()) {
    const Key& key = memo_.at(src);
    const uint64_t leaf = static_cast<uint64_t>(key.rank) << 62 | static_cast<uint64_t>(key.first);
    hash = mix(hash, key.rank == kAxisRank || key.rank == kScalarRank ? leaf : key.hash);
    if (key.rank == kAxisRank || key.rank == kExprRank) {
      result.first = std::min(result.first, key.first);
    }
  }
  if (node.op() == Op::kConst) result.first = node.attr(0);
  result.hash = hash;
  return result;
}

bool StructuralOrder::less(const Node& a, const Node& b) {
  if (a == b) return false;
  const Key key_a = key(a);
  const Key key_b = key(b);
  if (key_a.rank != key_b.rank) return key_a.rank < key_b.rank;
  if (key_a.first != key_b.first) return key_a.first < key_b.first;
  if (key_a.hash != key_b.hash) return key_a.hash < key_b.hash;
  return a.serial() < b.serial();  // a collision of hashes
}

std::optional<AffineForm> to_affine(const Node& node, StructuralOrder& order) {
  AffineForm result;
  std::vector<std::pair<Node, int64_t>> stack{{node, 1}};
  while (!stack.empty()) {
    const auto [next, scale] = stack.back();
    stack.pop_back();
    if (next.op() == Op::kConst) {
      int64_t value = 0;
      if (__builtin_mul_overflow(idx_value(next), scale, &value) ||
          __builtin_add_overflow(result.offset, value, &result.offset)) {
        return std::nullopt;
      }
    } else if (next.op() == Op::kAdd || next.op() == Op::kSub) {
      if (scale == INT64_MIN) return std::nullopt;
      stack.emplace_back(next.src(0), scale);
      stack.emplace_back(next.src(1), next.op() == Op::kSub ? -scale : scale);
    } else if (next.op() == Op::kMul && (is_const(next.src(0)) || is_const(next.src(1)))) {
      const size_t constant = is_const(next.src(1)) ? 1 : 0;
      int64_t product = 0;
      if (__builtin_mul_overflow(scale, idx_value(next.src(constant)), &product)) {
        return std::nullopt;
      }
      if (product != 0) stack.emplace_back(next.src(1 - constant), product);
    } else {
      result.terms.push_back({next, scale});
    }
  }
  if (!normalise(result.terms, order) || result.offset == INT64_MIN) return std::nullopt;
  return result;
}

std::optional<AffineForm> add_scaled(const AffineForm& a, const AffineForm& b, int64_t scale,
                                     StructuralOrder& order) {
  AffineForm result = a;
  for (const AffineTerm& term : b.terms) {
    int64_t coefficient = 0;
    if (__builtin_mul_overflow(term.coefficient, scale, &coefficient)) return std::nullopt;
    result.terms.push_back({term.node, coefficient});
  }
  int64_t offset = 0;
  if (__builtin_mul_overflow(b.offset, scale, &offset) ||
      __builtin_add_overflow(result.offset, offset, &result.offset) ||
      !normalise(result.terms, order) || result.offset == INT64_MIN) {
    return std::nullopt;
  }
  return result;
}

Node to_node(const AffineForm& affine) {
  const std::vector<Group> groups = make_groups(affine);
  std::vector<Node> added;
  std::vector<Node> subtracted;
  for (const Group& group : groups)
    (group.is_negative() ? subtracted : added).push_back(group_node(group));

  int64_t offset = affine.offset;
  Node sum = chain({}, Op::kAdd, added);
  if (!sum && (offset != 0 || groups.empty())) sum = idx_const(std::exchange(offset, 0));
  if (!sum) {
    // Only subtracted groups and no offset: the first carries the sign in its factor.
    Group first = groups[0];
    sum = scaled(chain({}, Op::kAdd, first.subtracted), -first.magnitude);
    subtracted.erase(subtracted.begin());
  }
  sum = chain(sum, Op::kSub, subtracted);
  if (offset > 0) sum = make_expr(Op::kAdd, sum, idx_const(offset));
  if (offset < 0) sum = make_expr(Op::kSub, sum, idx_const(-offset));
  return sum;
}

IntRange bounds(const AffineForm& affine, BoundsMemo& memo) {
  IntRange result{affine.offset, affine.offset};
  for (const AffineTerm& term : affine.terms) {
    const IntRange factor{term.coefficient, term.coefficient};
    result = add(result, mul(memo.bounds(term.node), factor));
  }
  return result;
}

int64_t coefficient_gcd(const AffineForm& affine) {
  int64_t result = 0;
  for (const AffineTerm& term : affine.terms)
    result = std::gcd(result, term.coefficient);
  return result;
}

AffineForm divide_terms(const AffineForm& affine, int64_t divisor) {
  AffineForm result{affine.terms, 0};
  for (AffineTerm& term : result.terms)
    term.coefficient /= divisor;
  return result;
}

std::pair<AffineForm, AffineForm> split_by_divisibility(const AffineForm& affine, int64_t divisor) {
  std::pair<AffineForm, AffineForm> result;
  for (const AffineTerm& term : affine.terms)
    (term.coefficient % divisor == 0 ? result.first : result.second).terms.push_back(term);
  return result;
}

}  // namespace tenon
