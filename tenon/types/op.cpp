// Tables behind op.h. SPDX-License-Identifier: MIT

#include "tenon/types/op.h"

#include <array>

#include "tenon/base/error.h"

namespace tenon {
namespace {

// NOLINTBEGIN(readability-identifier-naming): letters of a table
constexpr uint8_t T = kTensorLevel;
constexpr uint8_t K = kKernelLevel;
constexpr uint8_t L = kLinearLevel;
// NOLINTEND(readability-identifier-naming)

constexpr OpInfo kRows[] = {
#define TENON_OP(name, number, text, arity, op_class, rule, levels) \
  {Op::name, text, arity, OpClass::op_class, DTypeRule::rule, static_cast<uint8_t>(levels)},
#include "tenon/types/op.def"
#undef TENON_OP
};

constexpr auto make_row_of_number() {
  std::array<uint8_t, 256> rows{};
  for (size_t i = 0; i < std::size(kRows); ++i) {
    rows[static_cast<size_t>(kRows[i].op)] = static_cast<uint8_t>(i + 1);
  }
  return rows;
}
constexpr auto kRowOfNumber = make_row_of_number();

constexpr int count_linear_ops() {
  int count = 0;
  for (const OpInfo& row : kRows)
    count += (row.levels & L) != 0 ? 1 : 0;
  return count;
}
static_assert(count_linear_ops() == 50, "docs/ir.md specifies 50 linear ops");

}  // namespace

const OpInfo& op_info(Op op) {
  const uint8_t row = kRowOfNumber[static_cast<size_t>(op)];
  TENON_ASSERT(row != 0, "no op has number ", static_cast<int>(op));
  return kRows[row - 1];
}

bool is_elementwise(Op op) {
  const OpClass op_class = op_info(op).op_class;
  return op_class == OpClass::kUnary || op_class == OpClass::kBinary ||
         op_class == OpClass::kTernary || op_class == OpClass::kNary;
}

bool is_optional(Op op) {
  return op == Op::kSqrt || op == Op::kTrunc || op == Op::kFma || op == Op::kMulAcc4 ||
         op == Op::kExp2 || op == Op::kLog2 || op == Op::kSin;
}

bool is_movement(Op op) {
  return op_info(op).op_class == OpClass::kMovement;
}

bool is_bounded_class(Op op) {
  return op >= Op::kExp2 && op <= Op::kSigmoid;
}

bool is_combining(Op op) {
  return op == Op::kAdd || op == Op::kMul || op == Op::kMin || op == Op::kMax || op == Op::kAnd ||
         op == Op::kOr;
}

bool is_commutative(Op op) {
  return is_combining(op) || op == Op::kXor || op == Op::kEq || op == Op::kNe;
}

std::optional<Op> find_op(std::string_view name, OpLevel level) {
  for (const OpInfo& row : kRows) {
    if (row.name == name && (row.levels & level) != 0) return row.op;
  }
  return std::nullopt;
}

std::optional<Op> op_from_number(uint8_t number) {
  if (kRowOfNumber[number] == 0) return std::nullopt;
  return static_cast<Op>(number);
}

std::span<const OpInfo> all_ops() {
  return kRows;
}

}  // namespace tenon
