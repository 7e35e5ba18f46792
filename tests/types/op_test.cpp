// The op table: every row can be found again, and its facts agree with each other.
// SPDX-License-Identifier: MIT

#include "tenon/types/op.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tenon {
namespace {

TEST(Op, RowsAreInOrderAndFoundByNumberAndName) {
  int last = -1;
  for (const OpInfo& row : all_ops()) {
    EXPECT_GT(static_cast<int>(row.op), last) << row.name;
    last = static_cast<int>(row.op);
    EXPECT_EQ(op_from_number(static_cast<uint8_t>(row.op)), row.op);
    EXPECT_EQ(op_info(row.op).name, row.name);
    for (const OpLevel level : {kTensorLevel, kKernelLevel, kLinearLevel}) {
      const std::optional<Op> found = find_op(row.name, level);
      if (has_level(row.op, level)) {
        EXPECT_EQ(found, row.op) << row.name;
      } else {
        EXPECT_EQ(found, std::nullopt) << row.name;
      }
    }
  }
  EXPECT_EQ(op_from_number(0), std::nullopt);
  EXPECT_EQ(op_from_number(255), std::nullopt);
  EXPECT_EQ(find_op("frobnicate", kTensorLevel), std::nullopt);
}

TEST(Op, LinearLevelHasTheSpecifiedOps) {
  const std::set<std::string> specified = {
      "func",    "for",     "if",      "yield",      "barrier",   "const",      "param", "grid_id",
      "lane_id", "alloc",   "load",    "store",      "prefetch",  "atomic",     "splat", "ramp",
      "extract", "shuffle", "first_n", "unit_setup", "tile_load", "tile_store", "mma",   "add",
      "sub",     "mul",     "div",     "mod",        "mulacc",    "mulacc4",    "fma",   "min",
      "max",     "and",     "or",      "xor",        "not",       "shl",        "shr",   "lt",
      "le",      "eq",      "where",   "cast",       "bitcast",   "sqrt",       "trunc", "exp2",
      "log2",    "sin"};
  std::set<std::string> listed;
  for (const OpInfo& row : all_ops()) {
    if (has_level(row.op, kLinearLevel)) listed.emplace(row.name);
  }
  EXPECT_EQ(listed, specified);
}

TEST(Op, ClassesAgreeWithArityAndPredicates) {
  for (const OpInfo& row : all_ops()) {
    const bool is_scalar_function =
        row.op_class == OpClass::kUnary || row.op_class == OpClass::kBinary ||
        row.op_class == OpClass::kTernary || row.op_class == OpClass::kNary;
    EXPECT_EQ(is_elementwise(row.op), is_scalar_function) << row.name;
    const auto implies = [](bool condition, bool conclusion) { return !condition || conclusion; };
    EXPECT_TRUE(implies(row.op_class == OpClass::kUnary, row.arity == 1)) << row.name;
    EXPECT_TRUE(implies(row.op_class == OpClass::kBinary, row.arity == 2)) << row.name;
    EXPECT_TRUE(implies(row.op_class == OpClass::kTernary, row.arity == 3)) << row.name;
    EXPECT_TRUE(implies(row.op_class == OpClass::kNary, row.arity > 3)) << row.name;
    EXPECT_TRUE(implies(is_elementwise(row.op), row.arity <= static_cast<int>(kMaxScalarOperands)));
    EXPECT_TRUE(implies(is_combining(row.op), is_commutative(row.op))) << row.name;
    EXPECT_TRUE(implies(is_commutative(row.op), row.arity == 2)) << row.name;
    EXPECT_TRUE(implies(is_bounded_class(row.op), row.rule == DTypeRule::kSameFloat)) << row.name;
  }
  EXPECT_TRUE(is_bounded_class(Op::kTanh));
  EXPECT_FALSE(is_bounded_class(Op::kSqrt));
  EXPECT_FALSE(is_commutative(Op::kSub));
}

}  // namespace
}  // namespace tenon
