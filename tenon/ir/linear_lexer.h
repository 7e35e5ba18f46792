// Cuts the text of linear programs into tokens and words its errors; used by linear_parse.cpp
// alone. SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <string_view>

namespace tenon::detail {

struct LinearToken {
  enum class Kind { kEnd, kWord, kValue, kNumber, kString, kPunct };
  Kind kind = Kind::kEnd;
  std::string_view text;  ///< kValue: without %; kString: between the quotes, escapes as written
  size_t offset = 0;

  bool is(std::string_view punct_or_word) const {
    return (kind == Kind::kPunct || kind == Kind::kWord) && text == punct_or_word;
  }
};

/// Borrows the text and the name until it is destroyed.
class LinearLexer {
 public:
  LinearLexer(std::string_view text, std::string_view source_name)
      : text_(text), source_name_(source_name) {
    advance();
  }

  const LinearToken& peek() const { return token_; }
  LinearToken take();

  /// Throws kInvalidArgument "source:line:column: message", the position being that of a token.
  [[noreturn]] void fail_at(const LinearToken& token, std::string_view message) const;
  /// The same: "found ..., expected ...".
  [[noreturn]] void fail_expected(std::string_view expected) const;

 private:
  void advance();
  void skip_blank();
  void lex_number();
  void lex_string();
  void lex_punct();
  void set(LinearToken::Kind kind, size_t begin, size_t end);

  std::string_view text_;
  std::string_view source_name_;
  size_t position_ = 0;
  LinearToken token_;
};

}  // namespace tenon::detail
