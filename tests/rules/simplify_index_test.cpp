// Index rules: known forms; every rule on all expressions of its patterns, constants and variables
// from small ranges, compared with the simplified form on all points; random expressions, on up to
// 300 points each. SPDX-License-Identifier: MIT
#include "tenon/rules/simplify_index.h"

#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <map>
#include <random>
#include <set>
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

std::map<std::string_view, int64_t>& fired() {
  static auto* counts = new std::map<std::string_view, int64_t>;
  return *counts;
}

// What the driver did to one expression (fired() counts it), and whether it was right.
void check(const Node& original, const std::vector<Node>& leaves, uint64_t number,
           const std::vector<std::vector<ScalarBits>>& points) {
  IndexSimplifier simplifier;
  simplifier.on_rule = [](std::string_view name) { ++fired()[name]; };
  const Node simplified = simplifier.run(original);
  const std::vector<ScalarBits> before = ExprEvaluator(original, leaves).run(points);
  const std::vector<ScalarBits> after = ExprEvaluator(simplified, leaves).run(points);
  ASSERT_EQ(before, after) << "case " << number << ": " << text(original) << " -> "
                           << text(simplified);
  const Node again = simplify_index(simplified);
  ASSERT_TRUE(again == simplified) << "case " << number << ": " << text(original) << " -> "
                                   << text(simplified) << " -> " << text(again);
  ASSERT_LE(simplifier.size(simplified), simplifier.size(original))
      << "case " << number << ": " << text(original) << " -> " << text(simplified);
  const IntRange range = bounds(simplified);
  for (ScalarBits value : after) {
    ASSERT_TRUE(range.contains(static_cast<int64_t>(value)))
        << "case " << number << ": " << text(simplified);
  }
}

// --- every rule, exhaustively -------------------------------------------------------------------

// What a pattern is made of: two variables and up to four constants, each in turn all it can be.
struct Slots {
  Node x, y;
  int64_t c = 0, d = 0, k = 0, m = 0;
};

struct Pattern {
  std::string_view rule;
  int num_constants;
  Node (*make)(const Slots& v);
};

Node minus(const Node& a, const Node& b) {
  return op(Op::kSub, a, b);
}
Node plus(const Node& a, int64_t c) {
  return plus(a, idx_const(c));
}
Node less(const Node& a, int64_t c) {
  return less(a, idx_const(c));
}
Node negation(const Node& a) {
  return make_expr(Op::kNot, a);
}
Node choice(const Node& p, const Node& a, const Node& b) {
  return make_expr(Op::kWhere, p, a, b);
}
Node truth(bool value) {
  return bits_const(DType::kBool, value ? 1 : 0);
}
Node round_trip(const Node& x, DType dtype) {
  return make_cast(make_cast(x, dtype), DType::kIdx);
}
// c*x + k
Node line(const Slots& v) {
  return plus(times(v.x, v.c), v.k);
}
// c*x + d*y
Node plane(const Slots& v) {
  return plus(times(v.x, v.c), times(v.y, v.d));
}

// Each rule with expressions of the form that it looks for, and with the near ones that it must
// tell apart: the constants are not tied to each other.
const Pattern kPatterns[] = {
    {"sum collected", 3, [](const Slots& v) { return plus(line(v), plus(times(v.x, v.d), v.y)); }},
    {"difference collected", 3,
     [](const Slots& v) { return minus(line(v), plus(times(v.x, v.d), v.y)); }},
    {"product distributed", 3, [](const Slots& v) { return times(line(v), v.d); }},
    {"product distributed", 2,
     [](const Slots& v) { return times(plus(times(v.x, v.c), v.y), v.d); }},
    {"y * x -> x * y", 1, [](const Slots& v) { return op(Op::kMul, v.x, plus(v.y, v.c)); }},
    {"x // 0 -> 0", 2, [](const Slots& v) { return over(plus(times(v.x, v.c), v.d), 0); }},
    {"x // 1 -> x", 2, [](const Slots& v) { return over(plane(v), 1); }},
    {"(c*a + b) // c -> a + b//c", 4,
     [](const Slots& v) { return over(plus(plane(v), v.k), v.m); }},
    {"(c*a + b) // c -> a + b//c", 2, [](const Slots& v) { return over(plus(v.x, v.c), v.d); }},
    {"(g*a + b) // (g*c) -> a//c", 3, [](const Slots& v) { return over(plus(line(v), v.y), v.d); }},
    {"(x//d + r) // c -> (x + r*d) // (c*d)", 3,
     [](const Slots& v) { return over(plus(over(v.x, v.c), v.k), v.d); }},
    {"(x//d + r) // c -> (x + r*d) // (c*d)", 4,
     [](const Slots& v) { return over(plus(over(plus(times(v.x, v.m), v.y), v.c), v.k), v.d); }},
    {"(x % (c*m)) // c -> (x//c) % m", 3,
     [](const Slots& v) { return over(mod(plus(times(v.x, v.k), v.y), v.c), v.d); }},
    {"where(p,a,b) // c -> where(p, a//c, b//c)", 3,
     [](const Slots& v) {
       return over(choice(less(v.x, v.y), idx_const(v.c), idx_const(v.d)), v.k);
     }},
    {"x % c -> x - m*c", 3, [](const Slots& v) { return mod(line(v), v.d); }},
    {"(a*c + b) % c -> b % c", 4, [](const Slots& v) { return mod(plus(plane(v), v.k), v.m); }},
    {"(a*c + b) % c -> b % c", 3,
     [](const Slots& v) { return mod(plus(times(mod(v.x, v.c), v.d), v.y), v.k); }},
    {"(g*a + b) % (g*c) -> g*(a%c) + b", 3,
     [](const Slots& v) { return mod(plus(line(v), v.y), v.d); }},
    {"where(p,a,b) % c -> where(p, a%c, b%c)", 3,
     [](const Slots& v) {
       return mod(choice(less(v.x, v.y), idx_const(v.c), idx_const(v.d)), v.k);
     }},
    {"a*(x//a) + x%a -> x", 4,
     [](const Slots& v) { return plus(times(over(plus(v.x, v.k), v.c), v.d), mod(v.x, v.m)); }},
    {"a*(x//a) + x%a -> x", 3,
     [](const Slots& v) {
       const Node sum = plus(times(v.x, v.k), v.y);
       return plus(times(over(sum, v.c), v.d), mod(sum, v.c));
     }},
    {"a*((x//a)%b) + x%a -> x%(a*b)", 4,
     [](const Slots& v) {
       return plus(times(mod(over(plus(v.x, v.k), v.c), v.d), v.m), mod(v.x, v.c));
     }},
    {"a*((x//a)%b) + x%a -> x%(a*b)", 3,
     [](const Slots& v) {
       const Node sum = plus(times(v.x, v.k), v.y);
       return plus(times(mod(over(sum, v.c), v.d), v.c), mod(sum, v.c));
     }},
    {"x - a*(x//a) -> x%a", 4,
     [](const Slots& v) {
       return plus(plus(times(v.x, v.k), v.y), times(over(plus(v.x, v.m), v.c), v.d));
     }},
    {"x - a*(x//a) -> x%a", 3,
     [](const Slots& v) {
       const Node sum = plus(times(v.x, v.k), v.y);
       return minus(sum, times(over(sum, v.c), v.d));
     }},
    {"x - x%a -> a*(x//a)", 4,
     [](const Slots& v) {
       return plus(plus(times(v.x, v.k), v.y), times(mod(plus(v.x, v.m), v.c), v.d));
     }},
    {"x - x%a -> a*(x//a)", 3,
     [](const Slots& v) {
       const Node sum = plus(times(v.x, v.k), v.y);
       return minus(sum, times(mod(sum, v.c), v.d));
     }},
    {"sum < 0 in lowest terms", 3, [](const Slots& v) { return less(plane(v), v.k); }},
    {"sum < 0 in lowest terms", 3, [](const Slots& v) { return less(over(line(v), v.d), v.y); }},
    {"sum < 0 in lowest terms", 3,
     [](const Slots& v) { return less(plus(v.y, v.k), over(times(v.x, v.c), v.d)); }},
    {"sum <= 0 -> sum - 1 < 0", 3,
     [](const Slots& v) { return op(Op::kLe, plane(v), idx_const(v.k)); }},
    {"sum == 0 in lowest terms", 3,
     [](const Slots& v) { return op(Op::kEq, plane(v), idx_const(v.k)); }},
    {"sum == 0 in lowest terms", 3,
     [](const Slots& v) { return op(Op::kEq, over(line(v), v.d), v.y); }},
    {"sum != 0 in lowest terms", 3,
     [](const Slots& v) { return op(Op::kNe, plane(v), idx_const(v.k)); }},
    {"not (a < b) -> b <= a", 3,
     [](const Slots& v) { return negation(less(line(v), times(v.y, v.d))); }},
    {"not (a < b) -> b <= a", 3,
     [](const Slots& v) { return negation(op(Op::kLe, line(v), times(v.y, v.d))); }},
    {"not (a == b) -> a != b", 3,
     [](const Slots& v) { return negation(op(Op::kEq, line(v), times(v.y, v.d))); }},
    {"not (a == b) -> a != b", 3,
     [](const Slots& v) { return negation(op(Op::kNe, line(v), times(v.y, v.d))); }},
    {"not not p -> p", 2,
     [](const Slots& v) {
       return negation(negation(op(Op::kAnd, less(v.x, v.c), less(v.y, v.d))));
     }},
    {"and: sorted, nothing implied", 3,
     [](const Slots& v) { return op(Op::kAnd, less(v.x, v.c), less(times(v.y, v.d), v.k)); }},
    {"and: sorted, nothing implied", 3,
     [](const Slots& v) {
       return op(Op::kAnd, less(v.x, v.c), op(Op::kOr, less(v.x, v.k), less(idx_const(v.d), v.y)));
     }},
    {"or: sorted, nothing implied", 3,
     [](const Slots& v) { return op(Op::kOr, less(v.x, v.c), less(times(v.y, v.d), v.k)); }},
    {"or: sorted, nothing implied", 3,
     [](const Slots& v) {
       return op(Op::kOr, less(v.x, v.c), op(Op::kAnd, less(v.x, v.k), less(idx_const(v.d), v.y)));
     }},
    {"min(a, b) -> a by bounds", 3,
     [](const Slots& v) { return op(Op::kMin, line(v), times(v.y, v.d)); }},
    {"max(a, b) -> a by bounds", 3,
     [](const Slots& v) { return op(Op::kMax, line(v), times(v.y, v.d)); }},
    {"min(min(x, c), d) -> min(x, min(c, d))", 3,
     [](const Slots& v) { return op(Op::kMin, op(Op::kMin, line(v), v.y), idx_const(v.d)); }},
    {"min(min(x, c), d) -> min(x, min(c, d))", 2,
     [](const Slots& v) {
       return op(Op::kMin, idx_const(v.d), op(Op::kMin, plus(v.x, v.y), idx_const(v.c)));
     }},
    {"max(max(x, c), d) -> max(x, max(c, d))", 3,
     [](const Slots& v) { return op(Op::kMax, op(Op::kMax, line(v), v.y), idx_const(v.d)); }},
    {"max(max(x, c), d) -> max(x, max(c, d))", 2,
     [](const Slots& v) {
       return op(Op::kMax, idx_const(v.d), op(Op::kMax, plus(v.x, v.y), idx_const(v.c)));
     }},
    {"min(b, a) -> min(a, b)", 2,
     [](const Slots& v) { return op(Op::kMin, times(v.y, v.c), plus(v.x, v.d)); }},
    {"max(b, a) -> max(a, b)", 2,
     [](const Slots& v) { return op(Op::kMax, times(v.y, v.c), plus(v.x, v.d)); }},
    {"where(const, a, b), where(p, a, a)", 2,
     [](const Slots& v) { return choice(less(v.x, v.c), plus(v.y, v.d), plus(v.y, v.d)); }},
    {"where(const, a, b), where(p, a, a)", 2,
     [](const Slots& v) { return choice(truth(v.c > 0), plus(v.x, v.d), v.y); }},
    {"where(not p, a, b) -> where(p, b, a)", 3,
     [](const Slots& v) {
       return choice(negation(op(Op::kAnd, less(v.x, v.c), less(v.y, v.d))), plus(v.x, v.k), v.y);
     }},
    {"where(p, where(p, a, b), c) -> where(p, a, c)", 3,
     [](const Slots& v) {
       const Node p = less(v.x, v.c);
       return choice(p, choice(p, v.y, plus(v.x, v.d)), idx_const(v.k));
     }},
    {"where(p, where(p, a, b), c) -> where(p, a, c)", 3,
     [](const Slots& v) {
       const Node p = less(v.x, v.c);
       return choice(p, idx_const(v.k), choice(p, v.y, plus(v.x, v.d)));
     }},
    {"where of bools -> and, or, not", 2,
     [](const Slots& v) { return choice(less(v.x, v.c), truth(true), less(v.y, v.d)); }},
    {"where of bools -> and, or, not", 2,
     [](const Slots& v) { return choice(less(v.x, v.c), less(v.y, v.d), truth(false)); }},
    {"where of bools -> and, or, not", 2,
     [](const Slots& v) {
       return choice(op(Op::kOr, less(v.x, v.c), less(v.y, v.d)), truth(false), truth(true));
     }},
    {"where(a < b, a, b) -> min(a, b)", 2,
     [](const Slots& v) {
       const Node a = times(v.x, v.c);
       const Node b = plus(v.y, v.d);
       return choice(less(a, b), a, b);
     }},
    {"where(a < b, a, b) -> min(a, b)", 2,
     [](const Slots& v) {
       const Node a = times(v.x, v.c);
       const Node b = plus(v.y, v.d);
       return choice(op(Op::kLe, a, b), b, a);
     }},
    {"cast(cast(x)) -> x for positions", 2,
     [](const Slots& v) { return round_trip(plus(times(v.x, 40 * v.c), v.d), DType::kI8); }},
    {"cast(cast(x)) -> x for positions", 2,
     [](const Slots& v) { return round_trip(plus(times(v.x, 40 * v.c), v.d), DType::kU8); }},
    {"cast(cast(x)) -> x for positions", 2,
     [](const Slots& v) { return round_trip(plus(times(v.x, v.c), v.d), DType::kU32); }},
};

// Two axes, and a scalar that may be negative.
struct Variables {
  std::vector<Node> nodes{axis(0, 5), axis(1, 3), make_scalar(0, -3, 3)};
  std::vector<std::vector<ScalarBits>> points = std::vector<std::vector<ScalarBits>>(3);

  Variables() {
    for (int64_t i = 0; i < 5 * 3 * 7; ++i) {
      points[0].push_back(static_cast<ScalarBits>(i % 5));
      points[1].push_back(static_cast<ScalarBits>(i / 5 % 3));
      points[2].push_back(static_cast<ScalarBits>(i / 15 - 3));
    }
  }
};

// Calls `body` with all choices of the variables and of so many constants: -2 to 6, or fewer where
// there are four.
template <class Body>
void for_all_slots(const Variables& variables, int num_constants, Body body) {
  const int64_t low = num_constants == 4 ? -1 : -2;
  const int64_t high = num_constants == 4 ? 4 : 6;
  int64_t total = 1;
  for (int i = 0; i < num_constants; ++i)
    total *= high - low + 1;
  for (const Node& x : variables.nodes) {
    for (const Node& y : variables.nodes) {
      for (int64_t i = 0; i < total; ++i) {
        Slots slots{x, y};
        int64_t rest = i;
        for (int64_t* slot : {&slots.c, &slots.d, &slots.k, &slots.m}) {
          *slot = low + rest % (high - low + 1);
          rest /= high - low + 1;
        }
        body(slots);
      }
    }
  }
}

TEST(SimplifyIndex, EveryRuleKeepsAllValuesOfItsPatterns) {
  const Variables variables;
  std::map<std::string_view, int64_t> cases;  // expressions times points
  for (const Pattern& pattern : kPatterns) {
    std::set<Node, bool (*)(const Node&, const Node&)> seen(
        [](const Node& a, const Node& b) { return a.serial() < b.serial(); });
    int64_t num_own = 0;
    for_all_slots(variables, pattern.num_constants, [&](const Slots& slots) {
      const Node expr = pattern.make(slots);
      if (::testing::Test::HasFatalFailure() || !seen.insert(expr).second) return;
      fired().clear();
      check(expr, variables.nodes, 0, variables.points);
      for (const auto& [rule, count] : fired())
        cases[rule] += std::ssize(variables.points[0]);
      num_own += fired().contains(pattern.rule) ? 1 : 0;
    });
    ASSERT_FALSE(HasFatalFailure()) << pattern.rule;
    EXPECT_GT(num_own, 0) << "no expression of its pattern reaches " << pattern.rule;
  }
  const auto count_rule = [&](std::string_view rule) {
    std::cout << cases[rule] << " cases: " << rule << "\n";
    EXPECT_GT(cases[rule], 0) << "no pattern for " << rule;
  };
  for (const IndexRule& rule : index_rules())
    count_rule(rule.name);
  for (const SumRule& rule : sum_rules())
    count_rule(rule.name);
}

// What a fact says is used where it holds.
TEST(SimplifyIndex, FactsKeepAllValuesWhereTheyHold) {
  const Variables variables;
  int64_t num_cases = 0;
  int64_t num_changed = 0;
  for_all_slots(variables, 4, [&](const Slots& slots) {
    if (::testing::Test::HasFatalFailure()) return;
    const Node fact = less(times(slots.x, slots.c), slots.d);
    const Node expr = plus(mod(slots.x, slots.k), op(Op::kMin, slots.x, plus(slots.y, slots.m)));
    const Node simplified = simplify_index(expr, std::span(&fact, 1));
    const auto values = [&](const Node& node) {
      return ExprEvaluator(node, variables.nodes).run(variables.points);
    };
    const std::vector<ScalarBits> holds = values(fact);
    const std::vector<ScalarBits> before = values(expr);
    const std::vector<ScalarBits> after = values(simplified);
    for (size_t i = 0; i < holds.size(); ++i) {
      if (holds[i] == 0) continue;
      ++num_cases;
      ASSERT_EQ(before[i], after[i])
          << text(expr) << " -> " << text(simplified) << " where " << text(fact);
    }
    num_changed += simplified == simplify_index(expr) ? 0 : 1;
  });
  std::cout << num_cases << " cases; " << num_changed << " expressions use the fact\n";
  EXPECT_GT(num_changed, 0);
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

TEST(SimplifyIndex, RandomExpressionsKeepTheirValues) {
  constexpr uint64_t kNumSeeds = 10000;
  fired().clear();
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
