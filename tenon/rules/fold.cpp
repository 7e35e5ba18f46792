// The fold rules, one per line in the table below. SPDX-License-Identifier: MIT

#include "tenon/rules/fold.h"

#include <array>
#include <bit>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"
#include "tenon/rules/embeds.h"
#include "tenon/rules/lower_dtypes.h"

namespace tenon {
namespace {

constexpr int kMaxSteps = 1000;  // a rule table that does not come to rest is a bug

bool is_value(const Node& node) {
  return node.dtype() != DType::kIdx;
}

// Whether a node is a constant of this number. -0 is another number than 0.
bool is_number(const Node& node, double value) {
  return is_const(node) && is_value(node) && node == number_const(node.dtype(), value);
}
bool is_zero_int(const Node& node) {
  return is_const(node) && !is_float(node.dtype()) && const_bits(node) == 0;
}
bool is_one_int(const Node& node) {
  return is_const(node) && !is_float(node.dtype()) && const_bits(node) == 1;
}
bool is_all_ones(const Node& node) {
  return is_const(node) && !is_float(node.dtype()) && is_value(node) &&
         const_bits(node) == canonical_bits(node.dtype(), ~uint64_t{0});
}

// The dtype that an op works on.
DType operand_dtype(const Node& node) {
  return node.src(node.srcs().size() - 1).dtype();
}
bool is_int_op(const Node& node) {
  return !node.srcs().empty() && is_int(operand_dtype(node));
}
bool is_float_op(const Node& node) {
  return !node.srcs().empty() && is_float(operand_dtype(node));
}
bool is_bool_op(const Node& node) {
  return !node.srcs().empty() && operand_dtype(node) == DType::kBool;
}
bool is_op(const Node& node, Op op) {
  return node.op() == op;
}
bool has_same_operands(const Node& node) {
  return node.srcs().size() == 2 && node.src(0) == node.src(1);
}
bool is_rounding(Op op) {
  return op == Op::kTrunc || op == Op::kFloor || op == Op::kCeil || op == Op::kRound;
}

// --- constants ----------------------------------------------------------------------------------

// The bounded class folds after its decomposition only, so that a constant has the bits that the
// program would compute; mulacc rounds as the Target says.
Node fold_constants(const Node& node, BoundsMemo&) {
  if (node.srcs().empty() || !is_elementwise(node.op()) || is_bounded_class(node.op()) ||
      is_op(node, Op::kMulAcc) || !is_value(node)) {
    return {};
  }
  std::array<ScalarBits, kMaxScalarOperands> args{};
  for (size_t i = 0; i < node.srcs().size(); ++i) {
    if (!is_const(node.src(i))) return {};
    args[i] = const_bits(node.src(i));
  }
  const DType from = operand_dtype(node);
  if (from == DType::kIdx && !is_op(node, Op::kCast)) return {};
  if (is_op(node, Op::kCast)) {
    const DType source = from == DType::kIdx ? DType::kI64 : from;
    return bits_const(node.dtype(), eval_cast(args[0], source, node.dtype()));
  }
  if (is_op(node, Op::kBitcast)) {
    return bits_const(node.dtype(), eval_bitcast(args[0], from, node.dtype()));
  }
  return bits_const(node.dtype(),
                    eval_op(node.op(), from, std::span(args).first(node.srcs().size())));
}

// An integer or condition that bounds leave no choice about: x * 0, x & 0, x % 1, u8 < 0, ...
Node fold_by_bounds(const Node& node, BoundsMemo& memo) {
  if (!is_elementwise(node.op()) || !is_value(node) || is_float(node.dtype())) return {};
  const IntRange range = memo.bounds(node);
  return range.is_value() ? bits_const(node.dtype(), static_cast<uint64_t>(range.min)) : Node();
}

// c op x -> x op c
Node constant_right(const Node& node, BoundsMemo&) {
  if (!is_commutative(node.op()) || node.srcs().size() != 2 || !is_value(node.src(0))) return {};
  if (!is_const(node.src(0)) || is_const(node.src(1))) return {};
  return make_expr(node.op(), node.src(1), node.src(0));
}

// (x op c) op d -> x op (c op d), for ops that associate in every bit
Node merge_constants(const Node& node, BoundsMemo&) {
  if (node.srcs().size() != 2 || node.src(0).op() != node.op() || !is_value(node)) return {};
  const Op op = node.op();
  const bool is_extremum = op == Op::kMin || op == Op::kMax;
  const bool associates =
      is_extremum || ((is_combining(op) || op == Op::kXor) && !is_float_op(node));
  const Node& inner = node.src(0);
  if (!associates || !is_const(node.src(1)) || !is_const(inner.src(1))) return {};
  const std::array<ScalarBits, 2> args{const_bits(inner.src(1)), const_bits(node.src(1))};
  return make_expr(op, inner.src(0), bits_const(node.dtype(), eval_op(op, node.dtype(), args)));
}

// --- arithmetic ---------------------------------------------------------------------------------

// x + 0 -> x (integers), x + -0 -> x (floats)
Node add_nothing(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kAdd) || !is_value(node)) return {};
  const bool is_nothing =
      is_float_op(node) ? is_number(node.src(1), -0.0) : is_zero_int(node.src(1));
  return is_nothing ? node.src(0) : Node();
}

// x - 0 -> x (floats: +0 alone)
Node subtract_nothing(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kSub) || !is_value(node)) return {};
  return is_number(node.src(1), 0.0) ? node.src(0) : Node();
}

// x - x -> 0, x ^ x -> 0 (integers)
Node cancel(const Node& node, BoundsMemo&) {
  const bool cancels = is_op(node, Op::kSub) || is_op(node, Op::kXor);
  if (!cancels || !has_same_operands(node) || is_float_op(node) || !is_value(node)) return {};
  return bits_const(node.dtype(), 0);
}

// x * 1 -> x, x / 1 -> x, x // 1 -> x
Node multiply_by_one(const Node& node, BoundsMemo&) {
  const bool keeps = is_op(node, Op::kMul) || is_op(node, Op::kDiv) || is_op(node, Op::kFloorDiv);
  return keeps && is_value(node) && is_number(node.src(1), 1) ? node.src(0) : Node();
}

// x / 0 -> 0, x % 0 -> 0, x % 1 -> 0, 0 / x -> 0 (integers)
Node divide_to_zero(const Node& node, BoundsMemo&) {
  const bool divides = is_op(node, Op::kDiv) || is_op(node, Op::kFloorDiv);
  const bool is_remainder = is_op(node, Op::kMod) || is_op(node, Op::kFloorMod);
  if ((!divides && !is_remainder) || !is_int_op(node)) return {};
  const bool is_zero = is_zero_int(node.src(0)) || is_zero_int(node.src(1)) ||
                       (is_remainder && (is_one_int(node.src(1)) || has_same_operands(node)));
  return is_zero ? bits_const(node.dtype(), 0) : Node();
}

// x / x -> 1, where bounds prove x != 0 (integers)
Node divide_by_itself(const Node& node, BoundsMemo& memo) {
  const bool divides = is_op(node, Op::kDiv) || is_op(node, Op::kFloorDiv);
  if (!divides || !is_int_op(node) || !has_same_operands(node)) return {};
  return memo.bounds(node.src(0)).contains(0) ? Node() : bits_const(node.dtype(), 1);
}

// x / 2^k -> x * 2^-k (floats, where 2^-k is a number of the dtype)
Node divide_by_power(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kDiv) || !is_float_op(node) || !is_const(node.src(1))) return {};
  const FloatFormat format = float_format(node.dtype());
  const uint64_t bits = const_bits(node.src(1));
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const uint64_t exponents = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t exponent = bits >> format.mantissa_bits & exponents;
  // The reciprocal is a normal number, too: the rest is rare and would need denormals kept.
  const int64_t reciprocal = 2 * static_cast<int64_t>(format.bias) - static_cast<int64_t>(exponent);
  if (mantissa != 0 || exponent == 0 || exponent == exponents || reciprocal <= 0) return {};
  const uint64_t sign = bits >> (dtype_bits(node.dtype()) - 1) << (dtype_bits(node.dtype()) - 1);
  const uint64_t factor = sign | static_cast<uint64_t>(reciprocal) << format.mantissa_bits;
  return make_expr(Op::kMul, node.src(0), bits_const(node.dtype(), factor));
}

// --x -> x, abs(-x) -> abs(x), abs(abs(x)) -> abs(x)
Node drop_sign_changes(const Node& node, BoundsMemo&) {
  const bool is_sign_op = is_op(node, Op::kNeg) || is_op(node, Op::kAbs);
  if (!is_sign_op || is_bool_op(node) || is_unsigned_int(node.dtype())) return {};
  const Node& inner = node.src(0);
  if (is_op(node, Op::kNeg)) return is_op(inner, Op::kNeg) ? inner.src(0) : Node();
  if (is_op(inner, Op::kAbs)) return inner;
  return is_op(inner, Op::kNeg) ? make_expr(Op::kAbs, inner.src(0)) : Node();
}

// floor(trunc(x)) -> trunc(x), and all such pairs
Node round_once(const Node& node, BoundsMemo&) {
  return is_rounding(node.op()) && is_rounding(node.src(0).op()) ? node.src(0) : Node();
}

// --- bits, extrema ------------------------------------------------------------------------------

// x | 0 -> x, x ^ 0 -> x, x & ~0 -> x, x << 0 -> x, x >> 0 -> x, 0 << x -> 0, 0 >> x -> 0
Node keep_bits(const Node& node, BoundsMemo&) {
  const bool is_shift = is_op(node, Op::kShl) || is_op(node, Op::kShr);
  if (is_shift && is_zero_int(node.src(0))) return node.src(0);
  const bool by_zero = is_shift || is_op(node, Op::kOr) || is_op(node, Op::kXor);
  if (by_zero && is_zero_int(node.src(1))) return node.src(0);
  return is_op(node, Op::kAnd) && is_all_ones(node.src(1)) ? node.src(0) : Node();
}

// x | ~0 -> ~0, x ^ ~0 -> not x
Node flip_bits(const Node& node, BoundsMemo&) {
  if (node.srcs().size() != 2 || !is_all_ones(node.src(1))) return {};
  if (is_op(node, Op::kOr)) return node.src(1);
  return is_op(node, Op::kXor) ? make_expr(Op::kNot, node.src(0)) : Node();
}

// x & x -> x, x | x -> x, min(x, x) -> x, max(x, x) -> x
Node drop_equal_operand(const Node& node, BoundsMemo&) {
  const bool keeps = is_op(node, Op::kAnd) || is_op(node, Op::kOr) || is_op(node, Op::kMin) ||
                     is_op(node, Op::kMax);
  return keeps && is_value(node) && has_same_operands(node) ? node.src(0) : Node();
}

// not not x -> x
Node drop_double_not(const Node& node, BoundsMemo&) {
  return is_op(node, Op::kNot) && is_op(node.src(0), Op::kNot) ? node.src(0).src(0) : Node();
}

// max(x, lowest) -> x, min(x, highest) -> x (integers by bounds; floats by infinity)
Node drop_extremum(const Node& node, BoundsMemo& memo) {
  const bool is_min = is_op(node, Op::kMin);
  if ((!is_min && !is_op(node, Op::kMax)) || !is_value(node)) return {};
  if (is_float_op(node)) {
    const bool is_neutral = is_const(node.src(1)) &&
                            node.src(1) == identity_of(node.op(), node.dtype()) &&
                            !float_format(node.dtype()).finite_only;
    return is_neutral ? node.src(0) : Node();
  }
  const IntRange a = memo.bounds(node.src(0));
  const IntRange b = memo.bounds(node.src(1));
  if (a.has_max() && b.has_min() && a.max <= b.min) return node.src(is_min ? 0 : 1);
  if (b.has_max() && a.has_min() && b.max <= a.min) return node.src(is_min ? 1 : 0);
  return {};
}

// --- comparison, selection ----------------------------------------------------------------------

// x < x -> false (all), x <= x -> true, x == x -> true, x != x -> false (integers)
Node compare_with_itself(const Node& node, BoundsMemo&) {
  if (op_info(node.op()).rule != DTypeRule::kCompare || !has_same_operands(node)) return {};
  if (is_op(node, Op::kLt)) return bool_const(false);
  if (is_float_op(node)) return {};
  return bool_const(!is_op(node, Op::kNe));
}

// T(i) < T(j) -> i < j, T(i) < c -> i < c: positions compared as what they are, in the width of
// indices, where T holds them
Node compare_positions(const Node& node, BoundsMemo& memo) {
  if (op_info(node.op()).rule != DTypeRule::kCompare || !is_int_op(node)) return {};
  const auto position = [&](const Node& x) {
    const IntRange range = memo.bounds(is_const(x) ? x : x.src(0));
    if (is_const(x)) return range.is_value() ? idx_const(range.min) : Node();
    const IntRange held = dtype_range(x.dtype());
    const bool is_held = range.is_bounded() && held.contains(range.min) && held.contains(range.max);
    return is_held ? x.src(0) : Node();
  };
  bool has_position = false;
  for (const Node& src : node.srcs()) {
    const bool is_position = is_op(src, Op::kCast) && src.src(0).dtype() == DType::kIdx;
    if (!is_position && !is_const(src)) return {};
    has_position = has_position || is_position;
  }
  if (!has_position) return {};
  const Node a = position(node.src(0));
  const Node b = position(node.src(1));
  return a && b ? make_expr(node.op(), a, b) : Node();
}

// not (a == b) -> a != b, not (a != b) -> a == b (all); not (a < b) -> b <= a, not (a <= b) -> b <
// a (integers: with floats NaN is neither)
Node negate_comparison(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kNot)) return {};
  const Node& inner = node.src(0);
  if (is_op(inner, Op::kEq)) return make_expr(Op::kNe, inner.src(0), inner.src(1));
  if (is_op(inner, Op::kNe)) return make_expr(Op::kEq, inner.src(0), inner.src(1));
  const bool is_less = is_op(inner, Op::kLt) || is_op(inner, Op::kLe);
  if (!is_less || is_float_op(inner)) return {};
  return make_expr(is_op(inner, Op::kLt) ? Op::kLe : Op::kLt, inner.src(1), inner.src(0));
}

// p == true -> p, p != false -> p, p == false -> not p, p != true -> not p
Node compare_with_bool(const Node& node, BoundsMemo&) {
  const bool is_equality = is_op(node, Op::kEq) || is_op(node, Op::kNe);
  if (!is_equality || !is_bool_op(node) || !is_const(node.src(1))) return {};
  const bool keeps = is_true(node.src(1)) == is_op(node, Op::kEq);
  return keeps ? node.src(0) : make_expr(Op::kNot, node.src(0));
}

// where(true, a, b) -> a, where(false, a, b) -> b, where(p, a, a) -> a
Node decide_where(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kWhere) || !is_value(node)) return {};
  if (is_true(node.src(0)) || node.src(1) == node.src(2)) return node.src(1);
  return is_false(node.src(0)) ? node.src(2) : Node();
}

// where(not p, a, b) -> where(p, b, a)
Node where_of_not(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kWhere) || !is_op(node.src(0), Op::kNot) || !is_value(node)) return {};
  return make_expr(Op::kWhere, node.src(0).src(0), node.src(2), node.src(1));
}

// where(p, true, false) -> p, where(p, false, true) -> not p, where(p, q, false) -> p and q,
// where(p, true, q) -> p or q
Node where_of_bools(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kWhere) || node.dtype() != DType::kBool) return {};
  const Node& p = node.src(0);
  if (is_true(node.src(1)) && is_false(node.src(2))) return p;
  if (is_false(node.src(1)) && is_true(node.src(2))) return make_expr(Op::kNot, p);
  if (is_false(node.src(2))) return make_expr(Op::kAnd, p, node.src(1));
  return is_true(node.src(1)) ? make_expr(Op::kOr, p, node.src(2)) : Node();
}

// where(p, where(p, a, b), c) -> where(p, a, c), where(p, a, where(p, b, c)) -> where(p, a, c)
Node where_of_same(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kWhere) || !is_value(node)) return {};
  const auto chosen = [&](size_t i) {
    const Node& branch = node.src(i);
    return is_op(branch, Op::kWhere) && branch.src(0) == node.src(0) ? branch.src(i) : branch;
  };
  const Node a = chosen(1);
  const Node b = chosen(2);
  if (a == node.src(1) && b == node.src(2)) return {};
  return make_expr(Op::kWhere, node.src(0), a, b);
}

// --- conversions --------------------------------------------------------------------------------

// cast of the same dtype, bitcast of the same dtype
Node drop_conversion(const Node& node, BoundsMemo&) {
  const bool converts = is_op(node, Op::kCast) || is_op(node, Op::kBitcast);
  return converts && node.dtype() == node.src(0).dtype() && is_value(node) ? node.src(0) : Node();
}

// bitcast(bitcast(x)) -> bitcast(x)
Node bitcast_once(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kBitcast) || !is_op(node.src(0), Op::kBitcast)) return {};
  return make_bitcast(node.src(0).src(0), node.dtype());
}

// cast(cast(x, wide), t) -> cast(x, t), where `wide` holds every x; also integers that only lose
// upper bits
Node cast_once(const Node& node, BoundsMemo&) {
  if (!is_op(node, Op::kCast) || !is_op(node.src(0), Op::kCast)) return {};
  const Node& x = node.src(0).src(0);
  const DType from = x.dtype();
  const DType middle = node.src(0).dtype();
  const DType to = node.dtype();
  if (from == DType::kIdx || middle == DType::kIdx || to == DType::kIdx) return {};
  // Hardware converts narrow floats to and from f32 only, if at all.
  if (from != to && (is_narrow_float(from) || is_narrow_float(to))) return {};
  const bool only_narrows =
      is_int(from) && is_int(middle) && is_int(to) && dtype_bits(to) <= dtype_bits(middle);
  // Floats saturate where integers wrap.
  const bool may_saturate = is_int(from) && is_float(middle) && is_int(to) && !embeds(from, to);
  const bool is_exact = embeds(from, middle) && !may_saturate;
  return is_exact || only_narrows ? make_cast(x, to) : Node();
}

constexpr FoldRule kRules[] = {
    {"constants", fold_constants},
    {"integers by bounds", fold_by_bounds},
    {"c op x -> x op c", constant_right},
    {"(x op c) op d -> x op (c op d)", merge_constants},
    {"x + 0 -> x", add_nothing},
    {"x - 0 -> x", subtract_nothing},
    {"x - x -> 0, x ^ x -> 0", cancel},
    {"x * 1 -> x, x / 1 -> x", multiply_by_one},
    {"x / 0 -> 0, x % 1 -> 0, 0 / x -> 0", divide_to_zero},
    {"x / x -> 1", divide_by_itself},
    {"x / 2^k -> x * 2^-k", divide_by_power},
    {"--x -> x, abs(-x) -> abs(x)", drop_sign_changes},
    {"floor(trunc(x)) -> trunc(x)", round_once},
    {"x | 0 -> x, x << 0 -> x, x & ~0 -> x", keep_bits},
    {"x | ~0 -> ~0, x ^ ~0 -> not x", flip_bits},
    {"x & x -> x, max(x, x) -> x", drop_equal_operand},
    {"not not x -> x", drop_double_not},
    {"max(x, lowest) -> x", drop_extremum},
    {"x < x -> false", compare_with_itself},
    {"T(i) < T(j) -> i < j", compare_positions},
    {"not (a == b) -> a != b", negate_comparison},
    {"p == true -> p", compare_with_bool},
    {"where(true, a, b) -> a, where(p, a, a) -> a", decide_where},
    {"where(not p, a, b) -> where(p, b, a)", where_of_not},
    {"where(p, true, false) -> p", where_of_bools},
    {"where(p, where(p, a, b), c) -> where(p, a, c)", where_of_same},
    {"cast or bitcast to the same dtype", drop_conversion},
    {"bitcast(bitcast(x)) -> bitcast(x)", bitcast_once},
    {"cast(cast(x)) -> cast(x)", cast_once},
};

}  // namespace

std::span<const FoldRule> fold_rules() {
  return kRules;
}

// Rules build at most one node above folded ones, so applying them to the root until none fires is
// enough.
Node Folder::fold(const Node& node) {
  Node result = node;
  for (int step = 0; step < kMaxSteps; ++step) {
    Node next;
    for (const FoldRule& rule : kRules) {
      next = rule.apply(result, bounds_);
      if (!next) continue;
      if (on_rule != nullptr) on_rule(rule.name);
      break;
    }
    if (!next) return result;
    result = next;
  }
  TENON_ASSERT(false, "fold: ", op_name(node.op()), " did not come to rest");
  return result;
}

Node Folder::run(const Node& root) {
  return rewriter_.run(root, [this](const Node& node) { return fold(node); });
}

Node fold_expr(const Node& root) {
  return Folder().run(root);
}

Node bool_const(bool value) {
  return bits_const(DType::kBool, value ? 1 : 0);
}

bool is_true(const Node& node) {
  return node.dtype() == DType::kBool && is_one_int(node);
}

bool is_false(const Node& node) {
  return node.dtype() == DType::kBool && is_zero_int(node);
}

}  // namespace tenon
