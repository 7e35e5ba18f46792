// Index rules: known forms, and random expressions compared with their simplified form on up
// to 300 points each. SPDX-License-Identifier: MIT
#include "tenon/rules/simplify_index.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <string>

#include "tenon/ir/kernel.h"
#include "tests/rules/expr_evaluator.h"

namespace tenon {
namespace {

Node axis(int64_t id, int64_t extent) {
  return make_axis(id, extent, AxisKind::kPar);
}
Node op(Op kind, const Node& a, const Node& b) {
  return make_expr(kind, a, b);
}
Node plus(const Node& a, const Node& b) {
  return op(Op::kAdd, a, b);
}
Node times(const Node& a, int64_t c) {
  return op(Op::kMul, a, idx_const(c));
}
Node over(const Node& a, int64_t c) {
  return op(Op::kFloorDiv, a, idx_const(c));
}
Node mod(const Node& a, int64_t c) {
  return op(Op::kFloorMod, a, idx_const(c));
}
Node less(const Node& a, const Node& b) {
  return op(Op::kLt, a, b);
}

std::string text(const Node& root) {
  std::map<uint64_t, std::string> words;
  for (const Node& node : topological_order(std::span(&root, 1))) {
    std::string word;
    if (is_const(node)) {
      word = std::to_string(static_cast<int64_t>(const_bits(node)));
    } else if (node.op() == Op::kAxis) {
      word = "a" + std::to_string(axis_id(node));
    } else if (node.op() == Op::kScalar) {
      word = "s" + std::to_string(node.attr(0));
    } else {
      word = std::string(op_name(node.op())) + "(";
      for (const Node& src : node.srcs())
        word += (src == node.src(0) ? "" : ", ") + words.at(src.serial());
      word += ")";
    }
    words[node.serial()] = word;
  }
  return words.at(root.serial());
}

#define EXPECT_SIMPLIFIES(from, to)         \
  EXPECT_TRUE(simplify_index(from) == (to)) \
      << text(from) << " -> " << text(simplify_index(from)) << ", expected " << text(to)

TEST(SimplifyIndex, CollectsSums) {
  const Node i = axis(0, 7);
  const Node j = axis(1, 5);
  EXPECT_SIMPLIFIES(plus(j, i), plus(i, j));
  EXPECT_SIMPLIFIES(op(Op::kSub, plus(i, j), i), j);
  EXPECT_SIMPLIFIES(plus(plus(times(i, 3), idx_const(4)), op(Op::kSub, i, idx_const(4))),
                    times(i, 4));
  EXPECT_SIMPLIFIES(times(plus(i, j), 4), times(plus(i, j), 4));
  EXPECT_SIMPLIFIES(plus(times(i, 4), times(j, 4)), times(plus(i, j), 4));
  EXPECT_SIMPLIFIES(op(Op::kSub, idx_const(3), plus(i, idx_const(3))), times(i, -1));
  EXPECT_SIMPLIFIES(op(Op::kMul, j, i), op(Op::kMul, i, j));
  EXPECT_SIMPLIFIES(axis(3, 1), idx_const(0));
}

TEST(SimplifyIndex, DividesAffineForms) {
  const Node i = axis(0, 7);
  const Node j = axis(1, 3);
  const Node k = axis(2, 4);
  const Node flat = plus(plus(times(i, 12), times(j, 4)), k);
  EXPECT_SIMPLIFIES(mod(over(flat, 4), 3), j);
  EXPECT_SIMPLIFIES(over(flat, 12), i);
  EXPECT_SIMPLIFIES(mod(flat, 4), k);
  EXPECT_SIMPLIFIES(mod(flat, 12), plus(times(j, 4), k));
  EXPECT_SIMPLIFIES(over(mod(flat, 12), 4), j);
  const Node big = axis(3, 1000);
  EXPECT_SIMPLIFIES(over(over(big, 4), 5), over(big, 20));
  EXPECT_SIMPLIFIES(over(mod(big, 20), 4), mod(over(big, 4), 5));
  EXPECT_SIMPLIFIES(mod(mod(big, 20), 4), mod(big, 4));
  EXPECT_SIMPLIFIES(plus(times(over(big, 4), 4), mod(big, 4)), big);
  EXPECT_SIMPLIFIES(op(Op::kSub, big, times(over(big, 8), 8)), mod(big, 8));
  EXPECT_SIMPLIFIES(over(times(big, 6), 4), over(times(big, 3), 2));
  EXPECT_SIMPLIFIES(mod(big, 1000), big);
  EXPECT_SIMPLIFIES(mod(big, 0), idx_const(0));
  EXPECT_SIMPLIFIES(over(big, 0), idx_const(0));
}

TEST(SimplifyIndex, TwoLevelSplitsCancel) {
  const Node i = axis(0, 1024);
  EXPECT_SIMPLIFIES(plus(times(over(i, 64), 64), mod(i, 64)), i);
  const Node outer = axis(1, 16);
  const Node inner = axis(2, 64);
  const Node whole = plus(times(outer, 64), inner);
  EXPECT_SIMPLIFIES(over(whole, 64), outer);
  EXPECT_SIMPLIFIES(mod(whole, 64), inner);
  // Three levels: 256 = 4 * 64, 64 = 4 * 16.
  const Node three =
      plus(plus(times(over(i, 256), 256), times(mod(over(i, 64), 4), 64)), mod(i, 64));
  EXPECT_SIMPLIFIES(three, i);
}

// out[a, b, c] of reshape(permute(pad(reshape(x)))) for x (6,4): axes as a flat index walks them.
TEST(SimplifyIndex, ViewChainsWithADirectIndexKeepNoDivision) {
  const Node a = axis(0, 4);
  const Node b = axis(1, 2);
  const Node c = axis(2, 3);
  // reshape (4,2,3) -> (4,6), then permute -> (6,4), then reshape (6,4) -> (2,3,4) read at b, c, a.
  const Node row = over(plus(times(plus(times(b, 3), c), 4), a), 4);
  const Node column = mod(plus(times(plus(times(b, 3), c), 4), a), 4);
  EXPECT_SIMPLIFIES(row, plus(times(b, 3), c));
  EXPECT_SIMPLIFIES(column, a);
  // Padding by 2 before: (row - 2) and its gate stay affine.
  const Node padded = op(Op::kSub, row, idx_const(2));
  EXPECT_SIMPLIFIES(op(Op::kLe, idx_const(0), padded), less(idx_const(1), plus(times(b, 3), c)));
  const Node flat = plus(times(padded, 4), column);
  EXPECT_SIMPLIFIES(mod(flat, 4), a);
  EXPECT_SIMPLIFIES(over(flat, 4), op(Op::kSub, plus(times(b, 3), c), idx_const(2)));
}

bool has_division(const Node& root) {
  for (const Node& node : topological_order(std::span(&root, 1))) {
    if (node.op() == Op::kFloorDiv || node.op() == Op::kFloorMod) return true;
  }
  return false;
}

// Position in a shape of the given sizes, from a flat position: what a reshape makes.
std::vector<Node> unflatten(const Node& flat, const std::vector<int64_t>& sizes) {
  std::vector<Node> index(sizes.size());
  int64_t stride = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    index[dim] = mod(over(flat, stride), sizes[dim]);
    stride *= sizes[dim];
  }
  return index;
}

Node flatten(const std::vector<Node>& index, const std::vector<int64_t>& sizes) {
  Node flat = idx_const(0);
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    flat = plus(times(flat, sizes[dim]), index[dim]);
  return flat;
}

// Axes split at all borders; every reshape and permutation whose borders are among them is affine.
TEST(SimplifyIndex, ReshapesOnSharedBordersKeepNoDivision) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    const size_t rank = 2 + random() % 5;
    std::vector<int64_t> sizes;
    std::vector<Node> index;
    for (size_t dim = 0; dim < rank; ++dim) {
      sizes.push_back(static_cast<int64_t>(2 + random() % 6));
      index.push_back(axis(static_cast<int64_t>(dim), sizes[dim]));
    }
    for (int step = 0; step < 4; ++step) {
      // Merge neighbours at random, go to that shape and back, then swap two dimensions.
      std::vector<int64_t> merged{sizes[0]};
      for (size_t dim = 1; dim < rank; ++dim) {
        if (random() % 2 == 0) {
          merged.back() *= sizes[dim];
        } else {
          merged.push_back(sizes[dim]);
        }
      }
      const std::vector<Node> outer = unflatten(flatten(index, sizes), merged);
      index = unflatten(flatten(outer, merged), sizes);
      const size_t a = random() % rank;
      const size_t b = random() % rank;
      std::swap(index[a], index[b]);
      std::swap(sizes[a], sizes[b]);
    }
    for (size_t dim = 0; dim < rank; ++dim) {
      const Node simplified = simplify_index(index[dim]);
      ASSERT_EQ(simplified.op(), Op::kAxis) << "round " << round << ": " << text(simplified);
    }
    const Node flat = simplify_index(flatten(index, sizes));
    ASSERT_FALSE(has_division(flat)) << text(flat);
  }
}

TEST(SimplifyIndex, NormalisesComparisons) {
  const Node i = axis(0, 16);
  const Node j = axis(1, 64);
  const Node tail = less(plus(times(i, 64), j), idx_const(640));
  EXPECT_SIMPLIFIES(tail, less(i, idx_const(10)));
  EXPECT_SIMPLIFIES(less(over(j, 8), idx_const(3)), less(j, idx_const(24)));
  EXPECT_SIMPLIFIES(op(Op::kLe, i, idx_const(4)), less(i, idx_const(5)));
  EXPECT_SIMPLIFIES(make_expr(Op::kNot, less(i, j)), op(Op::kLe, j, i));
  EXPECT_SIMPLIFIES(less(i, idx_const(16)), bits_const(DType::kBool, 1));
  EXPECT_SIMPLIFIES(op(Op::kEq, times(i, 2), plus(times(j, 2), idx_const(1))),
                    bits_const(DType::kBool, 0));
  EXPECT_SIMPLIFIES(op(Op::kAnd, less(i, idx_const(9)), less(i, idx_const(4))),
                    less(i, idx_const(4)));
  EXPECT_SIMPLIFIES(op(Op::kAnd, less(i, idx_const(4)), less(idx_const(3), i)),
                    bits_const(DType::kBool, 0));
  EXPECT_SIMPLIFIES(make_expr(Op::kWhere, less(i, j), i, j), op(Op::kMin, i, j));
}

TEST(SimplifyIndex, UsesTheGateOfALoad) {
  const Node i = axis(0, 20);
  const Node shifted = op(Op::kSub, i, idx_const(4));
  const Node gate = op(Op::kAnd, op(Op::kLe, idx_const(0), shifted), less(shifted, idx_const(12)));
  const std::array<Node, 2> index{over(shifted, 12), mod(shifted, 12)};
  const Node load = make_gated_load(0, DType::kF32, index, gate, number_const(DType::kF32, 0));
  const Node simplified = simplify_index(load);
  const LoadParts parts = load_parts(simplified);
  EXPECT_TRUE(parts.index[0] == idx_const(0)) << text(parts.index[0]);
  EXPECT_TRUE(parts.index[1] == shifted) << text(parts.index[1]);
}

TEST(SimplifyIndex, UsesFactsOfAnOuterGuard) {
  const Node i = axis(0, 20);
  const Node guard = less(times(i, 2), idx_const(16));
  EXPECT_TRUE(simplify_index(mod(i, 8), std::span(&guard, 1)) == i);
  EXPECT_TRUE(simplify_index(mod(i, 8)) == mod(i, 8));
  EXPECT_TRUE(simplify_index(guard, std::span(&guard, 1)) == bits_const(DType::kBool, 1));
}

// --- random expressions -------------------------------------------------------------------------

constexpr int64_t kExtents[] = {3, 4, 6, 5};
constexpr int64_t kScalarMin = -7;
constexpr int64_t kScalarMax = 9;

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {
    for (int64_t i = 0; i < 4; ++i)
      leaves_.push_back(axis(i, kExtents[i]));
    leaves_.push_back(make_scalar(0, kScalarMin, kScalarMax));
  }
  const std::vector<Node>& leaves() const { return leaves_; }

  Node index(int depth) {
    if (depth == 0 || below(8) == 0) return below(4) == 0 ? constant() : leaves_[below(5)];
    const size_t kind = below(16);
    const Node a = index(depth - 1);
    if (kind < 3) return plus(a, index(depth - 1));
    if (kind == 3) return op(Op::kSub, a, index(depth - 1));
    if (kind < 7) return times(a, positive());
    if (kind < 10) return over(a, positive());
    if (kind < 13) return mod(a, positive());
    if (kind == 13) return op(below(2) == 0 ? Op::kMin : Op::kMax, a, index(depth - 1));
    if (kind == 14) return make_expr(Op::kWhere, condition(depth - 1), a, index(depth - 1));
    return odd_one(a, depth);
  }

  Node condition(int depth) {
    const size_t kind = below(depth == 0 ? 4 : 8);
    if (kind < 4) {
      constexpr Op kOps[] = {Op::kLt, Op::kLe, Op::kEq, Op::kNe};
      return op(kOps[kind], index(std::max(0, depth - 1)), index(std::max(0, depth - 1)));
    }
    const Node p = condition(depth - 1);
    if (kind == 4) return make_expr(Op::kNot, p);
    if (kind == 5) return op(Op::kAnd, p, condition(depth - 1));
    if (kind == 6) return op(Op::kOr, p, condition(depth - 1));
    return make_expr(Op::kWhere, p, condition(depth - 1), below(2) == 0 ? p : condition(depth - 1));
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }
  Node constant() { return idx_const(static_cast<int64_t>(below(15)) - 5); }
  int64_t positive() {
    constexpr int64_t kValues[] = {2, 3, 4, 6, 8, 12, 5, 24};
    return kValues[below(8)];
  }
  Node odd_one(const Node& a, int depth) {
    const Node b = index(depth - 1);
    const size_t kind = below(8);
    if (kind == 6) {
      const Op extremum = below(2) == 0 ? Op::kMin : Op::kMax;
      return op(extremum, op(extremum, a, constant()), below(3) == 0 ? a : constant());
    }
    if (kind == 7) {
      const Node p = condition(depth - 1);
      const Node inner = make_expr(Op::kWhere, p, a, b);
      return make_expr(Op::kWhere, p, below(2) == 0 ? inner : b, below(2) == 0 ? inner : a);
    }
    if (kind == 0) return op(Op::kMul, a, b);
    if (kind == 1) return op(Op::kFloorDiv, a, b);
    if (kind == 2) return op(Op::kFloorMod, a, b);
    if (kind == 3) return times(a, -positive());
    if (kind == 4) return make_cast(make_cast(a, DType::kI32), DType::kIdx);
    const int64_t c = positive();
    if (below(3) == 0) return op(Op::kSub, a, times(over(a, c), c));
    if (below(3) == 0) return op(Op::kSub, a, mod(a, c));
    return plus(times(over(a, c), c), mod(a, c));
  }

  std::mt19937_64 random_;
  std::vector<Node> leaves_;
};

// Every assignment of the axes and the scalar, as columns.
std::vector<std::vector<ScalarBits>> all_points() {
  std::vector<std::vector<ScalarBits>> columns(5);
  for (int64_t i = 0; i < kExtents[0] * kExtents[1] * kExtents[2] * kExtents[3]; ++i) {
    for (int64_t scalar = kScalarMin; scalar <= kScalarMax; ++scalar) {
      int64_t rest = i;
      for (size_t dim = 0; dim < 4; ++dim) {
        columns[dim].push_back(static_cast<ScalarBits>(rest % kExtents[dim]));
        rest /= kExtents[dim];
      }
      columns[4].push_back(static_cast<ScalarBits>(scalar));
    }
  }
  return columns;
}

// A fixed random part of all points: one seed looks at some, all seeds together at all.
std::vector<std::vector<ScalarBits>> some_points(uint64_t seed, size_t count) {
  static const std::vector<std::vector<ScalarBits>> all = all_points();
  std::mt19937_64 random(seed);
  std::vector<std::vector<ScalarBits>> columns(all.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t row = random() % all[0].size();
    for (size_t column = 0; column < all.size(); ++column)
      columns[column].push_back(all[column][row]);
  }
  return columns;
}

std::map<std::string_view, int64_t>& fired() {
  static auto* counts = new std::map<std::string_view, int64_t>;
  return *counts;
}

// What the driver did to one expression, and whether it was right.
void check(const Node& original, const std::vector<Node>& leaves, uint64_t seed,
           const std::vector<std::vector<ScalarBits>>& points) {
  IndexSimplifier simplifier;
  simplifier.on_rule = [](std::string_view name) { ++fired()[name]; };
  const Node simplified = simplifier.run(original);
  const std::vector<ScalarBits> before = ExprEvaluator(original, leaves).run(points);
  const std::vector<ScalarBits> after = ExprEvaluator(simplified, leaves).run(points);
  ASSERT_EQ(before, after) << "seed " << seed << ": " << text(original) << " -> "
                           << text(simplified);
  const Node again = simplify_index(simplified);
  ASSERT_TRUE(again == simplified) << "seed " << seed << ": " << text(original) << " -> "
                                   << text(simplified) << " -> " << text(again);
  ASSERT_LE(simplifier.size(simplified), simplifier.size(original))
      << "seed " << seed << ": " << text(original) << " -> " << text(simplified);
  const IntRange range = bounds(simplified);
  for (ScalarBits value : after) {
    ASSERT_TRUE(range.contains(static_cast<int64_t>(value))) << "seed " << seed << text(simplified);
  }
}

TEST(SimplifyIndex, RandomExpressionsKeepTheirValues) {
  constexpr uint64_t kNumSeeds = 10000;
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    Generator generator(seed);
    const int depth = 2 + static_cast<int>(seed % 4);
    const Node expr = seed % 3 == 0 ? generator.condition(depth) : generator.index(depth);
    check(expr, generator.leaves(), seed, some_points(seed, 300));
    if (HasFatalFailure()) return;
  }
  for (const IndexRule& rule : index_rules())
    EXPECT_GT(fired()[rule.name], 0) << "no seed reached " << rule.name;
  for (const SumRule& rule : sum_rules())
    EXPECT_GT(fired()[rule.name], 0) << "no seed reached " << rule.name;
}

}  // namespace
}  // namespace tenon
