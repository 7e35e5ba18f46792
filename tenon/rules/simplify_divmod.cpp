// The rules for floordiv and floormod by constants, and those that put quotient and remainder
// together again. SPDX-License-Identifier: MIT

#include <algorithm>
#include <numeric>

#include "tenon/ir/kernel.h"
#include "tenon/rules/simplify_rules.h"

namespace tenon {
namespace {

// The divisor, if it is a positive constant; else 0. Values of other dtypes than idx wrap and are
// left alone.
int64_t positive_divisor(const Node& node) {
  if (node.dtype() != DType::kIdx) return 0;
  const Node& divisor = node.src(1);
  return is_const(divisor) && idx_value(divisor) > 0 ? idx_value(divisor) : 0;
}

bool is_divmod(const Node& node, Op op) {
  return node.op() == op && positive_divisor(node) > 0;
}

// The one value of floor(x / divisor) for all x of the interval, if there is one.
std::optional<int64_t> single_quotient(IntRange x, int64_t divisor) {
  if (!x.is_bounded()) return std::nullopt;
  const int64_t low = floor_div(x.min, divisor);
  if (low != floor_div(x.max, divisor)) return std::nullopt;
  return low;
}

bool add_checked(int64_t a, int64_t b, int64_t& sum) {
  return !__builtin_add_overflow(a, b, &sum) && sum != INT64_MIN;
}

// x = step * high + low with 0 <= low - step * carry < step for all values of the axes, where step
// divides `divisor`; so x // divisor = (high + carry) // (divisor / step).
struct Factored {
  int64_t step = 0;
  AffineForm high;  // with the carry and the offset
  AffineForm low;   // what is left, minus step * carry
};

std::optional<Factored> factor(const AffineForm& x, int64_t divisor, IndexSimplifier& simplifier) {
  std::vector<int64_t> steps;
  for (const AffineTerm& term : x.terms) {
    const int64_t step = std::gcd(term.coefficient, divisor);
    if (step > 1) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  for (int64_t step : steps) {
    auto [high, low] = split_by_divisibility(x, step);
    low.offset = floor_mod(x.offset, step);
    const std::optional<int64_t> carry = single_quotient(bounds(low, simplifier.bounds()), step);
    if (!carry) continue;
    Factored result{step, divide_terms(high, step), low};
    if (!add_checked(floor_div(x.offset, step), *carry, result.high.offset)) continue;
    if (!add_checked(low.offset, -step * *carry, result.low.offset)) continue;
    return result;
  }
  return std::nullopt;
}

// --- floordiv -----------------------------------------------------------------------------------

Node divide_by_zero(const Node& node, IndexSimplifier&) {
  if (node.dtype() != DType::kIdx || !is_const(node.src(1))) return {};
  return idx_value(node.src(1)) == 0 ? idx_const(0) : Node();
}

Node divide_by_one(const Node& node, IndexSimplifier&) {
  return positive_divisor(node) == 1 ? node.src(0) : Node();
}

// (c*a + b) // c -> a + b//c; all of b's values in one multiple of c: no division is left.
Node pull_multiples(const Node& node, IndexSimplifier& simplifier) {
  const int64_t c = positive_divisor(node);
  if (c == 0) return {};
  const std::optional<AffineForm> x = simplifier.affine(node.src(0));
  if (!x) return {};
  auto [multiples, rest] = split_by_divisibility(*x, c);
  AffineForm quotient = divide_terms(multiples, c);
  rest.offset = floor_mod(x->offset, c);
  const std::optional<int64_t> carry = single_quotient(bounds(rest, simplifier.bounds()), c);
  if (carry) {
    if (!add_checked(floor_div(x->offset, c), *carry, quotient.offset)) return {};
    return simplifier.make(quotient);
  }
  // An offset that is no multiple stays inside: pulled out it would stand twice.
  if (rest.offset == 0) {
    quotient.offset = floor_div(x->offset, c);
  } else {
    rest.offset = x->offset;
  }
  if (quotient == AffineForm{}) return {};
  const Node inner = simplifier.make(Op::kFloorDiv, simplifier.make(rest), idx_const(c));
  return simplifier.make(Op::kAdd, simplifier.make(quotient), inner);
}

// (g*a + b) // (g*c) -> a // c, where 0 <= b < g.
Node cancel_factor(const Node& node, IndexSimplifier& simplifier) {
  const int64_t c = positive_divisor(node);
  if (c == 0) return {};
  const std::optional<AffineForm> x = simplifier.affine(node.src(0));
  if (!x) return {};
  const std::optional<Factored> parts = factor(*x, c, simplifier);
  if (!parts) return {};
  return simplifier.make(Op::kFloorDiv, simplifier.make(parts->high), idx_const(c / parts->step));
}

// (x//d + r) // c -> (x + r*d) // (c*d)
Node merge_divisions(const Node& node, IndexSimplifier& simplifier) {
  const int64_t c = positive_divisor(node);
  if (c == 0) return {};
  const std::optional<AffineForm> x = simplifier.affine(node.src(0));
  if (!x || x->terms.size() != 1 || x->terms[0].coefficient != 1) return {};
  const Node& inner = x->terms[0].node;
  if (!is_divmod(inner, Op::kFloorDiv)) return {};
  const int64_t d = positive_divisor(inner);
  int64_t divisor = 0;
  if (__builtin_mul_overflow(c, d, &divisor)) return {};
  const std::optional<AffineForm> base = simplifier.affine(inner.src(0));
  if (!base) return {};
  const std::optional<AffineForm> shifted =
      add_scaled(*base, AffineForm{{}, x->offset}, d, simplifier.order());
  if (!shifted) return {};
  return simplifier.make(Op::kFloorDiv, simplifier.make(*shifted), idx_const(divisor));
}

// (x % (c*m)) // c -> (x // c) % m
Node divide_remainder(const Node& node, IndexSimplifier& simplifier) {
  const int64_t c = positive_divisor(node);
  const Node& x = node.src(0);
  if (c == 0 || !is_divmod(x, Op::kFloorMod) || positive_divisor(x) % c != 0) return {};
  const Node quotient = simplifier.make(Op::kFloorDiv, x.src(0), node.src(1));
  return simplifier.make(Op::kFloorMod, quotient, idx_const(positive_divisor(x) / c));
}

// where(p, a, b) op c -> where(p, a op c, b op c), for constants a and b
Node enter_where(const Node& node, IndexSimplifier& simplifier) {
  const Node& x = node.src(0);
  if (node.dtype() != DType::kIdx || x.op() != Op::kWhere) return {};
  if (!is_const(node.src(1)) || !is_const(x.src(1)) || !is_const(x.src(2))) return {};
  const std::array<Node, 3> srcs{x.src(0), simplifier.make(node.op(), x.src(1), node.src(1)),
                                 simplifier.make(node.op(), x.src(2), node.src(1))};
  return simplifier.make(Op::kWhere, srcs);
}

// --- floormod -----------------------------------------------------------------------------------

// x % c -> x - m*c, where all x lie in [m*c, (m+1)*c)
Node within_modulus(const Node& node, IndexSimplifier& simplifier) {
  const int64_t c = positive_divisor(node);
  if (c == 0) return {};
  const std::optional<int64_t> quotient =
      single_quotient(simplifier.bounds().bounds(node.src(0)), c);
  if (!quotient) return {};
  const std::optional<AffineForm> x = simplifier.affine(node.src(0));
  if (!x) return {};
  const std::optional<AffineForm> result =
      add_scaled(*x, AffineForm{{}, c}, -*quotient, simplifier.order());
  return result ? simplifier.make(*result) : Node();
}

// (a*c + b) % c -> b % c; (k*(x % m) + b) % c -> (k*x + b) % c, where c divides k*m
Node drop_multiples(const Node& node, IndexSimplifier& simplifier) {
  const int64_t c = positive_divisor(node);
  if (c == 0) return {};
  const std::optional<AffineForm> x = simplifier.affine(node.src(0));
  if (!x) return {};
  std::optional<AffineForm> rest = AffineForm{{}, floor_mod(x->offset, c)};
  for (const AffineTerm& term : x->terms) {
    const int64_t k = term.coefficient % c;
    std::optional<AffineForm> part = AffineForm{{{term.node, 1}}, 0};
    int64_t product = 0;
    if (is_divmod(term.node, Op::kFloorMod) &&
        !__builtin_mul_overflow(k, positive_divisor(term.node), &product) && product % c == 0) {
      part = simplifier.affine(term.node.src(0));
    }
    if (!part) return {};
    rest = add_scaled(*rest, *part, k, simplifier.order());
    if (!rest) return {};
  }
  rest->offset = floor_mod(rest->offset, c);
  if (*rest == *x) return {};
  return simplifier.make(Op::kFloorMod, simplifier.make(*rest), node.src(1));
}

// (g*a + b) % (g*c) -> g*(a % c) + b, where 0 <= b < g
Node factor_modulus(const Node& node, IndexSimplifier& simplifier) {
  const int64_t c = positive_divisor(node);
  if (c == 0) return {};
  const std::optional<AffineForm> x = simplifier.affine(node.src(0));
  if (!x) return {};
  const std::optional<Factored> parts = factor(*x, c, simplifier);
  if (!parts) return {};
  const Node high =
      simplifier.make(Op::kFloorMod, simplifier.make(parts->high), idx_const(c / parts->step));
  const Node scaled = simplifier.make(Op::kMul, high, idx_const(parts->step));
  return simplifier.make(Op::kAdd, scaled, simplifier.make(parts->low));
}

// --- quotient and remainder together ------------------------------------------------------------

bool is_congruent(const AffineForm& a, const AffineForm& b, int64_t modulus,
                  StructuralOrder& order) {
  const std::optional<AffineForm> difference = add_scaled(a, b, -1, order);
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): the modulus is a positive divisor
  if (!difference || difference->offset % modulus != 0) return false;
  return split_by_divisibility(*difference, modulus).second.is_const();
}

// Replaces terms `i` and `j` of the sum (j < 0: only i) by scale * replacement.
bool replace_terms(AffineForm& sum, size_t i, size_t j, const Node& replacement, int64_t scale,
                   IndexSimplifier& simplifier) {
  const std::optional<AffineForm> part = simplifier.affine(replacement);
  if (!part) return false;
  AffineForm rest{{}, sum.offset};
  for (size_t k = 0; k < sum.terms.size(); ++k) {
    if (k != i && k != j) rest.terms.push_back(sum.terms[k]);
  }
  const std::optional<AffineForm> result = add_scaled(rest, *part, scale, simplifier.order());
  if (!result) return false;
  sum = *result;
  return true;
}

// For each pair (term i = k * (y % a), another term j) asks `replacement_of(y, a, k, j)`.
template <class Function>
bool for_each_remainder_pair(AffineForm& sum, IndexSimplifier& simplifier,
                             Function replacement_of) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const auto [remainder, k] = sum.terms[i];
    if (!is_divmod(remainder, Op::kFloorMod)) continue;
    const int64_t a = positive_divisor(remainder);
    int64_t wanted = 0;
    if (__builtin_mul_overflow(k, a, &wanted)) continue;
    const std::optional<AffineForm> y = simplifier.affine(remainder.src(0));
    if (!y) continue;
    for (size_t j = 0; j < sum.terms.size(); ++j) {
      if (j == i || sum.terms[j].coefficient != wanted) continue;
      const Node replacement = replacement_of(*y, a, sum.terms[j].node);
      if (replacement && replace_terms(sum, i, j, replacement, k, simplifier)) return true;
    }
  }
  return false;
}

// a*(x // a) + y % a -> x, where x = y modulo a
bool join_quotient(AffineForm& sum, IndexSimplifier& simplifier) {
  return for_each_remainder_pair(
      sum, simplifier, [&](const AffineForm& y, int64_t a, const Node& other) -> Node {
        if (!is_divmod(other, Op::kFloorDiv) || positive_divisor(other) != a) return {};
        const std::optional<AffineForm> x = simplifier.affine(other.src(0));
        return x && is_congruent(*x, y, a, simplifier.order()) ? other.src(0) : Node();
      });
}

// a*((x // a) % b) + y % a -> x % (a*b), where x = y modulo a
bool join_remainders(AffineForm& sum, IndexSimplifier& simplifier) {
  return for_each_remainder_pair(
      sum, simplifier, [&](const AffineForm& y, int64_t a, const Node& other) -> Node {
        if (!is_divmod(other, Op::kFloorMod)) return {};
        const Node& quotient = other.src(0);
        if (!is_divmod(quotient, Op::kFloorDiv) || positive_divisor(quotient) != a) return {};
        int64_t modulus = 0;
        if (__builtin_mul_overflow(a, positive_divisor(other), &modulus)) return {};
        const std::optional<AffineForm> x = simplifier.affine(quotient.src(0));
        if (!x || !is_congruent(*x, y, a, simplifier.order())) return {};
        return simplifier.make(Op::kFloorMod, quotient.src(0), idx_const(modulus));
      });
}

// Whether the sum holds k times every term of `part`.
bool holds(const AffineForm& sum, const AffineForm& part, int64_t k) {
  if (part.terms.empty()) return false;
  return std::all_of(part.terms.begin(), part.terms.end(), [&](const AffineTerm& term) {
    int64_t coefficient = 0;
    if (__builtin_mul_overflow(term.coefficient, k, &coefficient)) return false;
    return std::find(sum.terms.begin(), sum.terms.end(), AffineTerm{term.node, coefficient}) !=
           sum.terms.end();
  });
}

// Takes k*x and term i out of the sum and adds scale * replacement.
bool replace_difference(AffineForm& sum, size_t i, const AffineForm& x, int64_t k,
                        const Node& replacement, int64_t scale, IndexSimplifier& simplifier) {
  const std::optional<AffineForm> without = add_scaled(sum, x, -k, simplifier.order());
  if (!without) return false;
  const auto found = std::find(without->terms.begin(), without->terms.end(), sum.terms[i]);
  if (found == without->terms.end()) return false;
  AffineForm result = *without;
  const auto index = static_cast<size_t>(found - without->terms.begin());
  if (!replace_terms(result, index, index, replacement, scale, simplifier)) return false;
  if (simplifier.size(to_node(result)) > simplifier.size(to_node(sum))) return false;
  sum = result;
  return true;
}

// x - a*(x // a) -> x % a
bool quotient_to_remainder(AffineForm& sum, IndexSimplifier& simplifier) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const auto [quotient, coefficient] = sum.terms[i];
    if (!is_divmod(quotient, Op::kFloorDiv)) continue;
    const int64_t a = positive_divisor(quotient);
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): is_divmod has seen a positive one
    const int64_t k = -(coefficient / a);
    const std::optional<AffineForm> x = simplifier.affine(quotient.src(0));
    if (coefficient % a != 0 || !x || !holds(sum, *x, k)) continue;
    const Node remainder = simplifier.make(Op::kFloorMod, quotient.src(0), quotient.src(1));
    if (replace_difference(sum, i, *x, k, remainder, k, simplifier)) return true;
  }
  return false;
}

// x - x % a -> a*(x // a)
bool remainder_to_quotient(AffineForm& sum, IndexSimplifier& simplifier) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const auto [remainder, coefficient] = sum.terms[i];
    if (!is_divmod(remainder, Op::kFloorMod)) continue;
    const int64_t k = -coefficient;
    int64_t scale = 0;
    const std::optional<AffineForm> x = simplifier.affine(remainder.src(0));
    if (!x || !holds(sum, *x, k)) continue;
    if (__builtin_mul_overflow(k, positive_divisor(remainder), &scale)) continue;
    const Node quotient = simplifier.make(Op::kFloorDiv, remainder.src(0), remainder.src(1));
    if (replace_difference(sum, i, *x, k, quotient, scale, simplifier)) return true;
  }
  return false;
}

constexpr IndexRule kDivModRules[] = {
    {"x // 0 -> 0", Op::kFloorDiv, divide_by_zero},
    {"x // 1 -> x", Op::kFloorDiv, divide_by_one},
    {"(c*a + b) // c -> a + b//c", Op::kFloorDiv, pull_multiples},
    {"(g*a + b) // (g*c) -> a//c", Op::kFloorDiv, cancel_factor},
    {"(x//d + r) // c -> (x + r*d) // (c*d)", Op::kFloorDiv, merge_divisions},
    {"(x % (c*m)) // c -> (x//c) % m", Op::kFloorDiv, divide_remainder},
    {"where(p,a,b) // c -> where(p, a//c, b//c)", Op::kFloorDiv, enter_where},
    {"x % c -> x - m*c", Op::kFloorMod, within_modulus},
    {"(a*c + b) % c -> b % c", Op::kFloorMod, drop_multiples},
    {"(g*a + b) % (g*c) -> g*(a%c) + b", Op::kFloorMod, factor_modulus},
    {"where(p,a,b) % c -> where(p, a%c, b%c)", Op::kFloorMod, enter_where},
};

constexpr SumRule kSumRules[] = {
    {"a*(x//a) + x%a -> x", join_quotient},
    {"a*((x//a)%b) + x%a -> x%(a*b)", join_remainders},
    {"x - a*(x//a) -> x%a", quotient_to_remainder},
    {"x - x%a -> a*(x//a)", remainder_to_quotient},
};

}  // namespace

std::span<const IndexRule> detail::divmod_rules() {
  return kDivModRules;
}

std::span<const SumRule> sum_rules() {
  return kSumRules;
}

}  // namespace tenon
