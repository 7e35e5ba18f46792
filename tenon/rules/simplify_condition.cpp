// The rules for comparisons of idx, min, max, where, and the logic of conditions.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>

#include "tenon/base/error.h"
#include "tenon/ir/kernel.h"
#include "tenon/rules/fold.h"
#include "tenon/rules/simplify_rules.h"

namespace tenon {
namespace {

// A chain of conditions longer than this is sorted, but not searched for implications (quadratic).
constexpr size_t kMaxConjuncts = 64;

bool is_idx_compare(const Node& node) {
  return op_info(node.op()).rule == DTypeRule::kCompare && node.src(0).dtype() == DType::kIdx;
}

std::optional<AffineForm> difference_of(const Node& node, IndexSimplifier& simplifier) {
  const std::optional<AffineForm> a = simplifier.affine(node.src(0));
  const std::optional<AffineForm> b = simplifier.affine(node.src(1));
  if (!a || !b) return std::nullopt;
  std::optional<AffineForm> difference = add_scaled(*a, *b, -1, simplifier.order());
  if (difference) simplifier.simplify_sum(*difference);
  return difference;
}

std::pair<AffineForm, AffineForm> split_by_sign(const AffineForm& sum) {
  std::pair<AffineForm, AffineForm> result;
  for (const AffineTerm& term : sum.terms) {
    if (term.coefficient > 0) result.first.terms.push_back(term);
    if (term.coefficient < 0) result.second.terms.push_back({term.node, -term.coefficient});
  }
  return result;
}

// --- sum < 0 ------------------------------------------------------------------------------------

// One step towards a smaller `sum < 0`: common factors out, parts that cannot matter dropped.
bool reduce_less(AffineForm& sum, IndexSimplifier& simplifier) {
  const int64_t gcd = coefficient_gcd(sum);
  if (gcd > 1) {
    const int64_t offset = floor_div(sum.offset, gcd);
    sum = divide_terms(sum, gcd);
    sum.offset = offset;
    return true;
  }
  // g*a + b < 0 -> a + m < 0, where floor(b / g) = m for all b.
  for (const AffineTerm& term : sum.terms) {
    const int64_t step = std::abs(term.coefficient);
    if (step == 1) continue;
    auto [high, low] = split_by_divisibility(sum, step);
    low.offset = sum.offset;
    const IntRange range = bounds(low, simplifier.bounds());
    if (!range.is_bounded() || floor_div(range.min, step) != floor_div(range.max, step)) continue;
    sum = divide_terms(high, step);
    sum.offset = floor_div(range.min, step);
    return true;
  }
  return false;
}

// x//c + t < 0 -> x + c*t < 0;  t - x//c < 0 -> c*t - x + c - 1 < 0, for at most one other term.
bool undo_division(AffineForm& sum, IndexSimplifier& simplifier) {
  if (sum.terms.size() > 2) return false;
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const auto [node, sign] = sum.terms[i];
    const bool is_quotient = node.op() == Op::kFloorDiv && is_const(node.src(1)) &&
                             idx_value(node.src(1)) > 0 && (sign == 1 || sign == -1);
    if (!is_quotient) continue;
    const int64_t c = idx_value(node.src(1));
    AffineForm others{sum.terms, sum.offset};
    others.terms.erase(others.terms.begin() + static_cast<std::ptrdiff_t>(i));
    const std::optional<AffineForm> x = simplifier.affine(node.src(0));
    std::optional<AffineForm> result =
        add_scaled(AffineForm{{}, sign < 0 ? c - 1 : 0}, others, c, simplifier.order());
    if (result && x) result = add_scaled(*result, *x, sign, simplifier.order());
    if (!result || !x) continue;
    sum = *result;
    return true;
  }
  return false;
}

Node less_node(const AffineForm& sum) {
  auto [left, right] = split_by_sign(sum);
  if (right.terms.empty()) {
    return make_expr(Op::kLt, to_node(left), idx_const(-sum.offset));
  }
  if (left.terms.empty()) {
    return make_expr(Op::kLt, idx_const(sum.offset), to_node(right));
  }
  if (sum.offset == -1) return make_expr(Op::kLe, to_node(left), to_node(right));
  (sum.offset < 0 ? right : left).offset = std::abs(sum.offset);
  return make_expr(Op::kLt, to_node(left), to_node(right));
}

// sum < 0 in canonical form
Node make_less(AffineForm sum, IndexSimplifier& simplifier) {
  simplifier.simplify_sum(sum);
  do {
    const IntRange range = bounds(sum, simplifier.bounds());
    if (range.has_max() && range.max < 0) return bool_const(true);
    if (range.has_min() && range.min >= 0) return bool_const(false);
  } while (reduce_less(sum, simplifier) || undo_division(sum, simplifier));
  return less_node(sum);
}

Node normalise_less(const Node& node, IndexSimplifier& simplifier) {
  if (!is_idx_compare(node)) return {};
  std::optional<AffineForm> sum = difference_of(node, simplifier);
  if (!sum) return {};
  if (node.op() == Op::kLe) {
    if (__builtin_sub_overflow(sum->offset, 1, &sum->offset) || sum->offset == INT64_MIN) return {};
  }
  const Node result = make_less(*sum, simplifier);
  return result == node ? Node() : result;
}

// not (a < b) -> b <= a, in canonical form
Node negate_less(const Node& node, IndexSimplifier& simplifier) {
  const Node& inner = node.src(0);
  if ((inner.op() != Op::kLt && inner.op() != Op::kLe) || !is_idx_compare(inner)) return {};
  return simplifier.make(inner.op() == Op::kLt ? Op::kLe : Op::kLt, inner.src(1), inner.src(0));
}

// --- equality -----------------------------------------------------------------------------------

Node equal_node(Op op, const AffineForm& sum) {
  auto [left, right] = split_by_sign(sum);
  int64_t offset = sum.offset;
  if (left.terms.empty() || sum.terms[0].coefficient < 0) {
    std::swap(left, right);
    offset = -offset;
  }
  if (right.terms.empty() || offset < 0) {
    right.offset = -offset;
  } else {
    left.offset = offset;
  }
  return make_expr(op, to_node(left), to_node(right));
}

Node normalise_equal(const Node& node, IndexSimplifier& simplifier) {
  if (!is_idx_compare(node)) return {};
  std::optional<AffineForm> sum = difference_of(node, simplifier);
  if (!sum) return {};
  const bool if_different = node.op() == Op::kNe;
  const IntRange range = bounds(*sum, simplifier.bounds());
  if (!range.contains(0)) return bool_const(if_different);
  if (sum->is_const()) return bool_const(!if_different);
  const int64_t gcd = coefficient_gcd(*sum);
  if (sum->offset % gcd != 0) return bool_const(if_different);
  const int64_t offset = sum->offset / gcd;
  *sum = divide_terms(*sum, gcd);
  sum->offset = offset;
  const Node result = equal_node(node.op(), *sum);
  return result == node ? Node() : result;
}

Node negate_equal(const Node& node, IndexSimplifier& simplifier) {
  const Node& inner = node.src(0);
  if ((inner.op() != Op::kEq && inner.op() != Op::kNe) || !is_idx_compare(inner)) return {};
  return simplifier.make(inner.op() == Op::kEq ? Op::kNe : Op::kEq, inner.src(0), inner.src(1));
}

Node drop_double_not(const Node& node, IndexSimplifier&) {
  return node.src(0).op() == Op::kNot ? node.src(0).src(0) : Node();
}

// --- and, or ------------------------------------------------------------------------------------

void collect(Op op, const Node& root, std::vector<Node>& parts) {
  std::vector<Node> stack{root};
  while (!stack.empty()) {
    const Node node = stack.back();
    stack.pop_back();
    if (node.op() != op) {
      parts.push_back(node);
      continue;
    }
    stack.push_back(node.src(1));
    stack.push_back(node.src(0));
  }
}

bool chain_holds(Op op, const Node& chain, const Node& part) {
  if (chain.op() != op) return false;
  std::vector<Node> parts;
  collect(op, chain, parts);
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

enum class Implied { kNothing, kFirst, kSecond, kAbsorbed };

// What two different conditions say about each other under `op`: which one is enough, or that they
// contradict (and: false) or cover everything (or: true).
Implied compare_conditions(Op op, const Node& first, const Node& second,
                           IndexSimplifier& simplifier) {
  const auto is_not_of = [](const Node& a, const Node& b) {
    return a.op() == Op::kNot && a.src(0) == b;
  };
  if (is_not_of(first, second) || is_not_of(second, first)) return Implied::kAbsorbed;
  // p and (p or q) -> p;  p or (p and q) -> p
  const Op other = op == Op::kAnd ? Op::kOr : Op::kAnd;
  if (chain_holds(other, second, first)) return Implied::kFirst;
  if (chain_holds(other, first, second)) return Implied::kSecond;
  const std::optional<AffineForm> a = comparison_difference(first, simplifier.order());
  const std::optional<AffineForm> b = comparison_difference(second, simplifier.order());
  if (!a || !b) return Implied::kNothing;
  if (a->terms == b->terms) {
    const bool first_is_tighter = a->offset >= b->offset;
    return first_is_tighter == (op == Op::kAnd) ? Implied::kFirst : Implied::kSecond;
  }
  const std::optional<AffineForm> both = add_scaled(*a, *b, 1, simplifier.order());
  if (!both || !both->is_const()) return Implied::kNothing;
  // s + p < 0 and -s + q < 0: q < s < -p. Empty if p + q >= -1; either always holds if p + q < 0.
  const bool absorbed = op == Op::kAnd ? both->offset >= -1 : both->offset < 0;
  return absorbed ? Implied::kAbsorbed : Implied::kNothing;
}

// Drops conditions that others imply; false if all is decided.
bool drop_implied(Op op, std::vector<Node>& parts, IndexSimplifier& simplifier) {
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t j = i + 1; j < parts.size();) {
      const Implied implied = compare_conditions(op, parts[i], parts[j], simplifier);
      if (implied == Implied::kAbsorbed) return false;
      if (implied == Implied::kSecond) std::swap(parts[i], parts[j]);
      if (implied == Implied::kNothing) {
        ++j;
      } else {
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(j));
        if (implied == Implied::kSecond) j = i + 1;
      }
    }
  }
  return true;
}

// Sorted, each once, without what is implied.
Node normalise_logic(const Node& node, IndexSimplifier& simplifier) {
  if (node.dtype() != DType::kBool) return {};
  const Op op = node.op();
  const bool absorbing = op == Op::kOr;
  std::vector<Node> parts;
  collect(op, node, parts);
  std::erase_if(parts, absorbing ? is_false : is_true);
  if (std::any_of(parts.begin(), parts.end(), absorbing ? is_true : is_false)) {
    return bool_const(absorbing);
  }
  StructuralOrder& order = simplifier.order();
  const auto less = [&](const Node& a, const Node& b) { return order.less(a, b); };
  std::sort(parts.begin(), parts.end(), less);
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (parts.size() <= kMaxConjuncts && !drop_implied(op, parts, simplifier)) {
    return bool_const(absorbing);
  }
  if (parts.empty()) return bool_const(!absorbing);
  std::sort(parts.begin(), parts.end(), less);
  Node result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i)
    result = make_expr(op, result, parts[i]);
  return result == node ? Node() : result;
}

// --- min, max -----------------------------------------------------------------------------------

// min(a, b) -> a, where a - b <= 0 by bounds; max likewise
Node decide_extremum(const Node& node, IndexSimplifier& simplifier) {
  if (node.dtype() != DType::kIdx) return {};
  const std::optional<AffineForm> difference = difference_of(node, simplifier);
  if (!difference) return {};
  const IntRange range = bounds(*difference, simplifier.bounds());
  const bool is_min = node.op() == Op::kMin;
  if (range.has_max() && range.max <= 0) return node.src(is_min ? 0 : 1);
  if (range.has_min() && range.min >= 0) return node.src(is_min ? 1 : 0);
  return {};
}

// min(min(x, c), d) -> min(x, min(c, d));  min(min(x, y), y) -> min(x, y)
Node merge_extrema(const Node& node, IndexSimplifier& simplifier) {
  if (node.dtype() != DType::kIdx) return {};
  for (size_t i = 0; i < 2; ++i) {
    const Node& inner = node.src(i);
    const Node& outer = node.src(1 - i);
    if (inner.op() != node.op()) continue;
    if (inner.src(0) == outer || inner.src(1) == outer) return inner;
    if (!is_const(inner.src(1)) || !is_const(outer)) continue;
    const bool is_min = node.op() == Op::kMin;
    const int64_t c = idx_value(inner.src(1));
    const int64_t d = idx_value(outer);
    const int64_t both = is_min ? std::min(c, d) : std::max(c, d);
    return simplifier.make(node.op(), inner.src(0), idx_const(both));
  }
  return {};
}

Node sort_operands(const Node& node, IndexSimplifier& simplifier) {
  if (node.dtype() != DType::kIdx || !simplifier.order().less(node.src(1), node.src(0))) return {};
  return make_expr(node.op(), node.src(1), node.src(0));
}

// --- where, cast --------------------------------------------------------------------------------

bool is_condition_where(const Node& node) {
  return node.dtype() == DType::kIdx || node.dtype() == DType::kBool;
}

Node decide_where(const Node& node, IndexSimplifier&) {
  if (node.src(1) == node.src(2)) return node.src(1);
  if (!is_const(node.src(0))) return {};
  return is_true(node.src(0)) ? node.src(1) : node.src(2);
}

Node where_of_not(const Node& node, IndexSimplifier& simplifier) {
  if (node.src(0).op() != Op::kNot || !is_condition_where(node)) return {};
  const std::array<Node, 3> srcs{node.src(0).src(0), node.src(2), node.src(1)};
  return simplifier.make(Op::kWhere, srcs);
}

// where(p, where(p, a, b), c) -> where(p, a, c);  where(p, a, where(p, b, c)) -> where(p, a, c)
Node where_of_same(const Node& node, IndexSimplifier& simplifier) {
  if (!is_condition_where(node)) return {};
  for (size_t i = 1; i < 3; ++i) {
    const Node& inner = node.src(i);
    if (inner.op() != Op::kWhere || !(inner.src(0) == node.src(0))) continue;
    std::array<Node, 3> srcs{node.src(0), node.src(1), node.src(2)};
    srcs[i] = inner.src(i);
    return simplifier.make(Op::kWhere, srcs);
  }
  return {};
}

// where(p, true, q) -> p or q;  where(p, q, false) -> p and q;  where(p, false, true) -> not p
Node where_to_logic(const Node& node, IndexSimplifier& simplifier) {
  if (node.dtype() != DType::kBool) return {};
  if (is_true(node.src(1))) return simplifier.make(Op::kOr, node.src(0), node.src(2));
  if (is_false(node.src(2))) return simplifier.make(Op::kAnd, node.src(0), node.src(1));
  if (is_false(node.src(1)) && is_true(node.src(2))) {
    return simplifier.make(Op::kNot, std::span(&node.src(0), 1));
  }
  return {};
}

// where(a < b, a, b) -> min(a, b);  where(a < b, b, a) -> max(a, b);  the same with <=
Node where_to_extremum(const Node& node, IndexSimplifier& simplifier) {
  const Node& condition = node.src(0);
  if (node.dtype() != DType::kIdx) return {};
  if (condition.op() != Op::kLt && condition.op() != Op::kLe) return {};
  if (condition.src(0) == node.src(1) && condition.src(1) == node.src(2)) {
    return simplifier.make(Op::kMin, node.src(1), node.src(2));
  }
  if (condition.src(1) == node.src(1) && condition.src(0) == node.src(2)) {
    return simplifier.make(Op::kMax, node.src(1), node.src(2));
  }
  return {};
}

// idx -> integer -> idx is the position itself where the integer holds it
Node drop_round_trip(const Node& node, IndexSimplifier& simplifier) {
  const Node& inner = node.src(0);
  if (node.dtype() != DType::kIdx) return {};
  if (inner.dtype() == DType::kIdx) return inner;
  if (inner.op() != Op::kCast || inner.src(0).dtype() != DType::kIdx) return {};
  const IntRange range = simplifier.bounds().bounds(inner.src(0));
  const IntRange whole = dtype_range(inner.dtype());
  const bool fits = inner.dtype() != DType::kBool && range.is_bounded() && range.min >= whole.min &&
                    range.max <= whole.max;
  return fits ? inner.src(0) : Node();
}

constexpr IndexRule kConditionRules[] = {
    {"sum < 0 in lowest terms", Op::kLt, normalise_less},
    {"sum <= 0 -> sum - 1 < 0", Op::kLe, normalise_less},
    {"sum == 0 in lowest terms", Op::kEq, normalise_equal},
    {"sum != 0 in lowest terms", Op::kNe, normalise_equal},
    {"not (a < b) -> b <= a", Op::kNot, negate_less},
    {"not (a == b) -> a != b", Op::kNot, negate_equal},
    {"not not p -> p", Op::kNot, drop_double_not},
    {"and: sorted, nothing implied", Op::kAnd, normalise_logic},
    {"or: sorted, nothing implied", Op::kOr, normalise_logic},
    {"min(a, b) -> a by bounds", Op::kMin, decide_extremum},
    {"max(a, b) -> a by bounds", Op::kMax, decide_extremum},
    {"min(min(x, c), d) -> min(x, min(c, d))", Op::kMin, merge_extrema},
    {"max(max(x, c), d) -> max(x, max(c, d))", Op::kMax, merge_extrema},
    {"min(b, a) -> min(a, b)", Op::kMin, sort_operands},
    {"max(b, a) -> max(a, b)", Op::kMax, sort_operands},
    {"where(const, a, b), where(p, a, a)", Op::kWhere, decide_where},
    {"where(not p, a, b) -> where(p, b, a)", Op::kWhere, where_of_not},
    {"where(p, where(p, a, b), c) -> where(p, a, c)", Op::kWhere, where_of_same},
    {"where of bools -> and, or, not", Op::kWhere, where_to_logic},
    {"where(a < b, a, b) -> min(a, b)", Op::kWhere, where_to_extremum},
    {"cast(cast(x)) -> x for positions", Op::kCast, drop_round_trip},
};

}  // namespace

std::span<const IndexRule> detail::condition_rules() {
  return kConditionRules;
}

std::optional<AffineForm> comparison_difference(const Node& comparison, StructuralOrder& order) {
  const bool is_less = comparison.op() == Op::kLt || comparison.op() == Op::kLe;
  if (!is_less || comparison.src(0).dtype() != DType::kIdx) return std::nullopt;
  const std::optional<AffineForm> a = to_affine(comparison.src(0), order);
  const std::optional<AffineForm> b = to_affine(comparison.src(1), order);
  if (!a || !b) return std::nullopt;
  std::optional<AffineForm> difference = add_scaled(*a, *b, -1, order);
  if (!difference || comparison.op() == Op::kLt) return difference;
  if (__builtin_sub_overflow(difference->offset, 1, &difference->offset)) return std::nullopt;
  return difference;
}

}  // namespace tenon
