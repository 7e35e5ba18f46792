// SPDX-License-Identifier: MIT
// Tokens of linear text: words, %values, unsigned numbers, strings, punctuation. Numbers carry no
// sign, so that `%o + 4` and `%o +4` are one; "0..4" is a number, "..", a number.

#include "tenon/ir/linear_lexer.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon::detail {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

}  // namespace

LinearToken LinearLexer::take() {
  const LinearToken taken = token_;
  advance();
  return taken;
}

void LinearLexer::fail_at(const LinearToken& token, std::string_view message) const {
  const std::string_view before = text_.substr(0, std::min(token.offset, text_.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_begin =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  fail(ErrorCode::kInvalidArgument, source_name_, ":", line, ":", before.size() - line_begin + 1,
       ": ", message);
}

void LinearLexer::fail_expected(std::string_view expected) const {
  constexpr size_t kMaxShown = 40;
  const std::string_view shown = token_.text.substr(0, kMaxShown);
  std::string found;
  switch (token_.kind) {
    case LinearToken::Kind::kEnd: found = "the end of the text"; break;
    case LinearToken::Kind::kValue: found = quoted("%" + std::string(shown)); break;
    case LinearToken::Kind::kString: found = concat("the string ", quoted(shown)); break;
    case LinearToken::Kind::kWord:
    case LinearToken::Kind::kNumber:
    case LinearToken::Kind::kPunct: found = quoted(shown); break;
  }
  fail_at(token_, concat("found ", found, ", expected ", expected));
}

void LinearLexer::set(LinearToken::Kind kind, size_t begin, size_t end) {
  token_.kind = kind;
  token_.text = text_.substr(begin, end - begin);
  position_ = end;
}

void LinearLexer::skip_blank() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';') {
      ++position_;
    } else {
      return;
    }
  }
}

void LinearLexer::advance() {
  skip_blank();
  token_ = {};
  token_.offset = position_;
  if (position_ == text_.size()) return;
  const auto word_end = [&](size_t begin) {
    size_t end = begin;
    while (end < text_.size() && is_word_char(text_[end]))
      ++end;
    return end;
  };
  const char c = text_[position_];
  if (c == '%') {
    const size_t end = word_end(position_ + 1);
    if (end == position_ + 1) fail_at(token_, "found a lone '%', expected a value's name after it");
    set(LinearToken::Kind::kValue, position_ + 1, end);
  } else if (is_digit(c)) {
    lex_number();
  } else if (is_word_char(c)) {
    set(LinearToken::Kind::kWord, position_, word_end(position_));
  } else if (c == '"') {
    lex_string();
  } else {
    lex_punct();
  }
}

void LinearLexer::lex_number() {
  const bool is_hex = text_.substr(position_, 2) == "0x";
  size_t end = position_;
  while (end < text_.size()) {
    const char c = text_[end];
    const bool is_point = c == '.' && !(end + 1 < text_.size() && text_[end + 1] == '.');
    const char last = end > position_ ? text_[end - 1] : ' ';
    const bool is_exponent_sign = (c == '+' || c == '-') && !is_hex && (last == 'e' || last == 'E');
    if (!is_word_char(c) && !is_point && !is_exponent_sign) break;
    ++end;
  }
  set(LinearToken::Kind::kNumber, position_, end);
}

void LinearLexer::lex_string() {
  size_t end = position_ + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
    end += text_[end] == '\\' ? 2 : 1;
  }
  if (end >= text_.size() || text_[end] != '"') fail_at(token_, "this string does not end");
  set(LinearToken::Kind::kString, position_ + 1, end);
  ++position_;
}

void LinearLexer::lex_punct() {
  const std::string_view two = text_.substr(position_, 2);
  if (two == ".." || two == "->") {
    set(LinearToken::Kind::kPunct, position_, position_ + 2);
    return;
  }
  constexpr std::string_view kSingles = "{}()[]=,+-";
  if (kSingles.find(text_[position_]) == std::string_view::npos) {
    fail_at(token_, concat("found the character ", quoted(text_.substr(position_, 1)),
                           ", which begins nothing"));
  }
  set(LinearToken::Kind::kPunct, position_, position_ + 1);
}

}  // namespace tenon::detail
