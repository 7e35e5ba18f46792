// The words of kernel text. SPDX-License-Identifier: MIT

#include "tenon/ir/kernel_words.h"

#include <algorithm>

#include "tenon/base/text.h"

namespace tenon::detail {

const InfixOp* find_infix(Op op) {
  const auto* const found = std::find_if(kInfixOps.begin(), kInfixOps.end(),
                                         [&](const InfixOp& row) { return row.op == op; });
  return found == kInfixOps.end() ? nullptr : found;
}

const InfixOp* find_infix(std::string_view text) {
  const auto* const found = std::find_if(kInfixOps.begin(), kInfixOps.end(),
                                         [&](const InfixOp& row) { return row.text == text; });
  return found == kInfixOps.end() ? nullptr : found;
}

namespace {

constexpr std::array<std::string_view, 7> kRoleWords{"none",   "grid", "lane", "seq",
                                                     "unroll", "vec",  "unit"};
constexpr std::array<std::string_view, 4> kScopeWords{"none", "global", "group", "reg"};
constexpr std::array<std::string_view, 5> kAccessWords{"", "in", "out", "inout", "tmp"};
constexpr int kMaxDims = 3;  // of grid and lanes

}  // namespace

std::string role_text(Role role, int dim) {
  const std::string_view word = kRoleWords.at(static_cast<size_t>(role));
  if (role == Role::kGrid || role == Role::kLane) return concat(word, dim);
  return std::string(word);
}

std::optional<RoleAndDim> find_role(std::string_view word) {
  for (size_t i = 0; i < kRoleWords.size(); ++i) {
    const auto role = static_cast<Role>(i);
    if (role == Role::kGrid || role == Role::kLane) {
      for (int dim = 0; dim < kMaxDims; ++dim) {
        if (word == role_text(role, dim)) return RoleAndDim{role, dim};
      }
    } else if (word == kRoleWords[i]) {
      return RoleAndDim{role, 0};
    }
  }
  return std::nullopt;
}

std::string_view scope_text(Scope scope) {
  return kScopeWords.at(static_cast<size_t>(scope));
}

std::optional<Scope> find_scope(std::string_view word) {
  for (size_t i = 0; i < kScopeWords.size(); ++i) {
    if (word == kScopeWords[i]) return static_cast<Scope>(i);
  }
  return std::nullopt;
}

std::string_view access_text(BufferAccess access) {
  return kAccessWords.at(static_cast<size_t>(access));
}

std::optional<BufferAccess> find_access(std::string_view word) {
  for (size_t i = 1; i < kAccessWords.size(); ++i) {
    if (word == kAccessWords[i]) return static_cast<BufferAccess>(i);
  }
  return std::nullopt;
}

Scope default_scope(BufferAccess access) {
  return access == BufferAccess::kTmp ? Scope::kNone : Scope::kGlobal;
}

std::string assign_text(std::optional<Op> combine) {
  if (!combine) return "=";
  const bool is_infix =
      *combine == Op::kAdd || *combine == Op::kMul || *combine == Op::kAnd || *combine == Op::kOr;
  return concat(is_infix ? find_infix(*combine)->text : op_name(*combine), "=");
}

bool is_identifier(std::string_view word) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !word.empty() && word.size() <= kMaxNameLength && is_letter(word[0]) &&
         std::all_of(word.begin(), word.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

bool is_reserved(std::string_view word) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"kernel", "nest", "scalar", "over",    "start", "guard",   "nt",   "for",  "to",
       "if",     "else", "alloc",  "combine", "via",   "barrier", "let",  "grid", "lanes",
       "align",  "par",  "red",    "scan",    "inf",   "nan",     "true", "false"});
  if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) return true;
  if (find_role(word) || find_scope(word) || find_access(word) || find_dtype(word)) return true;
  if (word.starts_with("inf_") || word.starts_with("nan_") || word.starts_with("bitcast_")) {
    return true;
  }
  return find_op(word, kKernelLevel).has_value();
}

}  // namespace tenon::detail
