// Interval bounds by affine forms. SPDX-License-Identifier: MIT

#include "tenon/ir/kernel_bounds.h"

#include <algorithm>

#include "tenon/base/error.h"

namespace tenon {

namespace {

int64_t clamp_wide(__int128 value) {
  if (value > kUnbounded) return kUnbounded;
  if (value < -kUnbounded) return -kUnbounded;
  return static_cast<int64_t>(value);
}

bool is_unbounded(int64_t value) {
  return value >= kUnbounded || value <= -kUnbounded;
}

int64_t add_bounds(int64_t a, int64_t b) {
  if (is_unbounded(a)) return a;
  if (is_unbounded(b)) return b;
  return clamp_wide(static_cast<__int128>(a) + b);
}

int64_t multiply_bounds(int64_t a, int64_t b) {
  return clamp_wide(static_cast<__int128>(a) * b);
}

Interval scale(Interval value, int64_t factor) {
  const int64_t a = multiply_bounds(value.low, factor);
  const int64_t b = multiply_bounds(value.high, factor);
  return {std::min(a, b), std::max(a, b)};
}

Interval product(Interval a, Interval b) {
  const Interval low = scale(a, b.low);
  const Interval high = scale(a, b.high);
  return {std::min(low.low, high.low), std::max(low.high, high.high)};
}

int64_t floor_divide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Interval intersect(Interval a, Interval b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

bool add_term(Affine& form, const Node& atom, int64_t coefficient) {
  const auto at = std::lower_bound(
      form.terms.begin(), form.terms.end(), atom,
      [](const auto& term, const Node& node) { return term.first.serial() < node.serial(); });
  if (at != form.terms.end() && at->first == atom) {
    const __int128 sum = static_cast<__int128>(at->second) + coefficient;
    if (sum > kUnbounded || sum < -kUnbounded) return false;
    at->second = static_cast<int64_t>(sum);
    if (sum == 0) form.terms.erase(at);
    return true;
  }
  if (coefficient != 0) form.terms.insert(at, {atom, coefficient});
  return true;
}

// form += factor * other; false if a number leaves 62 bits.
bool add_scaled(Affine& form, const Affine& other, int64_t factor) {
  const __int128 constant = static_cast<__int128>(other.constant) * factor + form.constant;
  if (constant > kUnbounded || constant < -kUnbounded) return false;
  form.constant = static_cast<int64_t>(constant);
  for (const auto& [atom, coefficient] : other.terms) {
    const __int128 scaled = static_cast<__int128>(coefficient) * factor;
    if (scaled > kUnbounded || scaled < -kUnbounded) return false;
    if (!add_term(form, atom, static_cast<int64_t>(scaled))) return false;
  }
  return true;
}

constexpr size_t kMaxTerms = 64;

}  // namespace

int64_t Affine::coefficient(const Node& atom) const {
  for (const auto& [node, value] : terms) {
    if (node == atom) return value;
  }
  return 0;
}

std::optional<Affine> affine_of(const Node& expr) {
  std::unordered_map<const void*, Affine> forms;
  // Only what is reached through add, sub and mul by a constant; the rest are atoms.
  std::vector<std::pair<Node, bool>> stack{{expr, false}};
  while (!stack.empty()) {
    auto [node, is_ready] = stack.back();
    stack.pop_back();
    if (forms.contains(node.id())) continue;
    const bool is_sum = node.op() == Op::kAdd || node.op() == Op::kSub;
    const bool is_scaled =
        node.op() == Op::kMul && (is_const(node.src(0)) || is_const(node.src(1)));
    if (node.dtype() == DType::kIdx && (is_sum || is_scaled)) {
      if (!is_ready) {
        stack.emplace_back(node, true);
        stack.emplace_back(node.src(0), false);
        stack.emplace_back(node.src(1), false);
        continue;
      }
      Affine form;
      bool fits = true;
      if (is_sum) {
        form = forms.at(node.src(0).id());
        fits = add_scaled(form, forms.at(node.src(1).id()), node.op() == Op::kAdd ? 1 : -1);
      } else {
        const size_t constant = is_const(node.src(1)) ? 1 : 0;
        fits =
            add_scaled(form, forms.at(node.src(1 - constant).id()), idx_value(node.src(constant)));
      }
      if (!fits) return std::nullopt;
      if (form.terms.size() > kMaxTerms) form = {0, {{node, 1}}};
      forms.emplace(node.id(), std::move(form));
      continue;
    }
    Affine form;
    if (is_const(node) && node.dtype() == DType::kIdx) {
      form.constant = idx_value(node);
      if (is_unbounded(form.constant)) return std::nullopt;
    } else {
      form.terms.emplace_back(node, 1);
    }
    forms.emplace(node.id(), std::move(form));
  }
  return forms.at(expr.id());
}

Affine subtract(const Affine& a, const Affine& b) {
  Affine result = a;
  if (!add_scaled(result, b, -1)) return {.constant = kUnbounded, .terms = {}};
  return result;
}

void KernelBounds::add_condition(const Node& low, const Node& high, int64_t gap) {
  // low + gap <= high
  if (low.dtype() != DType::kIdx) return;
  std::vector<std::pair<Node, Node>> todo{{low, high}};
  while (!todo.empty()) {
    const auto [a, b] = std::move(todo.back());
    todo.pop_back();
    if (b.op() == Op::kMin) {  // below a minimum is below both
      todo.emplace_back(a, b.src(1));
      todo.emplace_back(a, b.src(0));
    } else if (a.op() == Op::kMax) {
      todo.emplace_back(a.src(1), b);
      todo.emplace_back(a.src(0), b);
    } else {
      std::optional<Affine> form = affine_of(a);
      const std::optional<Affine> other = affine_of(b);
      if (!form || !other || !add_scaled(*form, *other, -1)) continue;
      form->constant = add_bounds(form->constant, gap);
      conditions_.push_back(std::move(*form));
      memo_.clear();
    }
  }
}

void KernelBounds::assume_less(const Node& axis, const Node& extent) {
  add_condition(axis, extent, 1);
}

void KernelBounds::assume(const Node& condition, bool truth) {
  std::vector<std::pair<Node, bool>> stack{{condition, truth}};
  while (!stack.empty()) {
    const auto [node, holds] = stack.back();
    stack.pop_back();
    const Op op = node.op();
    if (op == Op::kNot) {
      stack.emplace_back(node.src(0), !holds);
    } else if ((op == Op::kAnd && holds) || (op == Op::kOr && !holds)) {
      stack.emplace_back(node.src(0), holds);
      stack.emplace_back(node.src(1), holds);
    } else if (op == Op::kLt) {
      holds ? add_condition(node.src(0), node.src(1), 1)
            : add_condition(node.src(1), node.src(0), 0);
    } else if (op == Op::kLe) {
      holds ? add_condition(node.src(0), node.src(1), 0)
            : add_condition(node.src(1), node.src(0), 1);
    } else if ((op == Op::kEq && holds) || (op == Op::kNe && !holds)) {
      add_condition(node.src(0), node.src(1), 0);
      add_condition(node.src(1), node.src(0), 0);
    }
  }
}

void KernelBounds::truncate(size_t count) {
  if (count == conditions_.size()) return;
  conditions_.resize(count);
  memo_.clear();
}

Interval KernelBounds::plain_bounds(const Affine& form) {
  Interval result{form.constant, form.constant};
  for (const auto& [atom, coefficient] : form.terms) {
    const Interval part = scale(memo_.at(atom.id()), coefficient);
    result.low = add_bounds(result.low, part.low);
    result.high = add_bounds(result.high, part.high);
  }
  return result;
}

// With c <= 0 and m >= 1: form = (form - m c) + m c <= max(form - m c), and form + m c bounds from
// below. m is chosen so that a common atom cancels.
Interval KernelBounds::affine_bounds(const Affine& form) {
  Interval result = plain_bounds(form);
  for (const Affine& condition : conditions_) {
    const bool is_known =
        std::all_of(condition.terms.begin(), condition.terms.end(),
                    [&](const auto& term) { return memo_.contains(term.first.id()); });
    if (!is_known) continue;
    for (const auto& [atom, coefficient] : condition.terms) {
      const int64_t wanted = form.coefficient(atom);
      if (wanted == 0 || wanted % coefficient != 0) continue;
      const int64_t times = wanted / coefficient;
      Affine rest = form;
      if (!add_scaled(rest, condition, -times)) continue;
      const Interval bounds = plain_bounds(rest);
      if (times > 0) result.high = std::min(result.high, bounds.high);
      if (times < 0) result.low = std::max(result.low, bounds.low);
    }
  }
  return result;
}

namespace {

// What a value of an integer dtype can be at all.
Interval dtype_bounds(DType dtype) {
  if (!is_int(dtype) || dtype == DType::kU64) return {-kUnbounded, kUnbounded};
  return {clamp_wide(static_cast<int64_t>(int_min_bits(dtype))),
          clamp_wide(static_cast<int64_t>(int_max_bits(dtype)))};
}

bool is_inside(Interval a, Interval b) {
  return a.low >= b.low && a.high <= b.high;
}

Interval divide_bounds(Op op, Interval value, int64_t divisor) {
  const auto divide = [&](int64_t bound) {
    return is_unbounded(bound) ? bound : floor_divide(bound, divisor);
  };
  const Interval quotient{divide(value.low), divide(value.high)};
  if (op == Op::kFloorDiv) return quotient;
  const bool is_one_period =
      !is_unbounded(value.low) && !is_unbounded(value.high) && quotient.low == quotient.high;
  if (!is_one_period) return {0, divisor - 1};
  const int64_t base = quotient.low * divisor;
  return {value.low - base, value.high - base};
}

// The bounds of a node by those of its sources, as exact integers.
std::optional<Interval> exact_bounds(const Node& node, Interval a, Interval b, Interval c) {
  const Op op = node.op();
  if (op == Op::kAxis) return Interval{0, axis_extent(node) - 1};
  if (op == Op::kScalar) return Interval{clamp_wide(node.attr(1)), clamp_wide(node.attr(2))};
  if (op == Op::kConst) {
    const int64_t value = clamp_wide(static_cast<int64_t>(const_bits(node)));
    return Interval{value, value};
  }
  if (op == Op::kCast) return a;
  if (op == Op::kAdd) return Interval{add_bounds(a.low, b.low), add_bounds(a.high, b.high)};
  if (op == Op::kSub) {
    const Interval minus = scale(b, -1);
    return Interval{add_bounds(a.low, minus.low), add_bounds(a.high, minus.high)};
  }
  if (op == Op::kMul) return product(a, b);
  if (op == Op::kMin) return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
  if (op == Op::kMax) return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
  if (op == Op::kWhere) return Interval{std::min(b.low, c.low), std::max(b.high, c.high)};
  const bool by_positive =
      (op == Op::kFloorDiv || op == Op::kFloorMod) && b.low == b.high && b.low > 0;
  if (by_positive) return divide_bounds(op, a, b.low);
  return std::nullopt;
}

}  // namespace

// Integers wrap, so a result that may leave the dtype can be anything in it.
Interval KernelBounds::atom_bounds(const Node& atom) {
  const Interval all = dtype_bounds(atom.dtype());
  const auto of = [&](size_t i) {
    if (i >= atom.srcs().size()) return Interval{0, 0};
    const auto known = memo_.find(atom.src(i).id());
    return known == memo_.end() ? Interval{-kUnbounded, kUnbounded} : known->second;
  };
  const std::optional<Interval> exact = exact_bounds(atom, of(0), of(1), of(2));
  return exact && is_inside(*exact, all) ? *exact : all;
}

bool KernelBounds::is_contradictory() {
  bounds(idx_const(0));  // of all atoms of conditions
  return std::any_of(conditions_.begin(), conditions_.end(), [&](const Affine& condition) {
    const Interval value = affine_bounds(condition);
    const bool is_empty = value.low > value.high;
    return is_empty || value.low > 0 ||
           std::any_of(condition.terms.begin(), condition.terms.end(), [&](const auto& term) {
             const Interval range = memo_.at(term.first.id());
             return range.low > range.high;
           });
  });
}

Interval KernelBounds::bounds(const Node& expr) {
  std::vector<Node> roots{expr};
  for (const Affine& condition : conditions_) {
    for (const auto& [atom, coefficient] : condition.terms)
      roots.push_back(atom);
  }
  std::rotate(roots.begin(), roots.begin() + 1, roots.end());  // conditions first: they tighten
  for (const Node& node : topological_order(roots)) {
    const bool has_bounds = node.dtype() == DType::kIdx || is_int(node.dtype());
    if (!has_bounds || memo_.contains(node.id())) continue;
    kept_.push_back(node);
    Interval result = atom_bounds(node);
    memo_.emplace(node.id(), result);  // the affine form of an atom is the atom
    if (node.dtype() == DType::kIdx && !is_const(node)) {
      const std::optional<Affine> form = affine_of(node);
      if (form) result = intersect(result, affine_bounds(*form));
    }
    memo_.insert_or_assign(node.id(), result);
  }
  return memo_.at(expr.id());
}

}  // namespace tenon
