// The words of kernel text, shared by its printer and its parser. SPDX-License-Identifier: MIT

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/ir/kernel.h"

namespace tenon::detail {

constexpr size_t kMaxNameLength = 200;

/// Infix operators; a higher precedence binds tighter. All bind to the left, comparisons do not
/// chain.
struct InfixOp {
  Op op;
  std::string_view text;
  int precedence;
};
constexpr int kComparePrecedence = 3;
constexpr int kPrimaryPrecedence = 7;
constexpr std::array<InfixOp, 15> kInfixOps{{{Op::kLt, "<", kComparePrecedence},
                                             {Op::kLe, "<=", kComparePrecedence},
                                             {Op::kEq, "==", kComparePrecedence},
                                             {Op::kNe, "!=", kComparePrecedence},
                                             {Op::kOr, "|", 0},
                                             {Op::kXor, "^", 1},
                                             {Op::kAnd, "&", 2},
                                             {Op::kShl, "<<", 4},
                                             {Op::kShr, ">>", 4},
                                             {Op::kAdd, "+", 5},
                                             {Op::kSub, "-", 5},
                                             {Op::kMul, "*", 6},
                                             {Op::kDiv, "/", 6},
                                             {Op::kFloorDiv, "//", 6},
                                             {Op::kFloorMod, "%", 6}}};

const InfixOp* find_infix(Op op);
const InfixOp* find_infix(std::string_view text);

/// "seq", "unroll", ...; grid and lane take their dimension behind them: "lane0".
std::string role_text(Role role, int dim);
struct RoleAndDim {
  Role role;
  int dim;
};
std::optional<RoleAndDim> find_role(std::string_view word);

std::string_view scope_text(Scope scope);
std::optional<Scope> find_scope(std::string_view word);
std::string_view access_text(BufferAccess access);
std::optional<BufferAccess> find_access(std::string_view word);
Scope default_scope(BufferAccess access);

/// What stands between destination and value: "=", "+=", "max=".
std::string assign_text(std::optional<Op> combine);

/// Words that cannot be names of buffers, scalars and axes.
bool is_reserved(std::string_view word);
bool is_identifier(std::string_view word);

}  // namespace tenon::detail
