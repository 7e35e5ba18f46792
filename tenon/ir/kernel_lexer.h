// Cuts kernel text into tokens; used by kernel_parse.cpp and kernel_parse_expr.cpp.
// SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon::detail {

struct KernelToken {
  enum class Kind { kEnd, kName, kNumber, kTemp, kPunct };
  Kind kind = Kind::kEnd;
  std::string_view text;    ///< kNumber: without the dtype; kTemp: with its $
  std::string_view suffix;  ///< kNumber: the dtype's name behind it, if any
  size_t offset = 0;

  bool is(std::string_view word) const {
    return (kind == Kind::kPunct || kind == Kind::kName) && text == word;
  }
};

/// Throws kInvalidArgument "source:line:column: message" for the place at `offset`.
[[noreturn]] void fail_at(std::string_view text, std::string_view source_name, size_t offset,
                          std::string_view message);

/// All tokens, kEnd last. Borrows `text`.
std::vector<KernelToken> lex_kernel(std::string_view text, std::string_view source_name);

}  // namespace tenon::detail
