// Tokens of kernel text. SPDX-License-Identifier: MIT

#include "tenon/ir/kernel_lexer.h"

#include <algorithm>
#include <array>

#include "tenon/base/error.h"

namespace tenon::detail {

namespace {

constexpr size_t kMaxTextBytes = size_t{16} << 20;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view source_name)
      : text_(text), source_name_(source_name) {}

  std::vector<KernelToken> run() {
    for (skip_blank(); at_ < text_.size(); skip_blank()) {
      const char c = text_[at_];
      if (is_letter(c)) {
        add(KernelToken::Kind::kName,
            end_of(at_, [](char d) { return is_letter(d) || is_digit(d); }));
      } else if (is_digit(c)) {
        lex_number();
      } else if (c == '$') {
        add(KernelToken::Kind::kTemp, end_of(at_ + 1, is_digit));
      } else {
        lex_punct();
      }
    }
    tokens_.push_back({KernelToken::Kind::kEnd, {}, {}, text_.size()});
    return std::move(tokens_);
  }

 private:
  template <typename Predicate>
  size_t end_of(size_t from, Predicate predicate) const {
    while (from < text_.size() && predicate(text_[from]))
      ++from;
    return from;
  }

  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  void add(KernelToken::Kind kind, size_t end) {
    tokens_.push_back({kind, text_.substr(at_, end - at_), {}, at_});
    at_ = end;
  }

  size_t end_of_decimal() const {
    size_t end = end_of(at_, is_digit);
    if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
      end = end_of(end + 1, is_digit);
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t digits = end + 1;
      if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
      const size_t exponent_end = end_of(digits, is_digit);
      if (exponent_end > digits) end = exponent_end;
    }
    return end;
  }

  // Digits, a fraction, an exponent, or 0x and digits; then a dtype, directly or after an
  // underscore.
  void lex_number() {
    const bool is_hexadecimal = text_.substr(at_).starts_with("0x");
    const size_t end = is_hexadecimal ? end_of(at_ + 2, is_hex) : end_of_decimal();
    add(KernelToken::Kind::kNumber, end);
    size_t suffix = end;
    if (suffix < text_.size() && text_[suffix] == '_') ++suffix;
    const size_t suffix_end = end_of(suffix, [](char d) { return is_letter(d) || is_digit(d); });
    tokens_.back().suffix = text_.substr(suffix, suffix_end - suffix);
    at_ = suffix_end;
  }

  void lex_punct() {
    static constexpr auto kPuncts = std::to_array<std::string_view>(
        {"<<", ">>", "<=", ">=", "==", "!=", "//", "+=", "*=", "&=", "|=",
         "..", "+",  "-",  "*",  "/",  "%",  "<",  ">",  "=",  "&",  "|",
         "^",  "(",  ")",  "[",  "]",  "{",  "}",  ":",  ",",  ";"});
    for (const std::string_view punct : kPuncts) {
      if (text_.substr(at_).starts_with(punct))
        return add(KernelToken::Kind::kPunct, at_ + punct.size());
    }
    fail_at(text_, source_name_, at_,
            concat("unexpected character ", quoted(text_.substr(at_, 1))));
  }

  std::string_view text_;
  std::string_view source_name_;
  size_t at_ = 0;
  std::vector<KernelToken> tokens_;
};

}  // namespace

void fail_at(std::string_view text, std::string_view source_name, size_t offset,
             std::string_view message) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  fail(ErrorCode::kInvalidArgument, source_name, ":", lines + 1, ":",
       before.size() - line_start + 1, ": ", message);
}

std::vector<KernelToken> lex_kernel(std::string_view text, std::string_view source_name) {
  TENON_CHECK(text.size() <= kMaxTextBytes, ErrorCode::kInvalidArgument, source_name,
              ":1:1: kernel text has ", text.size(), " bytes; at most ", kMaxTextBytes,
              " are read");
  return Lexer(text, source_name).run();
}

}  // namespace tenon::detail
